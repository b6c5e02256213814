"""Text that a GPT writes, over HTTP."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

import bertkit
from bertkit.infer import Sampling
from bertkit.serve import Listener, Write
from servers import Server, running

ROUTE = "/v1/models/writes/generate"
PROMPTS = ["The import statement", "A class", "天气 is", "return the value of"]


@pytest.fixture(scope="module")
def writer(folders: Path) -> Any:
    return bertkit.load(folders / "writes", threads=1)


def ask(client: httpx.Client, **asked: Any) -> list[dict[str, Any]]:
    done = client.post(ROUTE, json=asked)
    assert done.status_code == 200, done.text
    found: list[dict[str, Any]] = done.json()["answers"]
    return found


def test_what_is_written_is_what_python_gives(client, writer):
    answers = ask(client, inputs=PROMPTS, max_tokens=12)
    expected = writer(PROMPTS, max_new_tokens=12)
    assert [answer["prompt"] for answer in answers] == PROMPTS
    assert [answer["texts"][0]["text"] for answer in answers] == [texts[0].text for texts in expected]
    assert [answer["texts"][0]["ended"] for answer in answers] == [texts[0].ended for texts in expected]


def test_several_are_drawn_and_the_seed_brings_them_back(client, writer):
    settings = {"temperature": 0.9, "top_p": 0.9, "seed": 3, "samples": 3}
    (answer,) = ask(client, inputs="A class", max_tokens=8, **settings)
    (again,) = ask(client, inputs="A class", max_tokens=8, **settings)
    assert answer == again
    assert [text["text"] for text in answer["texts"]] == [
        text.text for text in writer("A class", max_new_tokens=8, **settings)
    ]


def test_a_stream_comes_in_pieces_that_are_the_whole(client, writer):
    with client.stream("POST", ROUTE, json={"inputs": PROMPTS[0], "max_tokens": 24, "stream": True}) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "application/x-ndjson"
        pieces = [json.loads(line) for line in answer.iter_lines()]
    (expected,) = writer(PROMPTS[0], max_new_tokens=24)
    assert "".join(piece["text"] for piece in pieces) == expected.text
    assert len(pieces) > 3
    assert pieces[-1]["ended"] == expected.ended
    assert not any("ended" in piece for piece in pieces[:-1])


def test_many_who_ask_at_once_get_their_own(client, server: Server, writer):
    expected = {prompt: writer(prompt, max_new_tokens=10)[0].text for prompt in PROMPTS}

    def one(number: int) -> tuple[str, str]:
        prompt = PROMPTS[number % len(PROMPTS)]
        with server.client() as own:
            return prompt, ask(own, inputs=prompt, max_tokens=10)[0]["texts"][0]["text"]

    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(one, range(24)))
    assert [text for _, text in found] == [expected[prompt] for prompt, _ in found]


def test_a_reader_who_goes_away_stops_the_writing(writer):
    heard = []

    def hear(piece: dict[str, Any]) -> None:
        heard.append(piece)
        if len(heard) == 3:
            listener.gone.set()

    listener = Listener(hear)
    operation = Write(writer, Sampling(max_new_tokens=100), listener)
    (answer,) = operation.compute(operation.prepare(["A class"]))
    assert len(heard) == 3
    assert answer["texts"] == []


@pytest.mark.parametrize("beams", [1, 3])
def test_what_nobody_waits_for_is_not_written(writer, beams: int):
    listener = Listener()
    listener.gone.set()
    operation = Write(writer, Sampling(max_new_tokens=100, beams=beams), listener)
    assert operation.compute(operation.prepare(["A class"])) == [{"prompt": "A class", "texts": []}]


def test_a_text_that_broke_off_is_not_told_again_from_its_beginning(writer):
    """What goes wrong in a batch is tried again one by one."""
    heard: list[dict[str, Any]] = []

    def hear(piece: dict[str, Any]) -> None:
        heard.append(piece)
        if len(heard) == 3:
            raise OSError("the reader's buffer is full")

    operation = Write(writer, Sampling(max_new_tokens=20), Listener(hear))
    pieces = operation.prepare(["A class"])
    with pytest.raises(OSError, match="full"):
        operation.compute(pieces)
    with pytest.raises(RuntimeError, match="broke off"):
        operation.compute(pieces)
    assert len(heard) == 3


def test_beams_count_as_what_they_cost(writer):
    alone, several = (
        Write(writer, Sampling(max_new_tokens=50, beams=beams), Listener()).prepare(["A class"])[0].tokens
        for beams in (1, 8)
    )
    assert several - alone == 7 * 50


def test_a_text_that_takes_too_long_does_not_keep_the_next_waiting(folders: Path):
    with (
        running(folders / "writes", "--reload", "0", "--limit", "request_seconds=1") as server,
        server.client() as client,
    ):
        late = client.post(ROUTE, json={"inputs": ["A class"] * 8, "max_tokens": 240, "beams": 32})
        assert late.status_code == 504, late.text
        assert ask(client, inputs="A class", max_tokens=1)[0]["texts"][0]["tokens"] == 1
        assert server.stop() == 0


def test_who_comes_after_a_reader_that_went_away_is_answered(client):
    with client.stream("POST", ROUTE, json={"inputs": "A class", "max_tokens": 250, "stream": True}) as answer:
        next(answer.iter_lines())
    (soon,) = ask(client, inputs="A class", max_tokens=1)
    assert soon["texts"][0]["tokens"] == 1
    assert client.get("/v1/models/writes").json()["queue"] == 0


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"inputs": ""}, "prompt 1 is empty"),
        ({"inputs": "a " * 400}, "prompt 1 has"),
        ({"inputs": "a", "beams": 3, "temperature": 1.0}, "with 3 beams"),
        ({"inputs": "a", "top_p": 0.5}, "where nothing is drawn"),
        ({"inputs": "a", "max_tokens": 0}, "max_tokens"),
        ({"inputs": "a", "stop": [""]}, "stop"),
        ({"inputs": ["a", "b"], "stream": True}, "only one text of one prompt is streamed"),
        ({"inputs": "", "stream": True}, "prompt 1 is empty"),
    ],
)
def test_what_cannot_be_written_is_told(client, asked, told):
    done = client.post(ROUTE, json=asked)
    assert done.status_code == 422, done.text
    assert told in done.json()["error"]["message"]


def test_a_model_that_reads_both_ways_does_not_write_and_a_gpt_fills_no_masks(client):
    done = client.post("/v1/models/words/generate", json={"inputs": "a"})
    assert (done.status_code, done.json()["error"]["message"]) == (422, "words cannot write: it is for fill-mask.")
    done = client.post("/v1/models/writes/fill-mask", json={"inputs": "a"})
    assert done.status_code == 422
    assert "has no mask" in done.json()["error"]["message"]
    assert client.get("/v1/models/writes").json()["operations"] == ["generate", "embed", "attention"]
