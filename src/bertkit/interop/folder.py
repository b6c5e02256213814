"""The model folder: what every command reads and writes.

`config.json`, `model.safetensors`, `tokenizer.json`, `tokenizer_config.json` and `vocab.txt` with Hugging Face's
names and tensor keys, so that transformers opens ours and we open theirs; and, in ours, `bertkit.json`: what the
model is for, where it came from, and a sha256 of every other file.

Nothing here imports torch, so that `bertkit info` answers at once; weights.py reads and writes the tensors.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from bertkit.config import GPTS, BertConfig
from bertkit.errors import ModelFolderError, TokenizerError, WriteError, shortened
from bertkit.files import read_json, refuse_existing, require_writable, sha256_of
from bertkit.interop.families import class_for, family_of, suffix_of
from bertkit.interop.families.names import OTHER_HEADS
from bertkit.interop.huggingface import config_from_huggingface
from bertkit.interop.safetensors_files import Entry, read_headers
from bertkit.interop.sentence_transformers import SentenceSettings, read_sentence_settings
from bertkit.text.families import BERT
from bertkit.text.families import FAMILIES as TOKENIZER_FAMILIES
from bertkit.text.families import Family as TokenizerFamily
from bertkit.text.tokenizer import Tokenizer

MANIFEST = "bertkit.json"
FORMAT = 1
PARTS = {
    "pooler": "pooler",
    "mlm": "masked-word head",
    "nsp": "next-sentence head",
    "rtd": "replaced-token head",
}


class Source(NamedTuple):
    """A tensor as the file names it, and where it is."""

    name: str
    entry: Entry


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
        self.family = family_of(self.config)
        """Its names in transformers."""

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

    @cached_property
    def sources(self) -> dict[str, list[Source]]:
        """The tensors of this BERT by the one spelling of their names, with what claims each name; heads of fine-tuned
        models left out."""
        sources: dict[str, list[Source]] = {}
        for name, entry in self.tensors.items():
            canonical = self.family.canonical(name)
            if canonical is not None and not canonical.startswith(OTHER_HEADS):
                sources.setdefault(canonical, []).append(Source(name, entry))
        pooler = self.family.parts.get("pooler")
        for canonical, claims in sources.items():
            # A classifier may have been saved with a pooler beside the layer of its own that it uses instead.
            if pooler is not None and canonical.startswith(pooler) and len(claims) > 1:
                sources[canonical] = [claim for claim in claims if claim.name != canonical] or claims
        return sources

    @property
    def other_heads(self) -> list[str]:
        names = {self.family.canonical(name) or "" for name in self.tensors}
        return sorted({name.split(".")[0] for name in names if name.startswith(OTHER_HEADS)})

    @property
    def parts(self) -> dict[str, bool]:
        """Which of the parts above the encoder the weights have."""
        prefixes = self.family.parts
        parts = {
            part: part in prefixes and any(name.startswith(prefixes[part]) for name in self.sources) for part in PARTS
        }
        parts["pooler"] |= parts["nsp"]  # which cannot do without: a pooler that is missing is then reported
        return parts

    def part_name(self, part: str) -> str:
        return "next-word head" if part == "mlm" and self.config.family in GPTS else PARTS[part]

    def check_names(self) -> None:
        """Refuse weights that lack a tensor the config asks for, or have one that is no part of this BERT."""
        there = {"encoder"} | {part for part, present in self.parts.items() if present}
        expected = {
            name for row in self.family.table(self.config) if row.ours.split(".")[0] in there for name in row.theirs
        }
        if missing := sorted(expected - self.sources.keys() - {self.family.decoder, self.family.bias or ""}):
            raise ModelFolderError(
                f"{self.path}: {len(missing)} tensors that config.json asks for are not in the weights: "
                f"{_some(missing)}",
                "Config and weights do not belong together, or the weights are incomplete.",
            )
        if unexpected := sorted(self.sources.keys() - expected):
            raise ModelFolderError(
                f"{self.path}: {len(unexpected)} tensors in the weights are no part of this {self.family.title}: "
                f"{_some(unexpected)}",
                "Config and weights do not belong together, or the model is of another family.",
            )

    @property
    def parameters(self) -> int:
        """How many numbers this BERT has, one that is stored under two names counted once."""
        tied = self.raw_config.get("tie_word_embeddings", True)
        counted = (name for name in self.sources if not (tied and name == self.family.decoder))
        return sum(self.sources[name][0].entry.numbers for name in counted)

    def verify(self) -> dict[str, str]:
        """Compare every file with the sha256 it had when the folder was written, and return those hashes; a folder
        that was not made by bertkit has none."""
        for name, expected in self.manifest.get("files", {}).items():
            file = self.path / name
            if not _is_inside(name):
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
        """The folder's tokenizer, refused if it is not of its family's kind, frames texts otherwise, or its ids do not
        fit the embedding."""
        wanted = TOKENIZER_FAMILIES[self.family.tokenizer]
        # Chinese and Korean models of all families are made with BERT's tokenizer too.
        tokenizer = Tokenizer.open(self.path, kinds=(wanted.kind, BERT.kind), reader=wanted.title)
        self._require_suited(tokenizer.family)
        if wanted is not BERT and self.config.type_vocab_size == 1:
            tokenizer.use_one_segment()
        pieces, rows = tokenizer.vocab_size, self.config.vocab_size
        # A vocabulary somewhat smaller than the embedding is a matrix rounded up to please a GPU.
        if not (pieces == rows or (pieces < rows < pieces + 1024 and rows % 8 == 0)):
            raise ModelFolderError(
                f"{self.path}: the vocabulary has {pieces} pieces, and config.json says vocab_size {rows}",
                "Tokenizer and model do not belong together: bring the files that do.",
            )
        return tokenizer

    def _require_suited(self, found: TokenizerFamily) -> None:
        """Refuse a tokenizer of the right kind whose texts the model would not read as it was trained to."""
        wanted = TOKENIZER_FAMILIES[self.family.tokenizer]
        if self.config.family in GPTS:
            suited, marks = found.kind == BERT.kind or found.word_end == wanted.word_end, "marks the ends of words"
        else:
            suited, marks = found.framed, "puts special tokens around texts"
        if not suited:
            raise TokenizerError(
                f"{self.path} has {found.title}'s tokenizer, and {self.family.title} reads {wanted.title}'s: one of"
                f" them {marks}, the other does not",
                f'Bring the tokenizer that belongs to the model; if this is it, write "tokenizer_class":'
                f' "{wanted.tokenizer_class}" into its tokenizer_config.json.',
            )

    @property
    def sentence_settings(self) -> SentenceSettings:
        """How the folder wants its vectors pooled, if it was made for sentence vectors."""
        encoding = self.manifest.get("encoding")
        if isinstance(encoding, dict):
            return SentenceSettings(encoding.get("pooling"), bool(encoding.get("normalize")))
        return read_sentence_settings(self.path)

    @property
    def gives_sentence_cosines(self) -> bool:
        """Whether `finetune embed` made it: there is no head to know that by."""
        return self.manifest.get("task") == "embed" and "task_facts" in self.manifest

    @property
    def task(self) -> str:
        """What the folder is for: as bertkit.json says, or by the head that config.json names."""
        task = self.manifest.get("task")
        if task and not (task == "fill-mask" and self.config.is_decoder):  # as left-to-right folders once said
            return str(task)
        return task_for(self.config, self.architecture)

    @property
    def architecture(self) -> str:
        """The class of transformers that config.json names first."""
        named = self.raw_config.get("architectures")
        return str(named[0]) if isinstance(named, list) and named else class_for(self.config, "BertModel")


TASKS = {
    "Model": "embed",
    "LMHeadModel": "generate",
    "ForMaskedLM": "fill-mask",
    "ForPreTraining": "fill-mask",
    "ForNextSentencePrediction": "embed",
    "ForSequenceClassification": "classify",
    "ForTokenClassification": "tag",
    "ForQuestionAnswering": "qa",
    "ForMultipleChoice": "choice",
}
"""What a model of each class of transformers is for, by the end of the class's name."""


def task_for(config: BertConfig, architecture: str) -> str:
    suffix = suffix_of(architecture)
    if "rtd" in family_of(config).classes.get(suffix, ()):  # it tells replaced tokens, and guesses none
        return "embed"
    task = TASKS.get(suffix, architecture)
    return "generate" if task == "fill-mask" and config.is_decoder else task


SIGNS = (MANIFEST, "config.json", "tokenizer.json", "vocab.txt")
"""A folder with none of these is no model's and no tokenizer's."""


def require_place(out: Path, *, overwrite: bool, read: Iterable[str | Path] = ()) -> None:
    """Refuse to write a model or tokenizer folder where it cannot be, or where there is something already; with
    `overwrite`, only where more would be lost than a model or a tokenizer. `read` is what the new one is made from."""
    refuse_existing(out, overwrite=overwrite)
    require_writable(out)
    place = out.resolve()
    files = {file.relative_to(place).as_posix() for file in place.rglob("*") if not file.is_dir()}
    files = {name for name in files if Path(name).name != ".DS_Store"}
    if not files:
        return
    remedy = "Move it, or choose another place."
    for each in read:
        if place in Path(each).resolve().parents:
            raise WriteError(f"{out} is to be replaced, and {each} lies in it", remedy)
    if not files & set(SIGNS):
        raise WriteError(f"{out} has no model in it, so it is not replaced", "Choose another place.")
    if MANIFEST not in files:
        return
    listed = read_json(place / MANIFEST, WriteError).get("files")
    if not isinstance(listed, dict):
        raise WriteError(f"{out / MANIFEST} lists no files, so the folder is not replaced", remedy)
    if others := sorted(files - listed.keys() - {MANIFEST}):
        raise WriteError(
            f"{out} is to be replaced, and has {others[0]} in it, which bertkit did not write with the model", remedy
        )


def _is_inside(name: str) -> bool:
    """Whether a file so called is in its folder, or in a folder in it."""
    return all(part not in ("", ".", "..") and Path(part).name == part for part in name.split("/"))


def _some(names: list[str]) -> str:
    return ", ".join(shortened(name) for name in names[:3]) + (", …" if len(names) > 3 else "")
