"""What separates columns: commas where nothing else may do, and what the user says."""

from __future__ import annotations

from pathlib import Path

import pytest

from bertkit.errors import InputError, UsageError
from bertkit.tables import Table


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
            InputError, match=rf"Perhaps these .*`delimiter={name}`\. If it is commas: `delimiter=comma`"
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


@pytest.mark.parametrize("first", ["sep=;", "SEP=;", '"sep=;"'])
@pytest.mark.parametrize("delimiter", [None, "semicolon"])
def test_a_first_line_that_names_the_delimiter_is_believed_and_is_no_row(
    tmp_path: Path, first: str, delimiter: str | None
):
    notes: list[str] = []
    content = f"\ufeff{first}\r\ntext;label\r\n" + 'yes, so;1\r\n"a; b";0\r\n' * 6
    table = Table(write(tmp_path, content), delimiter=delimiter, notes=notes)
    rows = list(table)
    assert table.columns == ["text", "label"]
    assert [row.values["text"] for row in rows[:2]] == ["yes, so", "a; b"]
    assert rows[0].place.endswith("line 3")
    assert len(notes) == 1
    assert "a.csv: the first line, " in notes[0]
    assert "says what is between the columns, and is no row" in notes[0]


def test_who_says_another_delimiter_than_the_first_line_is_believed(tmp_path: Path):
    notes: list[str] = []
    table = Table(write(tmp_path, "sep=;\ntext,label\na;b,1\n"), delimiter="comma", notes=notes)
    assert [row.values for row in table] == [{"text": "a;b", "label": "1"}]
    assert "it is 'comma', as you say" in notes[0]


@pytest.mark.parametrize(("sign", "delimiter"), [("\t", "\t"), (",", ","), ("|", "|")])
def test_a_first_line_may_name_any_delimiter(tmp_path: Path, sign: str, delimiter: str):
    content = f"sep={sign}\n1{delimiter}a b\n0{delimiter}c d\n"
    table = Table(write(tmp_path, content))
    assert not table.header
    assert [row.values["2"] for row in table] == ["a b", "c d"]


def test_a_bad_row_below_such_a_line_has_its_own_number(tmp_path: Path):
    with pytest.raises(InputError, match="line 4: 3 columns, and the header has 2"):
        list(Table(write(tmp_path, "sep=;\ntext;label\na;1\nb;0;7\n")))


def test_only_tabs_make_quotes_text_whatever_the_format_is_called(tmp_path: Path):
    path = write(tmp_path, 'text,label\n"one, two",1\n')
    assert next(iter(Table(path, file_format="tsv", delimiter="comma"))).values == {"text": "one, two", "label": "1"}


def test_a_tab_that_the_first_line_names_is_shown(tmp_path: Path):
    notes: list[str] = []
    Table(write(tmp_path, "sep=\t\ntext\tlabel\na\t1\n"), notes=notes)
    assert "the first line, 'sep=\\t', says what is between the columns" in notes[0]
