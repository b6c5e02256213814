"""A run, live: progress, loss, speed, time left; and lines instead where nobody watches a screen."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from bertkit.cli.options import print_line
from bertkit.objectives.objective import Together
from bertkit.objectives.terms import answered_right, titles_of
from bertkit.train.engine import Progress
from bertkit.train.examples import Examples
from bertkit.train.plan import Plan
from bertkit.train.watcher import Epoch, Watcher

BLOCKS = "▁▂▃▄▅▆▇█"
LINE_SECONDS = 10.0
"""Where lines are printed, one comes not more often than this."""


class TrainingDisplay(Watcher):
    """On a terminal a panel that is drawn anew; elsewhere a line now and then."""

    def __init__(self) -> None:
        self.console = Console(stderr=True)
        self.live: Live | None = None
        self.objectives: Together | None = None
        self.facts: dict[str, Any] = {}
        self.held_out = ""
        self.losses: list[float] = []
        self._last_line = 0.0
        self._first: tuple[int, float] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.live is not None:
            self.live.update(self._panel(), refresh=True)
            self.live.stop()

    def doing(self, what: str) -> None:
        self._print(f"{what} ...")

    def started(self, plan: Plan, progress: Progress, objectives: Together) -> None:
        self.objectives, self.titles = objectives, titles_of(objectives.facts())
        if progress.step == 0:
            for line in plan_lines(plan):
                self._print(line)
        self._begin()

    def learns_from(self, examples: Examples) -> None:
        self.objectives = None
        count = len(examples.task.head.labels)
        labels = f", {count} label{'s' if count > 1 else ''}" if count else ""
        self._print(f"{len(examples.train):,} examples to learn from, {len(examples.dev):,} to measure on{labels}")

    def began_seed(self, number: int, seeds: int) -> None:
        if seeds > 1:
            self._print(f"seed {number} of {seeds}")
        self.facts, self.losses, self.held_out, self._first = {}, [], "", None
        self._last_line = time.monotonic()
        self._begin(transient=True)

    def _begin(self, *, transient: bool = False) -> None:
        if self.console.is_terminal and self.live is None:
            self.live = Live(self._panel(), console=self.console, refresh_per_second=2, transient=transient)
            self.live.start()

    def stepped(self, facts: dict[str, Any]) -> None:
        self.facts = facts
        self.losses.append(facts["loss"] if self.objectives is None else self.objectives.loss(facts))
        if self._first is None:
            self._first = facts["step"], facts["seconds"]
        self._show(lambda: self._line())

    def validated(self, facts: dict[str, Any]) -> None:
        self.held_out = self._told(facts)
        self._print(f"step {facts['step']:>6,}  held-out: {self.held_out}, {answered_right(self.titles, facts)}")

    def finished_epoch(self, epoch: Epoch) -> None:
        self.held_out = ", ".join(f"{name} {value:.4f}" for name, value in epoch.metrics.items())
        self._print(f"epoch {epoch.number}  loss {epoch.loss:.4f}  {self.held_out}")

    def said(self, message: str) -> None:
        self._print(f"note: {message}")

    def _show(self, line: Callable[[], str]) -> None:
        if self.live is not None:
            self.live.update(self._panel())
        elif time.monotonic() - self._last_line >= LINE_SECONDS:
            self._last_line = time.monotonic()
            self._print(line())

    def _print(self, line: str) -> None:
        print_line(self.console, line)

    def _line(self) -> str:
        facts, speed = self.facts, self._speed(" ({:.0%} of peak)")
        return (
            f"step {facts['step']:>6,}/{facts['total_steps']:,}  {self._loss(facts)}  {speed}"
            f"  rate {facts['learning_rate']:.2e}  {self._left()} left"
        )

    def _loss(self, facts: Mapping[str, Any]) -> str:
        return f"loss {facts['loss']:.3f}" if self.objectives is None else self.objectives.told(facts)

    def _speed(self, share: str) -> str:
        peak = self.facts.get("share_of_peak")
        return f"{self.facts['tokens_per_second']:,.0f} tokens/s{'' if peak is None else share.format(peak)}"

    def _told(self, facts: Mapping[str, Any]) -> str:
        figures = {} if self.objectives is None else self.objectives.figures(facts)
        return ", ".join([self._loss(facts), *(f"{name} {value:,.1f}" for name, value in figures.items())])

    def _left(self) -> str:
        facts = self.facts
        if self._first is None or facts["step"] == self._first[0]:
            return "?"
        pace = (facts["seconds"] - self._first[1]) / (facts["step"] - self._first[0])
        return clock(pace * (facts["total_steps"] - facts["step"]))

    def _panel(self) -> RenderableType:
        facts = self.facts
        if not facts:
            return Text("the first steps ...", style="dim")
        table = Table.grid(padding=(0, 2))
        table.add_column(style="dim")
        table.add_column()
        table.add_row("loss", Text(f"{self._loss(facts).removeprefix('loss ')}  {sparkline(self.losses)}"))
        if self.held_out:
            table.add_row("held-out", self.held_out.removeprefix("loss "))
        table.add_row("speed", self._speed(", {:.0%} of the machine's peak"))
        table.add_row("seen", f"{facts['tokens']:,} tokens, epoch {facts['epoch'] + 1}")
        table.add_row("time", f"{clock(facts['seconds'])} gone, {self._left()} left")
        bar = Table.grid(padding=(0, 1))
        bar.add_row(
            ProgressBar(total=facts["total_steps"], completed=facts["step"], width=40),
            f"step {facts['step']:,} of {facts['total_steps']:,}",
        )
        return Group(bar, table)


def plan_lines(plan: Plan) -> list[str]:
    asked = [f" of {s['asks']}" if s.get("asks") else "" for s in plan.stages]
    sizes = [f"{s['steps']:,} steps of {s['batch']} x {s['length']}" for s in plan.stages]
    stages = ", then ".join(map("".join, zip(sizes, asked, strict=True)))
    return [
        f"plan: {plan.model}, {plan.parameters / 1e6:.1f} million parameters, recipe {plan.recipe}",
        f"      {stages}: {plan.tokens / 1e6:,.1f} million tokens, {plan.epochs:g} epochs",
        f"      learning rate {plan.learning_rate}",
        f"      a checkpoint at least every {plan.save_every:,} steps",
        *([f"      to be done in {clock(3600 * plan.hours)}"] if plan.hours else []),
    ]


def sparkline(values: list[float], width: int = 40) -> str:
    """The course of some numbers in one line of text."""
    if len(values) < 2:
        return ""
    if len(values) > width:
        values = [values[len(values) * i // width] for i in range(width)]
    low, high = min(values), max(values)
    return "".join(BLOCKS[round((value - low) / max(high - low, 1e-9) * 7)] for value in values)


def clock(seconds: float) -> str:
    whole = max(0, round(seconds))
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"
