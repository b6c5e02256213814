"""The line of models from words that know nothing of each other to BERT's relatives: who they are, in which order, and
what each has added, for a page that is read like a chapter."""

from __future__ import annotations

from typing import NamedTuple


class Chapter(NamedTuple):
    title: str
    year: int
    model: str
    """What its sizes begin with."""
    added: str
    here: str = ""
    """What is not as it was then."""


LINE = (
    Chapter("One-hot", 1950, "one-hot", "A word is its place in a list: no two are more alike than any others."),
    Chapter("NNLM", 2003, "nnlm", "A network guesses the next word, and what it needs for that becomes a vector."),
    Chapter("CBOW", 2013, "cbow", "The words around one guess it, with no layer between: fast enough for all text."),
    Chapter("Skip-gram", 2013, "skip-gram", "A word guesses those around it: better vectors for rare ones."),
    Chapter("GloVe", 2014, "glove", "All neighbours are counted first, and vectors fitted to the counts at once."),
    Chapter(
        "ELMo",
        2018,
        "elmo",
        "A word's vector depends on its sentence: two language models, from the left and from the right, read the text,"
        " and all their layers are features.",
        "Here all its weights are fine-tuned; it was published for features that stay.",
    ),
    Chapter(
        "ULMFiT",
        2018,
        "awd-lstm",
        "A whole language model is tuned for the task, layer by layer and carefully: transfer without features.",
        "Here without its second stage, on the task's own text, so that all have learned from the same.",
    ),
    Chapter(
        "GPT",
        2018,
        "gpt",
        "The same with a Transformer in place of the LSTM: each word looks at all before it directly, and the next"
        " words go on being guessed while the task is learned.",
    ),
    Chapter(
        "BERT",
        2018,
        "bert",
        "Words are hidden instead of to come, so each layer sees both sides; and pairs of sentences are told apart.",
    ),
    Chapter("RoBERTa", 2019, "roberta", "BERT without the pairs, with masks drawn anew: what was left to gain in it."),
    Chapter("ALBERT", 2019, "albert", "One layer's weights for all layers, narrow embeddings, and sentence order."),
    Chapter(
        "ELECTRA",
        2020,
        "electra",
        "A small model fills the gaps, and the large one tells at every word whether it was replaced: all places"
        " teach, not one in seven.",
    ),
)
CALLED = {"elmo-mini": "elmo-small", "awd-lstm-mini": "awd-lstm-small"}
"""LSTMs that cost about what a Transformer of that size does."""


def chapter_of(title: str) -> Chapter | None:
    return next((each for each in LINE if each.title == title), None)
