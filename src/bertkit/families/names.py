"""A family's tensors under two sets of names: ours, and those of Hugging Face checkpoints.

The table is the whole difference. A row is (ours, theirs); where ours is one matrix and theirs are several, they are
stacked along the first axis, and some matrices lie there transposed. `{i}` stands for the number of a layer. A family's
file beside this one has its table, and the keys of its config.json.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from torch import Tensor

    from bertkit.nn.config import Config, TransformerConfig

OUR_BLOCK = "encoder.blocks.{i}"
OTHER_HEADS = ("classifier.", "qa_outputs.", "crf.", "lstm.", "cnn.", "above.", "context.", "mix.", "mix_above.")
"""The heads of fine-tuned models, which an encoder can do without; the last seven are only bertkit's."""


class Row(NamedTuple):
    ours: str
    theirs: tuple[str, ...]
    transposed: bool = False
    """Whether a matrix lies there with its inputs as rows."""


def both(ours: str, *theirs: str, transposed: bool = False) -> tuple[Row, Row]:
    """The rows of a module's weight and bias."""
    weight, bias = (Row(f"{ours}.{kind}", tuple(f"{name}.{kind}" for name in theirs)) for kind in ("weight", "bias"))
    return weight._replace(transposed=transposed), bias


@dataclass(frozen=True, kw_only=True)
class HuggingFace:
    """A network as transformers has it."""

    model_type: str
    class_prefix: str
    base: str
    """What the encoder is called inside the classes that have something on top of it."""
    rows: tuple[Row, ...]
    embedding: str
    decoder: str
    """The output matrix of the masked-word head, in the file only if it is not tied."""
    bias: str | None
    """Its bias, sometimes left out; with a decoder of its own, there a second time as the decoder's. None: it has
    none."""
    parts: Mapping[str, str]
    """The parts above the encoder that a checkpoint may have, and what the names of their tensors begin with."""
    classes: Mapping[str, tuple[str, ...]]
    """The ends of the names of the classes that can be written for, and the parts each has above the encoder."""
    spellings: tuple[tuple[str, str], ...] = ()
    """Patterns of names, and what the table calls the same thing."""
    instead: Mapping[str, str] = field(default_factory=dict)
    """Ends of names of classes that BERT has and this family has not, and of those that compute the same."""
    written: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """For the classes of fine-tuned models with other names than BERT's: how the table's names begin there."""
    sizes: Mapping[str, Any] = field(default_factory=dict)
    """Those that are not the config's own when config.json leaves them out."""
    fixed: Mapping[str, Any] = field(default_factory=dict)
    """Settings of ours that are no key there, since under this model_type they are always so."""
    lacks: tuple[str, ...] = ()
    """Settings of ours that are no key there, and change nothing in an encoder."""
    renamed: Mapping[str, str] = field(default_factory=dict)
    """Our settings that have another key there."""
    called: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Values of our settings that have another name there."""
    copies: Mapping[str, str] = field(default_factory=dict)
    """Keys that are written with the value of one of our settings, and not read: a difference between dropouts is none
    in what is computed."""
    four_times_as_wide: bool = False
    """The feed-forward layers, if config.json does not say how wide they are."""
    only: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    """Keys that would change what is computed, with the values for which they do not."""
    inert: tuple[str, ...] = ()
    """Keys of this family that change nothing in what its encoder computes."""
    meaningless: str = r"embeddings\.position_ids"
    """A pattern of the names, inside the encoder, of tensors that hold nothing learned."""
    nested: Mapping[str, str] = field(default_factory=dict)
    """Keys that hold the config of a network inside this one, and the end of the name of its class."""
    whole: bool = False
    """Whether the rows are all that a network has, spelt in one way: those of a family that transformers does not know,
    whose folders are read by bertkit alone."""
    read: Callable[[Mapping[str, Any]], dict[str, Any]] = dict
    """A config.json with those of its keys that no renaming makes ours said otherwise."""
    write: Callable[[Mapping[str, Any]], dict[str, Any]] = dict
    """The way back."""

    def suits(self, config: Config) -> bool:
        return all(getattr(config, name) == value for name, value in self.fixed.items())

    def table(self, config: TransformerConfig) -> list[Row]:
        """The rows with `{i}` written out for each layer that has weights, and without what the model has not."""
        if self.whole:
            return list(self.rows)
        rows = (
            row._replace(
                ours=row.ours.replace("{i}", str(i)), theirs=tuple(name.replace("{i}", str(i)) for name in row.theirs)
            )
            for row in self.rows
            for i in (range(config.blocks) if "{i}" in row.ours else (0,))
        )
        return [row for row in rows if not any(re.search(pattern, row.ours) for pattern in _left_out(config))]

    @cached_property
    def _bare(self) -> tuple[str, ...]:
        """What names begin with in a checkpoint of the encoder alone."""
        inside = (row.theirs[0] for row in self.rows if row.theirs[0].startswith(f"{self.base}."))
        return tuple(sorted({name.split(".")[1] + "." for name in inside}))

    def canonical(self, name: str) -> str | None:
        """A name as any checkpoint may spell it, as the table spells it; None if it is known to mean nothing."""
        if self.whole:
            return name
        name = name.removeprefix("module.")  # left by data-parallel training
        name = re.sub(r"\bgamma$", "weight", name)  # the names of the first TensorFlow release
        name = re.sub(r"\bbeta$", "bias", name)
        if name.startswith(self._bare):  # saved from the bare encoder
            name = f"{self.base}.{name}"
        for pattern, spelling in self.spellings:
            name, found = re.subn(pattern, spelling, name)
            if found:
                break
        return None if re.fullmatch(rf"{self.base}\.({self.meaningless})", name) else name

    def knows(self, name: str) -> bool:
        """Whether some model of the family has a tensor of this name, of however many layers."""
        numbered = re.sub(r"\.\d+\.", ".{i}.", name)
        return any(numbered in row.theirs or name in row.theirs for row in self.rows)

    def to_theirs(self, ours: Mapping[str, Tensor], config: TransformerConfig) -> dict[str, Tensor]:
        """Our tensors under the table's names, those that are several there split."""
        theirs: dict[str, Tensor] = {}
        for row in self.table(config):
            if row.ours in ours:
                tensor = ours[row.ours].t() if row.transposed else ours[row.ours]
                parts = tensor.chunk(len(row.theirs)) if len(row.theirs) > 1 else [tensor]
                theirs.update(zip(row.theirs, (part.contiguous() for part in parts), strict=True))
        return theirs

    def as_written(self, name: str, suffix: str) -> str:
        """A name of the table as the class that ends in `suffix` has it."""
        if suffix == "Model" and not self.whole:
            return name.removeprefix(f"{self.base}.")
        for beginning, instead in self.written.get(suffix, {}).items():
            if name.startswith(beginning):
                return instead + name.removeprefix(beginning)
        return name


def _left_out(config: TransformerConfig) -> list[str]:
    """What our names are like of the tensors that a model does without."""
    there = {
        r"^encoder\.embeddings\.widen\.": config.widens_embeddings,
        r"^encoder\.embeddings\.segment\.": config.type_vocab_size > 0,
        r"\.blocks\.0\.attention_norm\.": not (config.pre_norm and config.norms_embeddings),
        r"\.attention\.\w+\.bias$": config.attention_bias,
        r"\.feed_forward\.\w+\.bias$": config.mlp_bias,
        r"norm\.bias$": config.norm_bias,
        r"^(pooler|mlm)\.dense\.bias$": config.classifier_bias,
    }
    return [pattern for pattern, present in there.items() if not present]


def own_names(family: str, title: str, tensors: Iterable[str]) -> HuggingFace:
    """Of a network that transformers does not know: as it calls its tensors itself, apart from those of a head."""
    return HuggingFace(
        model_type=family,
        class_prefix="".join(re.findall(r"\w+", title)),
        base="network",
        rows=tuple(Row(name, (f"network.{name}",)) for name in tensors),
        embedding="",
        decoder="",
        bias=None,
        parts={},
        classes={"Model": (), "ForMaskedLM": ()},
        whole=True,
    )


def join(tensors: Iterable[Tensor], *, transposed: bool = False) -> Tensor:
    """Their tensors of one row as our one."""
    import torch

    parts = list(tensors)
    joined = parts[0] if len(parts) == 1 else torch.cat(parts)
    return joined.t().contiguous() if transposed else joined
