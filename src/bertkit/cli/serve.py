"""`bertkit serve`: models over HTTP."""

from __future__ import annotations

import os
import re
from typing import Annotated

import typer

from bertkit.cli.options import Device, IgnoreKeys, Precision, Runtime, Threads
from bertkit.errors import UsageError

UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}


def serve(
    models: Annotated[
        list[str],
        typer.Argument(metavar="MODEL...", help="Model folders, or names on the hub; NAME=FOLDER gives one a name."),
    ],
    host: Annotated[str, typer.Option(help="The address to listen on. Another than this machine's needs a token.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one, and says which.")] = 8000,
    token: Annotated[
        str | None,
        typer.Option(help="What clients must send. Others see it in the list of processes: better BERTKIT_TOKEN=..."),
    ] = None,
    allow_host: Annotated[
        list[str] | None, typer.Option(help="A name that this server may be called by. Repeatable.")
    ] = None,
    allow_origin: Annotated[
        list[str] | None, typer.Option(help="Web pages of this server may ask too: https://name. Repeatable.")
    ] = None,
    lazy: Annotated[bool, typer.Option("--lazy", help="Load a model when it is asked for, not at the start.")] = False,
    memory: Annotated[
        str | None, typer.Option(help="What the weights may take, as 4G; the model unused longest is unloaded.")
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="Processes, each with the models for itself.")] = 1,
    reload: Annotated[float, typer.Option(min=0, help="Seconds between looks at the folders; 0: never.")] = 2.0,
    wait: Annotated[float, typer.Option(min=0, help="Milliseconds that a text waits for others at most.")] = 2.0,
    batch_tokens: Annotated[int | None, typer.Option(min=1, help="Tokens computed together. [by the machine]")] = None,
    limit: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=NUMBER", help="Another limit than usual, as items=32; docs/serving.md has all."),
    ] = None,
    device: Device = "auto",
    precision: Precision = "float32",
    threads: Threads = None,
    runtime: Runtime = "torch",
    ignore_config_key: IgnoreKeys = None,
) -> None:
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
        models=named(models),
        host=host,
        port=port,
        token=token if token is not None else os.environ.get("BERTKIT_TOKEN") or None,
        hosts=tuple(allow_host or ()),
        origins=tuple(allow_origin or ()),
        lazy=lazy,
        memory=None if memory is None else _bytes(memory),
        workers=workers,
        reload_seconds=reload,
        wait_seconds=wait / 1000,
        batch_tokens=batch_tokens,
        device=device,
        precision=precision,
        threads=threads,
        runtime=runtime,
        ignore_config_keys=tuple(ignore_config_key or ()),
        limits=Limits.parse(limit or ()),
    )
    from bertkit.serve.server import serve as run

    run(settings)


def _bytes(text: str) -> int:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMG]?)B?", text.strip(), re.IGNORECASE)
    if found is None:
        raise UsageError(f"--memory is {text!r}", "Write a number of bytes, or as 500M or 4G.")
    return int(float(found[1]) * UNITS[found[2].upper()])
