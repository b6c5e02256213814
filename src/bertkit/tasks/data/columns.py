"""Which column holds what: named by the user, known by its name, or guessed from the first rows and then said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bertkit.errors import InputError, nearest
from bertkit.tasks.data.rows import Row, Table

LOOK_AT = 1000
"""So many rows are looked at to guess by what is in them."""

PAIRS = (
    ("sentence1", "sentence2"),
    ("text_a", "text_b"),
    ("#1 string", "#2 string"),
    ("premise", "hypothesis"),
    ("question1", "question2"),
    ("question", "sentence"),
)
"""What the two texts of a pair are usually called."""
USUAL = {
    "text": (
        "text",
        "sentence",
        "sentence1",
        "text_a",
        "#1 string",
        "review",
        "content",
        "premise",
        "question1",
        "body",
    ),
    "pair": ("pair", "sentence2", "text_b", "#2 string", "hypothesis", "question2"),
    "label": ("label", "labels", "gold_label", "class", "category", "target", "quality", "sentiment", "is_duplicate"),
    "score": (
        "score",
        "similarity",
        "label",
        "target",
        "rating",
        "stars",
        "value",
        "gold_label",
        "quality",
        "is_duplicate",
    ),
    "negative": ("negative", "hard_negative", "negatives", "neg"),
}
"""What columns are usually called, whatever the case; the first that is there counts."""


def find_columns(
    table: Table,
    rows: Sequence[Row],
    wanted: Mapping[str, bool],
    given: Mapping[str, str],
    notes: list[str],
    pairs: Sequence[tuple[str, str]] = PAIRS,
) -> dict[str, str]:
    """For each part of an example its column. `wanted` says of each whether there must be one; `given` are the user's
    own words, which are never overruled; `pairs` are usual names for two texts."""
    found: dict[str, str] = {}
    for part, name in given.items():
        if name not in table.columns:
            there = ", ".join(map(repr, table.columns[:12]))
            hint = nearest(name, table.columns)
            raise InputError(
                f"{table.source.name} has no column {name!r}", f"{hint + ' ' if hint else ''}There are: {there}."
            )
        found[part] = name
    guessed: dict[str, str] = {}
    if "pair" in wanted and not {"text", "pair"} & found.keys():
        guessed.update(_usual_pair(table.columns, pairs))
    for part in wanted:
        if part in found or part in guessed:
            continue
        left = [name for name in table.columns if name not in (*found.values(), *guessed.values())]
        if usual := _by_name(part, left):
            guessed[part] = usual
    missing = [part for part, needed in wanted.items() if needed and part not in found and part not in guessed]
    if missing:
        guessed.update(_by_content(missing, table, rows, {**found, **guessed}))
    if lacking := [part for part in missing if part not in guessed]:
        there = ", ".join(map(repr, table.columns[:12]))
        raise InputError(
            f"{table.source.name}: no column is plainly the {lacking[0]}",
            f"Name it with --{lacking[0]}. There are: {there}.",
        )
    if guessed:
        shown = ", ".join(f"{part} is {name!r}" for part, name in guessed.items())
        notes.append(f"{table.source.name}{'' if table.header else ' has no header'}: taken for granted that {shown}")
    return {**found, **guessed}


def _usual_pair(names: Sequence[str], pairs: Sequence[tuple[str, str]]) -> dict[str, str]:
    lowered = {name.strip().lower(): name for name in reversed(names)}
    both = next((pair for pair in pairs if pair[0] in lowered and pair[1] in lowered), None)
    return {} if both is None else {"text": lowered[both[0]], "pair": lowered[both[1]]}


def _by_name(part: str, names: Sequence[str]) -> str | None:
    lowered = {name.strip().lower(): name for name in reversed(names)}
    return next((lowered[usual] for usual in USUAL.get(part, ()) if usual in lowered), None)


def _by_content(missing: Sequence[str], table: Table, rows: Sequence[Row], taken: Mapping[str, str]) -> dict[str, str]:
    """The longest and most different texts are the text; what has the fewest different values, and one in every row, is
    the label."""
    found: dict[str, str] = {}
    for part in missing:
        left = [name for name in table.columns if name not in (*taken.values(), *found.values())]
        if part in ("text", "pair"):
            weights = {name: _weight([row.values.get(name) for row in rows]) for name in left}
            heaviest = max(weights, key=weights.__getitem__, default=None)
            if heaviest is not None and weights[heaviest] > 0:
                found[part] = heaviest
        elif part in ("label", "score"):
            kinds = {name: {str(row.values.get(name)).strip() for row in rows} for name in left}
            full = {name: len(values) for name, values in kinds.items() if "" not in values and len(values) > 1}
            fewest = min(full, key=full.__getitem__, default=None)
            if fewest is not None and (part == "score" or full[fewest] <= max(2, len(rows) // 5)):
                found[part] = fewest
    if {"text", "pair"} <= found.keys():  # both only guessed: the first is the one that stands first
        found["text"], found["pair"] = sorted((found["text"], found["pair"]), key=table.columns.index)
    return found


def _weight(values: Sequence[Any]) -> float:
    """How much text there is that is not there twice."""
    if not values or not all(isinstance(value, str) for value in values):
        return 0.0
    return sum(map(len, set(values))) / len(values)
