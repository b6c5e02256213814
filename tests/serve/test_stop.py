"""A server that is told to stop finishes what it has accepted, refuses the rest, and ends."""

from __future__ import annotations

import asyncio
import re
import signal
from collections import Counter
from pathlib import Path

import httpx
import pytest

from servers import Server, running

PREDICT = "/v1/models/classify/predict"


def stop_under_load(server: Server, clients: int) -> Counter[str]:
    """Clients that ask until they find nobody any more; what they were told."""

    async def run() -> Counter[str]:
        seen: Counter[str] = Counter()
        enough = asyncio.Event()

        async def ask() -> None:
            async with httpx.AsyncClient(base_url=server.url, timeout=60) as client:
                while True:
                    try:
                        done = await client.post(PREDICT, json={"inputs": ["value " * 40] * 3})
                    except httpx.ConnectError:
                        seen["nobody there"] += 1
                        return
                    except (httpx.ReadError, httpx.WriteError, httpx.RemoteProtocolError):
                        seen["closed"] += 1  # a kept connection, at the moment at which it was used again
                        continue
                    seen[str(done.status_code)] += 1
                    if seen["200"] > 3 * clients:
                        enough.set()

        asking = asyncio.gather(*(ask() for _ in range(clients)))
        await enough.wait()
        server.process.send_signal(signal.SIGTERM)
        await asking
        return seen

    return asyncio.run(run())


def check_stop(folders: Path) -> None:
    with running(folders / "classify", "--reload", "0") as server:
        seen = stop_under_load(server, clients=16)
        assert server.process.wait(60) == 0
        said = re.search(r"stopped: (\d+) requests accepted, (\d+) answered, (\d+) given up", server.said)
        assert said is not None, server.said
        accepted, answered, given_up = map(int, said.groups())
        assert seen["200"] == accepted == answered, (seen, server.said)
        assert given_up == 0
        assert set(seen) <= {"200", "503", "closed", "nobody there"}
        assert "Traceback" not in server.said


@pytest.mark.parametrize("time", range(2))
def test_no_accepted_request_is_lost_when_a_server_is_stopped(folders: Path, time: int):
    check_stop(folders)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("time", range(20))
def test_no_accepted_request_is_lost_in_twenty_stops(folders: Path, time: int):
    check_stop(folders)


def test_a_server_that_stops_says_so(folders: Path):
    with running(folders / "classify", "--reload", "0") as server, server.client() as client:
        assert client.get("/readyz").status_code == 200
        server.process.send_signal(signal.SIGTERM)
        told = client.get("/readyz")
        while told.status_code == 200:
            told = client.get("/readyz")
        assert told.status_code == 503
        done = client.post(PREDICT, json={"inputs": "a"})
        assert done.status_code == 503
        assert done.headers["connection"] == "close"
        assert server.process.wait(60) == 0
