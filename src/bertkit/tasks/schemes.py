"""How tags mark spans of words, and all ways of it turned into one, IOB2.

IOB2: a span's first word has B-, the others I-. IOB1: I- throughout, and B- only where a span follows another of the
same type. BIOES: E- for the last word, S- for a span of one; BILOU has L- and U- for them, BMES has M- for I-. Which of
them a file is in is known only from the whole of it: "I-PER" after "O" is right in IOB1 and a mistake in IOB2.

Tags that mark no spans, such as parts of speech, are plain.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

IOB1, IOB2, BIOES, PLAIN = "IOB1", "IOB2", "BIOES", "plain"
OUTSIDE = "O"
NO_TYPE = "_"
"""What spans without a type are counted as."""
SAME_AS = {"L": "E", "U": "S", "M": "I"}
STRAY = 0.01
"""CoNLL-2003 itself is in IOB1 and has two B- for 23,427 I- where no span is before. Their meaning is plain."""
LETTERS = tuple("BIESLUM")
_SPAN = re.compile(r"[BIESLUM](-.+)?", re.DOTALL)

Tags = Sequence[str]


class Entity(NamedTuple):
    type: str
    start: int
    stop: int
    """The word after the last."""


def parted(tag: str) -> tuple[str, str]:
    """Letter and type: parted("L-PER") is ("E", "PER"), parted("O") is ("O", ""). What is of no scheme, such as the
    "[CLS]" that some models have as a tag, is outside too."""
    if tag[:1] not in LETTERS or tag[1:2] not in ("", "-"):
        return OUTSIDE, ""
    return SAME_AS.get(tag[0], tag[0]), tag[2:] or NO_TYPE


def marks_spans(tags: Iterable[str]) -> bool:
    """Whether different tags are mostly those of a scheme: one that is misspelt does not make the others plain.

    >>> marks_spans(["O", "B-PER", "I-PER", "I_PER"]), marks_spans(["NOUN", "VERB", "O"])
    (True, False)
    """
    others = {tag for tag in tags if tag != OUTSIDE}
    typed = sum(_SPAN.fullmatch(tag) is not None and len(tag) > 1 for tag in others)
    bare = all(_SPAN.fullmatch(tag) is not None and len(tag) == 1 for tag in others)
    return bare or 2 * typed > len(others)


def recognise(sentences: Sequence[Tags]) -> str:
    """The scheme of a file."""
    different = {tag for tags in sentences for tag in tags}
    if not marks_spans(different):
        return PLAIN
    if {parted(tag)[0] for tag in different} & {"E", "S"}:
        return BIOES
    # Without another span of the type just before, I- begins one only in IOB1, and B- only in IOB2.
    by_i, by_b = (sum(len(begun_with(letter, tags)) for tags in sentences) for letter in "IB")
    return IOB1 if by_i and by_b <= STRAY * by_i else IOB2


def begun_with(letter: str, tags: Tags) -> list[int]:
    """The words that begin a span with it, those left out that follow a span of their own type."""
    found, type_before = [], ""
    for word, (its_letter, type_) in enumerate(map(parted, tags)):
        if its_letter == letter and type_ != type_before:
            found.append(word)
        type_before = type_
    return found


def unbegun(tags: Tags, scheme: str) -> list[int]:
    """The words whose tags continue what nothing began."""
    if scheme == IOB2:
        return begun_with("I", tags)
    found, open_type = [], ""
    for word, (letter, type_) in enumerate(map(parted, tags)):
        if scheme == BIOES and letter in "IE" and type_ != open_type:
            found.append(word)
        open_type = type_ if letter in "BI" else ""
    return found


def odd_tag(tags: Tags) -> int | None:
    """The first word whose tag is not one of a span, as those of others are."""
    return next((word for word, tag in enumerate(tags) if tag != OUTSIDE and _SPAN.fullmatch(tag) is None), None)


def entities(tags: Tags) -> list[Entity]:
    """The spans in tags of any scheme, whole or not, as conlleval and seqeval see them: what nothing has begun begins
    by itself.

    >>> entities(["I-PER", "I-PER", "I-LOC", "O", "B-LOC"])
    [Entity(type='PER', start=0, stop=2), Entity(type='LOC', start=2, stop=3), Entity(type='LOC', start=4, stop=5)]
    """
    found: list[Entity] = []
    start, type_before, ended = 0, "", True
    for word, tag in enumerate([*tags, OUTSIDE]):
        letter, type_ = parted(tag)
        begins = letter in "BS" or ended or type_ != type_before
        if begins and type_before:
            found.append(Entity(type_before, start, word))
        if begins:
            start = word
        type_before, ended = type_, letter in "ES" or letter == OUTSIDE
    return found


def from_entities(spans: Iterable[Entity], length: int) -> list[str]:
    """IOB2 tags for `length` words."""
    tags = [OUTSIDE] * length
    for type_, start, stop in spans:
        ending = "" if type_ == NO_TYPE else f"-{type_}"
        tags[start:stop] = [f"B{ending}", *[f"I{ending}"] * (stop - start - 1)]
    return tags


def to_iob2(tags: Tags) -> list[str]:
    """Tags of any scheme that marks spans.

    >>> to_iob2(["I-PER", "I-PER", "B-PER", "O", "S-LOC"])
    ['B-PER', 'I-PER', 'B-PER', 'O', 'B-LOC']
    """
    return from_entities(entities(tags), len(tags))
