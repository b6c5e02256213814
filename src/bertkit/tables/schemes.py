"""How tags mark spans of words, and all ways of it turned into one, IOB2.

IOB2: a span's first word has B-, the others I-. IOB1: I- throughout, and B- only where a span follows another of the
same type. BIOES: E- for the last word, S- for a span of one; BILOU has L- and U- for them, BMES has M- for I-. Which of
them a file is in is known only from the whole of it: "I-PER" after "O" is right in IOB1 and a mistake in IOB2.

Tags that mark no spans, such as parts of speech, are plain.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from bertkit.errors import InputError

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
Places = Callable[[int, int], str]
"""Where a word is, for messages: by the number of its sentence and its own."""


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


def recognise(sentences: Sequence[Tags], places: Places) -> str:
    """The scheme of a file. What is against any scheme is an InputError."""
    different = {tag for tags in sentences for tag in tags}
    if not marks_spans(different):
        return PLAIN
    for number, word, tag in _each(sentences):
        if tag != OUTSIDE and _SPAN.fullmatch(tag) is None:
            raise InputError(
                f"{places(number, word)}: {tag!r} is no tag of a span, as the others are",
                "It must be O, or B-, I-, E- or S- with a type.",
            )
    if {parted(tag)[0] for tag in different} & {"E", "S"}:
        _refuse_unbegun(sentences, places, BIOES)
        return BIOES
    # Without another span of the type just before, I- begins one only in IOB1, and B- only in IOB2.
    by_i, by_b = _begun_with("I", sentences), _begun_with("B", sentences)
    if not by_i:
        return IOB2
    if len(by_b) <= STRAY * len(by_i):
        return IOB1
    if len(by_i) <= len(by_b):
        _refuse_unbegun(sentences, places, IOB2)
    number, word = by_b[0]
    raise InputError(
        f"{places(number, word)}: the tag {sentences[number][word]!r} begins a span, and {len(by_i):,} others begin "
        "with I- (the file is in IOB1)",
        "In IOB1 B- stands only between two spans of one type: mend the tags so that all are in one scheme.",
    )


def _each(sentences: Sequence[Tags]) -> Iterator[tuple[int, int, str]]:
    for number, tags in enumerate(sentences):
        for word, tag in enumerate(tags):
            yield number, word, tag


def _begun_with(letter: str, sentences: Sequence[Tags]) -> list[tuple[int, int]]:
    """The first words of the spans that begin with it, those left out that follow one of their own type."""
    found = []
    for number, tags in enumerate(sentences):
        type_before = parted(tags[0])[1] if is_broken(sentences, number) else ""
        for word, (its_letter, type_) in enumerate(map(parted, tags)):
            if its_letter == letter and type_ != type_before:
                found.append((number, word))
            type_before = type_
    return found


def is_broken(sentences: Sequence[Tags], number: int) -> bool:
    """Whether a sentence goes on with the span that the one before it ends in: long sentences are sometimes cut after
    so many words, as in the People's Daily corpus."""
    if number == 0 or not sentences[number] or not sentences[number - 1]:
        return False
    (letter_before, type_before), (letter, type_) = parted(sentences[number - 1][-1]), parted(sentences[number][0])
    return letter in "IE" and letter_before in "BI" and type_ == type_before


def spans_without_end(tags: Tags) -> int:
    """How many spans of a sentence in BIOES break off before its last word, where something else follows.

    >>> spans_without_end(["B-PER", "O", "B-PER", "I-PER", "B-LOC", "E-LOC", "B-LOC"])
    2
    """
    found = 0
    for here, following in pairwise(map(parted, tags)):
        goes_on = following[0] in "IE" and following[1] == here[1]
        found += here[0] in "BI" and not goes_on
    return found


def _refuse_unbegun(sentences: Sequence[Tags], places: Places, scheme: str) -> None:
    for number, tags in enumerate(sentences):
        goes_on = parted(tags[0])[1] if is_broken(sentences, number) else ""
        for word, tag in enumerate(tags):
            letter, type_ = parted(tag)
            if letter in "IE" and type_ != goes_on:
                before = f"after {tags[word - 1]!r}" if word else "at the start of a sentence"
                raise InputError(
                    f"{places(number, word)}: the tag {tag!r} {before}, and nothing of its type has begun "
                    f"(the file is in {scheme})",
                    f"A span begins with {'B' + tag[1:]!r}: mend the tag, or the one before it.",
                )
            goes_on = type_ if letter in "BI" else ""


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
