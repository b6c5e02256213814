"""A fit, live: a bar for the steps, a line for each epoch; lines alone where nobody watches a screen."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from bertkit.cli.options import print_line
from bertkit.training.examples import Examples
from bertkit.training.finetune import FinetuneWatcher
from bertkit.training.fit import Epoch


class FitDisplay(FinetuneWatcher):
    def __init__(self) -> None:
        self.console = Console(stderr=True)
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[loss]}"),
            TimeRemainingColumn(),
            console=self.console,
            transient=True,
            disable=not self.console.is_terminal,
        )
        self.task: TaskID | None = None
        self.title = "fitting"

    def __enter__(self) -> Self:
        self.bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bar.stop()

    def began(self, examples: Examples) -> None:
        count = len(examples.task.labels)
        labels = f", {count} label{'s' if count > 1 else ''}" if count else ""
        self._print(f"{len(examples.train):,} examples to learn from, {len(examples.dev):,} to measure on{labels}")

    def began_seed(self, number: int, seeds: int) -> None:
        self.title = "fitting" if seeds == 1 else f"seed {number} of {seeds}"
        if seeds > 1:
            self._print(self.title)
        if self.task is not None:
            self.bar.remove_task(self.task)
        self.task = self.bar.add_task(self.title, total=None, loss="")

    def stepped(self, step: int, steps: int, loss: float) -> None:
        if self.task is not None:
            self.bar.update(self.task, completed=step, total=steps, loss=f"loss {loss:.3f}")

    def finished_epoch(self, epoch: Epoch) -> None:
        shown = ", ".join(f"{name} {value:.4f}" for name, value in epoch.metrics.items())
        self._print(f"epoch {epoch.number}  loss {epoch.loss:.4f}  {shown}")

    def said(self, message: str) -> None:
        self._print(f"note: {message}")

    def _print(self, line: str) -> None:
        print_line(self.console, line)
