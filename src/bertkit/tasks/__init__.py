"""What BERT is fine-tuned for: one file a task. Adding a task is adding a file and a line here."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from bertkit.errors import UsageError, nearest, shortened

if TYPE_CHECKING:
    from bertkit.tasks.task import Task

HOMES = {
    "classify": "bertkit.tasks.classify:Classify",
    "regress": "bertkit.tasks.regress:Regress",
    "tag": "bertkit.tasks.tag:Tag",
    "qa": "bertkit.tasks.qa:Qa",
    "choice": "bertkit.tasks.choice:MultipleChoice",
    "embed": "bertkit.tasks.embed:Embed",
}


def task_called(name: str) -> type[Task[Any]]:
    if name not in HOMES:
        hint = nearest(name, HOMES)
        raise UsageError(f"no task is called {shortened(name)}", f"{hint} There are: {', '.join(HOMES)}.")
    module, _, class_name = HOMES[name].partition(":")
    found: type[Task[Any]] = getattr(importlib.import_module(module), class_name)
    return found
