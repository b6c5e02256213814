"""Sentences with a tag for each word, as rows have them: lists, or text with spaces between; Chinese by characters.
Which scheme tags are in is known from all of a file."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from bertkit.errors import InputError, shortened
from bertkit.tables.bad_rows import BadRows
from bertkit.tables.reading import Reading
from bertkit.tables.values import folded
from bertkit.tasks.examples import TagExample
from bertkit.tasks.schemes import IOB2, PLAIN, odd_tag, recognise, to_iob2, unbegun
from bertkit.text.chinese import HAN

WORDS, TAGS, TEXTS = ("words", "tokens"), ("labels", "ner_tags", "pos_tags", "upos"), ("text", "sentence")
_HAN = re.compile(f"[{HAN}]")


def split_words(text: str) -> list[str]:
    """A text at its white space; what has Chinese in it, into characters.

    >>> split_words("EU 在北京 .")
    ['EU', '在', '北', '京', '.']
    """
    parts = text.split()
    if not _HAN.search(text):
        return parts
    return [word for part in parts for word in (part if _HAN.search(part) else [part])]


def is_chinese(words: Sequence[str]) -> bool:
    return any(map(_HAN.match, words))


def joined(words: Sequence[str], chinese: bool) -> str:
    """Some words of a sentence as text: of a Chinese one, what split_words took apart is put together again."""
    return ("" if chinese and all(len(word) == 1 for word in words) else " ").join(words)


def words_of(value: Any, place: str, tags: int | None = None) -> list[str]:
    """The words of a list, or of text. Text that has so many `tags` is split at white space; if they are too many for
    that and Chinese is in it, into characters."""
    if isinstance(value, str):
        parts, characters = value.split(), split_words(value)
        value = characters if tags is None or len(characters) == tags else parts
    if not isinstance(value, list | tuple):
        raise InputError(f"{place}: the words are {shortened(value)}", 'It must be a list of words: ["EU", "rejects"].')
    for number, word in enumerate(value, 1):
        if not isinstance(word, str) or not word.strip(" "):
            told = "empty" if isinstance(word, str) else f"{shortened(word)}, not text"
            raise InputError(f"{place}: word {number} is {told}", "Mend it, or remove it and its tag.")
    if not value:
        raise InputError(f"{place}: there are no words", "Remove the record or fill it in.")
    return list(value)


def of_one_scheme(examples: Sequence[TagExample], reading: Reading, bad: BadRows, notes: list[str]) -> list[TagExample]:
    """Which scheme the tags are in is known from all of a file; they become IOB2. What is against it is a bad row, or
    with `repair_tags` begins a span, as conlleval sees it."""
    counts = Counter(tag for example in examples for tag in example.tags or ())
    best, alike = folded(counts, reading.labels)
    if alike:
        how = "count as one" if reading.fold_labels else "count as different tags (`fold_labels=True` joins them)"
        notes.append(f"{bad.name}: {'; '.join(alike[:5])} differ in case or space only, and {how}")
    if reading.fold_labels:
        examples = [each._replace(tags=tuple(best[tag] for tag in each.tags or ())) for each in examples]
    tags = [example.tags or () for example in examples]
    scheme = recognise(tags)
    if scheme == PLAIN:
        notes.append(f"{bad.name}: the tags mark no spans (B-, I-), so each word counts by itself")
        return list(examples)
    if scheme != IOB2:
        notes.append(f"{bad.name}: the tags are in {scheme} and are read as IOB2")
    found, mended = [], 0
    for example, its in zip(examples, tags, strict=True):
        wrong, odd = unbegun(its, scheme), odd_tag(its)
        mended += len(wrong)
        if odd is not None or (wrong and not reading.repair_tags):
            if odd is not None:
                told = f"{example.place}: the tag {its[odd]!r} is none of a span, as the others are"
                problem = InputError(told, "It must be O, or B-, I-, E- or S- with a type.")
            else:
                told = (
                    f"{example.place}: the tag {its[wrong[0]]!r} continues what nothing began (the file is in {scheme})"
                )
                problem = InputError(told, "To let such tags begin a span: `repair_tags=True`.")
            bad.add(example.place, problem, example._asdict())
        else:
            found.append(example._replace(tags=tuple(to_iob2(its))))
    if mended and reading.repair_tags:
        notes.append(f"{bad.name}: {mended:,} tags that continued what nothing began, begin a span")
    return found
