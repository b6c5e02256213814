"""An encoder that reads and a decoder that writes: two BERTs as transformers' EncoderDecoderModel has them (Rothe et
al., 2020), or the Transformer as it was published (Vaswani et al., 2017), whose halves are no models of their own.

A half is said as its family says it. transformers knows a decoder of BERT's and RoBERTa's kind; of others folders have
bertkit's own names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, Self

from bertkit.errors import ConfigError, shortened
from bertkit.families.bert import BERT
from bertkit.families.family import Family, later
from bertkit.families.names import HuggingFace, Row, both, own_names
from bertkit.families.roberta import ROBERTA
from bertkit.families.transformer import POOLED
from bertkit.nn.config import Config, Heads, TransformerConfig

KNOWN = ("bert", "roberta")
"""Families whose decoders transformers has as halves of an EncoderDecoderModel."""


@dataclass(frozen=True, kw_only=True)
class HalfConfig(TransformerConfig):
    """Half of the Transformer of 2017: positions are waves, words are scaled, nothing is normed before the first
    layer, and what is said is said by likeness to the vectors of words."""

    hidden_act: str = "relu"
    layer_norm_eps: float = 1e-5
    waves = True
    scales_words = True
    norms_embeddings = False
    word_layer = False
    family = "half"
    heads = Heads(pooled=POOLED)


@dataclass(frozen=True, kw_only=True)
class Seq2SeqConfig(Config):
    """Sizes that everybody asks for are those of the encoder."""

    encoder: Any = None
    decoder: Any = None
    share: bool = False
    """Whether the two have their weights in common, all but the decoder's look at what was read."""
    decoder_start_token_id: int | None = None
    eos_token_id: int | None = None
    """Both and pad_token_id are of the decoder's tokenizer, for transformers to write with."""

    def __post_init__(self) -> None:
        for name in ("encoder", "decoder"):
            half = getattr(self, name)
            if not isinstance(half, TransformerConfig):
                raise ConfigError(f"{name} is {shortened(half)}", "It must be the configuration of a Transformer.")
            if half.causal:
                raise ConfigError(
                    f"the {name} is a left-to-right model", "A decoder is made of one that reads both ways."
                )
        for name in ("vocab_size", "hidden_size", "num_hidden_layers", "hidden_dropout_prob", "initializer_range"):
            object.__setattr__(self, name, getattr(self.encoder, name))
        if self.pad_token_id is None:
            object.__setattr__(self, "pad_token_id", self.decoder.pad_token_id)
        super().__post_init__()
        if self.share and self.decoder != self.encoder:
            raise ConfigError("encoder and decoder differ and share their weights", "Make them alike, or share none.")

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        if odd := sorted(values.keys() - {each.name for each in fields(cls)} - {"family"}):
            raise ConfigError(f"unknown key {shortened(odd[0])}", "Take it out of the file.")
        said = {name: value for name, value in values.items() if name != "family"}
        for name in ("encoder", "decoder"):
            if isinstance(said.get(name), Mapping):
                said[name] = _half(said[name])
        return cls(**said)

    def to_json(self) -> dict[str, Any]:
        plain = ("share", "decoder_start_token_id", "eos_token_id", "pad_token_id")
        halves = {"encoder": self.encoder.to_json(), "decoder": self.decoder.to_json()}
        return {"family": self.family, **halves, **{name: getattr(self, name) for name in plain}}

    @property
    def has_pooler(self) -> bool:
        """transformers' encoder has one; nothing here reads it."""
        return self.encoder.family in KNOWN

    @property
    def kin(self) -> str:
        return ROBERTA.name if isinstance(self.encoder, HalfConfig) else str(self.encoder.family)

    def __getattr__(self, name: str) -> Any:
        """What else is asked of a network that reads, is said of the encoder."""
        if name.startswith("_") or name in ("encoder", "decoder"):
            raise AttributeError(name)
        return getattr(self.encoder, name)

    embedding_width = property(lambda self: self.encoder.embedding_width)
    max_length = property(lambda self: self.encoder.max_length)
    blocks = property(lambda self: self.encoder.blocks)
    widest = property(lambda self: self.encoder.widest)
    num_attention_heads = property(lambda self: self.encoder.num_attention_heads)
    type_vocab_size = property(lambda self: self.encoder.type_vocab_size)


def _half(values: Mapping[str, Any]) -> Any:
    from bertkit.families import family_called

    kind: type[Config] = HalfConfig if values.get("family") == "half" else family_called(values.get("family")).config
    return kind.from_json({name: value for name, value in values.items() if name != "family"})


@dataclass(frozen=True, kw_only=True)
class _Names(HuggingFace):
    """Those of one config: of two halves that transformers has."""

    config: Any = None

    def table(self, config: TransformerConfig) -> list[Row]:  # noqa: ARG002 it is of one
        encoder, decoder = self.config.encoder, self.config.decoder
        found = [
            row._replace(theirs=tuple(f"encoder.{_files(encoder).as_written(name, 'Model')}" for name in row.theirs))
            for row in _files(encoder).table(encoder)
            if row.ours.startswith(("encoder.", "pooler."))
        ]
        files = _files(decoder)
        for row in files.table(decoder):
            if row.ours.startswith("mlm.") or (row.ours.startswith("encoder.") and not self.config.share):
                theirs = tuple(f"decoder.{name}" for name in row.theirs)
                found.append(row._replace(ours=re.sub("^encoder", "decoder", row.ours), theirs=theirs))
        for number in range(decoder.blocks):
            ours, layer = f"decoder.blocks.{number}", f"decoder.{files.base}.encoder.layer.{number}.crossattention"
            found += both(f"{ours}.crossing.query", f"{layer}.self.query")
            found += both(f"{ours}.crossing.kv", f"{layer}.self.key", f"{layer}.self.value")
            found += both(f"{ours}.crossing.output", f"{layer}.output.dense")
            found += both(f"{ours}.crossing_norm", f"{layer}.output.LayerNorm")
        return [*found, *(both("project", "enc_to_dec_proj") if encoder.hidden_size != decoder.hidden_size else ())]

    def canonical(self, name: str) -> str | None:
        half, _, rest = name.partition(".")
        if half not in ("encoder", "decoder"):
            return name
        files = _files(getattr(self.config, half))
        known = files.canonical(rest)
        if known is None:
            return None
        if half == "encoder":
            return f"encoder.{files.as_written(known, 'Model')}"
        if self.config.share and known.startswith(f"{files.base}.") and "crossattention" not in known:
            return f"encoder.{files.as_written(known, 'Model')}"  # one of two copies, or the only one that there is
        return f"decoder.{known}"

    def to_theirs(self, ours: Mapping[str, Any], config: TransformerConfig) -> dict[str, Any]:
        """What is shared is written twice: today's transformers would otherwise begin the decoder's with noise."""
        theirs = super().to_theirs(ours, config)
        if self.config.share:
            base = _files(self.config.decoder).base
            copies = {name.removeprefix("encoder."): tensor for name, tensor in theirs.items()}
            shared = {n: t for n, t in copies.items() if n.startswith(("embeddings.", "encoder."))}
            theirs |= {f"decoder.{base}.{name}": tensor.clone() for name, tensor in shared.items() if name in copies}
        return theirs


def _files(config: Any) -> HuggingFace:
    return {BERT.name: BERT, ROBERTA.name: ROBERTA}[config.family].files_for(config)


def _read(values: Mapping[str, Any]) -> dict[str, Any]:
    """transformers says of a decoder twice that it is one."""
    decoder = values.get("decoder")
    if isinstance(decoder, Mapping) and "family" in decoder:  # in bertkit's own words
        plain = {name: value for name, value in values.items() if name != "family"}
        return {**plain, "tie_encoder_decoder": values.get("share", False)}
    if not isinstance(decoder, Mapping):
        raise ConfigError("there is no decoder", "Bring the config.json that belongs to the weights.")
    ids = {name: values.get(name, decoder.get(name)) for name in ("decoder_start_token_id", "eos_token_id")}
    plain = {name: value for name, value in decoder.items() if name not in ("add_cross_attention", "is_decoder")}
    return {**values, **ids, "decoder": plain}


def _write(values: Mapping[str, Any]) -> dict[str, Any]:
    decoder = {**values["decoder"], "is_decoder": True, "add_cross_attention": True}
    its = {"is_encoder_decoder": True, "tie_word_embeddings": values["tie_word_embeddings"]}
    return {**values, **its, "decoder": decoder, "decoder_start_token_id": values["decoder_start_token_id"]}


_SHARED = {
    "model_type": "encoder-decoder",
    "class_prefix": "EncoderDecoder",
    "base": "encoder",
    "rows": (),
    "parts": {},
    "classes": {"Model": ()},
    "nested": {"encoder": "Model", "decoder": "LMHeadModel"},
    "renamed": {"share": "tie_encoder_decoder"},
    "lacks": ("vocab_size", "hidden_size", "num_hidden_layers", "hidden_dropout_prob", "initializer_range"),
    "only": {"is_encoder_decoder": (True,), "share": (True, False)},
    "read": _read,
    "write": _write,
}
_ANY = HuggingFace(**_SHARED, embedding="", decoder="", bias=None)  # type: ignore[arg-type]


class _Halves(Family):
    """A family whose names are a matter of both halves."""

    @cache  # noqa: B019 families stay
    def files_for(self, config: Any) -> HuggingFace:
        if not {config.encoder.family, config.decoder.family} <= {*KNOWN} or config.decoder.pre_norm:
            return own_names(self.name, "bertkit Seq2Seq", self.without_weights(config).state_dict())
        its = _files(config.decoder)
        words = {name: value and f"decoder.{value}" for name, value in vars(its).items() if name in _OF_WORDS}
        return _Names(**{**_SHARED, **words}, whole=True, config=config)  # type: ignore[arg-type]


_OF_WORDS = ("embedding", "decoder", "bias")


def _sized(layers: int, hidden: int, heads: int, **more: Any) -> Any:
    """The Transformer as published: as many layers on both sides, four times as wide between."""

    def size(*, vocab_size: int = 8000, decoder_vocab_size: int | None = None, **changes: Any) -> Seq2SeqConfig:
        ids = {name: changes.pop(name) for name in ("decoder_start_token_id", "eos_token_id") if name in changes}
        shape: dict[str, Any] = {
            "hidden_size": hidden,
            "num_hidden_layers": layers,
            "num_attention_heads": heads,
            "intermediate_size": 4 * hidden,
            "initializer_range": hidden**-0.5,
            **more,
            **changes,
        }
        encoder = HalfConfig.from_json({**shape, "vocab_size": vocab_size})
        decoder = HalfConfig.from_json({**shape, "vocab_size": decoder_vocab_size or vocab_size})
        return Seq2SeqConfig(encoder=encoder, decoder=decoder, **ids)

    return size


SEQ2SEQ = _Halves(
    name="encoder-decoder",
    title="encoder and decoder",
    config=Seq2SeqConfig,
    build=later("bertkit.nn.seq2seq:Seq2Seq"),
    kept=later("bertkit.nn.seq2seq:Seq2Seq"),
    sizes={
        "transformer-tiny": _sized(2, 128, 2),
        "transformer-mini": _sized(3, 256, 4),
        "transformer-base": _sized(6, 512, 8),
    },
    heads=Heads(pooled=POOLED),
    files=(_ANY,),
    task="generate",
)
