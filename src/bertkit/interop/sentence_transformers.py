"""How a folder made for sentence vectors wants them pooled: the settings that sentence-transformers keeps in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from bertkit.errors import ModelFolderError, shortened
from bertkit.files import read_json, to_json

POOLINGS = ("cls", "mean", "max")


class SentenceSettings(NamedTuple):
    pooling: str | None = None
    normalize: bool = False


def read_sentence_settings(folder: Path) -> SentenceSettings:
    """Nothing, if the folder has no such settings."""
    pooling_file = folder / "1_Pooling" / "config.json"
    if not pooling_file.exists():
        return SentenceSettings()
    return SentenceSettings(_pooling(read_json(pooling_file, ModelFolderError)), _normalizes(folder))


def sentence_files(width: int, max_length: int) -> dict[str, str]:
    """What makes a folder one of sentence-transformers: its encoder, the mean over the tokens, length 1."""
    steps = ("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")
    modules = [
        {"idx": number, "name": str(number), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for number, (path, kind) in enumerate(steps)
    ]
    switches = ("cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens")
    pooling = {f"pooling_mode_{name}": name == "mean_tokens" for name in switches}
    return {
        "modules.json": to_json(modules),
        "sentence_bert_config.json": to_json({"max_seq_length": max_length, "do_lower_case": False}),
        "1_Pooling/config.json": to_json({"word_embedding_dimension": width, **pooling}),
        # there is nothing to say, but a folder without files is lost by git and by hubs, and it must be there
        "2_Normalize/config.json": to_json({}),
    }


def _pooling(settings: dict[str, Any]) -> str:
    """What the settings ask for, known to us or not: the caller may choose another, and only else is it refused."""
    named = settings.get("pooling_mode")  # newer versions name it; older ones set one switch of several
    chosen = (
        [named] if named else [key for key, on in settings.items() if key.startswith("pooling_mode_") and on is True]
    )
    names = {
        "pooling_mode_cls_token": "cls",
        "pooling_mode_mean_tokens": "mean",
        "pooling_mode_max_tokens": "max",
    }
    return " and ".join(str(names.get(key, key)) for key in chosen)


def _normalizes(folder: Path) -> bool:
    """Whether vectors are scaled to length 1 at the end. Steps that we cannot do are refused: without them the vectors
    would be others."""
    file = folder / "modules.json"
    if not file.is_file():
        return False
    try:
        kinds = [str(step["type"]).rsplit(".", 1)[-1] for step in json.loads(file.read_bytes())]
    except (ValueError, KeyError, TypeError):
        raise ModelFolderError(f"{file} is not a list of steps", "Copy or download it again.") from None
    if unknown := [kind for kind in kinds if kind not in ("Transformer", "Pooling", "Normalize")]:
        raise ModelFolderError(
            f"{file} has a step {shortened(unknown[0])} after the encoder, which bertkit cannot do",
            "To use the bare encoder, copy the folder without modules.json and 1_Pooling.",
        )
    return "Normalize" in kinds
