"""A picture of what pretraining is worth: scores by the number of examples, a line for each start."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

from bertkit.report.curves import COLOURS, STYLE, save_figure, short_count
from bertkit.report.fonts import fonts_for, without_glyph_warnings

LINES = {"pretrained": ("blue", "o", "from pretrained weights"), "random": ("orange", "s", "from random weights")}


class Scored(Protocol):
    @property
    def start(self) -> str: ...
    @property
    def examples(self) -> int: ...
    @property
    def scores(self) -> tuple[float, ...]: ...


def draw_learning_curve(points: Sequence[Scored], metric: str, title: str, out: Path) -> None:
    """Where there are several seeds, a line is their mean, and a bar goes from the worst to the best."""
    with mpl.rc_context({**STYLE, "font.family": fonts_for([title])}), without_glyph_warnings():
        figure = Figure(figsize=(7, 4.2), dpi=120, layout="constrained", facecolor="white")
        axes = figure.subplots()
        for start, (colour, marker, label) in LINES.items():
            its = [point for point in points if point.start == start]
            sizes = [point.examples for point in its]
            means = np.array([np.mean(point.scores) for point in its])
            reach = np.abs([[np.min(p.scores), np.max(p.scores)] for p in its] - means[:, None]).T
            axes.errorbar(
                sizes, means, reach, color=COLOURS[colour], marker=marker, markersize=5, capsize=3, label=label
            )
        sizes = sorted({point.examples for point in points})
        axes.set_xscale("log")
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(short_count))
        axes.set_xticks(sizes)
        axes.set_xlabel("examples learned from")
        axes.set_title(f"{title}: {metric.replace('_', ' ')}")
        axes.legend()
        save_figure(figure, out)
