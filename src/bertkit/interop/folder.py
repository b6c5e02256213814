"""The model folder: what every command reads and writes.

`config.json`, `model.safetensors`, `tokenizer.json`, `tokenizer_config.json` and `vocab.txt` with Hugging Face's
names and tensor keys, so that transformers opens ours and we open theirs; and, in ours, `bertkit.json`: what the
model is for, where it came from, and a sha256 of every other file.

Nothing here imports torch, so that `bertkit info` answers at once; weights.py reads and writes the tensors.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property
from pathlib import Path
from typing import Any

from bertkit.config import BertConfig
from bertkit.errors import ModelFolderError, shortened
from bertkit.files import read_json, sha256_of
from bertkit.interop import bert_names
from bertkit.interop.huggingface import config_from_huggingface
from bertkit.interop.safetensors_files import Entry, read_headers
from bertkit.interop.sentence_transformers import SentenceSettings, read_sentence_settings
from bertkit.text.tokenizer import Tokenizer

MANIFEST = "bertkit.json"
FORMAT = 1


class ModelFolder:
    """A folder, its configuration read and checked; everything else is read when it is asked for."""

    def __init__(self, path: Path, *, ignore_config_keys: Collection[str] = ()) -> None:
        self.path = Path(path)
        if not self.path.is_dir():
            raise ModelFolderError(f"{self.path} is not a folder", "Name a folder with config.json and weights.")
        if not (self.path / "config.json").exists():
            raise ModelFolderError(f"{self.path} has no config.json, so it is not a model folder")
        self.raw_config = read_json(self.path / "config.json", ModelFolderError)
        self.config: BertConfig = config_from_huggingface(
            self.raw_config, str(self.path / "config.json"), ignore_config_keys
        )

    @cached_property
    def manifest(self) -> dict[str, Any]:
        """bertkit.json, or nothing if the folder was not made by bertkit."""
        file = self.path / MANIFEST
        if not file.exists():
            return {}
        manifest = read_json(file, ModelFolderError)
        if manifest.get("format") != FORMAT:
            raise ModelFolderError(
                f"{file} is of format {shortened(manifest.get('format'))}, and this bertkit reads format {FORMAT}",
                "Use the version of bertkit that wrote it, or a newer one.",
            )
        if not isinstance(manifest.get("files"), dict):
            raise ModelFolderError(f"{file} lists no files", "Copy the folder again.")
        return manifest

    @cached_property
    def tensors(self) -> dict[str, Entry]:
        """Every tensor's place and shape, from the headers alone."""
        return read_headers(self.path)

    @property
    def parameters(self) -> int:
        """How many numbers the weights have, one that is stored under two names counted once."""
        counts = {}
        for name, entry in self.tensors.items():
            canonical = bert_names.canonical(name)
            tied_copy = canonical == "cls.predictions.decoder.weight" and self.raw_config.get(
                "tie_word_embeddings", True
            )
            if canonical is not None and not tied_copy:
                counts[canonical] = entry.numbers
        return sum(counts.values())

    def verify(self) -> dict[str, str]:
        """Compare every file with the sha256 it had when the folder was written, and return those hashes; a folder
        that was not made by bertkit has none."""
        for name, expected in self.manifest.get("files", {}).items():
            file = self.path / name
            if Path(name).name != name:
                raise ModelFolderError(f"{self.path / MANIFEST} names {shortened(name)}, which is not in its folder")
            if not file.is_file():
                raise ModelFolderError(f"{file} is missing", "Copy the folder again.")
            if (found := sha256_of(file)) != expected:
                raise ModelFolderError(
                    f"{file} has changed since it was written: sha256 {found}, and it was {expected}",
                    f"Copy the folder again, or, if the change was meant, delete {MANIFEST}.",
                )
        return dict(self.manifest.get("files", {}))

    def tokenizer(self) -> Tokenizer:
        """The folder's tokenizer, refused if its ids do not fit the model's embedding."""
        tokenizer = Tokenizer.open(self.path)
        pieces, rows = tokenizer.vocab_size, self.config.vocab_size
        # A vocabulary somewhat smaller than the embedding is a matrix rounded up to please a GPU.
        if not (pieces == rows or (pieces < rows < pieces + 1024 and rows % 8 == 0)):
            raise ModelFolderError(
                f"{self.path}: the vocabulary has {pieces} pieces, and config.json says vocab_size {rows}",
                "Tokenizer and model do not belong together: bring the files that do.",
            )
        return tokenizer

    @property
    def sentence_settings(self) -> SentenceSettings:
        """How the folder wants its vectors pooled, if it was made for sentence vectors."""
        encoding = self.manifest.get("encoding")
        if isinstance(encoding, dict):
            return SentenceSettings(encoding.get("pooling"), bool(encoding.get("normalize")))
        return read_sentence_settings(self.path)

    @property
    def parts(self) -> list[str]:
        """What the weights have, in plain words."""
        names = {bert_names.canonical(name) or "" for name in self.tensors}
        prefixes: dict[str, str | tuple[str, ...]] = {
            "encoder": "bert.encoder.",
            "pooler": "bert.pooler.",
            "masked-word head": "cls.predictions.",
            "next-sentence head": "cls.seq_relationship.",
            "task head": bert_names.OTHER_HEADS,
        }
        return [part for part, prefix in prefixes.items() if any(name.startswith(prefix) for name in names)]

    @property
    def task(self) -> str:
        """What the folder is for: as bertkit.json says, or by the head that config.json names."""
        if task := self.manifest.get("task"):
            return str(task)
        return TASKS.get(self.architecture, self.architecture)

    @property
    def architecture(self) -> str:
        """The class of transformers that config.json names first."""
        named = self.raw_config.get("architectures")
        return str(named[0]) if isinstance(named, list) and named else "BertModel"


TASKS = {
    "BertModel": "embed",
    "BertForMaskedLM": "fill-mask",
    "BertForPreTraining": "fill-mask",
    "BertForNextSentencePrediction": "embed",
    "BertForSequenceClassification": "classify",
    "BertForTokenClassification": "tag",
    "BertForQuestionAnswering": "qa",
    "BertForMultipleChoice": "choice",
}
