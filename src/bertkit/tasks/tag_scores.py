"""How good tags are: spans as seqeval counts them, words one by one."""

from __future__ import annotations

from collections.abc import Sequence

from bertkit.tasks.schemes import OUTSIDE, to_iob2
from bertkit.tasks.scores import unwarned

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
