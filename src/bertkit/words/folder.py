"""Vectors in a model folder like every other: the table as a Reader of depth 0, the words as a tokenizer, and beside
them words.tsv with how often each came, for people and for other programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bertkit.errors import InputError, ModelFolderError, UsageError
from bertkit.families.vectors import ONE_HOT, VectorsConfig
from bertkit.files import read_json
from bertkit.hub.folder import ModelFolder
from bertkit.words.splitting import FIRST, tokenizer_of

Array = np.ndarray[Any, Any]
COUNTS = "words.tsv"


def save_words(
    out: Path,
    words: Sequence[str],
    table: Array | None,
    *,
    method: str,
    lowercase: bool,
    counts: Array | None = None,
    ngrams: Array | None = None,
    ngram_sizes: tuple[int, int] = (3, 6),
    provenance: Mapping[str, Any],
    half: bool = False,
    overwrite: bool = False,
) -> None:
    """Write VECTORS. `table` has FIRST rows for special tokens, which are made zero, and one for each word; None is
    one-hot. `half`: in float16."""
    import torch

    from bertkit.families import family_called
    from bertkit.hub.weights import save_model

    rows = FIRST + len(words)
    config = VectorsConfig(
        vocab_size=rows,
        hidden_size=rows if table is None else table.shape[1],
        method=method,
        ngrams=0 if ngrams is None else len(ngrams),
        shortest_ngram=ngram_sizes[0],
        longest_ngram=ngram_sizes[1],
    )
    family = family_called("vectors")
    network = family.without_weights(config)
    tensors = {"one": torch.ones(1)} if table is None else {"table.weight": _tensor(table[:rows], half)}
    if table is not None:
        tensors["table.weight"][:FIRST] = 0
    if ngrams is not None:
        tensors["ngrams.weight"] = _tensor(ngrams, half)
    network.load_state_dict(tensors, assign=True)
    lines = (f"{word}\t{count}\n" for word, count in zip(words, counts, strict=True)) if counts is not None else ()
    save_model(
        out,
        network,
        tokenizer_of(words, lowercase=lowercase),
        provenance=provenance,
        files={COUNTS: "".join(lines)} if counts is not None else {},
        overwrite=overwrite,
    )


def _tensor(table: Array, half: bool) -> Any:
    import torch

    found = torch.from_numpy(np.array(table, np.float32))
    if not found.isfinite().all():
        raise InputError("a table of words has numbers in it that are not finite", "Give a lower `learning_rate`.")
    return found.half() if half else found


class Opened:
    """What a folder of vectors holds, checked, without torch."""

    def __init__(self, path: Path) -> None:
        folder = ModelFolder(path)
        if folder.family.name != "vectors":
            raise ModelFolderError(
                f"{path} holds a {folder.family.title}, whose vectors depend on the text around a word",
                "Name a folder of `bertkit words train` or `bertkit words import`; for its vectors: bertkit embed.",
            )
        folder.verify()
        folder.check_names()
        self.folder, self.config = folder, folder.config
        self.words = _words(folder)
        self.special = folder.config.vocab_size - len(self.words)
        self.lowercase = bool(folder.manifest.get("encoding", {}).get("lowercase"))

    def tensor(self, name: str) -> Array | None:
        """A table as numpy has it, in float32; None if there is none."""
        from safetensors import safe_open

        entry = self.folder.tensors.get(f"network.{name}")
        if entry is None:
            return None
        with safe_open(entry.file, "numpy") as file:
            found: Array = file.get_tensor(f"network.{name}").astype(np.float32, copy=False)
        if not np.isfinite(found).all():
            raise ModelFolderError(f"{entry.file}: {name} has numbers that are not finite", "Copy the folder again.")
        return found

    def table(self) -> Array:
        """A row for each word."""
        if self.config.method == ONE_HOT:
            raise UsageError(
                f"{self.folder.path} holds one-hot vectors, in which every word is as far from every other",
                "Give vectors that were learned.",
            )
        found = self.tensor("table.weight")
        if found is None or found.shape != (self.config.vocab_size, self.config.hidden_size):
            raise ModelFolderError(
                f"{self.folder.path}: its table is not as config.json says", "Copy the folder again."
            )
        return found[self.special :]

    def counts(self) -> list[int] | None:
        file = self.folder.path / COUNTS
        if not file.exists():
            return None
        return [int(line.rpartition("\t")[2]) for line in file.read_text("utf-8").splitlines()]


def _words(folder: ModelFolder) -> list[str]:
    """In the order of their rows; the special tokens, which come before, left out."""
    file = folder.path / "tokenizer.json"
    content = read_json(file, ModelFolderError)
    vocabulary = content.get("model", {}).get("vocab") if isinstance(content.get("model"), dict) else None
    if not isinstance(vocabulary, dict) or sorted(vocabulary.values()) != list(range(folder.config.vocab_size)):
        raise ModelFolderError(f"{file} is not a list of the words of this table", "Copy the folder again.")
    special = {str(each.get("content")) for each in content.get("added_tokens", ()) if each.get("special")}
    return [word for word in sorted(vocabulary, key=vocabulary.__getitem__) if word not in special]
