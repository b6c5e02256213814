"""The model folder: what every command reads and writes.

`config.json`, `model.safetensors`, `tokenizer.json`, `tokenizer_config.json` and `vocab.txt` with Hugging Face's
names and tensor keys, so that transformers opens ours and we open theirs; and, in ours, `bertkit.json`: what the
model is for, where it came from, and a sha256 of every other file.

Nothing here imports torch, so that `bertkit info` answers at once; weights.py reads and writes the tensors.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from bertkit.errors import ModelFolderError, TokenizerError, WriteError, shortened, tell
from bertkit.families import class_for, family_called, family_of, reader_of, suffix_of
from bertkit.families.names import OTHER_HEADS
from bertkit.files import present, read_json, refuse_existing, require_writable
from bertkit.hub.huggingface import MOST_TOLD, config_from_huggingface
from bertkit.hub.manifest import AGAIN, MANIFEST, read_manifest, verify_files
from bertkit.hub.safetensors_files import Entry, of_another_program, read_headers
from bertkit.hub.sentence_transformers import SentenceSettings, read_sentence_settings
from bertkit.nn.config import Config
from bertkit.text.ids import IdTokenizer, has_tokenizer
from bertkit.text.kinds import WORDPIECE, Form
from bertkit.text.tokenizer import Tokenizer

PARTS = {
    "pooler": "pooler",
    "mlm": "masked-word head",
    "nsp": "next-sentence head",
    "rtd": "replaced-token head",
}


SHORTEST = 3
"""[CLS], a token and [SEP]: no model is for less."""


class Source(NamedTuple):
    """A tensor as the file names it, and where it is."""

    name: str
    entry: Entry


class ModelFolder:
    """A folder, its configuration read and checked; everything else is read when it is asked for."""

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        if not self.path.is_dir():
            raise ModelFolderError(f"{self.path} is not a folder", "Name a folder with config.json and weights.")
        if not present(self.path / "config.json"):
            raise of_another_program(self.path) or ModelFolderError(
                f"{self.path} has no config.json, so it is not a model folder",
                "Name a folder with config.json and weights.",
            )
        self.raw_config = read_json(self.path / "config.json", ModelFolderError)
        self.config: Any = config_from_huggingface(self.raw_config, str(self.path / "config.json"))
        self.family = family_of(self.config)
        self.files = self.family.files_for(self.config)
        """Its names in transformers."""

    @cached_property
    def manifest(self) -> dict[str, Any]:
        """bertkit.json, or nothing if the folder was not made by bertkit."""
        return read_manifest(self.path)

    @cached_property
    def tensors(self) -> dict[str, Entry]:
        """Every tensor's place and shape, from the headers alone."""
        return read_headers(self.path)

    @cached_property
    def _inside(self) -> str:
        """What the names of this model begin with where it was saved as a part of another."""
        word = self.files.embedding
        if not word or any(self.files.canonical(name) == word for name in self.tensors):
            return ""
        ends = {name.removesuffix(word) for name in self.tensors if name.endswith(f".{word}")}
        bare = word.removeprefix(f"{self.files.base}.")
        ends = ends or {name.removesuffix(bare) for name in self.tensors if name.endswith(f".{bare}")}
        if len(ends) > 1:
            raise ModelFolderError(
                f"{self.path}: there are {len(ends)} models in the weights, {_some(sorted(ends))}",
                "Save the one that you want by itself: with transformers, model.PART.save_pretrained(OUT).",
            )
        (found,) = ends or {""}
        if found:
            tell(f"{self.path}: the model is a part of another, {found.rstrip('.')}, and is read alone")
        return found

    def canonical(self, name: str) -> str | None:
        """A tensor's name as the family's table spells it; None for what means nothing, or is outside of the model."""
        return self.files.canonical(name.removeprefix(self._inside)) if name.startswith(self._inside) else None

    @cached_property
    def sources(self) -> dict[str, list[Source]]:
        """The tensors of this BERT by the one spelling of their names, with what claims each name; heads of fine-tuned
        models left out."""
        sources: dict[str, list[Source]] = {}
        for name, entry in self.tensors.items():
            canonical = self.canonical(name)
            if canonical is not None and not canonical.startswith(OTHER_HEADS):
                sources.setdefault(canonical, []).append(Source(name, entry))
        pooler = self.files.parts.get("pooler")
        for canonical, claims in sources.items():
            # A classifier may have been saved with a pooler beside the layer of its own that it uses instead.
            if pooler is not None and canonical.startswith(pooler) and len(claims) > 1:
                sources[canonical] = [claim for claim in claims if claim.name != canonical] or claims
        return sources

    @property
    def other_heads(self) -> list[str]:
        names = {self.canonical(name) or "" for name in self.tensors}
        return sorted({name.split(".")[0] for name in names if name.startswith(OTHER_HEADS)})

    @property
    def parts(self) -> dict[str, bool]:
        """Which of the parts above the encoder the weights have."""
        prefixes = self.files.parts
        parts = {
            part: part in prefixes and any(name.startswith(prefixes[part]) for name in self.sources) for part in PARTS
        }
        parts["pooler"] |= parts["nsp"]  # which cannot do without: a pooler that is missing is then reported
        return parts

    def part_name(self, part: str) -> str:
        return "next-word head" if part == "mlm" and self.config.causal else PARTS[part]

    def check_names(self) -> None:
        """Refuse weights that lack a tensor that the config asks for, or have one of the family that it denies. What
        the family does not know at all is told, and left out."""
        there = {"encoder"} | {part for part, present in self.parts.items() if present}
        rows = self.files.table(self.config)
        expected = {name for row in rows if self.files.whole or row.ours.split(".")[0] in there for name in row.theirs}
        missing = sorted(expected - self.sources.keys() - {self.files.decoder, self.files.bias or ""})
        others = sorted(self.sources.keys() - expected)
        if missing:
            beside = f"; there are others: {_some(others)}" if others else ""
            raise ModelFolderError(
                f"{self.path}: {len(missing)} tensors that config.json asks for are not in the weights: "
                f"{_some(missing)}{beside}",
                "Config and weights do not belong together, or the weights are incomplete.",
            )
        if unexpected := [name for name in others if self.files.whole or self.files.knows(name)]:
            raise ModelFolderError(
                f"{self.path}: {len(unexpected)} tensors in the weights are no part of this {self.family.title}: "
                f"{_some(unexpected)}",
                "Config and weights do not belong together, or the model is of another family.",
            )
        if others:
            tell(
                f"{self.path}: {len(others)} tensors in the weights are none of {self.family.title}'s and are left out:"
                f" {_some(others, MOST_TOLD)}"
            )
        for name in others:
            del self.sources[name]

    @property
    def parameters(self) -> int:
        """How many numbers this BERT has, one that is stored under two names counted once."""
        tied = self.raw_config.get("tie_word_embeddings", True)
        counted = (name for name in self.sources if not (tied and name == self.files.decoder))
        return sum(self.sources[name][0].entry.numbers for name in counted)

    def verify(self) -> dict[str, str]:
        """Compare every file with the sha256 it had when the folder was written, and return those hashes; a folder
        that was not made by bertkit has none."""
        if (family := self.manifest.get("family", self.config.family)) != self.config.family:
            raise ModelFolderError(
                f"{self.path / MANIFEST} says the family is {shortened(family)}, and config.json {self.config.family}",
                AGAIN,
            )
        return verify_files(self.path, self.manifest)

    def tokenizer(self) -> Tokenizer:
        """The folder's tokenizer, refused if it is not of its family's kind, frames texts otherwise, or its ids do not
        fit the embedding."""
        wanted = family_called(self.config.kin).form
        # Chinese and Korean models of all families are made with BERT's tokenizer too.
        if self.config.heads.sequence == "last" and not has_tokenizer(self.path):
            tell(f"{self.path} has no tokenizer, so texts are ids: 464 3290")
            said = {role: self.raw_config.get(f"{role}_token_id") for role in ("bos", "eos")}
            return IdTokenizer(self.config.vocab_size, {role: n for role, n in said.items() if isinstance(n, int)})
        tokenizer = Tokenizer.open(self.path, kinds=(wanted.kind, WORDPIECE.kind), reader=reader_of(wanted).title)
        self._require_suited(tokenizer.form, wanted)
        if wanted is not WORDPIECE and self.config.type_vocab_size == 1:
            tokenizer.use_one_segment()
        tokenizer.reads_pairs = not 0 < self.config.type_vocab_size <= tokenizer.form.second_segment
        pieces, rows = tokenizer.vocab_size, self.config.vocab_size
        # A vocabulary somewhat smaller than the embedding is a matrix rounded up to please a GPU.
        if not (pieces == rows or (pieces < rows < pieces + 1024 and rows % 8 == 0)):
            raise ModelFolderError(
                f"{self.path}: the vocabulary has {pieces} pieces, and config.json says vocab_size {rows}",
                "Tokenizer and model do not belong together: bring the files that do.",
            )
        return tokenizer

    def _require_suited(self, found: Form, wanted: Form) -> None:
        """Refuse a tokenizer of the right kind whose texts the model would not read as it was trained to."""
        if self.config.heads.sequence == "last":
            suited, marks = found.kind == WORDPIECE.kind or found.word_end == wanted.word_end, "marks the ends of words"
        else:
            suited, marks = found.framed, "puts special tokens around texts"
        if not suited:
            its, reads = reader_of(found).title, reader_of(wanted).title
            raise TokenizerError(
                f"{self.path} has {its}'s tokenizer, and {self.family.title} reads {reads}'s: one of"
                f" them {marks}, the other does not",
                f'Bring the tokenizer that belongs to the model; if this is it, write "tokenizer_class":'
                f' "{wanted.tokenizer_class}" into its tokenizer_config.json.',
            )

    @property
    def sentence_settings(self) -> SentenceSettings:
        """How the folder wants its vectors pooled, if it was made for sentence vectors."""
        if "encoding" not in self.manifest:
            return read_sentence_settings(self.path)
        encoding = self.manifest["encoding"]
        said = {name: encoding[name] for name in SentenceSettings._fields if name in encoding}
        settings, length = SentenceSettings(**said), encoding.get("max_length", self.config.max_length)
        good = isinstance(settings.pooling, str | None) and isinstance(settings.normalize, bool)
        if not good or isinstance(length, bool) or not isinstance(length, int) or length < SHORTEST:
            raise ModelFolderError(f"{self.path / MANIFEST}: encoding is {shortened(encoding)}", AGAIN)
        return settings

    @property
    def is_for_a_task(self) -> bool:
        """Whether it was fine-tuned, or is of a family that is for nothing else, though it has no head to tell."""
        return "task_facts" in self.manifest or bool(self.family.task)

    @property
    def task(self) -> str:
        """What the folder is for: as bertkit.json says, or by the head that config.json names."""
        task = self.manifest.get("task")
        if task and not (task == "fill-mask" and self.config.causal):  # as left-to-right folders once said
            return str(task)
        return task_for(self.config, self.architecture)

    @property
    def architecture(self) -> str:
        """The class of transformers that config.json names first."""
        named = self.raw_config.get("architectures")
        return str(named[0]) if isinstance(named, list) and named else class_for(self.config, "Model")


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


def task_for(config: Config, architecture: str) -> str:
    suffix = suffix_of(architecture)
    if its := family_of(config).task:
        return its
    if "rtd" in family_of(config).files_for(config).classes.get(suffix, ()):  # it guesses none
        return "embed"
    task = TASKS.get(suffix, architecture)
    return "generate" if task == "fill-mask" and config.causal else task


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


def _some(names: list[str], most: int = 2) -> str:
    return ", ".join(shortened(name) for name in names[:most]) + (", …" if len(names) > most else "")
