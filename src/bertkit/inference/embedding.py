"""Texts to vectors: tokens packed into batches of like length, no padding, the next texts tokenized meanwhile."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple, TypedDict

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from bertkit.config import GPTS
from bertkit.errors import InputError, UsageError
from bertkit.inference.batching import each_batch, runs
from bertkit.inference.layer_choice import LayerChoice
from bertkit.interop.sentence_transformers import POOLINGS
from bertkit.text.windows import windows

if TYPE_CHECKING:
    from bertkit.inference.encoder import TextEncoder

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
                    f"{name} is {value!r}", f"It can be one of: {', '.join(choices)}; choose with --{name}."
                )
        if plan.pooling == "cls" and encoder.config.family in GPTS:
            raise UsageError(
                f"{encoder.name} is a GPT: its first token sees none of the others", "Choose --pooling mean or max."
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
    with ThreadPoolExecutor(1) as tokenizing:
        first = next(chunks, None)
        pending = None if first is None else tokenizing.submit(sequences_of, encoder, *first, plan)
        while pending is not None:
            sequences = pending.result()
            following = next(chunks, None)
            pending = None if following is None else tokenizing.submit(sequences_of, encoder, *following, plan)
            yield Vectors(vectors_of(encoder, sequences, plan), sequences.long_texts)


def token_vectors(encoder: TextEncoder, flat_ids: Tensor, lengths: Sequence[int], layers: LayerChoice) -> Tensor:
    """T x D: for each token of a packed batch, the chosen layers' vector."""
    only_last = layers.only_last(encoder.config.num_hidden_layers)
    if only_last and encoder.runtime is not None and encoder.runtime.gives_vectors:
        return encoder.runtime.vectors(flat_ids, runs(lengths))
    output = encoder.model.encoder.packed(flat_ids, runs(lengths), hidden_states=not only_last)
    return output.last if only_last else layers.combine(output.hidden_states)


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
                "Shorten it, or let it be read in parts (--long windows) or cut (--long truncate).",
            )
        content = encoder.tokenizer.unframed(text_ids)
        parts = windows(len(content), room) if plan.long == "windows" else windows(room, room)
        for part in parts:
            ids.append(encoder.tokenizer.framed_as(text_ids, content[part.start : part.stop]))
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
    if plan.normalize:
        whole = torch.nn.functional.normalize(whole, dim=-1)
    vectors: Floats = whole.numpy()
    return vectors


def _pool(tokens_TD: Tensor, lengths: Sequence[int], pooling: str) -> Tensor:
    """T x D of a packed batch to one vector for each of its sequences."""
    pooled = []
    stretches = runs(lengths)
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
