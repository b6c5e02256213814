"""One schema for each command: a frozen dataclass whose fields say what they are. Of it are made the flags and the help
(cli/declare.py), the keywords in Python, the checks, strict JSON, the tables in the docs, and what `compare` is told of
a model after colons.

@dataclass(frozen=True, kw_only=True)
class Pretraining(Settings):
    learning_rate: float | None = option(None, "the highest", above=0, usual="the recipe's", group="optimizer")

bertkit.pretrain(learning_rate=1e-3), `bertkit pretrain --learning-rate 1e-3` and bert-mini:learning-rate=1e-3 are one.
A message that names a setting has it between backticks, as in "Give a lower `learning_rate`."; cli/ makes a flag of it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, ClassVar, Self, TypeVar, get_args, get_origin, get_type_hints

from bertkit.errors import BertkitError, ConfigError, UsageError, nearest, shortened

Record = TypeVar("Record")
LARGEST = 1e18
"""A whole number larger than that fits no counter."""
KINDS = {bool: "true or false", int: "a whole number", float: "a number", str: "text", tuple: "a list", Path: "a path"}


@dataclass(frozen=True, kw_only=True)
class Option:
    """What a field says of itself, beside its type and its usual value."""

    help: str
    flags: str = ""
    """Others than --its-name: "-o" beside it, "--from" in place of it."""
    off: str = ""
    """What turns it off, if not --no-its-name."""
    old: str = ""
    """Flags of the version before, which still work and are not shown."""
    argument: bool = False
    """On the command line it has no flag, but a place."""
    metavar: str = ""
    choices: Collection[str] | Callable[[], Collection[str]] = ()
    above: float | None = None
    least: float | None = None
    most: float | None = None
    warn_above: float | None = None
    usual: str = ""
    """What it is if nothing is said, where that depends."""
    group: str = ""
    """Under which heading the help has it."""

    @property
    def allowed(self) -> Collection[str]:
        return self.choices() if callable(self.choices) else self.choices

    @property
    def bounds(self) -> str:
        """
        >>> Option(help="", least=0, most=0.9).bounds
        'from 0 to 0.9'
        """
        if self.least is not None and self.most is not None:
            return f"from {self.least:g} to {self.most:g}"
        each = (("above", self.above), ("at least", self.least), ("at most", self.most))
        return " and ".join(f"{word} {bound:,g}" for word, bound in each if bound is not None)

    def check(self, name: str, value: Any) -> None:
        """Refuse what cannot be, each in the same words."""
        for each in value if isinstance(value, tuple) else (value,):
            if isinstance(each, str) and self.allowed and each not in self.allowed:
                *others, last = self.allowed
                known = f"{', '.join(others)} or {last}" if others else last
                raise UsageError(f"`{name}` is {shortened(each)}", f"{nearest(each, self.allowed)} It can be {known}.")
            if isinstance(each, int | float) and not self._within(each):
                raise UsageError(f"`{name}` is {each}", f"It must be {wanted(type(each), self)}.")

    def _within(self, value: float) -> bool:
        return (
            (self.above is None or value > self.above)
            and (self.least is None or value >= self.least)
            and (self.most is None or value <= self.most)
        )


def option(default: Any, help: str, **about: Any) -> Any:  # noqa: A002 - as argparse and typer call it
    """A field of a schema. Without a usual value (`...`) it must be given."""
    usual = {} if default is ... else {"default": default}
    return field(**usual, metadata={"option": Option(help=help, **about)})


def argument(default: Any, help: str, **about: Any) -> Any:  # noqa: A002
    """A field that on the command line has a place in place of a flag."""
    return option(default, help, argument=True, **about)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a command is told. Lists become tuples and names of files paths; what cannot be is refused where it is
    made, with the name of the setting."""

    def __post_init__(self) -> None:
        for name, about in options_of(type(self)).items():
            value = _read(getattr(self, name), kinds_of(type(self))[name], f"`{name}`", UsageError, about)
            object.__setattr__(self, name, value)
            about.check(name, value)

    @classmethod
    def of(cls, **said: Any) -> Self:
        """As a function of Python is called; a name that there is not is refused with the nearest."""
        known = options_of(cls)
        for name, about in known.items():
            if name not in said and _must_be_given(cls, name):
                raise UsageError(f"`{name}` is missing", f"It is: {about.help}")
        common = {name: value for name, value in said.items() if name in known}
        more = {name: value for name, value in said.items() if name not in known}
        asked, variants = cls(**common), cls.variants()
        chosen = cls.variant_of(said)
        if chosen is None:  # it is not known yet; then what is said tells
            fits = (name for name, its in variants.items() if more and more.keys() <= options_of(its).keys())
            chosen = next(fits, "")
        own = variants.get(chosen)
        for name in more:
            if own is None or name not in options_of(own):
                if owners := [variant for variant, its in variants.items() if name in options_of(its)]:
                    raise UsageError(f"`{name}` with {cls.noun} {chosen}", f"It is for {' and '.join(owners)}.")
                there = [*known, *(options_of(own) if own else ())]
                hint = nearest(name, there) or f"There are: {', '.join(there)}."
                raise UsageError(f"no setting is called {shortened(name)}", hint)
        if own is not None:
            object.__setattr__(asked, "own", own(**more))
        return asked

    noun: ClassVar[str] = ""
    """What some options are of one only, as "the task"; these are in a schema of their own, and in the field `own`."""

    @classmethod
    def variants(cls) -> Mapping[str, type[Settings]]:
        """The options that one task or family has alone, by its name."""
        return {}

    @classmethod
    def variant_of(cls, said: Mapping[str, Any]) -> str | None:  # noqa: ARG003
        """Which of them it is, if that can be told yet."""
        return ""

    def unusual(self) -> Iterator[str]:
        """What is allowed, and seldom meant."""
        for name, about in options_of(type(self)).items():
            value = getattr(self, name)
            if about.warn_above is not None and value is not None and value > about.warn_above:
                yield f"`{name}` is {value:g}, and more than {about.warn_above:g} is seldom meant"


def options_of(cls: type) -> dict[str, Option]:
    """The options of a schema by the names of their fields."""
    return {each.name: each.metadata["option"] for each in fields(cls) if "option" in each.metadata}


def kinds_of(cls: type) -> dict[str, Any]:
    return get_type_hints(cls)


def defaults_of(cls: type) -> dict[str, Any]:
    """Of the fields that need not be given."""
    return {each.name: each.default for each in fields(cls) if each.default is not MISSING}


def _must_be_given(cls: Any, name: str) -> bool:
    its = next(each for each in fields(cls) if each.name == name)
    return its.default is MISSING and its.default_factory is MISSING


def plain_kind(kind: Any) -> Any:
    """Without None, and of a tuple what is in it: (int | None) is int, tuple[str, ...] is str."""
    if isinstance(kind, UnionType):
        kind = next(each for each in get_args(kind) if each is not NoneType)
    return get_args(kind)[0] if get_origin(kind) is tuple else kind


def is_list(kind: Any) -> bool:
    return any(get_origin(each) is tuple for each in (kind, *get_args(kind)))


def from_text(cls: type, name: str, text: str) -> Any:
    """The value that a flag, or a contestant after its colon, has for a field."""
    kind = plain_kind(kinds_of(cls)[name])
    try:
        return kind(text)
    except ValueError:
        about = options_of(cls)[name]
        raise UsageError(f"`{name}` is {shortened(text)}", f"It must be {wanted(kind, about)}.") from None


def wanted(kind: type, about: Option | None) -> str:
    """
    >>> wanted(int, Option(help="", least=1)), wanted(float, Option(help="", above=0))
    ('a whole number of at least 1', 'a number above 0')
    """
    bounds = about.bounds if about else ""
    return f"{KINDS.get(kind, kind.__name__)} {'of ' * bounds.startswith('at')}{bounds}".rstrip()


def spellings(cls: type[Settings]) -> dict[str, tuple[type[Settings], str, bool | None]]:
    """What may be said without a value, or with one, by its name: {"no-nsp": (cls, "nsp", False), "mask": (cls, "mask",
    None)}."""
    found: dict[str, tuple[type[Settings], str, bool | None]] = {}
    for its in (cls, *cls.variants().values()):
        for name, about in options_of(its).items():
            flag = flag_of(name, about).removeprefix("--")
            if plain_kind(kinds_of(its)[name]) is bool:
                found[flag] = its, name, True
                if off := off_flag_of(its, name):
                    found[off.removeprefix("--")] = its, name, False
            else:
                found[flag] = its, name, None
    return found


def flag_of(name: str, about: Option) -> str:
    """
    >>> flag_of("start", Option(help="", flags="--from")), flag_of("vocab_size", Option(help=""))
    ('--from', '--vocab-size')
    """
    long = [flag for flag in about.flags.split() if flag.startswith("--")]
    return long[0] if long else "--" + name.replace("_", "-")


def off_flag_of(cls: type, name: str) -> str:
    """What turns a setting off that is on, or may be; nothing for one that is off unless it is turned on."""
    about = options_of(cls)[name]
    if about.off or defaults_of(cls).get(name) is not False:
        return about.off or f"--no-{flag_of(name, about).removeprefix('--')}"
    return ""


def require_fields(cls: Any, values: Mapping[str, Any], what: str) -> None:
    """Refuse JSON that does not spell out the dataclass: an unknown key is an error that names the nearest."""
    known = [each.name for each in fields(cls)]
    for key in values:
        if key not in known:
            raise ConfigError(
                f"unknown key {shortened(key)} in {what}", nearest(key, known) or f"There are: {', '.join(known)}."
            )
    if lacking := [name for name in known if name not in values and _must_be_given(cls, name)]:
        raise ConfigError(f"{what} lacks {', '.join(lacking)}", "Bring the file as it was written.")


def read_record(cls: type[Record], values: object, what: str) -> Record:
    """The dataclass that `values` spell out; lists become the tuples that its fields are. What a damaged or edited file
    holds is refused here, with its name and value, and never met later by a computation."""
    if not isinstance(values, Mapping):
        raise ConfigError(f"{what} is {shortened(values)}", "It must be an object with named values.")
    require_fields(cls, values, what)
    kinds = kinds_of(cls)
    return cls(**{name: _read(value, kinds[name], f"{name} of {what}") for name, value in values.items()})


def _read(
    value: Any, kind: Any, place: str, error: type[BertkitError] = ConfigError, about: Option | None = None
) -> Any:
    arguments = get_args(kind)
    if isinstance(kind, UnionType):
        if value is None and NoneType in arguments:
            return None
        return _read(value, next(each for each in arguments if each is not NoneType), place, error, about)
    if get_origin(kind) is tuple:
        if about is not None and isinstance(value, str | Path):  # one is said without brackets
            value = (value,)
        if isinstance(value, list | tuple):
            each = [arguments[0]] * len(value) if arguments[-1] is Ellipsis else list(arguments)
            if len(each) == len(value):
                return tuple(
                    _read(one, its, f"number {number} of {place}", error, about)
                    for number, (one, its) in enumerate(zip(value, each, strict=True), 1)
                )
        kind = tuple
    elif get_origin(kind) is not None:  # a mapping is what it is
        return value
    elif kind is Path and isinstance(value, str | Path):
        return Path(value)
    elif kind is str and isinstance(value, Path) and about is not None:
        return str(value)
    elif kind is float and isinstance(value, int | float) and not isinstance(value, bool):
        if _fits(value, about):
            return float(value)
    elif isinstance(value, kind) and isinstance(value, bool) == (kind is bool) and _fits(value, about):
        return value
    raise error(f"{place} is {shortened(value)}", f"It must be {wanted(kind, about)}.")


def _fits(value: Any, about: Option | None) -> bool:
    """Whether it is no number, or one to count and compute with: not NaN, nor endless."""
    return not isinstance(value, int | float) or (math.isfinite(value) if about else -LARGEST <= value <= LARGEST)


def size_in_bytes(name: str, text: str, *, base: int) -> int:
    """
    >>> size_in_bytes("memory", "4G", base=1024) == 4 * 2**30
    True
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMG]?)B?", text.strip(), re.IGNORECASE)
    if found is None or not (size := int(float(found[1]) * base ** " KMG".index(found[2].upper() or " "))):
        raise UsageError(f"`{name}` is {text!r}", "Write a number of bytes, or as 500MB, 500M or 4G.")
    return size
