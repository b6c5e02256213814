"""What the commands that train have in common: going on as it was begun, several processes, Ctrl-C."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer

from bertkit.errors import InterruptionError, UsageError
from bertkit.settings import defaults_of, options_of


def speaks() -> bool:
    """Whether this process says for all what came of it."""
    return int(os.environ.get("RANK", "0")) == 0


def refuse_others(asked: Any, allowed: tuple[str, ...], said: frozenset[str] = frozenset()) -> None:
    """A run goes on as it was begun; what else is said would be ignored."""
    usual = defaults_of(type(asked))
    changed = {name for name in options_of(type(asked)) if getattr(asked, name) != usual[name]}
    for name in sorted((changed | said).difference(allowed)):
        raise UsageError(
            f"`resume` goes on with a run as it was begun, and `{name}` is given",
            "Leave it out; or begin a new run with `start=RUN/model`.",
        )


def as_before(run: Path, device: str, threads: int | None) -> tuple[str, int | None]:
    """A run goes on with the device and threads it had, for the same bits; on another machine with what is there."""
    from bertkit import device as devices
    from bertkit.train.run_facts import facts_of

    facts = facts_of(run) if int(os.environ.get("WORLD_SIZE", "1")) == 1 else None
    if facts is None:
        return device, threads
    before = facts.get("machine", {})
    here = devices.choose(device)
    if before.get("cpu") != here.cpu or before.get("processes") != 1:
        return device, threads
    same = before.get("device") if device == "auto" and before.get("device") == "cpu" else device
    return str(same), threads or before.get("threads")


def threads_under_torchrun() -> int | None:
    """torchrun sets OMP_NUM_THREADS to 1 for each of several processes; the cores are rather shared among them."""
    from bertkit.device import physical_cores

    local = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    if local == 1 or "BERTKIT_THREADS" in os.environ:
        return None
    return max(1, physical_cores() // local)


@contextmanager
def interruption(run: Path, way_on: str) -> Iterator[None]:
    """Before the first step, or the second time, Ctrl-C stops at once."""
    try:
        yield
    except InterruptionError as stopped:
        if not speaks():  # the first process says it for all
            raise typer.Exit(stopped.exit_code) from None
        raise
    except KeyboardInterrupt:
        from bertkit.train.run_facts import facts_of

        begun = facts_of(run) is not None
        raise InterruptionError(
            "stopped at once" + ("; the newest checkpoint stands" if begun else ", and nothing is kept"),
            f"Go on with: {way_on}" if begun else "",
        ) from None
