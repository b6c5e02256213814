"""Next words: what follows at each place, known only from what stands to its left?

A model that reads from left to right answers at all places of a sequence in one pass. Nothing is hidden: the answer to
each question is the next token, which the place that is asked cannot see. The loss is the masked words' own
(`mlm.py`), with every place but the last asked for.
"""

from __future__ import annotations

import numpy as np

from bertkit.corpus.sampling.samples import Sample
from bertkit.objectives.masking import Masked


def next_words(sample: Sample) -> Masked:
    """A sample as it is, with the next token asked for at every place but the last."""
    return Masked(sample.ids, np.arange(len(sample) - 1), sample.ids[1:])
