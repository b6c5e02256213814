"""How a model folder becomes something that computes: a predictor whose `scorer` (for a task) and `encoder` have the
methods that operations.py calls. Which runtime computes is for inference/runtime.py to know."""

from __future__ import annotations

from bertkit.inference.predictor import Predictor, load
from bertkit.model.few_rows import lay_out_for_few_rows
from bertkit.serve.settings import Settings


def open_model(folder: str, settings: Settings) -> Predictor:
    predictor = load(
        folder,
        device=settings.device,
        precision=settings.precision,
        threads=settings.threads,
        ignore_config_keys=settings.ignore_config_keys,
        runtime=settings.runtime,
    )
    encoder = predictor.encoder
    if encoder.runtime is None and encoder.device.type == "cpu" and encoder.precision == "float32":
        lay_out_for_few_rows(encoder.model)  # a request that comes alone is a few rows
    return predictor
