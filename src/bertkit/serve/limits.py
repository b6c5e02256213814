"""What every request must pass before anything else sees it: who asks, from where, how much, how slowly. Also what ends
it early: a client that has gone, a deadline, a server that stops.

Here and not in the routes, so that no route can forget it.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import logging
import re
import time
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bertkit.serve.batcher import Batcher
from bertkit.serve.metrics import Metrics
from bertkit.serve.refusals import RefusalError, stopping, too_busy
from bertkit.serve.settings import Serving, is_address

log = logging.getLogger("bertkit.serve")

PUBLIC = frozenset({"/healthz", "/readyz"})
"""What needs no token, and is there while the server stops."""
POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)
"""For the page: its own files and nothing else, and no text may become HTML or code."""
HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"content-security-policy", POLICY),
    (b"referrer-policy", b"no-referrer"),
)
EXPOSED = {"access-control-expose-headers": "retry-after"}
"""What pages of other servers may read of an answer besides its body."""

HEALTH, HEALTHY = "/healthz", b'{"status":"ok"}'
HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]+))(?::\d*)?")
"""And nothing else: no user before an @, no path, no spaces."""


class Activity:
    """What a server is doing."""

    def __init__(self) -> None:
        self.stopping = False
        self.ready = False
        self.failure: Exception | None = None
        """Why it could not begin."""
        self.accepted = self.answered = self.gone = 0


class _ClientGoneError(Exception):
    pass


class Door:
    """What is known of a request from its first line and its headers, before anything is read, parsed or made of it:
    who may not ask, and when there is too much to do. In a flood this is what most requests cost."""

    def __init__(
        self,
        settings: Serving,
        activity: Activity,
        metrics: Metrics,
        page: Collection[str],
        queue_of: Callable[[str], Batcher | None],
    ) -> None:
        """`page` has the paths of the page's own files: a browser has no token before they ask for it. `queue_of` knows
        where a request to a path would wait."""
        self.settings, self.activity, self.metrics = settings, activity, metrics
        self.page, self.queue_of, self.limits = page, queue_of, settings.limits
        self.names = {"localhost", settings.host.lower(), *(name.lower() for name in settings.allow_host)}
        self.token = None if settings.token is None else settings.token.encode()

    def answer(self, scope: Scope) -> Response | None:
        """What can be said at once: that the process is there, whatever else it does, or that it is too busy. None: let
        it in."""
        healthy = scope["path"] == HEALTH and scope["method"] == "GET" and not self.activity.stopping
        queue = self.queue_of(scope["path"]) if scope["method"] == "POST" else None
        if not healthy and queue is None:
            return None
        try:
            self.judge(scope)
            if queue is not None:
                queue.require_room()
                return None
            response = Response(HEALTHY, media_type="application/json")
        except RefusalError as refusal:
            response = refusal.response()
            response.headers.update(self.for_a_page(scope))
        response.raw_headers += HEADERS
        self.metrics.request(HEALTH if healthy else "other", response.status_code, 0.0)
        return response

    def judge(self, scope: Scope) -> None:
        """From the headers alone."""
        headers: dict[bytes, list[bytes]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name, []).append(value)
        public = scope["path"] in PUBLIC
        if self.activity.stopping and not public:
            raise stopping()
        self._check_host(headers.get(b"host", []))
        self._check_origin(headers.get(b"origin", []), headers[b"host"][0])
        # A browser that asks whether a page may ask has no token to give yet; the page's origin was checked above.
        asks_first = scope["method"] == "OPTIONS" and b"origin" in headers and bool(self.settings.allow_origin)
        if self.token is not None and not public and not asks_first and scope["path"] not in self.page:
            _check_token(headers.get(b"authorization", []), self.token)
        if scope["method"] in ("POST", "PUT", "PATCH"):
            kind = headers.get(b"content-type", [b""])[0].partition(b";")[0].strip().lower()
            if kind != b"application/json":
                raise RefusalError(415, "not_json", "Send JSON, with the content type application/json.")
            if b"content-encoding" in headers:
                raise RefusalError(415, "compressed", "Send the body as it is, not compressed.")
        length = headers.get(b"content-length", [b"0"])[0]
        if length.isdigit() and int(length[:20]) > self.limits.body_bytes:
            raise self.too_large()

    def _check_host(self, given: list[bytes]) -> None:
        """A page of somebody else's whose name leads here must not pass for one of ours (DNS rebinding): it cannot
        help sending that name. Addresses are nobody's name."""
        if len(given) != 1:
            raise RefusalError(400, "no_host", "A request must say which host it is for, once.")
        found = HOST.fullmatch(given[0].decode("latin-1").lower())
        if found is None:
            raise RefusalError(400, "no_host", "The host that the request is for cannot be read.")
        name = found[1] or found[2]
        if name not in self.names and not is_address(name):
            raise RefusalError(
                421, "unknown_host", "This server does not go by that name; --allow-host lets it be called so."
            )

    def _check_origin(self, given: list[bytes], host: bytes) -> None:
        """Browsers say which page asks; those of other servers may not."""
        for each in given:
            origin = each.decode("latin-1")
            same = origin.lower() in (
                f"http://{host.decode('latin-1')}".lower(),
                f"https://{host.decode('latin-1')}".lower(),
            )
            if not same and origin not in self.settings.allow_origin:
                raise RefusalError(403, "other_origin", "Web pages of other servers may not use this one.")

    def for_a_page(self, scope: Scope) -> dict[str, str]:
        """What lets a page of a server that is allowed to ask hear why it gets no answer. (Answers have it from
        Starlette's middleware, which is further in.)"""
        asking = {value.decode("latin-1") for name, value in scope["headers"] if name == b"origin"}
        allowed = asking & set(self.settings.allow_origin)
        return {"access-control-allow-origin": allowed.pop(), "vary": "Origin", **EXPOSED} if allowed else {}

    def too_large(self) -> RefusalError:
        return RefusalError(413, "too_large", f"A body may have {self.limits.body_bytes:,} bytes.")


class Guard:
    """What every request that is let in must pass, and what may end it early."""

    def __init__(self, app: ASGIApp, door: Door) -> None:
        self.app, self.door, self.limits = app, door, door.limits
        self.activity, self.metrics = door.activity, door.metrics
        self.held = 0
        """Bytes of all bodies that are here."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started, answer = time.monotonic(), _Answer(send, self.activity)
        counted = False
        try:
            self.door.judge(scope)
            self.activity.accepted += 1
            counted = True
            with self._holding() as hold:
                await self._run(scope, receive, answer, await self._body(receive, hold))
        except RefusalError as refusal:
            await answer.refuse(refusal, scope, receive, self.door.for_a_page(scope))
        except _ClientGoneError:
            self.activity.gone += 1
            self.metrics.client_gone()
            return
        self.activity.answered += counted
        self.metrics.request(_route_of(scope), answer.status, time.monotonic() - started)

    @contextlib.contextmanager
    def _holding(self) -> Iterator[Callable[[int], None]]:
        """Counts the bytes of a body among those of all, for as long as it is there."""
        own = 0

        def hold(size: int) -> None:
            nonlocal own
            own += size
            self.held += size
            if self.held > self.limits.held_bytes:
                raise too_busy(1)

        try:
            yield hold
        finally:
            self.held -= own

    async def _body(self, receive: Receive, hold: Callable[[int], None]) -> bytes:
        body = bytearray()
        try:
            async with asyncio.timeout(self.limits.body_seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise _ClientGoneError
                    body += message.get("body", b"")
                    if len(body) > self.limits.body_bytes:
                        raise self.door.too_large()
                    hold(len(message.get("body", b"")))
                    if not message.get("more_body", False):
                        return bytes(body)
        except TimeoutError:
            raise RefusalError(
                408,
                "too_slow",
                f"The body did not arrive within {self.limits.body_seconds:g} s.",
                {"connection": "close"},
            ) from None

    async def _run(self, scope: Scope, receive: Receive, answer: _Answer, body: bytes) -> None:
        gone = asyncio.ensure_future(_disconnected(receive))
        work = asyncio.ensure_future(self.app(scope, _replayed(body, gone), answer))
        try:
            await asyncio.wait((work, gone), timeout=self.limits.request_seconds, return_when=asyncio.FIRST_COMPLETED)
            if answer.complete:  # and the app only has to put away what it was made with
                await asyncio.wait((work,))
            if not work.done():
                work.cancel()
                await asyncio.wait((work,))
                if gone.done():
                    raise _ClientGoneError
                if not answer.status:
                    seconds = self.limits.request_seconds
                    raise RefusalError(504, "too_late", f"There was no answer within {seconds:g} s.")
                if "bertkit.abort" in scope.get("extensions", {}):  # it was begun, and its reader is too slow
                    scope["extensions"]["bertkit.abort"]["call"]()  # which protocol.py leaves there
                raise _ClientGoneError
            if not work.cancelled() and (problem := work.exception()) is not None:
                _log_without_texts(scope, problem)
                if not answer.status:
                    raise RefusalError(500, "fault", "Something went wrong in the server; its log says what.")
        finally:
            gone.cancel()
            work.cancel()


def _check_token(given: list[bytes], right_one: bytes) -> None:
    scheme, _, token = (given[0] if len(given) == 1 else b"").partition(b" ")
    right = hmac.compare_digest(token.strip(), right_one)
    if scheme.lower() != b"bearer" or not right:
        raise RefusalError(
            401, "wrong_token", "Send the server's token: Authorization: Bearer TOKEN.", {"www-authenticate": "Bearer"}
        )


class _Answer:
    """`send` with the headers that every answer has, which remembers the status."""

    def __init__(self, send: Send, activity: Activity) -> None:
        self.send, self.activity, self.status, self.complete = send, activity, 0, False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = [*message.get("headers", []), *HEADERS]
            if self.activity.stopping and not any(name == b"connection" for name, _ in headers):
                headers.append((b"connection", b"close"))
            message = {**message, "headers": headers}
        self.complete = message["type"] == "http.response.body" and not message.get("more_body", False)
        await self.send(message)

    async def refuse(self, refusal: RefusalError, scope: Scope, receive: Receive, headers: Mapping[str, str]) -> None:
        response = refusal.response()
        response.headers.update(headers)
        await response(scope, receive, self)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _replayed(body: bytes, gone: asyncio.Future[None]) -> Receive:
    messages = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def receive() -> Message:
        if (message := next(messages, None)) is not None:
            return message
        await asyncio.shield(gone)
        return {"type": "http.disconnect"}

    return receive


def _log_without_texts(scope: Scope, problem: BaseException) -> None:
    """What an exception says may quote what a client sent, so only its kind and its place are kept."""
    place = "".join(traceback.format_tb(problem.__traceback__))
    log.error("%s %s: %s\n%s", scope["method"], _route_of(scope), type(problem).__name__, place)


def _route_of(scope: Scope) -> str:
    return str(getattr(scope.get("route"), "path", "other"))
