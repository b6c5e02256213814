"""WordPiece, through the tokenizers library: open what a model folder holds, encode texts, save it again."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

from bertkit.errors import TokenizerError, shortened
from bertkit.files import read_json, require_regular_file, to_json

SPECIALS = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
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


class Tokenizer:
    """A WordPiece tokenizer with BERT's special tokens.

    Nothing is ever cut here: what to do with a text that is too long is for the caller to say.
    """

    def __init__(self, backend: tokenizers.Tokenizer, *, specials: dict[str, str] | None = None) -> None:
        self.backend = backend
        self.backend.no_truncation()
        self.backend.no_padding()
        self.specials = {**SPECIALS, **(specials or {})}
        self.pad_id = self._special_id("pad")
        self.unk_id = self._special_id("unk")
        self.cls_id = self._special_id("cls")
        self.sep_id = self._special_id("sep")
        self.mask_id = self._special_id("mask")
        if backend.encode("").ids != [self.cls_id, self.sep_id]:  # a tokenizer.json may come without
            _frame(backend, self.specials["cls"], self.cls_id, self.specials["sep"], self.sep_id)

    @classmethod
    def open(cls, folder: Path) -> Tokenizer:
        """The tokenizer of a model folder: `tokenizer.json`, or `vocab.txt` with the casing that
        `tokenizer_config.json` tells."""
        settings_file = folder / "tokenizer_config.json"
        settings = read_json(settings_file, TokenizerError) if settings_file.exists() else {}
        specials = {
            name: _content(settings.get(f"{name}_token"), settings_file) or default
            for name, default in SPECIALS.items()
        }
        if (folder / "tokenizer.json").exists():
            backend = _read_tokenizer_json(folder / "tokenizer.json")
            _apply_casing(backend, settings, settings_file)
            return cls(backend, specials=specials)
        if (folder / "vocab.txt").exists():
            vocabulary = read_vocabulary(folder / "vocab.txt")
            backend = wordpiece(vocabulary, specials=specials)
            _apply_casing(backend, settings, settings_file)
            return cls(backend, specials=specials)
        raise TokenizerError(f"{folder} has no tokenizer: neither tokenizer.json nor vocab.txt is there")

    def save(self, folder: Path) -> None:
        """Write tokenizer.json, tokenizer_config.json and vocab.txt into an existing folder."""
        (folder / "tokenizer.json").write_text(self.backend.to_str(pretty=True), encoding="utf-8")
        settings: dict[str, Any] = {"tokenizer_class": "BertTokenizer"}
        normalizer = self.backend.normalizer
        if isinstance(normalizer, normalizers.BertNormalizer):
            settings["do_lower_case"] = normalizer.lowercase
            settings["strip_accents"] = normalizer.strip_accents
            settings["tokenize_chinese_chars"] = normalizer.handle_chinese_chars
        settings |= {f"{name}_token": token for name, token in self.specials.items()}
        (folder / "tokenizer_config.json").write_text(to_json(settings), encoding="utf-8")
        by_id = {number: token for token, number in self.backend.get_vocab().items()}
        lines = (by_id.get(number, f"[no-token-{number}]") + "\n" for number in range(self.vocab_size))
        (folder / "vocab.txt").write_text("".join(lines), encoding="utf-8")

    @cached_property
    def vocab_size(self) -> int:
        """The highest id and one: vocabularies with a hole are rare, and their ids must still fit the model."""
        return max(self.backend.get_vocab().values()) + 1

    @property
    def lowercase(self) -> bool | None:
        """Whether it folds case; None where the tokenizer is not built in BERT's way."""
        normalizer = self.backend.normalizer
        return normalizer.lowercase if isinstance(normalizer, normalizers.BertNormalizer) else None

    def token(self, token_id: int) -> str:
        return self.backend.id_to_token(token_id) or self.specials["unk"]

    def encode(self, text: str, pair: str | None = None) -> Encoded:
        second = None if pair is None else without_surrogates(pair)
        encoding = self.backend.encode(without_surrogates(text), second)
        return Encoded(encoding.ids, encoding.type_ids, encoding.offsets, encoding.word_ids, encoding.tokens)

    def encode_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Only the ids of each text, [CLS] and [SEP] included: the fast way for many texts, on all cores."""
        encodings = self.backend.encode_batch_fast([without_surrogates(text) for text in texts])
        return [encoding.ids for encoding in encodings]

    def decode(self, ids: Sequence[int]) -> str:
        return self.backend.decode(list(ids), skip_special_tokens=True)

    def _special_id(self, name: str) -> int:
        token = self.specials[name]
        token_id = self.backend.token_to_id(token)
        if token_id is None:
            raise TokenizerError(
                f"the vocabulary has no {token}",
                f'Add it, or name the {name} token it has as "{name}_token" in tokenizer_config.json.',
            )
        return token_id


def wordpiece(
    vocabulary: dict[str, int],
    *,
    lowercase: bool = True,
    strip_accents: bool | None = None,
    split_chinese: bool = True,
    specials: dict[str, str] | None = None,
) -> tokenizers.Tokenizer:
    """BERT's tokenizer over a vocabulary: clean, split at white space, punctuation and Chinese characters, then the
    longest pieces first. Accents are stripped when case is folded, unless told otherwise, as in BERT."""
    names = {**SPECIALS, **(specials or {})}
    backend = tokenizers.Tokenizer(models.WordPiece(vocabulary, unk_token=names["unk"], max_input_chars_per_word=100))
    backend.normalizer = normalizers.BertNormalizer(
        clean_text=True, handle_chinese_chars=split_chinese, strip_accents=strip_accents, lowercase=lowercase
    )
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece(prefix="##")
    backend.add_special_tokens([token for token in names.values() if token in vocabulary])
    return backend


def _frame(backend: tokenizers.Tokenizer, cls: str, cls_id: int, sep: str, sep_id: int) -> None:
    """Have texts encoded as BERT reads them: [CLS] A [SEP], or [CLS] A [SEP] B [SEP]."""
    backend.post_processor = processors.TemplateProcessing(
        single=f"{cls}:0 $A:0 {sep}:0",
        pair=f"{cls}:0 $A:0 {sep}:0 $B:1 {sep}:1",
        special_tokens=[(cls, cls_id), (sep, sep_id)],
    )


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


def _read_tokenizer_json(path: Path) -> tokenizers.Tokenizer:
    require_regular_file(path, TokenizerError)
    if path.stat().st_size > MAX_VOCABULARY_BYTES:
        raise TokenizerError(f"{path} has {path.stat().st_size} bytes, more than any tokenizer")
    try:
        backend = tokenizers.Tokenizer.from_buffer(path.read_bytes())
    except Exception as problem:  # the library raises bare Exceptions
        raise TokenizerError(f"{path} is damaged or not a tokenizer: {problem}", "Copy or download it again.") from None
    if not isinstance(backend.model, models.WordPiece):
        kind = type(backend.model).__name__
        raise TokenizerError(f"{path} is a {kind} tokenizer, and BERT's is WordPiece")
    return backend


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
