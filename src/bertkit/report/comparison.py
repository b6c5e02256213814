"""A comparison for people to read: OUT/comparison.md, comparison.html and curves.png, from what comparison.json holds
and from the runs beside it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from bertkit.files import atomic_file
from bertkit.report.curves import COLOURS, SERIES, STYLE, save_figure, say, svg_element, time_unit, token_axis
from bertkit.report.elements import Markup, card, element, table_of, table_under, whole_page
from bertkit.report.fonts import fonts_for, without_glyph_warnings
from bertkit.report.history import Floats, History
from bertkit.report.standings import NOT_THERE, cells_of, head_of, remarks, scores_of, standings

Line = tuple[Floats, Floats, Floats]
"""Seconds, tokens, bits per byte."""
OF_THE_CURVES = (
    "The curves are of what each run looked at while it went: single tokens hidden, in pairs of sentences where next"
    " sentences are learned too, else in one text; or, from left to right, every next token. So they compare the same"
    " objective with the same tokenizer, and others roughly (of an ELECTRA they are its generator's); the figure in the"
    " table is measured afterwards, in one way for all that are asked for the same."
)


def write_comparison(facts: Mapping[str, Any], out: Path) -> None:
    lines = _lines(facts, out)
    _draw(facts, lines, out / "curves.png")
    for name, content in (("comparison.md", markdown(facts).encode()), ("comparison.html", page(facts, lines))):
        with atomic_file(out / name) as file:
            file.write(content)


def markdown(facts: Mapping[str, Any]) -> str:
    parts = [f"# {facts['name']}", _md_table(head_of(facts), cells_of(facts))]
    parts.append("\n".join(f"- {line}" for line in [*remarks(facts), *_failures(facts)]))
    parts.append(f"![held-out text](curves.png)\n\n{OF_THE_CURVES}")
    for task in facts["tasks"]:
        head, rows = _details(facts, task)
        parts.append(f"## {task['name']}: {task['metric'].replace('_', ' ')}\n\n{_md_table(head, rows)}")
    parts.append("## How it was made\n\n" + "\n".join(f"- {line}" for line in _made(facts)))
    return "\n\n".join(part for part in parts if part) + "\n"


def _md_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    marks = "|---" + "|---:" * (len(head) - 1) + "|"
    lines = [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in [head, *rows]]
    return "\n".join([lines[0], marks, *lines[1:]])


def page(facts: Mapping[str, Any], lines: Mapping[str, Line]) -> bytes:
    rows = facts["contestants"]
    counts = {"contestant": len(rows), "task": len(facts["tasks"]), "seed": facts["seeds"]}
    about = ", ".join(f"{count} {name}{'s' if count != 1 else ''}" for name, count in counts.items())
    panels = [element("figure", Markup(svg), role="img", aria_label=name) for name, svg in _panels(facts, lines)]
    sections = [
        element("header", element("h1", facts["name"]), element("span", f"comparison · {about}", class_="quiet")),
        card(
            "Side by side",
            table_under(head_of(facts), cells_of(facts)),
            *map(_note, [*remarks(facts), *_failures(facts)]),
        ),
        card("Curves and scores", element("div", *panels, class_="curves"), _note(OF_THE_CURVES)),
        *(
            card(f"{task['name']}: {task['metric'].replace('_', ' ')}", table_under(*_details(facts, task)))
            for task in facts["tasks"]
        ),
        card("How it was made", *(element("p", line) for line in _made(facts))),
        element(
            "div",
            *(card(key.capitalize(), table_of(facts[key])) for key in ("asked", "machine", "versions")),
            class_="columns",
        ),
    ]
    return whole_page(f"{facts['name']} · bertkit", sections)


def _note(line: str) -> Markup:
    return element("p", line, class_="quiet")


def _failures(facts: Mapping[str, Any]) -> list[str]:
    return [f"{row['title']} failed: {row['problem']}" for row in facts["contestants"] if "problem" in row]


def _details(facts: Mapping[str, Any], task: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    head = ["", "mean", "deviation", "difference to the first", "beyond the spread", *_seeds(facts)]
    rows = []
    for row, its in standings(facts, task["name"]):
        if its is None:
            rows.append([row["title"], *[NOT_THERE] * (len(head) - 1)])
            continue
        scores = [f"{score:.4f}" for score in scores_of(row, task["name"])]
        rows.append(
            [
                row["title"],
                f"{its.mean:.4f}",
                NOT_THERE if its.deviation is None else f"{its.deviation:.4f}",
                NOT_THERE if its.difference is None else f"{its.difference:+.4f}",
                {True: "yes", False: "no", None: NOT_THERE}[its.beyond],
                *scores,
                *[NOT_THERE] * (facts["seeds"] - len(scores)),
            ]
        )
    return head, rows


def _seeds(facts: Mapping[str, Any]) -> list[str]:
    return [f"seed {number}" for number in range(facts["seeds"])]


def _made(facts: Mapping[str, Any]) -> list[str]:
    asked = facts["asked"]
    compute = f"{asked['steps']:,} steps" if asked["steps"] is not None else f"{60 * asked['hours']:g} minutes"
    case = {True: ", case kept", False: ", case folded", None: ""}[asked["cased"]]
    how = f"the recipe {asked['recipe']} and seed {asked['seed']}"
    made = [f"Each was pretrained for {compute} with {how}, unless its name says otherwise."]
    for name, its in facts["corpora"].items():
        made.append(
            f"Text for {name}: {its['kept']['train']['tokens']:,} tokens to learn from,"
            f" {its['kept']['validation']['tokens']:,} held out; {its['kind']}, {its['vocabulary']:,} pieces{case}."
        )
    for task in facts["tasks"]:
        most = asked["most_examples"]
        train = task["examples"]["train"]
        cut = (
            f"{min(train, most):,} of {train:,} examples, drawn by each seed"
            if most and most < train
            else f"{train:,} examples"
        )
        made.append(
            f"{task['name']} ({task['task']}): learned from {cut}, up to {asked['max_length']} tokens of each; measured"
            f" on {task['examples']['dev']:,}."
        )
    made += facts["notes"]
    versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
    machine = facts["machine"]
    where = machine["cpu"] if machine["device"] == "cpu" else machine["device"]
    made.append(f"{versions}; {where}, {machine['threads']} threads.")
    return made


def _lines(facts: Mapping[str, Any], out: Path) -> dict[str, Line]:
    """For each pretraining the course of its held-out loss, in bits for each byte."""
    lines: dict[str, Line] = {}
    done: set[str] = set()
    for row in facts["contestants"]:
        if row["run"] in done or "pretraining" not in row:
            continue
        done.add(row["run"])
        history = History(out / row["run"])
        steps = history.validations["step"]
        bits = history.losses[1] / math.log(2) / facts["corpora"][row["corpus"]]["bytes_per_token"]
        kept = np.isfinite(bits) & (steps > 0)  # before the first step all know nothing
        lines[row["title"]] = (history.seconds_at(steps[kept]), history.tokens_at(steps[kept]), bits[kept])
    return lines


def _draw(facts: Mapping[str, Any], lines: Mapping[str, Line], out: Path) -> None:
    panels = _kinds(facts, lines)
    with _style(facts):
        height = 4.6 * math.ceil(len(panels) / 2)
        figure = Figure(figsize=(13, height), dpi=120, layout="constrained", facecolor="white")
        for axes, (_, draw) in zip(figure.subplots(math.ceil(len(panels) / 2), 2).flat, panels, strict=False):
            draw(axes)
        for axes in figure.axes[len(panels) :]:
            axes.set_visible(False)
        with without_glyph_warnings():
            save_figure(figure, out)


def _panels(facts: Mapping[str, Any], lines: Mapping[str, Line]) -> list[tuple[str, str]]:
    made = []
    with _style(facts), without_glyph_warnings():
        for number, (name, draw) in enumerate(_kinds(facts, lines)):
            figure = Figure(figsize=(5.0, 3.4), facecolor="none", layout="constrained")
            draw(figure.subplots())
            made.append((name, svg_element(figure, f"panel{number}")))
    return made


def _style(facts: Mapping[str, Any]) -> Any:
    titles = [row["title"] for row in facts["contestants"]] + [task["name"] for task in facts["tasks"]]
    return mpl.rc_context({**STYLE, "font.family": fonts_for(titles)})


def _kinds(facts: Mapping[str, Any], lines: Mapping[str, Line]) -> list[tuple[str, Callable[[Axes], None]]]:
    return [
        ("Held-out loss against time", partial(_by_time, lines=lines)),
        ("Held-out loss against tokens seen", partial(_by_tokens, lines=lines)),
        *((f"Scores of {task['name']}", partial(_scores, facts=facts, task=task)) for task in facts["tasks"]),
    ]


def _by_time(axes: Axes, lines: Mapping[str, Line]) -> None:
    unit, scale = time_unit(max((float(line[0][-1]) for line in lines.values() if len(line[0])), default=0.0))
    _curves(axes, {name: (seconds / scale, bits) for name, (seconds, _, bits) in lines.items()})
    axes.set_title(f"Held-out text: bits per byte, by {unit}")
    axes.set_xlabel(unit)


def _by_tokens(axes: Axes, lines: Mapping[str, Line]) -> None:
    _curves(axes, {name: (tokens, bits) for name, (_, tokens, bits) in lines.items()})
    axes.set_title("The same, by tokens seen")
    token_axis(axes)


def _curves(axes: Axes, lines: Mapping[str, tuple[Floats, Floats]]) -> None:
    for number, (name, (x, y)) in enumerate(lines.items()):
        style = ("-", "--", ":")[number // len(SERIES) % 3]
        marker = "o" if len(x) <= 40 else ""
        axes.plot(x, y, style, color=COLOURS[SERIES[number % len(SERIES)]], marker=marker, markersize=3, label=name)
    if not any(len(x) for x, _ in lines.values()):
        say(axes, "nothing yet")
        return
    axes.set_xlim(left=0)
    axes.xaxis.set_major_locator(MaxNLocator(6))
    for text in axes.legend().get_texts():
        text.set_parse_math(False)


def _scores(axes: Axes, facts: Mapping[str, Any], task: Mapping[str, Any]) -> None:
    """A row for each contestant: a dot for each seed, a line at the mean."""
    rows = facts["contestants"]
    for number, (row, its) in enumerate(standings(facts, task["name"])):
        if its is None:
            continue
        colour = COLOURS["quiet"] if row["random"] else COLOURS["blue"]
        scores = scores_of(row, task["name"])
        axes.plot(scores, [number] * len(scores), "o", color=colour, alpha=0.6, markersize=6)
        axes.plot([its.mean], [number], "|", color=COLOURS["ink"], markersize=15, markeredgewidth=2)
    axes.set_yticks(range(len(rows)), [row["title"] for row in rows])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.set_title(f"{task['name']}: {task['metric'].replace('_', ' ')}, a dot for each seed")
    axes.xaxis.set_major_locator(MaxNLocator(6))
    for label in axes.get_yticklabels():
        label.set_parse_math(False)
