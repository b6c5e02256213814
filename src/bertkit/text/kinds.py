"""The kinds of tokenizers that models expect: how text is split, the special tokens, and the frame around it.

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
ANY_FORM = ("PreTrainedTokenizer", "TokenizersBackend")


@dataclass(frozen=True)
class Form:
    """What a tokenizer is made of.

    `specials` maps roles to tokens; the ids follow their order. `vocab_size` is that of the published models, rounded
    up to a multiple of 64, which matrix multiplication likes.
    """

    name: str
    title: str
    kind: str
    """wordpiece, bpe, unigram or words"""
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
    """Without a frame: the tokens that stand around texts when it is fine-tuned. `bos` before, `sep`
    between two, `cls` at the end, where the answer is read, since there everything has been seen."""


_GPT_TASKS = MappingProxyType(
    {"bos": "<_start_>", "sep": "<_delimiter_>", "cls": "<_classify_>", "eos": "<_classify_>"}
)
_FORMS = (
    Form(
        "wordpiece",
        "WordPiece",
        "wordpiece",
        "BertTokenizer",
        MappingProxyType({"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}),
        vocab_size=30_528,
    ),
    Form(
        "bytes-s",
        "byte-level BPE framed by <s>",
        "bpe",
        "RobertaTokenizer",
        MappingProxyType(
            {"cls": "<s>", "pad": "<pad>", "sep": "</s>", "unk": "<unk>", "mask": "<mask>", "bos": "<s>", "eos": "</s>"}
        ),
        vocab_size=50_304,
        cased_only=True,
        mask_takes_space=True,
        between_texts=2,
        second_segment=0,
    ),
    Form(
        "bytes-cls",
        "byte-level BPE framed by [CLS]",
        "bpe",
        "PreTrainedTokenizerFast",
        MappingProxyType({"unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "pad": "[PAD]", "mask": "[MASK]"}),
        vocab_size=50_368,
        cased_only=True,
        mask_takes_space=True,
        composes=True,
    ),
    Form(
        "bytes",
        "byte-level BPE",
        "bpe",
        "GPT2Tokenizer",
        MappingProxyType({"bos": "<|endoftext|>", "eos": "<|endoftext|>"}),
        vocab_size=50_304,
        cased_only=True,
        framed=False,
        for_tasks=MappingProxyType({"sep": "<|delimiter|>", "cls": "<|extract|>", "pad": "<|endoftext|>"}),
    ),
    Form(
        "unigram",
        "Unigram",
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
    Form(
        "bpe",
        "BPE with ends of words",
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
    Form(
        "words",
        "whole words",
        "words",
        "PreTrainedTokenizerFast",
        MappingProxyType({"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]"}),
        vocab_size=50_048,
        second_segment=0,
    ),
)
FORMS: Mapping[str, Form] = MappingProxyType({form.name: form for form in _FORMS})
WORDPIECE, BPE, BYTES = (FORMS[name] for name in ("wordpiece", "bpe", "bytes"))
KINDS: Mapping[type, str] = MappingProxyType(
    {models.WordPiece: "wordpiece", models.BPE: "bpe", models.Unigram: "unigram", models.WordLevel: "words"}
)
WORDS = r"['’](?:s|t|m|d|re|ve|ll)\b|\w+|[^\w\s]"
"""Letters and digits together, the ends of don't and bank's, signs one by one."""


def form_called(name: str) -> Form:
    """
    >>> form_called("bytes").framed
    False
    """
    if name not in FORMS:
        hint = nearest(name, FORMS)
        raise UsageError(f"no kind of tokenizer is called {name!r}", f"{hint} There are: {', '.join(FORMS)}.")
    return FORMS[name]


def form_of(backend: tokenizers.Tokenizer, tokenizer_class: object, source: object) -> Form:
    """The form of a tokenizer that somebody made: by the class that transformers opens it with, or, where none of
    a form is named, by its kind and special tokens. `source` is what errors name."""
    kind = KINDS.get(type(backend.model))
    if kind is None:
        raise TokenizerError(f"{source} is a {type(backend.model).__name__} tokenizer", "bertkit does not know those.")
    if kind == "wordpiece":  # those of all networks with WordPiece have BERT's
        return WORDPIECE
    word_end = getattr(backend.model, "end_of_word_suffix", None) or ""
    candidates = [form for form in _FORMS if (form.kind, form.word_end) == (kind, word_end)]
    if not candidates:
        raise TokenizerError(f"{source} marks the ends of words with {word_end!r}", "bertkit knows </w>.")
    declared = tokenizer_class.removesuffix("Fast") if isinstance(tokenizer_class, str) else ""
    for form in candidates:
        if form.tokenizer_class == declared:
            return form
    if declared and declared not in ANY_FORM:
        known = " or ".join(form.tokenizer_class for form in candidates)
        raise TokenizerError(f"{source} is for {shortened(tokenizer_class)}", f"Of its kind bertkit knows {known}.")
    for form in candidates:
        if all(backend.token_to_id(token) is not None for token in form.specials.values()):
            return form
    return candidates[-1]


def bpe(form: Form, vocabulary: dict[str, int], merges: Iterable[tuple[str, str]]) -> models.BPE:
    """A form's model of pieces that are merged; of bytes none is ever unknown."""
    if not form.word_end:
        return models.BPE(vocabulary, list(merges))
    return models.BPE(
        vocabulary,
        list(merges),
        unk_token=form.specials["unk"],
        continuing_subword_prefix="",
        end_of_word_suffix=form.word_end,
    )


def assemble(
    form: Form,
    model: models.Model,
    *,
    lowercase: bool,
    specials: Mapping[str, str] | None = None,
    more_specials: Iterable[str] = (),
) -> tokenizers.Tokenizer:
    """A form's tokenizer around a model of pieces.

    WordPiece as in BERT: clean, split at white space, punctuation and Chinese characters; accents go when case does.
    BPE as in GPT-2: bytes, a word with the space before it; or as in the first GPT: split as in BERT, and the last
    piece of a word says that it is. Unigram as in ALBERT: words begin with ▁. Whole words keep their accents; those of
    Chinese are cut before (chinese.py).
    """
    names = specials or form.specials
    backend = tokenizers.Tokenizer(model)
    if form.kind == "wordpiece":
        backend.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
        backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        backend.decoder = decoders.WordPiece(prefix="##")
    elif form.kind == "words":
        backend.normalizer = normalizers.BertNormalizer(
            lowercase=lowercase, strip_accents=False, handle_chinese_chars=False
        )
        backend.pre_tokenizer = pre_tokenizers.Split(tokenizers.Regex(WORDS), "removed", invert=True)
    elif form.word_end:
        backend.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
        backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        backend.decoder = decoders.BPEDecoder(suffix=form.word_end)
    elif form.kind == "bpe":
        backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        backend.decoder = decoders.ByteLevel()
        if form.composes:
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
                token, special=True, normalized=False, lstrip=form.mask_takes_space and token == names.get("mask")
            )
            for token in tokens
        ]
    )
    return backend


def frame(backend: tokenizers.Tokenizer, form: Form, specials: Mapping[str, str]) -> None:
    """Have texts encoded as models read them: [CLS] A [SEP] and [CLS] A [SEP] B [SEP] with two segments, or the
    <s> A </s> and <s> A </s></s> B </s> with one, a GPT's without a frame."""
    if form.word_end:
        return
    if not form.framed:
        backend.post_processor = processors.ByteLevel(trim_offsets=False)
        return
    cls, sep = specials["cls"], specials["sep"]
    vocabulary = backend.get_vocab()
    cls_id, sep_id = vocabulary[cls], vocabulary[sep]
    if form.between_texts == 2:
        backend.post_processor = processors.RobertaProcessing((sep, sep_id), (cls, cls_id), add_prefix_space=False)
        return
    backend.post_processor = processors.TemplateProcessing(
        single=f"{cls}:0 $A:0 {sep}:0",
        pair=f"{cls}:0 $A:0 {sep}:0 $B:{form.second_segment} {sep}:{form.second_segment}",
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
