"""Questions about passages: SQuAD files, version 1.1 and 2, and the same a row: JSON lines or a table.

A row has a question and a context, and the answers in one of four forms: a list of {"text", "answer_start"}, one
{"text": [...], "answer_start": [...]}, a list of texts, or `answer` and `answer_start` beside the question. An empty
list, or an empty answer, says that the passage does not tell. Answers that are not where they are said to be are looked
for, and those found elsewhere are counted and said.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from bertkit.corpus.reading.blocks import remedy_of
from bertkit.corpus.reading.decompress import open_bytes
from bertkit.corpus.reading.encoding import as_utf8
from bertkit.corpus.reading.readers import Source, find_sources
from bertkit.corpus.reading.records import excerpt
from bertkit.errors import InputError, nearest, shortened
from bertkit.tables.beginnings import beginning_of, is_one_for_all
from bertkit.tables.columns import as_in_training, require_columns, require_different, require_parts, shown, tell_unread
from bertkit.tables.ids import REMEMBERED_OF_A_STREAM, SeenIds
from bertkit.tables.reading import Reading
from bertkit.tables.rows import unreadable
from bertkit.tables.texts import read_table

USUAL = {
    "question": ("question", "query"),
    "context": ("context", "passage", "paragraph", "text"),
    "answers": ("answers", "answer", "answer_text"),
    "answer_start": ("answer_start", "start"),
    "id": ("id", "qid", "question_id"),
}
"""What the parts of a row are called, whatever the case; the first that is there counts."""
ALSO = {"text": "context", "label": "answers"}
"""What other tasks call these parts, and the options of the command line with them."""
WHOLE = 2**62
MISSING = object()


class Answer(NamedTuple):
    text: str
    start: int
    """Of its first character in the passage."""


class QaExample(NamedTuple):
    place: str
    id: str
    """Of a file, its number there if it has no other."""
    question: str
    context: str
    answers: tuple[Answer, ...] | None = None
    """Empty if the passage does not tell; None where what is right is not known."""


class _Found(NamedTuple):
    """A question as a file has it, its values under the names that SQuAD has for them."""

    place: str
    values: Mapping[str, Any]


def read_questions(path: str, reading: Reading, notes: list[str]) -> Iterator[QaExample]:
    """The questions of a file. What had to be mended goes into `notes` after the last of them."""
    sources, left_out = find_sources([path], format=reading.file_format, encoding=reading.encoding)
    if left_out and not sources:
        raise unreadable(left_out[0], "questions: SQuAD, JSON lines or a table")
    names = {ALSO.get(part, part): name for part, name in (reading.names or {}).items()}
    require_parts(names, USUAL)
    is_squad = len(sources) == 1 and sources[0].format in ("jsonl", "text") and _is_squad(sources[0], reading.encoding)
    found = _nested(sources[0], reading.encoding) if is_squad else _rows(path, reading, names, notes)
    answers_of = _Answers()
    seen = SeenIds(None if reading.labelled else REMEMBERED_OF_A_STREAM)
    number = 0
    for number, (place, values) in enumerate(found, 1):
        given = values.get("id")
        name = str(number if given is None else given)
        where = place if given is None else f"{place}, question {shortened(name)}"
        first = seen.first_place(given, place)
        if first is not None and reading.labelled:
            raise InputError(f"{where}: this id is there twice, first in {first}", "Give each its own id.")
        question, context = _text(values, "question", where), _text(values, "context", where)
        answers = answers_of(values, context, where) if reading.labelled else None
        yield QaExample(where, name, question, context, answers)
    file = sources[0].name
    if not number:
        raise InputError(f"{file} has no questions", 'They are looked for in "data", "paragraphs", "qas".')
    notes.extend(f"{file}: {note}" for note in answers_of.notes())
    notes.extend(seen.notes(file))


def question_of(value: Any, place: str) -> QaExample:
    """One question with its passage, as Python has it: (question, passage), or a dictionary with the names of a row."""
    if isinstance(value, tuple | list) and len(value) == 2:
        value = {"question": value[0], "context": value[1]}
    if not isinstance(value, Mapping):
        raise InputError(
            f"{place} is {shortened(value)}", 'Pass (question, passage), or {"question": ..., "context": ...}.'
        )
    values = {part: value[name] for part, name in _named(value, {}).items()}
    given = values.get("id")
    question, context = _text(values, "question", place), _text(values, "context", place)
    return QaExample(place, "" if given is None else str(given), question, context)


def _is_squad(source: Source, encoding: str) -> bool:
    """Whether a file is one JSON value with everything in it; told from its beginning."""
    return is_one_for_all(beginning_of(source, encoding))


def _nested(source: Source, encoding: str) -> Iterator[_Found]:
    """The questions of a SQuAD file: articles have paragraphs, these a context and questions. A list of rows in their
    stead, as some tools write it, is read too."""
    stream, _ = as_utf8(open_bytes(source.path, source.compression), encoding)
    raw = stream.read(WHOLE)
    if stream.damage:
        raise InputError(f"{source.name}: {stream.damage}", remedy_of(stream.damage))
    for number, article in enumerate(_listed(_parsed(raw, source.name), "data", source.name), 1):
        if "paragraphs" not in article and "question" in article:
            yield _Found(f"{source.name}, row {number}", article)
            continue
        where = f"{source.name}, article {number}"
        for nth, paragraph in enumerate(_listed(article, "paragraphs", where), 1):
            place = f"{where}, paragraph {nth}"
            common = {name: value for name, value in paragraph.items() if name != "qas"}
            for count, question in enumerate(_listed(paragraph, "qas", place), 1):
                named = question.get("id") is not None
                yield _Found(place if named else f"{place}, question {count}", {**common, **question})


def _parsed(raw: bytes, name: str) -> Any:
    try:
        return json.loads(raw)
    except UnicodeDecodeError as problem:
        line = raw.count(b"\n", 0, problem.start) + 1
        shown = excerpt(raw, problem.start)
        raise InputError(f"{name}, line {line}: not UTF-8: {shown}", "Name the encoding with `encoding`.") from None
    except json.JSONDecodeError as problem:
        shown = excerpt(problem.doc, problem.pos)
        early = not problem.doc[problem.pos :].strip() or problem.msg.startswith("Unterminated string")
        raise InputError(
            f"{name}, line {problem.lineno}: not valid JSON: {problem.msg}: {shown}",
            "The file ends early: copy or download it again." if early else "Mend it there, or download it again.",
        ) from None
    except RecursionError:
        raise InputError(f"{name}: JSON nested too deeply", "It is not a SQuAD file.") from None
    except ValueError:
        raise InputError(f"{name}: a JSON number with more digits than can be read", "Mend or remove it.") from None


def _listed(parent: Any, key: str, name: str) -> list[dict[str, Any]]:
    values = parent.get(key) if isinstance(parent, dict) else None
    if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
        raise InputError(f"{name}: {shortened(parent)} has no list of objects {key!r}", "It is not a SQuAD file.")
    return values


def _rows(path: str, reading: Reading, given: Mapping[str, str], notes: list[str]) -> Iterator[_Found]:
    table = read_table(path, reading, notes, {name for names in USUAL.values() for name in names}, uses_ids=True)
    require_columns(table, given.values())
    require_different(given)
    reading.on_columns(given)  # those that are found by their names are found again
    parts = [part for part in USUAL if reading.labelled or part != "answers"]
    given = {**as_in_training(table, reading, given, parts, notes), **given}
    first = _named(dict.fromkeys(table.columns), given)
    wanted = ["question", "context"]
    if reading.labelled and "is_impossible" not in table.columns:
        wanted.append("answers")
    for part in wanted:
        if part not in first:
            hint = next((hint for name in USUAL[part] if (hint := nearest(name, table.columns))), "")
            raise InputError(
                f"{table.source.name}: no column is plainly the {part}",
                f"{hint} Call it {part!r}. There are: {shown(table.columns)}.",
            )
    if guessed := [f"{part} is {name!r}" for part, name in first.items() if part not in given and part != name]:
        notes.append(f"{table.source.name}: taken for granted that {', '.join(guessed)}")
    tell_unread(table, (*first.values(), "is_impossible"), notes)
    for row in table:
        columns = _named(row.values, given)
        others = {key: row.values[key] for key in ("is_impossible",) if key in row.values}
        yield _Found(row.place, {**{part: row.values.get(name) for part, name in columns.items()}, **others})


def _named(values: Mapping[str, Any], given: Mapping[str, str]) -> dict[str, str]:
    """For each part of a question the name that this row has for it."""
    lowered = {name.strip().lower(): name for name in reversed(list(values))}
    found = {part: next((lowered[name] for name in names if name in lowered), None) for part, names in USUAL.items()}
    return {part: name for part, name in {**found, **given}.items() if name is not None}


def _text(values: Mapping[str, Any], part: str, where: str) -> str:
    value = values.get(part)
    if not isinstance(value, str):
        said = f"the {part} is {shortened(value)}, not text" if part in values else f"there is no {part}"
        hint = "" if part in values else nearest(part, values)
        raise InputError(f"{where}: {said}", f"{hint} Remove the question or mend it.")
    if not value.strip():
        raise InputError(f"{where}: the {part} is empty", "Remove the question or fill it in.")
    return value


class _Answers:
    """The answers of a question in their passage, and what was odd about them, counted."""

    def __init__(self) -> None:
        self.moved = self.unplaced = self.contradicted = self.outside = 0

    def __call__(self, values: Mapping[str, Any], context: str, where: str) -> tuple[Answer, ...]:
        pairs = [pair for pair in _pairs(values, where) if pair[0].strip()]
        if _said_impossible(values.get("is_impossible")):
            self.contradicted += bool(pairs)
            return ()
        inside = [(text, start) for text, start in pairs if text.strip() in context]
        if inside:  # of several that people gave one will do
            self.outside += len(inside) < len(pairs)
            pairs = inside
        return tuple(self._placed(text, start, context, where) for text, start in pairs)

    def _placed(self, text: str, start: int | None, context: str, where: str) -> Answer:
        if start is not None and start >= 0 and context.startswith(text, start):
            return Answer(text, start)
        for wanted in (text, text.strip()):
            at = nearest_occurrence(wanted, context, start or 0)
            if at is not None:
                self.moved += start is not None
                self.unplaced += start is None
                return Answer(wanted, at)
        raise InputError(
            f"{where}: the answer {shortened(text)} is not in its passage, {shortened(context)}",
            "An answer is a part of the passage, letter for letter: mend it, or remove the question.",
        )

    def notes(self) -> Iterator[str]:
        if self.moved:
            yield f"{self.moved:,} answers are not where answer_start says; the nearest place that has them counts"
        if self.unplaced:
            yield f"{self.unplaced:,} answers have no answer_start; the first place that has them counts"
        if self.outside:
            yield f"{self.outside:,} questions have answers that are not in their passages, besides others that are"
        if self.contradicted:
            yield f"{self.contradicted:,} questions are marked is_impossible and have answers; they count as without"


def nearest_occurrence(text: str, context: str, start: int) -> int | None:
    """Where `text` is in the passage, as near to `start` as can be.

    >>> nearest_occurrence("day", "day by day, day out", 8)
    7
    """
    before = context.rfind(text, 0, max(start, 0) + len(text))
    after = context.find(text, max(start, 0))
    found = [at for at in (before, after) if at >= 0]
    return min(found, key=lambda at: abs(at - start), default=None)


def _pairs(values: Mapping[str, Any], where: str) -> list[tuple[str, int | None]]:
    """Texts and starts, whichever of the forms they are in."""
    given = values.get("answers", MISSING)
    if given is None or (given is MISSING and _said_impossible(values.get("is_impossible"))):
        return []
    if given is MISSING:
        raise InputError(
            f"{where}: there are no answers", 'For a question that the passage does not answer, write "answers": [].'
        )
    if isinstance(given, str):
        return [(given, _start(values.get("answer_start"), where))]
    if isinstance(given, dict):
        given = _paired(given, where)
    if not isinstance(given, list):
        raise _not_answers(given, where)
    found = []
    for each in given:
        text = each.get("text") if isinstance(each, dict) else each
        if not isinstance(text, str):
            raise _not_answers(each, where)
        found.append((text, _start(each.get("answer_start") if isinstance(each, dict) else None, where)))
    return found


def _paired(answers: Mapping[str, Any], where: str) -> list[dict[str, Any]]:
    texts, starts = answers.get("text"), answers.get("answer_start")
    if not isinstance(texts, list):
        return [dict(answers)]
    if starts is None:
        starts = [None] * len(texts)
    if not isinstance(starts, list) or len(starts) != len(texts):
        raise InputError(
            f"{where}: {len(texts)} texts of answers, and answer_start is {shortened(starts)}",
            "There must be one start for each.",
        )
    return [{"text": text, "answer_start": start} for text, start in zip(texts, starts, strict=True)]


def _not_answers(value: Any, where: str) -> InputError:
    return InputError(
        f"{where}: an answer is {shortened(value)}", 'It should be {"text": "...", "answer_start": 12}, or text.'
    )


def _start(value: Any, where: str) -> int | None:
    """Tables have numbers as text, and 12.0 for 12 where some rows have none."""
    if value is None or value == "" or value != value:
        return None
    try:
        if isinstance(value, bool) or float(value) != int(float(value)):
            raise ValueError
        return int(float(value))
    except (TypeError, ValueError, OverflowError):
        raise InputError(
            f"{where}: answer_start is {shortened(value)}",
            "It is the number of characters before the answer, or left out.",
        ) from None


def _said_impossible(value: Any) -> bool:
    return value is True or str(value).lower() in ("true", "1")
