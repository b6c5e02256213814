"""Real text that every machine with Python already has: the documentation inside its own environment.

The language reference that comes with pydoc, and the docstrings of the standard library and of installed packages,
read from their sources without importing them. The demo learns from it.
"""

from __future__ import annotations

import ast
import gc
import os
import sysconfig
from collections.abc import Iterator, Sequence
from pathlib import Path

SHORTEST = 80
"""Docstrings shorter than this say little beyond their function's name."""
PACKAGES = ("numpy", "torch")
LEFT_OUT = {"site-packages", "test", "tests", "idle_test", "lib2to3", "__pycache__"}


def documentation(packages: Sequence[str] = PACKAGES) -> Iterator[tuple[str, str]]:
    """Documents, one a time, each with what it is about, python or a package: every topic of the reference, then for
    each source file its docstrings together."""
    from pydoc_data.topics import topics

    for _, text in sorted(topics.items()):
        yield "python", text
    installed = Path(sysconfig.get_path("purelib"))
    roots = {"python": Path(sysconfig.get_path("stdlib")), **{package: installed / package for package in packages}}
    for origin, root in roots.items():
        for folder, inner, names in os.walk(root):
            inner[:] = sorted(set(inner) - LEFT_OUT)
            for name in sorted(names):
                if name.endswith(".py") and (text := _docstrings(Path(folder, name))):
                    yield origin, text


def _docstrings(file: Path) -> str:
    collects = gc.isenabled()
    gc.disable()  # a syntax tree is many small objects and no garbage: looking for some takes longer than parsing
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return ""
    finally:
        if collects:
            gc.enable()
    return "\n\n".join(text for text in _inside(tree) if len(text) >= SHORTEST)


def _inside(node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    """A node's docstring and those below it. Only statements are descended into: expressions hold none."""
    yield ast.get_docstring(node) or ""
    for child in node.body:
        if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _inside(child)
