"""Vectors of texts whose cosine says how much two texts have to do with each other.

Those of BERT as it was pretrained do not: nothing ever asked for it. So the model learns from pairs. If they belong
together (a question and its answer, two ways to say one thing), each text must be nearer to its own partner than to
those of all other pairs of the batch. If they have scores, cosines must be in the order of the scores.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from bertkit.errors import InputError
from bertkit.model.fine_tuned import FineTuned, HeadShape
from bertkit.objectives.terms import Term
from bertkit.tasks.data.text_pairs import PairExample, pair_of, read_pairs
from bertkit.tasks.data.texts import TextExample
from bertkit.tasks.encoding import encode_texts
from bertkit.tasks.pair_scores import Search, row_cosines, search, search_scores, similarity_scores
from bertkit.tasks.scores import correlation
from bertkit.tasks.task import MISTAKES, Features, Mistake, Reading, Task, TaskBatch, Unit
from bertkit.text.tokenizer import Tokenizer

SCALE = 20.0
"""Cosines differ by little; so much larger, their differences are worth something to a softmax."""
FIRST, SECOND, NEGATIVE = range(3)
ENOUGH_TO_TELL_FROM = 64


class PairAnswer(dict[str, Any]):
    """What is told of a pair, and beside it what only the metrics need: the two vectors, of length 1."""

    vectors: tuple[Tensor, Tensor]


@dataclass(frozen=True, kw_only=True)
class Embed(Task[PairExample]):
    max_length: int = 512
    scores: tuple[float, float] | None = None
    """The lowest and the highest of the training data, which are taken as 0 and 1; None if there are none."""
    by_score: bool = False
    """Whether what it is measured on has scores: that need not be as in training."""

    name: ClassVar[str] = "embed"
    architecture: ClassVar[str] = "BertModel"
    whole_batches: ClassVar[bool] = True
    has_head: ClassVar[bool] = False
    answers_untrained: ClassVar[bool] = True

    @classmethod
    def read(cls, path: str, reading: Reading, notes: list[str]) -> Iterator[PairExample]:
        return read_pairs(path, reading, notes)

    @classmethod
    def example(cls, value: Any, place: str) -> PairExample:
        return pair_of(value, place)

    @classmethod
    def for_examples(cls, examples: Sequence[PairExample], **options: Any) -> Self:
        found = _scores(examples)
        if not found:
            return cls(**options)
        if examples[0].negative is not None:
            raise InputError(
                f"{examples[0].place}: there is a score and a text that does not belong to the first",
                "Learn from one of them: --score none leaves the scores out.",
            )
        _require_different(found, examples[0].place, "the training data")
        return cls(scores=(min(found), max(found)), by_score=True, **options)

    def check(self, examples: Sequence[PairExample]) -> None:
        if found := _scores(examples):
            _require_different(found, examples[0].place, "what is measured on")

    def measured_on(self, examples: Sequence[PairExample]) -> Self:
        return replace(self, by_score=examples[0].right is not None)

    def remarks(self, examples: Sequence[PairExample]) -> list[str]:  # noqa: ARG002
        if self.scores is None:
            return ["pairs without scores belong together; all other pairs of a batch are what does not"]
        low, high = self.scores
        return [f"the scores {low:g} to {high:g} are taken as 0 to 1, and their order is learned"]

    @staticmethod
    def content(example: PairExample) -> Hashable:
        """In any order: the cosine is the same."""
        return frozenset((example.text, example.pair))

    @staticmethod
    def family(example: PairExample) -> Hashable:
        return example.text

    @property
    def main_metric(self) -> str:
        return "spearman" if self.by_score else "mean_reciprocal_rank"

    def tallies(self, examples: Sequence[PairExample], answers: Sequence[Mapping[str, Any]]) -> list[tuple[float, ...]]:
        """For Spearman's correlation the ranks among all of them, which in a resample would be nearly the same."""
        if not self.by_score:
            return [(1 / rank, 1.0) for rank in self.searched(examples, answers).ranks.tolist()]
        from scipy.stats import rankdata

        middle = (len(examples) + 1) / 2
        right = (rankdata(_scores(examples)) - middle) / len(examples)
        said = (rankdata([answer["cosine"] for answer in answers]) - middle) / len(examples)
        return [(1.0, a, b, a * a, b * b, a * b) for a, b in zip(right.tolist(), said.tolist(), strict=True)]

    def from_tallies(self, sums: Sequence[float]) -> float:
        return correlation(*sums) if self.by_score else sums[0] / sums[1]

    @property
    def shape(self) -> HeadShape:
        return HeadShape(reads="mean", outputs=0)

    def encode(self, examples: Sequence[PairExample], tokenizer: Tokenizer) -> list[Unit]:
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
        return encoded

    def units(self, features: Unit) -> list[Unit]:
        return [features]

    def targets(self, features: Sequence[Features], numbers: Sequence[int], firsts: Tensor) -> dict[str, Tensor]:  # noqa: ARG002
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

    def term(self, model: FineTuned, batch: TaskBatch) -> Term:
        vectors = model(batch)
        with torch.autocast(vectors.device.type, enabled=False):
            vectors = F.normalize(vectors.float(), dim=1)
            targets = batch.targets
            first, second = vectors[targets["first"]], vectors[targets["second"]]
            if self.scores is not None:
                return _in_order((first * second).sum(1), targets["score"])
            candidates = torch.cat([second, vectors[targets["negative"]]])
            return _each_to_its_own(first, second, candidates, targets["spared"], targets["spared_back"])

    def answer(
        self,
        example: PairExample,  # noqa: ARG002
        features: Unit,  # noqa: ARG002
        scores: Sequence[Tensor],
        model: FineTuned,  # noqa: ARG002
    ) -> dict[str, Any]:
        first, second = (F.normalize(each.double(), dim=0) for each in scores[:2])
        answer = PairAnswer(cosine=float(first @ second))
        answer.vectors = first.float(), second.float()
        return answer

    def metrics(self, examples: Sequence[PairExample], answers: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        return self.measured(examples, *_matrices(answers))

    @staticmethod
    def measured(examples: Sequence[PairExample], firsts: Any, seconds: Any) -> dict[str, float]:
        """The metrics of any vectors, given as the rows of two matrices."""
        if scores := _scores(examples):
            return similarity_scores(scores, row_cosines(firsts, seconds))
        texts, pairs = [example.text for example in examples], [example.pair for example in examples]
        return search_scores(search(texts, pairs, firsts, seconds).ranks)

    @staticmethod
    def searched(examples: Sequence[PairExample], answers: Sequence[Mapping[str, Any]]) -> Search:
        texts, pairs = [example.text for example in examples], [example.pair for example in examples]
        return search(texts, pairs, *_matrices(answers))

    def mistakes(self, examples: Sequence[PairExample], answers: Sequence[Mapping[str, Any]]) -> list[Mistake]:
        return _out_of_order(examples, answers) if self.by_score else self._found_late(examples, answers)

    def _found_late(self, examples: Sequence[PairExample], answers: Sequence[Mapping[str, Any]]) -> list[Mistake]:
        """Texts to which many others were nearer than the one that belongs to them."""
        ranks, nearest = self.searched(examples, answers)
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

    def advice(
        self,
        train: Sequence[PairExample],  # noqa: ARG002
        dev: Sequence[PairExample],  # noqa: ARG002
        answers: Sequence[Mapping[str, Any]],  # noqa: ARG002
        batch: int,
    ) -> list[str]:
        if self.scores is not None or batch >= ENOUGH_TO_TELL_FROM:
            return []
        return [f"A larger batch has more texts to tell the right one from: try --batch {2 * batch}."]

    def facts(self) -> dict[str, Any]:
        return {**asdict(self), "scores": None if self.scores is None else list(self.scores)}

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any]) -> Self:
        scores = facts["scores"]
        return cls(**{**facts, "scores": None if scores is None else tuple(scores)})


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


def _out_of_order(examples: Sequence[PairExample], answers: Sequence[Mapping[str, Any]]) -> list[Mistake]:
    """Pairs whose cosine is further up or down among all cosines than their score is among all scores."""
    from scipy.stats import rankdata

    scores, cosines = _scores(examples), [answer["cosine"] for answer in answers]
    off = np.abs(rankdata(scores) - rankdata(cosines))
    return [
        Mistake(f"{each.text}  |  {each.pair}", f"{scores[n]:g}", f"cosine {cosines[n]:.3f}", None, each.place)
        for n in np.argsort(-off, kind="stable")[:MISTAKES].tolist()
        for each in [examples[n]]
    ]


def _matrices(answers: Sequence[Mapping[str, Any]]) -> tuple[Any, Any]:
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
            "Is that the right column? Name it with --score; if all pairs belong together, --score none.",
        )
