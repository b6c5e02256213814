"""What a model that was fine-tuned to write says of texts: written in batches of like length, with the settings that
its task has; and how likely what is right would have been."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from bertkit.errors import InputError
from bertkit.infer.generation import ROWS_AT_ONCE, TEXTS_AT_ONCE, Piece, Written, generate, written_after
from bertkit.infer.looked import Looked, looked
from bertkit.infer.predictor import TaskPredictor
from bertkit.infer.sampling import Sampling
from bertkit.infer.writer import Writer
from bertkit.nn.few_rows import lay_out_for_few_rows
from bertkit.nn.writing import Mask
from bertkit.objectives.terms import Term
from bertkit.tasks.data import Features, Given
from bertkit.tasks.task import batch_of

if TYPE_CHECKING:
    from bertkit.infer.scoring import Scorer

TOKENS_AT_ONCE = 4096


class TextWriter(TaskPredictor):
    """A model that makes a text of another one.

    writer = bertkit.load("summaries-model")
    writer("A long text ...")                                   # {"text": "..."}
    for piece in writer.pieces("A long text ..."):
        print(piece.text, end="", flush=True)
    """

    def __init__(self, scorer: Scorer) -> None:
        super().__init__(scorer)
        encoder = scorer.encoder
        if encoder.device.type == "cpu" and encoder.precision == "float32":
            lay_out_for_few_rows(encoder.model)
        self.writer = writer_for(scorer)

    def looked(self, text: str) -> Looked:
        """What is written of it, and where in the text each word looked."""
        return looked(self, text)

    def pieces(self, text: str, **settings: Any) -> Iterator[Piece]:
        """What is written, as it comes; `settings` are those of `Sampling`, else the task's."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield from generate(self.writer, [text], Sampling(**{**self.writer.usual, **settings}))


def writer_for(scorer: Scorer) -> Writer:
    task: Any = scorer.task
    tokenizer = scorer.tokenizer
    mask = None
    if task.way == "one":
        mask = Mask(tokenizer.mask_id if task.hides else None, tokenizer.form.second_segment)

    def read(texts: Sequence[str]) -> list[list[int]]:
        examples = [task.read(text, f"prompt {number}") for number, text in enumerate(texts, 1)]
        found = task.encode(examples, tokenizer)
        for number, parts in enumerate(found, 1):
            if len(parts) > 1:
                raise InputError(
                    f"prompt {number} is longer than the model, and read in {len(parts)} windows",
                    "Those are written with predict; or give a shorter text.",
                )
        return [list(parts[0].ids) for parts in found]

    def room(prompt: Sequence[int]) -> int:
        its: int = min(task.most, task.room if task.way == "two" else task.max_length - len(prompt))
        return its

    return Writer(
        encoder=scorer.encoder,
        tokenizer=tokenizer.writer,
        end=task.end(tokenizer),
        read=read,
        room=room,
        start=tokenizer.writer.frame.start[-1] if task.way == "two" else None,
        mask=mask,
        usual=settings_of(task),
    )


def settings_of(task: Any) -> dict[str, Any]:
    """What Sampling is told."""
    penalty = {"length_penalty": task.length_penalty} if task.beams > 1 else {}
    return {
        "max_new_tokens": task.most,
        "beams": task.beams,
        "no_repeat": task.no_repeat,
        "samples": task.best,
        **penalty,
    }


def written_by(scorer: Scorer, features: Sequence[Features]) -> list[list[Written]]:
    """For each of them the texts that are told, the best first."""
    writer, sampling = writer_for(scorer), Sampling(**settings_of(scorer.task))
    order = sorted(range(len(features)), key=lambda number: -len(features[number].ids))
    losses = losses_of(scorer, features)
    found: list[list[Written]] = [[] for _ in features]
    at_once = TEXTS_AT_ONCE if sampling.beams == 1 else max(1, ROWS_AT_ONCE // sampling.beams)
    numbers = iter(order)
    while some := list(islice(numbers, at_once)):
        texts: dict[tuple[int, int], Written] = {}
        for piece in written_after(writer, [features[number].ids for number in some], sampling):
            if piece.whole is not None:
                texts[piece.prompt, piece.sample] = piece.whole
        for prompt, sample in sorted(texts):
            number = some[prompt]
            found[number].append(texts[prompt, sample]._replace(loss=losses.get(number)))
    return found


def losses_of(scorer: Scorer, features: Sequence[Features]) -> dict[int, tuple[float, int]]:
    """Of those of which it is known what is right to write."""
    known = [number for number, each in enumerate(features) if each.about]
    found: dict[int, tuple[float, int]] = {}
    packed = scorer.encoder.device.type == "cpu"
    for some in _passes(known, [len(features[number].about[0].ids) for number in known]):
        units = [[features[number].about[0]] for number in some]
        batch = batch_of(scorer.task, units, packed=packed, pad_id=scorer.tokenizer.filling_id)
        with scorer.encoder.computing():
            batch = batch.to(scorer.encoder.device)
            x, _ = scorer.model.scored(batch)
            starts = 0
            words = batch.targets["words"]
            for row, each in enumerate(batch.features):
                stop = starts + len(each.about)
                term = _loss(scorer, x[starts:stop], words[starts:stop])
                found[some[batch.numbers[row]]] = (float(term.total), term.count)
                starts = stop
    return found


def _loss(scorer: Scorer, x: Any, words: Any) -> Term:
    from bertkit.objectives.word_loss import masked_word_term

    return masked_word_term(Given(x, None, scorer.model.network).words, x, words)


def _passes(items: Iterable[int], lengths: Iterable[int]) -> Iterator[list[int]]:
    part: list[int] = []
    filled = 0
    for item, length in zip(items, lengths, strict=True):
        if part and filled + length > TOKENS_AT_ONCE:
            yield part
            part, filled = [], 0
        part.append(item)
        filled += length
    if part:
        yield part
