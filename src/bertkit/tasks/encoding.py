"""Texts to sequences of tokens that fit the model, and what to do with those that do not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bertkit.errors import InputError, UsageError, nearest
from bertkit.tasks.data.texts import TextExample
from bertkit.tasks.task import Features
from bertkit.text.tokenizer import Tokenizer
from bertkit.text.windows import windows

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
            yield list(tokenizer.unframed(ids))


def framed(first: Sequence[int], second: Sequence[int] | None, tokenizer: Tokenizer) -> tuple[list[int], list[int]]:
    """[CLS] A [SEP], or [CLS] A [SEP] B [SEP] with segments 0 and 1, or what the family has in their place."""
    start, between, end = tokenizer.frame
    if second is None:
        ids = [*start, *first, *end]
        return ids, [0] * len(ids)
    ids = [*start, *first, *between, *second, *end]
    of_second = len(second) + len(end)
    return ids, [0] * (len(ids) - of_second) + [tokenizer.family.second_segment] * of_second


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
                "Choose what to do with long texts: --long head-tail, windows or head.",
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
