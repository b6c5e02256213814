"""Which column holds what: named by the user, as in training, or by a short list of names. Nothing is known by what is
in a column; what is not found is asked for, all in one message, and no column is passed over without a word."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from bertkit.errors import UsageError, nearest
from bertkit.tables.bad_rows import BadRows
from bertkit.tables.table import Table

IDS = ("id", "guid", "uid", "uuid", "idx", "qid", "question_id", "query_id", "pair_id", "example_id")
"""What a column of ids is called, whatever the case; the first that is there counts."""
NOTHING = "none"
"""Said of a column that is not needed, and shall not be read."""


class Wanted(Protocol):
    """A part of an example, as tasks have it."""

    @property
    def name(self) -> str: ...
    @property
    def column(self) -> str: ...
    @property
    def synonyms(self) -> tuple[str, ...]: ...
    @property
    def needed(self) -> bool: ...
    @property
    def among(self) -> Callable[[Sequence[str]], list[str]] | None: ...
    @property
    def pairs(self) -> tuple[tuple[str, str], ...]: ...


def find_columns(
    table: Table, parts: Sequence[Wanted], all_parts: Iterable[Wanted], bad: BadRows, notes: list[str]
) -> dict[str, list[str]]:
    """For each part its column, or columns; `all_parts` are those that a user may name."""
    reading, columns = table.reading, table.columns
    given = {} if table.kind == "conll" else _given(reading.names or {}, list(all_parts))
    found: dict[str, list[str]] = {}
    for part in parts:
        key = key_of(part)
        if key not in given or (not part.needed and given[key] == NOTHING and NOTHING not in columns):
            continue
        found[part.name] = _listed(part, given[key], columns)
        if missing := next((name for name in found[part.name] if name not in columns), None):
            another = f"Name another with {_option(part)}. {nearest(missing, columns)}".strip()
            bad.ask(f"there is no column {missing!r}", another, f"There are: {shown(columns)}.")
    _require_different(parts, found)
    known = _as_in_training(table, parts, given, notes)
    guessed = {} if known else _usual_pair(parts, given, columns)
    lowered = {name.strip().lower(): name for name in reversed(columns)}
    has_header = table.kind in ("csv", "tsv", "xlsx") and not reading.columns
    bare = " If the first line is a row, name the columns with `columns`." if has_header else ""
    for part in parts:
        key = key_of(part)
        if part.name in found or part.name in known or part.name in guessed or given.get(key) == NOTHING:
            continue
        taken = {name for names in (*found.values(), *known.values(), *guessed.values()) for name in names}
        usual = (lowered[name] for name in (part.name.lower(), *part.synonyms) if name in lowered)
        its = (part.among(columns) if part.among else []) or [name for name in usual if name not in taken][:1]
        if part.name == "pair" and "text" in known:
            continue  # no pair was learned
        if its:
            guessed[part.name] = its
        elif part.needed:
            hint = next((hint for name in (part.name, *part.synonyms) if (hint := nearest(name, columns))), "")
            bad.ask(
                f"no column is plainly the {part.name}",
                f"Name it with {_option(part)}. {hint}".strip(),
                f"There are: {shown(columns)}.{bare}",
            )
    if known:
        notes.append(f"{table.name}: as in training, {_told(known)}")
    if odd := {name: its for name, its in guessed.items() if [each.lower() for each in its] != [name]}:
        notes.append(f"{table.name}: {_told(odd)}")
    found = {name: its for name, its in {**found, **known, **guessed}.items() if set(its) <= set(columns)}
    if left := [name for name in columns if not any(name in its for its in found.values())]:
        notes.append(f"{table.name}: {shown(left)} {'is' if len(left) == 1 else 'are'} not read")
    named = {key_of(part): ",".join(found[part.name]) for part in parts if part.name in found}
    reading.on_columns(dict(reading.names or {}) if table.kind == "conll" else named)
    return found


def key_of(part: Wanted) -> str:
    """What its column is called where it is named."""
    return part.column or part.name


def id_column(columns: Sequence[str]) -> str | None:
    lowered = {name.strip().lower(): name for name in reversed(columns)}
    return next((lowered[name] for name in IDS if name in lowered), None)


def shown(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:12])) + (f" and {len(names) - 12:,} more" if len(names) > 12 else "")


def _option(part: Wanted) -> str:
    key = key_of(part)
    return f"`{key}=`a,b" if key == "endings" else f"`{key}_column`"


def _given(names: Mapping[str, str], parts: Sequence[Wanted]) -> dict[str, str]:
    """By the parts that there are. A number may be said to be the label."""
    keys = [key_of(part) for part in parts]
    by_part = {part.name: key_of(part) for part in parts if part.name not in keys}
    given = {by_part.get(name, name): column for name, column in names.items()}
    if "label" in given and "label" not in keys and "score" in keys:
        given.setdefault("score", given.pop("label"))
    for key in given:
        if key not in keys:
            *others, last = dict.fromkeys(keys)
            there = f"It has {', '.join(others)} and {last}."
            raise UsageError(f"a column for the {key} is named, and the task has none", there)
    return given


def _listed(part: Wanted, name: str, columns: Sequence[str]) -> list[str]:
    return name.split(",") if part.among is not None and name not in columns else [name]


def _require_different(parts: Sequence[Wanted], found: Mapping[str, Sequence[str]]) -> None:
    """Refuse one column for two parts of an example."""
    owners: dict[str, str] = {}
    for part in parts:
        for name in found.get(part.name, ()):
            if name in owners:
                raise UsageError(
                    f"the column {name!r} is named for the {owners[name]} and for the {part.name}",
                    "Each needs a column of its own.",
                )
            owners[name] = part.name


def _as_in_training(
    table: Table, parts: Sequence[Wanted], given: Mapping[str, str], notes: list[str]
) -> dict[str, list[str]]:
    """The columns a model was trained with, those that the table has and that are not named otherwise; of two texts
    both or none."""
    kept = {} if table.kind == "conll" else table.reading.remembered or {}
    called = {part: kept.get(key_of(part)) or kept.get(part.name) for part in parts}  # folders had the part's own name
    names = {part.name: _listed(part, name, table.columns) for part, name in called.items() if name}
    there = {name: its for name, its in names.items() if set(its) <= set(table.columns)}
    for part in parts:
        if part.needed and part.name in names and part.name not in there and key_of(part) not in given:
            missing = next(name for name in names[part.name] if name not in table.columns)
            if not missing.isdecimal():
                notes.append(f"{table.name}: there is no {missing!r}, in which training had the {part.name}")
    if {"text", "pair"} <= names.keys() and ("pair" in given or not {"text", "pair"} <= there.keys()):
        there = {name: its for name, its in there.items() if name not in ("text", "pair")}
    return {part.name: there[part.name] for part in parts if part.name in there and key_of(part) not in given}


def _usual_pair(parts: Sequence[Wanted], given: Mapping[str, str], columns: Sequence[str]) -> dict[str, list[str]]:
    """The two texts of a pair, by names that are usual for both together."""
    lowered = {name.strip().lower(): name for name in reversed(columns)}
    for part in parts:
        if part.pairs and not {"text", "pair"} & given.keys():
            both = next((pair for pair in part.pairs if pair[0] in lowered and pair[1] in lowered), None)
            return {} if both is None else {"text": [lowered[both[0]]], "pair": [lowered[both[1]]]}
    return {}


def _told(found: Mapping[str, Sequence[str]]) -> str:
    return ", ".join(f"{part} is {' and '.join(map(repr, names))}" for part, names in found.items())
