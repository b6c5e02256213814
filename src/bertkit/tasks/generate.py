"""From a text another one: translate, summarise, rewrite, answer in words.

What is read and what is written are one sequence, and the network is told where the border is. So the task is the same
for an encoder with a decoder (`two`), for a Transformer that reads both ways over what is given and left to right over
what it writes (`one`), and for a GPT that goes on (`on`); only what stands between the texts is different.
"""

from __future__ import annotations

import statistics
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from bertkit.errors import InputError, ModelFolderError, shortened
from bertkit.families import later
from bertkit.objectives.terms import Term, perplexity
from bertkit.objectives.word_loss import masked_word_term
from bertkit.tasks.baselines import of_texts
from bertkit.tasks.data import Begun, Encoded, Features, Given, Head, Measure, Part, Rows, TaskBatch, Ties, Unit
from bertkit.tasks.findings import Answers, Findings, Mistake, measured, only_one, worst
from bertkit.tasks.options import GenerateOptions
from bertkit.tasks.task import Task
from bertkit.tasks.text_scores import (
    bleu_of,
    bleu_sums,
    chrf_of_each,
    corpus_scores,
    require_metrics,
    rouge_of_each,
)
from bertkit.tasks.texts import fitted, pieces_of
from bertkit.text.chinese import has_han
from bertkit.text.tokenizer import Tokenizer

WAYS = ("two", "one", "on")
SHORTER = 0.5
"""Texts that are so much shorter than what they are made from are summaries."""
ROOM = 1.5
"""So many times the longest text of the training data may be written."""


class PairToWrite(NamedTuple):
    place: str
    text: str
    targets: tuple[str, ...] = ()
    """What is right to write; none where it is not known."""


class WrittenAnswer(dict[str, Any]):
    """What is told of a text, and beside it what only the metrics need: the summed loss of what is right, and of how
    many tokens."""

    loss: tuple[float, int] | None = None


@dataclass(frozen=True, kw_only=True)
class Generate(Task[PairToWrite]):
    way: str = "two"
    hides: bool = False
    """Whether words are asked for at masks."""
    most: int = 64
    """Tokens that are written at most, the one that ends the text among them."""
    room: int = 512
    """Places that the network has for what it writes."""
    long: str = "head"
    metric: str = "bleu"
    smoothing: float = 0.0
    beams: int = 1
    length_penalty: float = 1.0
    no_repeat: int = 0
    best: int = 1
    """How many texts are told, the best first."""

    name = "generate"
    parts = (
        Part.text("text", "source", "src", "article", "document", "input", "question", "sentence"),
        Part.text("target", "summary", "translation", "output", "answer", "tgt", "reply", learned=True),
    )
    options = GenerateOptions
    has_head = True
    writes = True
    start = staticmethod(later("bertkit.train.writers:begun"))
    at_use: ClassVar[Mapping[str, str]] = {
        "long": "long",
        "beams": "beams",
        "length_penalty": "length_penalty",
        "no_repeat": "no_repeat",
        "most": "most",
        "best": "best",
    }

    def __post_init__(self) -> None:
        if self.way not in WAYS or not self.most >= 2 or not 1 <= self.best <= max(self.beams, 1):
            raise ModelFolderError(
                f"a writer by way {shortened(self.way)}, of {self.most} tokens and {self.best} texts of {self.beams}"
                " beams",
                "The ways are two, one and on; it writes 2 tokens or more, and tells at most as many texts as beams.",
            )

    @classmethod
    def read(cls, value: Any, place: str) -> PairToWrite:
        if isinstance(value, str):
            value = {"text": value}
        if not isinstance(value, Mapping) or not {"text"} <= value.keys() <= {"text", "target"}:
            raise InputError(f"{place} is {shortened(value)}", 'Pass a text, or {"text": ...}.')
        text, target = value["text"], value.get("target")
        several = target if isinstance(target, list | tuple) else [] if target is None else [target]
        if isinstance(text, list | tuple) and all(isinstance(each, str) for each in text):
            text = " ".join(text)  # sentences, one after another
        for name, each in (("text", text), *(("target", each) for each in several)):
            if not isinstance(each, str):
                raise InputError(f"{place}: the {name} is {shortened(each)}, not text", "Remove the row or mend it.")
            if not each.strip():
                raise InputError(f"{place}: the {name} is empty", "Remove the row or fill it in.")
        if target is not None and not several:
            raise InputError(f"{place}: there is no target", "Remove the row or fill it in.")
        return PairToWrite(place, text, tuple(several))

    @classmethod
    def begin(cls, examples: Sequence[PairToWrite], options: Any, longest: int) -> Begun:
        require_metrics()
        _require_targets(examples)
        notes = []
        same = [each for each in examples if each.text.strip() in {target.strip() for target in each.targets}]
        if len(same) == len(examples):
            raise InputError(
                f"{examples[0].place}: both texts are the same, and so in every row",
                "Name two different columns with `text_column` and `target_column`.",
            )
        if same:
            notes.append(
                f"in {len(same):,} of {len(examples):,} rows both texts are the same, first in {same[0].place}"
            )
        if several := sum(len(each.targets) > 1 for each in examples):
            notes.append(f"{several:,} of {len(examples):,} texts have several targets: each is learned from")
        share = statistics.median(len(each.targets[0]) / len(each.text) for each in examples)
        if share > 1 / SHORTER and not any(has_han(each.text) for each in islice(examples, 100)):
            notes.append(
                f"what is to be written is mostly {share:.1f} times as long as what it is written from: if it should be"
                " a summary, the columns are swapped"
            )
        metric = options.metric or ("rouge" if share < SHORTER and not _to_chinese(examples) else "bleu")
        its = {name: getattr(options, name) for name in ("smoothing", "beams", "length_penalty", "no_repeat", "long")}
        task = cls(
            max_length=longest,
            metric=metric,
            most=options.most or 2,
            way=options.way or "two",
            hides=options.way == "one" and options.asks == "hidden",
            **its,
        )
        return Begun(task, notes)

    @property
    def head(self) -> Head:
        return Head(reads="hidden" if self.hides else "next", outputs=0, hugging_face="")

    @property
    def measure(self) -> Measure:
        if self.metric == "bleu":
            return Measure(main="bleu", sums=lambda e, a: bleu_sums(_texts(a), _right(e)), value=bleu_of)
        if self.metric == "chrf":
            return Measure(main="chrf", sums=lambda e, a: ((s, 1.0) for s in chrf_of_each(_texts(a), _right(e))))
        return Measure(main="rougeL", sums=lambda e, a: ((s[-1], 1.0) for s in rouge_of_each(_texts(a), _right(e))))

    def ties(self, example: PairToWrite) -> Ties:
        content: Hashable = example.text
        return Ties(content, family=example.text)

    def encode(self, examples: Sequence[PairToWrite], tokenizer: Tokenizer, learned: int = 0) -> Encoded:
        sources = pieces_of([example.text for example in examples], tokenizer)
        written = pieces_of([each for example in examples for each in example.targets], tokenizer.writer)
        targets = [[next(written) for _ in example.targets] for example in examples]
        task = self
        if learned:
            longest = 1 + max(len(each) for its in targets[:learned] for each in its)
            limit = self.room if self.way == "two" else self.max_length // 2
            most = min(int(ROOM * longest), limit) if self.most <= 2 else self.most
            task = replace(self, most=max(most, 2))
            for example, its in zip(examples[:learned], targets, strict=False):
                if (tokens := 1 + max(map(len, its))) > task.limit:
                    raise InputError(
                        f"{example.place}: the target has {tokens:,} tokens, and {task.limit:,} can be written",
                        "Shorten it or remove the row.",
                    )
        units = (
            task._unit(example, source, its, tokenizer, learns=number < learned)
            for number, (example, source, its) in enumerate(zip(examples, sources, targets, strict=True))
        )
        return Encoded(units, task)

    @property
    def limit(self) -> int:
        """Tokens of a target that there is room for."""
        return self.room - 1 if self.way == "two" else self.max_length // 2

    def _unit(
        self, example: PairToWrite, source: list[int], targets: list[list[int]], tokenizer: Tokenizer, *, learns: bool
    ) -> Unit:
        after = 0 if self.way == "two" else max(self.most, *(len(its) + 1 for its in targets), 0)
        room = self.max_length - after
        if self.long == "error" and len(source) + tokenizer.frame.size(pair=False) > room:
            raise InputError(
                f"{example.place}: {len(source):,} tokens, and the model reads {room:,}",
                "Choose what to do with long texts: `long=head`, head-tail or windows.",
            )
        policy = "head" if learns and self.long == "windows" else self.long
        # The frame of a pair is around what is read and what is written; here what is read is made to fit.
        parts = fitted(source, None, tokenizer, max_length=room, long=policy)
        read = [self._read(tokenizer.frame.inside(part.ids), tokenizer) for part in parts]
        whole = all(part.whole for part in parts)
        taught = [self._taught(read[0], its, tokenizer, whole) for its in targets]
        if learns:
            return taught
        about = taught[:1] if len(taught) and len(targets[0]) < self.limit else []
        return [Features(ids, [0] * len(ids), about, whole, len(ids)) for ids in read]

    def _read(self, ids: Sequence[int], tokenizer: Tokenizer) -> list[int]:
        start, between, _ = tokenizer.frame
        return tokenizer.frame.around(ids) if self.way == "two" else [*start, *ids, *between]

    def _taught(self, read: list[int], target: list[int], tokenizer: Tokenizer, whole: bool) -> Features:
        """What is read and what is written as one sequence; the last token is told and never read."""
        answers = [*target, self.end(tokenizer)]
        if self.way == "two":
            shown = [tokenizer.writer.frame.start[-1], *target]
        else:
            shown = [*target, *([tokenizer.mask_id] * len(answers) if self.hides else [])]
        second = tokenizer.form.second_segment if self.way == "one" else 0
        segments = [0] * len(read) + [second] * len(shown)
        return Features([*read, *shown], segments, answers, whole, len(read))

    def end(self, tokenizer: Tokenizer) -> int:
        """The token that ends what is written."""
        return tokenizer.writer.frame.end[0]

    def targets(self, features: Sequence[Features], numbers: Sequence[int], firsts: Tensor) -> dict[str, Tensor]:
        return {"words": torch.tensor([token for each in features for token in each.about])}

    def term(self, given: Given[Tensor], batch: TaskBatch) -> Term:
        return masked_word_term(given.words, given.scores, batch.targets["words"], smoothing=self.smoothing)

    def counted(self, units: Sequence[Unit]) -> int:
        """Words count alike, in texts of any length."""
        return sum(len(each.about) for unit in units for each in unit)

    def answers(self, examples: Sequence[PairToWrite], units: Sequence[Unit], given: Rows) -> Iterator[dict[str, Any]]:
        for parts in given.scores:
            best: Any = [list(its) for its in parts]
            answer = WrittenAnswer(text=_joined([its[0].text for its in best]))
            if self.best > 1:
                answer["texts"] = [{"text": each.text, "score": each.score} for each in best[0]]
            if any(its[0].ended != "end" for its in best):
                answer["ended"] = next(its[0].ended for its in best if its[0].ended != "end")
            answer.loss = best[0][0].loss
            yield answer

    def metrics(self, examples: Sequence[PairToWrite], answers: Answers) -> dict[str, float]:
        require_metrics()
        found = corpus_scores(_texts(answers), _right(examples))
        losses = [each.loss for each in answers if isinstance(each, WrittenAnswer) and each.loss is not None]
        if losses:
            mean = sum(loss for loss, _ in losses) / sum(count for _, count in losses)
            found |= {"loss": mean, "perplexity": perplexity(mean)}
        main = self.measure.main
        return {main: found.pop(main), **found}

    def findings(
        self, examples: Sequence[PairToWrite], answers: Answers, train: Sequence[PairToWrite] = (), batch: int = 1
    ) -> Findings:
        if not train:
            return Findings()
        goodness = rouge_of_each(_texts(answers), _right(examples))
        mistakes = (
            (-score[-1], Mistake(each.text, " | ".join(each.targets), said, None, each.place))
            for each, said, score in zip(examples, _texts(answers), goodness, strict=True)
        )
        return Findings(
            mistakes=worst(mistakes),
            only_answer=only_one(_texts(answers)) if len(examples) > 1 else None,
            baselines=measured(self, examples, of_texts(train, examples)),
        )

    def meet(self, examples: Sequence[PairToWrite], *, held_out: bool = False) -> Begun:
        _require_targets(examples)
        return Begun(self, [])


def _require_targets(examples: Sequence[PairToWrite]) -> None:
    for example in examples:
        if not example.targets:
            raise InputError(f"{example.place}: there is no target", "Name its column with `target_column`.")


def _texts(answers: Answers) -> list[str]:
    return [answer["text"] for answer in answers]


def _right(examples: Sequence[PairToWrite]) -> list[tuple[str, ...]]:
    return [example.targets for example in examples]


def _to_chinese(examples: Sequence[PairToWrite]) -> bool:
    some = examples[:100]
    return 2 * sum(has_han(each.targets[0]) for each in some) > len(some)


def _joined(parts: Sequence[str]) -> str:
    """What was written of windows, one after another."""
    return (("" if all(map(has_han, parts)) else " ").join(parts)).strip()
