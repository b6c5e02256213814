"""A map of words as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure

from bertkit.errors import UsageError
from bertkit.files import atomic_file, refuse_to_replace
from bertkit.report.fonts import fonts_for, without_glyph_warnings
from bertkit.words.picture import places_of, words_to_draw
from bertkit.words.vectors import WordVectors

KINDS = (".png", ".svg", ".pdf")


def draw_words(vectors: WordVectors, words: Sequence[str], out: Path, *, near: int = 0, overwrite: bool = False) -> int:
    """Write the picture; how many words are in it."""
    if out.suffix not in KINDS:
        raise UsageError(f"a picture called {out.name!r}", f"It can end in {', '.join(KINDS)}.")
    refuse_to_replace(out, overwrite=overwrite)
    chosen = words_to_draw(vectors, words, near)
    if len(chosen) < 3:
        raise UsageError(f"a map of {len(chosen)} words", "Give three or more, or `near=N`.")
    with rc_context({"font.family": fonts_for(chosen)}), without_glyph_warnings():
        places = places_of(np.stack([vectors[word] for word in chosen]))
        figure = Figure(figsize=(10, 8), layout="constrained")
        axes = figure.add_subplot()
        named = set(words)
        for word, (x, y) in zip(chosen, places, strict=True):
            axes.plot(x, y, ".", color="tab:blue" if not named or word in named else "tab:gray")
            axes.annotate(word, (x, y), xytext=(4, 3), textcoords="offset points")
        axes.set(xticks=[], yticks=[], title=f"{len(chosen)} words, in the two directions in which they differ most")
        axes.margins(0.1)
        with atomic_file(out) as file:
            figure.savefig(file, format=out.suffix[1:], dpi=120)
    return len(chosen)
