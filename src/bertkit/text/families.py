"""The tokenizers that models of each family expect: how text is split, the special tokens, and the frame around it.

Each is built so that the class of transformers named here, which rebuilds most of it from a vocabulary alone, comes to
the same ids.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import tokenizers
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, processors

from bertkit.errors import TokenizerError, UsageError, nearest, shortened

WORD_START = "▁"
"""What Unigram pieces that begin a word begin with."""
ANY_FAMILY = ("PreTrainedTokenizer", "TokenizersBackend")


@dataclass(frozen=True)
class Family:
    """What a family's tokenizer is made of.

    `specials` maps roles to tokens; the ids follow their order. `vocab_size` is that of the published models, rounded
    up to a multiple of 64, which matrix multiplication likes.
    """

    name: str
    title: str
    kind: str
    """wordpiece, bpe or unigram"""
    tokenizer_class: str
    """in transformers"""
    specials: Mapping[str, str]
    vocab_size: int
    cased_only: bool = False
    uncased_only: bool = False
    mask_takes_space: bool = False
    """Whether the mask stands also for the space before it, since that is part of the word it hides."""
    composes: bool = False
    """Whether letters and accents that are written apart are joined first (NFC)."""
    between_texts: int = 1
    """How many separators stand between the two texts of a pair."""
    second_segment: int = 1
    """The segment of the second text."""
    framed: bool = True
    """Whether special tokens stand around a text."""
    word_end: str = ""
    """What pieces that end a word end with, in BPE that is not made of bytes."""
    learned_with: Mapping[str, str] = field(default_factory=dict)
    """Special tokens that a tokenizer learned here has besides: the published one lacks what fine-tuning needs."""
    for_tasks: Mapping[str, str] = field(default_factory=dict)
    """Of a family without a frame: the tokens that stand around texts when it is fine-tuned. `bos` before, `sep`
    between two, `cls` at the end, where the answer is read, since there everything has been seen."""


_GPT_TASKS = MappingProxyType(
    {"bos": "<_start_>", "sep": "<_delimiter_>", "cls": "<_classify_>", "eos": "<_classify_>"}
)
_FAMILIES = (
    Family(
        "bert",
        "BERT",
        "wordpiece",
        "BertTokenizer",
        MappingProxyType({"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}),
        vocab_size=30_528,
    ),
    Family(
        "roberta",
        "RoBERTa",
        "bpe",
        "RobertaTokenizer",
        MappingProxyType(
            {
                "cls": "<s>",
                "pad": "<pad>",
                "sep": "</s>",
                "unk": "<unk>",
                "mask": "<mask>",
                "bos": "<s>",
                "eos": "</s>",
            }
        ),
        vocab_size=50_304,
        cased_only=True,
        mask_takes_space=True,
        between_texts=2,
        second_segment=0,
    ),
    Family(
        "modernbert",
        "ModernBERT",
        "bpe",
        "PreTrainedTokenizerFast",
        MappingProxyType({"unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "pad": "[PAD]", "mask": "[MASK]"}),
        vocab_size=50_368,
        cased_only=True,
        mask_takes_space=True,
        composes=True,
    ),
    Family(
        "gpt2",
        "GPT-2",
        "bpe",
        "GPT2Tokenizer",
        MappingProxyType({"bos": "<|endoftext|>", "eos": "<|endoftext|>"}),
        vocab_size=50_304,
        cased_only=True,
        framed=False,
        for_tasks=MappingProxyType({"sep": "<|delimiter|>", "cls": "<|extract|>", "pad": "<|endoftext|>"}),
    ),
    Family(
        "albert",
        "ALBERT",
        "unigram",
        "AlbertTokenizer",
        MappingProxyType(
            {
                "pad": "<pad>",
                "unk": "<unk>",
                "cls": "[CLS]",
                "sep": "[SEP]",
                "mask": "[MASK]",
                "bos": "[CLS]",
                "eos": "[SEP]",
            }
        ),
        vocab_size=30_016,
        mask_takes_space=True,
    ),
    Family(
        "gpt",
        "OpenAI GPT",
        "bpe",
        "OpenAIGPTTokenizer",
        MappingProxyType({"unk": "<unk>"}),
        vocab_size=40_512,
        uncased_only=True,
        framed=False,
        word_end="</w>",
        learned_with=_GPT_TASKS,
        for_tasks=MappingProxyType({**_GPT_TASKS, "pad": "<unk>"}),
    ),
)
FAMILIES: Mapping[str, Family] = MappingProxyType({family.name: family for family in _FAMILIES})
BERT, GPT, GPT2 = (FAMILIES[name] for name in ("bert", "gpt", "gpt2"))
KINDS: Mapping[type, str] = MappingProxyType(
    {models.WordPiece: "wordpiece", models.BPE: "bpe", models.Unigram: "unigram"}
)


def family_named(name: str) -> Family:
    """
    >>> family_named("albert").kind
    'unigram'
    """
    if name not in FAMILIES:
        raise UsageError(f"there is no family {name!r}", f"{nearest(name, FAMILIES)} There are: {', '.join(FAMILIES)}.")
    return FAMILIES[name]


def family_of(backend: tokenizers.Tokenizer, tokenizer_class: object, source: object) -> Family:
    """The family of a tokenizer that somebody made: by the class that transformers opens it with, or, where none of
    a family is named, by its kind and special tokens. `source` is what errors name."""
    kind = KINDS.get(type(backend.model))
    if kind is None:
        raise TokenizerError(f"{source} is a {type(backend.model).__name__} tokenizer", "bertkit does not know those.")
    if kind == "wordpiece":  # the other families with WordPiece have BERT's
        return BERT
    word_end = getattr(backend.model, "end_of_word_suffix", None) or ""
    candidates = [family for family in _FAMILIES if (family.kind, family.word_end) == (kind, word_end)]
    if not candidates:
        raise TokenizerError(f"{source} marks the ends of words with {word_end!r}", "bertkit knows </w>.")
    declared = tokenizer_class.removesuffix("Fast") if isinstance(tokenizer_class, str) else ""
    for family in candidates:
        if family.tokenizer_class == declared:
            return family
    if declared and declared not in ANY_FAMILY:
        known = " or ".join(family.tokenizer_class for family in candidates)
        raise TokenizerError(f"{source} is for {shortened(tokenizer_class)}", f"Of its kind bertkit knows {known}.")
    for family in candidates:
        if all(backend.token_to_id(token) is not None for token in family.specials.values()):
            return family
    return candidates[-1]


def bpe(family: Family, vocabulary: dict[str, int], merges: Iterable[tuple[str, str]]) -> models.BPE:
    """A family's model of pieces that are merged; of bytes none is ever unknown."""
    if not family.word_end:
        return models.BPE(vocabulary, list(merges))
    return models.BPE(
        vocabulary,
        list(merges),
        unk_token=family.specials["unk"],
        continuing_subword_prefix="",
        end_of_word_suffix=family.word_end,
    )


def assemble(
    family: Family,
    model: models.Model,
    *,
    lowercase: bool,
    specials: Mapping[str, str] | None = None,
    more_specials: Iterable[str] = (),
) -> tokenizers.Tokenizer:
    """A family's tokenizer around a model of pieces.

    WordPiece as in BERT: clean, split at white space, punctuation and Chinese characters; accents go when case does.
    BPE as in GPT-2: bytes, a word with the space before it; or as in the first GPT: split as in BERT, and the last
    piece of a word says that it is. Unigram as in ALBERT: words begin with ▁.
    """
    names = specials or family.specials
    backend = tokenizers.Tokenizer(model)
    if family.kind == "wordpiece":
        backend.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
        backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        backend.decoder = decoders.WordPiece(prefix="##")
    elif family.word_end:
        backend.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
        backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        backend.decoder = decoders.BPEDecoder(suffix=family.word_end)
    elif family.kind == "bpe":
        backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        backend.decoder = decoders.ByteLevel()
        if family.composes:
            backend.normalizer = normalizers.NFC()
    else:
        quotes = [normalizers.Replace("``", '"'), normalizers.Replace("''", '"')]
        folding = [normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase()] if lowercase else []
        backend.normalizer = normalizers.Sequence([*quotes, *folding])
        backend.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(WORD_START, prepend_scheme="always")]
        )
        backend.decoder = decoders.Metaspace(WORD_START, prepend_scheme="always")
    tokens = [
        token for token in dict.fromkeys([*names.values(), *more_specials]) if backend.token_to_id(token) is not None
    ]
    backend.add_special_tokens(
        [
            AddedToken(
                token, special=True, normalized=False, lstrip=family.mask_takes_space and token == names.get("mask")
            )
            for token in tokens
        ]
    )
    return backend


def frame(backend: tokenizers.Tokenizer, family: Family, specials: Mapping[str, str]) -> None:
    """Have texts encoded as the family reads them: [CLS] A [SEP] and [CLS] A [SEP] B [SEP] with two segments, RoBERTa's
    <s> A </s> and <s> A </s></s> B </s> with one, a GPT's without a frame."""
    if family.word_end:
        return
    if not family.framed:
        backend.post_processor = processors.ByteLevel(trim_offsets=False)
        return
    cls, sep = specials["cls"], specials["sep"]
    vocabulary = backend.get_vocab()
    cls_id, sep_id = vocabulary[cls], vocabulary[sep]
    if family.name == "roberta":
        backend.post_processor = processors.RobertaProcessing((sep, sep_id), (cls, cls_id), add_prefix_space=False)
        return
    backend.post_processor = processors.TemplateProcessing(
        single=f"{cls}:0 $A:0 {sep}:0",
        pair=f"{cls}:0 $A:0 {sep}:0 $B:{family.second_segment} {sep}:{family.second_segment}",
        special_tokens=[(cls, cls_id), (sep, sep_id)],
    )


def frame_for_tasks(backend: tokenizers.Tokenizer, specials: Mapping[str, str]) -> None:
    """Have texts encoded as a GPT reads them for a task: start A extract, and start A delimiter B extract."""
    start, between, end = (specials[role] for role in ("bos", "sep", "cls"))
    backend.post_processor = processors.TemplateProcessing(
        single=f"{start} $A {end}",
        pair=f"{start} $A {between} $B:0 {end}",
        special_tokens=[(token, backend.token_to_id(token)) for token in (start, between, end)],
    )
