"""Texts to vectors: tokens packed into batches of like length, no padding, the next texts tokenized meanwhile."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple, TypedDict

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from bertkit.errors import InputError, UsageError
from bertkit.hub.sentence_transformers import POOLINGS
from bertkit.infer.batching import each_batch
from bertkit.infer.layer_choice import LayerChoice
from bertkit.nn.inputs import counted, in_a_row
from bertkit.tensors import require_finite
from bertkit.text.sentences import Window, windows

if TYPE_CHECKING:
    from bertkit.infer.encoder import TextEncoder
    from bertkit.text.tokenizer import Encoded


Floats = npt.NDArray[np.float32]
LONG = ("windows", "truncate", "error")
CHUNK_TEXTS = 4096
CHUNK_CHARACTERS = 4_000_000
RAW_COSINES = (
    "this model was not trained for sentence vectors, so cosines between its vectors say little; "
    "`bertkit finetune embed PAIRS --from MODEL --out FOLDER` trains it for them"
)


class EmbedSettings(TypedDict, total=False):
    """What a caller may choose."""

    pooling: str
    """`cls`, `mean` or `max`, over all tokens; what the folder asks for, else `mean`."""
    layers: str | int
    """See layer_choice.HELP."""
    normalize: bool
    """Scale vectors to length 1; what the folder asks for, else not."""
    long: str
    """A text longer than the model: `windows` reads it in parts and pools over all of them, `truncate` reads
    only its beginning, `error` refuses it."""
    allow_empty: bool
    """Give a text with nothing in it the vector of [CLS] [SEP] instead of an error."""


class Vectors(NamedTuple):
    vectors: Floats
    long_texts: int
    """How many of the texts were longer than the model."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The settings, checked."""

    pooling: str
    layers: LayerChoice
    normalize: bool
    long: str
    allow_empty: bool

    @classmethod
    def of(cls, encoder: TextEncoder, settings: EmbedSettings) -> Plan:
        plan = cls(
            pooling=settings.get("pooling") or encoder.default_pooling,
            layers=LayerChoice.parse(settings.get("layers", "last"), encoder.config.num_hidden_layers),
            normalize=settings.get("normalize", encoder.default_normalize),
            long=settings.get("long", "windows"),
            allow_empty=settings.get("allow_empty", False),
        )
        for name, value, choices in (("pooling", plan.pooling, POOLINGS), ("long", plan.long, LONG)):
            if value not in choices:
                raise UsageError(
                    f"{name} is {value!r}", f"It can be one of: {', '.join(choices)}; choose with `{name}`."
                )
        if plan.pooling == "cls" and encoder.config.heads.sequence == "last":
            raise UsageError(
                f"{encoder.name} is a GPT: its first token sees none of the others", "Choose `pooling` mean or max."
            )
        return plan


class Sequences(NamedTuple):
    """A chunk of texts as the model reads them: a sequence for each text, or several for a long one."""

    ids: list[list[int]]
    owners: list[int]
    texts: int
    long_texts: int


def embed_stream(encoder: TextEncoder, texts: Iterable[str], plan: Plan) -> Iterator[Vectors]:
    """Vectors for any number of texts, a chunk at a time, in their order."""
    chunks = _chunks(texts)
    first = next(chunks, None)
    sequences = None if first is None else sequences_of(encoder, *first, plan)
    with ThreadPoolExecutor(1) as tokenizing:  # without a thread until there is something for it
        while sequences is not None:
            following = next(chunks, None)
            pending = None if following is None else tokenizing.submit(sequences_of, encoder, *following, plan)
            yield Vectors(vectors_of(encoder, sequences, plan), sequences.long_texts)
            sequences = None if pending is None else pending.result()


def token_vectors(encoder: TextEncoder, flat_ids: Tensor, lengths: Sequence[int], layers: LayerChoice) -> Tensor:
    """T x D: for each token of a packed batch, the chosen layers' vector."""
    only_last = layers.only_last(encoder.config.num_hidden_layers)
    if only_last and encoder.runtime is not None and encoder.runtime.gives_vectors:
        return encoder.runtime.vectors(flat_ids, counted(lengths))
    inputs = in_a_row(flat_ids, lengths)
    if only_last:
        last: Tensor = encoder.model.reader.read(inputs)
        return last
    return layers.combine(encoder.model.reader.layers(inputs))


def _chunks(texts: Iterable[str]) -> Iterator[tuple[list[str], int]]:
    """Texts gathered until there are enough to sort by length, with the number of the first."""
    chunk: list[str] = []
    start = characters = 0
    for text in texts:
        chunk.append(text)
        characters += len(text) if isinstance(text, str) else 0
        if len(chunk) == CHUNK_TEXTS or characters >= CHUNK_CHARACTERS:
            yield chunk, start
            start += len(chunk)
            chunk, characters = [], 0
    if chunk:
        yield chunk, start


def sequences_of(encoder: TextEncoder, texts: list[str], start: int, plan: Plan) -> Sequences:
    """The texts as the model reads them; `start` is the number of the first, for what is said of one."""
    encoded = encoder.encode_checked(texts, start, allow_empty=plan.allow_empty)
    room = encoder.max_length - encoder.tokenizer.frame.size(pair=False)
    ids: list[list[int]] = []
    owners: list[int] = []
    long_texts = 0
    for number, text_ids in enumerate(encoded):
        if len(text_ids) <= encoder.max_length:
            ids.append(text_ids)
            owners.append(number)
            continue
        long_texts += 1
        if plan.long == "error":
            raise InputError(
                f"text {start + number + 1} has {len(text_ids)} tokens, and the model reads {encoder.max_length}",
                "Shorten it, or let it be read in parts (`long=windows`) or cut (`long=truncate`).",
            )
        content = encoder.tokenizer.frame.inside(text_ids)
        parts = windows(len(content), room) if plan.long == "windows" else windows(room, room)
        for part in parts:
            ids.append(encoder.tokenizer.frame.around(content[part.start : part.stop]))
            owners.append(number)
    return Sequences(ids, owners, len(texts), long_texts)


def vectors_of(encoder: TextEncoder, sequences: Sequences, plan: Plan) -> Floats:
    """A row for each text."""
    width = plan.layers.width(encoder.config.hidden_size)
    by_sequence = torch.empty(len(sequences.ids), width)

    def compute(_: list[int], lengths: list[int], flat_ids: Tensor) -> Tensor:
        tokens_TD = token_vectors(encoder, flat_ids, lengths, plan.layers)
        return _pool(tokens_TD, lengths, plan.pooling).to("cpu", torch.float32)

    for numbers, pooled in each_batch(encoder, sequences.ids, compute):
        by_sequence[numbers] = pooled
    whole = by_sequence
    if len(sequences.ids) != sequences.texts:
        whole = _join_windows(by_sequence, sequences, plan.pooling)
    require_finite(whole, encoder.name, "vectors")
    if plan.normalize:
        whole = torch.nn.functional.normalize(whole, dim=-1)
    vectors: Floats = whole.numpy()
    return vectors


def _pool(tokens_TD: Tensor, lengths: Sequence[int], pooling: str) -> Tensor:
    """T x D of a packed batch to one vector for each of its sequences."""
    pooled = []
    stretches = counted(lengths)
    starts = accumulate((count * length for count, length in stretches), initial=0)
    for (count, length), start in zip(stretches, starts, strict=False):
        x_BLD = tokens_TD[start : start + count * length].view(count, length, -1)
        if pooling == "cls":
            pooled.append(x_BLD[:, 0])
        else:
            pooled.append(x_BLD.mean(1) if pooling == "mean" else x_BLD.amax(1))
    return torch.cat(pooled)


def _join_windows(by_sequence: Tensor, sequences: Sequences, pooling: str) -> Tensor:
    """The vectors of a text's windows as one: their maximum, or their mean weighted by length."""
    shape = (sequences.texts, by_sequence.shape[1])
    if pooling == "max":
        highest = np.full(shape, -np.inf, np.float32)
        np.maximum.at(highest, sequences.owners, by_sequence.numpy())
        return torch.from_numpy(highest)
    owners = torch.tensor(sequences.owners)
    lengths = torch.tensor([float(len(ids)) for ids in sequences.ids])
    totals = torch.zeros(sequences.texts).index_add_(0, owners, lengths)
    return torch.zeros(shape).index_add_(0, owners, by_sequence * lengths[:, None]) / totals[:, None]


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
        within = encoder.tokenizer.frame.inside
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
    frame = tokenizer.frame.size(pair=False)
    room, before = encoder.max_length - frame, frame // 2
    parts = [
        _Part(number, window, tokenizer.frame.around(content[window.start : window.stop]))
        for number, encoding in enumerate(encoded)
        for content in [tokenizer.frame.inside(encoding.ids)]
        for window in windows(len(content), room, context=room // 8)
    ]
    parts = [part for part in parts if part.ids]  # an empty text without a frame has none
    rows = [torch.empty(len(encoding.ids) - frame, choice.width(encoder.config.hidden_size)) for encoding in encoded]

    def compute(_: list[int], lengths: list[int], flat_ids: Tensor) -> Sequence[Tensor]:
        vectors = token_vectors(encoder, flat_ids, lengths, choice).to("cpu", torch.float32)
        return torch.split(require_finite(vectors, encoder.name, "vectors"), lengths)

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
