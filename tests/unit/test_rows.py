"""Labelled tables: read whatever their form, columns found or named, and every mistake told with its place."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from bertkit.errors import InputError, UsageError
from bertkit.tasks.classify import Classify
from bertkit.tasks.data.rows import Table, looks_like_data
from bertkit.tasks.data.split import in_both, split
from bertkit.tasks.data.texts import TextExample
from bertkit.tasks.regress import Regress
from bertkit.tasks.task import Reading

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
    return list(task.read(write(tmp_path / name, content), Reading(**reading), notes)), notes


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
    assert "--columns" in notes[0]
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
    with pytest.raises(InputError, match="no column is plainly the score"):
        read(tmp_path, "text,name\na,b\nc,d\n", task=Regress)
    with pytest.raises(InputError, match="line 3: the score is '1e300', too large"):
        read(tmp_path, "text,score\na,1\nb,1e300\n", task=Regress)


def test_odd_labels_and_texts_are_said(tmp_path: Path):
    _, notes = read(tmp_path, "text,label\na<br />b,Pos\nb,pos\nc,neg\n")
    assert any("1 texts have HTML in them, such as '<br />'" in note for note in notes)
    assert any("'Pos' and 'pos' differ only in case" in note for note in notes)


def test_one_label_for_all_is_refused_where_there_may_be_several_too():
    all_alike = [TextExample("a.csv, line 2", "x", None, "a")] * 3
    for several in (False, True):
        with pytest.raises(InputError, match=r"a\.csv, line 2: there is only one label in the training data, 'a'"):
            Classify.for_examples(all_alike, multi_label=several)
    Classify.for_examples([*all_alike, TextExample("", "y", None, "")], multi_label=True)


def test_columns_can_be_named(tmp_path: Path):
    content = "a,b,c\nx,y,z\n"
    examples, notes = read(tmp_path, content, names={"text": "b", "label": "c"})
    assert examples[0][1:] == ("y", None, "z")
    assert notes == []


@pytest.mark.parametrize(
    ("content", "reading", "told"),
    [
        ("text,label\na,1\n", {"names": {"text": "txt"}}, ["no column 'txt'", "Did you mean 'text'?"]),
        ("text,label\na,1\n ,0\n", {}, ["a.csv, line 3: 'text' is empty", "Remove"]),
        ("text,label\na,1\nb,0,7\n", {}, ["a.csv, line 3: 3 columns, and the header has 2"]),
        ("text;label\na;1\n", {}, ["one column", "--delimiter semicolon"]),
        ("text,text\na,1\n", {"columns": None}, ["line 1: 2 columns are called 'text'"]),
        ("text,label\n", {}, ["has no rows"]),
        ("one,two\na,b\n", {}, ["no column is plainly the label", "--label"]),
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
        Classify.for_examples(examples)
    assert Classify.for_examples(examples, multi_label=True).classes == ("0", "1")
    lists, _ = read(tmp_path, '{"text": "a", "label": ["x", "y"]}\n{"text": "b", "label": "x"}\n', "a.jsonl")
    with pytest.raises(InputError, match=r"line 1: 2 labels, .* --multi-label"):
        Classify.for_examples(lists)


def test_scores_must_be_numbers(tmp_path: Path):
    for value in ("NaN", "inf", "many", ""):
        with pytest.raises(InputError, match="line 3: the score is"):
            read(tmp_path, f"text,score\na,1.5\nb,{value}\n", task=Regress)


def test_labels_of_any_type(tmp_path: Path):
    lines = [{"text": "a", "label": value} for value in (1, 1.0, "1", True, "yes", 2.5)]
    examples, _ = read(tmp_path, "".join(json.dumps(line) + "\n" for line in lines), "a.jsonl")
    assert [example.right for example in examples] == ["1", "1", "1", "true", "yes", "2.5"]


def test_an_unknown_delimiter_is_refused(tmp_path: Path):
    with pytest.raises(UsageError, match="It can be comma"):
        Table(write(tmp_path / "a.csv", as_csv()), delimiter="colon or so")


def test_a_split_has_every_label_in_its_share():
    examples = [TextExample(str(n), f"text {n}", None, "rare" if n % 10 == 0 else "often") for n in range(200)]
    train, dev = split(examples, 0.1, 0, kind=Classify.kind)
    assert len(dev) == 20
    assert sum(example.right == "rare" for example in dev) == 2
    assert sorted([*train, *dev], key=lambda e: int(e.place)) == examples
    assert split(examples, 0.1, 0, kind=Classify.kind) == (train, dev)
    assert in_both(train, [*dev, train[0]], Classify.content) == 1


def test_a_label_that_is_there_once_stays_in_training():
    examples = [TextExample(str(n), f"text {n}", None, "only" if n == 7 else str(n % 2)) for n in range(40)]
    train, _ = split(examples, 0.2, 3, kind=Classify.kind)
    assert examples[7] in train
    with pytest.raises(InputError, match="every label is there once"):
        split([example._replace(right=example.place) for example in examples], 0.1, 0, kind=Classify.kind)
    many = [TextExample(str(n), "x", None, n // 2) for n in range(60)]
    assert len(split(many, 0.1, 0, kind=Classify.kind)[1]) == 6, "a tenth, however many labels there are"
    with pytest.raises(InputError, match="too few to hold some out"):
        split(examples[:5], 0.1, 0)


def test_families_stay_together():
    examples = [TextExample(str(n), f"text {n}", None, n // 4) for n in range(80)]
    train, dev = split(examples, 0.2, 0, family=lambda example: example.right)
    assert len(dev) == 16
    assert not {example.right for example in train} & {example.right for example in dev}
    with pytest.raises(InputError, match="belong together"):
        split(examples[:20], 0.2, 0, family=lambda _: "one")
