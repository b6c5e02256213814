"""Connections that take too long, say too much or never read. uvicorn limits none of that, so its protocol is told to:
headers under a deadline and of a limited size, a body that must end, an answer that must be read, and when there are
too many connections, those that only wait are closed first.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from bertkit.serve.refusals import RefusalError
from bertkit.serve.settings import Limits

LINGER_SECONDS = 2.0
"""So long what a refused client still sends is thrown away: closing at once would take the refusal from it."""


TOO_BUSY, HUSH_SECONDS = 429, 1.0
"""Who was too many is listened to again after so long, the least that Retry-After says. So no number of clients that
ask again at once keeps the event loop from what else it has to do."""


class LimitedProtocol(HttpToolsProtocol):
    limits: Limits

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.limits = self.app_state["limits"]
        self._timer: asyncio.TimerHandle | None = None
        self._in_headers = self._message_ended = False
        self._header_bytes = self._header_count = self._header_sum = 0
        self._refusal: RefusalError | None = None
        self._refused = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.limits.connections and not self._make_room():
            self._refuse(
                RefusalError(503, "too_many_connections", "The server has too many connections.", {"retry-after": "1"})
            )
            return
        self._set_timer(self.limits.header_seconds, self._headers_too_slow)

    def connection_lost(self, exc: Exception | None) -> None:
        self._unset_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        self._message_ended = False
        super().data_received(data)
        if self._in_headers and not self._refused:
            self._header_bytes += 0 if self._message_ended else len(data)
            if self._header_bytes > self.limits.header_bytes:
                self._refuse(self._headers_too_large())

    def on_message_begin(self) -> None:
        self._in_headers, self._header_bytes, self._header_count, self._header_sum = True, 0, 0, 0
        self._set_timer(self.limits.header_seconds, self._headers_too_slow)
        super().on_message_begin()
        self.scope["extensions"] = {"bertkit.abort": {"call": self.transport.abort}}

    def on_header(self, name: bytes, value: bytes) -> None:
        self._header_count += 1
        self._header_sum += len(name) + len(value) + 4
        if self._header_count > self.limits.headers or self._header_sum > self.limits.header_bytes:
            self._refusal = self._headers_too_large()
            raise ValueError("headers")  # which ends the parsing, and send_400_response tells the reason
        if self._in_headers:  # behind a body come trailers, which uvicorn would put among the headers
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_headers = False
        self._set_timer(self.limits.body_seconds + LINGER_SECONDS, self._body_too_slow)
        super().on_headers_complete()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        """What can be answered at the door has no task made for it."""
        response = self.app_state["door"].answer(cycle.scope)
        if response is None:
            super()._start_asgi_task(cycle, app)
            return
        headers = [*self.server_state.default_headers, *response.raw_headers]
        if not cycle.keep_alive:
            headers.append((b"connection", b"close"))
        lines = b"".join(name + b": " + value + b"\r\n" for name, value in headers)
        self.transport.write(STATUS_LINE[response.status_code] + lines + b"\r\n" + response.body)
        cycle.response_started = cycle.response_complete = True
        if not cycle.keep_alive:
            self.transport.close()
        self.on_response_complete()
        if response.status_code == TOO_BUSY and not self.transport.is_closing():
            self.transport.pause_reading()
            self.loop.call_later(HUSH_SECONDS, self.transport.resume_reading)

    def on_message_complete(self) -> None:
        self._message_ended = True
        self._unset_timer()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.transport.is_closing() and self.transport.get_write_buffer_size():
            self._set_timer(self.limits.idle_seconds, self.transport.abort)

    def timeout_keep_alive_handler(self) -> None:
        """What was not read by now stays unread."""
        self._close_or_abort()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002
        self._refuse(self._refusal or RefusalError(400, "not_http", "That is not a request that can be read."))

    def _refuse(self, refusal: RefusalError) -> None:
        self._refused = True
        body = refusal.body()
        headers = {
            "content-type": "application/json",
            "content-length": str(len(body)),
            "connection": "close",
            **refusal.headers,
        }
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        self.transport.write(STATUS_LINE[refusal.status] + lines.encode("ascii") + b"\r\n" + body)
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._set_timer(LINGER_SECONDS, self.transport.abort)

    def _headers_too_large(self) -> RefusalError:
        return RefusalError(
            431,
            "headers_too_large",
            f"Headers may be {self.limits.headers}, and have {self.limits.header_bytes:,} bytes.",
        )

    def _headers_too_slow(self) -> None:
        if self._is_at_work():  # the answer to the request before is still being made
            self._set_timer(self.limits.header_seconds, self._headers_too_slow)
        elif self._in_headers and not self.transport.get_write_buffer_size():
            seconds = self.limits.header_seconds
            self._refuse(RefusalError(408, "too_slow", f"The headers did not arrive within {seconds:g} s."))
        else:
            self._close_or_abort()

    def _body_too_slow(self) -> None:
        """limits.py has told the client by now."""
        self._close_or_abort()

    def _close_or_abort(self) -> None:
        if self.transport.get_write_buffer_size():
            self.transport.abort()
        else:
            self.transport.close()

    def _is_at_work(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _make_room(self) -> bool:
        """Close a connection on which nothing is being computed."""
        for other in self.connections:
            if isinstance(other, LimitedProtocol) and other is not self and not other._is_at_work():
                other.transport.abort()
                self.connections.discard(other)
                return True
        return False

    def _set_timer(self, seconds: float, what: Any) -> None:
        self._unset_timer()
        self._timer = self.loop.call_later(seconds, what)

    def _unset_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
