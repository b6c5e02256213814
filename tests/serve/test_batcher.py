"""Which inputs are computed together, seen from an operation that notes down what it is given."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from bertkit.serve import Batcher, Metrics, Piece, RefusalError


class Noting:
    """Answers with what it is asked, when it is let; fails of "bad"."""

    def __init__(self, key: str = "a") -> None:
        self.key = key
        self.batches: list[list[str]] = []
        self.begun, self.may_end = threading.Event(), threading.Event()

    def prepare(self, values: Sequence[Any]) -> list[Piece]:
        return [Piece(value, len(value)) for value in values]

    def compute(self, pieces: Sequence[Piece]) -> list[Any]:
        self.batches.append([piece.content for piece in pieces])
        self.begun.set()
        assert self.may_end.wait(30)
        if any(piece.content == "bad" for piece in pieces):
            raise ValueError("bad")
        return [piece.content for piece in pieces]


def with_batcher(work: Callable[[Batcher], Awaitable[None]], **settings: Any) -> None:
    async def run() -> None:
        settings.setdefault("budget", 10)
        settings.setdefault("patience", 100.0)
        settings.setdefault("queue_tokens", 1000)
        batcher = Batcher("test", gathering=0.0, threads=None, metrics=Metrics(), **settings)
        try:
            await work(batcher)
        finally:
            await asyncio.to_thread(batcher.close)

    asyncio.run(run())


async def ask(batcher: Batcher, operation: Noting, *values: str) -> list[Any]:
    request = batcher.begin(operation, len(values))
    try:
        batcher.submit(request, operation.prepare(values))
        return await request.future
    finally:
        batcher.end(request)


async def held(batcher: Batcher, operation: Noting) -> asyncio.Task[list[Any]]:
    """A first batch under way, so that what comes now waits."""
    first = asyncio.create_task(ask(batcher, operation, "first"))
    await asyncio.to_thread(operation.begun.wait, 30)
    return first


def test_what_waits_is_computed_with_what_is_alike_in_length():
    async def work(batcher: Batcher) -> None:
        operation = Noting()
        first = await held(batcher, operation)
        others = [asyncio.create_task(ask(batcher, operation, each)) for each in ("aa", "bbbbbbbb", "cc", "dddd", "ee")]
        await asyncio.sleep(0.05)
        operation.may_end.set()
        assert await first == ["first"]
        assert await asyncio.gather(*others) == [["aa"], ["bbbbbbbb"], ["cc"], ["dddd"], ["ee"]]
        assert operation.batches == [["first"], ["aa", "cc", "ee", "dddd"], ["bbbbbbbb"]]

    with_batcher(work)


def test_what_is_asked_otherwise_is_computed_by_itself():
    async def work(batcher: Batcher) -> None:
        one, other = Noting("a"), Noting("b")
        other.may_end.set()
        first = await held(batcher, one)
        tasks = [asyncio.create_task(ask(batcher, each, "x")) for each in (one, other, one, other)]
        await asyncio.sleep(0.05)
        one.may_end.set()
        await asyncio.gather(first, *tasks)
        assert (one.batches, other.batches) == ([["first"], ["x", "x"]], [["x", "x"]])

    with_batcher(work)


def test_an_input_that_fails_does_not_spoil_those_beside_it():
    async def work(batcher: Batcher) -> None:
        operation = Noting()
        first = await held(batcher, operation)
        good, bad = (asyncio.create_task(ask(batcher, operation, each)) for each in ("good", "bad"))
        await asyncio.sleep(0.05)
        operation.may_end.set()
        await first
        assert await good == ["good"]
        with pytest.raises(ValueError, match="bad"):
            await bad
        assert batcher.admitted == 0

    with_batcher(work)


def test_what_is_cancelled_while_it_waits_is_not_computed():
    async def work(batcher: Batcher) -> None:
        operation = Noting()
        first = await held(batcher, operation)
        gone, stays = (asyncio.create_task(ask(batcher, operation, each)) for each in ("gone", "stays"))
        await asyncio.sleep(0.05)
        gone.cancel()
        await asyncio.sleep(0.05)
        operation.may_end.set()
        await asyncio.gather(first, stays)
        assert operation.batches == [["first"], ["stays"]]
        assert batcher.admitted == 0

    with_batcher(work)


def test_who_would_wait_for_too_long_is_refused_at_once():
    """By the seconds that all which is here should take, and not by how many are here."""

    async def work(batcher: Batcher) -> None:
        operation = Noting()
        first = await held(batcher, operation)
        second = [asyncio.create_task(ask(batcher, operation, each)) for each in ("bbb", "cccc")]
        await asyncio.sleep(0.05)
        assert batcher.backlog == pytest.approx(12 * 0.5)
        with pytest.raises(RefusalError) as refused:
            await ask(batcher, operation, "d")
        assert (refused.value.status, refused.value.headers["retry-after"]) == (429, "1")
        operation.may_end.set()
        await asyncio.gather(first, *second)
        assert await ask(batcher, operation, "d") == ["d"]
        assert batcher.backlog == pytest.approx(0)
        for _ in range(30):
            await ask(batcher, operation, "d" * 10)
        several = [asyncio.create_task(ask(batcher, operation, "eeee")) for _ in range(50)]
        assert await asyncio.gather(*several) == [["eeee"]] * 50, "it has been quick of late"

    with_batcher(work, patience=5.5, pace=0.5)


def test_what_takes_longer_than_computing_counts_too():
    """A machine that has other work to do lets everybody wait for longer than its pace says."""

    async def work(batcher: Batcher) -> None:
        operation = Noting()
        operation.may_end.set()

        async def slow() -> None:
            request = batcher.begin(operation, 1)
            request.expected, request.began = 0.1, request.began - 0.4
            batcher.submit(request, operation.prepare(["a"]))
            await request.future
            batcher.end(request)

        for _ in range(100):
            await slow()
        request = batcher.begin(operation, 1)
        batcher._expect(request, 0.6)
        with pytest.raises(RefusalError, match="Try again"):
            batcher.require_room()
        batcher.end(request)
        batcher.require_room()

    with_batcher(work, patience=2.0)


def test_too_many_waiting_tokens_refuse_at_once():
    async def work(batcher: Batcher) -> None:
        operation = Noting()
        first = await held(batcher, operation)
        second = asyncio.create_task(ask(batcher, operation, "b" * 15))
        await asyncio.sleep(0.05)
        with pytest.raises(RefusalError, match="Try again"):
            await ask(batcher, operation, "c" * 6)
        operation.may_end.set()
        assert await asyncio.gather(first, second) == [["first"], ["b" * 15]]

    with_batcher(work, queue_tokens=20)


def test_a_computation_that_does_not_end_does_not_keep_the_server_from_ending():
    operation = Noting()

    async def work(batcher: Batcher) -> None:
        first = await held(batcher, operation)
        await asyncio.to_thread(batcher.close, 0.1)
        assert not first.done()
        operation.may_end.set()
        assert await first == ["first"]

    with_batcher(work)
