"""Inputs of a fine-tuned model that are given on the command line itself, in place of a file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from bertkit.cli.options import given_texts
from bertkit.errors import UsageError

if TYPE_CHECKING:
    from bertkit.tasks.task import Task


def check_given(
    source: str, texts: Sequence[str], pairs: Sequence[str], questions: Sequence[str], endings: Sequence[str]
) -> None:
    """What no model could answer is refused before one is loaded."""
    if texts and source != "-":
        raise UsageError(f"both --text and the file {source} are given", "Give one of them.")
    for name, beside in (("--pair", pairs), ("--question", questions)):
        if beside and len(beside) != len(texts):
            raise UsageError(f"{len(beside)} {name} for {len(texts)} --text", "Give one for each.")
    if endings and len(texts) != 1:
        raise UsageError(f"--ending with {len(texts)} --text", "Give one --text, the beginning of all of them.")
    if sum(map(bool, (pairs, questions, endings))) > 1:
        raise UsageError("more than one of --pair, --question and --ending", "Give the one that the model is for.")
    given_texts([*texts, *pairs, *questions, *endings])


def inputs_of(
    task: Task[Any], texts: Sequence[str], pairs: Sequence[str], questions: Sequence[str], endings: Sequence[str]
) -> list[Any]:
    """As a model for `task` takes them."""
    reads_pairs = getattr(task, "pairs", None)  # None: nobody knows
    for name, beside, owner in (("--question", questions, "qa"), ("--ending", endings, "choice")):
        if beside and task.name != owner:
            raise UsageError(f"{name} with a model for {task.name}", f"It is for {owner}.")
    if task.name == "choice":
        if not endings:
            raise UsageError("a beginning without endings", "Give --text BEGINNING --ending ONE --ending ANOTHER.")
        return [(texts[0], list(endings))]
    if task.name == "qa" and not questions and not pairs:
        raise UsageError("--text without a question", "Give --question QUESTION --text PASSAGE.")
    if reads_pairs is False and pairs:
        raise UsageError("the model reads one text, and there is a --pair too", "Leave it out.")
    if reads_pairs and not pairs:
        raise UsageError("the model reads two texts at once, and there is no --pair", "Give one to each --text.")
    if questions:
        return list(zip(questions, texts, strict=True))
    return list(zip(texts, pairs, strict=True)) if pairs else list(texts)
