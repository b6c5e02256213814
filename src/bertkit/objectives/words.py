"""Words: what stood at the places that were hidden (BERT), or what follows at each place (GPT)?

A model that reads from left to right answers at all places of a sequence in one pass. Nothing is hidden from it: the
answer to each question is the next token, which the place that is asked cannot see.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from bertkit.corpus.samples import Sample
from bertkit.nn.inputs import Inputs
from bertkit.nn.protocols import SaysWords
from bertkit.objectives.masking import Masking, Vocabulary, mask
from bertkit.objectives.objective import Asked, Objective, Part, register
from bertkit.objectives.terms import Term, loss_of, perplexity
from bertkit.objectives.word_loss import masked_word_term
from bertkit.text.tokenizer import Tokenizer


class _Words(Objective):
    needs: ClassVar[tuple[type, ...]] = (SaysWords,)

    def terms(self, network: Any, part: Part, x: Tensor | None) -> Iterator[tuple[str, Term]]:
        assert x is not None  # noqa: S101 it is not alone
        yield self.name, masked_word_term(network.speaker, x, part.answers)

    def figures(self, means: Mapping[str, float]) -> dict[str, float]:
        return {"perplexity": perplexity(means[loss_of(self.name)])}


@register
class MaskedWords(_Words):
    name, title, hides = "mlm", "masked words", True
    options, plain = Masking, Masking()

    def __init__(self, tokenizer: Tokenizer, options: Masking | None = None) -> None:
        super().__init__(tokenizer, options)
        self.vocabulary = Vocabulary.of(tokenizer)

    def ask(self, sample: Sample, draw: int) -> Asked:
        return Asked(*mask(sample, self.chosen, self.vocabulary, draw))

    @classmethod
    def share(cls, options: Masking) -> float:
        return options.rate

    def epoch_of_draw(self, epoch: int) -> int:
        drawn: int = self.chosen.epoch_of_draw(epoch)
        return drawn


@register
class NextWords(_Words):
    name, title, causal = "clm", "next words", True

    def ask(self, sample: Sample, draw: int) -> Asked:  # noqa: ARG002
        return Asked(None, np.arange(len(sample) - 1), sample.ids[1:])

    @classmethod
    def share(cls, options: None) -> float:  # noqa: ARG003
        return 1.0


def next_word_term(speaker: SaysWords, inputs: Inputs, x_TD: Tensor) -> Term:
    """The cross entropy of each sequence's tokens from the second on, given what the encoder says of every place.
    Beside the loss of a task it keeps a model from unlearning its language while it is fine-tuned (Radford et al.,
    2018)."""
    ids = inputs.ids.flatten()
    asked = torch.ones_like(ids, dtype=torch.bool) if inputs.seen is None else inputs.seen.flatten().bool()
    asked[inputs.lasts] = False
    places = asked.nonzero().squeeze(1)
    return masked_word_term(speaker, x_TD[places], ids[places + 1])
