"""Quotes in tables with tabs: quoting where a program has written them so, text where people have."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertkit.corpus import Cells
from bertkit.errors import InputError
from bertkit.tables import LOOK_AT, Quotes, QuotesLeft, Reading, Table, find_writing, quotes_in
from bertkit.tasks import Classify, Tag, examples_in

ROWS = [
    ["text", "label"],
    ['She said "fine" 0', "pos"],
    ["two\nlines", "neg"],
    ["a\ttab", "pos"],
    ["plain, with a comma", "neg"],
]


def as_tsv(rows: list[list[str]], quoting: Any = csv.QUOTE_MINIMAL, line_end: str = "\r\n") -> str:
    out = io.StringIO()
    csv.writer(out, delimiter="\t", quoting=quoting, lineterminator=line_end).writerows(rows)
    return out.getvalue()


def write(folder: Path, content: str, name: str = "a.tsv") -> str:
    path = folder / name
    path.write_bytes(content.encode())
    return str(path)


def cells(folder: Path, content: str, name: str = "a.tsv", **options: Any) -> tuple[list[list[Any]], list[str]]:
    """The header too."""
    notes: list[str] = []
    table = Table(write(folder, content, name), notes=notes, **options)
    return [table.columns, *(list(row.values.values()) for row in table)], notes


@pytest.mark.parametrize("quoting", [csv.QUOTE_ALL, csv.QUOTE_MINIMAL, csv.QUOTE_NONNUMERIC])
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_what_a_program_has_quoted_is_read_without_the_quotes_and_that_is_said(
    tmp_path: Path, quoting: Any, line_end: str
):
    found, notes = cells(tmp_path, as_tsv(ROWS, quoting, line_end))
    assert found == ROWS
    (said,) = notes
    assert said.startswith(f"{tmp_path / 'a.tsv'}: quotes around cells are taken for quoting, as in CSV;")
    assert said.endswith("if they are text: `file_format=tsv`")


@pytest.mark.parametrize(
    "rows",
    [
        ROWS[:2],
        [ROWS[0], ROWS[2], ROWS[4]],
        [ROWS[0], ROWS[3], ROWS[4]],
        [ROWS[0], *([f"a{n}", "x"] for n in range(3000)), ROWS[1], ROWS[3]],
    ],
)
def test_one_cell_that_had_to_be_quoted_tells_it(tmp_path: Path, rows: list[list[str]]):
    assert cells(tmp_path, as_tsv(rows))[0] == rows


@pytest.mark.parametrize(
    ("content", "quoted"),
    [
        ('"text"\t"label"\n"good"\t"pos"\n', True),
        ('text\tlabel\n"good"\tpos\n"bad"\tneg\n"so"\tneg\n', True),
        ('text\tlabel\n"good"\tpos\n"bad"\tneg\n', False),
        ('"text"\tlabel\n"good"\t1\n""\t0\n', True),
        ('text\tlabel\n"yes, it is"\tpos\n"no, not"\tneg\n"well, so"\tneg\nbad\tneg\n', True),
        ('text\tlabel\n"yes, it is"\tpos\n"no, not"\tneg\n"well, so"\tneg\nbad, too\tneg\n', False),
        ('text\tlabel\n"good"\tpos\nbad\tneg\n', False),
        ('text\tlabel\n"good" it is\tpos\n"She said ""fine"""\tneg\n', False),
        ('text\tlabel\nit is "good"\tpos\n"She said ""fine"""\tneg\n', False),
        ('text\tlabel\n"never closed\tpos\nbad\tneg\n', False),
        ("text\tlabel\n\" I 'm taking his office , ' he vowed . \"\tpos\nbad\tneg\n", False),
        ('text\tlabel\n" Fine , " she said . " Bye . "\tpos\n" So . "\tneg\n', False),
        ('a\tb\tc\nx\t"one"\t\ny\t"two"\t\nz\tthree\t\n', False),
        ('a\tb\nx\t\nx\t\nx\t\nx\t\nx\t"one"\nx\t"two"\n', False),
        ('text\tlabel\n"She said ""fine""\n', False),
        ("text\tlabel\ngood\tpos\n", False),
    ],
)
def test_quotes_are_text_unless_something_tells_otherwise(content: str, quoted: bool):
    assert quotes_in(content, "\t", goes_on=False) is (Quotes.QUOTING if quoted else Quotes.TEXT)


@pytest.mark.parametrize(
    "rows",
    [
        [['"Fine', "pos"], ['he said"', "neg"]],
        [["good", "pos"], ['"', "neg"], ["bad", "neg"], ['"', "pos"]],
        [['"Yes', "pos"], ['so ""they"" say', "neg"], ['no"', "neg"]],
        [['"Yes', "pos"], ['""', "neg"], ["and so on", "neg"], ['no"', "neg"]],
    ],
)
def test_lines_that_have_all_columns_are_not_joined_unless_the_user_says_so(tmp_path: Path, rows: list[list[str]]):
    content = "text\tlabel\n" + "".join("\t".join(row) + "\n" for row in rows)
    found, notes = cells(tmp_path, content)
    assert found[1:] == rows
    assert "quotes are taken for text, and every line for a row; if they are around tabs and line ends: " in notes[0]
    written_so, _ = cells(tmp_path, content, file_format="csv", delimiter="tab")
    assert len(written_so) < len(found)


def test_texts_that_begin_with_a_quote_keep_it(tmp_path: Path):
    rows = [['" The power of " it', "1"], ['"', "0"], ['" So be it . "', "0"], ['a "b" c', "1"]]
    content = "text\tlabel\n" + "".join("\t".join(row) + "\n" for row in rows)
    found, notes = cells(tmp_path, content)
    assert found[1:] == rows
    assert notes == []


@pytest.mark.parametrize("name", ["a.tsv", "a.csv", "a.tab.gz"])
def test_who_says_the_format_decides_it(tmp_path: Path, name: str):
    import gzip

    content = as_tsv(ROWS, csv.QUOTE_ALL)
    path = tmp_path / name
    path.write_bytes(gzip.compress(content.encode()) if name.endswith("gz") else content.encode())
    assert [list(row.values.values()) for row in Table(str(path), file_format="csv", delimiter="tab")] == ROWS[1:]
    plain = "text\tlabel\n" + "".join(f'"number {n}"\tpos\n' for n in range(3))
    found, notes = cells(tmp_path, plain, file_format="tsv")
    assert found[1] == ['"number 0"', "pos"]
    assert "quotes are text, as `file_format=tsv` says" in notes[0]
    assert "`file_format=csv` `delimiter=tab`" in notes[0]


def test_quotes_of_a_csv_with_tabs_are_told_from_its_content(tmp_path: Path):
    assert cells(tmp_path, as_tsv(ROWS), "a.csv", delimiter="tab")[0] == ROWS
    assert cells(tmp_path, 'text\tlabel\n"so\tpos\n', "a.csv", delimiter="tab")[0][1] == ['"so', "pos"]


def test_labels_of_a_quoted_file_have_no_quotes(tmp_path: Path):
    notes: list[str] = []
    path = write(tmp_path, as_tsv(ROWS, csv.QUOTE_ALL))
    assert [example.right for example in examples_in(Classify, path, Reading(), notes)] == ["pos", "neg", "pos", "neg"]
    assert any("taken for quoting" in note for note in notes)


def test_sentences_of_a_quoted_table_are_tagged(tmp_path: Path):
    rows = [["words", "tags"], ["to Bonn", "O B-LOC"], ['" yes', "O O"]]
    examples = list(examples_in(Tag, write(tmp_path, as_tsv(rows, csv.QUOTE_ALL)), Reading(), []))
    assert [example.words for example in examples] == [("to", "Bonn"), ('"', "yes")]


def test_only_the_beginning_of_a_large_file_is_looked_at_and_what_comes_later_is_said(tmp_path: Path):
    many = [[f"number {n}, and some more words", "x"] for n in range(LOOK_AT // 30)]
    found, notes = cells(tmp_path, as_tsv([ROWS[0], *many, ROWS[1]], line_end="\n"))
    assert found[-1] == ['"She said ""fine"" 0"', "pos"]
    assert f"a cell seems quoted, and the quotes are taken for text; it is {found[-1][0]!r}, in line" in notes[-1]
    with pytest.raises(
        InputError, match=r"1 columns, and the header has 2.*If quotes .*`file_format=csv` `delimiter=tab`"
    ):
        cells(tmp_path, as_tsv([ROWS[0], *many, ROWS[2]]))
    quoted = [ROWS[0], ROWS[1], *many]
    assert cells(tmp_path, as_tsv(quoted, csv.QUOTE_ALL))[0] == quoted
    with pytest.raises(InputError, match=r"If quotes are text here: `file_format=tsv`"):
        cells(tmp_path, as_tsv(quoted) + '"so" it is\tpos\n')


def test_a_beginning_that_is_cut_within_a_cell_tells_what_comes_before(tmp_path: Path):
    content = as_tsv(ROWS, line_end="\n") + '"' + "long " * (LOOK_AT // 4) + '\n"\tpos\n'
    assert cells(tmp_path, content)[0][:5] == ROWS


def read_back(content: str) -> tuple[list[list[str]], bool]:
    """Its rows, and whether something is said of how they are read."""
    writing = find_writing(content.encode(), "tsv", None, None)
    rows = [row for row in writing.dialect.reader(io.StringIO(content)) if any(row)]
    left = QuotesLeft()
    for line, row in enumerate(rows, 1):
        left.see(Cells(line, [], row))
    return rows, bool(writing.notes or list(left.notes()))


CELLS = st.text(st.sampled_from('ab"\t\n, '), max_size=6)


@settings(max_examples=500, deadline=None)
@given(rows=st.lists(st.lists(CELLS, min_size=2, max_size=2), min_size=2), quoting=st.sampled_from([0, 1, 2]))
def test_what_was_written_with_quotes_is_read_back_or_something_is_said(rows: list[list[str]], quoting: int):
    """csv has 0, 1 and 2 for quotes where they are needed, everywhere, and around all but numbers."""
    found, said = read_back(as_tsv(rows, quoting, "\n"))
    rows = [row for row in rows if any(row)]
    is_even = all(len(row) == 2 for row in found)
    assert found == rows or said or not is_even
    if quoting and rows:
        assert found == rows


@settings(max_examples=500, deadline=None)
@given(rows=st.lists(st.lists(st.text(st.sampled_from('ab", '), max_size=6), min_size=2, max_size=2), min_size=2))
def test_what_was_written_without_quoting_is_read_back_or_something_is_said(rows: list[list[str]]):
    found, said = read_back("".join("\t".join(row) + "\n" for row in rows))
    assert found == [row for row in rows if any(row)] or said
