"""What stands between a bad step and the weights, and words for a run that does not learn.

A loss or gradient that is not finite never reaches the weights: the step is skipped. Several in a row, and the run goes
back to its last good checkpoint, with half the learning rate and with the samples that come next, not those again.
After three times it stops.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any

from bertkit.train.engine import Progress
from bertkit.train.recipes import Recipe, Stage

SKIPS_BEFORE_RETURN = 3
RETURNS = 3
LINES = 20
"""How many lines of the log are looked at: it does not move if the mean of their second half is not below that of the
first by `MOVES` of it."""
MOVES = 0.002
EARLIEST = 300
"""Before this step nothing is said: the first steps are warm-up and noise."""


class Verdict(Enum):
    GOOD = "good"
    SKIP = "skip"
    GO_BACK = "go back"
    GIVE_UP = "give up"


def does_not_move(losses: Sequence[float], progress: Progress) -> bool:
    """Whether the loss, as logged, has stopped to fall although the run is well on its way and far from its end."""
    if len(losses) < LINES or progress.step < EARLIEST or not 0.1 < progress.share < 0.9:
        return False
    half = LINES // 2
    first, second = sum(losses[-LINES:-half]) / half, sum(losses[-half:]) / half
    return second > first * (1 - MOVES)


def diagnosis(recipe: Recipe, stage: Stage, progress: Progress, corpus: dict[str, Any]) -> str:
    """Likely reasons, from what is known of the run: `corpus` is the report of the prepared corpus."""
    reasons = []
    rate = recipe.optimizer.learning_rate * progress.rate_scale
    usual = (5e-4, 2e-2) if recipe.optimizer.kind == "lamb" else (1e-4, 5e-3)
    if rate < usual[0]:
        reasons.append(f"the learning rate {rate:g} is low (try `learning_rate={usual[0] * 5:g}`)")
    elif rate > usual[1]:
        reasons.append(f"the learning rate {rate:g} is high (try `learning_rate={usual[1] / 5:g}`)")
    if stage.batch * stage.length < 1024:
        reasons.append(f"a batch of {stage.batch} x {stage.length} tokens is tiny (try `batch={4096 // stage.length}`)")
    dropped = corpus.get("dropped", {})
    twins = dropped.get("duplicate", 0) + dropped.get("near duplicate", 0)
    documents = corpus.get("read", {}).get("documents", 0)
    if documents and twins > documents / 2:
        reasons.append(f"{twins:,} of {documents:,} documents were duplicates, so there is little different text")
    tokens = corpus.get("kept", {}).get("train", {}).get("tokens", 0)
    if tokens and progress.tokens > 40 * tokens:
        reasons.append(
            f"the {tokens:,} tokens of the corpus were seen {progress.tokens / tokens:.0f} times: take more text"
        )
    if not reasons:
        reasons.append(
            "nothing is plainly wrong: small models wait for some time at the loss of guessing frequent words before"
            " they fall on, and near the end of the schedule little moves"
        )
    return "the loss does not move: " + "; ".join(reasons)
