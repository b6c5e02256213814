"""Who looks on while a run goes: here nobody. The command line shows it live."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bertkit.objectives.objective import Together
    from bertkit.train.engine import Progress
    from bertkit.train.examples import Examples
    from bertkit.train.plan import Plan


@dataclass(frozen=True)
class Epoch:
    """Of a fine-tuning."""

    number: int
    loss: float
    metrics: dict[str, float]


class Watcher:
    def doing(self, what: str) -> None:
        """Something before the first step that takes a moment."""

    def learns_from(self, examples: Examples) -> None:
        """A fine-tuning has read its data."""

    def began_seed(self, number: int, seeds: int) -> None: ...

    def started(self, plan: Plan, progress: Progress, objectives: Together) -> None: ...

    def stepped(self, facts: dict[str, Any]) -> None: ...

    def finished_epoch(self, epoch: Epoch) -> None: ...

    def validated(self, facts: dict[str, Any]) -> None: ...

    def saved(self, step: int) -> None: ...

    def said(self, message: str) -> None:
        """Something worth knowing."""
