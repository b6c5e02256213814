"""Settings after colons, as a comparison is told them: those of a model, bert-mini:no-nsp:mask=word, and of a task."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from bertkit.errors import UsageError, nearest, shortened
from bertkit.settings import Option, Settings, from_text, options_of, spellings

Where = tuple[type[Settings], str, bool | None]


def known(schema: type[Settings], wanted: Callable[[Option], bool]) -> dict[str, Where]:
    """What may be said of a schema; a column is said without that word."""
    where = spellings(schema)
    return {said.removesuffix("-column"): where[said] for said in where if wanted(_about(where[said]))}


def said_in(parts: Iterable[str], known: Mapping[str, Where], place: str) -> dict[str, str]:
    """What is said, by its name; of what is on or off the value is empty. What cannot be is refused with its place."""
    found: dict[str, str] = {}
    for part in parts:
        name, equals, value = part.partition("=")
        if name not in known:
            hint = f"{nearest(name, known)} There are: {', '.join(known)}; parted by colons."
            raise UsageError(f"{place}: {shortened(name)} cannot be said here", hint)
        if name in found:
            raise UsageError(f"{place}: {name} is there twice", "Say it once.")
        is_switch = known[name][2] is not None
        if bool(equals) == is_switch or (equals and not value):
            raise UsageError(f"{place}: {shortened(part)}", f"It is said as {name if is_switch else f'{name}=VALUE'}.")
        found[name] = value
        try:
            _about(known[name]).check(known[name][1], _value(known[name], value))
        except UsageError as problem:
            raise UsageError(f"{place}: {problem.problem}", problem.remedy) from None
    return found


def settings_said(said: Mapping[str, str], known: Mapping[str, Where]) -> dict[str, Any]:
    """The same as Python says it."""
    return {known[name][1]: _value(known[name], text) for name, text in said.items()}


def _about(where: Where) -> Option:
    return options_of(where[0])[where[1]]


def _value(where: Where, text: str) -> Any:
    schema, name, switched = where
    return from_text(schema, name, text) if switched is None else switched
