"""Which texts are computed together: those that wait, the oldest first, others of like length with it, as many tokens
as the machine likes at once. A thread for each model computes; the event loop only hands over and takes back.

Nobody waits alone: a text waits for others only while some are on their way, or came last time. And nobody waits long:
what all that is here will take is known from how long the like took before, and who would have to wait for longer than
`patience` is told so at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from math import ceil
from typing import Any

from bertkit.device import give_memory_back
from bertkit.serve.metrics import Metrics
from bertkit.serve.operations import Operation, Piece
from bertkit.serve.refusals import RefusalError, too_busy

GATHERING_SECONDS = 0.002
"""So long a text waits for others at most."""
HANDED_OUT = 2
"""Answers in one turn of the event loop."""
LEAST_SECONDS, MOST_TIMES = 0.05, 20.0
"""What a wait is compared with its expectation from, and how much of a difference counts."""
CLOSING_SECONDS = 10.0
IDLE_SECONDS = 1.0
"""After so long without work, freed memory is given back."""


class Request:
    """What is asked at one time. It is answered when each of its pieces is."""

    def __init__(self, operation: Operation, inputs: int, future: asyncio.Future[list[Any]]) -> None:
        self.operation, self.inputs, self.future = operation, inputs, future
        self.answers: list[Any] = [None] * inputs
        self.left = inputs
        self.tokens = 0
        self.seconds = 0.0
        """How long it should take."""
        self.began, self.expected = time.monotonic(), 0.0
        """When it came, and what all that was here then should take."""
        self.gone = False


class _Job:
    __slots__ = ("arrived", "number", "piece", "request")

    def __init__(self, request: Request, number: int, piece: Piece, arrived: float) -> None:
        self.request, self.number, self.piece, self.arrived = request, number, piece, arrived


class Batcher:
    """To be made in the event loop."""

    def __init__(
        self,
        name: str,
        *,
        budget: int,
        patience: float,
        queue_tokens: int,
        threads: int | None,
        metrics: Metrics,
        gathering: float = GATHERING_SECONDS,
        pace: float = 0.0,
    ) -> None:
        """`pace`: seconds that a token takes, until more is known."""
        self.name, self.budget, self.patience, self.metrics = name, budget, patience, metrics
        self.queue_tokens, self.gathering = queue_tokens, gathering
        self.loop = asyncio.get_running_loop()
        self.admitted = 0
        """Inputs that are accepted and not answered yet. Only the event loop touches it."""
        self.backlog = 0.0
        """Seconds that all which is here should take."""
        self._slower = 1.0
        """So many times as long it takes, lately, for what is not computing: where the machine has other work to do."""
        self._usual = 0.0
        """Seconds of one request, lately: what is counted for those that are still being tokenized."""
        self._pace, self._paces = pace, dict[type, float]()
        """Seconds of a token, lately, for each kind of operation."""
        self._changed = threading.Condition()
        self._waiting: list[_Job] = []
        self._waiting_tokens = 0
        self._coming = 0
        """Requests that are accepted and still being tokenized."""
        self._errands: deque[Callable[[], None]] = deque()
        self._last_requests = 1
        self._closed = False
        self._thread = threading.Thread(target=self._work, args=(threads,), name=f"compute {name}", daemon=True)
        self._thread.start()

    def require_room(self) -> None:
        """A refusal, if one more request would wait for too long."""
        if self.backlog * self._slower > self.patience:
            raise self._too_busy()

    def begin(self, operation: Operation, inputs: int) -> Request:
        """Room for a request, or a refusal at once. Its pieces follow; `end` it in any case."""
        self.require_room()
        request = Request(operation, inputs, self.loop.create_future())
        self.admitted += inputs
        self.metrics.queue(self.name, self.admitted)
        with self._changed:
            self._coming += 1
            self._expect(request, self._usual)
            request.expected = self.backlog
        return request

    def submit(self, request: Request, pieces: Sequence[Piece]) -> None:
        """Its inputs, tokenized; from any thread. A refusal if too many tokens wait already."""
        now, tokens = time.monotonic(), sum(piece.tokens for piece in pieces)
        with self._changed:
            self._coming -= 1
            if request.gone:
                return
            if self._waiting and self._waiting_tokens + tokens > self.queue_tokens:
                raise self._too_busy()
            request.tokens = tokens
            self._expect(request, tokens * self._paces.get(type(request.operation), self._pace))
            self._usual = request.seconds if not self._usual else 0.9 * self._usual + 0.1 * request.seconds
            self._waiting_tokens += tokens
            self._waiting += [_Job(request, number, piece, now) for number, piece in enumerate(pieces)]
            self._changed.notify()

    def give_up(self) -> None:
        """A request that was coming will not be submitted; from any thread."""
        with self._changed:
            self._coming -= 1
            self._changed.notify()

    def errand(self, work: Callable[[], None]) -> None:
        """To be done by the thread that computes, before it computes: where nothing else is here, a thread in between
        would only cost time."""
        with self._changed:
            self._errands.append(work)
            self._changed.notify()

    def end(self, request: Request) -> None:
        """It is answered, or nobody waits for it any more: what was not begun of it is not computed."""
        self.admitted -= request.inputs
        self.metrics.queue(self.name, self.admitted)
        with self._changed:
            request.gone = True
            self._expect(request, 0.0)
            if not request.left and request.expected > LEAST_SECONDS:
                times = (time.monotonic() - request.began) / request.expected
                self._slower = max(1.0, 0.95 * self._slower + 0.05 * min(times, MOST_TIMES))
            if request.left:
                kept = [job for job in self._waiting if job.request is not request]
                self.metrics.dropped(self.name, len(self._waiting) - len(kept))
                self._keep(kept)

    def close(self, seconds: float = CLOSING_SECONDS) -> None:
        """Compute what waits, and end. Blocks until then, but not for longer than so many seconds: a computation that
        does not end shall not keep the process alive."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join(seconds)

    def _expect(self, request: Request, seconds: float) -> None:
        self.backlog = max(0.0, self.backlog + seconds - request.seconds)
        request.seconds = seconds

    def _keep(self, jobs: list[_Job]) -> None:
        """Of those that wait."""
        self._waiting = jobs
        self._waiting_tokens = sum(job.piece.tokens for job in jobs)

    def _too_busy(self) -> RefusalError:
        return too_busy(min(60, max(1, ceil(self.backlog * self._slower - self.patience))))

    # What follows runs in the thread.

    def _work(self, threads: int | None) -> None:
        if threads is not None:
            import torch

            torch.set_num_threads(threads)
        while (batch := self._next()) is not None:
            started = time.monotonic()
            outcomes = self._compute(batch)
            seconds = time.monotonic() - started
            tokens = sum(job.piece.tokens for job in batch)
            with self._changed:
                kind, pace = type(batch[0].request.operation), seconds / max(tokens, 1)
                before = self._paces.get(kind, self._pace or pace)
                self._paces[kind] = 0.8 * before + 0.2 * pace
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                self.loop.call_soon_threadsafe(self._deliver, batch, outcomes, tokens, seconds)

    def _next(self) -> list[_Job] | None:
        patience: float | None = IDLE_SECONDS
        while True:
            with self._changed:
                idle = not self._changed.wait_for(self._has_work, patience)
                work = self._errands.popleft() if self._errands else None
                if work is None and self._waiting:
                    self._gather()
                    if self._waiting:
                        return self._choose()
                if work is None and self._closed:
                    return None
            if work is not None:
                work()
            elif idle:
                give_memory_back()
                patience = None

    def _has_work(self) -> bool:
        return bool(self._waiting or self._errands or self._closed)

    def _gather(self) -> None:
        """Wait a little for others, if there is reason to expect some."""
        until = self._waiting[0].arrived + self.gathering
        while self._waiting and not self._closed and (left := until - time.monotonic()) > 0:
            expected = self._coming > 0 or len({id(job.request) for job in self._waiting}) < self._last_requests
            if not expected or self._waiting_tokens >= self.budget:
                return
            self._changed.wait(left)

    def _choose(self) -> list[_Job]:
        oldest = self._waiting[0]
        key, length = oldest.request.operation.key, oldest.piece.tokens
        alike = [job for job in self._waiting if job.request.operation.key == key]
        alike.sort(key=lambda job: (job is not oldest, abs(job.piece.tokens - length)))
        batch: list[_Job] = []
        tokens = 0
        for job in alike:
            if batch and tokens + job.piece.tokens > self.budget:
                break
            batch.append(job)
            tokens += job.piece.tokens
        taken = set(map(id, batch))
        self._keep([job for job in self._waiting if id(job) not in taken])
        self._last_requests = len({id(job.request) for job in batch})
        return batch

    def _compute(self, batch: Sequence[_Job]) -> list[Any]:
        """For each its answer, or what went wrong with it."""
        operation = batch[0].request.operation
        try:
            return operation.compute([job.piece for job in batch])
        except Exception as problem:
            if len(batch) == 1:
                return [problem]
        return [outcome for job in batch for outcome in self._compute([job])]  # so that one does not spoil the others

    # And this in the event loop again.

    def _deliver(self, batch: Sequence[_Job], outcomes: Sequence[Any], tokens: int, seconds: float) -> None:
        self.metrics.batch(self.name, len(batch), tokens, seconds)
        self._hand_out(list(zip(batch, outcomes, strict=True)))

    def _hand_out(self, done: list[tuple[_Job, Any]]) -> None:
        """A few at a time: each is written by its own task, and meanwhile others ask, who shall not wait for all."""
        if done[HANDED_OUT:]:
            self.loop.call_soon(self._hand_out, done[HANDED_OUT:])
        for job, outcome in done[:HANDED_OUT]:
            request = job.request
            if request.future.done():
                continue
            if isinstance(outcome, Exception):
                request.future.set_exception(outcome)
                continue
            request.answers[job.number] = outcome
            request.left -= 1
            if not request.left:
                request.future.set_result(request.answers)
