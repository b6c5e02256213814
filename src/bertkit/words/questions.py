"""How good vectors are: analogies, as questions-words.txt and the Chinese CA8 have them (four words a line, sections
begun by a colon), and likeness as people see it, as WordSim-353 and SimLex-999 (two words and a number a line).

Said is how many questions could be asked at all, since words that are not there cannot be right.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from bertkit.errors import InputError, shortened
from bertkit.files import require_regular_file
from bertkit.words.vectors import WordVectors, analogy_scores

Array = np.ndarray[Any, Any]
AT_ONCE = 2**25
"""Scores of words in memory."""
Lines = list[tuple[int, str, list[str]]]
"""Of each line its number, its section, and what stands in it."""


def evaluate(
    vectors: WordVectors, file: Path, *, multiply: bool = False, most_words: int | None = None
) -> dict[str, Any]:
    """The figures of one file, by what it holds. Analogies are answered among the `most_words` commonest words."""
    lines = _lines(file)
    widths = {len(parts) for _, _, parts in lines}
    if widths == {4}:
        return {"file": file.name, **_analogies(vectors, lines, multiply, most_words)}
    return {"file": file.name, **_likeness(vectors, file, lines)}


def _lines(file: Path) -> Lines:
    require_regular_file(file, InputError)
    found: Lines = []
    section = ""
    try:
        text = file.read_text("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise InputError(f"{file} is not UTF-8: {problem.reason}", "Save it as UTF-8.") from None
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith(":"):
            section = line[1:].strip()
        elif line.strip() and not line.startswith("#"):
            parts = line.split("\t") if "\t" in line else line.replace(",", " ").split()
            found.append((number, section, [part.strip() for part in parts]))
    if not found:
        raise InputError(f"{file} holds no questions", "Four words a line, or two and a number.")
    four = [len(parts) == 4 and not any(map(_is_number, parts)) for _, _, parts in found]
    if section and not all(four):
        number, _, parts = found[four.index(False)]
        raise InputError(f"{file}, line {number}: {shortened(' '.join(parts))} is not four words", "Mend the line.")
    return found


def _is_number(text: str) -> bool:
    try:
        return bool(np.isfinite(float(text)))
    except ValueError:
        return False


def _analogies(vectors: WordVectors, lines: Lines, multiply: bool, most_words: int | None) -> dict[str, Any]:
    most = min(most_words or len(vectors), len(vectors))
    rows = [[vectors.row_of(word) for word in parts] for _, _, parts in lines]
    askable = [number for number, its in enumerate(rows) if all(row is not None and row < most for row in its)]
    right: dict[str, list[bool]] = {}
    for number, is_right in zip(askable, _answered(vectors, [rows[n] for n in askable], multiply, most), strict=True):
        right.setdefault(lines[number][1], []).append(is_right)
    count = sum(map(len, right.values()))
    sections = {name: {"accuracy": float(np.mean(its)), "asked": len(its)} for name, its in right.items() if name}
    kinds: dict[str, list[bool]] = {}
    for name, its in right.items():
        kinds.setdefault("syntactic" if name.startswith("gram") else "semantic", []).extend(its)
    return {
        "kind": "analogies",
        "accuracy": sum(map(sum, right.values())) / count if count else None,
        "asked": count,
        "coverage": count / len(lines),
        **{name: float(np.mean(its)) for name, its in kinds.items() if len(kinds) > 1},
        "sections": sections,
    }


def _answered(vectors: WordVectors, questions: list[Any], multiply: bool, most: int) -> Iterator[bool]:
    unit = vectors.unit[:most]
    size = max(1, AT_ONCE // most)
    for start in range(0, len(questions), size):
        a, b, c, d = np.array(questions[start : start + size]).T
        if multiply:
            scores = analogy_scores(*(unit[each] @ unit.T for each in (a, b, c)), multiply=True)
        else:
            scores = analogy_scores(unit[a], unit[b], unit[c], multiply=False) @ unit.T
        for each in (a, b, c):
            scores[np.arange(len(a)), each] = -np.inf
        yield from (scores.argmax(1) == d).tolist()


def _likeness(vectors: WordVectors, file: Path, lines: Lines) -> dict[str, Any]:
    from scipy.stats import spearmanr

    column = _score_column(lines)
    if column is None:
        number, _, parts = lines[0]
        raise InputError(
            f"{file}, line {number}: {shortened(' '.join(parts))} is neither four words nor two and a number",
            "Name a file as questions-words.txt, or as WordSim-353 or SimLex-999.",
        )
    pairs, said = [], []
    if not _is_number(lines[0][2][column]):  # the names of the columns
        lines = lines[1:]
    for number, _, parts in lines:
        if len(parts) <= column or not _is_number(parts[column]):
            raise InputError(f"{file}, line {number}: {shortened(' '.join(parts))} has no number", "Mend the line.")
        if parts[0] in vectors and parts[1] in vectors:
            pairs.append(vectors.similarity(parts[0], parts[1]))
            said.append(float(parts[column]))
    return {
        "kind": "likeness",
        "spearman": float(spearmanr(pairs, said).statistic) if len(pairs) > 2 else None,
        "asked": len(pairs),
        "coverage": len(pairs) / max(len(lines), 1),
    }


def _score_column(lines: Lines) -> int | None:
    """The first column behind two words that is a number in every line but the one with names."""
    rest = lines[1:] or lines
    width = min(len(parts) for _, _, parts in rest)
    return next((place for place in range(2, width) if all(_is_number(parts[place]) for _, _, parts in rest)), None)
