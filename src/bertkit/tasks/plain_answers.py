"""Answers that need no model: the commonest tag of a word, the sentence or the ending with the most words in common.

What is alike is measured by words, rare ones counting more, and single characters in Chinese.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from bertkit.tasks.bags import bag_of, has_words, some
from bertkit.tasks.choice import ChoiceExample, MultipleChoice
from bertkit.tasks.data.conll import TagExample
from bertkit.tasks.data.squad import QaExample
from bertkit.tasks.schemes import OUTSIDE, PLAIN
from bertkit.tasks.tag import Tag
from bertkit.text.sentences import split_sentences

Answers = list[dict[str, Any]]


def commonest_tags(task: Tag, train: Sequence[TagExample], dev: Sequence[TagExample]) -> Answers:
    """Each word gets the tag that it has most often in training; one that is not there gets O, or where tags mark no
    spans, the commonest of all."""
    counts: dict[str, Counter[str]] = {}
    of_all: Counter[str] = Counter()
    for example in train:
        of_all.update(example.tags or ())
        for word, tag in zip(example.words, example.tags or (), strict=True):
            counts.setdefault(word, Counter())[tag] += 1
    otherwise = of_all.most_common(1)[0][0] if task.scheme == PLAIN else OUTSIDE
    best = {word: its.most_common(1)[0][0] for word, its in counts.items()}
    return [{"tags": [best.get(word, otherwise) for word in example.words]} for example in dev]


def sentences_alike(train: Sequence[QaExample], dev: Sequence[QaExample]) -> Answers:
    """The whole sentence of the passage that has most in common with the question; none if there are no words."""
    known = some(train)
    texts = [*dict.fromkeys(each.context for each in known), *(each.question for each in known)]
    if not has_words(texts):
        return []
    bag = bag_of(texts, pairs_of_words=False)
    sentences_of = {context: split_sentences(context) or [context] for context in {each.context for each in dev}}
    vectors_of = {context: bag.transform(sentences) for context, sentences in sentences_of.items()}
    questions = bag.transform([example.question for example in dev])
    return [
        {"answer": sentences_of[example.context][_nearest(vectors_of[example.context], questions[row : row + 1])]}
        for row, example in enumerate(dev)
    ]


def longest_endings(task: MultipleChoice, dev: Sequence[ChoiceExample]) -> Answers:
    """Who writes wrong endings often takes less trouble over them."""
    return [{"choice": task.first + int(np.argmax(list(map(len, example.endings))))} for example in dev]


def endings_alike(task: MultipleChoice, train: Sequence[ChoiceExample], dev: Sequence[ChoiceExample]) -> Answers:
    known = some(train)
    texts = [text for example in known for text in (example.premise, *example.endings)]
    if not has_words(texts):
        return []
    bag = bag_of(texts, pairs_of_words=False)
    premises = bag.transform([example.premise for example in dev])
    endings = bag.transform([ending for example in dev for ending in example.endings])
    places = pairwise(accumulate((len(example.endings) for example in dev), initial=0))
    return [
        {"choice": task.first + _nearest(endings[start:stop], premises[row : row + 1])}
        for row, (start, stop) in enumerate(places)
    ]


def _nearest(vectors: Any, to: Any) -> int:
    """The number of the row that is; of equal ones the first."""
    return int(np.argmax((vectors @ to.T).toarray()))
