"""The neural language model of Bengio et al. (2003): the vectors of the words before, one after another, through a
hidden layer, to a score for every word.

    y = b + W x + U tanh(d + H x), where x are the rows of C of the words before

W, the direct connections, is an option. C is what is kept. Beside its perplexity on lines held out stands that of an
interpolated n-gram model of the same text and vocabulary (ngrams.py).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bertkit.errors import InputError, TrainingError
from bertkit.words.ngrams import Interpolated
from bertkit.words.progress import Learning
from bertkit.words.schemas import TrainingWords
from bertkit.words.splitting import END, UNKNOWN
from bertkit.words.stream import Stream

Array = np.ndarray[Any, Any]
BATCH, HELD_OUT = 512, 50
"""Words of a step; one line in so many is held out."""
BLOCK = 2**20


class NextWord(nn.Module):
    def __init__(self, rows: int, dimension: int, before: int, hidden: int, *, direct: bool) -> None:
        super().__init__()
        self.C = nn.Embedding(rows, dimension)
        self.H = nn.Linear(before * dimension, hidden)
        self.U = nn.Linear(hidden, rows)
        self.W = nn.Linear(before * dimension, rows, bias=False) if direct else None
        nn.init.uniform_(self.C.weight, -0.1, 0.1)

    def forward(self, before_BN: Tensor) -> Tensor:
        """B x V, the scores of the next word."""
        x = self.C(before_BN).flatten(1)
        y: Tensor = self.U(torch.tanh(self.H(x)))
        return y if self.W is None else y + self.W(x)


def examples(block: Array, order: int) -> Array:
    """Of each word, and of each end of a line, itself and the words before it; before a line stand ends."""
    ends = np.flatnonzero(np.concatenate([[True], block[:-1] == END]))
    place = np.arange(len(block)) - np.repeat(ends, np.diff(np.append(ends, len(block))))
    columns = [np.where(place >= back, np.roll(block, back), END) for back in range(order - 1, 0, -1)]
    return np.stack([*columns, block], 1).astype(np.int64)


def split(numbers: Array, order: int) -> tuple[Array, Array]:
    """Whole lines to learn from, and one in HELD_OUT to measure on."""
    block = np.array(numbers)
    lines = np.cumsum(np.concatenate([[0], block[:-1] == END]))
    held = lines % HELD_OUT == HELD_OUT - 1
    return block[~held], examples(block[held], order)


def learn_nnlm(stream: Stream, asked: TrainingWords, learning: Learning, threads: int) -> dict[str, Array]:
    torch.manual_seed(asked.seed)
    torch.set_num_threads(threads)
    text, held = split(stream.numbers, asked.order)
    if not len(held):
        raise InputError(
            f"the text has fewer than {HELD_OUT} lines, and one in {HELD_OUT} is held out", "Give more text."
        )
    model = NextWord(stream.rows, asked.dimension, asked.order - 1, asked.hidden, direct=asked.direct)
    optimizer = torch.optim.AdamW(model.parameters(), lr=asked.rate, weight_decay=1e-4)
    state = _State(model, optimizer)
    per_epoch = -(-len(text) // BLOCK)
    steps = asked.passes * per_epoch
    done = learning.restore(state.arrays())  # the arrays are the tensors' own memory
    for number in range(done, steps):
        epoch, turn = divmod(number, per_epoch)
        place = int(np.random.default_rng((asked.seed, epoch)).permutation(per_epoch)[turn])
        lines = examples(text[place * BLOCK : (place + 1) * BLOCK], asked.order)
        lines = lines[np.random.default_rng((asked.seed, number)).permutation(len(lines))]
        for start in range(0, len(lines), BATCH):
            some = torch.from_numpy(lines[start : start + BATCH])
            share = (number + start / len(lines)) / steps
            optimizer.param_groups[0]["lr"] = asked.rate * (1 - share)
            loss = F.cross_entropy(model(some[:, :-1]), some[:, -1])
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
            if not start % (BATCH * 256):
                if not math.isfinite(loss.item()):
                    raise TrainingError(f"the loss is {loss.item()}", "Give a lower `learning_rate`.")
                learning.turned_within(share)
        learning.read(len(lines), len(lines))
        learning.turned(number + 1, steps, state.arrays())
    learning.facts |= {
        "perplexity": perplexity(model, held),
        "ngram_perplexity": Interpolated.of(examples(text, min(asked.order, 3)), stream.rows).perplexity(held),
        "held_out": len(held),
        "unknown_share": float(np.mean(held[:, -1] == UNKNOWN)),
    }
    return {"table": model.C.weight.detach().numpy().copy()}


@torch.no_grad()
def perplexity(model: NextWord, held: Array) -> float:
    lines = torch.from_numpy(held)
    total = 0.0
    for some in torch.split(lines, BATCH):
        total += F.cross_entropy(model(some[:, :-1]), some[:, -1], reduction="sum").item()
    return math.exp(total / len(lines))


class _State:
    """Weights and what Adam remembers, as arrays to be kept and filled."""

    def __init__(self, model: NextWord, optimizer: torch.optim.AdamW) -> None:
        self._optimizer = optimizer
        self._parameters = dict(model.named_parameters())
        for each in self._parameters.values():
            moments = {"exp_avg": torch.zeros_like(each), "exp_avg_sq": torch.zeros_like(each)}
            optimizer.state[each] = {"step": torch.zeros(()), **moments}

    def arrays(self) -> dict[str, Array]:
        found = {}
        for name, each in self._parameters.items():
            found[name] = each.detach().numpy()
            its = self._optimizer.state[each]
            found |= {f"{name}.{kind}": its[kind].numpy() for kind in ("exp_avg", "exp_avg_sq")}
            found[f"{name}.step"] = its["step"].reshape(1).numpy()
        return found
