"""The application: routes, and around them what every request must pass."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from uvicorn.config import STARTUP_FAILURE

import bertkit
from bertkit.errors import BertkitError, InputError, UsageError
from bertkit.serve import compatible, routes
from bertkit.serve.limits import EXPOSED, Activity, Door, Guard
from bertkit.serve.metrics import Metrics
from bertkit.serve.models import Models
from bertkit.serve.refusals import RefusalError, from_validation, not_ready, unprocessable
from bertkit.serve.settings import Serving

log = logging.getLogger("bertkit.serve")

PAGE = {
    "/" if file.name == "index.html" else f"/{file.name}": file for file in (Path(__file__).parent / "web").iterdir()
}
"""The files of the page, each by its path: a folder mounted at / would answer for every other route."""
LAME_SECONDS = 0.5
"""How long a server that is told to stop still says so to those who come."""
SWITCH_SECONDS = 0.0005
"""How long a thread of Python may keep others waiting: a tenth of the usual. Between two products the thread that
computes must have its turn, and in a flood the event loop never rests."""
SETTINGS = "BERTKIT_SERVE_SETTINGS"
"""The environment variable that worker processes are told by."""

health = APIRouter()


@health.get("/healthz", summary="Whether the process is there")
async def healthz() -> dict[str, str]:
    return {"status": "ok"}


@health.get("/readyz", summary="Whether requests are answered", responses={503: routes.PROBLEMS[503]})
async def readyz(request: Request) -> dict[str, str]:
    activity: Activity = request.app.state.activity
    if activity.stopping or not activity.ready:
        raise not_ready("The server is stopping." if activity.stopping else "Models are being loaded.")
    return {"status": "ready"}


@health.get("/metrics", summary="Figures for Prometheus", response_class=Response, responses=routes.PROBLEMS)
async def metrics(request: Request) -> Response:
    return Response(request.app.state.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


def build(settings: Serving) -> FastAPI:
    """Folders that are no models are refused here; their weights are loaded once the server runs."""
    activity, figures = Activity(), Metrics()
    models = Models(settings, figures)
    door = Door(settings, activity, figures, frozenset(PAGE), models.queue_of)

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[dict[str, Any]]:
        _stop_gently(activity)
        starting = asyncio.create_task(_start(models, activity))
        watching = asyncio.create_task(models.watch())
        yield {"limits": settings.limits, "door": door}
        for task in (starting, watching):
            task.cancel()
        await asyncio.gather(starting, watching, return_exceptions=True)
        await models.close()
        log.info(
            "stopped: %d requests accepted, %d answered, %d given up by their clients",
            activity.accepted,
            activity.answered,
            activity.gone,
        )

    app = FastAPI(
        title="bertkit",
        version=bertkit.__version__,
        lifespan=lifespan,
        docs_url=None,  # FastAPI's pages load their scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.activity, app.state.metrics, app.state.models = activity, figures, models
    app.include_router(health)
    app.include_router(routes.router)
    app.include_router(routes.predict_router())
    app.include_router(compatible.router)
    _add_handlers(app)
    for path, file in PAGE.items():
        app.add_api_route(path, _giving(file), methods=["GET", "HEAD"], include_in_schema=False)
    if settings.allow_origin:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(settings.allow_origin),
            allow_methods=["GET", "POST"],
            allow_headers=["authorization", "content-type"],
            expose_headers=list(EXPOSED.values()),
        )
    app.add_middleware(Guard, door=door)
    return app


def _giving(file: Path) -> Callable[[], Coroutine[Any, Any, Response]]:
    async def give() -> Response:
        return FileResponse(file)

    return give


def _add_handlers(app: FastAPI) -> None:
    @app.exception_handler(RefusalError)
    async def refused(_: Request, problem: RefusalError) -> Response:
        return problem.response()

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, problem: RequestValidationError) -> Response:
        return from_validation(problem.errors()).response()

    @app.exception_handler(HTTPException)
    async def plain(_: Request, problem: HTTPException) -> Response:
        told: Any = {404: "There is no such route.", 405: "That route has another method."}.get(problem.status_code)
        kind = {400: "not_json", 413: "too_many_values", 404: "unknown_route", 405: "wrong_method"}.get(
            problem.status_code, "refused"
        )
        return RefusalError(problem.status_code, kind, told or str(problem.detail), problem.headers).response()

    @app.exception_handler(BertkitError)
    async def wrong(_: Request, problem: BertkitError) -> Response:
        if isinstance(problem, InputError | UsageError):
            return unprocessable(str(problem)).response()
        log.error("%s", problem)
        return RefusalError(500, "fault", "The model has no answer to this; the log of the server says why.").response()


async def _start(models: Models, activity: Activity) -> None:
    try:
        if not models.settings.lazy:
            await models.load_all()
        gc.collect()
        gc.freeze()  # what is here now stays; to look through it all for garbage would stop everybody for 100 ms
        activity.ready = True
        log.info("ready")
    except Exception as problem:
        activity.failure = problem
        if SETTINGS in os.environ:  # a worker: whoever started it shall not try again
            log.error("bertkit: %s", problem)
            os._exit(STARTUP_FAILURE)
        signal.raise_signal(signal.SIGTERM)


def _stop_gently(activity: Activity) -> None:
    """When told to stop, say so to whoever asks for a moment before the connections are closed: a client that is just
    sending on one that it has kept then hears an answer."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        inner = signal.getsignal(number)
        if not callable(inner):
            continue

        def stop(signum: int, frame: Any, inner: Any = inner) -> None:
            if activity.stopping:
                inner(signum, frame)
                return
            activity.stopping = True
            loop.call_soon_threadsafe(loop.call_later, LAME_SECONDS, inner, signum, None)

        signal.signal(number, stop)


def from_environment() -> FastAPI:
    """For worker processes."""
    set_up()
    try:
        return build(Serving.from_json(os.environ[SETTINGS]))
    except BertkitError as problem:
        log.error("bertkit: %s", problem)
        sys.exit(STARTUP_FAILURE)


def set_up() -> None:
    """The process."""
    sys.setswitchinterval(SWITCH_SECONDS)
    logging.basicConfig(stream=sys.stderr, format="%(message)s", level=logging.WARNING)
    log.setLevel(logging.INFO)
    logging.getLogger("uvicorn").setLevel(logging.ERROR)
