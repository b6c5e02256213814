"""The lineage as a page to be read like a chapter: each model in its turn, what it added, what it came to here beside
all before it, and what that cost. OUT/lineage.html, lineage.md and lineage.png, beside what every comparison has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bertkit.families.line import LINE, Chapter, chapter_of
from bertkit.files import atomic_file
from bertkit.report.comparison import markdown, write_comparison
from bertkit.report.curves import COLOURS, STYLE, save_figure, short_count, svg_element
from bertkit.report.elements import Markup, card, element, table_under, whole_page
from bertkit.report.standings import bits_per_byte, cells_of, head_of, remarks, standings


def write_lineage(facts: Mapping[str, Any], out: Path) -> None:
    write_comparison(facts, out)
    _draw(facts, out / "lineage.png")
    text = [f"# {facts['name']}: the line", "![scores](lineage.png)"]
    for number, row in enumerate(facts["contestants"]):
        if (chapter := chapter_of(row["title"])) is not None:
            text.append(f"## {chapter.title} ({chapter.year})\n\n{chapter.added}\n\n{_came_to(facts, number)}")
            text += [chapter.here] if chapter.here else []
    text += [_not_there(facts), markdown(facts).partition("\n\n")[2]]
    files = {"lineage.md": "\n\n".join(filter(None, text)).encode(), "lineage.html": _page(facts)}
    for name, content in files.items():
        with atomic_file(out / name) as file:
            file.write(content)


def _page(facts: Mapping[str, Any]) -> bytes:
    sections = [
        element(
            "header",
            element("h1", "From one-hot to ELECTRA"),
            element("span", "the same text, the same time, the same tasks", class_="quiet"),
        )
    ]
    for number, row in enumerate(facts["contestants"]):
        if (chapter := chapter_of(row["title"])) is not None:
            sections.append(_chapter(facts, number, chapter))
    sections += [
        card("All of them", table_under(head_of(facts), cells_of(facts)), *map(_quiet, remarks(facts))),
        _quiet(_not_there(facts)),
    ]
    return whole_page("Lineage · bertkit", sections)


def _chapter(facts: Mapping[str, Any], number: int, chapter: Chapter) -> Markup:
    parts = [element("p", chapter.added), element("p", _came_to(facts, number))]
    if chapter.here:
        parts.append(_quiet(chapter.here))
    figures = []
    for at, task in enumerate(facts["tasks"] if "scores" in facts["contestants"][number] else ()):
        with mpl.rc_context(STYLE):
            figure = Figure(figsize=(5.0, 2.6), facecolor="none", layout="constrained")
            _so_far(figure.subplots(), facts, task, number)
            svg = Markup(svg_element(figure, f"chapter{number}task{at}"))
        figures.append(element("figure", svg, role="img", aria_label=f"{task['name']} up to {chapter.title}"))
    if figures:
        parts.append(element("div", *figures, class_="curves"))
    return card(f"{chapter.title}, {chapter.year}", *parts)


def _came_to(facts: Mapping[str, Any], number: int) -> str:
    """Its figures in a sentence, beside those of the one before."""
    row = facts["contestants"][number]
    if "problem" in row:
        return f"It failed: {row['problem']}"
    its = row.get("pretraining", {})
    said = []
    if its.get("parameters"):
        said.append(
            f"{short_count(its['parameters'])} parameters, {short_count(its['tokens'])} tokens read in"
            f" {its['seconds'] / 60:.0f} minutes"
        )
    if bits := bits_per_byte(row):
        said.append(f"{bits[0]:.2f} bits per byte of held-out text ({bits[1]})")
    for task in facts["tasks"]:
        all_of_them = standings(facts, task["name"])
        if (mine := all_of_them[number][1]) is None:
            continue
        before = next((each for _, each in reversed(all_of_them[:number]) if each is not None), None)
        change = "" if before is None else f" ({mine.mean - before.mean:+.3f} against the one before)"
        spread = "" if mine.deviation is None else f" ± {mine.deviation:.3f}"
        said.append(f"{task['name']}: {task['metric'].replace('_', ' ')} {mine.mean:.3f}{spread}{change}")
    return "; ".join(said) + "." if said else ""


def _not_there(facts: Mapping[str, Any]) -> str:
    there = {row["title"] for row in facts["contestants"]}
    missing = [chapter.title for chapter in LINE if chapter.title not in there]
    return f"Not on this page: {', '.join(missing)}." if missing else ""


def _quiet(text: str) -> Markup:
    return element("p", text, class_="quiet") if text else Markup()


def _draw(facts: Mapping[str, Any], out: Path) -> None:
    tasks: Sequence[Mapping[str, Any]] = facts["tasks"]
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(10, 3.2 * max(len(tasks), 1)), dpi=120, layout="constrained", facecolor="white")
        axes = figure.subplots(max(len(tasks), 1), 1, squeeze=False)[:, 0]
        for each, task in zip(axes, tasks, strict=False):
            _so_far(each, facts, task, len(facts["contestants"]) - 1)
        if not tasks:
            _bits(axes[0], facts)
        save_figure(figure, out)


def _so_far(axes: Axes, facts: Mapping[str, Any], task: Mapping[str, Any], number: int) -> None:
    """The scores of a task, in the order of the line, up to one; there is room for those to come."""
    known = standings(facts, task["name"])
    dots = [None if each is None else (each.mean, each.deviation or 0.0) for _, each in known[: number + 1]]
    _dots(axes, [row["title"] for row, _ in known], dots)
    axes.set_title(f"{task['name']}: {task['metric'].replace('_', ' ')}")


def _bits(axes: Axes, facts: Mapping[str, Any]) -> None:
    found = [bits_per_byte(row) for row in facts["contestants"]]
    _dots(axes, [row["title"] for row in facts["contestants"]], [each and (each[0], 0.0) for each in found])
    axes.set_title("Bits per byte of held-out text")


def _dots(axes: Axes, titles: Sequence[str], dots: Sequence[tuple[float, float] | None]) -> None:
    for place, dot in enumerate(dots):
        if dot is not None:
            colour = COLOURS["blue"] if place == len(dots) - 1 else COLOURS["quiet"]
            axes.errorbar([place], [dot[0]], yerr=[dot[1]], fmt="o", color=colour, markersize=7, capsize=4)
    axes.set_xticks(range(len(titles)), list(titles), rotation=35, ha="right")
    axes.set_xlim(-0.5, len(titles) - 0.5)
    axes.tick_params(axis="x", length=0)
