"""Who may ask: nobody from outside without a token, and with one nobody who does not have it."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.routing import BaseRoute
from typer.testing import CliRunner

from bertkit.cli import app
from bertkit.serve import PAGE, PUBLIC, Serving, build, named
from servers import Server, running

TOKEN = "correct-horse-battery"


@pytest.fixture(scope="module")
def guarded(folders: Path) -> Iterator[Server]:
    """One that everybody who reaches the machine could ask, with a token."""
    arguments = ("--host", "0.0.0.0", "--allow-host", "models.example", "--allow-origin", "https://page.example")
    with running(folders / "words", *arguments, environment={"BERTKIT_TOKEN": TOKEN}) as started:
        yield started


def every_route(folders: Path) -> list[tuple[str, str]]:
    """As the application itself has them."""
    served = build(Serving(models=(f"words={folders / 'words'}",)))
    described = [(method.upper(), path) for path, methods in served.openapi()["paths"].items() for method in methods]

    def walk(routes: list[BaseRoute]) -> Iterator[tuple[str, str]]:
        for route in routes:
            if getattr(route, "routes", None):
                yield from walk(list(route.routes))  # type: ignore[attr-defined]
            elif hasattr(route, "path"):
                yield from ((method, route.path) for method in getattr(route, "methods", None) or ("GET",))

    return sorted({*described, *walk(list(served.routes))})


def test_every_route_wants_the_token_but_health_and_the_files_of_the_page(guarded: Server, folders: Path):
    routes = every_route(folders)
    assert len({path for _, path in routes}) >= 12
    with guarded.client() as client:
        for method, path in routes:
            target = path.replace("{name}", "words")
            for headers in (
                {},
                {"authorization": f"Bearer {TOKEN}x"},
                {"authorization": "Bearer"},
                {"authorization": f"Basic {TOKEN}"},
                {"authorization": TOKEN},
            ):
                done = client.request(method, target, headers=headers)
                expected = 200 if path in PUBLIC or path in PAGE else 401
                assert done.status_code == expected, (method, path, done.text)
                assert expected == 200 or done.headers["www-authenticate"] == "Bearer"
                assert expected == 200 or method == "HEAD" or done.json()["error"]["type"] == "wrong_token"
    assert set(PUBLIC) == {"/healthz", "/readyz"}
    assert all(path == "/" or path.endswith((".js", ".css", ".svg")) for path in PAGE)


def test_the_token_opens_every_route(guarded: Server, folders: Path):
    with guarded.client(headers={"authorization": f"Bearer {TOKEN}"}) as client:
        for method, path in every_route(folders):
            done = client.request(method, path.replace("{name}", "words"), json={} if method == "POST" else None)
            assert done.status_code in (200, 422), (method, path, done.text)
        assert client.post("/v1/models/words/embed", json={"inputs": "a"}).status_code == 200
    assert TOKEN not in guarded.said


def test_a_token_behind_a_body_is_none(guarded: Server):
    """What a chunked body ends with is no header."""
    body = b'{"inputs": "a"}'
    asked = b"POST /v1/models/words/embed HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    chunks = b"transfer-encoding: chunked\r\nconnection: close\r\n\r\n%x\r\n%b\r\n0\r\n" % (len(body), body)
    token = f"authorization: Bearer {TOKEN}\r\n".encode()
    for headers, trailers, status in ((b"", token, b"401"), (token, b"host: evil.example\r\n", b"200")):
        with socket.create_connection(("127.0.0.1", guarded.port), timeout=30) as sock:
            sock.sendall(asked + headers + chunks + trailers + b"\r\n")
            assert sock.makefile("rb").readline().split()[1] == status


def test_two_tokens_are_none(guarded: Server):
    with guarded.client() as client:
        headers = [("authorization", f"Bearer {TOKEN}"), ("authorization", f"Bearer {TOKEN}")]
        assert client.get("/v1/models", headers=headers).status_code == 401


def test_names_and_pages_that_are_allowed_may_ask(guarded: Server):
    with guarded.client(headers={"authorization": f"Bearer {TOKEN}"}) as client:
        assert client.get("/v1/models", headers={"host": "models.example"}).status_code == 200
        assert client.get("/v1/models", headers={"host": "10.1.2.3:8000"}).status_code == 200
        assert client.get("/v1/models", headers={"host": "other.example"}).status_code == 421
        done = client.get("/v1/models", headers={"origin": "https://page.example"})
        assert done.headers["access-control-allow-origin"] == "https://page.example"
        assert client.get("/v1/models", headers={"origin": "https://other.example"}).status_code == 403


def test_a_page_that_may_ask_hears_why_it_is_refused(guarded: Server):
    """Without the header its browser would tell it of an error and nothing else."""
    with guarded.client() as client:
        refused = client.get("/v1/models", headers={"origin": "https://page.example"})
        assert refused.status_code == 401
        assert refused.headers["access-control-allow-origin"] == "https://page.example"
        assert refused.headers["access-control-expose-headers"] == "retry-after"
        assert refused.headers["vary"] == "Origin"
        other = client.get("/v1/models", headers={"origin": "https://other.example"})
        assert other.status_code == 403
        assert "access-control-allow-origin" not in other.headers


def test_a_browser_that_asks_for_an_allowed_page_whether_it_may_is_told_so(guarded: Server):
    """It asks without the token: it has none to give then."""
    asks = {
        "origin": "https://page.example",
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization,content-type",
    }
    with guarded.client() as client:
        done = client.options("/v1/models/words/embed", headers=asks)
        assert done.status_code == 200
        assert done.headers["access-control-allow-origin"] == "https://page.example"
        assert client.options("/v1/models", headers={**asks, "origin": "https://other.example"}).status_code == 403
        assert client.options("/v1/models").status_code == 401


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--host", "0.0.0.0"), "Set a token"),
        (("--host", "::"), "Set a token"),
        (("--host", "0.0.0.0", "--token", "short"), "8 letters or more"),
        (("--token", "correct-horse "), "spaces"),
        (("--limit", "item=3"), "Did you mean 'items'?"),
        (("--limit", "items=many"), "NAME=NUMBER"),
        (("--limit", "items=0"), "above 0"),
        (("--wait", "2"), "2s or 500ms"),
        (("--memory", "much"), "500M or 4G"),
    ],
)
def test_what_cannot_be_served_safely_is_refused_at_once(folders: Path, arguments: tuple[str, ...], told: str):
    done = CliRunner().invoke(app, ["serve", str(folders / "words"), *arguments])
    assert done.exit_code == 2, done.output
    assert told in done.stderr


def test_an_empty_token_is_not_none(folders: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("BERTKIT_TOKEN", "")
    done = CliRunner().invoke(app, ["serve", str(folders / "words")])
    assert done.exit_code == 2, done.output
    assert "the token is empty. Set BERTKIT_TOKEN" in done.stderr


def test_models_have_names_of_their_own():
    assert named(["a/b", "c=d/e", "org/model/"]) == {"b": "a/b", "c": "d/e", "model": "org/model/"}
    with pytest.raises(Exception, match="two models are called 'b'"):
        named(["a/b", "c/b"])
    with pytest.raises(Exception, match="cannot be a model's name"):
        named(["a b?=c"])


def test_settings_survive_the_way_to_a_worker():
    settings = Serving(models=("a=b",), allow_host=("x.example",), limit=("items=3", "body_seconds=0.5"))
    assert Serving.from_json(settings.to_json()) == settings
    assert (settings.limits.items, settings.limits.body_seconds, settings.limits.header_seconds) == (3, 0.5, 5)
