"""An objective of another package: what [CLS] says of a text must tell a word of it, whichever is drawn. It is asked of
the pass that hides words: so [CLS] has to know of those that it cannot see, too."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from torch import Tensor

from bertkit.corpus import Sample, key, pick
from bertkit.nn import SaysWords
from bertkit.objectives import FIRST, Asked, Objective, Part, Term, masked_word_term


class Topic(Objective):
    name, title, needs = "topic", "words of the text", (SaysWords,)

    def ask(self, sample: Sample, draw: int) -> Asked:
        there = np.flatnonzero(~sample.special)
        return Asked(None, FIRST, sample.ids[there[[pick(len(there), key(draw, "topic"))]]])

    def terms(self, network: Any, part: Part, x: Tensor | None) -> Iterator[tuple[str, Term]]:
        assert x is not None
        yield self.name, masked_word_term(network.speaker, x, part.answers)
