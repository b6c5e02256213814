"""What a fine-tuned model says of many examples: their features packed into batches, all cores at work."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from hashlib import sha256
from itertools import chain, islice
from typing import Any, NamedTuple

import torch
from torch import Tensor

from bertkit.device import give_memory_back
from bertkit.infer.batching import each_batch
from bertkit.infer.encoder import TextEncoder
from bertkit.nn.fine_tuned import FineTuned
from bertkit.nn.inputs import Inputs, in_a_row
from bertkit.tasks.data import Features, Given, Unit
from bertkit.tasks.task import Task
from bertkit.tensors import require_finite
from bertkit.text.tokenizer import Tokenizer

EXAMPLES_AT_ONCE, CHARACTERS_AT_ONCE = 2048, 2**21
"""Whichever comes first; one example may have more characters. One of Chinese takes some 200 bytes on the way to its
answer."""


class Answered(NamedTuple):
    example: Any
    answer: dict[str, Any]
    """With `cut` where the example was not read whole."""


class Scorer:
    """A model, its task and its tokenizer, ready to answer."""

    def __init__(
        self,
        model: FineTuned,
        task: Task[Any],
        tokenizer: Tokenizer,
        *,
        precision: str = "float32",
        name: str = "model",
    ) -> None:
        self.model, self.task, self.tokenizer = model, task, tokenizer
        self.cut = 0
        """How many examples so far were longer than the model, and not read whole."""
        self.first_cut: str | None = None
        """Where the first of them stands."""
        self.encoder = TextEncoder(model.network, tokenizer, precision=precision, name=name)

    def fingerprint(self) -> str:
        """Changes with any weight, with the tokenizer, and with anything said of the task."""
        digest = sha256(repr((self.task, self.model.shape)).encode())
        digest.update(self.tokenizer.backend.to_str().encode())
        for name, tensor in self.model.state_dict().items():
            digest.update(name.encode() + tensor.detach().cpu().contiguous().numpy().tobytes())
        return digest.hexdigest()

    def answer(self, examples: Sequence[Any]) -> list[dict[str, Any]]:
        return [answered.answer for answered in self.stream(examples)]

    def stream(self, examples: Iterable[Any]) -> Iterator[Answered]:
        """For any number of examples, in their order, in constant memory. They are taken in portions: the first answer
        comes when the first portion is full, or all that there is."""
        for some in portions(examples):
            yield from self.answer_portion(some)
            give_memory_back()

    def answer_portion(self, examples: Sequence[Any]) -> Iterator[Answered]:
        return self.answer_encoded(examples, self.task.encode(examples, self.tokenizer))

    def answer_encoded(self, examples: Sequence[Any], features: Sequence[Unit]) -> Iterator[Answered]:
        """The same for examples that have been encoded before."""
        training = self.model.training
        self.model.eval()
        scores = iter(self.scores(list(chain.from_iterable(features))))
        found = [list(islice(scores, len(its))) for its in features]
        answers = self.task.answers(examples, features, Given(found, self.model.crf))
        for example, its, answer in zip(examples, features, answers, strict=True):
            if not all(each.whole for each in its):
                self.cut += 1
                self.first_cut = self.first_cut or example.place
                answer["cut"] = True
            yield Answered(example, answer)
        self.model.train(training)

    def _computed(self, inputs: Inputs) -> Tensor:
        runtime = self.encoder.runtime
        if runtime is None:
            scores: Tensor = self.model(inputs)
            return scores
        return inputs.means(runtime(inputs)) if runtime.gives_vectors else runtime(inputs)

    def scores(self, features: Sequence[Features]) -> list[Tensor]:
        """For each sequence a row of scores, or one for each of its tokens; of a model that writes, its texts."""
        if self.model.shape.writes:
            from bertkit.infer.written import written_by

            return written_by(self, features)  # type: ignore[return-value]
        whole = self.model.shape.reads != "tokens"
        found: list[Tensor] = [torch.empty(0)] * len(features)

        def compute(numbers: list[int], lengths: list[int], flat_ids: Tensor) -> Sequence[Tensor]:
            segments = [segment for number in numbers for segment in features[number].segments]
            inputs = replace(in_a_row(flat_ids, lengths), segments=torch.tensor(segments, device=flat_ids.device))
            scores = require_finite(self._computed(inputs).float().cpu(), self.encoder.name, "scores")
            return list(scores) if whole else torch.split(scores, lengths)

        for numbers, rows in each_batch(self.encoder, [each.ids for each in features], compute):
            for number, row in zip(numbers, rows, strict=True):
                found[number] = row
        return found


def portions(examples: Iterable[Any]) -> Iterator[list[Any]]:
    """As many at once as memory allows. Every 2,048th example ends one, so that work that goes on after any of these
    has the portions that it would have had, and to the last digit the same answers."""
    portion: list[Any] = []
    filled = 0
    for number, example in enumerate(examples, 1):
        portion.append(example)
        filled += _characters(example)
        if filled >= CHARACTERS_AT_ONCE or number % EXAMPLES_AT_ONCE == 0:
            yield portion
            portion, filled = [], 0
    if portion:
        yield portion


def _characters(value: Any) -> int:
    if isinstance(value, str):
        return len(value)
    return sum(map(_characters, value)) if isinstance(value, tuple | list) else 0
