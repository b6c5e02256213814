"""The places of a word side by side: what each model takes for alike, as a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bertkit.report.elements import Markup, card, element, table_under, whole_page


def senses_page(word: str | None, parts: Sequence[Mapping[str, Any]]) -> bytes:
    title = f"Where “{word}” means the same" if word else "Senses told apart"
    sections = [element("header", element("h1", title))]
    for part in parts:
        if told := part.get("told"):
            sections.append(card("How often the sense is told rightly", _told(told)))
        sections += [
            element("section", element("h2", _marked(entry["text"])), _near(entry), class_="card")
            for entry in part.get("contexts", ())
        ]
        if "places" in part:
            sections.append(element("p", f"Of {part['places']:,} sentences.", class_="quiet"))
    return whole_page(f"{title} · bertkit", sections)


def called(model: str) -> str:
    """A folder by its name; of a run, whose folder is called model, by that of the run."""
    parts = [part for part in Path(model).resolve().parts if part != "model"]
    return parts[-1] if Path(model).is_dir() and parts else model


def _told(rows: Sequence[Mapping[str, Any]]) -> Markup:
    cells = [
        (
            called(each["model"]),
            f"{each['accuracy']:.1%}",
            each["layer"],
            "  ".join(f"{share:.1%}" for share in each["each_layer"]),
        )
        for each in rows
    ]
    quiet = f"{rows[0]['pairs']:,} pairs; always the commoner answer is right for {rows[0]['commonest']:.1%}."
    return Markup(
        table_under(("model", "right", "by layer", "each layer"), cells) + element("p", quiet, class_="quiet")
    )


def _near(entry: Mapping[str, Any]) -> Markup:
    """A column for each model, the nearest first."""
    names, others = zip(*entry["nearest"].items(), strict=True)
    cells = zip(*([_cell(each) for each in its] for its in others), strict=False)
    rows = [(str(number), *row) for number, row in enumerate(cells, 1)]
    return table_under(("", *map(called, names)), rows, kind="facts")


def _cell(other: Mapping[str, Any]) -> Markup:
    return Markup(_marked(other["text"]) + element("div", f"{other['cosine']:.3f}", class_="quiet"))


def _marked(text: str) -> Markup:
    before, _, rest = text.partition("«")
    word, _, behind = rest.partition("»")
    return Markup("".join((element("span", before), element("strong", word), element("span", behind))))
