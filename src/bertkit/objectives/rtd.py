"""Replaced tokens: which of them did the generator put there?

The generator learns masked words as ever. Words sampled from its guesses stand in the hidden places then, and the
discriminator answers for every token. Where the generator happens to guess the word that stood there, nothing was
replaced. No gradient passes through the sampling: the generator does not learn to deceive.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from bertkit.corpus.keyed import key, uniform
from bertkit.corpus.samples import Sample
from bertkit.nn.protocols import HasSpeaker, TellsReplaced
from bertkit.objectives.objective import Asked, Part, register
from bertkit.objectives.terms import Term, loss_of, perplexity
from bertkit.objectives.word_loss import masked_words_with_guesses
from bertkit.objectives.words import MaskedWords

WEIGHT = 50.0
"""Of the discriminator's loss beside the generator's, which is larger: as published."""


@register
class ReplacedTokens(MaskedWords):
    name, title, alone = "rtd", "replaced tokens", True
    needs, best = (HasSpeaker, TellsReplaced), None
    asks: ClassVar = {"mlm": MaskedWords.title, "rtd": title}

    def ask(self, sample: Sample, draw: int) -> Asked:
        asked = super().ask(sample, draw)
        return asked._replace(chances=uniform(key(draw, "guess"), asked.places).astype(np.float32))

    def terms(self, network: Any, part: Part, x: Tensor | None) -> Iterator[tuple[str, Term]]:  # noqa: ARG002
        assert part.chances is not None  # noqa: S101 `ask` gives them
        speaker, chances = network.speaker, part.chances
        hidden_MD = speaker.reader.read(part, part.places)
        words, guesses_M = masked_words_with_guesses(speaker, hidden_MD, part.answers, chances)
        yield "mlm", words
        ids_T = part.ids.flatten().index_copy(0, part.places, guesses_M)
        replaced_T = torch.zeros_like(ids_T).index_copy(0, part.places, (guesses_M != part.answers).long())
        x_TD = network.reader.read(replace(part, ids=ids_T.view_as(part.ids)))
        scores_T = network.replaced_scores(x_TD).float()
        if part.seen is not None:  # filling is nobody's word
            real = part.seen.flatten().bool()
            scores_T, replaced_T = scores_T[real], replaced_T[real]
        total = F.binary_cross_entropy_with_logits(scores_T, replaced_T.to(scores_T.dtype), reduction="sum")
        right = ((scores_T.detach() > 0) == replaced_T.bool()).sum()
        yield "rtd", Term(total, len(scores_T), right, weight=WEIGHT)

    def counts(self, part: Part) -> dict[str, int]:
        return {"mlm": len(part.answers), "rtd": part.tokens}

    def figures(self, means: Mapping[str, float]) -> dict[str, float]:
        return {"perplexity": perplexity(means[loss_of("mlm")])}

    def told(self, means: Mapping[str, float]) -> str:
        generator, discriminator = (means[loss_of(name)] for name in self.asks)
        return f"generator's loss {generator:.3f}, discriminator's {discriminator:.3f}"
