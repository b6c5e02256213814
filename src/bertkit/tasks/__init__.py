"""What BERT is fine-tuned for: one file a task. Adding one here is adding a file and a line; another package registers
its own (plugins.py)."""

from __future__ import annotations

import importlib
from collections.abc import Collection, MutableMapping
from typing import TYPE_CHECKING, Any, TypeVar

from bertkit.errors import UsageError, nearest, shortened
from bertkit.plugins import Table, opener
from bertkit.rooms import public

if TYPE_CHECKING:
    from bertkit.tasks.task import Task

T = TypeVar("T", bound="type[Task[Any]]")
_tasks: dict[str, type[Task[Any]] | str] = {
    "classify": "Classify",
    "regress": "Regress",
    "tag": "Tag",
    "qa": "Qa",
    "choice": "MultipleChoice",
    "embed": "Embed",
    "generate": "Generate",
}
"""By their names; those of the package by the class in the file of that name, loaded on first use."""


def register(kind: T) -> T:
    """A task of another package is one like those of this: in Python, at the command line, in the server."""
    known = _tasks.setdefault(kind.name, kind)
    if known is not kind:
        raise UsageError(f"there is a task called {shortened(kind.name)} already", "Give yours another name.")
    return kind


TASKS: MutableMapping[str, type[Task[Any]] | str] = Table(_tasks, opener("bertkit.tasks", register))


def task_called(name: str) -> type[Task[Any]]:
    found = TASKS.get(name)
    if found is None:
        raise UsageError(
            f"no task is called {shortened(name)}", f"{nearest(name, TASKS)} There are: {', '.join(TASKS)}."
        )
    if isinstance(found, str):
        found = TASKS[name] = getattr(importlib.import_module(f"{__name__}.{name}"), found)
    return found


def is_task(name: str) -> bool:
    return name in TASKS


def all_tasks_but(names: Collection[str] = ()) -> list[type[Task[Any]]]:
    return [task_called(name) for name in TASKS if name not in names]


_shown, __getattr__ = public(
    __name__,
    {
        "choice": "MultipleChoice",
        "classify": "Classify",
        "embed": "Embed SCALE",
        "examples": "Answer ChoiceExample PairExample QaExample TagExample",
        "schemes": "Entity entities from_entities odd_tag recognise to_iob2 unbegun",
        "generate": "Generate PairToWrite",
        "text_scores": "corpus_scores",
        "texts": "LONG encode_texts fitted",
        "parts": "examples_in named",
        "qa": "Qa",
        "qa_scores": "agreement best_agreement best_threshold",
        "qa_spans": "best_spans",
        "regress": "Regress",
        "scores": "classification_scores multi_label_scores regression_scores row_cosines search search_scores"
        " similarity_scores span_scores word_scores",
        "tag": "Tag",
        "data": "Begun Encoded Features Given Head Measure Part TaskBatch Ties Unit",
        "findings": "Answers Findings Mistake measured only_one worst",
        "task": "Task batch_of facts_of finished task_from told",
        "word_windows": "framed_windows pieces_of_words windows_of_words",
    },
)
__all__ = [*_shown, "TASKS", "all_tasks_but", "is_task", "register", "task_called"]
