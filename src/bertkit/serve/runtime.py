"""How a model folder becomes something that computes: a predictor whose `scorer` (for a task) and `encoder` have the
methods that operations.py calls. Which runtime computes is for inference/runtime.py to know."""

from __future__ import annotations

from bertkit.inference.predictor import Predictor, load
from bertkit.serve.settings import Settings


def open_model(folder: str, settings: Settings) -> Predictor:
    return load(
        folder,
        device=settings.device,
        precision=settings.precision,
        threads=settings.threads,
        ignore_config_keys=settings.ignore_config_keys,
        runtime=settings.runtime,
    )
