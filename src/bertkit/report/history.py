"""What a run wrote down, as arrays: the log and the times side by side."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertkit.files import read_json
from bertkit.objectives.terms import loss_of, titles_of
from bertkit.train.journal import read_log, read_times
from bertkit.train.run_facts import RUN

Floats = NDArray[np.float64]

BEYOND = 1.5
"""Nats of loss: the first ones come from where a word stands and its commonest neighbours, and whole runs end there."""
MOST_RECORDS = 20_000
"""More of them take seconds to read and look the same."""


class Records:
    """Records of one kind, and their columns as arrays."""

    def __init__(self, records: list[dict[str, Any]]) -> None:
        self.records = records
        self._columns: dict[str, Floats] = {}

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, key: str) -> Floats:
        """A number of each record; what is missing or no number is NaN."""
        if key not in self._columns:
            values = [record.get(key) for record in self.records]
            numbers = [value if isinstance(value, int | float) else math.nan for value in values]
            self._columns[key] = np.array(numbers, dtype=np.float64)
        return self._columns[key]


class History:
    """What a run wrote down, with a place on the axes for every step."""

    def __init__(self, run: Path) -> None:
        self.asks = titles_of(read_json(run / RUN).get("objectives", ())) if (run / RUN).exists() else {}
        known = read_json(run / RUN).get("word_frequency") if (run / RUN).exists() else None
        self.by_frequency: float = (known or {}).get("loss", math.nan)
        """The loss of who knows how frequent each word is, and nothing else; NaN where nobody counted."""
        log, times = read_log(run, most=MOST_RECORDS), read_times(run, most=MOST_RECORDS)
        self.steps = Records([record for record in log if record.get("kind") == "step"])
        self.validations = Records([record for record in log if record.get("kind") == "validation"])
        last = max((record["step"] for record in log if record.get("kind") in ("step", "validation")), default=0)
        # beyond the last step of the log are times of steps that were gone back over
        self.times = Records([record for record in times if "event" not in record and record["step"] <= last])
        self.events = _merged(
            [record for record in log if record.get("kind") == "event"],
            [record for record in times if "event" in record],
        )
        self.guesses = [record for record in log if record.get("kind") == "guesses"]

    @property
    def looked_at(self) -> str:
        """The term whose loss is drawn: the first."""
        return next(iter(self.asks), "")

    @property
    def about(self) -> str:
        """What it asks for."""
        return self.asks.get(self.looked_at, "the model")

    @property
    def losses(self) -> tuple[Floats, Floats]:
        """Of that term, in training and on held-out text."""
        return self.steps[loss_of(self.looked_at)], self.validations[loss_of(self.looked_at)]

    @property
    def break_seconds(self) -> float | None:
        """When the model knew more than how frequent words are, by `BEYOND`; None if it never did."""
        _, held_out = self.losses
        beyond = np.flatnonzero(held_out < self.by_frequency - BEYOND)
        if not len(beyond):
            return None
        return float(self.seconds_at(self.validations["step"][beyond[:1]])[0])

    @property
    def seconds(self) -> float:
        return float(np.nanmax(self.times["seconds"], initial=0.0))

    def events_of(self, name: str) -> Records:
        return Records([record for record in self.events if record["event"] == name])

    def tokens_at(self, steps: Floats) -> Floats:
        return _between(steps, self.steps["step"], self.steps["tokens"])

    def seconds_at(self, steps: Floats) -> Floats:
        return _between(steps, self.times["step"], self.times["seconds"])


def _between(places: Floats, steps: Floats, values: Floats) -> Floats:
    """The values at other steps than they were noted at, along a straight line from zero at step 0."""
    known = np.isfinite(steps) & np.isfinite(values)
    return np.interp(places, np.r_[0.0, steps[known]], np.r_[0.0, values[known]])


def _merged(logged: list[dict[str, Any]], timed: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Events of both files in the order in which they happened, which is not that of steps where a run went back."""
    merged, at = [], 0
    for event in logged:
        while at < len(timed) and timed[at].get("step", 0) < event.get("step", 0):
            merged.append(timed[at])
            at += 1
        merged.append(event)
    return merged + timed[at:]
