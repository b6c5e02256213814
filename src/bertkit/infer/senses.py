"""What a model makes of a word where it stands: which of its other places are most like this one, and whether that
tells senses apart (WiC: Pilehvar and Camacho-Collados, 2019).

A table of word vectors has one vector for a word, wherever it stands; what was learned of the text around it shows in
that two places of one sense are nearer to each other than two of different ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bertkit.errors import InputError, UsageError, shortened
from bertkit.text.sentences import split_sentences

if TYPE_CHECKING:
    from bertkit.infer.encoder import TextEncoder

Floats = npt.NDArray[np.float32]
MOST = 500
"""Places that are looked at; the first ones."""


class Place(NamedTuple):
    """Where a word stands."""

    text: str
    start: int
    stop: int

    def shown(self, around: int = 45) -> str:
        """The word between signs, with what stands around it."""
        before = self.text[: self.start].rpartition("\n")[2]
        behind = self.text[self.stop :].partition("\n")[0]
        left = f"…{before[-around:].lstrip()}" if len(before) > around else before
        right = f"{behind[:around].rstrip()}…" if len(behind) > around else behind
        return f"{left}«{self.text[self.start : self.stop]}»{right}"


def places_of(word: str, texts: Iterable[str], most: int = MOST) -> list[Place]:
    """Each sentence's first place of a word, whatever its case; of a Chinese one, wherever its signs stand.

    >>> [place.shown() for place in places_of("play", ["He plays. A play by her."])]
    ['A «play» by her.']
    """
    if not word.strip():
        raise UsageError("no word is named", "Name one, such as play.")
    edge = r"\b" if re.fullmatch(r"[\w'-]+", word) and not re.search("[\u3400-\u9fff]", word) else ""
    pattern = re.compile(f"{edge}{re.escape(word)}{edge}", re.IGNORECASE)
    found: dict[str, Place] = {}
    for text in texts:
        if not pattern.search(text):
            continue
        for sentence in (each for line in text.splitlines() for each in split_sentences(line)):
            if (hit := pattern.search(sentence)) and sentence not in found:
                found[sentence] = Place(sentence, *hit.span())
                if len(found) == most:
                    return [*found.values()]
    return [*found.values()]


def vectors_of(encoder: TextEncoder, places: Sequence[Place]) -> list[Floats]:
    """For each layer, from what enters the first on, a row for each place: the mean of the tokens that touch it."""
    layers = encoder.model.reader.depth + 1
    rows = []
    texts = [place.text for place in places]
    words = encoder.embed_words(texts, layers="last" if layers == 1 else f"concat:0..{layers - 1}")
    for place, its in zip(places, words, strict=True):
        touched = [n for n, (start, stop) in enumerate(its.spans) if start < place.stop and stop > place.start]
        if not touched:
            raise InputError(f"of {shortened(place.text)} the tokenizer keeps nothing there", "Leave it out.")
        rows.append(its.vectors[touched].mean(0))
    return [np.ascontiguousarray(each) for each in np.split(np.stack(rows), layers, axis=1)]


def alike(x_ND: Floats) -> Floats:
    """N x N cosines."""
    lengths = np.linalg.norm(x_ND, axis=1, keepdims=True)
    unit = x_ND / np.maximum(lengths, 1e-12)
    cosines: Floats = unit @ unit.T
    return cosines


def nearest(cosines_NN: Floats, place: int, count: int) -> list[tuple[int, float]]:
    """The places most like one, without itself."""
    order = np.argsort(-cosines_NN[place], kind="stable")
    return [(int(n), float(cosines_NN[place, n])) for n in order if n != place][:count]


def different_ones(cosines_NN: Floats, count: int) -> list[int]:
    """Places that stand for many: each the least like all those before it."""
    chosen = [0]
    while len(chosen) < min(count, len(cosines_NN)):
        likest = cosines_NN[chosen].max(0)
        likest[chosen] = np.inf
        chosen.append(int(likest.argmin()))
    return chosen


class Pair(NamedTuple):
    """Of WiC: the same word in two sentences."""

    first: Place
    second: Place
    same: bool


def read_pairs(rows: Iterable[tuple[str, Any]]) -> list[Pair]:
    """Rows as the set has them, each with its place: sentence1, start1, end1, the same with 2, and label."""
    pairs = []
    for place, row in rows:
        try:
            first, second = (
                Place(str(row[f"sentence{n}"]), int(row[f"start{n}"]), int(row[f"end{n}"])) for n in (1, 2)
            )
            same = {"true": True, "false": False, "t": True, "f": False}[str(row["label"]).lower()]
        except (KeyError, TypeError, ValueError):
            raise InputError(
                f"{place} is no pair of WiC: {shortened(row)}",
                "It has sentence1, start1, end1, sentence2, start2, end2 and a label that is true or false.",
            ) from None
        for each in (first, second):
            if not 0 <= each.start < each.stop <= len(each.text):
                raise InputError(f"{place}: no word stands from {each.start} to {each.stop}", "Characters are counted.")
        pairs.append(Pair(first, second, same))
    if not pairs:
        raise InputError("there are no pairs", "Name a file with some.")
    return pairs


def senses_told(encoder: TextEncoder, tune: Sequence[Pair], test: Sequence[Pair]) -> dict[str, Any]:
    """How often the cosine of the two places tells whether the sense is the same, by the layer and the threshold that
    are best on `tune`; and what always the commoner answer comes to."""
    learned, asked = _cosines(encoder, tune), _cosines(encoder, test)
    same, truth = (np.array([pair.same for pair in pairs]) for pairs in (tune, test))
    best = max(((*_threshold(cosines, same), layer) for layer, cosines in enumerate(learned)), key=lambda each: each[0])
    share, threshold, layer = best
    right = float(((asked[layer] > threshold) == truth).mean())
    return {
        "accuracy": right,
        "layer": layer,
        "threshold": threshold,
        "accuracy_where_chosen": share,
        "commonest": float(max(truth.mean(), 1 - truth.mean())),
        "pairs": len(test),
        "each_layer": [
            float(((cosines > _threshold(its, same)[1]) == truth).mean())
            for cosines, its in zip(asked, learned, strict=True)
        ],
    }


def _cosines(encoder: TextEncoder, pairs: Sequence[Pair]) -> list[Floats]:
    """For each layer."""
    firsts = vectors_of(encoder, [pair.first for pair in pairs])
    seconds = vectors_of(encoder, [pair.second for pair in pairs])
    found: list[Floats] = []
    for first, second in zip(firsts, seconds, strict=True):
        lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
        found.append((first * second).sum(1) / np.maximum(lengths, 1e-12))
    return found


def _threshold(cosines: Floats, same: npt.NDArray[np.bool_]) -> tuple[float, float]:
    """The share that is right if all above it are the same, and the threshold for which that is highest."""
    order = np.argsort(cosines, kind="stable")
    ranked, truth = cosines[order], same[order]
    # with the threshold before each, and behind all
    right = np.concatenate([[truth.sum()], truth.sum() + np.cumsum(np.where(truth, -1, 1))])
    cuts = np.concatenate([[ranked[0] - 1], (ranked[:-1] + ranked[1:]) / 2, [ranked[-1]]])
    possible = np.concatenate([[True], ranked[:-1] < ranked[1:], [True]])
    at = int(np.where(possible, right, -1).argmax())
    return float(right[at] / len(truth)), float(cuts[at])
