"""What is fine-tuned for: NAME=TASK:TRAIN:DEV, and after that columns and how the files are read, as `bertkit finetune`
has options for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bertkit.corpus.sampling.order import Order
from bertkit.errors import InputError, UsageError, nearest, shortened
from bertkit.files import sha256_of
from bertkit.tasks import HOMES, task_called
from bertkit.tasks.data.delimiters import delimiter_called
from bertkit.tasks.task import Reading
from bertkit.training.examples import Examples, FinetuneRequest, read_examples

COLUMNS = ("text", "pair", "label", "score", "negative", "question", "endings")
DELIMITER, FIRST_ENDING = "delimiter", "first-ending"
PARTS = (*COLUMNS, DELIMITER, FIRST_ENDING)
PLAIN_NAMES = ("train", "training", "data", "all")
"""Of files that say nothing; the folder's name does then."""


@dataclass(frozen=True, kw_only=True)
class TaskAsked:
    name: str
    task: str
    train: str
    dev: str | None = None
    said: Mapping[str, str] = field(default_factory=dict)
    """By the names of PARTS."""

    def request(self, start: str = "", *, from_scratch: bool = False, lstm: int = 0, **change: Any) -> FinetuneRequest:
        return FinetuneRequest(
            task=self.task,
            train=self.train,
            dev=self.dev,
            start=start,
            from_scratch=from_scratch,
            reading=Reading(
                names={part: self.said[part] for part in COLUMNS if part in self.said},
                delimiter=self.said.get(DELIMITER),
            ),
            options={"first_ending": int(self.said[FIRST_ENDING])} if FIRST_ENDING in self.said else {},
            head={"lstm": lstm} if lstm else {},
            change=change,
        )

    def files(self) -> dict[str, dict[str, str]]:
        """What is learned from and what is measured on, with the hashes that tell whether they are still the same."""
        names = {"train": self.train, "dev": self.dev or self.train}
        return {part: {"file": file, "sha256": sha256_of(Path(file))} for part, file in names.items()}

    def examples(self, max_length: int, notes: list[str]) -> Examples:
        own: list[str] = []
        found = read_examples(self.request(), max_length, own)
        notes += [f"{self.name}: {note}" for note in own]
        return found


def task_of(text: str) -> TaskAsked:
    """
    >>> task_of("classify:sst2/train.tsv:sst2/dev.tsv").name
    'sst2'
    """
    before, _, rest = text.partition(":")
    name, named, task = before.rpartition("=")
    task_called(task)
    files, said = [], {}
    for part in rest.split(":") if rest else []:
        what, equals, value = part.partition("=")
        if equals and not Path(part).exists():
            _require_part(text, task, what, value)
            said[what] = value
        else:
            files.append(part)
    if not 1 <= len(files) <= 2:
        raise UsageError(
            f"--task {shortened(text)} names {len(files)} files",
            f"It is said as TASK:TRAIN:DEV, with one of {', '.join(HOMES)}; without DEV a tenth of TRAIN is held out.",
        )
    for file in files:
        if not Path(file).is_file():
            raise InputError(f"--task {shortened(text)}: there is no file {file}")
    dev = files[1] if len(files) == 2 else None
    return TaskAsked(name=name if named else _name_of(Path(files[0])), task=task, train=files[0], dev=dev, said=said)


def _require_part(text: str, task: str, what: str, value: str) -> None:
    if what not in PARTS:
        raise UsageError(
            f"--task {shortened(text)}: {shortened(what)} is no part of an example, nor of how it is read",
            f"{nearest(what, PARTS)} There are: {', '.join(PARTS)}.",
        )
    if what == DELIMITER:
        delimiter_called(value)
    if what == FIRST_ENDING and (task != "choice" or value not in ("0", "1")):
        raise UsageError(f"--task {shortened(text)}: {what}={shortened(value)}", "It is for choice, and can be 0 or 1.")


def _name_of(train: Path) -> str:
    stem = train.name.partition(".")[0]
    return train.resolve().parent.name if stem in PLAIN_NAMES else stem


def tasks_of(texts: Sequence[str]) -> list[TaskAsked]:
    tasks = [task_of(text) for text in texts]
    for number, task in enumerate(tasks):
        if task.name in {other.name for other in tasks[:number]}:
            raise UsageError(f"two tasks are called {task.name}", f"Name them: --task NAME={task.task}:TRAIN:DEV.")
    return tasks


def cut(count: int, most: int | None, seed: int) -> list[int]:
    """The numbers of the examples to learn from: all, or as many as wanted, which each seed draws for itself; the same
    for every contestant."""
    if most is None or count <= most:
        return list(range(count))
    return [int(number) for number in Order(count, seed, 0).samples(np.arange(most))]
