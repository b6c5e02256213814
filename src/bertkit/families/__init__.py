"""The families of networks: a file for each, which says all that is special about it. Nobody else asks for a family by
name; a family from outside is `register`ed and is then like one of these."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import Any

from bertkit.errors import ConfigError, UsageError, nearest, shortened
from bertkit.families.albert import ALBERT, AlbertConfig
from bertkit.families.bert import (
    BERT,
    BertConfig,
    bert_base,
    bert_large,
    bert_medium,
    bert_mini,
    bert_small,
    bert_tiny,
)
from bertkit.families.distilbert import DISTILBERT, DistilBertConfig
from bertkit.families.electra import ELECTRA, ElectraConfig, electra_generator
from bertkit.families.elmo import ELMO, ElmoConfig
from bertkit.families.family import Family, later
from bertkit.families.gpt import GPT, GPT2, Gpt2Config, GptConfig
from bertkit.families.lstm import LSTM, LstmConfig
from bertkit.families.modernbert import MODERNBERT, ModernBertConfig
from bertkit.families.names import HuggingFace
from bertkit.families.roberta import ROBERTA, RobertaConfig
from bertkit.families.seq2seq import SEQ2SEQ, HalfConfig, Seq2SeqConfig
from bertkit.families.vectors import METHODS, VECTORS, VectorsConfig
from bertkit.nn.config import Config, Heads
from bertkit.plugins import Table, opener
from bertkit.rooms import public
from bertkit.text.kinds import FORMS, Form
from bertkit.text.recipe import VocabularyRecipe

_LATER, _later = public(
    __name__,
    {
        "electra_networks": "SHARED Electra",
        "graph": "require_exportable",
        "names": "join",
        "usual": "usual_for without_pairs",
        "vectors_network": "Vectors",
    },
)
"""What needs torch."""

__all__ = [
    "BERT",
    "FAMILIES",
    "METHODS",
    "PRESETS",
    "AlbertConfig",
    "BertConfig",
    "Config",
    "DistilBertConfig",
    "ElectraConfig",
    "ElmoConfig",
    "Family",
    "Gpt2Config",
    "GptConfig",
    "HalfConfig",
    "Heads",
    "HuggingFace",
    "LstmConfig",
    "ModernBertConfig",
    "RobertaConfig",
    "Seq2SeqConfig",
    "VectorsConfig",
    "bert_base",
    "bert_large",
    "bert_medium",
    "bert_mini",
    "bert_small",
    "bert_tiny",
    "class_for",
    "classes",
    "config_from_json",
    "electra_generator",
    "family_called",
    "family_of",
    "family_of_class",
    "family_of_size",
    "later",
    "reader_of",
    "register",
    "suffix_of",
    "tables",
    "vocabulary",
    *_LATER,
]
__getattr__ = _later


def register(family: Family) -> None:
    """From now on it can be pretrained, saved, opened and fine-tuned like any other."""
    others = [each for each in _families.values() if each is not family]
    for name in (family.name, *family.sizes):
        if any(name == each.name or name in each.sizes for each in others):
            raise UsageError(f"there is a {shortened(name)} already", "Give yours another name.")
    _families[family.name] = family
    family.config.family, family.config.heads = family.name, family.heads
    _presets.update(family.sizes)


_families: dict[str, Family] = {}
_presets: dict[str, Callable[..., Any]] = {}
_others = opener("bertkit.families", register)
FAMILIES: MutableMapping[str, Family] = Table(_families, _others)
PRESETS: MutableMapping[str, Callable[..., Any]] = Table(_presets, _others)
"""Of all families, by name: they take differences and give a config."""

for _family in (BERT, ROBERTA, ALBERT, ELECTRA, GPT, GPT2, MODERNBERT, DISTILBERT, SEQ2SEQ, ELMO, LSTM, VECTORS):
    register(_family)


def family_called(name: object) -> Family:
    """
    >>> family_called("gpt2").title
    'GPT-2'
    """
    if not isinstance(name, str) or name not in FAMILIES:
        hint = nearest(str(name), FAMILIES)
        raise UsageError(f"no family is called {shortened(name)}", f"{hint} There are: {', '.join(FAMILIES)}.")
    return FAMILIES[name]


def family_of(config: Config) -> Family:
    return FAMILIES[config.family]


def reader_of(form: Form) -> Family:
    """The first family whose tokenizer is made so: by its name people know such tokenizers."""
    return next((family for family in _families.values() if family.tokenizer == form.name), BERT)


def vocabulary(family: str | None = None, **settings: Any) -> VocabularyRecipe:
    """What to learn for the tokenizer of a family; or of a kind, by its own name.

    >>> vocabulary("albert").kin.kind
    'unigram'
    """
    if family is not None and family in FORMS:
        return VocabularyRecipe(family, **settings)
    return VocabularyRecipe((family_called(family) if family else BERT).tokenizer, **settings)


def family_of_size(name: str) -> Family:
    """
    >>> family_of_size("electra-small").title
    'ELECTRA'
    """
    if name in PRESETS:
        return next(family for family in _families.values() if name in family.sizes)
    raise UsageError(
        f"no model is called {shortened(name)}", f"{nearest(name, PRESETS)} There are: {', '.join(PRESETS)}."
    )


def config_from_json(values: Mapping[str, Any]) -> Any:
    """What `Config.to_json` says, read again.

    >>> config_from_json({"family": "roberta", "hidden_size": 384}).pad_token_id
    1
    """
    if not isinstance(values, Mapping):
        raise ConfigError(f"the configuration is {shortened(values)}, not an object", "Bring back a copy of the file.")
    return family_called(values.get("family", BERT.name)).config.from_json(values)


def tables() -> Iterator[tuple[Family, HuggingFace]]:
    """Every kind of network that transformers has too."""
    for family in FAMILIES.values():
        for files in family.files:
            yield family, files


def classes() -> dict[str, tuple[str, ...]]:
    """The classes of transformers that can be written for, and the parts each has above the encoder."""
    return {files.class_prefix + suffix: parts for _, files in tables() for suffix, parts in files.classes.items()}


def suffix_of(architecture: str) -> str:
    """
    >>> suffix_of("MegatronBertForMaskedLM")
    'ForMaskedLM'
    """
    found = re.search(r"(LMHeadModel|Model|For[A-Z]\w*)$", architecture)
    return found[0] if found else architecture


def family_of_class(architecture: str) -> tuple[Family, HuggingFace] | None:
    """Whose class it is, if it is that of a family here.

    >>> family_of_class("RobertaForMaskedLM")[0].title
    'RoBERTa'
    """
    prefix = architecture.removesuffix(suffix_of(architecture))
    return next((each for each in tables() if each[1].class_prefix == prefix), None)


def class_for(config: Config, architecture: str) -> str:
    """The class with the parts of `architecture` for a network of this kind.

    >>> class_for(BertConfig(pre_norm=True), "BertForMaskedLM")
    'MegatronBertForMaskedLM'
    """
    suffix, files = suffix_of(architecture), family_of(config).files_for(config)
    return files.class_prefix + files.instead.get(suffix, suffix)
