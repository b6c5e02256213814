"""What a room shows of itself, loaded on first use: `from bertkit.text import Tokenizer` opens one file and not all.

Where in a room something lies may change; what it shows does not, and that is what tests and other packages use.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any


def public(room: str, homes: Mapping[str, str]) -> tuple[list[str], Callable[[str], Any]]:
    """`__all__` and `__getattr__` of a room, from its modules and the names that each of them shows."""
    home = {name: module for module, names in homes.items() for name in names.split()}

    def find(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"module {room!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{room}.{home[name]}"), name)

    return sorted(home), find
