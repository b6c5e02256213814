"""How good answers are, as the libraries that everybody compares with count it."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

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
