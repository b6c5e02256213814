"""What a client is told when it gets no answer: a status, a word for programs and a sentence for people."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from starlette.responses import Response

LONGEST_NAME = 60
"""Of a field, as a refusal repeats it."""


class RefusalError(Exception):
    def __init__(self, status: int, kind: str, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.kind, self.message, self.headers = status, kind, message, dict(headers or {})

    def response(self) -> Response:
        return Response(self.body(), self.status, self.headers, media_type="application/json")

    def body(self) -> bytes:
        """OpenAI's clients look for a message at this place."""
        told = {"error": {"type": self.kind, "message": self.message}}
        return json.dumps(told, ensure_ascii=False).encode("utf-8", "replace")


def too_busy(seconds: int) -> RefusalError:
    return RefusalError(
        429, "too_busy", f"More is waiting than can be computed soon. Try again in {seconds} s.", _retry(seconds)
    )


def stopping() -> RefusalError:
    return RefusalError(503, "stopping", "The server is stopping.", {**_retry(1), "connection": "close"})


def not_ready(message: str, seconds: int = 1) -> RefusalError:
    return RefusalError(503, "not_ready", message, _retry(seconds))


def unprocessable(message: str) -> RefusalError:
    return RefusalError(422, "invalid_input", message)


def from_validation(errors: Sequence[Any]) -> RefusalError:
    """One sentence for all that is wrong with a body; what was sent is not repeated."""
    first: Mapping[str, Any] = max(errors, key=lambda error: len(error.get("loc", ())), default={})
    place = [_short(part) for part in first.get("loc", ()) if part != "body" and not _is_a_type(part)]
    where = f"{'.'.join(place)}: " if place else ""
    said = str(first.get("msg", "is not as it should be"))
    if first.get("type") == "string_pattern_mismatch":
        said = "Text cannot have the character NUL in it"
    if not place and first.get("type") == "missing":
        said = "The body must be JSON, with the content type application/json"
    return unprocessable(f"{where}{said}.")


def _short(part: Any) -> str:
    text = str(part)
    return text if len(text) <= LONGEST_NAME else f"{text[:LONGEST_NAME]}…"


def _is_a_type(part: Any) -> bool:
    """The parts of a place that name the alternatives of a union and not a field."""
    return isinstance(part, str) and (not part.isidentifier() or part in ("str", "Fields"))


def _retry(seconds: int) -> dict[str, str]:
    return {"retry-after": str(seconds)}
