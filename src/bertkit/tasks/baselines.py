"""What a model must beat to be worth its size: always the commonest answer, and a bag of words.

The bag of words is TF-IDF over words and pairs of words (over characters and pairs of them where the text is Chinese)
with a linear model: seconds to fit, and on many tables hard to beat.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bertkit.tasks.classify import Classify
from bertkit.tasks.data.texts import TextExample
from bertkit.tasks.regress import Regress
from bertkit.tasks.task import Task
from bertkit.text.chinese import has_han

MOST_EXAMPLES = 50_000
"""More are not needed to see what words alone can do."""


def baselines(task: Task[Any], train: Sequence[Any], dev: Sequence[Any]) -> dict[str, dict[str, float]]:
    """Metrics on the dev set, by the name of the baseline; empty for tasks that have none."""
    if isinstance(task, Classify) and not task.multi_label:
        return {
            "the commonest label": task.metrics(dev, _commonest(train, len(dev))),
            "bag of words": task.metrics(dev, _words_to_labels(train[:MOST_EXAMPLES], dev)),
        }
    if isinstance(task, Regress):
        mean = float(np.mean([example.right for example in train]))
        return {
            "always the mean": task.metrics(dev, [{"score": mean}] * len(dev)),
            "bag of words": task.metrics(dev, _words_to_numbers(train[:MOST_EXAMPLES], dev)),
        }
    return {}


def _commonest(train: Sequence[TextExample], count: int) -> list[Mapping[str, Any]]:
    labels, times = np.unique([example.right for example in train], return_counts=True)
    return [{"label": str(labels[times.argmax()])}] * count


def _words_to_labels(train: Sequence[TextExample], dev: Sequence[TextExample]) -> list[Mapping[str, Any]]:
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=10.0, max_iter=1000)
    seen, unseen = _bags(train, dev)
    model.fit(seen, [example.right for example in train])
    return [{"label": str(label)} for label in model.predict(unseen)]


def _words_to_numbers(train: Sequence[TextExample], dev: Sequence[TextExample]) -> list[Mapping[str, Any]]:
    from sklearn.linear_model import Ridge

    seen, unseen = _bags(train, dev)
    model = Ridge().fit(seen, [example.right for example in train])
    return [{"score": float(score)} for score in model.predict(unseen)]


def _bags(train: Sequence[TextExample], dev: Sequence[TextExample]) -> tuple[Any, Any]:
    """Of a pair, the words of each text, those of both, and how large a share of all that is."""
    from scipy.sparse import csr_matrix, hstack
    from sklearn.feature_extraction.text import TfidfVectorizer

    chinese = sum(has_han(example.text) for example in train[:1000]) > min(len(train), 1000) / 2
    way: dict[str, Any] = {"analyzer": "char"} if chinese else {"token_pattern": r"(?u)\b\w+\b"}
    bag = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, **way)
    bag.fit([example.text for example in train] + [example.pair for example in train if example.pair is not None])

    def of(examples: Sequence[TextExample]) -> Any:
        first = bag.transform([example.text for example in examples])
        if examples[0].pair is None:
            return first
        second = bag.transform([example.pair or "" for example in examples])
        both = first.multiply(second)
        return hstack([first, second, both, csr_matrix(both.sum(1))]).tocsr()

    return of(train), of(dev)
