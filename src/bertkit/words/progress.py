"""What is said while vectors are learned, and what is kept on disk so that it can go on."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bertkit.errors import CheckpointError
from bertkit.files import atomic_folder, read_sealed, sha256_of, write_sealed

Array = np.ndarray[Any, Any]
STATE, TENSORS, FACTS = "state", "tensors.safetensors", "state.json"
SAVE_SECONDS = 60.0


class Said(NamedTuple):
    share: float
    """Of all the work."""
    words_a_second: float
    """Before frequent ones are left out."""
    left: float
    """Seconds."""


class Learning:
    """A run's time and its state, which is kept in a folder."""

    def __init__(self, folder: Path, say: Callable[[Said], None] = lambda _: None) -> None:
        self.folder, self._say = folder, say
        self.words = self.kept = 0
        self.facts: dict[str, Any] = {}
        """What a method has to tell of its result."""
        self._begun = self._saved = time.monotonic()
        self._from = 0.0
        self.seconds = 0.0

    def restore(self, tables: Mapping[str, Array]) -> int:
        """Fill the tables with what was kept; how many steps were done by then."""
        self._begun = self._saved = time.monotonic()
        if not (self.folder / STATE / FACTS).exists():
            return 0
        from safetensors.numpy import load_file

        facts = read_sealed(self.folder / STATE / FACTS, CheckpointError)
        file = self.folder / STATE / TENSORS
        if sha256_of(file) != facts["tensors"]:
            raise CheckpointError(f"{file} is damaged", "Begin anew with `overwrite=True`.")
        for name, kept in load_file(file).items():
            tables[name][:] = kept
        self.words, self.kept, self.seconds = facts["words"], facts["kept"], facts["seconds"]
        self.facts = facts["facts"]
        self._from = facts["done"] / facts["total"]
        self._before = self.seconds
        return int(facts["done"])

    _before = 0.0

    def read(self, words: int, kept: int) -> None:
        self.words += words
        self.kept += kept

    def turned(self, done: int, total: int, tables: Mapping[str, Array]) -> None:
        """So many steps are done: say so, and keep it if it is time."""
        now = time.monotonic()
        here = now - self._begun
        self.seconds = self._before + here
        share = done / total
        left = here / max(share - self._from, 1e-9) * (1 - share)
        self._say(Said(share, self.words / max(self.seconds, 1e-9), left))
        if done < total and now - self._saved > SAVE_SECONDS:
            self.save(done, total, tables)
            self._saved = now

    def turned_within(self, share: float) -> None:
        """So much is done, and nothing that could be kept."""
        here = time.monotonic() - self._begun
        done = max(share - self._from, 1e-9)
        self._say(Said(share, self.words / max(self._before + here, 1e-9), here / done * (1 - share)))

    def save(self, done: int, total: int, tables: Mapping[str, Array]) -> None:
        from safetensors.numpy import save_file

        with atomic_folder(self.folder / STATE, overwrite=True) as place:
            save_file(dict(tables), place / TENSORS)
            counted = {"done": done, "total": total, "words": self.words, "kept": self.kept, "facts": self.facts}
            write_sealed(place / FACTS, {**counted, "seconds": self.seconds, "tensors": sha256_of(place / TENSORS)})
