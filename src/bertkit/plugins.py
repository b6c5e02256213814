"""Tables of names to which other packages add theirs: by `register`, or by an entry point that names what to register.

    [project.entry-points."bertkit.tasks"]        # or bertkit.families, bertkit.objectives
    better = "my_package.better:Better"

Entry points are looked at when a name is not known, or all names are asked for.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, MutableMapping
from importlib.metadata import entry_points
from typing import Any, TypeVar

from bertkit.errors import Notice, shortened

T = TypeVar("T")


class BrokenPlugin(Notice):
    """What another package says that it adds cannot be loaded. All else goes on."""


class Table(MutableMapping[str, T]):
    def __init__(self, known: dict[str, T], open_others: Callable[[], None]) -> None:
        self.known, self._open_others = known, open_others
        """`known`: without looking at entry points."""

    def __getitem__(self, name: str) -> T:
        if name not in self.known:
            self._open_others()
        return self.known[name]

    def __setitem__(self, name: str, value: T) -> None:
        self.known[name] = value

    def __delitem__(self, name: str) -> None:
        del self.known[name]

    def __iter__(self) -> Iterator[str]:
        self._open_others()
        return iter(self.known)

    def __len__(self) -> int:
        self._open_others()
        return len(self.known)


def opener(group: str, register: Callable[[Any], object]) -> Callable[[], None]:
    """A function that registers what the entry points of a group name, when it is called for the first time."""
    opened = False

    def open_others() -> None:
        nonlocal opened
        if opened:
            return
        opened = True
        for each in entry_points(group=group):
            try:
                register(each.load())
            except Exception as error:
                why = shortened(f"{type(error).__name__}: {error}")
                told = f"{each.name} of {each.dist.name if each.dist else group}, which is {each.value}"
                warnings.warn(f"{told}, cannot be loaded: {why}", BrokenPlugin, stacklevel=2)

    return open_others
