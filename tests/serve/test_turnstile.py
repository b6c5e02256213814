"""A gate for a few in each turn of the event loop."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from bertkit.serve import Turnstile


@given(width=st.integers(1, 5), arrivals=st.lists(st.integers(0, 12), min_size=1, max_size=6))
def test_a_few_pass_in_each_turn_and_all_in_their_order(width: int, arrivals: list[int]):
    """`arrivals`: how many come in each turn."""

    async def run() -> None:
        turnstile, loop = Turnstile(width), asyncio.get_running_loop()
        turn, passed = 0, []

        def count() -> None:
            nonlocal turn
            turn += 1
            loop.call_soon(count)

        async def come(number: int) -> None:
            await turnstile.wait()
            passed.append((number, turn))

        loop.call_soon(count)
        tasks = []
        for some in arrivals:
            tasks += [asyncio.create_task(come(len(tasks) + each)) for each in range(some)]
            await asyncio.sleep(0)
        await asyncio.gather(*tasks)
        assert [number for number, _ in passed] == list(range(len(tasks)))
        turns = [when for _, when in passed]
        # Twice as many, where those who waited go on and others come, in one turn.
        assert all(turns.count(when) <= 2 * width for when in turns)

    asyncio.run(run())


def test_few_do_not_wait_at_all():
    async def run() -> None:
        turnstile = Turnstile(3)
        for _ in range(5):
            for _ in range(3):
                waiting = turnstile.wait()
                try:
                    waiting.send(None)
                except StopIteration:
                    continue
                raise AssertionError("it waited")
            await asyncio.sleep(0)

    asyncio.run(run())


def test_who_has_gone_keeps_nobody_waiting():
    async def run() -> None:
        turnstile = Turnstile(1)
        tasks = [asyncio.create_task(turnstile.wait()) for _ in range(6)]
        await asyncio.sleep(0)
        for gone in tasks[1:5]:
            gone.cancel()
        await asyncio.wait_for(tasks[5], 5)
        assert all(task.cancelled() for task in tasks[1:5])

    asyncio.run(run())
