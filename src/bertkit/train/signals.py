"""SIGINT and SIGTERM as wishes: the step is finished, all is saved, then the run stops. A second one stops at once."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self


class Signals:
    """While the block runs, `received` tells whether a signal has come."""

    def __init__(self, *, quiet: bool = False, words: str = "finishing this step and saving") -> None:
        self.received = False
        self.quiet = quiet
        self._words = f"\n{words}; once more stops at once\n".encode()
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():  # elsewhere Python has no signals
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._receive)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._restore()

    def _receive(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        self.received = True
        self._restore()
        if not self.quiet:  # a plain write, which a handler may do at any moment
            os.write(2, self._words)

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}
