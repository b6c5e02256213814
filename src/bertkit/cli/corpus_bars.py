"""Progress bars for work on a corpus: bytes read of the files, megabytes of text a second, time left."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from bertkit.corpus import preparing


class CorpusBars(preparing.Progress):
    def __init__(self) -> None:
        self.console = Console(stderr=True)

    @contextmanager
    def reading(self, total: int | None, title: str = "reading and encoding") -> Iterator[preparing.ReadingProgress]:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[said]}"),
            TimeRemainingColumn(),
        )
        with Progress(*columns, console=self.console, transient=True, disable=not sys.stderr.isatty()) as bar:
            yield _Reading(bar, bar.add_task(title, total=total, said=""))

    @contextmanager
    def working(self, title: str) -> Iterator[None]:
        columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        with Progress(*columns, console=self.console, transient=True, disable=not sys.stderr.isatty()) as bar:
            bar.add_task(title)
            yield


class _Reading(preparing.ReadingProgress):
    def __init__(self, bar: Progress, task: TaskID) -> None:
        self.bar, self.task = bar, task
        self.start = time.monotonic()
        self.bytes = self.documents = 0

    def read(self, count: int) -> None:
        self.bar.advance(self.task, count)

    def digested(self, count: int, documents: int) -> None:
        self.bytes += count
        self.documents += documents
        speed = self.bytes / 1e6 / max(time.monotonic() - self.start, 1e-9)
        self.bar.update(self.task, said=f"{self.bytes / 1e6:,.0f} MB, {self.documents:,} texts, {speed:.1f} MB/s")
