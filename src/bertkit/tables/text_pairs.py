"""Rows with two texts that belong together, or a number for how much they do; perhaps a third text that does not."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import chain, islice
from typing import Any, NamedTuple

from bertkit.errors import InputError, UsageError, shortened
from bertkit.tables.columns import KNOWN, LOOK_AT, PAIRS, as_in_training, find_columns
from bertkit.tables.reading import Reading
from bertkit.tables.texts import read_table, text_of, value_of

BELONG_TOGETHER = (
    ("text1", "text2"),
    ("anchor", "positive"),
    ("query", "positive"),
    ("query", "passage"),
    ("query", "document"),
    ("question", "answer"),
    ("question", "passage"),
    ("title", "body"),
    ("title", "text"),
    ("text", "summary"),
)
"""More names for two texts, which in a table for another task need not be a pair."""
NO_SCORE = "none"
PARTS = ("text", "pair", "score", "negative")


class PairExample(NamedTuple):
    place: str
    text: str
    pair: str
    right: float | None = None
    """How much they are alike; None where they simply belong together, or where it is not known."""
    negative: str | None = None
    """A text that does not belong to the first, though it may seem so."""


def pair_of(value: Any, place: str) -> PairExample:
    """From two texts, or {"text": ..., "pair": ...}."""
    if isinstance(value, Mapping) and value.keys() == {"text", "pair"}:
        value = (value["text"], value["pair"])
    if not (isinstance(value, tuple | list) and len(value) == 2 and all(isinstance(part, str) for part in value)):
        raise InputError(
            f"{place} is {shortened(value)}",
            "Pass two texts for their cosine; for the vector of one use load_encoder(folder).embed, or bertkit embed.",
        )
    if not all(part.strip() for part in value):
        raise InputError(f"{place} is empty", "Pass texts with something in them.")
    return PairExample(place, *value)


def read_pairs(path: str, reading: Reading, notes: list[str]) -> Iterator[PairExample]:
    given = dict(reading.names or {})
    if "label" in given and "score" not in given:
        given["score"] = given.pop("label")
    if unknown := [part for part in given if part not in PARTS]:
        raise UsageError(
            f"a column for the {unknown[0]} is named, and the task has none", f"It has {', '.join(PARTS)}."
        )
    table = read_table(path, reading, notes, KNOWN | {name for pair in BELONG_TOGETHER for name in pair})
    first = list(islice(table, LOOK_AT))
    wanted = {"text": True, "pair": True, **({"score": False, "negative": False} if reading.labelled else {})}
    if given.get("score") == NO_SCORE and NO_SCORE not in table.columns:
        del given["score"], wanted["score"]
    given = {**as_in_training(table, reading, given, wanted, notes), **given}
    columns = find_columns(table, first, wanted, given, notes, pairs=PAIRS + BELONG_TOGETHER)
    reading.on_columns(columns)
    for row in chain(first, table):
        score = _number(value_of(row, columns["score"]), columns["score"], row.place) if "score" in columns else None
        negative = text_of(row, columns["negative"]) if "negative" in columns else None
        yield PairExample(row.place, text_of(row, columns["text"]), text_of(row, columns["pair"]), score, negative)


def _number(value: Any, column: str, place: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise InputError(
            f"{place}: the score, {column!r}, is {shortened(value)}, not a number",
            "Remove the row or mend it. If all pairs belong together and there is no score: `score_column=none`.",
        )
    return number
