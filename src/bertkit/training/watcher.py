"""Who looks on while a run goes: here nobody. The command line shows it live."""

from __future__ import annotations

from typing import Any

from bertkit.training.plan import Plan
from bertkit.training.progress import Progress


class Watcher:
    def doing(self, what: str) -> None:
        """Something before the first step that takes a moment."""

    def started(self, plan: Plan, progress: Progress) -> None: ...

    def stepped(self, facts: dict[str, Any]) -> None: ...

    def validated(self, facts: dict[str, Any]) -> None: ...

    def saved(self, step: int) -> None: ...

    def said(self, message: str) -> None:
        """Something worth knowing."""
