"""How good written texts are, beside those that people wrote: BLEU and chrF by sacreBLEU, ROUGE by rouge-score, the
best over several references. All are from 0 to 1, as scores are here; sacreBLEU prints BLEU and chrF times 100.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from bertkit.errors import UsageError
from bertkit.text.chinese import has_han

References = Sequence[Sequence[str]]
"""Of each text those that are right."""
ROUGES = ("rouge1", "rouge2", "rougeL")
ORDERS = 4
"""BLEU counts runs of up to so many words."""


def require_metrics() -> None:
    try:
        import rouge_score  # noqa: F401
        import sacrebleu  # noqa: F401
    except ImportError as problem:
        raise UsageError(
            f"texts are measured with {problem.name}, which is not installed",
            "pip install 'bertkit[generate]'.",
        ) from None


def corpus_scores(said: Sequence[str], right: References) -> dict[str, float]:
    from sacrebleu.metrics.chrf import CHRF

    sums = [sum(column) for column in zip(*bleu_sums(said, right), strict=True)]
    rouges = list(zip(*rouge_of_each(said, right), strict=True))
    return {
        "bleu": bleu_of(sums),
        "chrf": float(CHRF().corpus_score(list(said), _columns(right)).score) / 100,
        **{name: sum(scores) / len(scores) for name, scores in zip(ROUGES, rouges, strict=True)},
    }


def chrf_of_each(said: Sequence[str], right: References) -> list[float]:
    from sacrebleu.metrics.chrf import CHRF

    metric = CHRF()
    return [float(metric.sentence_score(text, list(its)).score) / 100 for text, its in zip(said, right, strict=True)]


def bleu_sums(said: Sequence[str], right: References) -> Iterator[list[float]]:
    """Of each text what BLEU is made of: right runs of words, all of them, its length and that of the reference."""
    from sacrebleu.metrics.bleu import BLEU

    metric = BLEU(tokenize="zh" if _chinese(right) else "13a", effective_order=True)
    for text, its in zip(said, right, strict=True):
        score = metric.sentence_score(text, list(its))
        yield [*map(float, score.counts), *map(float, score.totals), float(score.sys_len), float(score.ref_len)]


def bleu_of(sums: Sequence[float]) -> float:
    from sacrebleu.metrics.bleu import BLEU

    counts, totals = [[round(each) for each in sums[start : start + ORDERS]] for start in (0, ORDERS)]
    score = BLEU.compute_bleu(counts, totals, round(sums[-2]), round(sums[-1]), smooth_method="exp").score
    return min(float(score) / 100, 1.0)


def rouge_of_each(said: Sequence[str], right: References) -> list[tuple[float, ...]]:
    """F1 of words, of pairs of them, and of the longest common row of words; in Chinese of characters."""
    scorer = _rouge(_chinese(right))
    return [
        tuple(max(scorer.score(each, text)[name].fmeasure for each in its) for name in ROUGES)
        for text, its in zip(said, right, strict=True)
    ]


@cache
def _rouge(chinese: bool) -> Any:
    from rouge_score.rouge_scorer import RougeScorer

    return (
        RougeScorer(list(ROUGES), tokenizer=_Characters()) if chinese else RougeScorer(list(ROUGES), use_stemmer=True)
    )


class _Characters:
    def tokenize(self, text: str) -> list[str]:
        return [character for character in text.lower() if not character.isspace()]


def _chinese(right: References) -> bool:
    return 2 * sum(has_han(its[0]) for its in right) > len(right)


def _columns(right: References) -> Any:
    """As sacreBLEU has references: the first of every text, the second, and so on."""
    return [[its[n] if n < len(its) else None for its in right] for n in range(max(map(len, right)))]
