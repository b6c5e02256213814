"""A comparison, live: what goes on, and the table at its end."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.table import Table
from rich.text import Text

from bertkit.cli.corpus_bars import CorpusBars
from bertkit.cli.options import print_line
from bertkit.cli.training_display import TrainingDisplay
from bertkit.report.standings import BETTER, WORSE, cells_of, head_of, remarks
from bertkit.train.comparing.compare import CompareWatcher


class CompareDisplay(CompareWatcher):
    def __init__(self) -> None:
        self.console = Console(stderr=True)
        self.progress = CorpusBars()
        self.fits: TrainingDisplay | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end_bar(kind, problem, trace)

    def began(self, what: str) -> None:
        self._end_bar()
        print_line(self.console, what)

    def stepped(self, facts: dict[str, Any]) -> None:
        if self.fits is None:
            self.fits = TrainingDisplay()
            self.fits.__enter__()
            self.fits.began_seed(1, 1)
        self.fits.stepped(facts)

    def scored(self, entry: str, task: str, seed: int, metric: str, score: float) -> None:  # noqa: ARG002
        self._end_bar()
        print_line(self.console, f"  seed {seed}: {metric.replace('_', ' ')} {score:.4f}")

    def said(self, message: str) -> None:
        print_line(self.console, f"note: {message}")

    def _end_bar(self, *problem: Any) -> None:
        if self.fits is not None:
            self.fits.__exit__(*(problem or (None, None, None)))
            self.fits = None


def print_table(facts: dict[str, Any]) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for number, name in enumerate(head_of(facts)):
        table.add_column(Text(name), justify="right" if number else "left")
    for cells in cells_of(facts):
        marked = [Text(cell, style=_colour(cell)) for cell in cells[1:]]
        table.add_row(Text(cells[0], style="bold"), *marked)
    console = Console()
    console.print(table)
    for line in remarks(facts):
        console.print(Text(line, style="dim"))


def _colour(cell: str) -> str:
    return "green" if cell.endswith(BETTER) else "red" if cell.endswith(WORSE) else ""
