"""Questions to vectors as a server is asked them: words in, what goes into JSON out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bertkit.errors import InputError
from bertkit.words.picture import places_of
from bertkit.words.vectors import WordVectors

ASK = ("nearest", "analogy", "map")
MOST_WORDS = 200
"""Of a question."""


def vectors_of(model: Any, tokenizer: Any, name: str) -> WordVectors | None:
    """The vectors of an opened model, if it is a table of words."""
    table = getattr(model, "table", None)
    if table is None or getattr(model.reader, "depth", 1) != 0:
        return None
    special = {*tokenizer.specials.values()}
    by_row = sorted(tokenizer.backend.get_vocab().items(), key=lambda each: each[1])
    chosen = [(word, row) for word, row in by_row if word not in special]
    rows = table.weight.detach().cpu().numpy()[[row for _, row in chosen]]
    return WordVectors([word for word, _ in chosen], rows, lowercase=bool(tokenizer.lowercase), name=name)


def answer(vectors: WordVectors, ask: str, words: Sequence[str], k: int) -> dict[str, Any]:
    """What the page shows: near words, what an analogy comes to, or places on a map."""
    if not words or len(words) > MOST_WORDS:
        raise InputError(f"a question about {len(words)} words", f"Give 1 to {MOST_WORDS}.")
    if ask == "map":
        there = [word for word in dict.fromkeys(words) if word in vectors]
        if len(there) < 3:
            raise InputError(f"a map of {len(there)} words that are known", "Give three or more.")
        places = places_of(np.stack([vectors[word] for word in there])).astype(float).round(4).tolist()
        unknown = [word for word in words if word not in vectors]
        found = [{"word": word, "x": x, "y": y} for word, (x, y) in zip(there, places, strict=True)]
        return {"words": list(words), "places": found, "unknown": unknown}
    if ask == "analogy":
        if len(words) != 3:
            raise InputError(f"an analogy of {len(words)} words", "Give three: man, king, woman.")
        near = vectors.analogy(words[0], words[1], words[2], count=k)
    else:
        near = vectors.nearest(*words, count=k)
    return {"words": list(words), "near": [{"word": each.word, "score": round(each.score, 4)} for each in near]}
