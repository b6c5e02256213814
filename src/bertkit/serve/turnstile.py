"""A gate that lets a few through in each turn of the event loop, in their order.

Parsing a request and checking it takes a millisecond. If many come at once, whoever comes after them would wait for all
of that, even to hear no more than that the server is too busy. Between two turns the loop sees who else has come.
"""

from __future__ import annotations

import asyncio
from collections import deque


class Turnstile:
    def __init__(self, width: int) -> None:
        self.width = width
        self._left = width
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def wait(self) -> None:
        """At once, if few came in this turn."""
        if self._left == self.width:
            asyncio.get_running_loop().call_soon(self._turn)
        if self._left:
            self._left -= 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        await turn

    def _turn(self) -> None:
        let_through = 0
        while self._waiting and let_through < self.width:
            turn = self._waiting.popleft()
            if not turn.done():  # who waited may have gone
                turn.set_result(None)
                let_through += 1
        # They go on in the next turn, and who comes before that shall not overtake them.
        self._left = 0 if let_through else self.width
        if let_through:
            asyncio.get_running_loop().call_soon(self._turn)
