"""How a folder made for sentence vectors wants them pooled: the settings that sentence-transformers keeps in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from bertkit.errors import ModelFolderError, shortened
from bertkit.files import read_json

POOLINGS = ("cls", "mean", "max")


class SentenceSettings(NamedTuple):
    pooling: str | None = None
    normalize: bool = False


def read_sentence_settings(folder: Path) -> SentenceSettings:
    """Nothing, if the folder has no such settings."""
    pooling_file = folder / "1_Pooling" / "config.json"
    if not pooling_file.exists():
        return SentenceSettings()
    return SentenceSettings(_pooling(read_json(pooling_file, ModelFolderError), pooling_file), _normalizes(folder))


def _pooling(settings: dict[str, Any], source: Path) -> str:
    named = settings.get("pooling_mode")  # newer versions name it; older ones set one switch of several
    chosen = (
        [named] if named else [key for key, on in settings.items() if key.startswith("pooling_mode_") and on is True]
    )
    names = {
        "pooling_mode_cls_token": "cls",
        "pooling_mode_mean_tokens": "mean",
        "pooling_mode_max_tokens": "max",
    }
    poolings = [names.get(key, key) for key in chosen]
    if len(poolings) != 1 or poolings[0] not in POOLINGS:
        raise ModelFolderError(
            f"{source} asks for pooling {shortened(poolings)}",
            f"Choose yourself: pooling {', '.join(POOLINGS)}.",
        )
    return str(poolings[0])


def _normalizes(folder: Path) -> bool:
    modules = folder / "modules.json"
    return modules.is_file() and b".Normalize" in modules.read_bytes()
