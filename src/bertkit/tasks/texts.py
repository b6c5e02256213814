"""Texts to sequences of tokens that fit the model, what to do with those that do not, and what the tasks about a whole
text, or a pair of them, have in common."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from bertkit.errors import InputError, UsageError, nearest, shortened
from bertkit.tables.values import TextExample, text_of
from bertkit.tasks.data import Encoded, Features, Part, TaskBatch, Ties
from bertkit.tasks.task import Task
from bertkit.text.sentences import windows
from bertkit.text.tokenizer import Tokenizer

LONG = ("head-tail", "windows", "head", "error")
"""Policies for texts longer than the model: the beginning and the end of it (three quarters of what fits are
beginning), all of it in windows whose scores are averaged, the beginning only, or an error."""
TEXTS_AT_ONCE = 1024


def check_policy(long: str) -> None:
    if long not in LONG:
        raise UsageError(f"long is {long!r}", f"{nearest(long, LONG)} It can be {', '.join(LONG)}.")


def pieces_of(texts: Sequence[str], tokenizer: Tokenizer) -> Iterator[list[int]]:
    """The ids of each text without its frame."""
    for start in range(0, len(texts), TEXTS_AT_ONCE):
        for ids in tokenizer.encode_ids(texts[start : start + TEXTS_AT_ONCE]):
            yield list(tokenizer.frame.inside(ids))


def framed(first: Sequence[int], second: Sequence[int] | None, tokenizer: Tokenizer) -> tuple[list[int], list[int]]:
    """[CLS] A [SEP], or [CLS] A [SEP] B [SEP] with segments 0 and 1, or what the family has in their place."""
    start, between, end = tokenizer.frame
    if second is None:
        ids = [*start, *first, *end]
        return ids, [0] * len(ids)
    tokenizer.require_pairs()
    ids = [*start, *first, *between, *second, *end]
    of_second = len(second) + len(end)
    return ids, [0] * (len(ids) - of_second) + [tokenizer.form.second_segment] * of_second


def encode_texts(
    examples: Sequence[TextExample], tokenizer: Tokenizer, *, max_length: int, long: str
) -> Iterator[list[Features]]:
    """For each text, or pair, its sequences."""
    firsts = list(pieces_of([example.text for example in examples], tokenizer))
    seconds = pieces_of([example.pair for example in examples if example.pair is not None], tokenizer)
    for example, first in zip(examples, firsts, strict=True):
        second = None if example.pair is None else next(seconds)
        length = len(first) + len(second or ()) + tokenizer.frame.size(pair=second is not None)
        if long == "error" and length > max_length:
            raise InputError(
                f"{example.place}: {length:,} tokens, and the model reads {max_length}",
                "Choose what to do with long texts: `long=head-tail`, windows or head.",
            )
        yield fitted(first, second, tokenizer, max_length=max_length, long=long)


def fitted(
    first: Sequence[int], second: Sequence[int] | None, tokenizer: Tokenizer, *, max_length: int, long: str
) -> list[Features]:
    """One sequence if it fits; else what the policy says. Of a pair, what does not fit is taken from the longer text,
    and windows go over the longer one with the other beside each. If that alone would fill half of a sequence, it is
    cut too: to its two ends, or with `head` to its beginning."""
    room = max_length - tokenizer.frame.size(pair=second is not None)
    if len(first) + len(second or ()) <= room:
        return [Features(*framed(first, second, tokenizer))]
    whole = long == "windows"
    if second is None:
        return [Features(*framed(part, None, tokenizer), whole=whole) for part in _cut(first, room, long)]
    longer_is_first = len(first) >= len(second)
    longer, shorter = (first, second) if longer_is_first else (second, first)
    whole = whole and len(shorter) <= room // 2
    shorter = next(_cut(shorter, room // 2, "head" if long == "head" else "head-tail"))
    parts = _cut(longer, room - len(shorter), long)
    pairs = ((part, shorter) if longer_is_first else (shorter, part) for part in parts)
    return [Features(*framed(a, b, tokenizer), whole=whole) for a, b in pairs]


def _cut(ids: Sequence[int], room: int, long: str) -> Iterator[list[int]]:
    if len(ids) <= room:
        yield list(ids)
    elif long == "windows":
        for window in windows(len(ids), room, context=room // 8):
            yield list(ids[window.start : window.stop])
    elif long == "head-tail":
        head = 3 * room // 4
        yield [*ids[:head], *ids[len(ids) - (room - head) :]]
    else:
        yield list(ids[:room])


PAIRS = (
    ("sentence1", "sentence2"),
    ("sentence_a", "sentence_b"),
    ("text_a", "text_b"),
    ("#1 string", "#2 string"),
    ("premise", "hypothesis"),
    ("question1", "question2"),
    ("question", "sentence"),
)
"""What the two texts of a pair are usually called."""
FIRST = ("sentence", *(first for first, _ in PAIRS[:-1]), "review", "content", "body")
SECOND = tuple(second for _, second in PAIRS[:-1])
TEXTS = (
    Part.text("text", *FIRST),
    Part.text("pair", *SECOND, needed=False, about="the second text", pairs=PAIRS),
)


@dataclass(frozen=True, kw_only=True)
class TextTask(Task[TextExample]):
    """A task about a whole text, or a pair of them."""

    long: str = "head-tail"
    pairs: bool | None = None
    """Whether texts come in pairs; None where nobody knows."""
    both_orders: bool = False
    """Read each pair as (A, B) and as (B, A) and add what is said of the two, as GPT does where neither text comes
    first: in likeness."""

    at_use: ClassVar[Mapping[str, str]] = {"long": "long"}

    def __post_init__(self) -> None:
        check_policy(self.long)
        if self.both_orders and self.pairs is False:
            raise UsageError("both orders of single texts", "They are for pairs.")
        if self.both_orders and self.long == "windows":
            raise UsageError("both orders with long texts in windows", "Give another `long`, or one order.")

    @classmethod
    def read(cls, value: Any, place: str) -> TextExample:
        """From a text, two texts, or {"text": ..., "pair": ...} with what is right, if it is known."""
        if isinstance(value, Mapping) and "text" in value and value.keys() <= {part.name for part in cls.parts}:
            texts = [text_of(value[name], name, place) for name in ("text", "pair") if value.get(name) is not None]
            learned = next((part.name for part in cls.parts if part.learned and part.name in value), None)
            right = None if learned is None else cls._right(value[learned], place)
            return TextExample(place, texts[0], texts[1] if len(texts) > 1 else None, right)
        parts = [value] if isinstance(value, str) else list(value) if isinstance(value, tuple | list) else []
        if not 1 <= len(parts) <= 2 or not all(isinstance(part, str) for part in parts):
            raise InputError(f"{place} is {shortened(value)}", 'Pass a text, two texts, or {"text": ..., "pair": ...}.')
        if not all(part.strip() for part in parts):
            raise InputError(f"{place} is empty", "Pass a text with something in it.")
        return TextExample(place, *parts)

    @classmethod
    def _right(cls, value: Any, place: str) -> Any:
        """What is right, from a row."""
        raise NotImplementedError

    def ties(self, example: TextExample) -> Ties:
        """Of a pair in any order: a model that learned (A, B) knows much of (B, A)."""
        return Ties(example.text if example.pair is None else frozenset((example.text, example.pair)))

    def encode(self, examples: Sequence[TextExample], tokenizer: Tokenizer, learned: int = 0) -> Encoded:
        self._require_pairs(examples)
        orders = [examples]
        if self.both_orders:
            orders.append([TextExample(each.place, each.pair or "", each.text) for each in examples])
        found = (encode_texts(order, tokenizer, max_length=self.max_length, long=self.long) for order in orders)
        about = map(self._about, examples)
        units = (
            [each._replace(about=its) for parts in read for each in parts]
            for its, *read in zip(about, *found, strict=True)
        )
        return Encoded(units, self, together=self.both_orders)

    def _require_pairs(self, examples: Sequence[TextExample]) -> None:
        """Refuse one text where the model was trained on two, and the other way round."""
        for example in examples:
            if self.pairs is not None and (example.pair is not None) != self.pairs:
                wanted, there = ("two texts", "there is one") if self.pairs else ("one text", "there are two")
                raise InputError(
                    f"{example.place}: the model reads {wanted} at once, and {there}",
                    f"Pass {wanted}; of a file, name the columns that hold them.",
                )

    def _about(self, example: TextExample) -> Any:
        """What is right, as training needs it."""
        raise NotImplementedError

    def _judged(self, features: Sequence[Features], numbers: Sequence[int]) -> list[Any]:
        """What is right for each row of `_added`."""
        if not self.both_orders:
            return [each.about for each in features]
        of_unit = dict(zip(numbers, features, strict=True))
        return [of_unit[number].about for number in sorted(of_unit)]

    def _added(self, scores: Tensor, batch: TaskBatch) -> Tensor:
        """Scores of sequences, the two orders of a pair added up."""
        if not self.both_orders:
            return scores
        numbers = torch.tensor(batch.numbers, device=scores.device)
        return scores.new_zeros(batch.examples, scores.shape[1]).index_add(0, numbers, scores)

    def _together(self, scores: Sequence[Tensor]) -> Tensor:
        """The rows of scores of an example: one for each window, one for both orders."""
        rows = torch.stack(list(scores)).double()
        return rows.sum(0, keepdim=True) if self.both_orders else rows
