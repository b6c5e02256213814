"""Bags of words: what words there are in a text, whatever their order, with rare words counting more (TF-IDF).

Words and pairs of words, or characters and pairs of them where the text is Chinese.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

from bertkit.tasks.data.texts import TextExample
from bertkit.text.chinese import has_han

MOST_EXAMPLES, MOST_WORDS = 20_000, 50_000
"""More are not needed to see what words alone can do."""
LOOKED_AT = 1000
E = TypeVar("E")


def some(examples: Sequence[E], most: int = MOST_EXAMPLES) -> Sequence[E]:
    """Of many, some that are taken by lot: files may be sorted by label."""
    if len(examples) <= most:
        return examples
    chosen = np.random.default_rng(0).choice(len(examples), most, replace=False)
    return [examples[number] for number in chosen]


def has_words(texts: Sequence[str]) -> bool:
    """Not so if there are smileys only."""
    return any(re.search(r"\w", text) for text in texts)


def bag_of(texts: Sequence[str], *, pairs_of_words: bool = True, words: int = MOST_WORDS) -> Any:
    """What makes vectors of length 1 from texts, knowing the words that these have."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    chinese = sum(has_han(text) for text in texts[:LOOKED_AT]) > min(len(texts), LOOKED_AT) / 2
    way: dict[str, Any] = {"analyzer": "char"} if chinese else {"token_pattern": r"(?u)\b\w+\b"}
    together = (1, 2) if pairs_of_words or chinese else (1, 1)
    return TfidfVectorizer(ngram_range=together, sublinear_tf=True, max_features=words, **way).fit(texts)


def bags(train: Sequence[TextExample], dev: Sequence[TextExample], words: int = MOST_WORDS) -> tuple[Any, Any]:
    """Of a pair, the words of each text, those of both, and how large a share of all that is."""
    from scipy.sparse import csr_matrix, hstack

    pairs = [example.pair for example in train if example.pair is not None]
    bag = bag_of([example.text for example in train] + pairs, words=words)

    def of(examples: Sequence[TextExample]) -> Any:
        first = bag.transform([example.text for example in examples])
        if examples[0].pair is None:
            return first
        second = bag.transform([example.pair or "" for example in examples])
        both = first.multiply(second)
        return hstack([first, second, both, csr_matrix(both.sum(1))]).tocsr()

    return of(train), of(dev)
