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
from bertkit.objectives.terms import answered_right, word_loss
from bertkit.training.plan import Plan
from bertkit.training.progress import Progress
from bertkit.training.watcher import Watcher

BLOCKS = "▁▂▃▄▅▆▇█"
LINE_SECONDS = 10.0
"""Where lines are printed, one comes not more often than this."""


class TrainingDisplay(Watcher):
    """On a terminal a panel that is drawn anew; elsewhere a line now and then."""

    def __init__(self) -> None:
        self.console = Console(stderr=True)
        self.live: Live | None = None
        self.facts: dict[str, Any] = {}
        self.validation: dict[str, Any] = {}
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

    def started(self, plan: Plan, progress: Progress) -> None:
        if progress.step == 0:
            for line in plan_lines(plan):
                self._print(line)
        if self.console.is_terminal:
            self.live = Live(self._panel(), console=self.console, refresh_per_second=2)
            self.live.start()

    def stepped(self, facts: dict[str, Any]) -> None:
        self.facts = facts
        self.losses.append(word_loss(facts))
        if self._first is None:
            self._first = facts["step"], facts["seconds"]
        self._show(lambda: self._line())

    def validated(self, facts: dict[str, Any]) -> None:
        self.validation = facts
        self._print(
            f"step {facts['step']:>6,}  held-out: {losses(facts)}, perplexity {facts['perplexity']:,.1f},"
            f" {answered_right(facts)}"
        )

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
        facts = self.facts
        return (
            f"step {facts['step']:>6,}/{facts['total_steps']:,}  {losses(facts)}"
            f"  {facts['tokens_per_second']:,.0f} tokens/s ({facts['share_of_peak']:.0%} of peak)"
            f"  rate {facts['learning_rate']:.2e}  {self._left()} left"
        )

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
        table.add_row("loss", Text(f"{losses(facts).removeprefix('loss ')}  {sparkline(self.losses)}"))
        if self.validation:
            shown = losses(self.validation).removeprefix("loss ")
            table.add_row("held-out", f"{shown}  perplexity {self.validation['perplexity']:,.1f}")
        table.add_row(
            "speed", f"{facts['tokens_per_second']:,.0f} tokens/s, {facts['share_of_peak']:.0%} of the machine's peak"
        )
        table.add_row("seen", f"{facts['tokens']:,} tokens, epoch {facts['epoch'] + 1}")
        table.add_row("time", f"{clock(facts['seconds'])} gone, {self._left()} left")
        bar = Table.grid(padding=(0, 1))
        bar.add_row(
            ProgressBar(total=facts["total_steps"], completed=facts["step"], width=40),
            f"step {facts['step']:,} of {facts['total_steps']:,}",
        )
        return Group(bar, table)


def losses(facts: Mapping[str, Any]) -> str:
    """What a run is judged by while it goes on. Of an ELECTRA there are two, of which the generator's is the one that a
    perplexity can be told of.

    >>> losses({"mlm_loss": 6.1, "rtd_loss": 0.25})
    "generator's loss 6.100, discriminator's 0.250"
    """
    if "rtd_loss" in facts:
        return f"generator's loss {facts['mlm_loss']:.3f}, discriminator's {facts['rtd_loss']:.3f}"
    return f"loss {word_loss(facts):.3f}"


def plan_lines(plan: Plan) -> list[str]:
    stages = ", then ".join(f"{s['steps']:,} steps of {s['batch']} x {s['length']}" for s in plan.stages)
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
