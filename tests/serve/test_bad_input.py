"""What a server says to those who ask wrongly: the right status, a sentence, and nothing of its insides. Everybody else
is answered meanwhile."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from servers import Server

PREDICT = "/v1/models/classify/predict"


def problem(done: httpx.Response, status: int, told: str) -> str:
    assert done.status_code == status, done.text
    error = done.json()["error"]
    assert re.search(told, error["message"]), error
    assert not re.search(r"Traceback|/tmp|\.py", done.text)
    return str(error["type"])


def post(client: httpx.Client, body: str | bytes, path: str = PREDICT) -> httpx.Response:
    return client.post(path, content=body, headers={"content-type": "application/json"})


def deep(depth: int) -> str:
    return '{"inputs": ' + "[" * depth + "]" * depth + "}"


BODIES: dict[str, tuple[str | bytes, int, str]] = {
    "nothing": (b"", 422, "must be JSON"),
    "half of a body": ('{"inputs": ', 400, "not JSON"),
    "no JSON": ("inputs=a", 400, "not JSON"),
    "JSON with a comma too many": ('{"inputs": ["a",]}', 400, "not JSON"),
    "not UTF-8": (b'{"inputs": "\xff"}', 400, "not JSON"),
    "a lone surrogate": ('{"inputs": "a \\ud800 b"}', 400, "surrogate"),
    "NUL in a text": ('{"inputs": "a \\u0000 b"}', 422, "NUL"),
    "NUL as it is": (b'{"inputs": "a \0 b"}', 400, "not JSON"),
    "NaN": ('{"inputs": NaN}', 400, "not JSON"),
    "a number of a thousand digits": ('{"inputs": ' + "9" * 1000 + "}", 422, "inputs"),
    "a list and no object": ('["a"]', 422, "object|dictionary"),
    "a string and no object": ('"a"', 422, "object|dictionary"),
    "null": ("null", 422, "."),
    "no inputs": ("{}", 422, "inputs: Field required"),
    "a field that nobody knows": ('{"inputs": "a", "input": "b"}', 422, "input: "),
    "a number for a text": ('{"inputs": 7}', 422, "inputs"),
    "a number among texts": ('{"inputs": ["a", 7]}', 422, "inputs.1"),
    "null among texts": ('{"inputs": [null]}', 422, "inputs.0"),
    "an empty list": ('{"inputs": []}', 422, "no inputs"),
    "an empty text": ('{"inputs": " "}', 422, "input 1 is empty"),
    "an empty text among others": ('{"inputs": ["a", ""]}', 422, "input 2 is empty"),
    "three texts for a pair": ('{"inputs": [["a", "b", "c"]]}', 422, "input 1"),
    "fields of another task": ('{"inputs": {"question": "a", "context": "b"}}', 422, "input 1"),
    "10,000 items": (json.dumps({"inputs": ["a"] * 10_000}), 413, "256 inputs, and this one has 10,000"),
    "a text that is too long": (json.dumps({"inputs": "a " * 60_000}), 413, "120,000 characters"),
    "a list of 600,000 numbers": ('{"inputs": [' + "1," * 600_000 + "1]}", 413, "32,768 values"),
    "a list of lists of numbers": (json.dumps({"inputs": [[1] * 30_000]}), 422, "inputs.0"),
    "an object with 100,000 keys": (json.dumps({str(n): 1 for n in range(100_000)}), 413, "32,768 values"),
    "half a million empty lists": ('{"inputs": [' + "[]," * 500_000 + "[]]}", 413, "32,768 values"),
    "30,000 numbers": (json.dumps({"inputs": [1] * 30_000}), 422, "inputs.0"),
    "10 MB of text": (json.dumps({"inputs": "a" * 10_000_000}), 413, "2,097,152 bytes"),
    "deep nesting": (deep(100_000), 400, "not JSON: recursion"),
    "nesting just too deep": (deep(150), 422, "inputs"),
    "an object nested deep": ('{"inputs": ' * 5000 + "1" + "}" * 5000, 400, "not JSON: recursion"),
}


@pytest.mark.parametrize("kind", BODIES)
def test_a_bad_body_is_refused_with_a_sentence(client: httpx.Client, kind: str):
    body, status, told = BODIES[kind]
    problem(post(client, body), status, told)


ASKED: dict[str, tuple[str, dict[str, Any], str]] = {
    "no mask": ("words/fill-mask", {"inputs": "no mask here"}, r"no \[MASK\]"),
    "no guesses": ("words/fill-mask", {"inputs": "[MASK]", "k": 0}, "k: "),
    "guesses of a model without a head for them": ("classify/fill-mask", {"inputs": "[MASK]"}, "no masked-word head"),
    "predictions of a pretrained model": ("words/predict", {"inputs": "a"}, "not fine-tuned"),
    "a pooling that nobody knows": ("words/embed", {"inputs": "a", "pooling": "sum"}, "pooling"),
    "layers that nobody knows": ("words/embed", {"inputs": "a", "layers": "first"}, "layers 'first'"),
    "a layer that is not there": ("words/embed", {"inputs": "a", "layers": "99"}, "no layer 99"),
    "pooling of words": ("words/embed", {"inputs": "a", "level": "word", "pooling": "cls"}, "for texts"),
    "vectors of nothing": ("words/embed", {"inputs": ""}, "empty"),
    "text longer than a model, when that is an error": (
        "words/embed",
        {"inputs": "a " * 900, "long": "error"},
        "tokens",
    ),
    "more tokens than are allowed": ("words/embed", {"inputs": "a " * 20_000}, "20,002 tokens|tokens, and 16,384"),
    "attention of a long text in all layers": (
        "words/attention",
        {"text": "a " * 511, "truncate": True},
        "Name a layer",
    ),
    "attention of a text longer than the model": (
        "words/attention",
        {"text": "a " * 900, "layer": 0, "head": 0},
        "900|902",
    ),
    "attention of a head that is not there": ("words/attention", {"text": "a", "head": 77}, "no head 77"),
    "a question without a passage": ("qa/predict", {"inputs": {"question": "a"}}, "input 1"),
    "one ending to choose from": ("choice/predict", {"inputs": {"premise": "a", "endings": ["b"]}}, "input 1"),
    "no words to tag": ("tag/predict", {"inputs": [[]]}, "no words"),
}


@pytest.mark.parametrize("kind", ASKED)
def test_what_a_model_cannot_answer_is_refused_with_a_sentence(client: httpx.Client, kind: str):
    path, asked, told = ASKED[kind]
    problem(client.post(f"/v1/models/{path}", json=asked), 422, told)


def test_an_unknown_model_is_refused_with_the_nearest_name(client: httpx.Client):
    assert problem(client.post("/v1/models/clasify/predict", json={"inputs": "a"}), 404, "classify") == "unknown_model"
    for name in ("..%2f..%2fetc", "%00", "a" * 5000, "%ff", "classify%2f..%2ftag"):
        problem(client.post(f"/v1/models/{name}/predict", json={"inputs": "a"}), 404, "No model|no such route")
    problem(client.post("/v1/embeddings", json={"model": "nobody", "input": "a"}), 404, "nobody")


def test_a_wrong_route_or_method_is_refused(client: httpx.Client):
    problem(client.get("/nowhere"), 404, "no such route")
    problem(client.get(PREDICT), 405, "another method")
    problem(client.delete("/v1/models"), 405, "another method")


def test_a_form_is_refused(client: httpx.Client):
    """What a page of somebody else's can send without asking the browser."""
    problem(client.post(PREDICT, data={"inputs": "a"}), 415, "JSON")
    problem(client.post(PREDICT, content='{"inputs": "a"}', headers={"content-type": "text/plain"}), 415, "JSON")
    packed = {"content-type": "application/json", "content-encoding": "gzip"}
    problem(client.post(PREDICT, content=b"\x1f\x8b", headers=packed), 415, "compressed")


def test_a_name_that_is_not_the_servers_is_refused(client: httpx.Client):
    """A page of evil.example whose name leads to 127.0.0.1."""
    problem(client.get("/v1/models", headers={"host": "evil.example"}), 421, "allow-host")
    problem(client.get("/healthz", headers={"host": "evil.example:80"}), 421, "allow-host")
    assert client.get("/v1/models", headers={"host": "localhost:1"}).status_code == 200
    assert client.get("/v1/models", headers={"host": "[::1]:1"}).status_code == 200
    for host in (
        "[::1",
        "evil.example@127.0.0.1",
        "127.0.0.1/evil.example",
        "127.0.0.1:80:80",
        "evil.example#@localhost",
    ):
        problem(client.get("/v1/models", headers={"host": host}), 400, "host")


def test_pages_of_other_servers_may_not_ask(client: httpx.Client):
    for origin in ("http://evil.example", "null", "http://127.0.0.1:1"):
        problem(client.post(PREDICT, json={"inputs": "a"}, headers={"origin": origin}), 403, "other servers")
        problem(client.get("/v1/models", headers={"origin": origin}), 403, "other servers")
    own = str(client.base_url).rstrip("/")
    assert client.post(PREDICT, json={"inputs": "a"}, headers={"origin": own}).status_code == 200


def raw(server: Server, *parts: bytes, pause: float = 0.0, seconds: float = 30, whole: bool = True) -> bytes:
    """What comes back for bytes as they are: until the server closes, or only the beginning of it."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=seconds) as sock:
        try:
            for part in parts:
                sock.sendall(part)
                time.sleep(pause)
        except (BrokenPipeError, ConnectionResetError):
            pass
        found = b""
        try:
            while data := sock.recv(65536):
                found += data
                if not whole:
                    break
        except ConnectionResetError:
            pass
        return found


HEAD = b"POST " + PREDICT.encode() + b" HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"


@pytest.mark.parametrize(
    "headers",
    [
        b"x: " + b"a" * 1_000_000 + b"\r\n\r\n",
        b"".join(b"x%d: %s\r\n" % (n, b"a" * 1000) for n in range(60)) + b"\r\n",
        b"".join(b"x%d: a\r\n" % n for n in range(150)) + b"\r\n",
    ],
    ids=["one of a megabyte", "many of a kilobyte", "very many"],
)
def test_too_many_headers_are_refused(server: Server, headers: bytes):
    said = raw(server, HEAD + headers)
    assert said.startswith(b"HTTP/1.1 431 ")
    assert b"Headers may be 100" in said


def test_a_path_of_a_megabyte_is_refused(server: Server):
    assert raw(server, b"GET /" + b"a" * 1_000_000 + b" HTTP/1.1\r\nhost: localhost\r\n\r\n").startswith(
        b"HTTP/1.1 431 "
    )


@pytest.mark.parametrize(
    "said",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET / HTTP/9.9\r\n\r\n",
        b"hello\r\n\r\n",
        HEAD + b"content-length: -1\r\n\r\n",
        HEAD + b"content-length: 3\r\ncontent-length: 4\r\n\r\nabc",
        HEAD + b"content-length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        HEAD + b"transfer-encoding: chunked\r\n\r\nzz\r\n",
        b"GET /v1/models HTTP/1.1\r\nconnection: close\r\n\r\n",
        b"GET /v1/models HTTP/1.1\r\nconnection: close\r\nhost: localhost\r\nhost: evil.example\r\n\r\n",
    ],
)
def test_what_is_no_http_is_refused(server: Server, said: bytes):
    answer = raw(server, said)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b'{"error":' in answer


def test_a_body_longer_than_it_says_or_in_many_pieces_is_cut_at_the_limit(server: Server):
    pieces = b"".join(b"1\r\na\r\n" for _ in range(100_000))
    said = raw(server, HEAD + b"connection: close\r\ntransfer-encoding: chunked\r\n\r\n" + pieces + b"0\r\n\r\n")
    assert said.startswith(b"HTTP/1.1 400 ")  # 100,000 bytes are allowed, and are no JSON
    large = b"10000\r\n" + b"a" * 65536 + b"\r\n"
    said = raw(server, HEAD + b"transfer-encoding: chunked\r\n\r\n", *[large] * 40, b"0\r\n\r\n", whole=False)
    assert said.startswith(b"HTTP/1.1 413 ")


def test_a_refusal_does_not_repeat_what_was_sent(client: httpx.Client):
    done = client.post("/v1/models/classify/predict", json={"inputs": "a", "x" * 100_000: 1})
    assert done.status_code == 422
    assert len(done.content) < 500


def test_more_numbers_than_fit_into_an_answer_are_refused_before_they_are_computed(client: httpx.Client):
    many = {"inputs": ["a " * 8_000] * 4, "level": "word"}
    guesses = {"inputs": ["[MASK] " * 200] * 20, "k": 1000}
    for route, asked in (("embed", many), ("fill-mask", guesses)):
        done = client.post(f"/v1/models/words/{route}", json=asked)
        assert done.status_code == 422, done.text[:200]
        assert "more than fit into an answer" in done.json()["error"]["message"]


def test_memory_stays_flat_under_bad_input(server: Server, client: httpx.Client):
    def resident() -> int:
        status = Path(f"/proc/{server.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+) kB", status)[1])  # type: ignore[index]

    bodies = [BODIES[kind][0] for kind in ("10,000 items", "10 MB of text", "deep nesting", "a text that is too long")]

    def attack() -> None:
        for body in bodies:
            assert 400 <= post(client, body).status_code < 500

    attack()
    before = resident()
    for _ in range(10):
        attack()
    assert resident() < before + 16 * 1024
    assert client.post(PREDICT, json={"inputs": "a"}).status_code == 200


def test_what_texts_say_is_not_logged(server: Server, client: httpx.Client):
    secret = "xyzzy-secret"
    client.post(PREDICT, json={"inputs": [secret, ""]})
    client.post("/v1/models/words/fill-mask", json={"inputs": secret})
    client.post(f"/v1/models/{secret}/predict?{secret}", json={"inputs": secret})
    assert secret not in server.said


def test_headers_that_come_too_slowly_are_cut(hasty: Server):
    assert raw(hasty, *(bytes([byte]) for byte in HEAD[:30]), pause=0.1).startswith(b"HTTP/1.1 408 ")
    assert raw(hasty, b"") == b""  # nothing was said, so nothing is answered


def test_a_body_that_comes_too_slowly_is_cut(hasty: Server):
    said = raw(hasty, HEAD + b"content-length: 100\r\n\r\n", *(b"a" for _ in range(25)), pause=0.1)
    assert said.startswith(b"HTTP/1.1 408 ")
    assert b"did not arrive within 1 s" in said


def test_an_answer_that_is_not_read_is_given_up(hasty: Server):
    body = json.dumps({"text": "value " * 345}).encode()
    head = HEAD.replace(b"classify/predict", b"words/attention") + b"content-length: %d\r\n\r\n" % len(body)
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.settimeout(30)
        sock.connect(("127.0.0.1", hasty.port))
        sock.sendall(head + body)
        said = sock.recv(2048)
        assert said.startswith(b"HTTP/1.1 200 ")
        size = int(re.search(rb"content-length: (\d+)", said)[1])  # type: ignore[index]
        time.sleep(6)  # for computing, and more than the 2 s that an answer may wait for its reader
        with contextlib.suppress(ConnectionResetError):
            while data := sock.recv(1 << 20):
                said += data
    assert len(said) < size


def test_a_kept_connection_is_closed_when_nothing_comes(hasty: Server):
    assert raw(hasty, b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").startswith(b"HTTP/1.1 200 ")


def test_a_thousand_connections_that_send_a_byte_at_a_time_disturb_nobody(hasty: Server):
    slow = [socket.create_connection(("127.0.0.1", hasty.port), timeout=30) for _ in range(1000)]
    with hasty.client() as client:
        for number in range(6):
            for sock in slow:
                with contextlib.suppress(OSError):
                    sock.sendall(HEAD[number : number + 1])
            assert client.post(PREDICT, json={"inputs": "a"}).status_code == 200
        for sock in slow:
            with sock:
                try:
                    while sock.recv(4096):
                        pass
                except ConnectionResetError:
                    pass
        assert client.post(PREDICT, json={"inputs": "a"}).status_code == 200
        assert client.get("/readyz").status_code == 200
    files = len(list(Path(f"/proc/{hasty.process.pid}/fd").iterdir()))
    assert files < 100


def test_more_connections_than_allowed_close_those_that_wait(hasty: Server):
    waiting = [socket.create_connection(("127.0.0.1", hasty.port), timeout=30) for _ in range(1250)]
    with hasty.client() as client:
        assert client.post(PREDICT, json={"inputs": "a"}).status_code == 200
    for sock in waiting:
        sock.close()
