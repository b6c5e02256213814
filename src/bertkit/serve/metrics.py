"""What Prometheus is told. With several worker processes, the figures of all of them together."""

from __future__ import annotations

import os
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest, multiprocess

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Metrics:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        every: dict[str, Any] = {"registry": self.registry, "namespace": "bertkit"}
        self._requests = Counter("requests", "Requests answered or refused.", ["route", "status"], **every)
        self._seconds = Histogram("request_seconds", "From headers to answer.", ["route"], buckets=SECONDS, **every)
        self._gone = Counter("clients_gone", "Requests whose client did not wait.", **every)
        self._queue = Gauge(
            "queue_inputs", "Inputs waiting or computed.", ["model"], multiprocess_mode="livesum", **every
        )
        self._loaded = Gauge(
            "model_loaded_bytes", "Weights in memory.", ["model"], multiprocess_mode="livesum", **every
        )
        self._reloads = Counter("model_loads", "Loads of models.", ["model", "outcome"], **every)
        self._inputs = Counter("inputs", "Inputs computed.", ["model"], **every)
        self._tokens = Counter("tokens", "Tokens computed.", ["model"], **every)
        self._dropped = Counter("inputs_dropped", "Inputs not computed: their client was gone.", ["model"], **every)
        self._sizes = Histogram("batch_inputs", "Inputs computed together.", ["model"], buckets=SIZES, **every)
        self._computing = Histogram("batch_seconds", "Time to compute them.", ["model"], buckets=SECONDS, **every)

    def request(self, route: str, status: int, seconds: float) -> None:
        self._requests.labels(route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def client_gone(self) -> None:
        self._gone.inc()

    def queue(self, model: str, inputs: int) -> None:
        self._queue.labels(model).set(inputs)

    def loaded(self, model: str, size: int) -> None:
        self._loaded.labels(model).set(size)

    def load(self, model: str, outcome: str) -> None:
        self._reloads.labels(model, outcome).inc()

    def dropped(self, model: str, inputs: int) -> None:
        self._dropped.labels(model).inc(inputs)

    def batch(self, model: str, inputs: int, tokens: int, seconds: float) -> None:
        self._inputs.labels(model).inc(inputs)
        self._tokens.labels(model).inc(tokens)
        self._sizes.labels(model).observe(inputs)
        self._computing.labels(model).observe(seconds)

    def text(self) -> bytes:
        if "PROMETHEUS_MULTIPROC_DIR" not in os.environ:
            return generate_latest(self.registry)
        together = CollectorRegistry()
        multiprocess.MultiProcessCollector(together)  # type: ignore[no-untyped-call]
        return generate_latest(together)
