"""Labelled tables: read whatever their form, columns found or named, and every mistake told with its place."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from bertkit.errors import InputError, UsageError
from bertkit.tables import Reading, Table, in_order, looks_like_data
from bertkit.tasks import Classify, Regress, examples_in
from fitting import begun

ROWS = [{"text": "good", "label": "pos"}, {"text": 'a "quoted" one, with a comma', "label": "neg"}]


def write(path: Path, content: str | bytes) -> str:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(path)


def as_csv() -> str:
    return 'text,label\ngood,pos\n"a ""quoted"" one, with a comma",neg\n'


def as_jsonl() -> str:
    return "".join(json.dumps(row) + "\n" for row in ROWS)


def as_parquet(path: Path) -> str:
    import pyarrow
    from pyarrow import parquet

    parquet.write_table(pyarrow.Table.from_pylist(ROWS), path)
    return str(path)


@pytest.mark.parametrize("form", ["csv", "csv with a mark", "csv.gz", "tsv", "jsonl", "parquet", "semicolon"])
def test_the_same_rows_in_every_form(tmp_path: Path, form: str):
    options: dict[str, Any] = {}
    if form == "csv":
        path = write(tmp_path / "a.csv", as_csv())
    elif form == "csv with a mark":
        path = write(tmp_path / "a.csv", b"\xef\xbb\xbf" + as_csv().replace("\n", "\r\n").encode())
    elif form == "csv.gz":
        path = write(tmp_path / "a.csv.gz", gzip.compress(as_csv().encode()))
    elif form == "tsv":
        path = write(tmp_path / "a.tsv", 'text\tlabel\ngood\tpos\na "quoted" one, with a comma\tneg\n')
    elif form == "jsonl":
        path = write(tmp_path / "a.jsonl", as_jsonl())
    elif form == "parquet":
        path = as_parquet(tmp_path / "a.parquet")
    else:
        path = write(tmp_path / "a.csv", 'text;label\ngood;pos\n"a ""quoted"" one, with a comma";neg\n')
        options["delimiter"] = "semicolon"
    table = Table(path, **options)
    assert table.columns == ["text", "label"]
    assert table.header
    assert [row.values for row in table] == ROWS


def test_a_table_without_a_header_has_numbered_columns(tmp_path: Path):
    path = write(tmp_path / "cola.tsv", "gj04\t1\t\tThe rope was long.\ngj04\t0\t*\tRope the long.\n")
    table = Table(path)
    assert not table.header
    assert table.columns == ["1", "2", "3", "4"]
    assert [row.values["4"] for row in table] == ["The rope was long.", "Rope the long."]
    named = Table(path, columns=["source", "label", "note", "sentence"])
    assert next(iter(named)).values["sentence"] == "The rope was long."


@pytest.mark.parametrize(
    ("cells", "data"),
    [
        (["text", "label"], False),
        (["Quality", "#1 ID", "#2 ID", "#1 String", "#2 String"], False),
        (["o", "A beginning.", "an ending.", "3"], True),
        (["", "text", "label"], False),
        (["only one"], False),
    ],
)
def test_headers_are_told_from_rows(cells: list[str], data: bool):
    assert looks_like_data(cells) is data


def read(
    tmp_path: Path, content: str, name: str = "a.csv", task: Any = Classify, **reading: Any
) -> tuple[list[Any], list[str]]:
    notes: list[str] = []
    return list(examples_in(task, write(tmp_path / name, content), Reading(**reading), notes)), notes


def test_columns_are_known_by_their_usual_names_and_that_is_said(tmp_path: Path):
    examples, notes = read(tmp_path, "Quality\t#1 ID\t#1 String\t#2 String\n1\t17\ta b\tc d\n", "mrpc.tsv")
    assert examples[0][1:] == ("a b", "c d", "1")
    assert "text is '#1 String', pair is '#2 String', label is 'Quality'" in notes[0]


def test_columns_are_guessed_by_what_is_in_them(tmp_path: Path):
    lines = "".join(
        f"gj04\t{number % 2}\t{'*' if number % 3 else ''}\tSentence number {number}.\n" for number in range(40)
    )
    examples, notes = read(tmp_path, lines, "cola.tsv")
    assert examples[3][1:] == ("Sentence number 3.", None, "1")
    assert "has no header" in notes[0]


def test_a_csv_without_a_header_may_have_commas_in_quotes(tmp_path: Path):
    table = Table(write(tmp_path / "news.csv", '"3","Title","Stocks fall, again"\n"4","Other","No, not yet"\n'))
    assert not table.header
    assert [row.values["3"] for row in table] == ["Stocks fall, again", "No, not yet"]


def test_a_first_row_that_stands_again_in_its_columns_is_no_header(tmp_path: Path):
    lines = "positive\tgreat movie\nnegative\tdull\npositive\tfine\nnegative\tbad\n" * 3
    examples, notes = read(tmp_path, lines, "a.tsv")
    assert len(examples) == 12
    assert examples[0][1:] == ("great movie", None, "positive")
    assert "has no header" in notes[0]


def test_a_header_with_a_label_in_it_is_read_as_one_if_its_columns_are_named(tmp_path: Path):
    content = "text,spam\n" + "buy now,spam\nsee you,ham\n" * 3
    examples, notes = read(tmp_path, content)
    assert len(examples) == 7
    assert "the first line, 'text, spam', is taken for a row: if it names the columns, name them by it" in notes[0]
    examples, _ = read(tmp_path, content, names={"text": "text", "label": "spam"})
    assert len(examples) == 6


def test_two_usual_names_are_a_pair(tmp_path: Path):
    examples, _ = read(tmp_path, "index\tquestion\tsentence\tlabel\n0\twho\tthey did\tyes\n", "qnli.tsv")
    assert examples[0][1:] == ("who", "they did", "yes")


def test_a_column_for_what_a_task_does_not_have_is_refused(tmp_path: Path):
    with pytest.raises(UsageError, match="a column for the score is named"):
        read(tmp_path, "text,stars\na,1\n", names={"score": "stars"})
    examples, _ = read(tmp_path, "text,id,stars\na,17,1\nb,18,3\n", task=Regress, names={"label": "stars"})
    assert [example.right for example in examples] == [1.0, 3.0]


def test_plain_text_keeps_answers_and_lines_in_step(tmp_path: Path):
    examples, _ = read(tmp_path, "one\ntwo\n\n \n", "a.txt", labelled=False)
    assert [example.text for example in examples] == ["one", "two"]
    with pytest.raises(InputError, match="line 2: no text on it"):
        read(tmp_path, "one\n\nthree\n", "a.txt", labelled=False)
    with pytest.raises(InputError, match=r"a\.txt holds no text"):
        read(tmp_path, "\n \n", "a.txt", labelled=False)


@pytest.mark.parametrize("name", ["a.csv", "a.tsv"])
def test_no_line_of_one_column_is_lost(tmp_path: Path, name: str):
    for first in ("Good value", "text", "review_text"):
        examples, notes = read(tmp_path, f"{first}\nbad import\n", name, labelled=False)
        known = first == "text"
        assert [example.text for example in examples] == [*([] if known else [first]), "bad import"]
        assert known or f"the first line, {first!r}, is taken for a text" in notes[0]
    examples, _ = read(tmp_path, "review_text\nbad import\n", name, labelled=False, names={"text": "review_text"})
    assert [example.text for example in examples] == ["bad import"], "who names it says that it is a header"


def test_a_first_line_of_unknown_names_is_said_to_be_taken_for_a_header(tmp_path: Path):
    examples, notes = read(tmp_path, "good value,pos\nbad import,neg\n", labelled=False)
    assert len(examples) == 1
    assert "the first line, 'good value, pos', is taken for the names of columns" in notes[0]
    assert "`columns`" in notes[0]
    assert not any("first line" in note for note in read(tmp_path, "text,x\na,b\n", labelled=False)[1])


def test_tables_that_were_joined_are_told_from_one_without_a_header(tmp_path: Path):
    with pytest.raises(InputError, match="line 4: the header once more"):
        read(tmp_path, "text,label\na,x\nb,y\n" * 2)


def test_half_a_pair_is_not_read_alone(tmp_path: Path):
    content = "sentence1,sentense2,label\na,b,x\n"
    with pytest.raises(InputError, match=r"'sentence1' and no 'sentence2'\. Did you mean 'sentense2'"):
        read(tmp_path, content)
    assert read(tmp_path, content, names={"text": "sentence1"})[0][0].pair is None


def test_a_score_is_guessed_among_numbers_only(tmp_path: Path):
    rows = "".join(f"text number {n},a,{n / 7:.2f}\n" for n in range(20))
    examples, _ = read(tmp_path, f"text,split,stars given\n{rows}b,b,1\n", task=Regress)
    assert examples[7].right == 1.0
    with pytest.raises(InputError, match=r"2 columns have numbers, 'stars given', 'words',.*`score_column`"):
        read(tmp_path, "text,stars given,words\na b,1.5,2\nc d,2.5,2\ne f,1,3\n", task=Regress)
    for numbers in ("id", "index", "", "Unnamed: 0", "row"):
        examples, _ = read(tmp_path, f"{numbers},text,stars given\n1,a b,1\n2,c d,2\n3,e f,2\n", task=Regress)
        assert [example.right for example in examples] == [1.0, 2.0, 2.0], "that counts the rows"
    examples, _ = read(tmp_path, "text,stars given\na b,1\nc d,2\ne f,3\n", task=Regress)
    assert [example.right for example in examples] == [1.0, 2.0, 3.0], "there is no other"
    with pytest.raises(InputError, match="no column is plainly the score"):
        read(tmp_path, "text,name\na,b\nc,d\n", task=Regress)
    with pytest.raises(InputError, match="line 3: the score is '1e300', too large"):
        read(tmp_path, "text,score\na,1\nb,1e300\n", task=Regress)


def test_a_column_that_may_be_a_second_text_is_said_not_to_be_read(tmp_path: Path):
    rows = [f"the text number {n},it is followed by {n},id-{n:030},two words,{n % 2}" for n in range(20)]
    content = "\n".join(["a_text,b_text,id,source,label", *rows])
    told = f"{tmp_path / 'a.csv'}: 'b_text' is not read; if it is a second text, name it with `pair_column`"
    for named in ({"text": "a_text"}, {"text": "a_text", "label": "label"}):
        examples, notes = read(tmp_path, content, names=named)
        assert notes[-1] == told
        assert examples[0].pair is None
    examples, notes = read(tmp_path, content, names={"text": "a_text", "pair": "b_text"})
    assert examples[0].pair == "it is followed by 0"
    for quiet in (notes, read(tmp_path, content, remembered={"text": "a_text"})[1]):
        assert not any("is not read" in note for note in quiet)
    one = content.replace("b_text", "comment").replace("it is followed by", "ok")
    assert not any("is not read" in note for note in read(tmp_path, one, names={"text": "a_text"})[1])
    chinese = "a,b,label\n" + "".join(f"我们喜欢学习{n},苹果公司发布了{n},{n % 2}\n" for n in range(20))
    assert "'b' is not read" in read(tmp_path, chinese, names={"text": "a"})[1][-1]


def test_odd_labels_and_texts_are_said(tmp_path: Path):
    _, notes = read(tmp_path, "text,label\na<br />b,Pos\nb,pos\nc,neg\n")
    assert any("1 texts have HTML in them, such as '<br />'" in note for note in notes)
    assert any("'Pos' and 'pos' differ only in case" in note for note in notes)


def test_columns_can_be_named(tmp_path: Path):
    content = "a,b,c\nx,y,z\n"
    examples, notes = read(tmp_path, content, names={"text": "b", "label": "c"})
    assert examples[0][1:] == ("y", None, "z")
    assert [note.split(": ")[1] for note in notes] == ["'a' is not read"]


@pytest.mark.parametrize(
    ("content", "reading", "told"),
    [
        ("text,label\na,1\n", {"names": {"text": "txt"}}, ["no column 'txt'", "Did you mean 'text'?"]),
        ("text,label\na,1\n ,0\n", {}, ["a.csv, line 3: 'text' is empty", "Remove"]),
        ("text,label\na,1\nb,0,7\n", {}, ["a.csv, line 3: 3 columns, and the header has 2"]),
        ("text;label\na;1\n", {}, ["one column", "`delimiter=semicolon`"]),
        ("text,text\na,1\n", {"columns": None}, ["line 1: 2 columns are called 'text'"]),
        ("text,label\n", {}, ["has no rows"]),
        ("one,two\na,b\n", {}, ["no column is plainly the label", "`label_column`"]),
        ('text,label\n"a,1\n', {}, ["line 2: a quote is opened and never closed"]),
    ],
)
def test_what_is_wrong_is_told_with_its_place(tmp_path: Path, content: str, reading: dict[str, Any], told: list[str]):
    with pytest.raises(InputError) as problem:
        read(tmp_path, content, **reading)
    for words in told:
        assert words in str(problem.value)


def test_wrong_json_is_told_with_its_line(tmp_path: Path):
    for content, words in (
        ('{"text": "a", "label": 1}\n{"text": \n', "line 2: not valid JSON"),
        ('{"text": "a", "label": 1}\n[1]\n', "line 2: an array where a JSON object"),
        ('{"text": "a", "label": 1}\n{"label": 1}\n', "line 2: there is no 'text'"),
        ('{"text": "a", "label": 1}\n{"text": 3, "label": 1}\n', "line 2: 'text' is 3, not text"),
        ('{"text": "a", "label": {"x": 1}}\n', "line 1: the label is {'x': 1}"),
        ('{"text": "a", "label": NaN}\n', "line 1: the label is NaN"),
    ):
        with pytest.raises(InputError, match="jsonl, ") as problem:
            read(tmp_path, content, "a.jsonl")
        assert words in str(problem.value)


def test_a_label_is_needed_unless_there_may_be_several(tmp_path: Path):
    examples, _ = read(tmp_path, "text,label\na,1\nb,\nc,0\n")
    with pytest.raises(InputError, match="line 3: the label is empty"):
        begun(Classify, examples)
    assert begun(Classify, examples, multi_label=True).classes == ("0", "1")
    lists, _ = read(tmp_path, '{"text": "a", "label": ["x", "y"]}\n{"text": "b", "label": "x"}\n', "a.jsonl")
    with pytest.raises(InputError, match=r"line 1: 2 labels, .* `multi_label=True`"):
        begun(Classify, lists)


def test_scores_must_be_numbers(tmp_path: Path):
    for value in ("NaN", "inf", "many", ""):
        with pytest.raises(InputError, match="line 3: the score is"):
            read(tmp_path, f"text,score\na,1.5\nb,{value}\n", task=Regress)


def test_labels_of_any_type(tmp_path: Path):
    lines = [{"text": "a", "label": value} for value in (1, 1.0, "1", True, "yes", 2.5)]
    examples, _ = read(tmp_path, "".join(json.dumps(line) + "\n" for line in lines), "a.jsonl")
    assert [example.right for example in examples] == ["1", "1", "1", "True", "yes", "2.5"]
    with pytest.raises(InputError, match="line 2: the label is missing"):
        read(tmp_path, '{"text": "a", "label": "x"}\n{"text": "b", "label": null}\n', "a.jsonl")


def test_a_row_of_known_names_is_a_header_whatever_stands_below_it(tmp_path: Path):
    for content in ("text,label\ntext,pos\nb,neg\n", "id,text,label\n1,text,pos\n2,b,neg\n"):
        examples, notes = read(tmp_path, content)
        assert [example[1:] for example in examples] == [("text", None, "pos"), ("b", None, "neg")]
        assert not any("has no header" in note for note in notes)


@pytest.mark.parametrize(
    ("content", "columns"),
    [
        ("sentence\tlabel\na b\t1\n", ("text", "label")),
        ("words in it\tx\na b\t1\n", ("words in it", "x")),
        ("text\na b\n", ("text",)),
    ],
)
def test_names_for_columns_that_the_file_names_itself_are_refused(
    tmp_path: Path, content: str, columns: tuple[str, ...]
):
    with pytest.raises(InputError, match=r"a\.tsv, line 1: .* are names of columns.*Leave `columns` out"):
        read(tmp_path, content, "a.tsv", columns=columns, labelled=len(columns) > 1)


def test_columns_of_json_lines_are_those_of_all_rows_looked_at(tmp_path: Path):
    rows = [{"text": "a", "label": "x"}, *({"text": "b", "pair": "c", "label": "y"} for _ in range(20))]
    content = "".join(json.dumps(row) + "\n" for row in rows)
    assert Table(write(tmp_path / "a.jsonl", content)).columns == ["text", "label", "pair"]
    with pytest.raises(InputError, match="line 1: there is no 'pair'"):
        read(tmp_path, content, "a.jsonl")


def test_of_columns_with_equally_few_values_the_label_is_the_one_with_numbers(tmp_path: Path):
    rows = [f"{'gj04' if n < 30 else 'cj99'}\t{n % 2}\t\tSentence number {n}.\n" for n in range(40)]
    examples, notes = read(tmp_path, "".join(rows), "cola.tsv")
    assert {example.right for example in examples} == {"0", "1"}
    assert "label is '2'" in notes[0]
    two = [f"{n % 2}\t{n % 3 % 2}\tSentence number {n}.\n" for n in range(40)]
    with pytest.raises(InputError, match=r"no column is plainly the label.*Name it with `label_column`"):
        read(tmp_path, "".join(two), "two.tsv")


def test_columns_of_the_training_data_are_known_again(tmp_path: Path):
    content = "text,body,kind,label\na,b,c,d\n"
    kept = {"text": "body", "label": "kind"}
    examples, notes = read(tmp_path, content, remembered=kept)
    assert examples[0][1:] == ("b", None, "c")
    assert "as in training, text is 'body', label is 'kind'" in notes[0]
    assert read(tmp_path, content, remembered=kept, names={"text": "text"})[0][0][1:] == ("a", None, "c")
    assert read(tmp_path, content, remembered={"text": "other"})[0][0][1:] == ("a", None, "d"), "it is not there"
    assert read(tmp_path, content, remembered={"text": "body", "pair": "other"})[0][0].text == "a", "both or none"
    pairs = "body,text,sentence2\na,b,c\n"
    assert read(tmp_path, pairs, remembered=kept, labelled=False)[0][0][1:] == ("a", None, None), "no pair was learned"
    assert read(tmp_path, "body\na\n", remembered=kept, labelled=False)[0][0].text == "a", "and that is a header"
    found: dict[str, str] = {}
    read(tmp_path, content, on_columns=found.update)
    assert found == {"text": "text", "label": "label"}


def test_numbers_of_columns_count_again_only_where_the_answers_are_there_too(tmp_path: Path):
    rows = "".join(f"{n}\tSentence number {n}.\n" for n in range(20))
    kept = {"text": "1", "label": "2"}
    assert read(tmp_path, rows, "a.tsv", remembered=kept, labelled=False)[0][3].text == "Sentence number 3."
    assert read(tmp_path, rows, "a.tsv", remembered=kept)[0][3][1:] == ("3", None, "Sentence number 3.")
    two = "".join(f"{n % 2}\tSentence number {n}.\n" for n in range(20))
    assert read(tmp_path, two, "a.tsv", remembered={"text": "4", "label": "2"})[0][3].right == "1", "it has no fourth"


def test_labels_are_in_the_same_order_always():
    assert in_order({"10", "9", "1.5"}) == ("1.5", "9", "10")
    assert in_order({"1", "1.0", "01"}) == ("01", "1", "1.0")
    assert in_order({"nan", "1", "0.5"}) == ("0.5", "1", "nan")


def test_a_whole_number_is_one_label_however_a_table_writes_it(tmp_path: Path):
    examples, _ = read(tmp_path, "text,label\na,1\nb,1.0\nc,-0.0\nd,1.50\ne,v1.0\n")
    assert [example.right for example in examples] == ["1", "1", "0", "1.50", "v1.0"]


def test_a_row_may_have_a_column_called_data(tmp_path: Path):
    row = {"text": "good value", "label": "pos", "data": [{"source": "web"}]}
    table = Table(write(tmp_path / "a.jsonl", json.dumps(row) + "\n"), known={"text", "label"})
    assert next(iter(table)).values == row
    with pytest.raises(InputError, match=r"with 1 others in its 'data'.*jq -c '\.data\[\]'"):
        Table(write(tmp_path / "a.jsonl", json.dumps({"n": 1, "data": [row]})), known={"text", "label"})


@pytest.mark.parametrize(
    ("content", "remedy"),
    [
        ('[\n {"text": "x"}\n]\n', r"jq -c '\.\[\]'"),
        ('{\n "n": 1,\n "data": [\n {"text": "x"}\n]}\n', r"jq -c '\.data\[\]'"),
        ('{\n "text": "x",\n "label": "y"\n}\n{\n "text": "x",\n "label": "y"\n}\n', r"jq -c \.\."),
    ],
)
def test_json_that_is_spread_over_lines_has_a_way_to_be_one_a_line(tmp_path: Path, content: str, remedy: str):
    with pytest.raises(InputError, match=rf"one JSON value for all, not a JSON object a line.*Try: {remedy}"):
        Table(write(tmp_path / "a.json", content))
