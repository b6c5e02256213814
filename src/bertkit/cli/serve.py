"""`bertkit serve`: models over HTTP."""

from __future__ import annotations

import os
from dataclasses import dataclass

from bertkit.cli.options import IGNORE_KEY, MACHINE, PRECISION, RUNTIME, size_in_bytes
from bertkit.device import OnMachine
from bertkit.errors import UsageError
from bertkit.settings import argument, option

ACCESS, LOAD = "who may ask", "the load"


@dataclass(frozen=True, kw_only=True)
class Serving(OnMachine):
    models: tuple[str, ...] = argument(
        ..., "Model folders, or names on the hub; NAME=FOLDER gives one a name.", metavar="MODEL..."
    )
    host: str = option(
        "127.0.0.1", "The address to listen on. Another than this machine's needs a token.", group=ACCESS
    )
    port: int = option(8000, "0 takes a free one, and says which.", least=0, most=65535, group=ACCESS)
    token: str | None = option(
        None, "What clients must send. Others see it in the list of processes: better BERTKIT_TOKEN=...", group=ACCESS
    )
    allow_host: tuple[str, ...] = option((), "A name that this server may be called by. Repeatable.", group=ACCESS)
    allow_origin: tuple[str, ...] = option(
        (), "Web pages of this server may ask too: https://name. Repeatable.", group=ACCESS
    )
    lazy: bool = option(False, "Load a model when it is asked for, not at the start.", group=LOAD)
    memory: str | None = option(
        None, "What the weights may take, as 4G; the model unused longest is unloaded.", group=LOAD
    )
    workers: int = option(1, "Processes, each with the models for itself.", least=1, group=LOAD)
    reload: float = option(2.0, "Seconds between looks at the folders; 0: never.", least=0, group=LOAD)
    wait: float = option(2.0, "Milliseconds that a text waits for others at most.", least=0, group=LOAD)
    batch_tokens: int | None = option(None, "Tokens computed together.", least=1, usual="by the machine", group=LOAD)
    limit: tuple[str, ...] = option(
        (), "Another limit than usual, as items=32; docs/serving.md has all.", metavar="NAME=NUMBER", group=LOAD
    )
    precision: str = option("float32", PRECISION, group=MACHINE)
    runtime: str = option("torch", RUNTIME, group=MACHINE)
    ignore_config_key: tuple[str, ...] = option((), IGNORE_KEY, metavar="KEY")


def serve(asked: Serving) -> None:
    """Answer over HTTP with any number of models of any task.

    Texts of many requests are computed together. Only this machine can ask unless --host says otherwise.

    \b
    bertkit serve reviews-model
    bertkit serve reviews=models/a ner=models/b --port 9000
    BERTKIT_TOKEN=... bertkit serve MODEL --host 0.0.0.0
    """
    try:
        import fastapi  # noqa: F401
        import httptools  # noqa: F401
        import prometheus_client  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as missing:
        raise UsageError(f"serving needs {missing.name}", "pip install 'bertkit[serve]'") from None
    from bertkit.serve.settings import Limits, Settings, named

    settings = Settings(
        models=named(asked.models),
        host=asked.host,
        port=asked.port,
        token=asked.token if asked.token is not None else os.environ.get("BERTKIT_TOKEN"),
        hosts=asked.allow_host,
        origins=asked.allow_origin,
        lazy=asked.lazy,
        memory=None if asked.memory is None else size_in_bytes("memory", asked.memory, base=1024),
        workers=asked.workers,
        reload_seconds=asked.reload,
        wait_seconds=asked.wait / 1000,
        batch_tokens=asked.batch_tokens,
        device=asked.device,
        precision=asked.precision,
        threads=asked.threads,
        runtime=asked.runtime,
        ignore_config_keys=asked.ignore_config_key,
        limits=Limits.parse(asked.limit),
    )
    from bertkit.serve.server import serve as run

    run(settings)
