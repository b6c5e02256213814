"""Text to ids, through the tokenizers library: open what a folder holds, encode texts, save it again.

One class for WordPiece, byte-level BPE and Unigram; families.py says what each family of models expects of them.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import tokenizers
from tokenizers import AddedToken, models, normalizers, pre_tokenizers

from bertkit.errors import TokenizerError, shortened
from bertkit.files import read_json, require_regular_file, to_json
from bertkit.text.families import (
    BERT,
    GPT,
    GPT2,
    KINDS,
    WORD_START,
    Family,
    assemble,
    bpe,
    family_of,
    frame,
    frame_for_tasks,
)

ROLES = ("pad", "unk", "cls", "sep", "mask", "bos", "eos")
KINDS_IN_WORDS = {"wordpiece": "WordPiece", "bpe": "BPE", "unigram": "Unigram"}
MAX_VOCABULARY_BYTES = 512 * 2**20
_SURROGATES = re.compile("[\ud800-\udfff]")


class Encoded(NamedTuple):
    """One text, or a pair, as the model reads it: [CLS] A [SEP], or [CLS] A [SEP] B [SEP]."""

    ids: list[int]
    segments: list[int]
    offsets: list[tuple[int, int]]
    """For each token its characters in the text it came from; (0, 0) for the special ones."""
    words: list[int | None]
    """For each token the number of its word in that text; None for the special ones."""
    tokens: list[str]
    texts: list[int | None]
    """For each token the text it came from, 0 or 1; None for the special ones."""


class Frame(NamedTuple):
    """The tokens that stand around texts: before the first, between two, after the last."""

    start: tuple[int, ...]
    between: tuple[int, ...]
    end: tuple[int, ...]

    def size(self, *, pair: bool) -> int:
        return len(self.start) + len(self.between) * pair + len(self.end)


class Tokenizer:
    """A tokenizer with the special tokens of its family of models.

    Nothing is ever cut here: what to do with a text that is too long is for the caller to say.
    """

    def __init__(
        self, backend: tokenizers.Tokenizer, family: Family = BERT, *, specials: Mapping[str, str] | None = None
    ) -> None:
        self.backend = backend
        self.backend.no_truncation()
        self.backend.no_padding()
        self.family = family
        self.specials = {**family.specials, **(specials or {})}
        """The special tokens by their role: {"pad": "[PAD]", ...}."""
        ids = {role: self._special_id(role) for role in self.specials}
        around = backend.encode("").ids
        self.framed = family.framed or around == [ids.get("bos"), ids.get("cls")]
        """Whether special tokens stand around a text; of a GPT only when it is fine-tuned."""
        expected = [ids["cls"], ids["sep"]] if family.framed else []
        # a tokenizer.json may come without
        if (around != expected and family.framed == self.framed) or backend.post_processor is None:
            frame(backend, family, self.specials)

    @classmethod
    def open(cls, folder: Path, *, kinds: Collection[str] = (), reader: str = "") -> Tokenizer:
        """The tokenizer of a folder: `tokenizer.json`, or `vocab.txt`, or `vocab.json` and `merges.txt`, with what
        `tokenizer_config.json` tells of them. With `kinds`, one of another kind, which `reader` cannot use, is
        refused."""
        settings_file = folder / "tokenizer_config.json"
        settings = read_json(settings_file, TokenizerError) if settings_file.exists() else {}
        named = {role: _content(settings.get(f"{role}_token"), settings_file) for role in ROLES}
        if (folder / "tokenizer.json").exists():
            backend = _read_tokenizer_json(folder / "tokenizer.json")
            _require_kind(backend, kinds, reader, folder)
            found = family_of(backend, settings.get("tokenizer_class"), folder / "tokenizer.json")
        elif (folder / "vocab.txt").exists():
            found, names = BERT, {role: named[role] or token for role, token in BERT.specials.items()}
            vocabulary = read_vocabulary(folder / "vocab.txt")
            backend = assemble(BERT, wordpiece(vocabulary, unk=names["unk"]), lowercase=True, specials=names)
        elif (folder / "vocab.json").exists() and (folder / "merges.txt").exists():
            backend, found = _read_merges(folder, settings)
            _require_kind(backend, kinds, reader, folder)
        else:
            raise TokenizerError(
                f"{folder} has no tokenizer: neither tokenizer.json nor vocab.txt, nor vocab.json with merges.txt",
                "If there is a spiece.model, transformers' AutoTokenizer can save it as tokenizer.json.",
            )
        _apply_casing(backend, settings, settings_file)
        # A role that the family does not have is taken over if it can be, as others do who open the folder.
        said = {role: token or found.learned_with.get(role) for role, token in named.items()}
        specials = {
            role: token
            for role, token in said.items()
            if token and (role in found.specials or backend.token_to_id(token) is not None)
        }
        return cls(backend, found, specials=specials)

    def use_one_segment(self) -> None:
        """For a model that knows only one, whatever its tokenizer was made for."""
        self.family = replace(self.family, second_segment=0)
        frame(self.backend, self.family, self.specials)

    def for_tasks(self) -> Tokenizer:
        """The same with the tokens that stand around texts when a model is fine-tuned; a GPT has none before. Those
        that it lacks are new, with ids behind all others."""
        if self.framed:
            return self
        backend = tokenizers.Tokenizer.from_str(self.backend.to_str())
        specials = {**self.family.for_tasks, **self.specials}
        backend.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in specials.values()])
        frame_for_tasks(backend, specials)
        return Tokenizer(backend, self.family, specials=specials)

    def save(self, folder: Path) -> None:
        """Write tokenizer.json, tokenizer_config.json and the vocabulary as the family has it (vocab.txt, or vocab.json
        and merges.txt) into an existing folder."""
        (folder / "tokenizer.json").write_text(self.backend.to_str(pretty=True), encoding="utf-8")
        settings: dict[str, Any] = {"tokenizer_class": self.family.tokenizer_class}
        normalizer = self.backend.normalizer
        if isinstance(normalizer, normalizers.BertNormalizer):
            settings["do_lower_case"] = normalizer.lowercase
            settings["strip_accents"] = normalizer.strip_accents
            settings["tokenize_chinese_chars"] = normalizer.handle_chinese_chars
        elif self.kind == "unigram":
            settings["do_lower_case"] = self.lowercase
            settings["keep_accents"] = "StripAccents" not in _steps(normalizer)
        settings |= {f"{role}_token": token for role, token in self.specials.items()}
        if self.more_specials:
            settings["additional_special_tokens"] = self.more_specials
        (folder / "tokenizer_config.json").write_text(to_json(settings), encoding="utf-8")
        if self.kind == "wordpiece":
            by_id = {number: token for token, number in self.backend.get_vocab().items()}
            lines = (by_id.get(number, f"[no-token-{number}]") + "\n" for number in range(self.vocab_size))
            (folder / "vocab.txt").write_text("".join(lines), encoding="utf-8")
        elif self.kind == "bpe":
            model = json.loads(self.backend.to_str())["model"]
            (folder / "vocab.json").write_text(json.dumps(model["vocab"], ensure_ascii=False), encoding="utf-8")
            pairs = (" ".join(merge) for merge in model["merges"])
            (folder / "merges.txt").write_text("\n".join(["#version: 0.2", *pairs]) + "\n", encoding="utf-8")

    @property
    def kind(self) -> str:
        """wordpiece, bpe or unigram"""
        return self.family.kind

    def sha256(self) -> str:
        """A digest of everything that decides which ids a text gets: equal for equal tokenizers, also after saving and
        opening. Scores count up to nine digits, because reading a longer number may change its last."""
        parts = json.loads(self.backend.to_str(), parse_float=lambda number: f"{float(number):.9g}")
        canonical = json.dumps([parts, self.specials], sort_keys=True, ensure_ascii=True)
        return hashlib.sha256(canonical.encode("ascii")).hexdigest()

    @cached_property
    def vocab_size(self) -> int:
        """The highest id and one: vocabularies with a hole are rare, and their ids must still fit the model."""
        return max(self.backend.get_vocab().values()) + 1

    @property
    def lowercase(self) -> bool | None:
        """Whether it folds case; None where the tokenizer is not built in its family's way."""
        normalizer = self.backend.normalizer
        if isinstance(normalizer, normalizers.BertNormalizer):
            return normalizer.lowercase
        return None if self.kind == "wordpiece" else "Lowercase" in _steps(normalizer)

    @property
    def more_specials(self) -> list[str]:
        """The special tokens without a role, such as [unused0], in the order of their ids."""
        added = sorted(self.backend.get_added_tokens_decoder().items())
        roles = set(self.specials.values())
        return [token.content for _, token in added if token.special and token.content not in roles]

    @cached_property
    def ordinary_ids(self) -> list[int]:
        """The ids of all tokens that are not special, in order."""
        special = {*self.specials.values(), *self.more_specials}
        return sorted(number for token, number in self.backend.get_vocab().items() if token not in special)

    @cached_property
    def pad_id(self) -> int:
        return self._special_id("pad")

    @property
    def filling_id(self) -> int:
        """What fills short sequences up: where no token is for that, any, since it is masked."""
        return self.pad_id if "pad" in self.specials else 0

    @cached_property
    def unk_id(self) -> int:
        return self._special_id("unk")

    @cached_property
    def cls_id(self) -> int:
        return self._special_id("cls")

    @cached_property
    def sep_id(self) -> int:
        return self._special_id("sep")

    @cached_property
    def mask_id(self) -> int:
        return self._special_id("mask")

    @cached_property
    def bos_id(self) -> int:
        return self._special_id("bos")

    @cached_property
    def eos_id(self) -> int:
        return self._special_id("eos")

    @cached_property
    def frame(self) -> Frame:
        """[CLS] A [SEP] and [CLS] A [SEP] B [SEP], or what the family has in their place."""
        if not self.framed:
            return Frame((), (), ())
        if not self.family.framed:
            return Frame((self.bos_id,), (self.sep_id,), (self.cls_id,))
        return Frame((self.cls_id,), (self.sep_id,) * self.family.between_texts, (self.sep_id,))

    def token(self, token_id: int) -> str:
        return self.backend.id_to_token(token_id) or self.specials.get("unk", "")

    def shown(self, token_id: int) -> str:
        """A token as people read it: without what marks the beginning of a word, and bytes as the text they are."""
        if self.kind == "bpe":
            return self.backend.decode([token_id], skip_special_tokens=False).strip()
        return self.token(token_id).removeprefix(WORD_START) if self.kind == "unigram" else self.token(token_id)

    def encode(self, text: str, pair: str | None = None) -> Encoded:
        second = None if pair is None else without_surrogates(pair)
        encoding = self.backend.encode(without_surrogates(text), second)
        return Encoded(
            encoding.ids, encoding.type_ids, encoding.offsets, encoding.word_ids, encoding.tokens, encoding.sequence_ids
        )

    def encode_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Only the ids of each text, [CLS] and [SEP] included: the fast way for many texts, on all cores."""
        encodings = self.backend.encode_batch_fast([without_surrogates(text) for text in texts])
        return [encoding.ids for encoding in encodings]

    def decode(self, ids: Sequence[int]) -> str:
        return self.backend.decode(list(ids), skip_special_tokens=True)

    def _special_id(self, role: str) -> int:
        if role not in self.specials:
            raise TokenizerError(f"a {self.family.name} tokenizer has no {role} token")
        token = self.specials[role]
        token_id = self.backend.token_to_id(token)
        if token_id is None:
            raise TokenizerError(
                f"the vocabulary has no {token}",
                f'Add it, or name the {role} token it has as "{role}_token" in tokenizer_config.json.',
            )
        return token_id


def wordpiece(vocabulary: dict[str, int], *, unk: str = BERT.specials["unk"]) -> models.WordPiece:
    """The longest pieces first; a word of more than 100 characters is unknown, as in BERT."""
    return models.WordPiece(vocabulary, unk_token=unk, max_input_chars_per_word=100)


def read_vocabulary(path: Path) -> dict[str, int]:
    """A `vocab.txt`: a piece a line, the line number its id."""
    require_regular_file(path, TokenizerError)
    if path.stat().st_size > MAX_VOCABULARY_BYTES:
        raise TokenizerError(f"{path} has {path.stat().st_size} bytes, more than any vocabulary")
    try:
        lines = path.read_bytes().decode("utf-8-sig").removesuffix("\n").split("\n")
    except UnicodeDecodeError as problem:
        byte, line = problem.object[problem.start], problem.object[: problem.start].count(b"\n") + 1
        raise TokenizerError(f"{path}, line {line}: byte {byte:#04x} is not UTF-8", "Save it as UTF-8.") from None
    pieces = [line.removesuffix("\r") for line in lines]
    return {piece: number for number, piece in enumerate(pieces)}  # of a piece twice, the last line counts


def without_surrogates(text: str) -> str:
    """Lone surrogates are no characters and cannot be encoded; U+FFFD stands in, so that offsets stay right."""
    return text if text.isascii() else _SURROGATES.sub("\ufffd", text)


def _read_merges(folder: Path, settings: Mapping[str, Any]) -> tuple[tokenizers.Tokenizer, Family]:
    """BPE as the first releases of RoBERTa and both GPTs have it."""
    files = folder / "vocab.json", folder / "merges.txt"
    for file in files:
        require_regular_file(file, TokenizerError)
        if file.stat().st_size > MAX_VOCABULARY_BYTES:
            raise TokenizerError(f"{file} has {file.stat().st_size} bytes, more than any vocabulary")
    try:
        vocabulary, merges = models.BPE.read_file(*map(str, files))
        ending = sum(piece.endswith(GPT.word_end) for piece in vocabulary)
        model = bpe(GPT if 10 * ending > len(vocabulary) else GPT2, vocabulary, merges)
    except Exception as problem:  # the library raises bare Exceptions
        raise TokenizerError(f"{files[0]} or {files[1].name} is damaged: {problem}", "Copy them again.") from None
    family = family_of(tokenizers.Tokenizer(model), settings.get("tokenizer_class"), files[0])
    backend = assemble(family, model, lowercase=family.uncased_only)
    if settings.get("add_prefix_space") is True:
        backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    return backend, family


def _read_tokenizer_json(path: Path) -> tokenizers.Tokenizer:
    require_regular_file(path, TokenizerError)
    if path.stat().st_size > MAX_VOCABULARY_BYTES:
        raise TokenizerError(f"{path} has {path.stat().st_size} bytes, more than any tokenizer")
    try:
        backend = tokenizers.Tokenizer.from_buffer(path.read_bytes())
    except Exception as problem:  # the library raises bare Exceptions
        raise TokenizerError(f"{path} is damaged or not a tokenizer: {problem}", "Copy or download it again.") from None
    return backend


def _require_kind(backend: tokenizers.Tokenizer, kinds: Collection[str], reader: str, folder: Path) -> None:
    kind = KINDS.get(type(backend.model))
    if kinds and kind is not None and kind not in kinds:
        usable = " or ".join(KINDS_IN_WORDS[each] for each in dict.fromkeys(kinds))
        raise TokenizerError(f"{folder} has a {KINDS_IN_WORDS[kind]} tokenizer, and {reader}'s is {usable}")


def _steps(normalizer: Any) -> str:
    """A normalizer as the library writes it, to look for the names of its steps in."""
    return "" if normalizer is None else normalizer.__getstate__().decode("utf-8")


def _content(token: Any, source: Path) -> str | None:
    """A special token's text: written plainly, or as an object with its text under "content"."""
    if isinstance(token, dict):
        token = token.get("content")
    if token is not None and not isinstance(token, str):
        raise TokenizerError(f"{source}: special token {shortened(token)} is not text")
    return token


def _apply_casing(backend: tokenizers.Tokenizer, settings: dict[str, Any], source: Path) -> None:
    """What tokenizer_config.json says of casing holds, also against tokenizer.json, as it does for others who open
    the folder."""
    names = {
        "do_lower_case": "lowercase",
        "strip_accents": "strip_accents",
        "tokenize_chinese_chars": "handle_chinese_chars",
    }
    for key, attribute in names.items():
        if key not in settings or (settings[key] is None and key != "strip_accents"):
            continue
        if not isinstance(settings[key], bool | None):
            raise TokenizerError(f"{source}: {key} is {shortened(settings[key])}", "It must be true or false.")
        if isinstance(backend.normalizer, normalizers.BertNormalizer):
            setattr(backend.normalizer, attribute, settings[key])
