"""Sentences with a tag for each word as records: JSON lines, Parquet or CSV, the words in one column and the tags in
another. Lists, or text with white space between."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bertkit.errors import InputError, nearest, shortened
from bertkit.tasks.data.columns import require_columns, shown
from bertkit.tasks.data.rows import Table
from bertkit.tasks.data.texts import label_of
from bertkit.text.chinese import HAN

WORDS = ("words", "tokens")
TAGS = ("tags", "labels", "ner_tags", "pos_tags", "upos")
TEXTS = ("text", "sentence")
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


def record_sentences(
    table: Table, names: Mapping[str, str], labelled: bool, notes: list[str]
) -> Iterator[tuple[str, list[str], list[str] | None]]:
    """For each record its place, its words and its tags."""
    named = {part: names[key] for part in ("word", "tag") for key in _spellings(part) if key in names}
    require_columns(table, named.values())
    usual = WORDS if labelled else (*WORDS, *TEXTS)
    word_column = named.get("word") or _found(table, usual, "words", notes)
    tag_column = (named.get("tag") or _found(table, TAGS, "tags", notes)) if labelled else None
    for place, values in table:
        words = words_of(values.get(word_column), place, word_column, labelled)
        if tag_column is None:
            yield place, words, None
            continue
        tags = tags_of(values.get(tag_column), place, tag_column)
        if len(tags) != len(words):
            raise InputError(
                f"{place}: {len(words)} words, {shortened(words)}, and {len(tags)} tags, {shortened(tags)}",
                "Each word needs a tag.",
            )
        yield place, words, tags


def _spellings(part: str) -> tuple[str, ...]:
    return part, f"{part}s", "text" if part == "word" else "label"


def _found(table: Table, usual: Sequence[str], what: str, notes: list[str]) -> str:
    lowered = {name.strip().lower(): name for name in reversed(table.columns)}
    found = next((lowered[name] for name in usual if name in lowered), None)
    if found is None:
        hint = next((hint for name in usual if (hint := nearest(name, table.columns))), "")
        raise InputError(
            f"{table.source.name}: no column is called {' or '.join(map(repr, usual))}, for the {what}",
            f"{hint} There are: {shown(table.columns)}.".strip(),
        )
    if found.lower() != what:
        notes.append(f"{table.source.name}: taken for granted that the {what} are in {found!r}")
    return found


def words_of(value: Any, place: str, column: str, whole: bool = False) -> list[str]:
    """The words of a list, or of text; text that is `whole` is only split at white space, as its tags are."""
    if isinstance(value, str):
        value = value.split() if whole else split_words(value)
    if not isinstance(value, list | tuple):
        raise InputError(f"{place}: {column!r} is {shortened(value)}", 'It must be a list of words: ["EU", "rejects"].')
    for number, word in enumerate(value, 1):
        if not isinstance(word, str):
            raise InputError(f"{place}: word {number} of {column!r} is {shortened(word)}", "It must be text.")
        if not word.strip(" "):
            raise InputError(f"{place}: word {number} of {column!r} is empty", "Fill it in, or remove it and its tag.")
    if not value:
        raise InputError(f"{place}: {column!r} has no words", "Remove the record or fill it in.")
    return list(value)


def tags_of(value: Any, place: str, column: str) -> list[str]:
    if isinstance(value, str):
        value = value.split()
    if not isinstance(value, list):
        raise InputError(f"{place}: {column!r} is {shortened(value)}", 'It must be a list of tags: ["B-ORG", "O"].')
    return [label_of(tag, f"{place}, word {number}") for number, tag in enumerate(value, 1)]
