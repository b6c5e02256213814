"""Labelled tables by contract: the extension says the kind, a header the columns, and all that is wrong is told at
once."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from bertkit.errors import InputError, UsageError
from bertkit.tables import BadRows, Reading, Table, TextExample, in_order
from bertkit.tasks import Classify, Embed, Regress, Tag, TagExample, examples_in
from bertkit.train import FinetuneRequest, read_examples
from fitting import begun

ROWS = [{"text": "good", "label": "pos"}, {"text": 'a "quoted" one, with a comma', "label": "neg"}]
AS_CSV = 'text,label\ngood,pos\n"a ""quoted"" one, with a comma",neg\n'
AS_JSON_LINES = "".join(json.dumps(row) + "\n" for row in ROWS)


def write(path: Path, content: str | bytes) -> str:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(path)


def as_parquet(path: Path) -> str:
    import pyarrow
    from pyarrow import parquet

    parquet.write_table(pyarrow.Table.from_pylist(ROWS), path)
    return str(path)


def as_excel(path: Path, *rows: tuple[Any, ...]) -> str:
    from openpyxl import Workbook

    book = Workbook()
    for row in rows or (("text", "label"), *(tuple(row.values()) for row in ROWS)):
        book.active.append(row)
    book.save(path)
    return str(path)


def table(path: str, notes: list[str] | None = None, **reading: Any) -> Table:
    how = Reading(**reading)
    return Table(path, how, BadRows(path, how), [] if notes is None else notes)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", AS_CSV),
        ("a.csv", b"\xef\xbb\xbf" + AS_CSV.replace("\n", "\r\n").encode()),
        ("a.csv", AS_CSV.replace("\n", "\r\n").encode("utf-16")),
        ("a.csv", f"sep=,\n{AS_CSV}"),
        ("a.csv", 'text;label\n\n;\n;\ngood;pos\n"a ""quoted"" one, with a comma";neg\n'),
        ("a.csv", 'text\tlabel\ngood\tpos\n"a ""quoted"" one, with a comma"\tneg\n'),
        ("a.CSV.gz", gzip.compress(AS_CSV.encode())),
        ("a.tsv", 'text\tlabel\ngood\tpos\na "quoted" one, with a comma\tneg\n'),
        ("a.jsonl", AS_JSON_LINES),
        ("a.json", AS_JSON_LINES),
        ("a.json", json.dumps(ROWS)),
        ("a.json", json.dumps({"version": 1, "data": ROWS}, indent=1)),
        ("a.json", "\n".join(json.dumps(row, indent=2) for row in ROWS)),
        ("a.parquet", as_parquet),
        ("a.xlsx", as_excel),
    ],
)
def test_the_same_rows_in_every_form(tmp_path: Path, name: str, content: Any):
    path = content(tmp_path / name) if callable(content) else write(tmp_path / name, content)
    found = table(path)
    assert found.columns == ["text", "label"]
    assert [row.values for row in found] == ROWS


def test_the_delimiter_is_that_which_the_first_line_has_most_often_and_it_is_said(tmp_path: Path):
    notes: list[str] = []
    path = write(tmp_path / "a.csv", "text;label\ngood, all in all, yes, really;x\n")
    assert next(iter(table(path, notes))).values == {"text": "good, all in all, yes, really", "label": "x"}
    assert notes == [f"{path}: a semicolon is between the columns"]
    assert table(path, delimiter="|").columns == ["text;label"]
    with pytest.raises(UsageError, match="the delimiter is 'both'"):
        table(path, delimiter="both")
    path = write(tmp_path / "b.csv", "text,more;label\na,b;c\n")
    with pytest.raises(InputError, match=r"has as many commas and semicolons.*Say it: `delimiter=semicolon`"):
        list(examples_in(Classify, path, Reading(), []))


def read(
    tmp_path: Path, content: str | bytes, name: str = "a.csv", task: Any = Classify, **reading: Any
) -> tuple[list[Any], list[str]]:
    notes: list[str] = []
    return list(examples_in(task, write(tmp_path / name, content), Reading(**reading), notes)), notes


def test_a_first_line_names_the_columns_unless_they_are_given(tmp_path: Path):
    content = "gj04\t1\t*\tThe rope was long.\ngj04\t0\t\tRope the long.\n"
    with pytest.raises(InputError) as told:
        read(tmp_path, content, "cola.tsv")
    for words in ("plainly the text", "plainly the label", "`label_column`", "first line is a row", "`columns`"):
        assert words in str(told.value)
    examples, notes = read(tmp_path, content, "cola.tsv", columns=("source", "label", "mark", "sentence"))
    assert [each[1:] for each in examples] == [("The rope was long.", None, "1"), ("Rope the long.", None, "0")]
    assert notes == [
        f"{tmp_path / 'cola.tsv'}: text is 'sentence'",
        f"{tmp_path / 'cola.tsv'}: 'source', 'mark' are not read",
    ]


def test_columns_are_known_by_a_short_list_of_names_and_that_is_said(tmp_path: Path):
    examples, notes = read(tmp_path, "Quality\t#1 ID\t#1 String\t#2 String\n1\t17\ta b\tc d\n", "mrpc.tsv")
    assert examples[0][1:] == ("a b", "c d", "1")
    assert "text is '#1 String', pair is '#2 String', label is 'Quality'" in notes[0]
    examples, _ = read(tmp_path, "index\tquestion\tsentence\tlabel\n0\twho\tthey did\tyes\n", "qnli.tsv")
    assert examples[0][1:] == ("who", "they did", "yes"), "two usual names are a pair"
    examples, _ = read(tmp_path, "a,b,c\nx,y,z\n", names={"text": "b", "label": "c"})
    assert examples[0][1:] == ("y", None, "z")


@pytest.mark.parametrize(
    ("content", "reading", "told"),
    [
        ("text,label\na,1\n", {"names": {"text": "txt"}}, ["no column 'txt'", "Did you mean 'text'?"]),
        ("text,label\na,1\n ,0\n", {}, ["a.csv, line 3: the text is empty", "Remove", "`bad_rows=skip`"]),
        ("text,label\na,1\nb,0,7\n", {}, ["a.csv, line 3: 3 columns, and the header has 2"]),
        ("text,text\na,1\n", {}, ["line 1: 2 columns are called 'text'"]),
        ("text,label\n", {}, ["has no rows"]),
        ("one,two\na,b\n", {}, ["plainly the text", "plainly the label", "`text_column`", "There are: 'one', 'two'"]),
        ('text,label\n"a,1\n', {}, ["line 2: a quote is opened and never closed"]),
        ("text,label\na,x\nb,y\n" * 2, {}, ["line 4: the header once more"]),
        ("text,label\na,x\n", {"file_format": "jsonlines"}, ["Did you mean 'jsonl'?"]),
    ],
)
def test_what_is_wrong_is_told_with_its_place(tmp_path: Path, content: str, reading: dict[str, Any], told: list[str]):
    with pytest.raises((InputError, UsageError)) as problem:
        read(tmp_path, content, **reading)
    for words in told:
        assert words in str(problem.value)


def test_all_that_is_wrong_is_told_at_once(tmp_path: Path):
    content = "text;what;note\nschön;a;\n;;\n;b;\n;c;\nSumme;;3;4\n".encode("cp1252")
    with pytest.raises(InputError) as told:
        read(tmp_path, content, "export")
    for words in (
        "its name does not say what kind of table it is",
        "`file_format=csv`",
        "line 2 is not UTF-8",
        "`encoding=windows-1252`",
        "no column is plainly the label",
        "`label_column`",
        "3 rows cannot be used (line 4, 5: the text is empty; line 6: 4 columns, and the header has 3",
        "`bad_rows=skip`",
    ):
        assert words in str(told.value)


def test_bad_rows_are_left_out_if_wished_and_written_beside_the_result(tmp_path: Path):
    content = "text,label\ngood,x\n,y\nbad\nfine,\nwell,y\n"
    examples, notes = read(tmp_path, content, bad_rows="skip", beside=str(tmp_path / "out" / "model"))
    assert [each.text for each in examples] == ["good", "well"]
    file = tmp_path / "out" / "model.a.csv.bad-rows.jsonl"
    assert any("left out, 3 rows cannot be used (line 3: the text is empty" in note for note in notes)
    assert any(note.endswith(f"they are in {file}") for note in notes)
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert [row["place"].split(", ")[-1] for row in rows] == ["line 4", "line 3", "line 5"] or len(rows) == 3
    assert {"text": "", "label": "y"} in [row["row"] for row in rows]


def test_blank_rows_are_passed_over_and_counted(tmp_path: Path):
    examples, notes = read(tmp_path, "text,label\na,x\n,\n , \nb,y\n\n")
    assert len(examples) == 2
    assert f"{tmp_path / 'a.csv'}: 2 blank rows are passed over" in notes
    path = as_excel(tmp_path / "a.xlsx", ("text", "label"), (None, None), ("a", 1), (2.0, True), ("Total", None))
    with pytest.raises(InputError, match="row 5: the label is empty"):
        list(examples_in(Classify, path, Reading(), notes))
    examples = list(examples_in(Classify, path, Reading(bad_rows="skip"), notes))
    assert [each[1:] for each in examples] == [("a", None, "1"), ("2", None, "True")]


@pytest.mark.parametrize("encoding", ["cp1252", "gb18030"])
def test_the_likely_encoding_is_named_once_and_is_then_enough(tmp_path: Path, encoding: str):
    text = "schön, für alle\n" if encoding == "cp1252" else "真的很好，我们都喜欢\n"
    for mark in (b"", b"\xef\xbb\xbf"):
        content = mark + f"text,label\n{'plain,x' * 2000},y\n".encode() + f'"{text.strip()}",x\n'.encode(encoding)
        with pytest.raises(InputError) as told:
            read(tmp_path, content)
        name = {"cp1252": "windows-1252", "gb18030": "gb18030"}[encoding]
        assert str(told.value).count(name) <= 2
        assert f"`encoding={name}`" in str(told.value)
    assert read(tmp_path, b"text,label\n" + f'"{text.strip()}",x\n'.encode(encoding), encoding=encoding)[0]


def test_a_damaged_row_of_utf_8_is_a_bad_row_and_no_other_encoding(tmp_path: Path):
    content = b"text,label\n" + "我们都喜欢,x\n".encode() * 20 + b"\xed\xa0\xbd,y\n"
    with pytest.raises(InputError, match="line 22: byte 0xed at column 1 is not UTF-8") as told:
        read(tmp_path, content)
    assert "`encoding" not in str(told.value)
    assert len(read(tmp_path, content, bad_rows="skip")[0]) == 20


def test_wrong_json_is_told_with_its_line(tmp_path: Path):
    for content, words in (
        ('{"text": "a", "label": 1}\n{"text": \n', "line 2: not valid JSON"),
        ('{"text": "a", "label": 1}\n[1]\n', "line 2: an array where a JSON object"),
        ('{"text": "a", "label": 1}\n{"label": 1}\n', "line 2: the text is missing"),
        ('{"text": "a", "label": 1}\n{"text": 3, "label": 1}\n', "line 2: the text is 3, not text"),
        ('{"text": "a", "label": {"x": 1}}\n', "line 1: the label is {'x': 1}"),
        ('{"text": "a", "label": NaN}\n', "line 1: the label is NaN"),
    ):
        with pytest.raises(InputError, match="jsonl, ") as problem:
            read(tmp_path, content, "a.jsonl")
        assert words in str(problem.value)
    with pytest.raises(InputError, match=r"a\.json, line 2: not valid JSON.*ends early"):
        read(tmp_path, '[{"text": "a"},\n {"text": "b', "a.json")
    with pytest.raises(InputError, match="row 2: 3 where a JSON object is expected"):
        read(tmp_path, '[{"text": "a", "label": "x"}, 3]', "a.json")


def test_a_label_is_needed_unless_there_may_be_several(tmp_path: Path):
    with pytest.raises(InputError, match="line 3: the label is empty"):
        read(tmp_path, "text,label\na,1\nb,\nc,0\n")
    examples, _ = read(tmp_path, "text,label\na,1\nb,\nc,0|1\n", several=True)
    assert begun(Classify, examples, multi_label=True).classes == ("0", "1")
    lists, _ = read(tmp_path, '{"text": "a", "label": ["x", "y"]}\n{"text": "b", "label": "x"}\n', "a.jsonl")
    with pytest.raises(InputError, match=r"line 1: 2 labels, .* `multi_label=True`"):
        begun(Classify, lists)


def test_labels_that_differ_in_case_or_space_only_are_told_and_can_be_joined(tmp_path: Path):
    content = "text,label\na,very good\nb,Very  good\nc,very good\nd,bad\n"
    examples, notes = read(tmp_path, content)
    assert len({example.right for example in examples}) == 3
    told = "'very good' and 'Very  good' differ in case or space only, and count as different labels"
    assert any(told in note and "`fold_labels=True`" in note for note in notes)
    assert {each.right for each in read(tmp_path, content, fold_labels=True)[0]} == {"very good", "bad"}
    folded = read(tmp_path, content, fold_labels=True, labels=("VERY GOOD", "Bad"))[0]
    assert {each.right for each in folded} == {"VERY GOOD", "Bad"}, "as the model calls them"


def test_scores_are_numbers_and_may_be_called_labels(tmp_path: Path):
    for value in ("NaN", "inf", "many"):
        with pytest.raises(InputError, match="line 3: the score is"):
            read(tmp_path, f"text,score\na,1.5\nb,{value}\n", task=Regress)
    with pytest.raises(InputError, match="line 3: the score is '1e300', too large"):
        read(tmp_path, "text,score\na,1\nb,1e300\n", task=Regress)
    examples, _ = read(tmp_path, "text,id,how\na,17,1\nb,18,3\n", task=Regress, names={"label": "how"})
    assert [example.right for example in examples] == [1.0, 3.0]
    with pytest.raises(UsageError, match="a column for the score is named"):
        read(tmp_path, "text,stars\na,1\n", names={"score": "stars"})
    with pytest.raises(UsageError, match="the column 'a' is named for the text and for the label"):
        read(tmp_path, "a,b\na,1\n", names={"text": "a", "label": "a"})


def test_scores_of_pairs_can_be_left_out(tmp_path: Path):
    content = "text,pair,score\na,b,1\nc,d,2\n"
    assert [each.right for each in read(tmp_path, content, task=Embed)[0]] == [1.0, 2.0]
    assert [each.right for each in read(tmp_path, content, task=Embed, names={"score": "none"})[0]] == [None, None]


def test_labels_of_any_type(tmp_path: Path):
    lines = [{"text": "a", "label": value} for value in (1, 1.0, "1", "1.0", True, "yes", 2.5)]
    examples, _ = read(tmp_path, "".join(json.dumps(line) + "\n" for line in lines), "a.jsonl")
    assert [example.right for example in examples] == ["1", "1", "1", "1", "True", "yes", "2.5"]
    assert in_order({"10", "9", "1.5"}) == ("1.5", "9", "10")
    assert in_order({"nan", "1", "0.5"}) == ("0.5", "1", "nan")


def test_columns_of_the_training_data_are_known_again(tmp_path: Path):
    content = "text,body,kind,label\na,b,c,d\n"
    kept = {"text": "body", "label": "kind"}
    examples, notes = read(tmp_path, content, remembered=kept)
    assert examples[0][1:] == ("b", None, "c")
    assert "as in training, text is 'body', label is 'kind'" in notes[0]
    assert read(tmp_path, content, remembered=kept, names={"text": "text"})[0][0][1:] == ("a", None, "c")
    examples, notes = read(tmp_path, content, remembered={"text": "other"})
    assert examples[0][1:] == ("a", None, "d"), "it is not there"
    assert "there is no 'other', in which training had the text" in notes[0]
    assert read(tmp_path, content, remembered={"text": "body", "pair": "other"})[0][0].text == "a", "both or none"
    pairs = "body,text,sentence2\na,b,c\n"
    assert read(tmp_path, pairs, remembered=kept, labelled=False)[0][0][1:] == ("a", None, None), "no pair was learned"
    found: dict[str, str] = {}
    read(tmp_path, content, on_columns=found.update)
    assert found == {"text": "text", "label": "label"}


def test_plain_text_has_a_text_a_line_where_nothing_is_learned(tmp_path: Path):
    examples, notes = read(tmp_path, "one\n\ntwo\n \n", "a.txt", labelled=False)
    assert [example[:2] for example in examples] == [
        (f"{tmp_path / 'a.txt'}, line 1", "one"),
        (f"{tmp_path / 'a.txt'}, line 3", "two"),
    ]
    assert notes == [f"{tmp_path / 'a.txt'}: 2 blank rows are passed over"]
    with pytest.raises(InputError, match=r"does not say what kind of table it is.*`file_format=tsv`"):
        read(tmp_path, "text\tlabel\na\tb\n", "a.txt")


def test_columns_of_json_lines_are_those_of_all_rows_looked_at(tmp_path: Path):
    rows = [{"text": "a", "label": "x"}, *({"text": "b", "pair": "c", "label": "y"} for _ in range(20))]
    content = "".join(json.dumps(row) + "\n" for row in rows)
    assert table(write(tmp_path / "a.jsonl", content)).columns == ["text", "label", "pair"]


def test_one_label_for_all_is_refused_where_there_may_be_several_too():
    all_alike = [TextExample("a.csv, line 2", "x", None, "a")] * 3
    for several in (False, True):
        with pytest.raises(InputError, match=r"a\.csv, line 2: there is only one label in the training data, 'a'"):
            begun(Classify, all_alike, multi_label=several)
    begun(Classify, [*all_alike, TextExample("", "y", None, "")], multi_label=True)


def test_labels_that_nobody_named_are_the_numbers_of_a_file_and_of_nothing_else():
    def labelled(*labels: str) -> list[TextExample]:
        return [TextExample(f"a.csv, line {line}", "x", None, label) for line, label in enumerate(labels, 2)]

    task = Classify(classes=("LABEL_0", "LABEL_1"))
    assert task.meet(labelled("1")).task.classes == ("0", "1")
    assert task.meet([]).task == task.meet(labelled("LABEL_0")).task == task
    for refused, others in ((task, ("yes",)), (task, ("0", "2")), (Classify(classes=("no", "yes")), ("1",))):
        with pytest.raises(InputError, match="is not among those of the training data"):
            refused.meet(labelled(*others))
    assert Tag(tags=("LABEL_0", "LABEL_1")).meet([TagExample("", ("a",), ("1",))]).task.tags == ("0", "1")


def test_labels_are_learned_under_the_names_that_training_has_for_them(tmp_path: Path):
    train = write(tmp_path / "train.csv", "text,label\none,LABEL_0\ntwo,LABEL_1\nthree,LABEL_1\n")
    dev = write(tmp_path / "dev.csv", "text,label\nfour,0\nfive,1\n")
    with pytest.raises(InputError, match="the label '0' is not among those of the training data"):
        read_examples(FinetuneRequest(task="classify", train=train, dev=dev, start="none"), 16, [])
