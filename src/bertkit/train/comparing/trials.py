"""Fine-tuning of every contestant on every task with every seed: the same examples, the same number of epochs.

The model counts as it is after its last epoch: nothing is chosen by the examples that it is measured on. What is
scored is written down at once, so that an interruption costs one fit at most.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from bertkit.device import Machine
from bertkit.errors import InputError
from bertkit.files import read_sealed, write_sealed
from bertkit.hub.folder import ModelFolder
from bertkit.train.comparing.asked import Asked
from bertkit.train.comparing.contestants import Contestant, as_file_name
from bertkit.train.comparing.tasks import TaskAsked, cut
from bertkit.train.examples import Examples
from bertkit.train.findings import interval
from bertkit.train.fit import FitSettings
from bertkit.train.learning_curve import answers_after_fit
from bertkit.train.watcher import Watcher


@dataclass(frozen=True)
class Entry:
    """A row of the table."""

    contestant: Contestant
    random: bool = False
    """Its shape with random weights: what its pretraining must beat."""

    @property
    def name(self) -> str:
        return f"{self.contestant.name} from random weights" if self.random else self.contestant.name

    @property
    def called(self) -> str:
        return f"{self.contestant.called}, random weights" if self.random else self.contestant.called

    @property
    def file(self) -> str:
        return f"{as_file_name(self.contestant.name)}{'.random' if self.random else ''}.json"


def entries(asked: Asked) -> list[Entry]:
    """Each contestant; and, if asked for, each shape once with random weights."""
    rows = [Entry(contestant) for contestant in asked.contestants]
    shapes: dict[tuple[Any, ...], Contestant] = {}
    for contestant in (each for each in asked.contestants if each.ready is None):
        recipe = asked.recipe_of(contestant)
        shape = contestant.model, recipe.causal, recipe.pre_norm, contestant.lstm
        shapes.setdefault(shape, contestant)
    return rows + [Entry(contestant, random=True) for contestant in shapes.values() if asked.with_random]


class Trials:
    def __init__(self, asked: Asked, out: Path, machine: Machine) -> None:
        self.asked, self.out, self.machine = asked, out, machine
        self.files = {self.key(task): task.files() for task in asked.tasks}

    def scores(self, entry: Entry) -> dict[str, Any]:
        """By task: what is known so far, of the files as they are now."""
        return {key: its for key, its in self._stored(entry).items() if self._still(key, its)}

    def outdated(self, task: TaskAsked, rows: Sequence[Entry]) -> bool:
        """Whether one of them has scores of other files that had the same names."""
        key = self.key(task)
        return any(not self._still(key, its) for row in rows if (its := self._stored(row).get(key)))

    def remember_files(self, entry: Entry) -> None:
        """Scores that were stored without hashes are of the files as they are now; from now on that is known."""
        stored = self._stored(entry)
        if lacking := [key for key, its in stored.items() if "sha256" not in its and key in self.files]:
            self._store(entry, stored | {key: {**stored[key], "sha256": self._hashes(key)} for key in lacking})

    def _still(self, key: str, its: Mapping[str, Any]) -> bool:
        return key not in self.files or its.get("sha256", self._hashes(key)) == self._hashes(key)

    def _hashes(self, key: str) -> dict[str, str]:
        return {part: facts["sha256"] for part, facts in self.files[key].items()}

    def _stored(self, entry: Entry) -> dict[str, Any]:
        path = self.out / "scores" / entry.file
        return read_sealed(path, InputError, "Remove it: its fits are then done again.") if path.exists() else {}

    def _store(self, entry: Entry, known: Mapping[str, Any]) -> None:
        write_sealed(self.out / "scores" / entry.file, known)

    def missing(self, entry: Entry) -> Iterator[tuple[TaskAsked, int]]:
        known = self.scores(entry)
        for task in self.asked.tasks:
            for seed in range(self.asked.seeds):
                if str(seed) not in known.get(self.key(task), {}).get("scores", {}):
                    yield task, seed

    @staticmethod
    def key(task: TaskAsked) -> str:
        """Files of the same name elsewhere are other tasks."""
        files = [str(Path(file).resolve()) for file in (task.train, task.dev) if file]
        return ":".join([task.task, *files, *(f"{part}={name}" for part, name in sorted(task.said.items()))])

    def fit(self, entry: Entry, start: Path, task: TaskAsked, examples: Examples, seed: int, watcher: Watcher) -> float:
        folder = ModelFolder(start)
        tokenizer, contestant = folder.tokenizer().for_tasks(), entry.contestant
        chosen = cut(len(examples.train), self.asked.most_examples, seed)
        encoded = examples.task.encode([examples.train[number] for number in chosen], tokenizer, len(chosen))
        examples, units = replace(examples, task=encoded.task), encoded.to_learn()
        settings = FitSettings.usual(
            width=folder.config.hidden_size,
            units=len(units),
            family=folder.config.family,
            **({} if self.asked.epochs is None else {"epochs": self.asked.epochs}),
        )
        answers = answers_after_fit(
            folder,
            examples.task,
            task.request(str(start), from_scratch=entry.random, lstm=contestant.lstm),
            units,
            examples.dev,
            examples.task.encode(examples.dev, tokenizer),
            settings,
            seed=seed,
            machine=self.machine,
            watcher=watcher,
        )
        score = examples.task.metrics(examples.dev, answers)[examples.task.measure.main]
        known = self.scores(entry)
        its = known.setdefault(self.key(task), {"scores": {}, "sha256": self._hashes(self.key(task))})
        its["scores"][str(seed)] = score
        its |= {"settings": asdict(settings), "learned_from": len(chosen)}
        its.setdefault("interval", list(interval(examples.task, examples.dev, answers)))
        self._store(entry, known)
        gc.collect()
        return float(score)
