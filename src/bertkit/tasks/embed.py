"""Vectors of texts whose cosine says how much two texts have to do with each other.

Those of BERT as it was pretrained do not: nothing ever asked for it. So the model learns from pairs. If they belong
together (a question and its answer, two ways to say one thing), each text must be nearer to its own partner than to
those of all other pairs of the batch. If they have scores, cosines must be in the order of the scores.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from bertkit.errors import InputError, shortened
from bertkit.objectives.terms import Term
from bertkit.tables.values import TextExample, number_of, text_of
from bertkit.tasks.baselines import cosine_bags
from bertkit.tasks.data import Begun, Encoded, Features, Given, Head, Measure, Part, Rows, TaskBatch, Ties, Unit
from bertkit.tasks.examples import PairExample
from bertkit.tasks.findings import MISTAKES, Answers, Findings, Mistake
from bertkit.tasks.options import EmbedOptions
from bertkit.tasks.regress import SCORES
from bertkit.tasks.scores import Search, correlation, row_cosines, search, search_scores, similarity_scores, unwarned
from bertkit.tasks.task import Task
from bertkit.tasks.texts import FIRST as FIRST_NAMES
from bertkit.tasks.texts import PAIRS, encode_texts
from bertkit.tasks.texts import SECOND as SECOND_NAMES
from bertkit.text.tokenizer import Tokenizer

SCALE = 20.0
"""Cosines differ by little; so much larger, their differences are worth something to a softmax."""
FIRST, SECOND, NEGATIVE = range(3)
ENOUGH_TO_TELL_FROM = 64
NO_SCORES = "If all pairs belong together and there is no score: `score_column=none`."
BELONG_TOGETHER = (
    ("text1", "text2"),
    ("anchor", "positive"),
    ("query", "positive"),
    ("query", "passage"),
    ("query", "document"),
    ("question", "answer"),
    ("question", "passage"),
    ("title", "body"),
    ("title", "text"),
    ("text", "summary"),
)
"""More names for two texts, which in a table for another task need not be a pair."""


class PairAnswer(dict[str, Any]):
    """What is told of a pair, and beside it what only the metrics need: the two vectors, of length 1."""

    vectors: tuple[Tensor, Tensor]


@dataclass(frozen=True, kw_only=True)
class Embed(Task[PairExample]):
    scores: tuple[float, float] | None = None
    """The lowest and the highest of the training data, which are taken as 0 and 1; None if there are none."""
    by_score: bool = False
    """Whether what it is measured on has scores: that need not be as in training."""

    name = "embed"
    parts = (
        Part.text("text", *FIRST_NAMES),
        Part.text("pair", *SECOND_NAMES, about="the second text", pairs=PAIRS + BELONG_TOGETHER),
        Part.number("score", *SCORES, needed=False),
        Part.text("negative", "hard_negative", "negatives", "neg", needed=False, learned=True),
    )
    options = EmbedOptions
    whole_batches = True
    has_head = False
    answers_untrained = True

    @classmethod
    def read(cls, value: Any, place: str) -> PairExample:
        """From two texts, or {"text": ..., "pair": ...}; in a row, with what is right."""
        if not isinstance(value, Mapping) and isinstance(value, tuple | list) and len(value) == 2:
            value = {"text": value[0], "pair": value[1]}
        if not isinstance(value, Mapping) or not {"text", "pair"} <= value.keys() <= {part.name for part in cls.parts}:
            raise InputError(
                f"{place} is {shortened(value)}",
                "Pass two texts for their cosine; for one's vector use load_encoder(folder).embed, or bertkit embed.",
            )
        text, pair = (text_of(value[name], name, place) for name in ("text", "pair"))
        try:
            score = number_of(value["score"], "score", place) if "score" in value else None
        except InputError as problem:
            raise InputError(problem.problem, f"{problem.remedy} {NO_SCORES}") from None
        return PairExample(
            place, text, pair, score, text_of(value["negative"], "negative", place) if "negative" in value else None
        )

    @classmethod
    def begin(cls, examples: Sequence[PairExample], options: EmbedOptions, longest: int) -> Begun:
        found = _scores(examples)
        if not found:
            apart = "pairs without scores belong together; all other pairs of a batch are what does not"
            return Begun(cls(max_length=longest), [apart])
        if examples[0].negative is not None:
            raise InputError(
                f"{examples[0].place}: there is a score and a text that does not belong to the first",
                "Learn from one of them: `score_column=none` leaves the scores out.",
            )
        _require_different(found, examples[0].place, "the training data")
        low, high = min(found), max(found)
        ordered = f"the scores {low:g} to {high:g} are taken as 0 to 1, and their order is learned"
        return Begun(cls(scores=(low, high), by_score=True, max_length=longest), [ordered])

    def meet(self, examples: Sequence[PairExample], *, held_out: bool = False) -> Begun:
        if found := _scores(examples):
            _require_different(found, examples[0].place, "what is measured on")
        return Begun(replace(self, by_score=examples[0].right is not None), [])

    def ties(self, example: PairExample) -> Ties:
        """In any order: the cosine is the same."""
        return Ties(frozenset((example.text, example.pair)), family=example.text)

    @property
    def head(self) -> Head:
        return Head(reads="mean", outputs=0, hugging_face="BertModel")

    @property
    def measure(self) -> Measure:
        if self.by_score:
            return Measure(main="spearman", sums=_rank_sums, value=lambda sums: correlation(*sums))
        return Measure(
            main="mean_reciprocal_rank",
            sums=lambda examples, answers: ((1 / rank, 1.0) for rank in _searched(examples, answers).ranks.tolist()),
        )

    def encode(self, examples: Sequence[PairExample], tokenizer: Tokenizer, learned: int = 0) -> Encoded:
        """Each text by itself; of one that is too long, the beginning."""
        texts = [
            TextExample(example.place, text)
            for example in examples
            for text in (example.text, example.pair, example.negative)
            if text is not None
        ]
        found = encode_texts(texts, tokenizer, max_length=self.max_length, long="head")
        encoded = []
        for example in examples:
            roles = (FIRST, SECOND) if example.negative is None else (FIRST, SECOND, NEGATIVE)
            encoded.append([next(found)[0]._replace(about=(role, example.right)) for role in roles])
        return Encoded(encoded, self, together=True)

    def targets(self, features: Sequence[Features], numbers: Sequence[int], firsts: Tensor) -> dict[str, Tensor]:
        """`first`, `second`, `negative`: which of the sequences they are, in the order of the pairs. `score`s; or what
        must not count as wrong: `spared` of all seconds and negatives for each first, `spared_back` the other way."""
        order = np.argsort(numbers, kind="stable")
        roles = np.array([features[place].about[0] for place in order])
        first, second, negative = (order[roles == role] for role in (FIRST, SECOND, NEGATIVE))
        places = {name: torch.from_numpy(its) for name, its in (("first", first), ("second", second))}
        if self.scores is not None:
            low, high = self.scores
            scores = [(features[place].about[1] - low) / (high - low) for place in first]
            return {**places, "score": torch.tensor(scores, dtype=torch.float32)}
        known: dict[tuple[int, ...], int] = {}
        texts = torch.tensor([known.setdefault(tuple(each.ids), len(known)) for each in features])
        candidates = np.concatenate([second, negative])
        return {
            **places,
            "negative": torch.from_numpy(negative),
            "spared": _spared(texts[first], texts[second], texts[candidates]),
            "spared_back": _spared(texts[second], texts[first], texts[first]),
        }

    def term(self, given: Given[Tensor], batch: TaskBatch) -> Term:
        with torch.autocast(given.scores.device.type, enabled=False):
            vectors = F.normalize(given.scores.float(), dim=1)
            targets = batch.targets
            first, second = vectors[targets["first"]], vectors[targets["second"]]
            if self.scores is not None:
                return _in_order((first * second).sum(1), targets["score"])
            candidates = torch.cat([second, vectors[targets["negative"]]])
            return _each_to_its_own(first, second, candidates, targets["spared"], targets["spared_back"])

    def answers(self, examples: Sequence[PairExample], units: Sequence[Unit], given: Rows) -> Iterator[dict[str, Any]]:
        for scores in given.scores:
            first, second = (F.normalize(each.double(), dim=0) for each in scores[:2])
            answer = PairAnswer(cosine=float(first @ second))
            answer.vectors = first.float(), second.float()
            yield answer

    def metrics(self, examples: Sequence[PairExample], answers: Answers) -> dict[str, float]:
        return metrics_of(examples, *_matrices(answers))

    def findings(
        self, examples: Sequence[PairExample], answers: Answers, train: Sequence[PairExample] = (), batch: int = 1
    ) -> Findings:
        if not train:
            return Findings()
        larger = f"A larger batch has more texts to tell the right one from: try `batch={2 * batch}`."
        with unwarned():
            vectors = cosine_bags(train, examples)
        return Findings(
            mistakes=(_out_of_order if self.by_score else _found_late)(examples, answers),
            try_next=[larger] if self.scores is None and batch < ENOUGH_TO_TELL_FROM else [],
            baselines={"bag of words": metrics_of(examples, *vectors)} if vectors else {},
        )


def metrics_of(examples: Sequence[PairExample], firsts: Any, seconds: Any) -> dict[str, float]:
    """The metrics of any vectors, given as the rows of two matrices."""
    if scores := _scores(examples):
        return similarity_scores(scores, row_cosines(firsts, seconds))
    texts, pairs = [example.text for example in examples], [example.pair for example in examples]
    return search_scores(search(texts, pairs, firsts, seconds).ranks)


def _searched(examples: Sequence[PairExample], answers: Answers) -> Search:
    texts, pairs = [example.text for example in examples], [example.pair for example in examples]
    return search(texts, pairs, *_matrices(answers))


def _rank_sums(examples: Sequence[PairExample], answers: Answers) -> list[tuple[float, ...]]:
    """For Spearman's correlation the ranks among all of them, which in a resample would be nearly the same."""
    from scipy.stats import rankdata

    middle = (len(examples) + 1) / 2
    right = (rankdata(_scores(examples)) - middle) / len(examples)
    said = (rankdata([answer["cosine"] for answer in answers]) - middle) / len(examples)
    return [(1.0, a, b, a * a, b * b, a * b) for a, b in zip(right.tolist(), said.tolist(), strict=True)]


def _spared(texts: Tensor, right: Tensor, candidates: Tensor) -> Tensor:
    """For each text, which candidates are no wrong answers: its own, what is right for the same text elsewhere in the
    batch, and the text itself. All are given as numbers that are equal for equal texts."""
    same = (texts[:, None] == texts).float()
    is_right = (right[:, None] == candidates).float()
    return (same @ is_right > 0) | (texts[:, None] == candidates)


def _each_to_its_own(first: Tensor, second: Tensor, candidates: Tensor, spared: Tensor, spared_back: Tensor) -> Term:
    """Cross entropy over the batch, from the first texts to the second and back; the mean of both."""
    own = torch.arange(len(first), device=first.device)
    total = first.new_zeros(())
    right = []
    for these, those, hidden in ((first, candidates, spared), (second, first, spared_back)):
        hidden = hidden.scatter(1, own[:, None], False)
        table = (SCALE * these @ those.t()).masked_fill(hidden, -torch.inf)
        total = total + F.cross_entropy(table, own, reduction="sum") / 2
        right.append((table.detach().argmax(1) == own).sum())
    return Term(total, len(first), right[0])


def _in_order(cosines: Tensor, scores: Tensor) -> Term:
    """For every two pairs of the batch of which one has the higher score: by how much its cosine is not the higher
    one, softly, with the worst counting most (CoSENT; Su, 2022). Squared errors ask cosines to be equal to scores,
    which nobody needs: a tiny BERT reaches a Spearman correlation of 0.68 with them on STS-B, and 0.73 with this."""
    falls_short = SCALE * (cosines[:, None] - cosines)
    ordered = scores[:, None] < scores
    falls_short = falls_short.masked_fill(~ordered, -torch.inf).flatten()
    loss = torch.cat([cosines.new_zeros(1), falls_short]).logsumexp(0)
    share = (falls_short.detach()[ordered.flatten()] < 0).float().mean() if ordered.any() else loss.new_ones(())
    return Term(loss * len(cosines), len(cosines), share * len(cosines))


def _out_of_order(examples: Sequence[PairExample], answers: Answers) -> list[Mistake]:
    """Pairs whose cosine is further up or down among all cosines than their score is among all scores."""
    from scipy.stats import rankdata

    scores, cosines = _scores(examples), [answer["cosine"] for answer in answers]
    off = np.abs(rankdata(scores) - rankdata(cosines))
    return [
        Mistake(f"{each.text}  |  {each.pair}", f"{scores[n]:g}", f"cosine {cosines[n]:.3f}", None, each.place)
        for n in np.argsort(-off, kind="stable")[:MISTAKES].tolist()
        for each in [examples[n]]
    ]


def _found_late(examples: Sequence[PairExample], answers: Answers) -> list[Mistake]:
    """Texts to which many others were nearer than the one that belongs to them."""
    ranks, nearest = _searched(examples, answers)
    worst = [number for number in np.argsort(-ranks, kind="stable")[:MISTAKES].tolist() if ranks[number] > 1]
    return [
        Mistake(
            examples[number].text,
            examples[number].pair,
            f"{examples[nearest[number]].pair}  (the right one came as number {ranks[number]:,})",
            None,
            examples[number].place,
        )
        for number in worst
    ]


def _matrices(answers: Answers) -> tuple[Any, Any]:
    vectors = [answer.vectors for answer in answers if isinstance(answer, PairAnswer)]
    firsts, seconds = (torch.stack(side).numpy() for side in zip(*vectors, strict=True))
    return firsts, seconds


def _scores(examples: Sequence[PairExample]) -> list[float]:
    """Of those that have one: all, or none."""
    return [example.right for example in examples if example.right is not None]


def _require_different(scores: Sequence[float], place: str, where: str) -> None:
    if min(scores) == max(scores):
        raise InputError(
            f"{place}: every score in {where} is {scores[0]:g}",
            "Is that the right column? Name it with `score_column`; if all pairs belong together, `score_column=none`.",
        )
