"""Sentences with a tag for each word as records: JSON lines, Parquet or CSV, the words in one column and the tags in
another. Lists, or text with white space between."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from bertkit.errors import InputError, nearest, shortened
from bertkit.tables.columns import as_in_training, require_columns, require_different, shown, tell_unread
from bertkit.tables.parquet import by_name
from bertkit.tables.reading import Reading
from bertkit.tables.rows import Table
from bertkit.tables.texts import class_names, label_of
from bertkit.text.chinese import HAN

WORDS = ("words", "tokens")
TAGS = ("tags", "labels", "ner_tags", "pos_tags", "upos")
TEXTS = ("text", "sentence")
SPELLINGS = {"text": ("word", "words", "text"), "label": ("tag", "tags", "label")}
"""How a user may call a part when naming its column; the last counts."""
_HAN = re.compile(f"[{HAN}]")
_WRITTEN_WORDS = re.compile(r"""\[(['"]).*\1\]""", re.DOTALL)
_WRITTEN_TAGS = re.compile(r"""[\[(]\s*(?:(['"]).*\1|\d.*\d|\d)\s*,?\s*[\])]""", re.DOTALL)
"""Lists as programs print them, in a cell of a table."""
A_WORD_A_ROW = 20
"""So many records of one word each are no sentences."""


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
    table: Table, reading: Reading, notes: list[str]
) -> Iterator[tuple[str, list[str], list[str] | None]]:
    """For each record its place, its words and its tags."""
    named_by_user, labelled = reading.names or {}, reading.labelled
    given = {part: named_by_user[key] for part in SPELLINGS for key in SPELLINGS[part] if key in named_by_user}
    require_columns(table, given.values())
    require_different(given)
    wanted = ("text", "label") if labelled else ("text",)
    named = {**as_in_training(table, reading, given, wanted, notes), **given}
    word_column = named.get("text") or _found(table, (*WORDS, *TEXTS), "words", notes)
    tag_column = (named.get("label") or _found(table, TAGS, "tags", notes)) if labelled else None
    reading.on_columns({"text": word_column, **({"label": tag_column} if tag_column is not None else {})})
    tell_unread(table, (word_column, tag_column), notes)
    names = class_names(table, tag_column, reading, notes) if tag_column is not None else []
    alone = together = 0
    for place, values in table:
        tags = None if tag_column is None else tags_of(by_name(values.get(tag_column), names, place), place, tag_column)
        words = words_of(values.get(word_column), place, word_column, None if tags is None else len(tags))
        if tags is not None and len(tags) != len(words):
            raise InputError(
                f"{place}: {len(words)} words, {shortened(words)}, and {len(tags)} tags, {shortened(tags)}",
                "Each word needs a tag.",
            )
        alone, together = alone + (len(words) == 1), together + (len(words) > 1)
        yield place, words, tags
    if alone >= A_WORD_A_ROW and not together:
        told = f"{table.source.name}: each of the {alone:,} records has one word, as if a row were a word"
        remedy = "write a sentence a record, or a word a line with a blank line between sentences"
        if labelled:
            raise InputError(told, f"A model learns from whole sentences: {remedy}.")
        notes.append(f"{told}; if they are parts of sentences, {remedy}")


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


def words_of(value: Any, place: str, column: str, tags: int | None = None) -> list[str]:
    """The words of a list, or of text. Text that has so many `tags` is split at white space; if they are too many for
    that and Chinese is in it, into characters."""
    if isinstance(value, str):
        _refuse_written_list(_WRITTEN_WORDS, value, place, column)
        parts, characters = value.split(), split_words(value)
        value = characters if tags is None or len(characters) == tags else parts
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
        _refuse_written_list(_WRITTEN_TAGS, value, place, column)
        value = value.split()
    if not isinstance(value, list):
        raise InputError(f"{place}: {column!r} is {shortened(value)}", 'It must be a list of tags: ["B-ORG", "O"].')
    return [label_of(tag, f"{place}, word {number}") for number, tag in enumerate(value, 1)]


def _refuse_written_list(pattern: re.Pattern[str], value: str, place: str, column: str) -> None:
    if pattern.fullmatch(value.strip()):
        raise InputError(
            f"{place}: {column!r} is a list written as text, {shortened(value)}",
            "Write what is in it with spaces between, or give lists in JSON lines or Parquet.",
        )
