"""How a folder made for sentence vectors wants them pooled: the settings that sentence-transformers keeps in it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from bertkit.errors import ModelFolderError, shortened
from bertkit.files import AGAIN, present, read_json, read_json_value, to_json

SWITCHES = {"pooling_mode_cls_token": "cls", "pooling_mode_mean_tokens": "mean", "pooling_mode_max_tokens": "max"}
POOLINGS = tuple(SWITCHES.values())
MODULES = "modules.json"
KINDS = ("Transformer", "Pooling", "Normalize")
"""The steps that can be done, in their order."""


class SentenceSettings(NamedTuple):
    pooling: str | None = None
    normalize: bool = False


def read_sentence_settings(folder: Path) -> SentenceSettings:
    """Nothing, if the folder has no such settings."""
    pooling, normalize = "1_Pooling", False
    if present(folder / MODULES):
        steps = _steps(folder / MODULES)
        normalize = any(kind == "Normalize" for kind, _ in steps)
        pooling = next((path for kind, path in steps if kind == "Pooling"), "")
        if not pooling:
            return SentenceSettings(None, normalize)
    elif not present(folder / pooling):
        return SentenceSettings()
    return SentenceSettings(_pooling(folder / pooling / "config.json"), normalize)


def sentence_files(settings: SentenceSettings, width: int, max_length: int) -> dict[str, bytes]:
    """What makes a folder one of sentence-transformers: its encoder, how tokens are pooled, and length 1 if wanted."""
    steps = ("", "Transformer"), ("1_Pooling", "Pooling"), *[("2_Normalize", "Normalize")] * settings.normalize
    modules = [
        {"idx": number, "name": str(number), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for number, (path, kind) in enumerate(steps)
    ]
    switches = {key: name == settings.pooling for key, name in SWITCHES.items()}
    files: dict[str, object] = {
        MODULES: modules,
        "sentence_bert_config.json": {"max_seq_length": max_length, "do_lower_case": False},
        "1_Pooling/config.json": {
            "word_embedding_dimension": width,
            **switches,
            "pooling_mode_mean_sqrt_len_tokens": False,
        },
        # there is nothing to say, but a folder without files is lost by git and by hubs, and it must be there
        **{f"{path}/config.json": {} for path, kind in steps if kind == "Normalize"},
    }
    return {name: to_json(content).encode() for name, content in files.items()}


def files_there(folder: Path) -> dict[str, bytes]:
    """The files of sentence-transformers that a folder has, to be put beside other weights as they are."""
    if not present(folder / MODULES):
        return {}
    paths = {path: f"{path}/config.json" for _, path in _steps(folder / MODULES) if path}
    names = (MODULES, "sentence_bert_config.json", "config_sentence_transformers.json", *paths.values())
    found = {name: (folder / name).read_bytes() for name in names if (folder / name).is_file()}
    return {**{name: to_json({}).encode() for name in paths.values()}, **found}


def _pooling(file: Path) -> str:
    """What the settings ask for, known to us or not: the caller may choose another, and only else is it refused."""
    settings = read_json(file, ModelFolderError)
    named = settings.get("pooling_mode")  # newer versions name it; older ones set one switch of several
    switches = {key: on for key, on in settings.items() if key.startswith("pooling_mode_")}
    chosen = [named] if named is not None else [key for key, on in switches.items() if on]
    named_well = bool(chosen and chosen[0]) and isinstance(chosen[0], str)
    if not named_well or not all(isinstance(on, bool) for on in switches.values()):
        raise ModelFolderError(f"{file} does not say how tokens are pooled: {shortened(settings)}", AGAIN)
    return " and ".join(SWITCHES.get(key, key) for key in chosen)


def _steps(file: Path) -> list[tuple[str, str]]:
    """The kind and the folder of every step. Those that we cannot do are refused: without them the vectors would be
    others."""
    steps = read_json_value(file, ModelFolderError)
    try:
        found = [(str(step["type"]).rsplit(".", 1)[-1], str(step.get("path", ""))) for step in steps]
    except (KeyError, TypeError, AttributeError):
        found = []
    kinds, paths = [kind for kind, _ in found], [path for _, path in found]
    if not found or isinstance(steps, dict) or not all(re.fullmatch(r"\w[\w.-]{0,100}|", path) for path in paths):
        raise ModelFolderError(f"{file} is not a list of steps", AGAIN)
    if unknown := [kind for kind in kinds if kind not in KINDS]:
        raise ModelFolderError(
            f"{file} has a step {shortened(unknown[0])} after the encoder, which bertkit cannot do",
            "To use the bare encoder, copy the folder without modules.json and 1_Pooling.",
        )
    if kinds != [kind for kind in KINDS if kind in kinds]:
        raise ModelFolderError(f"{file} has the steps {', '.join(kinds)}, and bertkit does {', '.join(KINDS)}", AGAIN)
    return found
