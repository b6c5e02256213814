"""BERT's tensors under two sets of names: ours, and those of Hugging Face checkpoints.

The table is the whole difference. A row is (ours, theirs); where ours is one matrix and theirs are several, they
are stacked along the first axis. `{i}` stands for the number of a layer. Where the norms are is all that BERT and its
pre-norm variant differ in, and so do their tables.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from torch import Tensor


class Row(NamedTuple):
    ours: str
    theirs: tuple[str, ...]


def _both(ours: str, *theirs: str) -> tuple[Row, Row]:
    """The rows of a module's weight and bias."""
    weight, bias = (Row(f"{ours}.{kind}", tuple(f"{name}.{kind}" for name in theirs)) for kind in ("weight", "bias"))
    return weight, bias


OUR_BLOCK, THEIR_BLOCK = "encoder.blocks.{i}", "bert.encoder.layer.{i}"

EVERY_BERT: tuple[Row, ...] = (
    Row("encoder.embeddings.word.weight", ("bert.embeddings.word_embeddings.weight",)),
    Row("encoder.embeddings.segment.weight", ("bert.embeddings.token_type_embeddings.weight",)),
    Row("encoder.embeddings.position.weight", ("bert.embeddings.position_embeddings.weight",)),
    *_both(
        f"{OUR_BLOCK}.attention.qkv",
        f"{THEIR_BLOCK}.attention.self.query",
        f"{THEIR_BLOCK}.attention.self.key",
        f"{THEIR_BLOCK}.attention.self.value",
    ),
    *_both(f"{OUR_BLOCK}.attention.output", f"{THEIR_BLOCK}.attention.output.dense"),
    *_both(f"{OUR_BLOCK}.feed_forward.widen", f"{THEIR_BLOCK}.intermediate.dense"),
    *_both(f"{OUR_BLOCK}.feed_forward.narrow", f"{THEIR_BLOCK}.output.dense"),
    *_both("pooler.dense", "bert.pooler.dense"),
    *_both("mlm.dense", "cls.predictions.transform.dense"),
    *_both("mlm.norm", "cls.predictions.transform.LayerNorm"),
    Row("mlm.bias", ("cls.predictions.bias",)),
    Row("mlm.decoder", ("cls.predictions.decoder.weight",)),
    *_both("nsp.dense", "cls.seq_relationship"),
)

POST_NORMS: tuple[Row, ...] = (
    *_both("encoder.embeddings.norm", "bert.embeddings.LayerNorm"),
    *_both(f"{OUR_BLOCK}.attention_norm", f"{THEIR_BLOCK}.attention.output.LayerNorm"),
    *_both(f"{OUR_BLOCK}.feed_forward_norm", f"{THEIR_BLOCK}.output.LayerNorm"),
)

PRE_NORMS: tuple[Row, ...] = (
    *_both(f"{OUR_BLOCK}.attention_norm", f"{THEIR_BLOCK}.attention.ln"),
    *_both(f"{OUR_BLOCK}.feed_forward_norm", f"{THEIR_BLOCK}.ln"),
    *_both("encoder.norm", "bert.encoder.ln"),
)


def rows(layers: int, *, pre_norm: bool = False) -> list[Row]:
    """The table of BERT, or of its pre-norm variant, with `{i}` written out for each layer."""
    return [
        Row(row.ours.replace("{i}", str(i)), tuple(name.replace("{i}", str(i)) for name in row.theirs))
        for row in EVERY_BERT + (PRE_NORMS if pre_norm else POST_NORMS)
        for i in (range(layers) if "{i}" in row.ours else (0,))
    ]


def canonical(name: str) -> str | None:
    """A name as any BERT checkpoint may spell it, as the table spells it; None if it is known to mean nothing.

    >>> canonical("embeddings.LayerNorm.gamma")
    'bert.embeddings.LayerNorm.weight'
    """
    name = name.removeprefix("module.")  # left by data-parallel training
    name = re.sub(r"\bgamma$", "weight", name)  # the names of the first TensorFlow release
    name = re.sub(r"\bbeta$", "bias", name)
    if name == "cls.predictions.decoder.bias":
        return "cls.predictions.bias"
    if re.match(r"(embeddings|encoder|pooler)\.", name):  # saved from the bare encoder
        name = f"bert.{name}"
    return None if name == "bert.embeddings.position_ids" else name


DECODER, BIAS = "cls.predictions.decoder.weight", "cls.predictions.bias"
"""Of the masked-word head: the output matrix, in the file only if it is not tied; and the bias, sometimes left out."""

OTHER_HEADS = ("classifier.", "qa_outputs.", "crf.", "lstm.", "mix.")
"""The heads of fine-tuned models, which an encoder can do without; the last three are only bertkit's."""


def to_theirs(ours: Mapping[str, Tensor], layers: int, *, pre_norm: bool = False) -> dict[str, Tensor]:
    """Our tensors under their names, those that are several there split."""
    theirs: dict[str, Tensor] = {}
    for row in rows(layers, pre_norm=pre_norm):
        if row.ours in ours:
            parts = ours[row.ours].chunk(len(row.theirs)) if len(row.theirs) > 1 else [ours[row.ours]]
            theirs.update(zip(row.theirs, (part.contiguous() for part in parts), strict=True))
    return theirs


def join(tensors: Iterable[Tensor]) -> Tensor:
    """Their tensors of one row as our one."""
    import torch

    parts = list(tensors)
    return parts[0] if len(parts) == 1 else torch.cat(parts)
