"""How good answers are, as the libraries that everybody compares with count it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np


def classification_scores(truth: Sequence[str], found: Sequence[str], classes: Sequence[str]) -> dict[str, float]:
    from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef

    scores = {
        "accuracy": accuracy_score(truth, found),
        "f1_macro": f1_score(truth, found, labels=list(classes), average="macro", zero_division=0),
        "f1_micro": f1_score(truth, found, labels=list(classes), average="micro", zero_division=0),
        "matthews": matthews_corrcoef(truth, found) if len({*truth, *found}) > 1 else 0.0,
    }
    if len(classes) == 2:
        scores["f1"] = f1_score(truth, found, pos_label=classes[1], zero_division=0)
    return {name: float(value) for name, value in scores.items()}


def multi_label_scores(
    truth: Sequence[Sequence[str]], found: Sequence[Sequence[str]], classes: Sequence[str]
) -> dict[str, float]:
    """Accuracy is the share of texts with exactly the right labels."""
    from sklearn.metrics import accuracy_score, f1_score

    right, said = (np.array([[name in labels for name in classes] for labels in side]) for side in (truth, found))
    return {
        "accuracy": float(accuracy_score(right, said)),
        "f1_macro": float(f1_score(right, said, average="macro", zero_division=0)),
        "f1_micro": float(f1_score(right, said, average="micro", zero_division=0)),
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
    """Pearson's, from the sums of two numbers, of their squares and of their product; 0 if one of them never varies."""
    spread = (aa - a**2 / count) * (bb - b**2 / count)
    return (ab - a * b / count) / math.sqrt(spread) if spread > 0 else 0.0
