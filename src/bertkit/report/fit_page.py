"""The report of a fit: how good the model is and how sure that is, what it must beat, where it errs, what to try next.

One self-contained page in the model folder, beside a picture where there are classes or numbers.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence

import numpy as np

from bertkit.report.elements import Markup, card, element, table_of, table_under, tile, whole_page
from bertkit.report.fit_pictures import CLASSES_DRAWN, CLASSES_SHOWN, draw_confusion, draw_numbers
from bertkit.report.fonts import can_be_drawn
from bertkit.tasks.findings import Mistake
from bertkit.train.findings import FitFacts

PAIRS_SHOWN = 10
TEXT_SHOWN = 400


def report_files(facts: FitFacts) -> dict[str, bytes]:
    """What a model folder has of it, by name."""
    pictures = {}
    if facts.confusion is not None and len(facts.confusion[0]) <= CLASSES_DRAWN:
        pictures["confusion.png"] = draw_confusion(*facts.confusion)
    if facts.numbers is not None:
        pictures["numbers.png"] = draw_numbers(*facts.numbers)
    return {"report.html": fit_page(facts, next(iter(pictures.values()), None)), **pictures}


def fit_page(facts: FitFacts, picture: bytes | None = None) -> bytes:
    """`picture` is that of the confusion matrix, or of the numbers."""
    low, high = facts.interval
    score = facts.metrics[facts.main_metric]
    tiles = [
        tile(readable(facts.main_metric), f"{score:.4f}", f"95 % sure: {low:.4f} to {high:.4f}"),
        *(tile(readable(k), f"{v:.4f}") for k, v in facts.metrics.items() if k != facts.main_metric),
        tile("learned from", f"{facts.examples[0]:,}", "examples"),
        tile("measured on", f"{facts.examples[1]:,}", "examples"),
    ]
    about = element("span", f"{facts.task} · {readable(facts.main_metric)} {score:.4f}", class_="quiet")
    sections = [
        element("header", element("h1", facts.name), about),
        card("What it is from", table_of(dict(facts.origin))) if facts.origin else Markup(),
        element("dl", *tiles, class_="figures"),
        element("p", facts.caution, class_="quiet") if facts.caution else Markup(),
        card("What to try next", *(element("p", line) for line in facts.advice)),
        card("What it must beat", _compared(facts), *(element("p", line) for line in facts.doubts)),
        card("Epochs", _epochs(facts.epochs, facts.kept_epoch)),
        card("Where it errs", _confusion(facts), _picture(facts, picture), _numbered(facts), _most_confused(facts)),
        card("Class by class", _by_class(facts)),
        card("The worst mistakes", *_mistakes(facts.mistakes)),
        card("Worth knowing", *(element("p", line) for line in facts.notes)),
        card("Settings", table_of(dict(facts.settings))),
    ]
    return whole_page(f"{facts.name} · bertkit", sections)


def readable(metric: str) -> str:
    return metric.replace("_", " ")


def _compared(facts: FitFacts) -> Markup:
    """A row for every figure: of a tagger with many types each of them may be below what must be beaten."""
    if not facts.baselines and len(facts.seeds) == 1:
        return Markup()
    sides: dict[str, Mapping[str, str]] = {"this model": _figures(facts.metrics)}
    if len(facts.seeds) > 1:
        mean, deviation = float(np.mean(facts.seeds)), float(np.std(facts.seeds, ddof=1))
        sides[f"mean of {len(facts.seeds)} seeds"] = {facts.main_metric: f"{mean:.4f} ± {deviation:.4f}"}
    sides |= {title: _figures(its) for title, its in facts.baselines.items()}
    rows = [[readable(name), *(its.get(name, "") for its in sides.values())] for name in facts.metrics]
    return table_under(["", *sides], rows)


def _figures(metrics: Mapping[str, float]) -> dict[str, str]:
    return {name: f"{value:.4f}" for name, value in metrics.items()}


def _epochs(epochs: Sequence[Mapping[str, float]], kept: int | None) -> Markup:
    if not epochs:
        return Markup()
    names = [name for name in epochs[-1] if name != "epoch"]
    rows = [
        [
            f"{epoch['epoch']:.0f}{' (kept)' * (epoch['epoch'] == kept)}",
            *(f"{epoch[name]:.4f}" if name in epoch else "" for name in names),
        ]
        for epoch in epochs
    ]
    return table_under(["epoch", *map(readable, names)], rows)


def _confusion(facts: FitFacts) -> Markup:
    """As a table; rows are what is right. The deeper the colour, the larger the share of its row."""
    if facts.confusion is None or len(facts.confusion[0]) > CLASSES_SHOWN:
        return Markup()
    classes, matrix = facts.confusion
    rows = []
    for name, counts in zip(classes, matrix, strict=True):
        total = max(int(counts.sum()), 1)
        cells = [
            element(
                "td",
                f"{count:,}",
                style=f"background: color-mix(in srgb, var(--blue) {round(70 * count / total)}%, transparent)",
            )
            for count in counts.tolist()
        ]
        rows.append(element("tr", element("th", name), *cells))
    head = element("tr", element("th", "right ↓  said →"), *(element("th", name) for name in classes))
    table = element("table", element("thead", head), element("tbody", *rows), class_="confusion")
    return element("div", table, class_="wide")


def _by_class(facts: FitFacts) -> Markup:
    """Of each class how many there are, how often it is found, and how often it is right to say it."""
    if facts.confusion is None:
        return Markup()
    classes, matrix = facts.confusion
    rows = []
    for number, name in enumerate(classes):
        there, said, hits = int(matrix[number].sum()), int(matrix[:, number].sum()), int(matrix[number, number])
        found, right = (f"{hits / count:.4f}" if count else "" for count in (there, said))
        f1 = f"{2 * hits / (there + said):.4f}" if there + said else ""
        rows.append([element("bdi", name), f"{there:,}", f"{said:,}", found, right, f1])
    return table_under(["class", "there", "said", "recall", "precision", "F1"], rows)


def _picture(facts: FitFacts, picture: bytes | None) -> Markup:
    """Of numbers, and of so many classes that a table of them could not be read."""
    if picture is None or (facts.confusion is not None and len(facts.confusion[0]) <= CLASSES_SHOWN):
        return Markup()
    shown = "The confusion matrix: rows are what is right, columns what was said"
    if facts.confusion is None:
        shown = "A point for each example: what is right from left to right, what was said upwards"
    source = f"data:image/png;base64,{base64.b64encode(picture).decode()}"
    return element("img", src=source, alt=shown)


def _most_confused(facts: FitFacts) -> Markup:
    if facts.confusion is None or len(facts.confusion[0]) <= 2:
        return Markup()
    classes, matrix = facts.confusion
    wrong = matrix - np.diag(np.diag(matrix))
    order = np.argsort(-wrong, axis=None, kind="stable")[:PAIRS_SHOWN].tolist()
    rows = []
    for right, said in (divmod(place, len(classes)) for place in order):
        if count := int(wrong[right, said]):
            share = f"{count / matrix[right].sum():.0%}"
            rows.append([element("bdi", classes[right]), element("bdi", classes[said]), f"{count:,}", share])
    return table_under(["right", "taken for", "times", "of its examples"], rows)


def _numbered(facts: FitFacts) -> Markup:
    """Which number a label has in the picture, if it has numbers."""
    if facts.confusion is None or len(facts.confusion[0]) > CLASSES_DRAWN or can_be_drawn(facts.confusion[0]):
        return Markup()
    words = "No font here has all signs of the labels: in confusion.png they are numbers."
    rows = [[str(number), element("bdi", name)] for number, name in enumerate(facts.confusion[0], 1)]
    return Markup(element("p", words) + table_under(["in the picture", "label"], rows))


def _mistakes(mistakes: Sequence[Mistake]) -> list[Markup]:
    sure = any(each.sure is not None for each in mistakes)
    rows = []
    for each in mistakes:
        text = each.text if len(each.text) <= TEXT_SHOWN else each.text[:TEXT_SHOWN] + " …"
        how_sure = [f"{each.sure:.0%}" if each.sure is not None else ""] * sure
        rows.append([*(element("bdi", part) for part in (text, each.right, each.said)), *how_sure, each.place])
    return [table_under(["", "right", "said", *["sure"] * sure, "where"], rows, "mistakes")] if rows else []
