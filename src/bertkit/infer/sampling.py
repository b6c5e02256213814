"""How the next token is chosen: the settings. What they do is in decoding.py; here is no torch to wait for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bertkit.errors import UsageError, shortened

MOST_BEAMS = 256
LEAST_TEMPERATURE = 1e-3
"""Scores divided by less may become infinite, and the likeliest token is then certain long since."""


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """Greedy unless told otherwise: the likeliest token, always."""

    max_new_tokens: int = 64
    temperature: float = 0.0
    """0 takes the likeliest token. Otherwise one is drawn, and scores are divided by this first: below 1 likely tokens
    become likelier, above 1 less so."""
    top_k: int | None = None
    """Draw only among the k likeliest."""
    top_p: float | None = None
    """Draw only among the likeliest that together have this probability."""
    beams: int = 1
    """With more than 1, search for the likeliest text as a whole, following this many beginnings of it at once."""
    length_penalty: float = 1.0
    """Of beams: a text's log-probability is divided by its length to this power, so more than 0 is for longer ones."""
    repetition_penalty: float = 1.0
    """Above 1, a token that is in the prompt or was written already becomes less likely."""
    no_repeat: int = 0
    """More than 0: so many tokens never stand in a row twice."""
    stop: tuple[str, ...] = ()
    """Texts that end what is written; they are not part of it."""
    seed: int = 0
    samples: int = 1
    """How many texts for each prompt: drawn apart from each other, or the best ones of the beams."""

    def __post_init__(self) -> None:
        self._require_whole_number("max_new_tokens", 1, 1_000_000)
        self._require_whole_number("beams", 1, MOST_BEAMS)
        self._require_whole_number("samples", 1, 10_000)
        self._require_whole_number("no_repeat", 0, 1000)
        self._require_whole_number("seed", 0, 2**64 - 1)
        self._require_number("temperature", 0.0, 100.0)
        self._require_number("length_penalty", -10.0, 10.0)
        self._require_number("repetition_penalty", 0.01, 100.0)
        if 0 < self.temperature < LEAST_TEMPERATURE:
            raise UsageError(f"temperature {self.temperature:g}", f"Give 0, or {LEAST_TEMPERATURE:g} and more.")
        if self.top_k is not None:
            self._require_whole_number("top_k", 1, 10_000_000)
        if self.top_p is not None:
            self._require_number("top_p", 0.0, 1.0)
            if self.top_p == 0:
                raise UsageError(
                    "top_p is 0, which leaves no token", "Give more than 0; for the likeliest, temperature 0."
                )
        stop: Any = () if self.stop is None else self.stop
        if not isinstance(stop, tuple | list) or not all(isinstance(text, str) for text in stop):
            raise UsageError(f"stop is {shortened(stop)}", "Give a tuple of texts, or none.")
        if "" in stop:
            raise UsageError("an empty stop string", "Every text has it; leave it out.")
        object.__setattr__(self, "stop", tuple(stop))
        self._refuse_what_does_not_go_together()

    def _refuse_what_does_not_go_together(self) -> None:
        if self.beams > 1 and self.temperature:
            raise UsageError(
                f"temperature {self.temperature:g} with {self.beams} beams",
                "Beams search for the likeliest text; drawing goes without them. Give one of the two.",
            )
        if not self.temperature:
            for name, value in (("top_k", self.top_k), ("top_p", self.top_p)):
                if value is not None:
                    raise UsageError(
                        f"{name} {value:g} where nothing is drawn, because temperature is 0",
                        "Give a temperature too, 1 for the model's own probabilities.",
                    )
        if self.beams == 1 and self.length_penalty != 1:
            raise UsageError(
                f"length_penalty {self.length_penalty:g} without beams", "Give beams too, or leave it out."
            )
        if self.samples > 1 and not self.temperature and self.beams < self.samples:
            raise UsageError(
                f"{self.samples} samples where nothing is drawn: they would all be the same",
                f"Give a temperature, or at least {self.samples} beams.",
            )

    def _require_whole_number(self, name: str, low: int, high: int) -> None:
        value: Any = getattr(self, name)
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise UsageError(f"{name} is {shortened(value)}", f"It must be a whole number from {low} to {high}.")

    def _require_number(self, name: str, low: float, high: float) -> None:
        value: Any = getattr(self, name)
        if not isinstance(value, int | float) or isinstance(value, bool) or not low <= value <= high:
            raise UsageError(f"{name} is {shortened(value)}", f"It must be a number from {low:g} to {high:g}.")
