"""The curves of a run, as one picture for the folder and as single panels for the page.

Colours are fixed here, and each has a name that the page gives another value in the dark. Long runs are drawn as a
mean with the range around it, so a picture costs the same after a hundred steps and after a million.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from bertkit.files import atomic_file
from bertkit.objectives.terms import accuracy_of
from bertkit.report.history import Floats, History

COLOURS = {
    "ink": "#1d2129",
    "quiet": "#5f6673",
    "line": "#dedbd3",
    "blue": "#2a6fb0",
    "orange": "#c2571a",
    "green": "#2f855b",
    "purple": "#7a4fa3",
    "red": "#b3261e",
}
SERIES = ("blue", "orange", "green", "purple", "red", "quiet")

STYLE: Any = {
    **{key: mpl.rcParamsDefault[key] for key in ("font.family", "font.sans-serif", "text.usetex", "axes.prop_cycle")},
    "svg.fonttype": "none",
    "svg.hashsalt": "bertkit",
    "font.size": 9.5,
    "text.color": COLOURS["ink"],
    "axes.edgecolor": COLOURS["line"],
    "axes.facecolor": "none",
    "axes.labelcolor": COLOURS["quiet"],
    "axes.labelsize": 9,
    "axes.titlelocation": "left",
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": COLOURS["line"],
    "grid.linewidth": 0.6,
    "xtick.color": COLOURS["line"],
    "ytick.color": COLOURS["line"],
    "xtick.labelcolor": COLOURS["quiet"],
    "ytick.labelcolor": COLOURS["quiet"],
    "legend.frameon": False,
    "legend.fontsize": 9,
    "lines.linewidth": 1.7,
    "lines.solid_capstyle": "round",
}

MOST_POINTS = 400
"""As many as a panel has room to show."""

MARKS = {"resumed": (">", "green"), "skipped": ("x", "red"), "rollback": ("<", "purple")}


def draw_curves(run: Path | History, out: Path) -> None:
    """All panels of a run in one PNG. Draws what there is, from the first record on."""
    history = History(run) if isinstance(run, Path) else run
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(11, 10), dpi=120, facecolor="white")
        figure.subplots_adjust(left=0.05, right=0.985, bottom=0.055, top=0.965, wspace=0.13, hspace=0.34)
        for axes, (_, draw) in zip(figure.subplots(3, 2).flat, PANELS, strict=True):
            draw(axes, history)
        save_figure(figure, out)


def svg_panels(history: History) -> list[tuple[str, str]]:
    """Each panel with its name, as an SVG element for a page that defines the colours as `--blue` and so on."""
    panels = []
    with mpl.rc_context(STYLE):
        for number, (name, draw) in enumerate(PANELS):
            figure = Figure(figsize=(5.0, 3.2), facecolor="none")
            figure.subplots_adjust(left=0.105, right=0.99, bottom=0.145, top=0.91)
            draw(figure.subplots(), history)
            panels.append((name, svg_element(figure, f"panel{number}")))
    return panels


def _loss_by_tokens(axes: Axes, history: History) -> None:
    axes.set_title(f"Loss of {history.about}, by tokens")
    _loss(axes, history, history.tokens_at)
    token_axis(axes)


def _loss_by_time(axes: Axes, history: History) -> None:
    unit, scale = time_unit(history.seconds)
    axes.set_title(f"Loss of {history.about}, by {unit}")
    if len(history.times):
        _loss(axes, history, lambda steps: history.seconds_at(steps) / scale)
    else:
        say(axes, "no times yet")
    axes.set_xlabel(unit)


def _loss(axes: Axes, history: History, place: Callable[[Floats], Floats]) -> None:
    training, validation = history.losses
    _trend(axes, place(history.steps["step"]), training, "blue", "training")
    _points(axes, place(history.validations["step"]), validation, "orange", "validation")
    if len(axes.lines) and math.isfinite(history.by_frequency):
        axes.axhline(history.by_frequency, color=COLOURS["quiet"], linestyle=":", label="word frequency alone")
    marked = any(event["event"] in MARKS for event in history.events)
    _without_spikes(axes, training, validation, foot=0.16 if marked else 0.05)
    _marks(axes, history, place, named=True)
    _finish(axes)


def _accuracy(axes: Axes, history: History) -> None:
    axes.set_title("Accuracy")
    for (term, name), colour in zip(history.asks.items(), cycle(("blue", "orange", "green", "purple")), strict=False):
        training, validation = history.steps[accuracy_of(term)], history.validations[accuracy_of(term)]
        seen = np.isfinite(validation).any()
        label = f"{name}, training" if seen else name
        _trend(axes, history.tokens_at(history.steps["step"]), training, colour, label, faint=bool(seen))
        _points(axes, history.tokens_at(history.validations["step"]), validation, colour, f"{name}, validation")
    axes.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:.3g} %"))
    axes.set_ylim(bottom=0)
    _marks(axes, history, history.tokens_at)
    _finish(axes)
    token_axis(axes)


def _speed(axes: Axes, history: History) -> None:
    speed, share = history.times["tokens_per_second"], history.times["share_of_peak"]
    axes.set_title("Tokens per second")
    _trend(axes, history.tokens_at(history.times["step"]), speed, "green", "")
    if np.isfinite(share).any():
        peak = f"{100 * float(np.nanmedian(share)):.0f} % of the machine's peak"
        axes.set_title(peak, loc="right", fontsize=9, fontweight="normal", color=COLOURS["quiet"])
    axes.set_ylim(0, 1.15 * float(np.nanmax(speed, initial=1.0)))
    axes.yaxis.set_major_formatter(FuncFormatter(short_count))
    _marks(axes, history, history.tokens_at)
    _finish(axes)
    token_axis(axes)


def _learning_rate(axes: Axes, history: History) -> None:
    axes.set_title("Learning rate")
    _trend(axes, history.tokens_at(history.steps["step"]), history.steps["learning_rate"], "blue", "")
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(FuncFormatter(_scientific))
    _finish(axes)
    token_axis(axes)


def _gradient_norm(axes: Axes, history: History) -> None:
    axes.set_title("Gradient norm")
    norm = history.steps["gradient_norm"]
    positive = norm[np.isfinite(norm) & (norm > 0)]
    if len(positive) and positive.max() > 30 * positive.min():
        axes.set_yscale("log")
        norm = np.where(norm > 0, norm, math.nan)
    _trend(axes, history.tokens_at(history.steps["step"]), norm, "purple", "")
    if axes.get_yscale() == "linear":
        axes.set_ylim(bottom=0)
    _marks(axes, history, history.tokens_at)
    _finish(axes)
    token_axis(axes)


PANELS: tuple[tuple[str, Callable[[Axes, History], None]], ...] = (
    ("Loss of masked words against tokens seen", _loss_by_tokens),
    ("Loss of masked words against time", _loss_by_time),
    ("Accuracy for masked words and pairs", _accuracy),
    ("Tokens per second", _speed),
    ("Learning rate", _learning_rate),
    ("Gradient norm", _gradient_norm),
)


def _trend(axes: Axes, x: Floats, y: Floats, colour: str, label: str, *, faint: bool = False) -> None:
    """A line; of many points the mean, with the range around it."""
    finite = np.isfinite(x) & np.isfinite(y)
    x, y = x[finite], y[finite]
    if not len(x):
        return
    if len(x) > MOST_POINTS:
        starts = np.linspace(0, len(x), MOST_POINTS // 2, endpoint=False).astype(int)
        sizes = np.diff(np.r_[starts, len(x)])
        low, high = np.minimum.reduceat(y, starts), np.maximum.reduceat(y, starts)
        x, y = np.add.reduceat(x, starts) / sizes, np.add.reduceat(y, starts) / sizes
        axes.fill_between(x, low, high, color=COLOURS[colour], alpha=0.1 if faint else 0.2, linewidth=0)
    marker = "o" if len(x) == 1 else ""
    axes.plot(x, y, color=COLOURS[colour], label=label, alpha=0.45 if faint else 1, marker=marker, markersize=5)


def _points(axes: Axes, x: Floats, y: Floats, colour: str, label: str) -> None:
    """A line with a dot for each value, as long as the dots can be told apart."""
    finite = np.isfinite(x) & np.isfinite(y)
    x, y = x[finite], y[finite]
    if not len(x):
        return
    if len(x) > MOST_POINTS:
        kept = np.unique(np.linspace(0, len(x) - 1, MOST_POINTS).astype(int))
        x, y = x[kept], y[kept]
    size = 4.5 if len(x) <= 40 else 0
    axes.plot(x, y, color=COLOURS[colour], label=label, marker="o", markersize=size)


def _without_spikes(axes: Axes, training: Floats, validation: Floats, *, foot: float) -> None:
    """A single loss of a million must not flatten all the others. `foot` is the share to leave free below."""
    usual = training[np.isfinite(training)]
    seen = validation[np.isfinite(validation)]
    if len(usual) < 20:
        return
    top = max(float(np.quantile(usual, 0.99)), float(usual[0]), float(seen.max(initial=0)))
    bottom = min(float(usual.min()), float(seen.min(initial=math.inf)))
    height = top - bottom or 1.0
    axes.set_ylim(bottom - foot * height, top + 0.05 * height)


def _marks(axes: Axes, history: History, place: Callable[[Floats], Floats], *, named: bool = False) -> None:
    """Along the foot of a panel, what happened; a stretch that was gone back over is shaded."""
    for row, (event, (marker, colour)) in enumerate(MARKS.items()):
        events = history.events_of(event)
        x = place(events["step"])
        for start, end in list(zip(place(events["to"]), x, strict=True))[-20:]:
            if math.isfinite(start):
                axes.axvspan(start, end, color=COLOURS[colour], alpha=0.12, linewidth=0)
        shown = np.unique(x)[:: math.ceil(len(x) / 100) or 1]
        if len(shown):
            axes.plot(
                shown,
                np.full(len(shown), 0.025 + 0.04 * row),
                linestyle="none",
                marker=marker if len(shown) <= 15 else "|",
                markersize=5.5,
                color=COLOURS[colour],
                label=(event if len(x) == 1 else f"{event}, {len(x):,} times") if named else "",
                transform=axes.get_xaxis_transform(),
                clip_on=False,
            )


def _finish(axes: Axes) -> None:
    if not axes.lines:
        say(axes, "nothing yet")
        return
    if axes.get_legend_handles_labels()[0]:
        axes.legend()
    axes.set_xlim(left=0)
    axes.xaxis.set_major_locator(MaxNLocator(6))


def token_axis(axes: Axes) -> None:
    axes.set_xlabel("tokens seen")
    axes.xaxis.set_major_formatter(FuncFormatter(short_count))


def say(axes: Axes, words: str) -> None:
    axes.text(0.5, 0.5, words, transform=axes.transAxes, ha="center", va="center", color=COLOURS["quiet"])
    axes.set_xticks([])
    axes.set_yticks([])


def short_count(value: float, _: object = None) -> str:
    """1200 is 1.2k, 3500000 is 3.5M."""
    for size, letter in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.4g}{letter}"
    return f"{value:.3g}"


def _scientific(value: float, _: object = None) -> str:
    mantissa, exponent = f"{value:.2e}".split("e")
    return f"{float(mantissa):g}e{int(exponent)}" if value else "0"


def time_unit(seconds: float) -> tuple[str, float]:
    if seconds < 120:
        return "seconds", 1.0
    return ("minutes", 60.0) if seconds < 5 * 3600 else ("hours", 3600.0)


def save_figure(figure: Figure, out: Path) -> None:
    picture = io.BytesIO()
    figure.savefig(picture, format="png")
    with atomic_file(out) as file:
        file.write(picture.getvalue())


def svg_element(figure: Figure, prefix: str) -> str:
    """The figure as an element for a page: its names made its own, its colours and fonts the page's."""
    stream = io.StringIO()
    figure.savefig(stream, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = stream.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
    text = re.sub(r'(\bid="|href="#|url\(#)', rf"\1{prefix}-", text)
    text = re.sub(r"font-family: [^;\"]*", "font-family: inherit", text)
    text = re.sub(r"<style.*?</style>", "", text, flags=re.DOTALL)  # it would hold for the whole page
    text = re.sub(r'<svg\b[^>]*?(viewBox="[^"]*")[^>]*>', r'<svg \1 aria-hidden="true">', text, count=1)
    for name, colour in COLOURS.items():
        text = text.replace(colour, f"var(--{name})")
    return text.strip()
