"""What a model must beat to be worth its size: always the commonest answer, and what words alone can tell.

The bag of words is TF-IDF with a linear model: seconds to fit, and on many tables hard to beat.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from statistics import fmean
from typing import Any

import numpy as np

from bertkit.tasks.bags import MOST_WORDS, bag_of, bags, has_words, some
from bertkit.tasks.choice import MultipleChoice
from bertkit.tasks.classify import Classify
from bertkit.tasks.data.text_pairs import PairExample
from bertkit.tasks.data.texts import TextExample
from bertkit.tasks.embed import Embed
from bertkit.tasks.plain_answers import Answers, commonest_tags, endings_alike, longest_endings, sentences_alike
from bertkit.tasks.qa import Qa
from bertkit.tasks.regress import Regress
from bertkit.tasks.scores import unwarned
from bertkit.tasks.tag import Tag
from bertkit.tasks.task import Task

MOST_CLASSES, MOST_WEIGHTS = 200, 5_000_000
"""Beyond that the linear model takes longer than the one that it is beside, and gigabytes; then the training example
with the most words in common says what it is."""
NEIGHBOURS_AT_ONCE = 256
MOST_FITTED = 500_000
"""Of several labels each has a model of its own, and together they see so many examples."""
Found = dict[str, dict[str, float]]


def baselines(task: Task[Any], train: Sequence[Any], dev: Sequence[Any]) -> Found:
    """Metrics on the dev set, by the name of the baseline; one that needs words is left out where there are none."""
    with unwarned():
        if isinstance(task, Classify):
            return _of_labels(task, train, dev)
        if isinstance(task, Regress):
            mean = float(np.mean([example.right for example in train]))
            always = _measured(task, dev, {"always the mean": [{"score": mean}] * len(dev)})
            return always | _bag_of_words(task, train, dev, _words_to_numbers)
        if isinstance(task, Embed):
            return _cosines_of_words(task, train, dev)
        if isinstance(task, Tag):
            return _measured(task, dev, {"the commonest tag of each word": commonest_tags(task, train, dev)})
        if isinstance(task, Qa):
            silent = {"never an answer": [{"answer": ""}] * len(dev)} if task.no_answer else {}
            return _measured(task, dev, {**silent, "the sentence most like the question": sentences_alike(train, dev)})
        if isinstance(task, MultipleChoice):
            chance = {"chance": {"accuracy": fmean(1 / len(example.endings) for example in dev)}}
            longest, alike = longest_endings(task, dev), endings_alike(task, train, dev)
            answers = {"the longest ending": longest, "the ending most like the beginning": alike}
            return chance | _measured(task, dev, answers)
    return {}


def _measured(task: Task[Any], dev: Sequence[Any], answers: dict[str, Answers]) -> Found:
    return {title: task.metrics(dev, its) for title, its in answers.items() if its}


def _of_labels(task: Classify, train: Sequence[TextExample], dev: Sequence[TextExample]) -> Found:
    if task.multi_label:
        title, said, learn = "the commonest labels", _commonest_labels(train, len(dev)), _words_to_several
    else:
        title, said, learn = "the commonest label", _commonest(list(map(task.truth, train)), len(dev)), _words_to_labels
    always = {title: task.metrics(dev, said)}
    if len(task.classes) <= MOST_CLASSES:
        return always | _bag_of_words(task, train, dev, learn)
    return always | _bag_of_words(task, train, dev, partial(_most_alike, task), "the most similar example")


def _bag_of_words(
    task: Task[Any],
    train: Sequence[TextExample],
    dev: Sequence[TextExample],
    answer: Callable[..., Answers],
    title: str = "bag of words",
) -> Found:
    train = some(train)
    if not has_words([example.text for example in train]):
        return {}
    return {title: task.metrics(dev, answer(train, dev))}


def _commonest(labels: Sequence[str], count: int) -> Answers:
    return [{"label": Counter(labels).most_common(1)[0][0]}] * count


def _commonest_labels(train: Sequence[TextExample], count: int) -> Answers:
    """The set of labels that most texts have; only if all have none, none."""
    sets = Counter(tuple(sorted(Classify.truths(example))) for example in train)
    named = [labels for labels, _ in sets.most_common() if labels]
    return [{"labels": list(named[0]) if named else []}] * count


def _most_alike(task: Classify, train: Sequence[TextExample], dev: Sequence[TextExample]) -> Answers:
    """What the training example is that has the most, and the rarest, words in common with it."""
    seen, unseen = bags(train, dev)
    found: list[int] = []
    for start in range(0, len(dev), NEIGHBOURS_AT_ONCE):
        found += np.asarray((unseen[start : start + NEIGHBOURS_AT_ONCE] @ seen.T).argmax(axis=1)).ravel().tolist()
    if task.multi_label:
        return [{"labels": task.truths(train[number])} for number in found]
    return [{"label": task.truth(train[number])} for number in found]


def _words_to_labels(train: Sequence[TextExample], dev: Sequence[TextExample]) -> Answers:
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=10.0, max_iter=1000)
    labels = [Classify.truth(example) for example in train]
    if len(set(labels)) == 1:
        return _commonest(labels, len(dev))
    seen, unseen = bags(train, dev, min(MOST_WORDS, MOST_WEIGHTS // len(set(labels))))
    model.fit(seen, labels)
    return [{"label": str(label)} for label in model.predict(unseen)]


def _words_to_several(train: Sequence[TextExample], dev: Sequence[TextExample]) -> Answers:
    """A model for each label: has a text this one, or not?"""
    from sklearn.linear_model import LogisticRegression

    names = sorted({label for example in train for label in Classify.truths(example)})
    train = some(train, MOST_FITTED // len(names))
    right = [set(Classify.truths(example)) for example in train]
    seen, unseen = bags(train, dev, min(MOST_WORDS, MOST_WEIGHTS // len(names)))
    said: list[list[str]] = [[] for _ in dev]
    for name in names:
        has_it = [name in labels for labels in right]
        if len(set(has_it)) == 1:
            chosen = [has_it[0]] * len(dev)
        else:
            # liblinear is the fastest of them where there are two classes
            chosen = LogisticRegression(C=10.0, solver="liblinear").fit(seen, has_it).predict(unseen).tolist()
        for labels, has in zip(said, chosen, strict=True):
            labels += [name] * has
    return [{"labels": labels} for labels in said]


def _words_to_numbers(train: Sequence[TextExample], dev: Sequence[TextExample]) -> Answers:
    from sklearn.linear_model import Ridge

    seen, unseen = bags(train, dev)
    model = Ridge().fit(seen, [example.right for example in train])
    return [{"score": float(score)} for score in model.predict(unseen)]


def _cosines_of_words(task: Embed, train: Sequence[PairExample], dev: Sequence[PairExample]) -> Found:
    train = some(train)
    texts = [example.text for example in train]
    if not has_words(texts):
        return {}
    bag = bag_of(texts + [example.pair for example in train], pairs_of_words=False)
    firsts, seconds = (bag.transform(texts) for texts in zip(*((each.text, each.pair) for each in dev), strict=True))
    return {"bag of words": task.measured(dev, firsts, seconds)}
