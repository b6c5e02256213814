"""What is fine-tuned for: NAME=TASK:TRAIN:DEV, and after that columns and how the files are read, as `bertkit finetune`
has options for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from bertkit.corpus.keyed import Order
from bertkit.errors import InputError, UsageError, shortened
from bertkit.files import sha256_of
from bertkit.tables.reading import FILE
from bertkit.tables.table import delimiter_called
from bertkit.tasks import TASKS, task_called
from bertkit.tasks.options import TASK
from bertkit.train.comparing.said import Where, known, said_in, settings_said
from bertkit.train.examples import Examples, FinetuneRequest, read_examples
from bertkit.train.schemas import FineTuning

PLAIN_NAMES = ("train", "training", "data", "all")
"""Of files that say nothing; the folder's name does then."""


@dataclass(frozen=True, kw_only=True)
class TaskAsked:
    name: str
    task: str
    train: str
    dev: str | None = None
    said: Mapping[str, str] = field(default_factory=dict)
    """By the names of `parts`."""

    def request(self, start: str = "", *, from_scratch: bool = False, lstm: int = 0) -> FinetuneRequest:
        return FineTuning.of(
            task=self.task,
            train=self.train,
            dev=self.dev,
            start=start,
            out=Path(),
            from_scratch=from_scratch,
            lstm=lstm,
            **settings_said(self.said, parts()),
        ).request()

    def files(self) -> dict[str, dict[str, str]]:
        """What is learned from and what is measured on, with the hashes that tell whether they are still the same."""
        names = {"train": self.train, "dev": self.dev or self.train}
        return {part: {"file": file, "sha256": sha256_of(Path(file))} for part, file in names.items()}

    def examples(self, max_length: int, notes: list[str]) -> Examples:
        own: list[str] = []
        found = read_examples(self.request(), max_length, own)
        notes += [f"{self.name}: {note}" for note in own]
        return found


def parts() -> dict[str, Where]:
    """What may be said of a task: how its files are read, and its options."""
    return known(FineTuning, lambda about: about.group in (FILE, TASK))


def task_of(text: str) -> TaskAsked:
    """
    >>> task_of("classify:sst2/train.tsv:sst2/dev.tsv").name
    'sst2'
    """
    before, _, rest = text.partition(":")
    name, named, task = before.rpartition("=")
    if task_called(task).start is not None:
        raise UsageError(
            f"`task={shortened(text)}`: what writes is put together for each model",
            f"Fine-tune each for {task} by itself.",
        )
    files: list[str] = []
    said: list[str] = []
    for part in rest.split(":") if rest else []:
        is_setting = "=" in part or part in parts()
        (said if is_setting and not Path(part).exists() else files).append(part)
    if not 1 <= len(files) <= 2:
        raise UsageError(
            f"`task={shortened(text)}` names {len(files)} files",
            f"It is said as TASK:TRAIN:DEV, with one of {', '.join(TASKS)}; without DEV a tenth of TRAIN is held out.",
        )
    for file in files:
        if not Path(file).is_file():
            raise InputError(f"`task={shortened(text)}`: there is no file {file}", "Look at its name.")
    dev = files[1] if len(files) == 2 else None
    its = said_in(said, parts(), f"`task={shortened(text)}`")
    if "delimiter" in its:
        delimiter_called(its["delimiter"])
    asked = TaskAsked(name=name if named else _name_of(Path(files[0])), task=task, train=files[0], dev=dev, said=its)
    asked.request()
    return asked


def _name_of(train: Path) -> str:
    stem = train.name.partition(".")[0]
    return train.resolve().parent.name if stem in PLAIN_NAMES else stem


def tasks_of(texts: Sequence[str]) -> list[TaskAsked]:
    tasks = [task_of(text) for text in texts]
    for number, task in enumerate(tasks):
        if task.name in {other.name for other in tasks[:number]}:
            raise UsageError(f"two tasks are called {task.name}", f"Name them: `task=NAME={task.task}:TRAIN:DEV`.")
    return tasks


def cut(count: int, most: int | None, seed: int) -> list[int]:
    """The numbers of the examples to learn from: all, or as many as wanted, which each seed draws for itself; the same
    for every contestant."""
    if most is None or count <= most:
        return list(range(count))
    return [int(number) for number in Order(count, seed, 0).samples(np.arange(most))]
