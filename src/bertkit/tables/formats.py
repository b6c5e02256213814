"""Files that are no tables, as rows: CoNLL columns, JSON that is one value, SQuAD's form, Excel, Parquet."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import PurePath
from typing import Any

from bertkit.corpus.reading.records import Problem, excerpt
from bertkit.corpus.reading.sources import COMPRESSIONS, Source
from bertkit.errors import InputError, UsageError, shortened
from bertkit.tables.reading import Reading

KINDS = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".xlsx": "xlsx",
    ".parquet": "parquet",
    **dict.fromkeys((".conll", ".conllu", ".iob", ".iob2", ".bio", ".bioes", ".bmes"), "conll"),
    ".txt": "text",
}
Found = tuple[int, "dict[str, Any] | Problem"]
"""The number of a line, or of a row, and what is there."""
NEW_DOCUMENT = "-DOCSTART-"
_RANGE = re.compile(r"\d+[-.]\d+")
NO_CLASS = -1
"""What `datasets` writes where the class is not known."""


def kind_of(path: str) -> str:
    """By the last of its endings that is known: kind_of("weibo.conll.train") is "conll"; nothing if there is none."""
    endings = [ending.lower() for ending in PurePath(path).suffixes if ending.lower() not in COMPRESSIONS]
    return next((KINDS[ending] for ending in reversed(endings) if ending in KINDS), "")


def conll_rows(lines: Iterator[tuple[int, str | Problem]], name: str, reading: Reading) -> Iterator[Found]:
    """A word a line, a blank line after a sentence; the word is in the first column and the tag in the last, unless
    numbers are given. Of CoNLL-U the word is second, its part of speech fourth."""
    universal = ".conllu" in (ending.lower() for ending in PurePath(name).suffixes)
    word = _column(reading, "text") or (2 if universal else 1)
    tag = _column(reading, "label") or (4 if universal else 0)
    if word == tag:
        raise UsageError(f"words and tags both in column {word}", "Each needs a column of its own.")
    words: list[str] = []
    tags: list[str] = []
    first, width, wrong = 0, 0, None
    for number, line in chain(lines, [(0, "")]):
        if isinstance(line, Problem):
            first, wrong = first or number, wrong or line
            words.append("")
        elif line.strip() and not line.startswith(NEW_DOCUMENT):
            if universal and (line.startswith("#") or _RANGE.match(line)):
                continue
            cells = line.rstrip("\t").split("\t") if "\t" in line else line.split(" ")
            cells = [cell.strip(" ") for cell in cells if cell or "\t" in line]
            first, width = first or number, width or len(cells)
            needed = max(word, (tag or max(width, 2)) if reading.labelled else 1)
            if len(cells) < needed or not cells[word - 1] or not (tag or cells[-1] or not reading.labelled):
                reason = f"a word, {shortened(line)}, without a tag" if reading.labelled else "no word"
                wrong = wrong or Problem(number, reason, "", "A line has a word first and its tag last.")
            words.append(cells[min(word, len(cells)) - 1])
            tags.append(cells[min(tag, len(cells)) - 1])
        elif words:
            yield first, wrong or {"words": words, **({"tags": tags} if reading.labelled else {})}
            words, tags, first, wrong = [], [], 0, None


def _column(reading: Reading, part: str) -> int | None:
    remembered = {name: its for name, its in (reading.remembered or {}).items() if its.isdecimal()}
    given = (reading.names or {}).get(part)
    if given is not None and (not given.isdecimal() or int(given) < 1):
        raise UsageError(
            f"the column of the {part} is {given!r}", "CoNLL columns have no names: give a number, from 1."
        )
    return int(given or remembered.get(part, "0")) or None


def json_rows(text: str, name: str) -> tuple[str, list[Found]]:
    """Values one after another, as JSON lines or spread over lines; of a list, or of an object with all in its "data",
    what is in it; and whether their numbers are those of a line or of a row. Questions are in articles, their
    paragraphs and these' "qas", as SQuAD and CMRC 2018 have them."""
    decoder, at, values = json.JSONDecoder(), 0, []
    text = text.removeprefix("\ufeff")
    try:
        while at < len(text):
            if text[at].isspace():
                at += 1
                continue
            value, end = decoder.raw_decode(text, at)
            values.append((at, value))
            at = end
    except json.JSONDecodeError as problem:
        early = not problem.doc[problem.pos :].strip() or problem.msg.startswith("Unterminated string")
        raise InputError(
            f"{name}, line {problem.lineno}: not valid JSON: {problem.msg}: {excerpt(problem.doc, problem.pos)}",
            "The file ends early: copy or download it again." if early else "Mend it there, or download it again.",
        ) from None
    except RecursionError:
        raise InputError(f"{name}: JSON nested too deeply", "Give a table, or an object a row.") from None
    except ValueError:
        raise InputError(f"{name}: a JSON number with more digits than can be read", "Mend or remove it.") from None
    if len(values) == 1:
        whole = values[0][1]
        rows = whole.get("data") if isinstance(whole, dict) and isinstance(whole.get("data"), list) else whole
        if isinstance(rows, list):
            return "row", list(enumerate(chain.from_iterable(map(_questions, rows)), 1))
    ends = [0, *(at for at, _ in values)]
    lines, found = 1, []
    for before, (at, value) in zip(ends, values, strict=False):
        lines += text.count("\n", before, at)
        found += [(lines, each) for each in _questions(value)]
    return "line", found


def _questions(value: Any) -> Iterator[dict[str, Any] | Problem]:
    """The row that it is, or the questions in it, each with what they have in common."""
    if not isinstance(value, dict):
        yield Problem(None, f"{shortened(value)} where a JSON object is expected", "")
        return
    for inside in ("paragraphs", "qas"):
        if isinstance(value.get(inside), list):
            common = {name: its for name, its in value.items() if name != inside}
            for each in value[inside]:
                yield from _questions({**common, **each} if isinstance(each, dict) else each)
            return
    yield value


def excel_rows(source: Source, notes: list[str]) -> Iterator[tuple[int, list[str]]]:
    """The cells of the first sheet, as CSV would have them."""
    try:
        from openpyxl import load_workbook
    except ImportError:
        raise InputError(
            f"{source.name} is Excel, and openpyxl is not installed", "pip install 'bertkit[xlsx]'"
        ) from None
    try:
        book = load_workbook(source.path, read_only=True, data_only=True)
    except Exception as problem:  # of a damaged archive it raises what it meets
        reason = " ".join(str(problem).split())[:200].rstrip(".")
        raise InputError(f"{source.name}: damaged Excel: {reason}", "Save it anew, or export it as CSV.") from None
    sheet, *others = book.worksheets
    if others:
        notes.append(f"{source.name}: the sheet {sheet.title!r} is read, and {len(others)} others are not")
    for number, cells in enumerate(sheet.iter_rows(values_only=True), 1):
        yield number, ["" if cell is None else _plain_number(cell) for cell in cells]
    book.close()


def _plain_number(cell: Any) -> str:
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)


@contextmanager
def open_parquet(source: Source) -> Iterator[Any]:
    """The file, open; what is wrong with it is an InputError."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise InputError(
            f"{source.name} is Parquet, and pyarrow is not installed", "pip install 'bertkit[parquet]'"
        ) from None
    try:
        with parquet.ParquetFile(source.path) as file:
            yield file
    except (pyarrow.ArrowException, OSError, ValueError) as problem:
        reason = " ".join(str(problem).split())[:200].rstrip(".")
        raise InputError(f"{source.name}: damaged Parquet: {reason}", "Copy or download it again.") from None


def class_names(metadata: Mapping[bytes, bytes] | None) -> dict[str, list[str]]:
    """For each column of classes, or of lists of them, the names that `datasets` keeps, in the order of their numbers.

    >>> class_names({b"huggingface": b'{"info": {"features": {"y": {"names": ["no", "yes"], "_type": "ClassLabel"}}}}'})
    {'y': ['no', 'yes']}
    """
    try:
        features = json.loads((metadata or {}).get(b"huggingface", b"{}"))["info"]["features"]
        found = {column: _names(feature) for column, feature in features.items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):  # it is not needed
        return {}
    return {column: names for column, names in found.items() if names}


def _names(feature: Any) -> list[str]:
    """A list is written as [feature] or as {"feature": feature}, by the version of `datasets`."""
    if isinstance(feature, list):
        feature = feature[0] if len(feature) == 1 else {}
    elif isinstance(feature.get("feature"), dict):
        feature = feature["feature"]
    names = feature.get("names") if feature.get("_type") == "ClassLabel" else None
    return list(map(str, names)) if isinstance(names, list) else []


def by_name(value: Any, names: Sequence[str], place: str) -> Any:
    """
    >>> by_name([0, 1], ["no", "yes"], "row 1"), by_name(-1, ["no", "yes"], "row 2")
    (['no', 'yes'], None)
    """
    if isinstance(value, list):
        return [by_name(each, names, place) for each in value]
    if not names or not isinstance(value, int):
        return value
    if value == NO_CLASS:
        return None
    if not 0 <= value < len(names):
        known = f"and the file has names for 0 to {len(names) - 1} only"
        raise InputError(f"{place}: the class is {value}, {known}", "Mend the row or remove it.")
    return names[value]
