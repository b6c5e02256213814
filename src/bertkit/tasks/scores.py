"""How good answers are, as the libraries that everybody compares with count it: labels, numbers, tags (spans as seqeval
counts them, words one by one), and vectors of texts.

Of vectors it is whether their cosines rise with scores that people gave, or whether of many texts the one that belongs
to another is nearest to it. They are matrices with a row of length 1 for each text, dense or, of a bag of words,
sparse.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bertkit.tasks.schemes import OUTSIDE, to_iob2

ROUNDING = 1e-13
"""A spread that is so small beside the squares it was computed from is none."""


def classification_scores(truth: Sequence[str], found: Sequence[str], classes: Sequence[str]) -> dict[str, float]:
    """`f1_macro` is the mean over the classes that are right or said somewhere, as scikit-learn has it unless told
    otherwise. What is only in `classes` could not be found, and does not count."""
    from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef

    with unwarned():
        scores = {
            "accuracy": accuracy_score(truth, found),
            "f1_macro": f1_score(truth, found, average="macro", zero_division=0),
            "f1_micro": f1_score(truth, found, average="micro", zero_division=0),
            "matthews": matthews_corrcoef(truth, found) if len({*truth, *found}) > 1 else 0.0,
        }
        if len(classes) == 2:
            scores["f1"] = f1_score(truth, found, pos_label=classes[1], zero_division=0)
    return {name: float(value) for name, value in scores.items()}


@contextmanager
def unwarned() -> Iterator[None]:
    """scikit-learn warns of many classes for few examples, and where a linear model could still become a little better.
    That is nothing to a user, who called neither."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


def multi_label_scores(
    truth: Sequence[Sequence[str]], found: Sequence[Sequence[str]], classes: Sequence[str]
) -> dict[str, float]:
    """Accuracy is the share of texts with exactly the right labels."""
    from sklearn.metrics import accuracy_score, f1_score

    # With a column that is never right nor said nor counted: one alone would be taken for a choice of two classes.
    right, said = (
        np.array([[*(name in labels for name in classes), False] for labels in side]) for side in (truth, found)
    )
    counted = range(len(classes))
    return {
        "accuracy": float(accuracy_score(right, said)),
        "f1_macro": float(f1_score(right, said, labels=counted, average="macro", zero_division=0)),
        "f1_micro": float(f1_score(right, said, labels=counted, average="micro", zero_division=0)),
    }


def regression_scores(truth: Sequence[float], found: Sequence[float]) -> dict[str, float]:
    """Correlations are 0 where there is none to speak of: if all answers, or all that is right, are the same."""
    from scipy.stats import pearsonr, spearmanr

    right, said = np.asarray(truth, float), np.asarray(found, float)
    varied = len(right) > 1 and bool(np.ptp(right) > 0) and bool(np.ptp(said) > 0)
    pearson, spearman = (
        (float(pearsonr(right, said).statistic), float(spearmanr(right, said).statistic)) if varied else (0.0, 0.0)
    )
    error = float(np.abs(right - said).mean())
    return {"pearson": pearson, "spearman": spearman, "mean_error": error}


def correlation(count: float, a: float, b: float, aa: float, bb: float, ab: float) -> float:
    """Pearson's, from the sums of two numbers, of their squares and of their product; 0 if one of them never varies.
    The numbers must be taken from their means, or nearly: else the differences are lost in the digits of the sums."""
    spreads = aa - a**2 / count, bb - b**2 / count
    if spreads[0] <= ROUNDING * aa or spreads[1] <= ROUNDING * bb:
        return 0.0
    return min(max((ab - a * b / count) / math.sqrt(spreads[0] * spreads[1]), -1.0), 1.0)


def centred(values: Sequence[float]) -> list[float]:
    """The same numbers with mean 0 and deviation 1, which changes no correlation; all 0 if they never vary."""
    numbers = np.asarray(values, float)
    if not np.ptp(numbers):
        return [0.0] * len(numbers)
    # first to at most 1, because squares of large numbers overflow and those of small ones vanish
    numbers = (numbers - numbers[0]) / np.abs(numbers - numbers[0]).max()
    numbers = numbers - numbers.mean()
    shown: list[float] = (numbers / numbers.std()).tolist()
    return shown


Sentences = Sequence[Sequence[str]]


def span_scores(truth: Sentences, answers: Sentences) -> dict[str, float]:
    """A span is right if its first word, its last word and its type are. `f1` is over all spans, `f1_PER` over those
    of one type; a score without anything to divide by is 0."""
    from seqeval.metrics.sequence_labeling import accuracy_score, get_entities, precision_recall_fscore_support

    right, said = [_countable(tags) for tags in truth], [_countable(tags) for tags in answers]
    precision, recall, f1, _ = precision_recall_fscore_support(right, said, average="micro", zero_division=0)
    _, _, of_types, _ = precision_recall_fscore_support(right, said, average=None, zero_division=0)
    types = sorted({entity[0] for tags in (right, said) for entity in get_entities(tags)})
    accuracy = accuracy_score(right, said) if any(right) else 0.0
    scores = {"f1": f1, "precision": precision, "recall": recall, "accuracy": accuracy}
    scores |= {f"f1_{name}": score for name, score in zip(types, of_types, strict=True)}
    return {name: float(score) for name, score in scores.items()}


def _countable(tags: Sequence[str]) -> list[str]:
    """Tags as they are, unless there are letters among them that seqeval does not know or warns of."""
    known = all(tag == OUTSIDE or tag[:2] in ("B", "I", "B-", "I-") for tag in tags)
    return list(tags) if known else to_iob2(tags)


def word_scores(truth: Sentences, answers: Sentences) -> dict[str, float]:
    """For plain tags. Each word has one tag, so F1 over all words is their accuracy. Without words all is 0."""
    from sklearn.metrics import f1_score

    right, said = [tag for tags in truth for tag in tags], [tag for tags in answers for tag in tags]
    if not right:
        return dict.fromkeys(("accuracy", "f1", "f1_macro"), 0.0)
    accuracy = sum(a == b for a, b in zip(right, said, strict=True)) / len(right)
    names = sorted({*right, *said})
    with unwarned():
        of_tags = f1_score(right, said, labels=names, average=None, zero_division=0)
    scores = {"accuracy": accuracy, "f1": accuracy, "f1_macro": of_tags.mean()}
    scores |= {f"f1_{name}": score for name, score in zip(names, of_tags, strict=True)}
    return {name: float(score) for name, score in scores.items()}


ROWS_AT_ONCE = 256
Numbers = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]


def row_cosines(firsts: Any, seconds: Any) -> Numbers:
    """Of each first with its own second."""
    products = firsts.multiply(seconds) if hasattr(firsts, "multiply") else firsts * seconds
    return np.asarray(products.sum(axis=1), np.float64).ravel()


def similarity_scores(truth: Sequence[float], cosines: Numbers) -> dict[str, float]:
    found = regression_scores(truth, cosines.tolist())
    return {"spearman": found["spearman"], "pearson": found["pearson"]}


class Search(NamedTuple):
    """For each first text a search for its second among all the different seconds."""

    ranks: Counts
    """Where the right one came; 1 is the best. Of equal cosines the right one counts as the last."""
    nearest: Counts
    """A pair whose second is the nearest of those that are not right."""


def search(texts: Sequence[str], pairs: Sequence[str], firsts: Any, seconds: Any) -> Search:
    """Another text that also belongs to the first, in another row, is neither right nor wrong; nor is the first
    itself."""
    columns: dict[str, int] = {}
    rows_of: list[int] = []
    for row, pair in enumerate(pairs):
        if pair not in columns:
            columns[pair] = len(columns)
            rows_of.append(row)
    belonging: dict[str, list[int]] = {}
    for text, pair in zip(texts, pairs, strict=True):
        belonging.setdefault(text, []).append(columns[pair])
    among = seconds[rows_of].T
    ranks, nearest = np.ones(len(texts), np.int64), np.zeros(len(texts), np.int64)
    for start in range(0, len(texts), ROWS_AT_ONCE):
        rows = range(start, min(start + ROWS_AT_ONCE, len(texts)))
        product = firsts[rows.start : rows.stop] @ among
        cosines = np.array(product.toarray() if hasattr(product, "toarray") else product)
        right = cosines[np.arange(len(rows)), [columns[pairs[row]] for row in rows]]
        for number, row in enumerate(rows):
            itself = [columns[texts[row]]] if texts[row] in columns else []
            cosines[number, belonging[texts[row]] + itself] = -np.inf
        ranks[rows.start : rows.stop] = 1 + (cosines >= right[:, None]).sum(1)
        nearest[rows.start : rows.stop] = np.array(rows_of)[cosines.argmax(1)]
    return Search(ranks, nearest)


def search_scores(ranks: Counts) -> dict[str, float]:
    return {"mean_reciprocal_rank": float((1 / ranks).mean()), "accuracy_at_1": float((ranks == 1).mean())}
