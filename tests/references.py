"""Models of transformers for parity tests: random weights, none of them where it begins, and the same opened here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from bertkit.hub import ModelFolder, load_model
from bertkit.nn import Bert


def shaken(kind: Any, config: Any) -> Any:
    """A model of a class of transformers whose biases are not 0 and whose norms are not 1."""
    torch.manual_seed(0)
    model = kind(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    return model


def opened(model: Any, place: Path) -> Bert:
    model.save_pretrained(place)
    return load_model(ModelFolder(place)).model
