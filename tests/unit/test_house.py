"""The plan of the house, held by tests: which room may know of which, and what outsiders may take from a room."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

import bertkit

SOURCE = Path(bertkit.__file__).parent
TESTS = Path(__file__).parents[1]
FLOORS = (
    ("text", "corpus", "tables"),
    ("nn",),
    ("families", "objectives", "tasks"),
    ("hub",),
    ("train", "infer"),
    ("report", "serve"),
    ("cli",),
)
"""Each room knows those of lower floors; of its own floor, those that do not know it. What stands beside the rooms, as
files, is for all of them."""
FLOOR_OF = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}
KNOW_MORE: set[tuple[str, str]] = set()
"""What is still to be mended."""
INSIDES_IN_TESTS = {
    "bertkit.corpus.choosing",
    "bertkit.corpus.keyed",
    "bertkit.cli.compare",
    "bertkit.cli.info",
    "bertkit.cli.pretrain",
    "bertkit.cli.training_display",
    "bertkit.infer.explain",
    "bertkit.infer.export",
    "bertkit.infer.prediction_files",
    "bertkit.infer.scoring",
    "bertkit.report.fit_page",
    "bertkit.tables.split",
    "bertkit.tasks.qa_scores",
    "bertkit.text.train",
    "bertkit.text.sentences",
    "bertkit.train.comparing.plan",
    "bertkit.train.findings",
    "bertkit.train.finetune",
    "bertkit.train.fit",
    "bertkit.train.fit_job",
    "bertkit.train.learning_curve",
    "bertkit.train.pretrain",
    "bertkit.train.starting",
}
"""Files whose names tests still take from the inside: because what they have is called like the file, or because two
files of a room have the same name for two things. To be fewer."""


def imported(tree: ast.AST) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Modules and what is taken from them, but for what is there for type checkers alone."""
    if isinstance(tree, ast.If) and "TYPE_CHECKING" in ast.unparse(tree.test):
        return
    if isinstance(tree, ast.ImportFrom) and tree.module:
        yield tree.module, tuple(alias.name for alias in tree.names)
    elif isinstance(tree, ast.Import):
        yield from ((alias.name, ()) for alias in tree.names)
    for child in ast.iter_child_nodes(tree):
        yield from imported(child)


def rooms() -> list[str]:
    return sorted(path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists())


def known_to(room: str) -> set[str]:
    modules = {
        module for file in (SOURCE / room).rglob("*.py") for module, _ in imported(ast.parse(file.read_text("utf-8")))
    }
    return {module.split(".")[1] for module in modules if module.startswith("bertkit.")} & {*rooms()} - {room}


def test_every_room_has_its_floor():
    assert {*rooms()} <= FLOOR_OF.keys()


def test_rooms_know_only_those_below_them():
    arrows = {(room, other) for room in rooms() for other in known_to(room)}
    assert {(a, b) for a, b in arrows if FLOOR_OF[a] < FLOOR_OF[b]} == KNOW_MORE
    assert not {(a, b) for a, b in arrows if a < b and (b, a) in arrows} - KNOW_MORE - {(b, a) for a, b in KNOW_MORE}


@pytest.mark.parametrize("room", rooms())
def test_what_a_room_shows_is_there(room):
    opened = importlib.import_module(f"bertkit.{room}")
    for name in getattr(opened, "__all__", ()):
        assert getattr(opened, name) is not None
    with pytest.raises(AttributeError):
        opened.nothing_of_that_name  # noqa: B018


def test_tests_take_what_rooms_show():
    inside: set[str] = set()
    for file in TESTS.rglob("*.py"):
        for module, names in imported(ast.parse(file.read_text("utf-8"))):
            _, *parts = module.split(".")
            if not module.startswith("bertkit.") or parts[0] not in rooms():
                continue
            if len(parts) > 1:
                inside.add(module)
            elif parts != ["cli"]:
                shown = importlib.import_module(module).__all__
                files = {path.stem for path in (SOURCE / parts[0]).iterdir()}
                assert {*names} <= {*shown, *files}, f"{file.name} takes from {module} what it does not show"
    assert inside <= INSIDES_IN_TESTS, "take it from the room; what it lacks, add to its table"
