"""What pretraining is worth: one task from pretrained and from random weights, with few examples and with many.

python benchmarks/pretraining_pays.py --data FOLDER --model RUN/model --out pays.png
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

from bertkit import device
from bertkit.hub import ModelFolder
from bertkit.report.curves import COLOURS, STYLE, save_figure, short_count
from bertkit.report.fonts import fonts_for, without_glyph_warnings
from bertkit.tables import Reading
from bertkit.tasks import examples_in, task_called
from bertkit.train import FitSettings, Point
from bertkit.train.learning_curve import learning_curve

CASES = {
    "SST-2": ("classify", "glue/SST-2/train.tsv", "glue/SST-2/dev.tsv"),
    "CoNLL-2003": ("tag", "conll2003/train.txt", "conll2003/dev.txt"),
}

LINES = {"pretrained": ("blue", "o", "from pretrained weights"), "random": ("orange", "s", "from random weights")}


def draw_learning_curve(points: Sequence[Point], metric: str, title: str, out: Path) -> None:
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--model", type=Path, required=True, help="a model that bertkit pretrained")
    parser.add_argument("--case", choices=CASES, default="SST-2")
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 1000, 0], help="0: all")
    parser.add_argument("--seeds", type=int, default=3, help="of all but the largest, which has one")
    parser.add_argument("--out", type=Path, required=True, help="the picture")
    options = parser.parse_args()
    name, train_file, dev_file = CASES[options.case]
    kind = task_called(name)
    train, dev = (list(examples_in(kind, str(options.data / file), Reading(), [])) for file in (train_file, dev_file))
    task = kind.begin(train, kind.options(), 128).task
    width = ModelFolder(options.model).config.hidden_size
    device.apply(device.choose("cpu"))

    def said(point: Point) -> None:
        print(json.dumps(vars(point)), file=sys.stderr, flush=True)

    points = []
    for size in options.sizes:
        count = size or len(train)
        settings = FitSettings.usual(width=width, units=count)
        seeds = 1 if count == len(train) else options.seeds
        points += learning_curve(
            options.model, task, train, dev, sizes=[count], settings=settings, seeds=seeds, said=said
        )
    draw_learning_curve(points, task.measure.main, options.case, options.out)
    means = {f"{point.start} {point.examples}": round(statistics.fmean(point.scores), 4) for point in points}
    print(json.dumps({"benchmark": "pretraining_pays", "case": options.case, task.measure.main: means}))


if __name__ == "__main__":
    main()
