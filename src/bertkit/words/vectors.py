"""Questions to word vectors: which words are near, what is to this as that is to the other, how alike are two."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bertkit.errors import InputError, UsageError, nearest, shortened
from bertkit.hub.fetch import find_folder
from bertkit.words.folder import Opened

Array = np.ndarray[Any, Any]
MOST_SPELLINGS = 50_000
"""Among which the nearest spelling is looked for."""


class Near(NamedTuple):
    word: str
    score: float


class WordVectors:
    """A mapping from words to vectors: `vectors["king"]`, `"king" in vectors`, `len(vectors)`.

    With n-grams, any word has a vector; `in` is about those that were in the text.
    """

    def __init__(
        self,
        words: Sequence[str],
        table: Array,
        *,
        lowercase: bool = False,
        ngrams: Array | None = None,
        ngram_sizes: tuple[int, int] = (3, 6),
        name: str = "vectors",
    ) -> None:
        self.words, self.table, self.lowercase, self.name = list(words), table, lowercase, name
        self.rows = {word: row for row, word in enumerate(self.words)}
        self._ngrams, self._sizes = ngrams, ngram_sizes

    def __len__(self) -> int:
        return len(self.words)

    def __iter__(self) -> Iterator[str]:
        return iter(self.words)

    def __contains__(self, word: object) -> bool:
        return self.row_of(word) is not None

    def __getitem__(self, word: str) -> Array:
        row = self.row_of(word)
        if row is not None:
            found: Array = self.table[row].copy()
            return found
        if self._ngrams is None:
            raise InputError(f"{self.name} has no word {shortened(word)}", self.near_spelling(word))
        return self._from_ngrams(word, self._ngrams)

    def get(self, word: str, default: Any = None) -> Any:
        row = self.row_of(word)
        return default if row is None else self.table[row].copy()

    @property
    def dimension(self) -> int:
        return int(self.table.shape[1])

    @property
    def knows_any(self) -> bool:
        """Whether words that were never seen have vectors too."""
        return self._ngrams is not None

    def near_spelling(self, word: str) -> str:
        return (
            nearest(str(word), self.words[:MOST_SPELLINGS])
            or "Look for another; `bertkit words nearest` takes several."
        )

    def nearest(self, *words: str, count: int = 10) -> list[Near]:
        """The words most alike (cosine) to a word, or to the mean of several.

        vectors.nearest("king")[0] is Near("queen", 0.78), or what the text made of it.
        """
        self._require(words, 1)
        target = _unit(np.stack([_unit(self[word]) for word in words]).mean(0))
        return self._best(self.unit @ target, words, count)

    def analogy(self, a: str, b: str, c: str, *, count: int = 10, multiply: bool = False) -> list[Near]:
        """What is to c as b is to a: man, king, woman gives queen, if all goes well. 3CosAdd, or with `multiply`
        3CosMul (Levy and Goldberg, 2014)."""
        likes = [self.unit @ _unit(self[word]) for word in (a, b, c)]
        return self._best(analogy_scores(*likes, multiply=multiply), (a, b, c), count)

    def similarity(self, a: str, b: str) -> float:
        return float(_unit(self[a]) @ _unit(self[b]))

    def without_match(self, *words: str) -> str:
        """The word that is least like the others."""
        self._require(words, 3)
        units = np.stack([_unit(self[word]) for word in words])
        return words[int((units @ _unit(units.mean(0))).argmin())]

    @cached_property
    def unit(self) -> Array:
        """The table with rows of length 1."""
        return _unit(self.table)

    def _require(self, words: Sequence[str], least: int) -> None:
        if len(words) < least:
            raise UsageError(f"{len(words)} words", f"Give {least} or more.")

    def _best(self, scores: Array, without: Sequence[str], count: int) -> list[Near]:
        scores = scores.copy()
        scores[[row for word in without if (row := self.row_of(word)) is not None]] = -np.inf
        count = min(count, len(scores))
        found = np.argpartition(-scores, count - 1)[:count]
        found = found[np.argsort(-scores[found], kind="stable")]
        return [Near(self.words[row], float(scores[row])) for row in found if scores[row] > -np.inf]

    def row_of(self, word: object) -> int | None:
        """Its row; whatever its case, if the vectors have none, and for new_york that of new york."""
        if not isinstance(word, str):
            return None
        for spelling in (word, word.lower()) if self.lowercase else (word,):
            for spelt in (spelling, spelling.replace("_", " ")):
                if (row := self.rows.get(spelt)) is not None:
                    return row
        return None

    def _from_ngrams(self, word: str, table: Array) -> Array:
        from bertkit.words.drawing import ngrams_of

        rows = ngrams_of(word.lower() if self.lowercase else word, *self._sizes, len(table))
        if not rows:
            raise InputError(f"{shortened(word)} is too short for n-grams", self.near_spelling(word))
        found: Array = table[rows].mean(0)
        return found


def analogy_scores(a: Array, b: Array, c: Array, *, multiply: bool) -> Array:
    """From the cosines of all words with three: of what is to c as b is to a."""
    if not multiply:
        return b - a + c
    a, b, c = ((each + 1) / 2 for each in (a, b, c))
    return b * c / (a + 1e-3)


def load_words(folder_or_name: str | Path) -> WordVectors:
    """The vectors of a folder: see WordVectors."""
    opened = Opened(find_folder(folder_or_name))
    return WordVectors(
        opened.words,
        opened.table(),
        lowercase=opened.lowercase,
        ngrams=opened.tensor("ngrams.weight") if opened.config.ngrams else None,
        ngram_sizes=(opened.config.shortest_ngram, opened.config.longest_ngram),
        name=str(folder_or_name),
    )


def _unit(x: Array) -> Array:
    norms = np.linalg.norm(x, axis=-1, keepdims=True)
    found: Array = x / np.maximum(norms, 1e-12)
    return found
