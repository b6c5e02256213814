"""What a model must beat to be worth its size: always the commonest answer, and what words alone can tell.

The bag of words is TF-IDF with a linear model: seconds to fit, and on many tables hard to beat. What is alike is
measured by words, rare ones counting more, and single characters in Chinese.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from typing import Any, TypeVar

import numpy as np

from bertkit.tables.values import TextExample
from bertkit.tasks.examples import PairExample, QaExample, TagExample
from bertkit.tasks.findings import Answers, Said
from bertkit.text.chinese import has_han
from bertkit.text.sentences import split_sentences

MOST_CLASSES, MOST_WEIGHTS = 200, 5_000_000
"""Beyond that the linear model takes longer than the one that it is beside, and gigabytes; then the training example
with the most words in common says what it is."""
NEIGHBOURS_AT_ONCE = 256
MOST_FITTED = 500_000
"""Of several labels each has a model of its own, and together they see so many examples."""
Texts = Sequence[TextExample]
Labels = Callable[[TextExample], list[str]]
Question = tuple[str, Sequence[str]]
"""A beginning and its endings."""


def of_labels(train: Texts, labels: Labels, dev: Texts, several: bool, *, few: bool) -> Said:
    """`labels` are those of a text, one or `several`. Where there are not `few` of them, neighbours stand for the
    linear model."""
    sets = Counter(tuple(sorted(labels(example))) for example in train)
    # the set that most texts have; only if all have none, none
    always = next((its for its, _ in sets.most_common() if its), ())

    def said(found: Sequence[str]) -> dict[str, Any]:
        return {"labels": list(found)} if several else {"label": found[0]}

    yield f"the commonest label{'s' * several}", [said(always)] * len(dev)
    known = some(train)
    if not has_words([example.text for example in known]):
        return
    if not few:
        yield "the most similar example", [said(labels(known[number])) for number in _nearest_rows(known, dev)]
    elif several:
        yield "bag of words", [said(its) for its in _words_to_several(known, labels, dev)]
    else:
        yield "bag of words", [said([its]) for its in _words_to_labels(known, labels, dev)]


def _nearest_rows(train: Texts, dev: Texts) -> list[int]:
    """The training examples that have the most, and the rarest, words in common with those."""
    seen, unseen = bags(train, dev)
    found: list[int] = []
    for start in range(0, len(dev), NEIGHBOURS_AT_ONCE):
        found += np.asarray((unseen[start : start + NEIGHBOURS_AT_ONCE] @ seen.T).argmax(axis=1)).ravel().tolist()
    return found


def _words_to_labels(train: Texts, labels: Labels, dev: Texts) -> list[str]:
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=10.0, max_iter=1000)
    right = [labels(example)[0] for example in train]
    if len(set(right)) == 1:
        return right[:1] * len(dev)
    seen, unseen = bags(train, dev, min(MOST_WORDS, MOST_WEIGHTS // len(set(right))))
    model.fit(seen, right)
    return list(map(str, model.predict(unseen)))


def _words_to_several(train: Texts, labels: Labels, dev: Texts) -> list[list[str]]:
    """A model for each label: has a text this one, or not?"""
    from sklearn.linear_model import LogisticRegression

    names = sorted({label for example in train for label in labels(example)})
    train = some(train, MOST_FITTED // len(names))
    right = [set(labels(example)) for example in train]
    seen, unseen = bags(train, dev, min(MOST_WORDS, MOST_WEIGHTS // len(names)))
    said: list[list[str]] = [[] for _ in dev]
    for name in names:
        has_it = [name in its for its in right]
        if len(set(has_it)) == 1:
            chosen = [has_it[0]] * len(dev)
        else:
            # liblinear is the fastest of them where there are two classes
            chosen = LogisticRegression(C=10.0, solver="liblinear").fit(seen, has_it).predict(unseen).tolist()
        for its, has in zip(said, chosen, strict=True):
            its += [name] * has
    return said


def of_numbers(train: Texts, dev: Texts) -> Said:
    from sklearn.linear_model import Ridge

    mean = float(np.mean([example.right for example in train]))
    yield "always the mean", [{"score": mean}] * len(dev)
    known = some(train)
    if has_words([example.text for example in known]):
        seen, unseen = bags(known, dev)
        model = Ridge().fit(seen, [example.right for example in known])
        yield "bag of words", [{"score": float(score)} for score in model.predict(unseen)]


def cosine_bags(train: Sequence[PairExample], dev: Sequence[PairExample]) -> tuple[Any, Any] | None:
    """For the firsts and the seconds a matrix with a vector of words in each row."""
    known = some(train)
    texts = [example.text for example in known]
    if not has_words(texts):
        return None
    bag = bag_of(texts + [example.pair for example in known], pairs_of_words=False)
    return bag.transform([each.text for each in dev]), bag.transform([each.pair for each in dev])


def of_words(train: Sequence[TagExample], dev: Sequence[TagExample], otherwise: str | None) -> Said:
    """Each word gets the tag that it has most often in training; one that is not there gets the tag `otherwise`, or if
    that is None, the commonest of all."""
    counts: dict[str, Counter[str]] = {}
    of_all: Counter[str] = Counter()
    for example in train:
        of_all.update(example.tags or ())
        for word, tag in zip(example.words, example.tags or (), strict=True):
            counts.setdefault(word, Counter())[tag] += 1
    unknown = of_all.most_common(1)[0][0] if otherwise is None else otherwise
    best = {word: its.most_common(1)[0][0] for word, its in counts.items()}
    found = [{"tags": [best.get(word, unknown) for word in example.words]} for example in dev]
    yield "the commonest tag of each word", found


def of_passages(train: Sequence[QaExample], dev: Sequence[QaExample], *, may_be_silent: bool) -> Said:
    if may_be_silent:
        yield "never an answer", [{"answer": ""}] * len(dev)
    yield "the sentence most like the question", _sentences_alike(train, dev)


def _sentences_alike(train: Sequence[QaExample], dev: Sequence[QaExample]) -> Answers:
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


def of_texts(train: Sequence[Any], dev: Sequence[Any]) -> Said:
    """Of texts that are written from others: those themselves, their beginnings, and what was written from the most
    similar one."""
    yield "the text itself", [{"text": example.text} for example in dev]
    firsts = [(split_sentences(example.text) or [example.text])[0] for example in dev]
    if any(first != example.text for first, example in zip(firsts, dev, strict=True)):
        yield "its first sentence", [{"text": first} for first in firsts]
    known = some(train)
    texts = [example.text for example in known]
    if has_words(texts):
        bag = bag_of(texts, pairs_of_words=False)
        seen, unseen = bag.transform(texts), bag.transform([example.text for example in dev])
        nearest = [int((unseen[row] @ seen.T).toarray().argmax()) for row in range(len(dev))]
        yield "the most similar example's", [{"text": known[number].targets[0]} for number in nearest]


def of_endings(train: Sequence[Question], dev: Sequence[Question], first: int) -> Said:
    """Who writes wrong endings often takes less trouble over them. `first` is the number of the first ending."""
    longest = [int(np.argmax(list(map(len, endings)))) for _, endings in dev]
    yield "the longest ending", [{"choice": first + number} for number in longest]
    texts = [text for premise, endings in some(train) for text in (premise, *endings)]
    if not has_words(texts):
        return
    bag = bag_of(texts, pairs_of_words=False)
    premises = bag.transform([premise for premise, _ in dev])
    vectors = bag.transform([ending for _, endings in dev for ending in endings])
    places = pairwise(accumulate((len(endings) for _, endings in dev), initial=0))
    alike = [_nearest(vectors[start:stop], premises[row : row + 1]) for row, (start, stop) in enumerate(places)]
    yield "the ending most like the beginning", [{"choice": first + number} for number in alike]


def _nearest(vectors: Any, to: Any) -> int:
    """The number of the row that is; of equal ones the first."""
    return int(np.argmax((vectors @ to.T).toarray()))


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
