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
from contextlib import contextmanager
from pathlib import Path

SHORTEST = 80
"""Docstrings shorter than this say little beyond their function's name."""


PACKAGES = ("numpy", "torch")


def documentation(packages: Sequence[str] = PACKAGES) -> Iterator[tuple[str, str]]:
    """Documents, one a time, each with what it is about, python or a package: every topic of the reference, then for
    each source file its docstrings together."""
    for text in _reference():
        yield "python", text
    installed = Path(sysconfig.get_path("purelib"))
    roots = {"python": Path(sysconfig.get_path("stdlib")), **{package: installed / package for package in packages}}
    for origin, root in roots.items():
        for file in _sources(root):
            for text in _docstrings(file):
                yield origin, text


def _reference() -> Iterator[str]:
    from pydoc_data.topics import topics

    for _, text in sorted(topics.items()):
        yield text


def _sources(root: Path) -> Iterator[Path]:
    for folder, inner, names in os.walk(root):
        inner[:] = sorted(set(inner) - {"site-packages", "test", "tests", "idle_test", "lib2to3", "__pycache__"})
        yield from (Path(folder, name) for name in sorted(names) if name.endswith(".py"))


def _docstrings(file: Path) -> Iterator[str]:
    try:
        with _without_collecting():
            tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return
    if kept := [text for text in _inside(tree) if len(text) >= SHORTEST]:
        yield "\n\n".join(kept)


@contextmanager
def _without_collecting() -> Iterator[None]:
    """A syntax tree is many small objects and no garbage: looking for some takes longer than parsing."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _inside(node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    """A node's docstring and those below it. Only statements are descended into: expressions hold none."""
    yield ast.get_docstring(node) or ""
    for child in node.body:
        if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _inside(child)
