"""A classifier of texts by the mean of their words, in arithmetic of whole portions: what each word adds to the scores
of the labels is known beforehand, so that a text is a few numbers added up.

It says what the model says, to the last digits, many times as fast; whatever is not a text that fits, read whole, with
one label of several, is left to the model.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from bertkit.infer.scoring import Answered, Scorer
from bertkit.tables.values import TextExample
from bertkit.tasks.classify import Classify
from bertkit.text.tokenizer import without_surrogates
from bertkit.words.splitting import END, Pieces

Array = np.ndarray[Any, Any]


def suits(scorer: Scorer) -> bool:
    """Whether a model is a table of words with nothing but their mean below its head."""
    task, model, shape = scorer.task, scorer.model, scorer.model.shape
    return (
        isinstance(task, Classify)
        and not task.multi_label
        and not task.both_orders
        and getattr(model.network, "table", None) is not None
        and model.network.reader.depth == 0
        and scorer.tokenizer.kind == "words"
        and not any(" " in word for word in scorer.tokenizer.backend.get_vocab())
        and model.reads_mean
        and not (shape.mix or shape.lstm or shape.cnn)
        and scorer.encoder.device.type == "cpu"
    )


class MeanScorer(Scorer):
    task: Classify

    @classmethod
    def instead_of(cls, scorer: Scorer) -> Scorer:
        """The same in its quick way, if it suits."""
        return cls(scorer.model, scorer.task, scorer.tokenizer, name=scorer.encoder.name) if suits(scorer) else scorer

    def answer_portion(self, examples: Sequence[Any]) -> Iterator[Answered]:
        if any(not isinstance(each, TextExample) or each.pair is not None for each in examples):
            yield from super().answer_portion(examples)
            return
        numbers = self._pieces.numbers("\n".join([_line(each.text) for each in examples]) + "\n")
        ends = np.flatnonzero(numbers == END)
        lengths = np.diff(ends, prepend=-1) + 1  # [CLS] and [SEP] count, and the end of the line does not
        if lengths.max(initial=0) > self.task.max_length:
            yield from super().answer_portion(examples)
            return
        weights, bias, frame = self._weights
        sums = np.add.reduceat(weights[numbers], np.concatenate([[0], ends[:-1] + 1]), axis=0)
        scores = (sums + frame) / lengths[:, None] + bias
        scores = np.exp(scores - scores.max(1, keepdims=True))
        chances = scores / scores.sum(1, keepdims=True)
        classes, best = self.task.classes, chances.argmax(1).tolist()
        for example, its, which in zip(examples, chances.tolist(), best, strict=True):
            yield Answered(example, {"label": classes[which], "probabilities": dict(zip(classes, its, strict=True))})

    @property
    def _pieces(self) -> Pieces:
        if self._known is None:
            rows, unknown = self.tokenizer.backend.get_vocab(), self.tokenizer.unk_id
            self._known = Pieces(self.tokenizer.backend, lambda words: [rows.get(word, unknown) for word in words])
        return self._known

    _known: Pieces | None = None

    @property
    def _weights(self) -> tuple[Array, Array, Array]:
        """What each row of the table adds to the scores, nothing for ends of lines; the bias; what stands around a
        text."""
        if self._added is None:
            table = self.model.network.reader.words().weight.detach().double().numpy()
            weights = table @ self.model.dense.weight.detach().double().numpy().T
            frame = weights[self.tokenizer.cls_id] + weights[self.tokenizer.sep_id]
            weights[END] = 0
            self._added = weights, self.model.dense.bias.detach().double().numpy(), frame
        return self._added

    _added: tuple[Array, Array, Array] | None = None


def _line(text: str) -> str:
    return without_surrogates(text).replace("\n", " ")
