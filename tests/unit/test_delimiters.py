"""What separates columns: commas where nothing else may do, and what the user says."""

from __future__ import annotations

from pathlib import Path

import pytest

from bertkit.errors import InputError, UsageError
from bertkit.tasks.data.rows import Table


def write(folder: Path, content: str) -> str:
    path = folder / "a.csv"
    path.write_bytes(content.encode())
    return str(path)


@pytest.mark.parametrize(
    ("lines", "name"),
    [
        ([f"a film number {n}, fine;{'pos' if n % 2 else 'neg'}" for n in range(40)], "semicolon"),
        (["text;label,x", *(f"a film, number {n};{n % 2}" for n in range(12))], "semicolon"),
        ([f'{n},5;"one, two; three";{n % 2}' for n in range(10)], "semicolon"),
        ([f"well, {n}\t{n % 2}" for n in range(10)], "tab"),
        ([f"well, {'so, ' * n}{n}|{n % 2}" for n in range(10)], "pipe"),
    ],
)
@pytest.mark.parametrize("columns", [None, ("text", "label")])
def test_a_delimiter_that_every_line_has_beside_commas_is_not_passed_over(
    tmp_path: Path, lines: list[str], name: str, columns: tuple[str, ...] | None
):
    for content in ("\n".join(lines), "\ufeff" + "\r\n".join(lines) + "\r\n"):
        with pytest.raises(
            InputError, match=rf"Perhaps these .*--delimiter {name}\. If it is commas: --delimiter comma"
        ):
            Table(write(tmp_path, content), columns=columns)
    if columns is None:
        assert len(list(Table(write(tmp_path, content), delimiter=name))) >= len(lines) - 1


@pytest.mark.parametrize(
    "lines",
    [
        ["text,label", *(f"first; second {n},{n % 2}" for n in range(30))],
        [f"{'yes; ' * (n % 2)}number {n},{n % 2}" for n in range(30)],
        [f'"yes; number {n}",{n % 2}' for n in range(30)],
        [f'{n % 2},"it | is ""so""\nor; not",{n}' for n in range(30)],
        [f"it &#39;is {n},{n % 2}" for n in range(9)],
    ],
)
def test_other_signs_in_texts_with_commas_between_columns_are_read(tmp_path: Path, lines: list[str]):
    rows = list(Table(write(tmp_path, "\n".join(lines))))
    assert len(rows) in (len(lines), len(lines) - 1)
    assert len(rows[0].values) == len(rows[-1].values) > 1


def test_who_says_what_is_between_columns_is_believed(tmp_path: Path):
    path = write(tmp_path, "".join(f"number {n},a|b\n" for n in range(12)))
    with pytest.raises(InputError, match=r"'number 0,a\|b', has commas and as many pipes as each of the next ones"):
        Table(path)
    assert [row.values["2"] for row in Table(path, delimiter="comma")] == ["a|b"] * 12


def test_an_unknown_delimiter_is_refused(tmp_path: Path):
    with pytest.raises(UsageError, match="It can be comma"):
        Table(write(tmp_path, "text,label\ngood,pos\n"), delimiter="colon or so")
