"""How a model folder becomes something that computes. Another runtime is another function in the table: it gives a
predictor whose `scorer` (for a task) and `encoder` have the methods that operations.py calls."""

from __future__ import annotations

from collections.abc import Callable

from bertkit.errors import UsageError
from bertkit.inference.predictor import Predictor, load
from bertkit.serve.settings import Settings


def with_torch(folder: str, settings: Settings) -> Predictor:
    return load(
        folder,
        device=settings.device,
        precision=settings.precision,
        threads=settings.threads,
        ignore_config_keys=settings.ignore_config_keys,
    )


RUNTIMES: dict[str, Callable[[str, Settings], Predictor]] = {"torch": with_torch}


def open_model(folder: str, settings: Settings) -> Predictor:
    if settings.runtime not in RUNTIMES:
        raise UsageError(f"runtime is {settings.runtime!r}", f"It can be one of: {', '.join(RUNTIMES)}.")
    return RUNTIMES[settings.runtime](folder, settings)
