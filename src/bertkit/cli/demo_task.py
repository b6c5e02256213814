"""The demo's task: which library is a line of documentation about? Learned from the demo's model and from nothing."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bertkit.tables.values import TextExample

SIZES = (100, 1000)
DEV = 500
FEWEST_WORDS = 6


def what_pretraining_is_worth(out: Path, documents: Iterable[tuple[str, str]]) -> dict[str, float]:
    """The scores, by start and number of examples."""
    from bertkit.hub.folder import ModelFolder
    from bertkit.tasks.classify import Classify
    from bertkit.tasks.options import ClassifyOptions
    from bertkit.train.fit import FitSettings
    from bertkit.train.learning_curve import learning_curve

    train, dev = _lines(documents)
    task = Classify.begin(train, ClassifyOptions(), 64).task
    folder = ModelFolder(out / "model")
    points = []
    for size in SIZES:
        settings = FitSettings.usual(width=folder.config.hidden_size, units=size)
        points += learning_curve(folder.path, task, train, dev, sizes=[size], settings=settings)
    return {f"{point.start}_{point.examples}": point.scores[0] for point in points}


def _lines(documents: Iterable[tuple[str, str]]) -> tuple[list[TextExample], list[TextExample]]:
    """As many of each library. Lines to learn from and lines to measure on are of different documents."""
    from bertkit.tables.values import TextExample

    lines: dict[str, list[list[TextExample]]] = {}
    seen = set()
    for number, (origin, document) in enumerate(documents):
        for line in document.splitlines():
            text = line.strip()
            if len(text.split()) >= FEWEST_WORDS and text not in seen:
                seen.add(text)
                sides = lines.setdefault(origin, [[], []])
                sides[number % 4 == 0].append(TextExample(f"document {number + 1}", text, None, origin))
    chosen: list[list[TextExample]] = [[], []]
    for sides in lines.values():
        for side, its, wanted in zip(chosen, sides, (max(SIZES), DEV), strict=True):
            share = -(-wanted // len(lines))
            side += its[:: max(1, len(its) // share)][:share]
    return chosen[0], chosen[1]
