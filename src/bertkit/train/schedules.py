"""How the learning rate moves: each schedule is a function of progress, the share of the steps that are done (0 to 1),
to a factor of the highest rate. So a schedule is complete whatever number of steps it is stretched over."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from bertkit.errors import UsageError, nearest, shortened


def linear(progress: float) -> float:
    """Straight down to 0: BERT's."""
    return 1 - progress


def cosine(progress: float) -> float:
    return 0.5 * (1 + math.cos(math.pi * progress))


def constant(progress: float) -> float:  # noqa: ARG001
    return 1.0


SHAPES: dict[str, Callable[[float], float]] = {"linear": linear, "cosine": cosine, "constant": constant}
INVERSE_ROOT = "inverse-root"
"""That of the Transformer of 2017: from the warm-up's end on by the root of the step, however many there are. To learn
in a given number of steps it comes down to 0 in the last tenth."""


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """Up in a straight line during `warmup`, then level, then along `shape` during the last part, `decay`.

    BERT: linear, warm-up 0.01, decay all the rest. A trapezoid: linear with a decay of, say, 0.5.
    """

    shape: str = "linear"
    warmup: float = 0.01
    decay: float = 0.99
    anew: float = 0.0
    """If not 0: after this share of the steps it begins anew, warm-up and all; until then the rate falls to half only,
    since what comes then is another task for the same weights."""

    def __post_init__(self) -> None:
        if self.shape not in (*SHAPES, INVERSE_ROOT):
            hint = nearest(str(self.shape), SHAPES)
            raise UsageError(f"a schedule called {shortened(self.shape)}", f"{hint} There are: {', '.join(SHAPES)}.")
        if not (0 <= self.warmup <= 1 and 0 <= self.decay <= 1 and self.warmup + self.decay <= 1 + 1e-9):
            raise UsageError(
                f"a schedule with a warm-up of {self.warmup} and a decay of {self.decay}",
                "Both are shares of all steps, at most 1 together.",
            )

    def factor(self, step: int, steps: int) -> float:
        """For step 0, 1, ... of `steps`: the rate of the first is not 0, and after the last it is."""
        if self.anew and step < (switch := round(self.anew * steps)):
            return min((step + 1) / (self.warmup * switch), 1.0) * (1 - 0.5 * step / switch)
        done = round(self.anew * steps)
        return self._falling(step - done, steps - done)

    def _falling(self, step: int, steps: int) -> float:
        progress = min(step / steps, 1.0)
        if progress < self.warmup:
            return min((step + 1) / (self.warmup * steps), 1.0)
        if self.shape == INVERSE_ROOT:
            return math.sqrt(self.warmup / max(progress, self.warmup, 1e-9)) * min(1.0, (1 - progress) / 0.1)
        if progress <= 1 - self.decay or not self.decay:
            return 1.0
        return SHAPES[self.shape](min((progress - (1 - self.decay)) / self.decay, 1.0))
