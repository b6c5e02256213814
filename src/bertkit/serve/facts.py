"""What a client may know of a model: what it can be asked, and how it is."""

from __future__ import annotations

from typing import Any

from bertkit.inference.generation import Generator
from bertkit.inference.predictor import TaskPredictor
from bertkit.serve.models import Entry, Models
from bertkit.tasks.classify import Classify


def facts_of(entry: Entry, models: Models) -> dict[str, Any]:
    served = entry.served
    facts: dict[str, Any] = {
        "id": entry.name,
        "object": "model",
        "owned_by": "bertkit",
        "created": 0,
        "task": entry.task,
        "state": entry.state,
        "default": entry.name == models.settings.default,
        "operations": ["embed", "attention"],
        "labels": None,
        "max_length": None,
        "mask": None,
        "layers": None,
        "heads": None,
        "queue": 0 if served is None else served.batcher.admitted,
        "reload_refused": bool(entry.refused),
    }
    if served is not None:
        predictor, encoder = served.predictor, served.predictor.encoder
        facts |= {
            "max_length": encoder.max_length,
            "layers": encoder.config.num_hidden_layers,
            "heads": encoder.config.num_attention_heads,
        }
        if isinstance(predictor, TaskPredictor):
            explains = ["explain"] if isinstance(predictor.scorer.task, Classify) else []
            facts["operations"] = ["predict", *facts["operations"], *explains]
            facts["labels"] = list(predictor.scorer.task.labels) or None
            facts["max_length"] = predictor.scorer.task.max_length
        elif isinstance(predictor, Generator):
            facts["operations"] = ["generate", *facts["operations"]]
        elif encoder.model.mlm is not None:
            facts["operations"] = ["fill-mask", *facts["operations"]]
            facts["mask"] = encoder.tokenizer.specials["mask"]
    return facts
