"""Which texts are computed together: those that wait, the oldest first, others of like length with it, as many tokens
as the machine likes at once. A thread for each model computes; the event loop only hands over and takes back.

Nobody waits alone: a text waits for others only while some are on their way, or came last time.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Iterator, Sequence
from math import ceil
from typing import Any

from bertkit.device import give_memory_back
from bertkit.serve.metrics import Metrics
from bertkit.serve.operations import Operation, Piece
from bertkit.serve.refusals import RefusalError, too_busy

HANDED_OUT = 2
"""Answers in one turn of the event loop."""
CLOSING_SECONDS = 10.0
IDLE_SECONDS = 1.0
"""After so long without work, freed memory is given back."""


class _Request:
    """All pieces of one request: it is answered when each of them is."""

    def __init__(self, operation: Operation, pieces: Sequence[Piece], future: asyncio.Future[list[Any]]) -> None:
        self.operation, self.future = operation, future
        self.answers: list[Any] = [None] * len(pieces)
        self.left = len(pieces)


class _Job:
    __slots__ = ("arrived", "number", "piece", "request")

    def __init__(self, request: _Request, number: int, piece: Piece, arrived: float) -> None:
        self.request, self.number, self.piece, self.arrived = request, number, piece, arrived


class Batcher:
    """To be made in the event loop."""

    def __init__(
        self,
        name: str,
        *,
        budget: int,
        wait: float,
        queue: int,
        queue_tokens: int,
        threads: int | None,
        metrics: Metrics,
    ) -> None:
        self.name, self.budget, self.wait, self.metrics = name, budget, wait, metrics
        self.queue, self.queue_tokens = queue, queue_tokens
        self.loop = asyncio.get_running_loop()
        self.admitted = 0
        """Inputs that are accepted and not answered yet. Only the event loop touches it, and the next two."""
        self.requests = 0
        """Those that are here whole and not answered yet, also such as have not been looked into."""
        self.speed = 0.0
        """Tokens a second, lately."""
        self._changed = threading.Condition()
        self._waiting: list[_Job] = []
        self._waiting_tokens = 0
        self._coming = 0
        """Requests that are accepted and still being tokenized."""
        self._last_requests = 1
        self._closed = False
        self._thread = threading.Thread(target=self._work, args=(threads,), name=f"compute {name}", daemon=True)
        self._thread.start()

    def require_room(self) -> None:
        """A refusal, if one more request is too many."""
        if max(self.admitted, self.requests) >= self.queue:
            raise self._too_busy()

    @contextlib.contextmanager
    def request(self) -> Iterator[None]:
        """Room for one more request, whatever is in it, or a refusal at once."""
        self.require_room()
        self.requests += 1
        try:
            yield
        finally:
            self.requests -= 1

    @contextlib.contextmanager
    def admission(self, inputs: int) -> Iterator[None]:
        """Room for so many inputs, or a refusal at once."""
        if self.admitted + inputs > self.queue:
            raise self._too_busy()
        self.admitted += inputs
        self.metrics.queue(self.name, self.admitted)
        with self._changed:
            self._coming += 1
        try:
            yield
        finally:
            self.admitted -= inputs
            self.metrics.queue(self.name, self.admitted)

    def gave_up(self) -> None:
        """A request that was coming will not be submitted."""
        with self._changed:
            self._coming -= 1
            self._changed.notify()

    async def submit(self, operation: Operation, pieces: Sequence[Piece]) -> list[Any]:
        """The answers, once they are computed; a refusal at once if too many tokens wait already. Cancelled, what was
        not begun is not computed."""
        request = _Request(operation, pieces, self.loop.create_future())
        now, tokens = time.monotonic(), sum(piece.tokens for piece in pieces)
        with self._changed:
            self._coming -= 1
            if self._waiting and self._waiting_tokens + tokens > self.queue_tokens:
                raise self._too_busy()
            self._waiting_tokens += tokens
            self._waiting += [_Job(request, number, piece, now) for number, piece in enumerate(pieces)]
            self._changed.notify()
        try:
            return await request.future
        finally:
            if request.left:
                self._forget(request)

    def close(self, seconds: float = CLOSING_SECONDS) -> None:
        """Compute what waits, and end. Blocks until then, but not for longer than so many seconds: a computation that
        does not end shall not keep the process alive."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join(seconds)

    def _forget(self, request: _Request) -> None:
        with self._changed:
            kept = [job for job in self._waiting if job.request is not request]
            self.metrics.dropped(self.name, len(self._waiting) - len(kept))
            self._keep(kept)

    def _keep(self, jobs: list[_Job]) -> None:
        """Of those that wait."""
        self._waiting = jobs
        self._waiting_tokens = sum(job.piece.tokens for job in jobs)

    def _too_busy(self) -> RefusalError:
        return too_busy(min(60, max(1, ceil(self._waiting_tokens / self.speed))) if self.speed else 1)

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
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                self.loop.call_soon_threadsafe(self._deliver, batch, outcomes, tokens, seconds)

    def _next(self) -> list[_Job] | None:
        patience: float | None = IDLE_SECONDS
        while True:
            with self._changed:
                while not self._waiting and not self._closed and self._changed.wait(patience):
                    pass
                if self._waiting:
                    self._gather()
                if self._waiting:
                    return self._choose()
                if self._closed:
                    return None
            if patience is not None:
                give_memory_back()
                patience = None

    def _gather(self) -> None:
        """Wait a little for others, if there is reason to expect some."""
        until = self._waiting[0].arrived + self.wait
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
        speed = tokens / max(seconds, 1e-6)
        self.speed = speed if not self.speed else 0.8 * self.speed + 0.2 * speed
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
