"""The plan of the house, held by tests: which room may know of which, and what outsiders may take from a room."""

from __future__ import annotations

import ast
import importlib
import re
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
    ("train", "infer", "words"),
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


LONGEST_FUNCTION, WIDEST_CLASS = 60, 15
"""Lines, and public methods."""
ONE_FAMILYS = {"next_words", "swapped", "replaced", "across_documents", "left_to_right", "is_decoder", "generator_size"}
"""Flags that only one family or objective sets: nobody else may ask for them."""
SAY_THEM = {
    ("nn/config.py", "is_decoder"),  # transformers' key, refused where it is met
    ("hub/huggingface.py", "is_decoder"),
}


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


def parsed() -> Iterator[tuple[str, ast.Module]]:
    for file in sorted(SOURCE.rglob("*.py")):
        yield file.relative_to(SOURCE).as_posix(), ast.parse(file.read_text("utf-8"))


def test_functions_are_short_and_classes_narrow():
    long, wide = [], []
    for name, tree in parsed():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and node.end_lineno - node.lineno >= LONGEST_FUNCTION:
                long.append(f"{name}:{node.lineno} {node.name}")
            if isinstance(node, ast.ClassDef):
                methods = [each for each in node.body if isinstance(each, ast.FunctionDef) and each.name[0] != "_"]
                if len(methods) > WIDEST_CLASS:
                    wide.append(f"{name}:{node.lineno} {node.name}")
    assert (long, wide) == ([], [])


def test_nobody_asks_for_what_one_family_has():
    asked = set()
    for name, tree in parsed():
        if name.split("/")[0] in ("families", "objectives"):
            continue
        for node in ast.walk(tree):
            word = node.attr if isinstance(node, ast.Attribute) else getattr(node, "value", None)
            if isinstance(node, ast.Attribute | ast.Constant) and word in ONE_FAMILYS:
                asked.add((name, word))
    assert asked <= SAY_THEM


def test_only_objectives_know_what_the_terms_of_a_loss_are_called():
    keys = [
        f"{name}:{node.lineno} {node.value}"
        for name, tree in parsed()
        if not name.startswith("objectives/")
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and node.value.endswith(("_loss", "_accuracy"))
    ]
    assert keys == []


WHOLE_COMMANDS = {
    ("hub/safetensors_files.py", "--read-pickle"),
    ("infer/runtime.py", "--int"),
    ("train/run.py", "--resume"),
    ("train/stepper.py", "--max-restarts"),
    ("report/fit_page.py", "--blue"),  # of CSS
    ("tables/reading.py", "--format"),  # declarations
    ("tables/reading.py", "--label"),
    ("words/schemas.py", "--format"),
}
"""Flags that stand in a command to be typed."""


def test_what_is_advised_names_settings_and_no_flags():
    """Whoever calls from Python has no flags: only the command line makes some of settings between backticks. A server
    has no other way to be told anything."""
    said = set()
    for name, tree in parsed():
        if name.startswith(("cli/", "serve/")) or name in ("settings.py", "train/schemas.py", "tasks/options.py"):
            continue
        doc = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in doc:
                flags = re.findall(r"(?:^|[ (])(--[a-z][a-z-]+)", node.value)
                said |= {(name, flag) for flag in flags if "bertkit " not in node.value}
    assert said <= WHOLE_COMMANDS
