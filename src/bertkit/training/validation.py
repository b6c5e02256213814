"""What a model can do with text it has not learned from: the held-out split, masked in the same way each time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from bertkit.corpus.folder import CorpusFolder
from bertkit.corpus.sampling.keyed import key
from bertkit.corpus.sampling.order import Choice, Order
from bertkit.corpus.sampling.samples import Sample
from bertkit.model.bert import Bert
from bertkit.objectives.masking import Masked, Masking, mask
from bertkit.objectives.pretraining import PretrainingData
from bertkit.objectives.terms import IN_WORDS
from bertkit.training.feed import micro_batches, share
from bertkit.training.parallel import Group

EPOCH = 0
"""The one whose samples and masks are always used."""


def validate(
    learner: nn.Module, data: PretrainingData, *, samples: int, length: int, micro: int, group: Group
) -> dict[str, float]:
    """Losses and accuracies over the first `samples` of the split, in random order."""
    cut = micro_batches(first_samples(data, samples, length), micro)
    mine = share(cut, group.rank, group.size)
    turns = -(-len(cut) // group.size)  # all processes must go through the model equally often
    learner.eval()
    ones = dict.fromkeys(IN_WORDS, 1.0)
    sums: dict[str, float] = {}
    with torch.no_grad():
        for turn in range(turns):
            batch = data.batch(mine[turn] if turn < len(mine) else cut[0], length)
            _, found = learner(batch.to(group.device), ones)
            counted = {**{f"{name}_count": float(n) for name, n in batch.counts.items()}}
            counted |= {name: float(value) for name, value in found.items()}
            for name, value in counted.items():
                sums[name] = sums.get(name, 0.0) + (value if turn < len(mine) else 0.0)
    learner.train()
    return averages(group.sum(sums))


def first_samples(data: PretrainingData, samples: int, length: int) -> list[Choice]:
    """The first of the split, in random order."""
    order = Order(data.size(EPOCH, length), data.seed, EPOCH)
    return [Choice(EPOCH, n) for n in order.samples(np.arange(min(samples, order.count))).tolist()]


def averages(sums: dict[str, float]) -> dict[str, float]:
    """Sums of losses, right answers and counts as what people read."""
    names = [name.removesuffix("_count") for name in sums if name.endswith("_count")]
    facts: dict[str, float] = {"loss": sum(sums[f"{name}_loss"] / sums[f"{name}_count"] for name in names)}
    for name in names:
        facts[f"{name}_loss"] = sums[f"{name}_loss"] / sums[f"{name}_count"]
        facts[f"{name}_accuracy"] = sums[f"{name}_right"] / sums[f"{name}_count"]
    return facts


def perplexity(loss: float) -> float:
    return math.exp(min(loss, 100.0))


GAP = "[MASK]"
"""Where the next word is asked for, as people read it."""


def _without_its_end(sample: Sample) -> Masked:
    """The beginning of a sequence, up to the start of its last word, which is asked for."""
    starts = np.flatnonzero(sample.word_starts)
    stop = int(starts[-1]) if len(starts) and starts[-1] else len(sample) - 1
    return Masked(sample.ids[:stop], np.array([stop - 1]), sample.ids[stop : stop + 1])


class Riddles:
    """A few held-out sentences with hidden words, asked again and again while a model learns. A model that guesses the
    next word is given the beginning."""

    def __init__(self, corpus: CorpusFolder, *, seed: int, count: int = 5, length: int = 28) -> None:
        self.tokenizer = corpus.tokenizer
        sentences = corpus.sequences("validation", max_length=length)
        order = Order(len(sentences), seed, EPOCH).samples(np.arange(min(50 * count, len(sentences)))).tolist()
        long_enough = [number for number in order if len(sentences[number]) > length // 2][:count]
        if "mask" in self.tokenizer.specials:
            data = PretrainingData(corpus, "validation", masking=Masking(), nsp=False, seed=seed, packed=True)
            hide = Masking(unit="word", rate=0.12, masked=1.0, random=0.0)
            self.riddles = [
                mask(sentences[number], hide, data.vocabulary, key("riddle", seed, number)) for number in long_enough
            ]
        else:
            self.riddles = [_without_its_end(sentences[number]) for number in long_enough]

    def ask(self, model: Bert, device: torch.device, guesses: int = 3) -> list[dict[str, Any]]:
        """Each sentence with its gaps, the words that stood there, and what the model thinks."""
        asked = []
        model.eval()
        with torch.no_grad():
            for ids, positions, labels in self.riddles:
                last = model.encoder(torch.from_numpy(ids)[None].to(device)).last[0]
                probabilities: Tensor = model.word_scores(last[torch.from_numpy(positions)]).softmax(-1)
                best = probabilities.topk(guesses)
                masks = [
                    {
                        "answer": self.tokenizer.shown(int(label)),
                        "guesses": [[self.tokenizer.shown(i), round(p, 6)] for i, p in zip(*each, strict=True)],
                    }
                    for label, *each in zip(labels, best.indices.tolist(), best.values.tolist(), strict=True)
                ]
                asked.append({"text": self._text(ids), "masks": masks})
        model.train()
        return asked

    def _text(self, ids: np.ndarray[Any, Any]) -> str:
        if "mask" not in self.tokenizer.specials:
            return f"{self.tokenizer.decode(ids.tolist()).strip()} {GAP}"
        if self.tokenizer.kind != "wordpiece":
            return self.tokenizer.backend.decode(ids[1:-1].tolist(), skip_special_tokens=False).strip()
        words: list[str] = []
        for token in (self.tokenizer.token(int(number)) for number in ids[1:-1]):
            if token.startswith("##") and words:
                words[-1] += token[2:]
            else:
                words.append(token)
        return " ".join(words)
