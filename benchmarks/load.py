"""Clients that ask a server over and over on connections that they keep, as soon as they are answered or at a pace.

Plain sockets, and as little Python as will do: the clients share the machine with the server that they measure.
"""

from __future__ import annotations

import asyncio
import json
import time
from math import ceil
from typing import Any, NamedTuple


class Reply(NamedTuple):
    status: int
    began: float
    """Seconds after the first request."""
    seconds: float
    """Until its answer was there, whole."""


class Asker(asyncio.Protocol):
    """A client: sends the next request when the last is answered, or at its next turn, which comes `every` so many
    seconds, until it is told to stop. Turns are kept whatever was late: counted from the last request, those of many
    clients would come to lie together wherever something stood still, and stay so."""

    def __init__(
        self, requests: list[bytes], first: int, step: int, every: float, replies: list[Reply], began: float
    ) -> None:
        self.requests, self.number, self.step, self.every = requests, first, step, every
        self.replies, self.began = replies, began
        self.stopped = asyncio.get_running_loop().create_future()
        self.stopping = False
        self.buffer = b""
        self.sent = self.turn = 0.0

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        wait = self.every * self.number / self.step  # not all at one moment, over and over
        self.turn = time.perf_counter() + wait
        asyncio.get_running_loop().call_later(wait, self.ask)

    def ask(self) -> None:
        if self.stopping:
            self.transport.close()
            return
        self.transport.write(self.requests[self.number % len(self.requests)])
        self.number += self.step
        self.sent = time.perf_counter()

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        end = self.buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        head = self.buffer[:end].lower()
        size = int(head.split(b"content-length:", 1)[1].split(b"\r\n", 1)[0])
        if len(self.buffer) < end + 4 + size:
            return
        self.buffer = b""
        now = time.perf_counter()
        self.replies.append(Reply(int(head[9:12]), self.sent - self.began, now - self.sent))
        if self.every and not self.stopping:
            self.turn += self.every * ceil((now - self.turn) / self.every)
            asyncio.get_running_loop().call_later(self.turn - now, self.ask)
        else:
            self.ask()

    def connection_lost(self, problem: Exception | None) -> None:
        if problem is not None or not self.stopping:
            self.stopped.set_exception(problem or ConnectionError("the server closed the connection"))
        else:
            self.stopped.set_result(None)


def request(path: str, content: Any) -> bytes:
    body = json.dumps(content).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    return head.encode() + b"\r\n\r\n" + body


def ask_for(seconds: float, port: int, requests: list[bytes], clients: int, every: float = 0) -> list[Reply]:
    """Every reply to so many clients in so many seconds; all of them have the requests in turn. Each asks at once when
    it is answered, or at most `every` so many seconds."""

    async def run() -> list[Reply]:
        replies: list[Reply] = []
        began = time.perf_counter()
        loop = asyncio.get_running_loop()
        askers = []
        for number in range(clients):
            _, asker = await loop.create_connection(
                lambda n=number: Asker(requests, n, clients, every, replies, began),  # type: ignore[misc]
                "127.0.0.1",
                port,
            )
            askers.append(asker)
        await asyncio.sleep(seconds)
        for asker in askers:
            asker.stopping = True
        await asyncio.gather(*(asker.stopped for asker in askers))
        return replies

    return asyncio.run(run())
