"""bertkit.json, read and written as somebody would who knows how it is sealed; so that what is checked behind the seal
is tested too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bertkit.errors import ModelFolderError
from bertkit.files import read_sealed, write_sealed


def manifest_of(folder: Path) -> dict[str, Any]:
    return read_sealed(folder / "bertkit.json", ModelFolderError)


def write_manifest(folder: Path, manifest: dict[str, Any]) -> None:
    write_sealed(folder / "bertkit.json", manifest)
