"""Many at once: every answer is that of the single request, the queue is bounded, and who has gone costs nothing."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import random
import re
import socket
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import bertkit
from servers import Server, close, running

PREDICT = "/v1/models/classify/predict"
NEW_TOKENS = 8
Question = tuple[str, Any]


def mixed(english: list[str], count: int, seed: int) -> list[Question]:
    """Inputs of all tasks and lengths; each text has a number of its own in it."""
    noise = random.Random(seed)
    found: list[Question] = []
    for number in range(count):
        words = " ".join(english[noise.randrange(500)] for _ in range(noise.choice((1, 1, 2, 4)))).split()
        text = f"{number} " + " ".join(words[: noise.randint(1, 60)])
        kinds: list[Question] = [
            ("classify/predict", text),
            ("regress/predict", {"text": text, "pair": f"number {number}"}),
            ("tag/predict", text.split()),
            ("qa/predict", {"question": f"what is {number}?", "context": text}),
            ("choice/predict", {"premise": text, "endings": [f"ending {number}", "another"]}),
            ("cosine/predict", [text, f"number {number}"]),
            ("words/embed", text),
            ("words/fill-mask", f"{text} [MASK]"),
            ("writes/generate", " ".join(text.split()[:6])),
            ("words/embed of words", text),
            ("words/attention", text),
            ("classify/explain", " ".join(text.split()[:8])),  # long ones are not explained
        ]
        found.append(noise.choice(kinds))
    return found


ALONE = ("attention", "explain")
"""Of one text a request."""


def route(path: str) -> str:
    return f"/v1/models/{path.split()[0]}"


def body_for(path: str, values: list[Any]) -> dict[str, Any]:
    operation = path.split("/")[1]
    if operation in ALONE:
        (text,) = values
        return {"text": text, **({"layer": 0, "head": 1} if operation == "attention" else {})}
    more = {"generate": {"max_tokens": NEW_TOKENS}, "embed of words": {"level": "word"}}
    return {"inputs": values, **more.get(operation, {})}


def single_answers(server: Server, folders: Path, questions: list[Question]) -> list[Any]:
    """Computed here, one by one. What Python gives in another form is asked of the server, one by one, before the
    others come."""

    @functools.cache
    def model(name: str) -> Any:
        return (bertkit.load_encoder if name == "words" else bertkit.load)(folders / name, threads=1)

    def answer(client: httpx.Client, path: str, value: Any) -> Any:
        name, operation = path.split("/")
        if operation == "predict":
            return model(name)([value])[0]
        if operation == "generate":
            (whole,) = model(name)(value, max_new_tokens=NEW_TOKENS)
            return {"prompt": value, "texts": [{"text": whole.text, "ended": whole.ended, "tokens": len(whole.ids)}]}
        if operation == "embed":
            return {"text": value, "vector": model(name).embed(value).tolist()}
        if operation == "fill-mask":
            masks = model(name).fill_mask(value)
            told = [[{"token": each.token, "probability": each.probability} for each in mask] for mask in masks]
            return {"text": value, "masks": told}
        done = client.post(route(path), json=body_for(path, [value]))
        assert done.status_code == 200, done.text
        return done.json()["answers"][0]

    with server.client() as client:
        return [answer(client, path, value) for path, value in questions]


def ask_all(server: Server, questions: list[Question], at_once: int) -> list[Any]:
    """All of them, so many at a time; some alone, some together in a request."""

    async def run() -> list[Any]:
        found: list[Any] = [None] * len(questions)
        limits = httpx.Limits(max_connections=at_once, max_keepalive_connections=at_once)
        turn = asyncio.Semaphore(at_once)
        async with httpx.AsyncClient(base_url=server.url, timeout=120, limits=limits) as client:

            async def ask(numbers: list[int]) -> None:
                async with turn:
                    path = questions[numbers[0]][0]
                    inputs = [questions[number][1] for number in numbers]
                    done = await client.post(route(path), json=body_for(path, inputs))
                    assert done.status_code == 200, done.text
                    for number, answer in zip(numbers, done.json()["answers"], strict=True):
                        found[number] = answer

            by_path: dict[str, list[int]] = {}
            groups: list[list[int]] = []
            for number, (path, _) in enumerate(questions):
                if number % 3 or path.endswith(ALONE):
                    groups.append([number])
                else:
                    by_path.setdefault(path, []).append(number)
            groups += [each[i : i + 5] for each in by_path.values() for i in range(0, len(each), 5)]
            await asyncio.gather(*map(ask, groups))
        return found

    return asyncio.run(run())


def check_answers(server: Server, folders: Path, english: list[str], count: int) -> None:
    questions = mixed(english, count, seed=count)
    expected = single_answers(server, folders, questions)
    found = ask_all(server, questions, at_once=64)
    wrong = [number for number in range(count) if not close(found[number], expected[number])]
    assert not wrong, [(questions[number], found[number], expected[number]) for number in wrong[:3]]


def test_answers_under_load_are_those_of_single_requests(server: Server, folders: Path, english: list[str]):
    check_answers(server, folders, english, 300)
    with server.client() as client:
        sizes = re.findall(r'bertkit_batch_inputs_bucket\{le="1.0",model="(\w+)"\} (\S+)', client.get("/metrics").text)
        counts = re.findall(r'bertkit_batch_inputs_count\{model="(\w+)"\} (\S+)', client.get("/metrics").text)
    alone, batches = ({name: float(value) for name, value in each} for each in (sizes, counts))
    assert sum(alone.values()) < sum(batches.values())  # so some were computed together


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_ten_thousand_answers_are_those_of_single_requests(server: Server, folders: Path, english: list[str]):
    check_answers(server, folders, english, 10_000)


@pytest.fixture(scope="module")
def narrow(folders: Path) -> Iterator[Server]:
    """One with a short queue, and a deadline of some seconds."""
    limits = ("items=16", "request_seconds=4")
    with running(
        *(folders / "classify", "--reload", "0", "--wait", "10ms"), *(p for limit in limits for p in ("--limit", limit))
    ) as started:
        yield started


def flood(server: Server, seconds: float, clients: int) -> Counter[int]:
    async def run() -> Counter[int]:
        seen: Counter[int] = Counter()
        until = asyncio.get_running_loop().time() + seconds
        limits = httpx.Limits(max_connections=clients, max_keepalive_connections=clients)
        async with httpx.AsyncClient(base_url=server.url, timeout=60, limits=limits) as client:

            async def ask() -> None:
                while asyncio.get_running_loop().time() < until:
                    done = await client.post(PREDICT, json={"inputs": ["value " * 50] * 4})
                    seen[done.status_code] += 1
                    if done.status_code == 429:
                        assert 1 <= int(done.headers["retry-after"]) <= 60
                        assert done.json()["error"]["type"] == "too_busy"

            await asyncio.gather(*(ask() for _ in range(clients)))
        return seen

    return asyncio.run(run())


def resident(server: Server) -> int:
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+) kB", status)[1])  # type: ignore[index]


def test_a_flood_is_answered_or_shed(narrow: Server):
    seen = flood(narrow, 2, clients=40)
    assert set(seen) == {200, 429}
    with narrow.client() as client:
        assert client.post(PREDICT, json={"inputs": "a"}).status_code == 200


def test_who_is_shed_is_told_so_before_sending_a_body(narrow: Server):
    head = f"POST {PREDICT} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n"

    async def told_while_full() -> bytes:
        async with httpx.AsyncClient(base_url=narrow.url, timeout=60) as client:
            heard, enough = b"", asyncio.Event()

            async def fill() -> None:
                while not enough.is_set():
                    await client.post(PREDICT, json={"inputs": ["value " * 50] * 16})

            filling = asyncio.gather(fill(), fill(), fill())
            for _ in range(500):
                reader, writer = await asyncio.open_connection("127.0.0.1", narrow.port)
                writer.write(head.encode())
                with contextlib.suppress(TimeoutError):
                    heard = await asyncio.wait_for(reader.read(1000), 0.05)
                writer.close()
                if heard:
                    break
            enough.set()
            await filling
            return heard

    heard = asyncio.run(told_while_full())
    assert heard.startswith(b"HTTP/1.1 429")
    assert b"retry-after: " in heard


def test_who_is_refused_at_the_door_goes_on_with_the_same_connection(narrow: Server):
    """Several requests are sent at once, with bodies; each is answered in its turn, and health whatever else is."""
    body = b'{"inputs": ["' + b"value " * 50 + b'"]}'
    head = f"POST {PREDICT} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    ask = head.encode() + b"content-length: %d\r\n\r\n" % len(body) + body
    health = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"

    async def answers(reader: asyncio.StreamReader, count: int) -> list[int]:
        found = []
        for _ in range(count):
            said = await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(int(re.search(rb"content-length: (\d+)", said)[1]))  # type: ignore[index]
            found.append(int(said.split()[1]))
        return found

    async def run() -> Counter[int]:
        seen: Counter[int] = Counter()
        connections = [await asyncio.open_connection("127.0.0.1", narrow.port) for _ in range(40)]
        for _ in range(3):
            for _, writer in connections:
                writer.write(ask + ask + health)
            for reader, _ in connections:
                first, second, last = await asyncio.wait_for(answers(reader, 3), 60)
                assert last == 200
                seen += Counter((first, second))
        for _, writer in connections:
            writer.close()
        return seen

    assert set(asyncio.run(run())) == {200, 429}


def test_files_of_the_page_are_answered_and_not_given_up(narrow: Server):
    gone = count(narrow, "bertkit_clients_gone_total")
    for _ in range(5):
        with narrow.client() as client:
            assert client.get("/main.js").status_code == 200
    assert count(narrow, "bertkit_clients_gone_total") == gone


@pytest.mark.slow
def test_a_flood_of_half_a_minute_leaves_nothing_behind(narrow: Server):
    flood(narrow, 3, clients=100)
    before = resident(narrow)
    seen = flood(narrow, 30, clients=100)
    assert set(seen) == {200, 429}
    with narrow.client() as client:
        assert client.post(PREDICT, json={"inputs": "a"}).status_code == 200
    assert resident(narrow) < before * 1.1


def count(server: Server, name: str) -> float:
    with server.client() as client:
        lines = client.get("/metrics").text.splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith(name))


def body_of(items: int, words: int) -> bytes:
    body = b'{"inputs": [' + b",".join([b'"' + b"value " * words + b'"'] * items) + b"]}"
    head = f"POST {PREDICT} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    return head.encode() + b"content-length: %d\r\n\r\n" % len(body) + body


def test_what_a_client_that_has_gone_asked_for_is_not_computed(hasty: Server):
    before = {name: count(hasty, f"bertkit_{name}_total") for name in ("inputs", "inputs_dropped", "clients_gone")}
    for _ in range(4):
        with socket.create_connection(("127.0.0.1", hasty.port)) as gone:
            gone.sendall(body_of(250, 60))
    with hasty.client() as client:
        assert client.post(PREDICT, json={"inputs": "a"}).status_code == 200
    after = {name: count(hasty, f"bertkit_{name}_total") - were for name, were in before.items()}
    assert after["clients_gone"] == 4
    assert after["inputs"] < 500  # of a thousand: what was begun before they went
    assert after["inputs"] + after["inputs_dropped"] <= 1001
    assert count(hasty, "bertkit_queue_inputs") == 0


def test_a_request_that_is_not_answered_in_time_is_told_so(hasty: Server):
    dropped = count(hasty, "bertkit_inputs_dropped_total")
    with hasty.client() as client:
        done = client.post("/v1/models/words/embed", json={"inputs": ["value " * 1000] * 128})
        assert done.status_code == 504, done.text[:200]
        assert done.json()["error"]["message"] == "There was no answer within 2 s."
        assert client.post("/v1/models/words/embed", json={"inputs": "a"}).status_code == 200
    assert count(hasty, "bertkit_inputs_dropped_total") > dropped


def test_a_request_that_takes_long_does_not_stop_the_others(narrow: Server):
    async def run() -> list[int]:
        async with httpx.AsyncClient(base_url=narrow.url, timeout=60) as client:
            long = asyncio.create_task(client.post(PREDICT, json={"inputs": ["value " * 60] * 12}))
            others = [(await client.get("/healthz")).status_code for _ in range(20)]
            return [*others, (await long).status_code]

    assert set(asyncio.run(run())) == {200}
