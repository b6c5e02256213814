"""Which column holds what: named by the user, known by its name, or guessed from the first rows and then said."""

from __future__ import annotations

import difflib
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from bertkit.errors import InputError, UsageError, nearest, shortened
from bertkit.tables.headers import SEVERAL_WORDS, looks_like_data
from bertkit.tables.ids import is_numbered
from bertkit.tables.reading import Reading
from bertkit.tables.rows import Row, Table

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
KNOWN = frozenset(name for names in USUAL.values() for name in names) | {name for pair in PAIRS for name in pair}
ALMOST = 0.85
"""How alike a misspelt name is to the right one."""
MISSPELT = 0.75
"""The same where it is known which name is missing."""


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
    require_columns(table, given.values())
    require_different(given)
    found = dict(given)
    guessed: dict[str, str] = {}
    if "pair" in wanted and not {"text", "pair"} & found.keys():
        guessed.update(_usual_pair(table.columns, pairs))
        if not guessed:
            _refuse_half_a_pair(table, pairs)
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
        raise InputError(
            f"{table.source.name}: no column is plainly the {lacking[0]}",
            f"Name it with `{lacking[0]}_column`. There are: {shown(table.columns)}.",
        )
    if guessed:
        notes.append(_told(table, guessed))
    columns = {**found, **guessed}
    other = _second_text(table, rows, columns) if "pair" in wanted and "pair" not in columns else None
    tell_unread(table, {*columns.values(), other}, notes)
    if other is not None:
        notes.append(f"{table.source.name}: {other!r} is not read; if it is a second text, name it with `pair_column`")
    return columns


def as_in_training(
    table: Table, reading: Reading, given: Mapping[str, str], wanted: Collection[str], notes: list[str]
) -> dict[str, str]:
    """The columns a model was trained with: those `wanted` that the table has and that are not `given` otherwise; two
    texts together or not at all. Numbers of columns say little of another table: they count only where it has all of
    them, and the answers too."""
    kept = reading.remembered or {}
    names = {part: columns_of(part, name, table.columns) for part, name in kept.items()}
    there = {part for part in names if part in wanted and set(names[part]) <= set(table.columns)} - given.keys()
    if not table.header and (there != kept.keys() or not reading.labelled):
        return {}
    for part in kept.keys() - there - given.keys():
        if table.header and part in wanted and not names[part][0].isdecimal():
            notes.extend(_told_missing(table, part, names[part], kept.values()))
    texts = kept.keys() & {"text", "pair"}
    if not texts <= there or "pair" in given:
        there -= texts
    found = {part: name for part, name in kept.items() if part in there}
    if found:
        notes.append(f"{table.source.name}: as in training, {_listed(found)}")
    return found


def _told_missing(table: Table, part: str, names: Sequence[str], trained_with: Collection[str]) -> Iterator[str]:
    """Of a column that the model was trained with and that is not there. One that is called almost so, and has no usual
    name, is likely meant, and another must not be read in its place."""
    missing = next(name for name in names if name not in table.columns)
    others = {
        name.strip().lower(): name
        for name in table.columns
        if name not in trained_with and name.strip().lower() not in USUAL.get(part, ())
    }
    if close := difflib.get_close_matches(missing.lower(), others, n=1, cutoff=MISSPELT):
        raise InputError(
            f"{table.source.name} has no column {missing!r}, which the model was trained with",
            f"Did you mean {others[close[0]]!r}? Then name it with `{part}{'' if part == 'endings' else '_column'}`.",
        )
    yield f"{table.source.name}: there is no {missing!r}, in which training had the {part}"


def columns_of(part: str, name: str, columns: Collection[str]) -> list[str]:
    """One, but for endings, and for a beginning of two columns."""
    return name.split(",") if part == "endings" or (part == "text" and name not in columns) else [name]


def tell_unread(table: Table, read: Collection[str | None], notes: list[str]) -> None:
    """No column is passed over without a word."""
    if left := [name for name in table.columns if name not in read]:
        notes.append(f"{table.source.name}: {shown(left)} {'is' if len(left) == 1 else 'are'} not read")


def require_different(given: Mapping[str, str]) -> None:
    """Refuse one column for two parts of an example."""
    parts: dict[str, str] = {}
    for part, names in given.items():
        for name in names.split(",") if part in ("endings", "text") else [names]:
            if name in parts:
                raise UsageError(
                    f"the column {name!r} is named for the {parts[name]} and for the {part}",
                    "Each needs a column of its own.",
                )
            parts[name] = part


def require_columns(table: Table, names: Iterable[str]) -> None:
    for name in names:
        if name not in table.columns:
            hint = nearest(name, table.columns)
            raise InputError(
                f"{table.source.name} has no column {name!r}",
                f"{hint + ' ' if hint else ''}There are: {shown(table.columns)}.",
            )


def require_parts(given: Iterable[str], parts: Collection[str]) -> None:
    """Refuse a name for what a task does not have."""
    for part in given:
        if part not in parts:
            *others, last = parts
            raise UsageError(
                f"a column for the {part} is named, and the task has none", f"It has {', '.join(others)} and {last}."
            )


def shown(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:12])) + (f" and {len(names) - 12:,} more" if len(names) > 12 else "")


def _told(table: Table, guessed: Mapping[str, str]) -> str:
    name, first = table.source.name, shortened(", ".join(table.first_line))
    if not table.header and len(table.columns) == 1:
        return f"{name}: the first line, {first}, is taken for a text; if it is the column's name, name the column"
    told = f"{name}{'' if table.header else ' has no header'}: taken for granted that {_listed(guessed)}"
    known, is_data = {cell.strip().lower() for cell in table.first_line} & KNOWN, looks_like_data(table.first_line)
    if table.header and table.first_line and (not known or (is_data and len(known) == 1)):
        told += (
            f"; the first line, {first}, is taken for the names of columns: if it is a row, name them with `columns`"
        )
    if not table.header and table.first_line and (known or not is_data):
        told += f"; the first line, {first}, is taken for a row: if it names the columns, name them by it"
    return told


def _listed(columns: Mapping[str, str]) -> str:
    return ", ".join(f"{part} is {column!r}" for part, column in columns.items())


def _refuse_half_a_pair(table: Table, pairs: Sequence[tuple[str, str]]) -> None:
    """Where one of two usual names is there and the other almost: else its text would be left out without a word."""
    lowered = {name.strip().lower(): name for name in reversed(table.columns)}
    for pair in pairs:
        for here, missing in (pair, pair[::-1]):
            others = [name for name in lowered if name not in KNOWN]
            close = difflib.get_close_matches(missing, others, n=1, cutoff=ALMOST)
            if here in lowered and missing not in lowered and close:
                raise InputError(
                    f"{table.source.name} has a column {lowered[here]!r} and no {missing!r}",
                    f"Did you mean {lowered[close[0]]!r}? Name both columns, or the text alone if there is no pair.",
                )


def _usual_pair(names: Sequence[str], pairs: Sequence[tuple[str, str]]) -> dict[str, str]:
    lowered = {name.strip().lower(): name for name in reversed(names)}
    both = next((pair for pair in pairs if pair[0] in lowered and pair[1] in lowered), None)
    return {} if both is None else {"text": lowered[both[0]], "pair": lowered[both[1]]}


def _by_name(part: str, names: Sequence[str]) -> str | None:
    lowered = {name.strip().lower(): name for name in reversed(names)}
    return next((lowered[usual] for usual in USUAL.get(part, ()) if usual in lowered), None)


def _by_content(missing: Sequence[str], table: Table, rows: Sequence[Row], taken: Mapping[str, str]) -> dict[str, str]:
    """The longest and most different texts are the text; what has the fewest different values, and one in every row, is
    the label: of equally few, numbers. The one column of numbers is the score. What leaves a choice is not guessed."""
    found: dict[str, str] = {}
    for part in missing:
        left = [name for name in table.columns if name not in (*taken.values(), *found.values())]
        if part in ("text", "pair"):
            weights = {name: _weight([row.values.get(name) for row in rows]) for name in left}
            heaviest = max(weights, key=weights.__getitem__, default=None)
            if heaviest is not None and weights[heaviest] > 0:
                found[part] = heaviest
        elif part in ("label", "score"):
            kinds = {name: {_as_cell(row.values.get(name)) for row in rows} for name in left}
            full = {name: values for name, values in kinds.items() if "" not in values and len(values) > 1}
            best = _scores(full, table, rows) if part == "score" else _labels(full, max(2, len(rows) // 5))
            if len(best) == 1:
                found[part] = best[0]
    if {"text", "pair"} <= found.keys():  # both only guessed: the first is the one that stands first
        found["text"], found["pair"] = sorted((found["text"], found["pair"]), key=table.columns.index)
    return found


def _labels(kinds: Mapping[str, set[str]], few: int) -> list[str]:
    ranks = {name: (len(its), not all(map(_is_number, its))) for name, its in kinds.items() if len(its) <= few}
    return [name for name, rank in ranks.items() if rank == min(ranks.values())]


def _scores(kinds: Mapping[str, set[str]], table: Table, rows: Sequence[Row]) -> list[str]:
    """Columns of numbers that do not just count the rows; which of several is meant nothing in them tells."""
    numbers = [name for name, values in kinds.items() if all(map(_is_number, values)) and not is_numbered(name)]
    found = [name for name in numbers if not _counts([row.values[name] for row in rows])] or numbers
    if len(found) > 1:
        raise InputError(
            f"{table.source.name}: {len(found)} columns have numbers, {shown(found)}, and none has a usual name for the"
            " score",
            "Name it with `score_column`.",
        )
    return found


def _counts(values: Sequence[Any]) -> bool:
    numbers = [float(value) for value in values]
    return all(after - before == 1 for before, after in pairwise(numbers))


def _second_text(table: Table, rows: Sequence[Row], columns: Mapping[str, str]) -> str | None:
    """A column that is not used and looks like text: words, and at least half as much that differs as the text has."""
    values = {name: [row.values.get(name) for row in rows] for name in table.columns}
    enough = _weight(values[columns["text"]]) / 2
    left = [name for name in table.columns if name not in columns.values()]
    weights = {
        name: _weight(values[name])
        for name in left
        if 2 * sum(SEVERAL_WORDS.search(str(value)) is not None for value in values[name]) > len(rows)
    }
    heaviest = max(weights, key=weights.__getitem__, default=None)
    return heaviest if heaviest is not None and weights[heaviest] >= enough > 0 else None


def _as_cell(value: Any) -> str:
    return "" if value is None else str(value).strip()


def _is_number(value: str) -> bool:
    try:
        return math.isfinite(float(value))
    except ValueError:
        return False


def _weight(values: Sequence[Any]) -> float:
    """How much text there is that is not there twice."""
    if not values or not all(isinstance(value, str) for value in values):
        return 0.0
    return sum(map(len, set(values))) / len(values)
