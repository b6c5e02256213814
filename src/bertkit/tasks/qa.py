"""Where in a passage is the answer to a question? SQuAD's task: two scores for each token, begin and end.

A passage of any length is read through windows that overlap, the question before each. What a window's tokens are in
the passage is kept as characters, so an answer is a part of the passage as it was given, letter for letter.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from bertkit.errors import InputError, UsageError
from bertkit.objectives.terms import Term
from bertkit.tasks.baselines import of_passages
from bertkit.tasks.data import Begun, Encoded, Features, Given, Head, Measure, Rows, TaskBatch, Ties, Unit
from bertkit.tasks.examples import QaExample
from bertkit.tasks.findings import Answers, Findings, Mistake, measured, only_one, worst
from bertkit.tasks.options import QaOptions
from bertkit.tasks.qa_rows import PARTS, checked_questions, question_of
from bertkit.tasks.qa_scores import best_agreement, best_threshold, qa_scores
from bertkit.tasks.qa_spans import BEST, Passage, best_spans, characters_of, passages_of, tokens_of
from bertkit.tasks.task import Task
from bertkit.tasks.texts import framed, pieces_of
from bertkit.text.sentences import windows
from bertkit.text.tokenizer import Tokenizer

USUAL_LENGTH = 384
MAY_BE_SILENT = "some questions have no answer in their passage: the model may say so (as with `no_answer=True`)"
NO_ANSWER = "that there is no answer"
TOO_LONG = 0.01
"""This share of the answers may be too long to be given: a few very long ones would let all others be too."""
WORTH_A_WORD = 0.005
"""A gain in F1 that is less is not told of."""
SHOWN = 3
"""So many of the best answers are told."""


class PartOfPassage(NamedTuple):
    """What a window knows of itself."""

    spans: npt.NDArray[np.int64]
    """Of all tokens of the passage."""
    start: int
    stop: int
    """Which of them it has."""
    before: int
    """So many tokens of the question come before them, with [CLS] and [SEP]."""
    target: tuple[int, int]
    """The places of the answer's first and last token, counted in the window; 0, the [CLS], where it is not in it."""
    cut: int
    """So many pieces of the question are left out."""


@dataclass(frozen=True, kw_only=True)
class Qa(Task[QaExample]):
    max_length: int = USUAL_LENGTH
    stride: int = 128
    """So many tokens do neighbouring windows share; at most half of what they have of the passage."""
    max_question: int = 64
    """A question of so many pieces is read whole, and a longer one too as long as it takes no more than half of the
    window. One that is longer still is an error where the answer is known (training, evaluating), because it is hardly
    a question; else its beginning and its end are read, and the answer says how much is left out (`question_cut`)."""
    max_answer: int = 30
    """In tokens. Where more than a hundredth of the answers in training are longer, as long as all but those."""
    no_answer: bool = False
    """Whether there may be none in the passage."""
    threshold: float = 0.0
    """Nothing is answered if the score of that is higher than the best answer's by more than this. Training leaves it
    at 0; what would do better on what is measured on, is told."""

    name = "qa"
    parts = PARTS
    together = staticmethod(checked_questions)
    options = QaOptions
    usual_length = USUAL_LENGTH
    in_windows = True
    at_use: ClassVar[Mapping[str, str]] = {"no_answer": "no_answer", "threshold": "threshold"}

    def __post_init__(self) -> None:
        if self.max_length < 8 or self.stride < 0 or self.max_question < 1 or self.max_answer < 1:
            raise UsageError(
                f"windows of {self.max_length} tokens that share {self.stride}, questions of {self.max_question}, "
                f"answers of {self.max_answer}",
                "A window has at least 8 tokens, a question and an answer at least 1.",
            )
        if not math.isfinite(self.threshold):
            raise UsageError(f"a threshold of {self.threshold}", "Give a finite number.")
        if "threshold" in self.said and not self.no_answer:
            raise UsageError("`threshold` with a model that always answers", "Give `no_answer=True` too.")

    @classmethod
    def read(cls, value: Any, place: str) -> QaExample:
        """From (question, passage), or {"question": ..., "context": ...}."""
        return question_of(value, place)

    @classmethod
    def begin(cls, examples: Sequence[QaExample], options: QaOptions, longest: int) -> Begun:
        if not any(example.answers for example in examples):
            raise InputError(
                f"{examples[0].place}: none of the {len(examples):,} questions has an answer",
                "Training needs some that their passage tells.",
            )
        no_answer = any(not example.answers for example in examples)
        return Begun(cls(max_length=longest, no_answer=no_answer), [MAY_BE_SILENT] * no_answer)

    def meet(self, examples: Sequence[QaExample], *, held_out: bool = False) -> Begun:
        """Where some questions have no answer, saying so is right. Folders of others do not tell whether it is."""
        if self.no_answer or "no_answer" in self.said or all(example.answers for example in examples):
            return Begun(self, [])
        return Begun(replace(self, no_answer=True), [MAY_BE_SILENT])

    def _fitted_to(self, encoded: Sequence[Unit]) -> Self:
        lengths = sorted(filter(None, map(_answer_length, encoded)))
        longest = lengths[math.ceil((1 - TOO_LONG) * len(lengths)) - 1] if lengths else 0
        return replace(self, max_answer=max(self.max_answer, longest))

    def _out_of_reach(self, examples: Sequence[QaExample], encoded: Sequence[Unit]) -> Iterator[str]:
        lengths = [_answer_length(its) for its in encoded]
        told = [(each, length) for each, length in zip(examples, lengths, strict=True) if each.answers]
        if too_long := [each for each, length in told if length is not None and length > self.max_answer]:
            yield (
                f"{len(too_long):,} of {len(told):,} answers are longer than {self.max_answer} tokens, the most that is"
                f" given as an answer; the first is in {too_long[0].place}"
            )
        if nowhere := [each for each, length in told if length is None]:
            yield (
                f"{len(nowhere):,} of {len(told):,} answers are whole in no window of {self.max_length} tokens, and"
                f" cannot be learned or found: give a larger `max_length`; the first is in {nowhere[0].place}"
            )

    def ties(self, example: QaExample) -> Ties:
        return Ties((example.question, example.context), family=example.context)

    @property
    def head(self) -> Head:
        return Head(reads="tokens", outputs=2, hugging_face="BertForQuestionAnswering", matrix="qa_outputs")

    @property
    def measure(self) -> Measure:
        return Measure(main="f1", sums=lambda examples, answers: map(_sums, examples, answers))

    def _not_measured(self, examples: Sequence[QaExample]) -> str:
        answered = sum(bool(example.answers) for example in examples)
        if not answered:
            return "No question that is measured on has an answer: how well answers are found is not known."
        if self.no_answer and answered == len(examples):
            return (
                "All questions that are measured on have an answer: whether it knows of one that has none is unknown."
            )
        return ""

    def encode(self, examples: Sequence[QaExample], tokenizer: Tokenizer, learned: int = 0) -> Encoded:
        questions = pieces_of([example.question for example in examples], tokenizer)
        passages = passages_of([example.context for example in examples], tokenizer)
        units = [
            self._windows(example, question, passages[example.context], tokenizer)
            for example, question in zip(examples, questions, strict=True)
        ]
        task = self._fitted_to(units[:learned]) if learned else self
        return Encoded(units, task, notes=task._out_of_reach(examples, units) if learned else ())

    def _windows(self, example: QaExample, question: list[int], passage: Passage, tokenizer: Tokenizer) -> Unit:
        room = self.max_length - tokenizer.frame.size(pair=True)
        whole = len(question)
        question = self._fitted(question, room, example)
        size = room - len(question)
        answer = tokens_of(example.answers[0], passage.spans) if example.answers else None
        found = []
        for start, stop, _, _ in windows(len(passage.ids), size, context=min(-(-self.stride // 2), size // 4)):
            ids, segments = framed(question, passage.ids[start:stop], tokenizer)
            before = len(question) + tokenizer.frame.size(pair=True) - len(tokenizer.frame.end)
            inside = answer is not None and start <= answer[0] and answer[1] < stop
            target = (answer[0] - start + before, answer[1] - start + before) if answer and inside else (0, 0)
            about = PartOfPassage(passage.spans, start, stop, before, target, whole - len(question))
            found.append(Features(ids, segments, about, whole=not about.cut))
        return found

    def _fitted(self, question: list[int], room: int, example: QaExample) -> list[int]:
        most = max(min(self.max_question, 3 * room // 4), room // 2)
        if len(question) <= most:
            return question
        if example.answers is not None:
            raise InputError(
                f"{example.place}: the question has {len(question)} tokens, and beside a passage {most} fit the model",
                "Shorten it, or remove it; or give a larger `max_length`.",
            )
        head = 3 * most // 4
        return [*question[:head], *question[len(question) - (most - head) :]]

    def targets(self, features: Sequence[Features], numbers: Sequence[int], firsts: Tensor) -> dict[str, Tensor]:
        return {
            "answers": torch.tensor([each.about.target for each in features]),
            "lengths": torch.tensor([len(each.ids) for each in features]),
        }

    def term(self, given: Given[Tensor], batch: TaskBatch) -> Term:
        scores_T2, answers_B2, lengths = given.scores, batch.targets["answers"], batch.targets["lengths"]
        # Windows side by side, each with its own tokens only: softmax goes over a window.
        places_BL = torch.arange(int(lengths.max()), device=lengths.device)[None].expand(len(lengths), -1)
        inside_BL = places_BL < lengths[:, None]
        rows_BL = (places_BL + batch.firsts[:, None]).clamp(max=len(scores_T2) - 1)
        scores_BL2 = scores_T2[rows_BL].float().masked_fill(~inside_BL[..., None], -torch.inf)
        total = F.cross_entropy(scores_BL2, answers_B2, reduction="sum") / 2
        right = (scores_BL2.argmax(1) == answers_B2).all(1).sum()
        return Term(total, len(lengths), right.detach())

    def answers(self, examples: Sequence[QaExample], units: Sequence[Unit], given: Rows) -> Iterator[dict[str, Any]]:
        return map(self._answer, examples, units, given.scores)

    def _answer(self, example: QaExample, features: Unit, scores: Sequence[Tensor]) -> dict[str, Any]:
        """Of every window the best pairs of a first and a last token. That there is no answer must be said by every
        window: the score of it is the lowest that a window gives its [CLS]."""
        candidates: dict[tuple[int, int], float] = {}
        for each, scores_L2 in zip(features, scores, strict=True):
            about: PartOfPassage = each.about
            passage = scores_L2[about.before : about.before + about.stop - about.start].double()
            for score, first, last in best_spans(passage, self.max_answer):
                span = characters_of(about.spans, about.start + first, about.start + last, example.context)
                if span is not None:
                    candidates[span] = max(score, candidates.get(span, score))
        nothing = min(float(scores_L2[0].double().sum()) for scores_L2 in scores)
        ranked = sorted(candidates.items(), key=lambda item: (-item[1], item[0]))[:BEST]
        considered = [score for _, score in ranked] + ([nothing] if self.no_answer or not ranked else [])
        chances = torch.tensor(considered, dtype=torch.float64).softmax(0).tolist()
        best = [
            {"answer": example.context[start:end], "start": start, "end": end, "score": score, "probability": chance}
            for ((start, end), score), chance in zip(ranked[:SHOWN], chances, strict=False)
        ]
        silent = not ranked or (self.no_answer and nothing - ranked[0][1] > self.threshold)
        said = {"answer": "", "start": None, "end": None, "score": nothing, "probability": chances[-1]}
        cut = features[0].about.cut
        return {
            **({"id": example.id} if example.id else {}),
            **(said if silent else best[0]),
            "no_answer_score": nothing,
            "best": best,
            **({"question_cut": cut} if cut else {}),
        }

    def metrics(self, examples: Sequence[QaExample], answers: Answers) -> dict[str, float]:
        right = [[answer.text for answer in example.answers or ()] for example in examples]
        return qa_scores(right, [answer["answer"] for answer in answers])

    def _in_hindsight(self, examples: Sequence[QaExample], answers: Answers) -> list[str]:
        """Which threshold would have been best, if it is worth a word."""
        if not (self.no_answer and examples):
            return []
        sides = []
        for example, answer in zip(examples, answers, strict=True):
            right = [each.text for each in example.answers or ()]
            nothing = answer["no_answer_score"]
            best = answer["best"][0] if answer["best"] else {"answer": "", "score": nothing}
            f1s = best_agreement(str(best["answer"]), right).f1, best_agreement("", right).f1
            sides.append((nothing - best["score"], *f1s))
        threshold, f1 = best_threshold(*zip(*sides, strict=True))
        gained = f1 - self.metrics(examples, answers)["f1"]
        if gained < WORTH_A_WORD:
            return []
        return [f"with `threshold={threshold:.6g}`, for evaluate and predict, F1 would be {f1:.4f} on these questions"]

    def findings(
        self, examples: Sequence[QaExample], answers: Answers, train: Sequence[QaExample] = (), batch: int = 1
    ) -> Findings:
        better = self._in_hindsight(examples, answers)
        if not train:
            return Findings(in_hindsight=better)
        return Findings(
            mistakes=worst(map(_mistake, examples, answers)),
            not_measured=self._not_measured(examples),
            in_hindsight=better,
            try_next=[f"{line[0].upper()}{line[1:]}." for line in better],
            only_answer=only_one(repr(each["answer"]) if each["answer"] else NO_ANSWER for each in answers),
            baselines=measured(self, examples, of_passages(train, examples, may_be_silent=self.no_answer)),
        )


def _mistake(example: QaExample, answer: Mapping[str, Any]) -> tuple[float, Mistake] | None:
    """Those it was most sure of, the less they have in common with a right answer the worse."""
    right = list(dict.fromkeys(each.text for each in example.answers or ()))
    missed = 1 - qa_scores([right], [answer["answer"]])["f1"]
    if missed <= 0:
        return None
    told, said, sure = " / ".join(right) or "no answer", answer["answer"] or "no answer", answer["probability"]
    return missed * sure, Mistake(f"{example.question}  |  {example.context}", told, said, sure, example.place)


def _sums(example: QaExample, answer: Mapping[str, Any]) -> tuple[float, float]:
    return best_agreement(answer["answer"], [right.text for right in example.answers or ()]).f1, 1.0


def _answer_length(windows_of_one: Unit) -> int | None:
    """In tokens; None if no window has all of it."""
    targets = [each.about.target for each in windows_of_one]
    return next((last - first + 1 for first, last in targets if first), None)
