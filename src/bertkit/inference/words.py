"""A vector for every whole word: the mean over its pieces, each read with as much context as the model can take."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from bertkit.errors import UsageError
from bertkit.inference.batching import each_batch
from bertkit.inference.embedding import Floats, token_vectors
from bertkit.inference.layer_choice import LayerChoice
from bertkit.text.windows import Window, windows

if TYPE_CHECKING:
    from bertkit.inference.encoder import TextEncoder
    from bertkit.text.tokenizer import Encoded

SPLITS = ("tokenizer", "whitespace")
TEXTS_AT_ONCE = 256
NOT_SPACE = "[^ \t\n\r\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+"
"""White space as BERT sees it; control characters, which Python counts as such, are dropped before."""


class WordVectors(NamedTuple):
    """A text's words in order, where they are in it, and a row for each."""

    words: list[str]
    spans: list[tuple[int, int]]
    vectors: Floats


class _Part(NamedTuple):
    """A window of a text: which text, which of its tokens, their ids with [CLS] and [SEP]."""

    text: int
    window: Window
    ids: list[int]


def embed_words(
    encoder: TextEncoder, texts: Sequence[str], *, layers: str | int = "last", split: str = "tokenizer"
) -> Iterator[WordVectors]:
    """`split` says what a word is: `tokenizer`, as BERT splits before it cuts into pieces (punctuation apart, every
    Chinese character by itself), or `whitespace`. A word of which the tokenizer keeps nothing has no row."""
    if split not in SPLITS:
        raise UsageError(f"split is {split!r}", f"It can be one of: {', '.join(SPLITS)}.")
    choice = LayerChoice.parse(layers, encoder.config.num_hidden_layers)
    for start in range(0, len(texts), TEXTS_AT_ONCE):
        yield from _embed_some(encoder, texts[start : start + TEXTS_AT_ONCE], start, choice, split)


def _embed_some(
    encoder: TextEncoder, texts: Sequence[str], first: int, choice: LayerChoice, split: str
) -> list[WordVectors]:
    encoder.refuse_what_is_not_text(texts, first)
    encoded = [encoder.tokenizer.encode(text) for text in texts]
    found = []
    for text, encoding, tokens in zip(texts, encoded, _token_rows(encoder, encoded, choice), strict=True):
        within = encoder.tokenizer.unframed
        spans = word_spans(text, within(encoding.offsets), within(encoding.words), split)
        vectors = [tokens[pieces].mean(0) for _, _, pieces in spans]
        found.append(
            WordVectors(
                [text[start:stop] for start, stop, _ in spans],
                [(start, stop) for start, stop, _ in spans],
                (torch.stack(vectors) if vectors else tokens[:0]).numpy(),
            )
        )
    return found


def _token_rows(encoder: TextEncoder, encoded: Sequence[Encoded], choice: LayerChoice) -> list[Tensor]:
    """For each text a vector for each of its tokens, [CLS] and [SEP] left out. Long texts are read through windows,
    and every token's vector comes from the window in whose core it is."""
    tokenizer = encoder.tokenizer
    frame = tokenizer.family.frame_size(pair=False)
    room, before = encoder.max_length - frame, frame // 2
    parts = [
        _Part(number, window, tokenizer.framed_as(encoding.ids, content[window.start : window.stop]))
        for number, encoding in enumerate(encoded)
        for content in [tokenizer.unframed(encoding.ids)]
        for window in windows(len(content), room, context=room // 8)
    ]
    parts = [part for part in parts if part.ids]  # an empty text without a frame has none
    rows = [torch.empty(len(encoding.ids) - frame, choice.width(encoder.config.hidden_size)) for encoding in encoded]

    def compute(_: list[int], lengths: list[int], flat_ids: Tensor) -> Sequence[Tensor]:
        vectors = token_vectors(encoder, flat_ids, lengths, choice).to("cpu", torch.float32)
        return torch.split(vectors, lengths)

    for numbers, vectors in each_batch(encoder, [part.ids for part in parts], compute):
        for number, tokens in zip(numbers, vectors, strict=True):
            text, window, _ = parts[number]
            core = tokens[before + window.core_start - window.start : before + window.core_stop - window.start]
            rows[text][window.core_start : window.core_stop] = core
    return rows


def word_spans(
    text: str, offsets: Sequence[tuple[int, int]], words: Sequence[int | None], split: str
) -> list[tuple[int, int, list[int]]]:
    """A text's words: first character, character after the last, and the numbers of its pieces."""
    found: list[tuple[int, int, list[int]]] = []
    if split == "whitespace":
        pieces = iter(range(len(offsets)))
        piece = next(pieces, None)
        for match in re.finditer(NOT_SPACE, text):
            inside = []
            while piece is not None and offsets[piece][0] < match.end():
                inside.append(piece)
                piece = next(pieces, None)
            if inside:
                found.append((match.start(), match.end(), inside))
        return found
    last: int | None = None
    for number, ((start, stop), word) in enumerate(zip(offsets, words, strict=True)):
        if found and word == last:
            found[-1] = (found[-1][0], stop, [*found[-1][2], number])
        else:
            found.append((start, stop, [number]))
        last = word
    return found
