"""A question and the answers in its passage, from a row or a request.

Answers are a list of {"text", "answer_start"}, one {"text": [...], "answer_start": [...]}, a list of texts, or a text
with `answer_start` beside it. An empty list, or an empty answer, says that the passage does not tell. Answers that are
not where they are said to be are looked for, and those found elsewhere are counted and said.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from bertkit.errors import InputError, nearest, shortened
from bertkit.tables.bad_rows import BadRows
from bertkit.tables.reading import Reading
from bertkit.tables.values import text_of
from bertkit.tasks.data import Part
from bertkit.tasks.examples import Answer, QaExample

PARTS = (
    Part.text("question", "query", "query_text"),
    Part.text("context", "passage", "paragraph", "text", "context_text", about="the passage", column="text"),
    Part.label("answers", "answer", "answer_text", several=True, needed=False, column="label"),
    Part.text("answer_start", "start", needed=False, learned=True),
    Part.text("is_impossible", needed=False, learned=True),
    Part.text("id", "qid", "question_id", "query_id", needed=False, learned=True),
)
MENDED = {
    "moved": "answers are not where answer_start says; the nearest place that has them counts",
    "unplaced": "answers have no answer_start; the first place that has them counts",
    "outside": "questions have answers that are not in their passages, besides others that are",
    "contradicted": "questions are marked is_impossible and have answers; they count as without",
}


def question_of(value: Any, place: str) -> QaExample:
    """One question with its passage: (question, passage), or a dictionary with the names of a row."""
    if isinstance(value, tuple | list) and len(value) == 2:
        value = {"question": value[0], "context": value[1]}
    if not isinstance(value, Mapping):
        raise InputError(
            f"{place} is {shortened(value)}", 'Pass (question, passage), or {"question": ..., "context": ...}.'
        )
    lowered = {name.strip().lower(): its for name, its in reversed(list(value.items()))}
    values = {}
    for part in PARTS:
        if name := next((name for name in (part.name, *part.synonyms) if name in lowered), None):
            values[part.name] = lowered[name]
    for needed in ("question", "context"):
        if needed not in values:
            hint = nearest(needed, value) or "It needs a question and its context."
            raise InputError(f"{place}: there is no {needed}", hint)
    known = {"answers", "is_impossible"} & values.keys()
    place = f"{place}, question {shortened(str(values['id']))}" if known and values.get("id") else place
    question, context = (text_of(values[name], name, place) for name in ("question", "context"))
    answers, mended = _answers(values, context, place) if known else (None, ())
    return QaExample(place, "" if values.get("id") is None else str(values["id"]), question, context, answers, mended)


def checked_questions(examples: Sequence[QaExample], _: Reading, bad: BadRows, notes: list[str]) -> list[QaExample]:
    """All of a file: each has an id of its own, and what was mended is said."""
    first: dict[str, str] = {}
    found = []
    for number, example in enumerate(examples, 1):
        if example.answers is None:
            bad.ask("there are no answers", "Name their column with `label_column`.")
            return []
        name = example.id or str(number)
        if name in first and example.id:
            told = f"{example.place}: this id is there twice, first in {first[name]}"
            bad.add(example.place, InputError(told, "Give each its own id."), example._asdict())
            continue
        first[name] = example.place
        found.append(example._replace(id=name))
    counts = Counter(each for example in found for each in example.mended)
    notes.extend(f"{bad.name}: {counts[name]:,} {told}" for name, told in MENDED.items() if counts[name])
    return found


def _answers(values: Mapping[str, Any], context: str, where: str) -> tuple[tuple[Answer, ...], tuple[str, ...]]:
    impossible = str(values.get("is_impossible")).lower() in ("true", "1")
    pairs = [] if impossible and values.get("answers") is None else _pairs(values, where)
    pairs = [pair for pair in pairs if pair[0].strip()]
    if impossible:
        return (), ("contradicted",) * bool(pairs)
    inside = [(text, start) for text, start in pairs if text.strip() in context]
    mended: list[str] = ["outside"] * (0 < len(inside) < len(pairs))  # of several that people gave one will do
    found = []
    for text, start in inside or pairs:
        if start is None or not (start >= 0 and context.startswith(text, start)):
            places = ((wanted, nearest_occurrence(wanted, context, start or 0)) for wanted in (text, text.strip()))
            mended.append("unplaced" if start is None else "moved")
            text, start = next((each for each in places if each[1] is not None), (text, None))
        if start is None:
            raise InputError(
                f"{where}: the answer {shortened(text)} is not in its passage, {shortened(context)}",
                "An answer is a part of the passage, letter for letter: mend it, or remove the question.",
            )
        found.append(Answer(text, start))
    return tuple(found), tuple(mended)


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
    given = values.get("answers")
    if given is None:
        none = 'For a question that the passage does not answer, write "answers": [].'
        raise InputError(f"{where}: there are no answers", none)
    if isinstance(given, str):
        given = [{"text": given, "answer_start": values.get("answer_start")}]
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
        told = f"{where}: {len(texts)} texts of answers, and answer_start is {shortened(starts)}"
        raise InputError(told, "There must be one start for each.")
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
        told = "It is the number of characters before the answer, or left out."
        raise InputError(f"{where}: answer_start is {shortened(value)}", told) from None
