"""What a server is told, and what it takes at most of anything. Checked where it is made."""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Self

from bertkit.errors import UsageError, nearest, shortened

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
    queue: int = 1024
    """Inputs that wait or are computed at a time, for each model."""
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
        if self.queue < self.items:
            raise UsageError(
                f"a queue of {self.queue} cannot hold a request of {self.items} items",
                "Raise the limit queue, or lower items.",
            )

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
class Settings:
    models: Mapping[str, str]
    """Name to folder, or to the name of a model on the hub. The first is the default one."""
    host: str = "127.0.0.1"
    port: int = 8000
    token: str | None = None
    hosts: tuple[str, ...] = ()
    """Names that clients may call this server by, besides localhost and addresses."""
    origins: tuple[str, ...] = ()
    """Web pages of these may ask too."""
    lazy: bool = False
    memory: int | None = None
    """Bytes that the weights of loaded models may take together."""
    workers: int = 1
    reload_seconds: float = 2.0
    """How often folders are looked at; 0 for never."""
    wait_seconds: float = 0.002
    """How long a text waits at most for others to be computed with."""
    batch_tokens: int | None = None
    """Tokens that are computed together; by the machine unless said."""
    runtime: str = "torch"
    device: str = "auto"
    precision: str = "float32"
    threads: int | None = None
    ignore_config_keys: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        if not self.models:
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

    @property
    def default(self) -> str:
        return next(iter(self.models))

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        values = json.loads(text)
        values["limits"] = Limits(**values["limits"])
        for name in ("hosts", "origins", "ignore_config_keys"):
            values[name] = tuple(values[name])
        return cls(**values)


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
