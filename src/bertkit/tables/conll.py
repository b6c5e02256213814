"""Sentences with a tag for each word: CoNLL columns, or records with lists.

In columns, a line is a word and a blank line ends a sentence; Chinese usually has a character a line. Which scheme the
tags are in is known from the whole file, so files with tags are read at once; those without are read as a stream.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, islice, pairwise
from pathlib import PurePath
from typing import Any, NamedTuple

from bertkit.corpus.reading.blocks import cut_text
from bertkit.corpus.reading.decompress import open_bytes
from bertkit.corpus.reading.encoding import as_utf8
from bertkit.corpus.reading.readers import Problem, ReadOptions, Source, find_sources, place
from bertkit.corpus.reading.records import decoded
from bertkit.errors import InputError, UsageError, shortened
from bertkit.tables.beginnings import beginning_of
from bertkit.tables.columns import require_parts
from bertkit.tables.delimiters import delimiter_called
from bertkit.tables.plain_text import first_line, refuse_header, refuse_json
from bertkit.tables.reading import Reading
from bertkit.tables.rows import unreadable
from bertkit.tables.schemes import BIOES, IOB1, IOB2, PLAIN, is_broken, recognise, spans_without_end, to_iob2
from bertkit.tables.tagged_rows import TAGS, TEXTS, WORDS, record_sentences, split_words
from bertkit.tables.texts import read_table
from bertkit.text.chinese import HAN

CONLL, TEXT = "conll", "text"
OF_COLUMNS = (".conll", ".conllu", ".iob", ".iob2", ".bio", ".bioes")
NEW_DOCUMENT = "-DOCSTART-"
LOOK_AT = 1000
"""So many lines are looked at to tell columns from sentences."""
LONGEST_HAN_WORD = 4
NAMES = frozenset((*WORDS, *TEXTS, *TAGS))
OTHER_NAMES = ("word", "words", "tag", "tags")
WORD_NAMES = frozenset((*WORDS, *TEXTS, "word", "token", "form", "character", "char"))
TAG_NAMES = frozenset((*TAGS, "tag", "label", "ner", "ner_tag", "pos", "pos_tag", "entity"))
_TAG = re.compile(r"O|[BIESLUM]-\S+")
_RANGE = re.compile(r"\d+[-.]\d+")


class TagExample(NamedTuple):
    place: str
    words: tuple[str, ...]
    tags: tuple[str, ...] | None = None
    """In IOB2 or plain; None where they are not known."""


class Line(NamedTuple):
    number: int
    text: str


class Sentence(NamedTuple):
    """Words as they stand in a file."""

    words: list[str]
    tags: list[str] | None
    places: Sequence[int] | str
    """The line of each word, or for all of them the place of their record."""


def read_sentences(path: str, reading: Reading, notes: list[str]) -> Iterator[TagExample]:
    require_parts([part for part in reading.names or {} if part not in OTHER_NAMES], ("text", "label"))
    sentences, where = _sentences(path, reading, notes)
    if not reading.labelled:
        for sentence in sentences:
            yield TagExample(where(sentence, None), tuple(sentence.words))
        return
    found = list(sentences)
    if not found:
        raise _no_sentence(path)
    tags = [sentence.tags or [] for sentence in found]
    _refuse_names(found[0], tags, where(found[0], 0))
    scheme = recognise(tags, lambda number, word: where(found[number], word))
    if scheme == PLAIN:
        notes.append(f"{path}: the tags mark no spans (B-, I-), so each word counts by itself")
    elif scheme != IOB2:
        notes.append(f"{path}: the tags are in {scheme} and are read as IOB2")
    if scheme not in (PLAIN, IOB1) and (broken := sum(is_broken(tags, number) for number in range(len(tags)))):
        notes.append(f"{path}: {broken:,} sentences end within a span; the rest of it counts as another")
    if scheme == BIOES and (endless := sum(map(spans_without_end, tags))):
        have = "span has" if endless == 1 else "spans have"
        notes.append(f"{path}: {endless:,} {have} no last word (E-, S-): there the next tag ends it")
    for sentence, its_tags in zip(found, tags, strict=True):
        final = its_tags if scheme == PLAIN else to_iob2(its_tags)
        yield TagExample(where(sentence, None), tuple(sentence.words), tuple(final))


def _sentences(
    path: str, reading: Reading, notes: list[str]
) -> tuple[Iterator[Sentence], Callable[[Sentence, int | None], str]]:
    """The sentences, and what says where one of them is, or one of its words."""
    source = _source(path, reading)

    def where(sentence: Sentence, word: int | None) -> str:
        if isinstance(sentence.places, str):
            return sentence.places if word is None else f"{sentence.places}, word {word + 1}"
        return place(source, sentence.places[word or 0])

    if source.format in ("jsonl", "csv", "parquet") or _is_table(source, reading):
        table = read_table(path, reading, notes, NAMES, may_be_texts=True)
        records = record_sentences(table, reading, notes)
        return (Sentence(words, tags, its_place) for its_place, words, tags in records), where
    beginning = first_line(source, reading)
    lines = _lines(source, reading)
    first = list(islice(lines, LOOK_AT))
    if not any(line.text.strip() for line in first):
        raise _no_sentence(source.name)
    in_columns = _is_in_columns(source, reading, first, notes)
    refuse_json(beginning, reading, may_be_a_word=in_columns)
    if in_columns:
        columns = [len(line.text.split()) for line in first if line.text.strip()][-1]
        return _Columns(source, reading, columns).sentences(chain(first, lines)), where
    refuse_header(beginning, reading, NAMES)
    # A blank line is a sentence too, of no words: answers and lines stay in step.
    split = ((line, split_words(line.text)) for line in chain(first, lines))
    return (Sentence(words, None, [line.number] * max(1, len(words))) for line, words in split), where


def _refuse_names(first: Sentence, tags: Sequence[Sequence[str]], where: str) -> None:
    """Of a first line that names the columns, which this format has no place for."""
    if not first.tags or isinstance(first.places, str):
        return
    word, tag = first.words[0], first.tags[0]
    if word.lower() in WORD_NAMES and tag.lower() in TAG_NAMES and sum(its.count(tag) for its in tags) == 1:
        raise InputError(f"{where}: {word!r} and {tag!r} seem to be names of columns", "Remove the line.")


def _no_sentence(name: str) -> InputError:
    return InputError(f"{name} holds no sentence", "It needs a word a line, and a blank line between sentences.")


def _source(path: str, reading: Reading) -> Source:
    given = TEXT if reading.file_format == CONLL else reading.file_format
    sources, left_out = find_sources([path], format=given, encoding=reading.encoding)
    if left_out and not sources:
        raise unreadable(left_out[0], "a file with sentences: CoNLL columns, JSON lines, a table")
    if len(sources) != 1:
        raise UsageError(f"{path} is {len(sources)} files", "Name one file.")
    return sources[0]


def _lines(source: Source, reading: Reading) -> Iterator[Line]:
    options = ReadOptions(encoding=reading.encoding, documents="line")
    stream, found_encoding = as_utf8(open_bytes(source.path, source.compression, reading.on_read), reading.encoding)
    for cut in cut_text(stream, "line", options):
        text = cut.content if isinstance(cut.content, Problem) else decoded(cut.first_line, cut.content, found_encoding)
        if isinstance(text, Problem):
            shown = f": {text.excerpt}" if text.excerpt else ""
            raise InputError(f"{place(source, text.line)}: {text.reason}{shown}", text.remedy)
        yield from map(Line._make, enumerate(text.removesuffix("\n").split("\n"), cut.first_line))


def _is_table(source: Source, reading: Reading) -> bool:
    """Whether a TSV file has a sentence a row, and not a word a line: its first line has names of columns, the user's
    or usual ones, and no blank line is between others. Where but one usual name is there, it may be a word: then there
    must be spaces in its column."""
    if source.format != "tsv" or reading.file_format == CONLL:
        return False
    if reading.columns:
        return True
    first = beginning_of(source, reading.encoding).strip().split("\n")
    delimiter = delimiter_called(reading.delimiter) if reading.delimiter else "\t"
    rows = [line.removesuffix("\r").split(delimiter) for line in first]
    if len(rows) < 2 or not all(line.strip() for line in first) or any(map(_TAG.fullmatch, rows[0])):
        return False
    header = [cell.strip().strip('"').lower() for cell in rows[0]]
    named = {name.lower() for name in reading.column_names}
    known = [number for number, cell in enumerate(header) if cell in NAMES]
    if named & set(header) or len(known) == len(header):
        return True
    return any(" " in row[number].strip() for row in rows[1:] for number in known if number < len(row))


def _is_in_columns(source: Source, reading: Reading, first: Sequence[Line], notes: list[str]) -> bool:
    """Whether a line is a word; else it is a sentence, which only a file without tags can have."""
    if reading.labelled or reading.file_format == CONLL or set(_suffixes(source)) & set(OF_COLUMNS):
        return True
    if source.format == "tsv":
        notes.append(
            f"{source.name}: taken for a word a line; for a table with a sentence a row, name the columns in its first"
            " line, or with `columns`; for a sentence a line, say `file_format=text`"
        )
        return True
    if reading.file_format == TEXT or not looks_like_columns([line.text for line in first]):
        return False
    notes.append(f"{source.name}: taken for a word a line; for a sentence a line, say `file_format=text`")
    return True


def looks_like_columns(lines: Sequence[str]) -> bool:
    """Whether all lines have equally many columns, and either tags in the last or blank lines between groups of them.

    >>> looks_like_columns(["EU NNP", "rejects VBZ", "", "Peter NNP"]), looks_like_columns(["EU rejects", "Peter says"])
    (True, False)
    """
    cells = [line.split() for line in lines if line.strip()]
    if any(its[0] == NEW_DOCUMENT for its in cells):
        return True
    if len({len(its) for its in cells}) != 1:
        return False
    if len(cells[0]) > 1 and all(_TAG.fullmatch(its[-1]) for its in cells):
        return True
    filled = [bool(line.strip()) for line in lines]
    groups = any(not here and before for before, here in pairwise(filled))
    together = any(here and before for before, here in pairwise(filled))
    characters = [len(its[0]) for its in cells if re.search(f"[{HAN}]", its[0])]
    words = not characters or sum(characters) <= LONGEST_HAN_WORD * len(characters)
    return groups and together and words


class _Columns:
    def __init__(self, source: Source, reading: Reading, columns: int) -> None:
        """`columns` is how many a line has."""
        self.source, self.labelled = source, reading.labelled
        self.universal = ".conllu" in _suffixes(source)
        """CoNLL-U: comments, lines for words that are two, the word second and its part of speech fourth."""
        names = reading.names or _numbers(reading.remembered or {}, columns)
        reading.on_columns(reading.names or {})
        self.word = _number(names, ("word", "words", "text")) or (2 if self.universal else 1)
        self.tag = _number(names, ("tag", "tags", "label")) or (4 if self.universal else None)
        if self.word == self.tag:
            raise UsageError(f"words and tags both in column {self.word}", "Each needs a column of its own.")
        self.delimiter = delimiter_called(reading.delimiter) if reading.delimiter else None
        self.columns = 0
        """How many the first line has: the tag is in the last."""

    def sentences(self, lines: Iterator[Line]) -> Iterator[Sentence]:
        words: list[str] = []
        tags: list[str] = []
        numbers: list[int] = []
        for line in chain(lines, [Line(0, "")]):
            if line.text.strip() and not line.text.startswith(NEW_DOCUMENT):
                if self.universal and (line.text.startswith("#") or _RANGE.match(line.text)):
                    continue
                word, tag = self._cells(line)
                words.append(word)
                tags.append(tag)
                numbers.append(line.number)
            elif words:
                yield Sentence(words, tags if self.labelled else None, numbers)
                words, tags, numbers = [], [], []

    def _cells(self, line: Line) -> tuple[str, str]:
        if self.delimiter:
            cells = line.text.split(self.delimiter)
        elif "\t" in line.text:
            cells = line.text.rstrip("\t").split("\t")
        else:
            cells = [cell for cell in line.text.split(" ") if cell]  # other white space may be a word
        self.columns = self.columns or len(cells)
        wanted = max(self.word, (self.tag or max(2, self.columns)) if self.labelled else 1)
        if len(cells) < wanted or (self.labelled and self.tag is None and len(cells) != self.columns):
            there = f"{len(cells)} column{'' if len(cells) == 1 else 's'}"
            missing = "has no tag" if len(cells) == 1 else f"has {there}, and {wanted} are needed"
            raise InputError(
                f"{place(self.source, line.number)}: {shortened(line.text)} {missing}",
                "A line is a word, columns separated by spaces or tabs, the word first and the tag last unless told "
                "otherwise; a blank line ends a sentence.",
            )
        word = cells[self.word - 1].strip(" ")
        tag = cells[(self.tag or len(cells)) - 1].strip() if self.labelled else ""
        if not word or (self.labelled and not tag):
            raise InputError(
                f"{place(self.source, line.number)}: {shortened(line.text)} has no {'tag' if word else 'word'}",
                "Fill it in, or remove the line.",
            )
        return word, tag


def _suffixes(source: Source) -> list[str]:
    """The last two: one may be of a compression."""
    return [suffix.lower() for suffix in PurePath(source.path).suffixes[-2:]]


def _numbers(remembered: Mapping[str, str], columns: int) -> dict[str, str]:
    """The columns a model was trained with, if they are numbers and so many are there."""
    numbers = all(name.isdecimal() and int(name) <= columns for name in remembered.values())
    return dict(remembered) if numbers else {}


def _number(names: Mapping[str, Any], parts: Sequence[str]) -> int | None:
    given = next((str(names[part]) for part in parts if part in names), None)
    if given is None:
        return None
    if not given.isdecimal() or int(given) < 1:
        raise UsageError(
            f"the column of the {parts[0]} is {given!r}", "CoNLL columns have no names: give a number, from 1."
        )
    return int(given)
