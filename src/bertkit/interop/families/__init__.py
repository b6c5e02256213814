"""The families as transformers has them: a file for each, which is data and nothing else."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from bertkit.errors import UsageError
from bertkit.interop.families.albert import ALBERT
from bertkit.interop.families.bert import BERT, MEGATRON
from bertkit.interop.families.distilbert import DISTILBERT
from bertkit.interop.families.electra import ELECTRA
from bertkit.interop.families.gpt import GPT
from bertkit.interop.families.gpt2 import GPT2
from bertkit.interop.families.modernbert import MODERNBERT
from bertkit.interop.families.names import HuggingFaceFamily
from bertkit.interop.families.roberta import ROBERTA

if TYPE_CHECKING:
    from bertkit.config import BertConfig

FAMILIES = (BERT, MEGATRON, ROBERTA, ALBERT, ELECTRA, DISTILBERT, MODERNBERT, GPT, GPT2)

ARCHITECTURES = {family.class_prefix + suffix: parts for family in FAMILIES for suffix, parts in family.classes.items()}
"""The classes that can be written for, and the parts each has above the encoder."""


def family_of(config: BertConfig) -> HuggingFaceFamily:
    for family in FAMILIES:
        if (family.family, family.pre_norm) == (config.family, config.pre_norm):
            return family
    raise UsageError(f"a {config.family} with its norms before each layer's parts", "transformers has no such model.")


def suffix_of(architecture: str) -> str:
    """
    >>> suffix_of("MegatronBertForMaskedLM")
    'ForMaskedLM'
    """
    found = re.search(r"(LMHeadModel|Model|For[A-Z]\w*)$", architecture)
    return found[0] if found else architecture


def family_of_class(architecture: str) -> HuggingFaceFamily | None:
    """Whose class it is, if it is that of a family here.

    >>> family_of_class("RobertaForMaskedLM").title
    'RoBERTa'
    """
    prefix = architecture.removesuffix(suffix_of(architecture))
    return next((family for family in FAMILIES if family.class_prefix == prefix), None)


def class_for(config: BertConfig, architecture: str) -> str:
    """The class with the parts of `architecture` for a network of this kind.

    >>> class_for(BertConfig(pre_norm=True), "BertForMaskedLM")
    'MegatronBertForMaskedLM'
    """
    family, suffix = family_of(config), suffix_of(architecture)
    return family.class_prefix + family.instead.get(suffix, suffix)
