"""What pages are built of: elements that escape whatever is put into them, so a text can contain what it likes.

A page is one self-contained file; it has no script, and its own policy forbids any, as well as the network.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from importlib import resources


class Markup(str):
    """Text that is HTML already."""


def element(name: str, *content: object, **attributes: object) -> Markup:
    """An HTML element. What is not markup is escaped; `class_` and `data_step` are written class and data-step.

    >>> element("td", "a < b", class_="right")
    '<td class="right">a &lt; b</td>'
    """
    names = {key: key.rstrip("_").replace("_", "-") for key in attributes}
    opened = "".join(f' {names[key]}="{html.escape(str(value))}"' for key, value in attributes.items())
    inside = "".join(part if isinstance(part, Markup) else html.escape(str(part)) for part in content)
    return Markup(f"<{name}{opened}>{inside}</{name}>")


def card(title: str, *content: Markup) -> Markup:
    return element("section", element("h2", title), *content, class_="card") if any(content) else Markup()


def table_of(value: object) -> Markup:
    """JSON values as a table, nested as they are: names on the left, values on the right."""
    if not isinstance(value, dict):
        return element("div", _plain("", value))
    rows = []
    for key, item in value.items():
        if isinstance(item, dict) and item:
            shown: Markup = element("td", table_of(item))
        elif isinstance(item, list) and any(isinstance(entry, dict | list) for entry in item):
            shown = element("td", *(_entry(entry) for entry in item))
        else:
            shown = element("td", _plain(key, item))
        rows.append(element("tr", element("th", key.replace("_", " ")), shown))
    return element("table", *rows, class_="facts")


def _entry(value: object) -> Markup:
    """An entry of a list: on one line if it is flat."""
    if isinstance(value, dict) and not any(isinstance(item, dict | list) for item in value.values()):
        return element("div", ", ".join(f"{key.replace('_', ' ')} {_plain(key, item)}" for key, item in value.items()))
    return table_of(value)


def _plain(key: str, value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) and "seed" not in key:
        return f"{value:,}"
    if isinstance(value, float) and len(str(value)) > 8:  # computed, not chosen
        return f"{value:.3g}" if abs(value) < 1 else f"{value:.6g}"
    if isinstance(value, list):
        return ", ".join(_plain(key, item) for item in value) or "none"
    return "–" if value is None or value == {} else str(value)


def table_under(head: Sequence[str], rows: Sequence[Sequence[object]], kind: str = "numbers") -> Markup:
    """Rows of cells under a head. Where it is too wide for its place it can be moved; its numbers and words stay
    whole."""
    if not rows:
        return Markup()
    heading = element("thead", element("tr", *(element("th", name) for name in head)))
    body = [element("tr", element("th", row[0]), *(element("td", cell) for cell in row[1:])) for row in rows]
    return element("div", element("table", heading, element("tbody", *body), class_=kind), class_="wide")


def tile(name: str, value: str, note: str = "") -> Markup:
    """A figure with its name, for the head of a page."""
    about = element("dd", note, class_="quiet") if note else ""
    return element("div", element("dt", name), element("dd", value), about)


def whole_page(title: str, sections: Iterable[Markup]) -> bytes:
    template = resources.files("bertkit.report").joinpath("report.html").read_text(encoding="utf-8")
    parts = {"TITLE": html.escape(title), "BODY": "\n".join(part for part in sections if part)}
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], template).encode("utf-8", "replace")
