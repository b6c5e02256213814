"""Pictures of what a fitted model says of the dev examples: classes as a matrix, numbers as points."""

from __future__ import annotations

import io
import unicodedata
from collections.abc import Sequence

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure

from bertkit.report.curves import COLOURS, STYLE
from bertkit.report.fonts import can_be_drawn, fonts_for, without_glyph_warnings

CLASSES_SHOWN, CLASSES_DRAWN = 20, 100
"""With their counts, and with colours alone; a picture of more nobody reads."""


def draw_confusion(classes: Sequence[str], matrix: npt.NDArray[np.int64]) -> bytes:
    """A PNG: rows are what is right, columns what was said, colours the share of the row. Where no font has all signs
    of the labels, they are numbered from 1."""
    shares = matrix / np.maximum(matrix.sum(1, keepdims=True), 1)
    size = min(max(3.2, 0.55 * len(classes) + 1.6), 14)
    drawable = can_be_drawn(classes)
    named = [" ".join(name.split()) for name in classes] if drawable else [str(n + 1) for n in range(len(classes))]
    with mpl.rc_context({**STYLE, "font.family": fonts_for(classes)}), without_glyph_warnings():
        figure = Figure(figsize=(size, size), dpi=120, facecolor="white", layout="constrained")
        axes = figure.subplots()
        axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
        axes.grid(visible=False)
        names = [name if len(name) <= 18 else name[:17] + "…" for name in named]
        slanted = len(names) > 4 or max(map(_width, names)) > 8
        axes.set_xticks(range(len(names)), names, rotation=45 * slanted, ha="right" if slanted else "center")
        axes.set_yticks(range(len(names)), names)
        for label in (*axes.get_xticklabels(), *axes.get_yticklabels()):
            label.set_parse_math(False)  # a label may have dollars in it
        axes.set_xlabel("said")
        axes.set_ylabel("right")
        if len(classes) <= CLASSES_SHOWN:
            for row, column in np.ndindex(*matrix.shape):
                colour = "white" if shares[row, column] > 0.5 else COLOURS["ink"]
                axes.text(column, row, f"{matrix[row, column]:,}", ha="center", va="center", color=colour)
        return png(figure)


def _width(name: str) -> int:
    """In letters; a Chinese character is as wide as two."""
    return sum(2 if unicodedata.east_asian_width(sign) in "WF" else 1 for sign in name)


def draw_numbers(right: Sequence[float], said: Sequence[float]) -> bytes:
    """A PNG: a point for each example, and the line on which all would lie if all were right."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(5, 5), dpi=120, facecolor="white", layout="constrained")
        axes = figure.subplots()
        low, high = min(*right, *said), max(*right, *said)
        axes.plot([low, high], [low, high], color=COLOURS["ink"], linewidth=1, linestyle=":")
        faint = min(1.0, max(0.1, 100 / len(right)))  # so that many in one place are darker than few
        axes.scatter(right, said, s=16, color=COLOURS["blue"], alpha=faint, linewidths=0)
        axes.set_xlabel("right")
        axes.set_ylabel("said")
        return png(figure)


def png(figure: Figure) -> bytes:
    """The same bytes for the same picture."""
    picture = io.BytesIO()
    figure.savefig(picture, format="png", metadata={"Software": None})
    return picture.getvalue()
