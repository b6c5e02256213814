"""Text to ids, through the tokenizers library: open what a folder holds, encode texts, save it again.

One class for WordPiece, byte-level BPE, Unigram and whole words; kinds.py says what they are made of.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import tokenizers
from tokenizers import AddedToken, normalizers

from bertkit.errors import InputError, TokenizerError, shortened
from bertkit.files import to_json
from bertkit.text.chinese import places_before, with_words_apart
from bertkit.text.kinds import WORD_START, WORDPIECE, Form, frame, frame_for_tasks
from bertkit.text.opening import open_backend

Item = TypeVar("Item")
WRITER = "decoder"
"""The folder of the tokenizer of what is written, inside that of what is read."""
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

    def inside(self, encoded: Sequence[Item]) -> Sequence[Item]:
        """What of an encoded text, which was given as no pair, stands between [CLS] and [SEP], if there are any."""
        return encoded[len(self.start) : len(encoded) - len(self.end)]

    def around(self, part: Sequence[int]) -> list[int]:
        return [*self.start, *part, *self.end]


class _IdOf:
    """The id of the special token with a role; an error where there is none."""

    def __init__(self, role: str) -> None:
        self.role = role

    def __get__(self, tokenizer: Tokenizer, _: object) -> int:
        found = tokenizer._ids.get(self.role)
        return tokenizer._special_id(self.role) if found is None else found


class Tokenizer:
    """A tokenizer with the special tokens of its kind.

    Nothing is ever cut here: what to do with a text that is too long is for the caller to say.
    """

    def __init__(
        self,
        backend: tokenizers.Tokenizer,
        form: Form = WORDPIECE,
        specials: Mapping[str, str] | None = None,
        *,
        source: object = "the tokenizer",
    ) -> None:
        """`source` is what errors name."""
        self.backend = backend
        self._source = source
        self.backend.no_truncation()
        self.backend.no_padding()
        self.form = form
        self.kind = form.kind
        """wordpiece, bpe, unigram or words"""
        self.specials = {**form.specials, **(specials or {})}
        """The special tokens by their role: {"pad": "[PAD]", ...}."""
        self.writer: Tokenizer = self
        """That of what is written, where it is another than that of what is read."""
        self._ids = ids = {role: self._special_id(role) for role in self.specials}
        self.filling_id = ids.get("pad", 0)
        """What fills short sequences up: where no token is for that, any, since it is masked."""
        around = self._around()
        self.framed = form.framed or around == [ids.get("bos"), ids.get("cls")]
        """Whether special tokens stand around a text; of a GPT only when it is fine-tuned."""
        self.reads_pairs = True
        """Whether the model has a segment for the second text, or needs none."""
        expected = [ids["cls"], ids["sep"]] if form.framed else []
        # a tokenizer.json may come without
        if (around != expected and form.framed == self.framed) or backend.post_processor is None:
            frame(backend, form, self.specials)

    def _around(self) -> list[int]:
        """The ids around a text, and the segments of one and of a pair looked at: a model knows no others."""
        with without_panic(self._source):
            single, pair = self.backend.encode("a"), self.backend.encode("a", "a")
        if any(single.type_ids) or not {*pair.type_ids} <= {0, 1}:
            raise TokenizerError(
                f"{self._source}: a text is given the segments {sorted({*single.type_ids, *pair.type_ids})}",
                "Texts have segment 0, and of a pair the second has 1: mend the post_processor in tokenizer.json.",
            )
        return self.backend.encode("").ids

    @classmethod
    def open(cls, folder: Path, *, kinds: Collection[str] = (), reader: str = "") -> Tokenizer:
        """The tokenizer of a folder: `tokenizer.json`, or `vocab.txt`, or `vocab.json` and `merges.txt`, with what
        `tokenizer_config.json` tells of them (opening.py). With `kinds`, one of another kind, which `reader` cannot
        use, is refused."""
        tokenizer = cls(*open_backend(folder, kinds, reader), source=folder)
        if (folder / WRITER).is_dir():
            tokenizer.writer = cls(*open_backend(folder / WRITER, (), ""), source=folder / WRITER)
        return tokenizer

    def use_one_segment(self) -> None:
        """For a model that knows only one, whatever its tokenizer was made for."""
        self.form = replace(self.form, second_segment=0)
        frame(self.backend, self.form, self.specials)

    def for_tasks(self) -> Tokenizer:
        """The same with the tokens that stand around texts when a model is fine-tuned; a GPT has none before. Those
        that it lacks are new, with ids behind all others."""
        if self.framed:
            return self
        backend = tokenizers.Tokenizer.from_str(self.backend.to_str())
        specials = {**self.form.for_tasks, **self.specials}
        backend.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in specials.values()])
        frame_for_tasks(backend, specials)
        return Tokenizer(backend, self.form, specials=specials)

    def save(self, folder: Path) -> None:
        """Write tokenizer.json, tokenizer_config.json and the vocabulary as the kind has it (vocab.txt, or vocab.json
        and merges.txt) into an existing folder; another tokenizer for what is written into one inside it."""
        if self.writer is not self:
            (folder / WRITER).mkdir(exist_ok=True)
            self.writer.save(folder / WRITER)
        (folder / "tokenizer.json").write_text(self.backend.to_str(pretty=True), encoding="utf-8")
        settings: dict[str, Any] = {"tokenizer_class": self.form.tokenizer_class}
        normalizer = self.backend.normalizer
        if isinstance(normalizer, normalizers.BertNormalizer):
            settings["do_lower_case"] = normalizer.lowercase
            settings["strip_accents"] = normalizer.strip_accents
            settings["tokenize_chinese_chars"] = normalizer.handle_chinese_chars
        elif self.kind == "unigram":
            settings["do_lower_case"] = self.lowercase
            settings["keep_accents"] = "StripAccents" not in _steps(normalizer)
        settings |= {f"{role}_token": token for role, token in self.specials.items()}
        if more := more_specials(self):
            settings["additional_special_tokens"] = more
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
        """Whether it folds case; None where the tokenizer is not built in its kind's way."""
        normalizer = self.backend.normalizer
        if isinstance(normalizer, normalizers.BertNormalizer):
            return normalizer.lowercase
        return None if self.kind == "wordpiece" else "Lowercase" in _steps(normalizer)

    pad_id, unk_id, cls_id, sep_id = _IdOf("pad"), _IdOf("unk"), _IdOf("cls"), _IdOf("sep")
    mask_id, bos_id, eos_id = _IdOf("mask"), _IdOf("bos"), _IdOf("eos")

    @cached_property
    def frame(self) -> Frame:
        """[CLS] A [SEP] and [CLS] A [SEP] B [SEP], or what the kind has in their place."""
        if not self.framed:
            return Frame((), (), ())
        if not self.form.framed:
            return Frame((self.bos_id,), (self.sep_id,), (self.cls_id,))
        return Frame((self.cls_id,), (self.sep_id,) * self.form.between_texts, (self.sep_id,))

    def token(self, token_id: int) -> str:
        return self.backend.id_to_token(token_id) or self.specials.get("unk", "")

    def shown(self, token_id: int) -> str:
        """A token as people read it: without what marks the beginning of a word, and bytes as the text they are."""
        if self.kind == "bpe":
            return self.backend.decode([token_id], skip_special_tokens=False).strip()
        return self.token(token_id).removeprefix(WORD_START) if self.kind == "unigram" else self.token(token_id)

    def require_texts(self) -> None:
        """To learn from texts it must read them, and not ids."""

    def require_pairs(self) -> None:
        if not self.reads_pairs:
            raise InputError("this model knows one segment only, so it reads no pairs", "Give single texts.")

    def encode(self, text: str, pair: str | None = None) -> Encoded:
        if pair is not None:
            self.require_pairs()
        texts = [without_surrogates(each) for each in (text, pair) if each is not None]
        read = [self._read(each) for each in texts]
        with without_panic(self._source):
            encoding = self.backend.encode(read[0], read[1] if len(read) > 1 else None)
        offsets = encoding.offsets
        if read != texts:
            before = [places_before(*each) for each in zip(texts, read, strict=True)]
            whose = encoding.sequence_ids
            offsets = [(before[of or 0][a], before[of or 0][b]) for of, (a, b) in zip(whose, offsets, strict=True)]
        return Encoded(
            encoding.ids, encoding.type_ids, offsets, encoding.word_ids, encoding.tokens, encoding.sequence_ids
        )

    def encode_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Only the ids of each text, [CLS] and [SEP] included: the fast way for many texts, on all cores."""
        with without_panic(self._source):
            encodings = self.backend.encode_batch_fast([self._read(without_surrogates(text)) for text in texts])
        return [encoding.ids for encoding in encodings]

    def _read(self, text: str) -> str:
        """What the backend is given: with Chinese words apart, if words are its tokens."""
        return with_words_apart(text) if self.kind == "words" else text

    def decode(self, ids: Sequence[int]) -> str:
        return self.backend.decode(list(ids), skip_special_tokens=True)

    def _special_id(self, role: str) -> int:
        if role not in self.specials:
            raise TokenizerError(
                f"this {self.form.title} tokenizer has no {role} token",
                f'Name one as "{role}_token" in tokenizer_config.json.',
            )
        token = self.specials[role]
        token_id = self.backend.token_to_id(token)
        if token_id is None:
            raise TokenizerError(
                f"{self._source}: the vocabulary has no {shortened(token)}",
                f'Add it, or name the {role} token it has as "{role}_token" in tokenizer_config.json.',
            )
        return token_id


def ordinary_ids(tokenizer: Tokenizer) -> list[int]:
    """The ids of all tokens that are not special, in order."""
    special = {*tokenizer.specials.values(), *more_specials(tokenizer)}
    return sorted(number for token, number in tokenizer.backend.get_vocab().items() if token not in special)


def more_specials(tokenizer: Tokenizer) -> list[str]:
    """The special tokens without a role, such as [unused0], in the order of their ids."""
    added = sorted(tokenizer.backend.get_added_tokens_decoder().items())
    roles = set(tokenizer.specials.values())
    return [token.content for _, token in added if token.special and token.content not in roles]


@contextmanager
def without_panic(source: object) -> Iterator[None]:
    """Around what runs a stranger's tokenizer: where its library gives up, that is no error of Python's."""
    try:
        yield
    except BaseException as problem:
        if type(problem).__name__ != "PanicException":
            raise
        reason = shortened(" ".join(str(problem).split()), 120)
        raise TokenizerError(
            f"{source} cannot read this text: {reason}", "Use the tokenizer.json that was published with the model."
        ) from None


def without_surrogates(text: str) -> str:
    """Lone surrogates are no characters and cannot be encoded; U+FFFD stands in, so that offsets stay right."""
    return text if text.isascii() else _SURROGATES.sub("\ufffd", text)


def _steps(normalizer: Any) -> str:
    """A normalizer as the library writes it, to look for the names of its steps in."""
    return "" if normalizer is None else normalizer.__getstate__().decode("utf-8")
