"""The server as processes: one, or several behind one port."""

from __future__ import annotations

import math
import os
import signal
import socket
import sys
import tempfile
import time
from typing import Any

import uvicorn
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors import Multiprocess
from uvicorn.supervisors.multiprocess import Process

from bertkit.device import usable_threads
from bertkit.errors import BertkitError, UsageError
from bertkit.serve.app import SETTINGS, build, log, set_up
from bertkit.serve.protocol import LimitedProtocol
from bertkit.serve.settings import Serving

AGAIN_SECONDS = 5.0


def serve(settings: Serving) -> None:
    """Until it is told to stop."""
    set_up()
    allow_many_files(settings.limits.connections)
    app: Any = build(settings)  # in any case: what is wrong with a folder is told before the port is taken
    with listening(settings) as listener:
        listener.set_inheritable(True)
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        log.info("bertkit serves %s on http://%s:%d", ", ".join(settings.folders), host, listener.getsockname()[1])
        if settings.workers > 1:
            _serve_with_workers(settings, listener)
            return
        server = uvicorn.Server(_config(app, settings))
        for number in (signal.SIGTERM, signal.SIGINT):
            # uvicorn sends itself the signal again when it has stopped: being told to stop is no failure.
            signal.signal(number, lambda *_: None if server.started else sys.exit(0))
        server.run(sockets=[listener])
    if app.state.activity.failure is not None:
        raise app.state.activity.failure


def _serve_with_workers(settings: Serving, listener: socket.socket) -> None:
    """Each has the models for itself, and its share of the cores."""
    threads = settings.threads or max(1, usable_threads() // settings.workers)
    with tempfile.TemporaryDirectory() as figures:
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = figures
        os.environ[SETTINGS] = settings.to_json()
        os.environ["BERTKIT_THREADS"] = str(threads)
        config = _config("bertkit.serve.app:from_environment", settings, workers=settings.workers, factory=True)
        workers = _Workers(config, [listener])
        workers.run()
    if workers.failed:
        raise BertkitError("a worker process could not begin", "What it said before tells why.")


class _Workers(Multiprocess):
    """One that dies is replaced. Where who replaces it cannot begin, since its folder has become bad, the others go on,
    and it is tried again."""

    failed = False

    def init_processes(self) -> None:
        super().init_processes()
        self._first = tuple(self.processes)
        self._again: dict[Process, float] = {}
        """When those that could not begin are tried again."""

    def keep_subprocess_alive(self) -> None:
        for number, process in enumerate(self.processes):
            gone = process in self._again
            if self.should_exit.is_set() or (not gone and process.is_alive(self.config.timeout_worker_healthcheck)):
                continue
            if not gone:
                process.kill()  # it may only hang
                process.join()
            could_begin = process.exitcode != STARTUP_FAILURE
            if not could_begin and (
                process in self._first or all(each.exitcode is not None for each in self.processes)
            ):
                self.failed = True
                self.should_exit.set()
            elif could_begin or time.monotonic() > self._again.get(process, math.inf):
                self._again.pop(process, None)
                self.processes[number] = Process(self.config, self.sockets)
                self.processes[number].start()
            elif not gone:
                log.error("a worker could not begin: the others go on, and in %g s it is tried again", AGAIN_SECONDS)
                self._again[process] = time.monotonic() + AGAIN_SECONDS


def _config(app: Any, settings: Serving, **options: Any) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=LimitedProtocol,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=settings.limits.idle_seconds,  # type: ignore[arg-type]  # a fraction does as well
        timeout_graceful_shutdown=max(1, round(settings.limits.grace_seconds)),
        **options,
    )


def listening(settings: Serving) -> socket.socket:
    try:
        family, _, _, _, address = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family, backlog=2048)
    except OSError as problem:
        raise UsageError(
            f"cannot listen on {settings.host} port {settings.port}: {problem.strerror or problem}",
            "Choose another with `port`, or stop what uses it.",
        ) from None


def allow_many_files(connections: int) -> None:
    """Each connection is an open file; systems allow few at first."""
    try:
        import resource
    except ImportError:  # not on Windows
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + 256
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
