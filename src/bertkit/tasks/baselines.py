"""What a model must beat to be worth its size: always the commonest answer, and a bag of words.

The bag of words is TF-IDF over words and pairs of words (over characters and pairs of them where the text is Chinese)
with a linear model: seconds to fit, and on many tables hard to beat.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from bertkit.tasks.classify import Classify
from bertkit.tasks.data.text_pairs import PairExample
from bertkit.tasks.data.texts import TextExample
from bertkit.tasks.embed import Embed
from bertkit.tasks.regress import Regress
from bertkit.tasks.task import Task
from bertkit.text.chinese import has_han

MOST_EXAMPLES, MOST_WORDS = 20_000, 50_000
"""More are not needed to see what words alone can do."""
MOST_CLASSES, MOST_WEIGHTS = 200, 5_000_000
"""Beyond that the linear model takes longer than the one that it is beside, and gigabytes."""
Answers = list[dict[str, Any]]
E = TypeVar("E")


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
    if isinstance(task, Embed):
        return _cosines_of_words(task, train, dev)
    return {}


def _bag_of_words(
    task: Task[Any], train: Sequence[TextExample], dev: Sequence[TextExample], answer: Callable[..., Answers]
) -> dict[str, dict[str, float]]:
    train = _some(train)
    if not any(re.search(r"\w", example.text) for example in train):
        return {}  # smileys only: there are no words
    return {"bag of words": task.metrics(dev, answer(train, dev))}


def _some(examples: Sequence[E]) -> Sequence[E]:
    """Of many, some that are taken by lot: files may be sorted by label."""
    if len(examples) <= MOST_EXAMPLES:
        return examples
    chosen = np.random.default_rng(0).choice(len(examples), MOST_EXAMPLES, replace=False)
    return [examples[number] for number in chosen]


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


def _cosines_of_words(
    task: Embed, train: Sequence[PairExample], dev: Sequence[PairExample]
) -> dict[str, dict[str, float]]:
    train = _some(train)
    if not any(re.search(r"\w", example.text) for example in train):
        return {}
    bag = _bag(train, pairs_of_words=False)
    firsts, seconds = (bag.transform(texts) for texts in zip(*((each.text, each.pair) for each in dev), strict=True))
    return {"bag of words": task.measured(dev, firsts, seconds)}


def _bag(
    train: Sequence[TextExample] | Sequence[PairExample], *, pairs_of_words: bool = True, words: int = MOST_WORDS
) -> Any:
    from sklearn.feature_extraction.text import TfidfVectorizer

    chinese = sum(has_han(example.text) for example in train[:1000]) > min(len(train), 1000) / 2
    way: dict[str, Any] = {"analyzer": "char"} if chinese else {"token_pattern": r"(?u)\b\w+\b"}
    together = (1, 2) if pairs_of_words or chinese else (1, 1)
    bag = TfidfVectorizer(ngram_range=together, sublinear_tf=True, max_features=words, **way)
    return bag.fit(
        [example.text for example in train] + [example.pair for example in train if example.pair is not None]
    )


def _bags(train: Sequence[TextExample], dev: Sequence[TextExample], words: int = MOST_WORDS) -> tuple[Any, Any]:
    """Of a pair, the words of each text, those of both, and how large a share of all that is."""
    from scipy.sparse import csr_matrix, hstack

    bag = _bag(train, words=words)

    def of(examples: Sequence[TextExample]) -> Any:
        first = bag.transform([example.text for example in examples])
        if examples[0].pair is None:
            return first
        second = bag.transform([example.pair or "" for example in examples])
        both = first.multiply(second)
        return hstack([first, second, both, csr_matrix(both.sum(1))]).tocsr()

    return of(train), of(dev)
