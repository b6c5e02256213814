"""Which tokens are hidden from the model, and behind what.

15 % of the tokens are chosen; of those 80 % become [MASK], 10 % a random token, 10 % stay as they are, so that the
model can never be sure which words it is asked for. Tokens are chosen one by one, or as whole words, or as runs of
words, whose length is geometric (spans, SpanBERT) or 1 to 3, a run of n being drawn 1/n as often as one word (n-grams,
ALBERT); in all of them each token is replaced by the same rule. Every draw is a function of a key, so a sample is
masked in the same way by whoever asks, and in another way in each epoch; or, with `copies`, only so many ways.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from bertkit.corpus.keyed import below, bits, key, uniform
from bertkit.corpus.samples import Sample
from bertkit.corpus.shards import Array
from bertkit.errors import UsageError, nearest, shortened

if TYPE_CHECKING:
    from bertkit.text.tokenizer import Tokenizer

UNITS = ("token", "word", "span", "ngram")


@dataclass(frozen=True, kw_only=True)
class Masking:
    """How to mask. `word` needs samples that know where words start, which prepared corpora do, in Chinese too."""

    unit: str = "token"
    rate: float = 0.15
    """The share of the tokens, [CLS] and [SEP] not counted, that is chosen; at least one is."""
    masked: float = 0.8
    random: float = 0.1
    """What of the chosen is neither masked nor random stays as it is."""
    longest_span: int = 10
    span_end: float = 0.2
    """A span ends after each word with this probability (geometric, mean 3.8 with the limit, as in SpanBERT)."""
    longest_ngram: int = 3
    copies: int = 0
    """0: samples are masked anew in each epoch (dynamic, RoBERTa). Otherwise (static) the corpus is there in so many
    copies, each masked once, and after as many epochs they come again; the first BERT had 10."""

    def __post_init__(self) -> None:
        if self.unit not in UNITS:
            hint = nearest(str(self.unit), UNITS)
            raise UsageError(f"masking by {shortened(self.unit)}", f"{hint} There are: {', '.join(UNITS)}.")
        if not 0 < self.rate < 1:
            raise UsageError(f"a masking rate of {self.rate}", "It lies between 0 and 1; BERT's is 0.15.")
        if min(self.masked, self.random) < 0 or self.masked + self.random > 1:
            raise UsageError(
                f"of the chosen tokens {self.masked} masked and {self.random} random",
                "Both are shares, at most 1 together.",
            )
        if min(self.longest_span, self.longest_ngram) < 1 or not 0 < self.span_end <= 1:
            raise UsageError(
                f"spans of up to {self.longest_span} words that end with {self.span_end}",
                "They have 1 word or more, and end after each with a probability above 0.",
            )
        if self.copies < 0:
            raise UsageError(f"{self.copies} copies of the masks", "Give 1 or more, or 0 for new ones in each epoch.")

    def epoch_of_draw(self, epoch: int) -> int:
        """The epoch whose samples and masks an epoch has."""
        return epoch % self.copies if self.copies else epoch


def shares_of(text: str) -> dict[str, float]:
    """What becomes of the chosen tokens, as people write it.

    >>> shares_of("80/10/10")
    {'masked': 0.8, 'random': 0.1}
    """
    try:
        shares = [float(share) for share in text.split("/")]
    except ValueError:
        shares = []
    if len(shares) != 3 or min(shares) < 0 or not abs(sum(shares) - 100) <= 1e-6:  # so that NaN is refused too
        raise UsageError(
            f"mask shares of {shortened(text)}",
            "Give how many of 100 hidden tokens are masked, random, and left as they are: 80/10/10, or 100/0/0.",
        )
    return {"masked": shares[0] / 100, "random": shares[1] / 100}


def differences(asked: Mapping[str, Any]) -> dict[str, Any]:
    """What was chosen of masking, by the names of the command's options.

    >>> differences({"mask": "word", "mask_shares": "100/0/0", "batch": 8})
    {'unit': 'word', 'masked': 1.0, 'random': 0.0}
    """
    names = {"mask": "unit", "mask_rate": "rate", "masks": "copies"}
    found = {field: asked[name] for name, field in names.items() if name in asked}
    return found | (shares_of(asked["mask_shares"]) if "mask_shares" in asked else {})


class Vocabulary(NamedTuple):
    """What masking needs to know of the tokenizer."""

    mask_id: int
    ordinary: Array
    """The tokens that may stand in for another: all but the special ones."""

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> Self:
        from bertkit.text.tokenizer import ordinary_ids

        return cls(tokenizer.mask_id, np.array(ordinary_ids(tokenizer)))


class Masked(NamedTuple):
    ids: Array
    """What the model sees."""
    positions: Array
    """Where it is asked, in order."""
    labels: Array
    """What stood there."""


def mask(sample: Sample, masking: Masking, vocabulary: Vocabulary, sample_key: int) -> Masked:
    """Mask a sample; the key decides how."""
    places = np.flatnonzero(~sample.special)
    wanted = max(1, round(masking.rate * len(places)))
    if masking.unit == "token":
        chosen = places[np.argsort(bits(key(sample_key, "token"), places))[:wanted]]
    elif masking.unit == "word":
        chosen = _words(sample, places, wanted, sample_key)
    else:
        chosen = _spans(sample, places, wanted, masking, sample_key)
    positions = np.sort(chosen)
    draw = uniform(key(sample_key, "how"), positions)
    stand_ins = vocabulary.ordinary[below(len(vocabulary.ordinary), key(sample_key, "which"), positions)]
    labels = sample.ids[positions]
    ids = sample.ids.copy()
    ids[positions] = np.where(
        draw < masking.masked,
        vocabulary.mask_id,
        np.where(draw < masking.masked + masking.random, stand_ins, labels),
    )
    return Masked(ids, positions, labels)


def _words(sample: Sample, places: Array, wanted: int, sample_key: int) -> Array:
    """Whole words in random order; one that would be too much is passed over for the next."""
    starts = places[sample.word_starts[places]]
    lengths = _word_lengths(sample, places, starts)
    chosen: list[Array] = []
    left = wanted
    for word in np.argsort(bits(key(sample_key, "word"), starts)).tolist():
        if lengths[word] <= left:
            chosen.append(starts[word] + np.arange(lengths[word]))
            left -= lengths[word]
        if not left:
            break
    if not chosen:  # all words are longer than what is wanted: the shortest one then
        word = int(np.argmin(lengths))
        chosen.append(starts[word] + np.arange(lengths[word]))
    return np.concatenate(chosen)


def _spans(sample: Sample, places: Array, wanted: int, masking: Masking, sample_key: int) -> Array:
    """Runs of whole words, of a random length each, from random places on, until there are enough tokens. A run ends
    where the segment does, and is cut to what is left."""
    starts = places[sample.word_starts[places]]
    lengths = _word_lengths(sample, places, starts)
    taken = np.zeros(len(sample), bool)
    left = wanted
    order = np.argsort(bits(key(sample_key, "span"), starts)).tolist()
    words_in = _run_lengths(masking, uniform(key(sample_key, "length"), starts))
    for word in order:
        for next_word in range(word, min(word + int(words_in[word]), len(starts))):
            first, stop = int(starts[next_word]), int(starts[next_word]) + int(lengths[next_word])
            goes_on = next_word == word or first == int(starts[next_word - 1]) + int(lengths[next_word - 1])
            if not goes_on or lengths[next_word] > left or taken[first]:
                break
            taken[first:stop] = True
            left -= int(lengths[next_word])
        if not left:
            break
    return np.flatnonzero(taken) if taken.any() else _words(sample, places, wanted, sample_key)


def _run_lengths(masking: Masking, draws: Array) -> Array:
    """How many words runs have, from numbers between 0 and 1."""
    lengths: Array
    if masking.unit == "ngram":
        shares = 1 / np.arange(1, masking.longest_ngram + 1)
        lengths = 1 + np.searchsorted(np.cumsum(shares) / shares.sum(), draws, side="right")
        return np.minimum(lengths, masking.longest_ngram)
    geometric = 1 + np.floor(np.log1p(-draws) / np.log1p(-min(masking.span_end, 1 - 1e-12)))
    lengths = np.minimum(geometric, masking.longest_span).astype(int)
    return lengths


def _word_lengths(sample: Sample, places: Array, starts: Array) -> Array:
    """How many tokens each word has: up to the next word, or to the special token that ends the segment."""
    ends = np.append(starts[1:], places[-1] + 1)
    special = np.flatnonzero(sample.special)
    lengths: Array = np.minimum(ends, special[np.searchsorted(special, starts)]) - starts
    return lengths
