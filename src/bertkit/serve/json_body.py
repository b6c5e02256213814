"""Bodies of requests as values: read quickly, and refused where they nest too deep, are no Unicode or have more values
than can be checked in a moment."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute
from pydantic_core import from_json
from starlette.exceptions import HTTPException


class _JsonRequest(Request):
    """Read by pydantic's parser."""

    async def json(self) -> Any:
        try:
            found = from_json(await self.body(), allow_inf_nan=False)
        except ValueError as problem:
            why = f"half of a surrogate pair is no text ({problem})" if "hex escape" in str(problem) else problem
            raise HTTPException(400, f"The body is not JSON: {why}.") from None
        most = self.app.state.models.settings.limits.values
        if has_more_values(found, most):
            raise HTTPException(413, f"A body may have {most:,} values: texts, numbers, lists and keys.")
        return found


def has_more_values(found: Any, most: int) -> bool:
    """Counted no further than that."""
    left = most
    waiting: list[Iterable[Any]] = [[found]]
    while waiting and left >= 0:
        for inner in waiting.pop():
            if isinstance(inner, list | dict):
                left -= len(inner)
                waiting.append(inner.values() if isinstance(inner, dict) else inner)
    return left < 0


class JsonRoute(APIRoute):
    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handle_json(request: Request) -> Response:
            return await handle(_JsonRequest(request.scope, request.receive))

        return handle_json
