"""`bertkit.json`: what a model folder is for, how texts are read, where it came from, a sha256 of every other file, and
a seal on itself. Folders that others made have none. What it says is checked before anything is made of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bertkit.errors import ModelFolderError, shortened
from bertkit.files import present, read_sealed, sha256_of

MANIFEST = "bertkit.json"
FORMAT = 1
AGAIN = f"Copy the folder again, or, if the change was meant, delete {MANIFEST}."
RECORDS = ("encoding", "metrics", "provenance", "task_facts", "head", "columns", "files")
DECIDING = (
    *("config.json", "tokenizer.json", "tokenizer_config.json", "vocab.txt", "vocab.json", "merges.txt"),
    "*.safetensors",
    "*.safetensors.index.json",
)
"""Files that decide what is computed: one that is not listed was put there by somebody else."""


def read_manifest(folder: Path) -> dict[str, Any]:
    file = folder / MANIFEST
    if not present(file):
        return {}
    manifest = read_sealed(file, ModelFolderError, AGAIN)
    if manifest.get("format") != FORMAT:
        raise ModelFolderError(
            f"{file} is of format {shortened(manifest.get('format'))}, and this bertkit reads format {FORMAT}",
            "Use the version of bertkit that wrote it, or a newer one.",
        )
    for name in RECORDS:
        if name in manifest and not isinstance(manifest[name], dict):
            raise ModelFolderError(f"{file}: {name} is {shortened(manifest[name])}, and not named values", AGAIN)
    for name in ("family", "task"):
        if name in manifest and not isinstance(manifest[name], str):
            raise ModelFolderError(f"{file}: {name} is {shortened(manifest[name])}, and not text", AGAIN)
    if "files" not in manifest:
        raise ModelFolderError(f"{file} lists no files", AGAIN)
    return manifest


def verify_files(folder: Path, manifest: Mapping[str, Any]) -> dict[str, str]:
    """Compare every file with the sha256 that it had when the folder was written, and return those hashes."""
    listed: Mapping[str, Any] = manifest.get("files", {})
    for name, expected in listed.items():
        file = folder / name
        if not _is_inside(name):
            raise ModelFolderError(f"{folder / MANIFEST} names {shortened(name)}, which is not in its folder", AGAIN)
        if not file.is_file():
            raise ModelFolderError(f"{file} is missing or no file", "Copy the folder again.")
        if (found := sha256_of(file)) != expected:
            raise ModelFolderError(
                f"{file} has changed since it was written: sha256 {found[:12]}…, and it was {str(expected)[:12]}…",
                AGAIN,
            )
    for pattern in DECIDING if manifest else ():
        if new := sorted(file.name for file in folder.glob(pattern) if file.name not in listed):
            raise ModelFolderError(
                f"{folder / new[0]} is not among the files that {MANIFEST} lists",
                f"Remove it, or, if it was meant to be there, delete {MANIFEST}.",
            )
    return {name: str(value) for name, value in listed.items()}


def _is_inside(name: str) -> bool:
    """Whether a file so called is in its folder, or in a folder in it."""
    return all(part not in ("", ".", "..") and Path(part).name == part for part in name.split("/"))
