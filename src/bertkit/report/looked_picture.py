"""A picture of where in a text each word that was written from it looked."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure

from bertkit.report.curves import STYLE
from bertkit.report.fit_pictures import png
from bertkit.report.fonts import fonts_for, without_glyph_warnings

INCH = 0.26
"""For each token."""
LARGEST = 40.0


def draw_looked(read: Sequence[str], written: Sequence[str], looked: npt.NDArray[np.float32]) -> bytes:
    """A PNG: a row for each written token, a column for each that was read, the darker the more it looked there."""
    size = (min(INCH * len(read) + 1.8, LARGEST), min(INCH * len(written) + 1.6, LARGEST))
    with mpl.rc_context({**STYLE, "font.family": fonts_for([*read, *written])}), without_glyph_warnings():
        figure = Figure(figsize=size, dpi=120, facecolor="white", layout="constrained")
        axes = figure.subplots()
        axes.imshow(looked, cmap="Blues", vmin=0, aspect="auto")
        axes.grid(visible=False)
        axes.xaxis.tick_top()
        axes.set_xticks(range(len(read)), read, rotation=90)
        axes.set_yticks(range(len(written)), written)
        for label in (*axes.get_xticklabels(), *axes.get_yticklabels()):
            label.set_parse_math(False)  # a token may have dollars in it
        axes.set_ylabel("written")
        axes.set_title("read", fontsize="medium", fontweight="normal")
        return png(figure)
