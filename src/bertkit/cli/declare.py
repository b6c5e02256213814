"""From a schema to a command. Nothing else makes flags, or knows how a setting is spelled on the command line."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Annotated, Any, get_type_hints

import typer
from typer.core import TyperCommand
from typer.main import get_command

from bertkit.settings import (
    Option,
    Settings,
    defaults_of,
    flag_of,
    from_text,
    is_list,
    kinds_of,
    off_flag_of,
    options_of,
    plain_kind,
)

GENERAL, MACHINE = "Options", "the machine"
PLAIN = ("at least 0", "at least 1")
"""Bounds that nobody needs to be told."""
_schemas: list[type[Settings]] = []
"""All that have become commands."""
_here: list[type] = []
"""Those of the command that runs."""


def command_of(function: Callable[..., None], guard: Callable[..., Any]) -> Any:
    """The command of a function of one schema, as typer takes it: its class, and a function to name it by."""
    schema = get_type_hints(function)["asked"]
    _schemas.append(schema)

    class Command(_Grouped):
        """Old spellings become new ones, and of options that one task or family has alone, those are shown of the one
        that is named."""

        def make_context(self, info_name: str | None, args: list[str], *more: Any, **others: Any) -> Any:
            args = list(_as_of_now(schema, args))
            variants = schema.variants()
            shown = (variants and schema.variant_of(_glimpse(schema, args))) or ""
            app = typer.Typer(add_completion=False, rich_markup_mode=None)
            epilog = f"There are more options for {schema.noun}: {', '.join(variants)}. Name it before --help."
            app.command(info_name, cls=_Grouped, epilog=epilog if variants and not shown else None)(
                _function(function, guard, schema, shown)
            )
            return get_command(app).make_context(info_name, args, *more, **others)

    def named() -> None:
        """What it takes is known when it is called: others may add to it."""

    named.__doc__ = function.__doc__
    return Command, named


def _glimpse(schema: type[Settings], args: Sequence[str]) -> dict[str, str]:
    """What is said, before it is read: enough to know what it is about."""
    said: dict[str, str] = {}
    for name, about in options_of(schema).items():
        if about.argument:
            named = [each for each in args if each in schema.variants()]
        else:
            flag = flag_of(name, about)
            named = [after for each, after in pairwise(args) if each == flag]
            named += [each.partition("=")[2] for each in args if each.startswith(f"{flag}=")]
        if named:
            said[name] = named[0]
    return said


class _Grouped(TyperCommand):
    """Its help has options under headings."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        groups: dict[str, list[tuple[str, str]]] = {"Arguments": [], GENERAL: []}
        last = MACHINE.capitalize()
        for parameter in self.get_params(ctx):
            if record := parameter.get_help_record(ctx):
                is_argument = parameter.param_type_name == "argument"
                heading = "Arguments" if is_argument else getattr(parameter, "rich_help_panel", None) or GENERAL
                groups.setdefault(heading, []).append(record)
        for heading, records in sorted(groups.items(), key=lambda each: each[0] == last):
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)


def _function(
    run: Callable[..., None], guard: Callable[..., Any], schema: type[Settings], shown: str = ""
) -> Callable[..., None]:
    """What typer reads a command from: a parameter for each option, and a call that makes the schema of them."""
    homes = {
        name: (variant, its)
        for variant, its in [*sorted(schema.variants().items(), key=lambda each: each[0] == shown), ("", schema)]
        for name in options_of(its)
    }

    def call(context: typer.Context, **values: Any) -> None:
        said = [name for name in values if getattr(context.get_parameter_source(name), "name", "") == "COMMANDLINE"]

        def made() -> None:
            asked = schema.of(**{name: _value(homes[name][1], name, values[name]) for name in said})
            run(asked, said=frozenset(said)) if "said" in inspect.signature(run).parameters else run(asked)

        _here[:] = [schema, *dict.fromkeys(homes[name][1] for name in said)]
        try:
            guard(run, made)
        finally:
            _here.clear()

    parameters = [inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)]
    order = [*options_of(schema), *(name for name in homes if name not in options_of(schema))]
    for name in order:
        variant, its = homes[name]
        parameters.append(_parameter(its, name, options_of(its)[name], hidden=variant not in ("", shown)))
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {each.name: each.annotation for each in parameters}
    call.__doc__ = run.__doc__
    return call


def _value(cls: type[Settings], name: str, said: Any) -> Any:
    """What the command line has as text, or texts."""
    if isinstance(said, list | tuple):
        return tuple(from_text(cls, name, each) for each in said)
    return from_text(cls, name, said) if isinstance(said, str) else said


def _parameter(cls: Any, name: str, about: Option, *, hidden: bool) -> inspect.Parameter:
    kind = kinds_of(cls)[name]
    plain = plain_kind(kind)
    default = defaults_of(cls).get(name, ...)
    needed = default is ...
    shown: dict[str, Any] = {"help": as_flags(help_of(about, default)), "show_default": False}
    if about.argument:
        said: Any = typer.Argument(metavar=about.metavar or name.upper(), **shown)
    else:
        flags = flags_of(cls, name)
        if plain is bool:
            flags = ["/".join(flags)]
        else:
            shown["metavar"] = about.metavar or {int: "N", float: "X", str: "TEXT"}.get(plain, "PATH")
        said = typer.Option(*flags, **shown, hidden=hidden, rich_help_panel=about.group.capitalize() or None)
    value: Any = bool | None if plain is bool else list[str] if is_list(kind) else str
    if needed:
        return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=Annotated[value, said])
    if plain is bool and default is False:
        value = bool
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=False if value is bool else None,
        annotation=Annotated[value if value is bool else value | None, said],
    )


def flags_of(cls: type[Settings], name: str) -> list[str]:
    """All that a setting may be said by; the last, of one that is on or off, turns it off."""
    about = options_of(cls)[name]
    flag = flag_of(name, about)
    if plain_kind(kinds_of(cls)[name]) is bool:
        return [each for each in (flag, off_flag_of(cls, name)) if each]
    return [flag, *(each for each in about.flags.split() if each != flag)]


def help_of(about: Option, default: Any) -> str:
    """With what it is unless it is said, and what it can be."""
    usual = about.usual
    if not usual and default not in (..., None, False, "", "-", ()):
        usual = "yes" if default is True else f"{default:,}" if isinstance(default, int) else str(default)
    notes = "; ".join(filter(None, (usual, "" if about.bounds in PLAIN else about.bounds)))
    return f"{about.help} [{notes}]" if notes else about.help


def _as_of_now(schema: type[Settings], args: Sequence[str]) -> Iterator[str]:
    """What was said, with flags of the version before as they are spelled now."""
    now = {
        old: flag_of(name, about)
        for its in (schema, *schema.variants().values())
        for name, about in options_of(its).items()
        for old in about.old.split()
    }
    rest = iter(args)
    for each in rest:
        flag, equals, value = each.partition("=")
        yield f"{now[flag]}{equals}{value}" if flag in now else each
        if each == "--":
            yield from rest


def said_here(message: str) -> str:
    """As flags where a command runs; with the names of settings where Python calls."""
    return as_flags(message) if _here else message


_SETTING = re.compile(r"`([a-z][a-z0-9_]*)(?:=([^`]*))?`")


def as_flags(message: str) -> str:
    """A message with its settings as the command line spells them.

    "Give a lower `learning_rate`." is "Give a lower --learning-rate.", and "Add `nsp=False`." is "Add --no-nsp.".
    """
    return _SETTING.sub(_as_flag, message)


def _as_flag(found: re.Match[str]) -> str:
    name, value = found.groups()
    variants = (its for schema in _schemas for its in schema.variants().values())
    for schema in (*_here, *_schemas, *variants):
        if about := options_of(schema).get(name):
            if about.argument:
                return about.metavar or name.upper()
            if value in ("True", "False") and plain_kind(kinds_of(schema)[name]) is bool:
                return flag_of(name, about) if value == "True" else off_flag_of(schema, name)
            return flag_of(name, about) + ("" if value is None else f" {value}")
    return found[0]
