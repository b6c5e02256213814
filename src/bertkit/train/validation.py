"""What a model can do with text it has not learned from: the held-out split, masked in the same way each time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from bertkit.corpus.folder import CorpusFolder
from bertkit.corpus.keyed import Choice, Order, key
from bertkit.corpus.samples import Sample
from bertkit.nn.inputs import in_a_row
from bertkit.objectives.data import PretrainingData
from bertkit.objectives.masking import Masked, Masking, Vocabulary, mask
from bertkit.objectives.objective import Memory
from bertkit.objectives.terms import averages, counted
from bertkit.train.parallel import Group
from bertkit.train.work import micro_batches, share

MOST_COUNTED = 20_000_000
"""Tokens of a shard: more do not move frequencies."""
EPOCH = 0
"""The one whose samples and masks are always used."""


def validate(
    learner: nn.Module, data: PretrainingData, *, samples: int, length: int, micro: int, group: Group
) -> dict[str, float]:
    """Losses and accuracies over the first `samples` of the split, in random order; or, of who reads on, in lanes."""
    reads_on = bool(data.cut.ways)  # then every process reads all: it must remember, whatever their number
    cut = lanes_of(data, samples, length) if reads_on else micro_batches(first_samples(data, samples, length), micro)
    mine = cut if reads_on else share(cut, group.rank, group.size)
    memory = Memory() if reads_on else None
    turns = len(cut) if reads_on else -(-len(cut) // group.size)  # all must go through the model equally often
    learner.eval()
    sums: dict[str, float] = {}
    with torch.no_grad():
        for turn in range(turns):
            batch = data.batch(mine[turn] if turn < len(mine) else cut[0], length, memory)
            _, found = learner(batch.to(group.device), batch.counts)
            seen = counted(batch.counts) | {name: float(value) for name, value in found.items()}
            for name, value in seen.items():
                sums[name] = sums.get(name, 0.0) + (value if turn < len(mine) else 0.0)
    learner.train()
    return averages(group.sum(sums))


def first_samples(data: PretrainingData, samples: int, length: int) -> list[Choice]:
    """The first of the split, in random order."""
    order = Order(data.size(EPOCH, length), data.seed, EPOCH)
    return [Choice(EPOCH, n) for n in order.samples(np.arange(min(samples, order.count))).tolist()]


def frequency_loss(corpus: CorpusFolder) -> float:
    """What the held-out text costs who knows nothing but how frequent each token is: the loss of guessing by that. A
    model whose loss stays near it has learned nothing of what stands around a word."""
    size = corpus.tokenizer.vocab_size
    seen = np.ones(size)  # none is impossible
    for shard in corpus.shards("train"):
        seen += np.bincount(shard.tokens[:MOST_COUNTED], minlength=size)[:size]
    held_out = np.zeros(size)
    for shard in corpus.shards("validation"):
        held_out += np.bincount(shard.tokens[:MOST_COUNTED], minlength=size)[:size]
    return float(held_out @ -np.log(seen / seen.sum()) / max(held_out.sum(), 1.0))


LANES = 16


def lanes_of(data: PretrainingData, samples: int, length: int) -> list[Sequence[Choice]]:
    """The beginnings of some texts, in which who reads on goes on from batch to batch."""
    ways = len(data.cut.ways)
    lanes = min(LANES, data.size(EPOCH, length) * ways) // ways * ways
    order = data.order(EPOCH, length, lanes)
    numbers = order.samples(np.arange(min(max(samples // lanes, 1) * lanes, order.count))).tolist()
    return [[Choice(EPOCH, n) for n in numbers[at : at + lanes]] for at in range(0, len(numbers), lanes)]


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
            words = Vocabulary.of(self.tokenizer)
            hide = Masking(unit="word", rate=0.12, masked=1.0, random=0.0)
            self.riddles = [mask(sentences[number], hide, words, key("riddle", seed, number)) for number in long_enough]
        else:
            self.riddles = [_without_its_end(sentences[number]) for number in long_enough]

    def ask(self, model: Any, device: torch.device, guesses: int = 3) -> list[dict[str, Any]]:
        """Each sentence with its gaps, the words that stood there, and what the model thinks."""
        asked = []
        model.eval()
        with torch.no_grad():
            for ids, positions, labels in self.riddles:
                last = model.reader.read(in_a_row(torch.from_numpy(ids).to(device), [len(ids)]))
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
