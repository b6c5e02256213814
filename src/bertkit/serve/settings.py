"""What a server is told, and what it takes at most of anything. Checked where it is made."""

from __future__ import annotations

import ipaddress
import json
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import Any, Self

from bertkit.device import OnMachine
from bertkit.errors import UsageError, nearest, shortened
from bertkit.settings import argument, option, size_in_bytes

ACCESS, LOAD, MACHINE = "who may ask", "the load", "the machine"
_TOKEN = re.compile("[!-~]{8,}")


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What is more, longer or later is refused."""

    body_bytes: int = 2 * 2**20
    header_bytes: int = 32 * 2**10
    headers: int = 100
    values: int = 32_768
    """Of JSON in one body: texts, numbers, lists, keys."""
    items: int = 256
    """Inputs of one request."""
    characters: int = 100_000
    """Of one input, all its texts together."""
    tokens: int = 16_384
    """Of one input, however many windows it is read through."""
    queue_tokens: int = 262_144
    """Of those that wait, for each model."""
    held_bytes: int = 128 * 2**20
    """Of all bodies that are being read or answered."""
    connections: int = 4096
    header_seconds: float = 5.0
    body_seconds: float = 15.0
    request_seconds: float = 30.0
    """From the last byte of a request to the last of its answer."""
    idle_seconds: float = 30.0
    """How long a connection may wait for its next request, and an answer for its reader."""
    grace_seconds: float = 30.0
    """How long a server that is stopped goes on with what it has accepted."""

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if value <= 0:
                raise UsageError(f"the limit {each.name} is {value}", "It must be above 0.")

    @classmethod
    def parse(cls, given: Sequence[str]) -> Self:
        """From what a user wrote: ["items=32", "request_seconds=5"]."""
        kinds: dict[str, Callable[[str], Any]] = {
            each.name: int if isinstance(each.default, int) else float for each in fields(cls)
        }
        found: dict[str, Any] = {}
        for each in given:
            name, _, value = each.partition("=")
            if name not in kinds:
                raise UsageError(
                    f"no limit is called {shortened(name)}", f"{nearest(name, kinds)} There are: {', '.join(kinds)}."
                )
            try:
                found[name] = kinds[name](value)
            except ValueError:
                raise UsageError(f"the limit {name} is {shortened(value)}", "Write NAME=NUMBER.") from None
        return cls(**found)


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
    wait: str = option("2s", "Who would have to wait for longer is refused at once: 2s, 500ms.", group=LOAD)
    batch_tokens: int | None = option(None, "Tokens computed together.", least=1, usual="by the machine", group=LOAD)
    limit: tuple[str, ...] = option(
        (), "Another limit than usual, as items=32; docs/serving.md has all.", metavar="NAME=NUMBER", group=LOAD
    )
    precision: str = option("float32", "float32 (exact), or auto: what is fastest on this machine.", group=MACHINE)
    runtime: str = option(
        "torch", "torch; or onnx or onnx-int8, if `bertkit export` made the folder for them.", group=MACHINE
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.token is None:
            object.__setattr__(self, "token", os.environ.get("BERTKIT_TOKEN"))
        if not self.folders:
            raise UsageError("no model to serve", "Name at least one model folder.")
        if self.token == "":
            raise UsageError("the token is empty", "Set BERTKIT_TOKEN or `token` to 8 letters or more, or unset it.")
        if self.token is not None and not _TOKEN.fullmatch(self.token):
            raise UsageError(
                "the token is too short, or has spaces or characters beyond ASCII", "Use 8 letters or more."
            )
        if self.token is None and not is_loopback(self.host):
            raise UsageError(
                f"`host={self.host}` would let anybody who reaches this machine use it",
                "Set a token (BERTKIT_TOKEN=..., or `token`), or stay on 127.0.0.1.",
            )
        _ = self.limits, self.memory_bytes, self.wait_seconds  # which refuse what cannot be read

    @cached_property
    def folders(self) -> dict[str, str]:
        """Name to folder, or to the name of a model on the hub. The first is the default one."""
        return named(self.models)

    @property
    def default(self) -> str:
        return next(iter(self.folders))

    @cached_property
    def limits(self) -> Limits:
        return Limits.parse(self.limit)

    @cached_property
    def memory_bytes(self) -> int | None:
        return None if self.memory is None else size_in_bytes("memory", self.memory, base=1024)

    @cached_property
    def wait_seconds(self) -> float:
        found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ms|s)", self.wait.strip())
        if found is None or not (size := float(found[1])):
            raise UsageError(f"`wait` is {shortened(self.wait)}", "Write a time with its unit: 2s or 500ms.")
        return size / 1000 if found[2] == "ms" else size

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        return cls(**json.loads(text))


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def named(models: Sequence[str]) -> dict[str, str]:
    """A name for each model that was given: the end of its path, or what stands before "=".

    >>> named(["models/reviews", "ner=models/a"])
    {'reviews': 'models/reviews', 'ner': 'models/a'}
    """
    found: dict[str, str] = {}
    for given in models:
        name, equals, folder = given.partition("=")
        if not equals:
            folder = given
            name = given.rstrip("/").rsplit("/", 1)[-1]
            if name in ("", ".", ".."):
                from pathlib import Path

                name = Path(given).resolve().name
        if not name or not name.isprintable() or any(sign in name for sign in "/?#%"):
            raise UsageError(f"{shortened(name)} cannot be a model's name", "Give it one: NAME=FOLDER.")
        if name in found:
            raise UsageError(f"two models are called {name!r}", f"Name one of them otherwise: OTHER={folder}.")
        found[name] = folder
    return found
