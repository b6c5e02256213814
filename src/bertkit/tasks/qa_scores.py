"""How well questions were answered: exact match and F1 as SQuAD defines them, Chinese included.

Case, punctuation, the articles and the amount of white space do not count. Exact match is whether the words that are
left are the same, F1 how many of them are; of several right answers the nearest counts. A question without an answer
is answered right by saying nothing. In Chinese, which has no spaces, each character is a word, and Chinese punctuation
does not count either; texts without Chinese characters are scored exactly as the published evaluation of SQuAD 2.0
scores them.
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Sequence
from statistics import fmean
from typing import NamedTuple

from bertkit.text.chinese import HAN, has_han

_ARTICLE = re.compile(r"\b(?:an?|the)\b")
_ONE_HAN = re.compile(f"([{HAN}])")
_WITHOUT_PUNCTUATION = dict.fromkeys(map(ord, string.punctuation))
FULL_WIDTH = range(0xFF00, 0xFFF0)


class Agreement(NamedTuple):
    """Of an answer with what is right, each 0 to 1."""

    exact: float
    f1: float


def words_of(text: str, *, chinese: bool = False) -> list[str]:
    """What counts of an answer.

    >>> words_of("The  U.S. Army")
    ['us', 'army']
    >>> words_of("《三体》第1部", chinese=True)
    ['三', '体', '第', '1', '部']
    """
    plain = text.lower().translate(_WITHOUT_PUNCTUATION)
    if chinese:
        plain = "".join(character for character in plain if not _is_punctuation(character))
        plain = _ONE_HAN.sub(r" \1 ", plain)
    return _ARTICLE.sub(" ", plain).split()


def agreement(answer: str, right: str) -> Agreement:
    """Of one answer with one right answer."""
    chinese = has_han(answer) or has_han(right)
    given, wanted = words_of(answer, chinese=chinese), words_of(right, chinese=chinese)
    if not given or not wanted:
        same = float(given == wanted)
        return Agreement(same, same)
    shared = (Counter(given) & Counter(wanted)).total()
    return Agreement(float(given == wanted), 2 * shared / (len(given) + len(wanted)))


def best_agreement(answer: str, right: Sequence[str]) -> Agreement:
    """With the nearest of the right answers. Those of which nothing counts are none, and if there are no others, saying
    nothing is right."""
    counting = [text for text in right if words_of(text, chinese=has_han(text))] or [""]
    found = [agreement(answer, text) for text in counting]
    return Agreement(max(each.exact for each in found), max(each.f1 for each in found))


def qa_scores(right: Sequence[Sequence[str]], answers: Sequence[str]) -> dict[str, float]:
    """`right` has for each question its right answers, none if it has no answer; an answer of "" says that."""
    found = [best_agreement(answer, texts) for answer, texts in zip(answers, right, strict=True)]
    if not found:
        return {}
    scores = {"exact_match": fmean(each.exact for each in found), "f1": fmean(each.f1 for each in found)}
    with_answer = [each for each, texts in zip(found, right, strict=True) if texts]
    without = [each for each, texts in zip(found, right, strict=True) if not texts]
    if without:
        if with_answer:
            scores["exact_match_answerable"] = fmean(each.exact for each in with_answer)
            scores["f1_answerable"] = fmean(each.f1 for each in with_answer)
        scores["accuracy_unanswerable"] = fmean(each.exact for each in without)
    return scores


def best_threshold(
    margins: Sequence[float], answering: Sequence[float], silent: Sequence[float]
) -> tuple[float, float]:
    """What the score of "no answer" must exceed that of the best answer by, so that the mean is highest; and that mean.
    `margins` is by how much it does, `answering` and `silent` how good each of the two would be.

    >>> best_threshold([-2.0, 1.0, 3.0], [1.0, 0.5, 0.0], [0.0, 0.0, 1.0])
    (2.0, 0.8333333333333334)
    """
    ordered = sorted(zip(margins, answering, silent, strict=True), reverse=True)
    total = best = sum(answering)
    threshold = ordered[0][0]  # what is not above it is answered: here all
    for number, (margin, right, nothing) in enumerate(ordered):
        total += nothing - right
        below = ordered[number + 1][0] if number + 1 < len(ordered) else margin - 2
        if total > best and below < margin:
            best, threshold = total, (margin + below) / 2
    return threshold, best / len(ordered)


def _is_punctuation(character: str) -> bool:
    """Besides ASCII's: every kind there is, and the full-width signs such as ～ that are symbols to Unicode."""
    kind = unicodedata.category(character)[0]
    return kind == "P" or (kind == "S" and ord(character) in FULL_WIDTH)
