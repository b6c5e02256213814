"""What a model must beat to be worth its size: always the commonest answer, and a bag of words.

The bag of words is TF-IDF over words and pairs of words (over characters and pairs of them where the text is Chinese)
with a linear model: seconds to fit, and on many tables hard to beat.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bertkit.tasks.classify import Classify
from bertkit.tasks.data.texts import TextExample
from bertkit.tasks.regress import Regress
from bertkit.tasks.task import Task
from bertkit.text.chinese import has_han

MOST_EXAMPLES, MOST_WORDS = 20_000, 50_000
"""More are not needed to see what words alone can do."""
MOST_CLASSES, MOST_WEIGHTS = 200, 5_000_000
"""Beyond that the linear model takes longer than the one that it is beside, and gigabytes."""
Answers = list[dict[str, Any]]


def baselines(task: Task[Any], train: Sequence[Any], dev: Sequence[Any]) -> dict[str, dict[str, float]]:
    """Metrics on the dev set, by the name of the baseline; empty for tasks that have none."""
    if isinstance(task, Classify) and not task.multi_label:
        return {
            "the commonest label": task.metrics(dev, _commonest([task.truth(each) for each in train], len(dev))),
            **(_bag_of_words(task, train, dev, _words_to_labels) if len(task.classes) <= MOST_CLASSES else {}),
        }
    if isinstance(task, Regress):
        mean = float(np.mean([example.right for example in train]))
        return {
            "always the mean": task.metrics(dev, [{"score": mean}] * len(dev)),
            **_bag_of_words(task, train, dev, _words_to_numbers),
        }
    return {}


def _bag_of_words(
    task: Task[Any], train: Sequence[TextExample], dev: Sequence[TextExample], answer: Callable[..., Answers]
) -> dict[str, dict[str, float]]:
    """Of many examples some are taken, by lot: files may be sorted by label."""
    if len(train) > MOST_EXAMPLES:
        chosen = np.random.default_rng(0).choice(len(train), MOST_EXAMPLES, replace=False)
        train = [train[number] for number in chosen]
    if not any(re.search(r"\w", example.text) for example in train):
        return {}  # smileys only: there are no words
    return {"bag of words": task.metrics(dev, answer(train, dev))}


def _commonest(labels: Sequence[str], count: int) -> Answers:
    return [{"label": Counter(labels).most_common(1)[0][0]}] * count


def _words_to_labels(train: Sequence[TextExample], dev: Sequence[TextExample]) -> Answers:
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=10.0, max_iter=1000)
    labels = [Classify.truth(example) for example in train]
    if len(set(labels)) == 1:
        return _commonest(labels, len(dev))
    seen, unseen = _bags(train, dev, min(MOST_WORDS, MOST_WEIGHTS // len(set(labels))))
    model.fit(seen, labels)
    return [{"label": str(label)} for label in model.predict(unseen)]


def _words_to_numbers(train: Sequence[TextExample], dev: Sequence[TextExample]) -> Answers:
    from sklearn.linear_model import Ridge

    seen, unseen = _bags(train, dev)
    model = Ridge().fit(seen, [example.right for example in train])
    return [{"score": float(score)} for score in model.predict(unseen)]


def _bags(train: Sequence[TextExample], dev: Sequence[TextExample], words: int = MOST_WORDS) -> tuple[Any, Any]:
    """Of a pair, the words of each text, those of both, and how large a share of all that is."""
    from scipy.sparse import csr_matrix, hstack
    from sklearn.feature_extraction.text import TfidfVectorizer

    chinese = sum(has_han(example.text) for example in train[:1000]) > min(len(train), 1000) / 2
    way: dict[str, Any] = {"analyzer": "char"} if chinese else {"token_pattern": r"(?u)\b\w+\b"}
    bag = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, max_features=words, **way)
    bag.fit([example.text for example in train] + [example.pair for example in train if example.pair is not None])

    def of(examples: Sequence[TextExample]) -> Any:
        first = bag.transform([example.text for example in examples])
        if examples[0].pair is None:
            return first
        second = bag.transform([example.pair or "" for example in examples])
        both = first.multiply(second)
        return hstack([first, second, both, csr_matrix(both.sum(1))]).tocsr()

    return of(train), of(dev)
