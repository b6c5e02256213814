"""What a model knows of a language without having learned a task.

**Pairs** of sentences of which one is right: does the model find it likelier? Sentences that it finds equally likely
are no success, and beside its score stands that of word frequency alone, which gets some pairs for nothing and must
pass on those whose two sentences have the same words.

**Text** it has not seen: how many bits it needs for a byte of it, whatever its tokens are, in all and apart for the
commonest words, for names and for the words that carry the meaning, since whole runs go by in which only the first of
the three become better.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bertkit.errors import InputError, shortened
from bertkit.infer.likelihood import likelihoods

if TYPE_CHECKING:
    from bertkit.infer.encoder import TextEncoder

COMMONEST = 100
"""So many words are taken as those that hold sentences together: of English text they are nearly half."""
WORD = re.compile(r"[\u4e00-\u9fff]|[^\W_]+(?:['’][^\W_]+)*")
ENDS = ".!?。！？"
KINDS = ("common", "content", "names", "signs")


@dataclass(frozen=True)
class PairScore:
    name: str
    pairs: int
    right: float
    """The share of pairs whose right sentence is found likelier."""
    equal: float
    frequency: float | None = None
    """The share that word frequency alone gets right."""
    frequency_equal: float | None = None
    right_of_equal: float | None = None
    """Of those about which word frequency says nothing, the share the model gets right; None if there are none."""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class TextScore:
    sentences: int
    bits_per_byte: float
    perplexity_of_words: Mapping[str, float]
    """Of each kind of word, its pieces taken together."""
    words: Mapping[str, int]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def words_of(text: str) -> list[str]:
    """
    >>> words_of("The cat's 猫 sat.")
    ['The', "cat's", '猫', 'sat']
    """
    return WORD.findall(text)


def counted(texts: Iterable[str]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(word.lower() for word in words_of(text))
    return counts


def pairs_of(file: Path) -> list[tuple[str, str]]:
    """A pair a line, as {"good": ..., "bad": ...}."""
    found = []
    for number, line in enumerate(file.read_bytes().splitlines(), 1):
        try:
            row = json.loads(line)
            pair = row["good"], row["bad"]
        except (ValueError, KeyError, TypeError):
            pair = (None, None)
        if not all(isinstance(text, str) and text.strip() for text in pair):
            wanted = 'Write a pair a line: {"good": "The cats sleep.", "bad": "The cats sleeps."}.'
            raise InputError(f"{file}, line {number}: {shortened(line.decode('utf-8', 'replace'))} is no pair", wanted)
        found.append(pair)
    if not found:
        raise InputError(f"{file} is empty", 'Write a pair a line: {"good": ..., "bad": ...}.')
    return found


def score_pairs(
    encoder: TextEncoder, name: str, pairs: Sequence[tuple[str, str]], counts: Counter[str] | None = None
) -> PairScore:
    """How often the first sentence of a pair is found likelier than the second."""
    found = [each.total for each in likelihoods(encoder, [text for pair in pairs for text in pair])]
    better = [_compared(good, bad) for good, bad in zip(found[::2], found[1::2], strict=True)]
    share = _Shares(len(pairs))
    score = PairScore(name, len(pairs), share.of(better, 1), share.of(better, 0))
    if counts is None:
        return score
    by_frequency = [_compared(_frequency(good, counts), _frequency(bad, counts)) for good, bad in pairs]
    left = [mine for mine, its in zip(better, by_frequency, strict=True) if its == 0]
    return PairScore(
        name,
        len(pairs),
        score.right,
        score.equal,
        share.of(by_frequency, 1),
        share.of(by_frequency, 0),
        _Shares(len(left)).of(left, 1) if left else None,
    )


def scores_together(scores: Sequence[PairScore], name: str = "all") -> PairScore:
    """Over all pairs."""
    pairs = sum(each.pairs for each in scores)

    def mean(values: Iterable[tuple[float | None, float]]) -> float | None:
        known = [(value, weight) for value, weight in values if value is not None]
        return sum(value * weight for value, weight in known) / sum(w for _, w in known) if known else None

    equals = [(each, each.pairs * (each.frequency_equal or 0)) for each in scores]
    return PairScore(
        name,
        pairs,
        mean((each.right, each.pairs) for each in scores) or 0.0,
        mean((each.equal, each.pairs) for each in scores) or 0.0,
        mean((each.frequency, each.pairs) for each in scores),
        mean((each.frequency_equal, each.pairs) for each in scores),
        mean((each.right_of_equal, weight) for each, weight in equals if weight),
    )


def score_text(encoder: TextEncoder, sentences: Sequence[str], counts: Counter[str]) -> TextScore:
    """How well it foretells sentences it has not seen."""
    common = {word for word, _ in counts.most_common(COMMONEST)}
    nats: dict[str, float] = dict.fromkeys(KINDS, 0.0)
    words: dict[str, int] = dict.fromkeys(KINDS, 0)
    for text, likely in zip(sentences, likelihoods(encoder, sentences), strict=True):
        kinds = dict(_kinds(text, common))
        starts = sorted(kinds)
        for kind in kinds.values():
            words[kind] += 1
        for (start, stop), log in zip(likely.spans, likely.logs, strict=True):
            word = next((at for at in reversed(starts) if at <= start), None)
            inside = word is not None and stop <= word + len(WORD.match(text, word)[0])  # type: ignore[index]
            nats[kinds[word] if inside and word is not None else "signs"] -= log
    size = sum(len(text.encode()) for text in sentences)
    perplexities = {kind: math.exp(min(100.0, nats[kind] / words[kind])) for kind in KINDS if words[kind]}
    return TextScore(len(sentences), sum(nats.values()) / math.log(2) / size, perplexities, words)


def _kinds(text: str, common: set[str]) -> Iterator[tuple[int, str]]:
    """Where each word begins, and what kind it is of. A name begins with a capital, and not a sentence."""
    for match in WORD.finditer(text):
        before = text[: match.start()].rstrip()
        if match[0].lower() in common:
            yield match.start(), "common"
        elif match[0][0].isupper() and before and before[-1] not in ENDS:
            yield match.start(), "names"
        else:
            yield match.start(), "content"


def _frequency(text: str, counts: Counter[str]) -> float:
    whole = counts.total() + len(counts) + 1
    return sum(math.log((counts[word.lower()] + 1) / whole) for word in words_of(text))


def _compared(good: float, bad: float) -> int:
    """Sums of the same numbers in another order may differ in their last bits: that is no difference."""
    if math.isclose(good, bad, rel_tol=1e-9, abs_tol=1e-9):
        return 0
    return 1 if good > bad else -1


class _Shares:
    def __init__(self, count: int) -> None:
        self.count = count

    def of(self, signs: Sequence[int], sign: int) -> float:
        return signs.count(sign) / self.count
