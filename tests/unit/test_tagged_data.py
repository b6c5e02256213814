"""Words with tags out of files: columns, tables, JSON lines, plain text."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path

import pytest

from bertkit.errors import InputError, UsageError
from bertkit.tables import Reading
from bertkit.tasks import Tag, TagExample, examples_in

CONLL = "-DOCSTART- -X- O O\n\nEU NNP I-NP I-ORG\nrejects VBZ I-VP O\nBonn NNP I-NP I-LOC\nParis NNP B-NP B-LOC\n"


def written(folder: Path, content: str | bytes, name: str = "data.conll") -> str:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(path)


def read(path: str, notes: list[str] | None = None, **reading) -> list[TagExample]:
    return list(examples_in(Tag, path, Reading(**reading), [] if notes is None else notes))


def test_conll_in_iob1_becomes_iob2_and_says_so(tmp_path: Path) -> None:
    notes: list[str] = []
    path = written(tmp_path, CONLL)
    (example,) = read(path, notes)
    assert example == TagExample(
        f"{path}, line 3", ("EU", "rejects", "Bonn", "Paris"), ("B-ORG", "O", "B-LOC", "B-LOC")
    )
    assert "in IOB1" in notes[0]


@pytest.mark.parametrize(
    "content",
    [
        "\ufeff当\tO\r\n京\tB-LOC\r\n\r\n \r\n北\tO\r\n",
        "当 O\n京  B-LOC \n\n\n北 O",
        gzip.compress("当 O\n京 B-LOC\n\n北 O\n\n".encode()),
    ],
    ids=["mark, tabs, CRLF", "spaces, no last line end", "compressed"],
)
def test_columns_in_every_guise(tmp_path: Path, content: str | bytes) -> None:
    examples = read(written(tmp_path, content))
    assert [(each.words, each.tags) for each in examples] == [(("当", "京"), ("O", "B-LOC")), (("北",), ("O",))]


def test_columns_are_chosen_by_number(tmp_path: Path) -> None:
    (example,) = read(written(tmp_path, CONLL), names={"text": "1", "label": "2"})
    assert example.tags == ("NNP", "VBZ", "NNP", "NNP")


def test_white_space_of_other_scripts_can_be_a_word(tmp_path: Path) -> None:
    (example,) = read(written(tmp_path, "　 O\n京 B-LOC\n"))
    assert example.words == ("　", "京")


def test_universal_dependencies(tmp_path: Path) -> None:
    rows = ["# text = vámonos #", "1-2\tvámonos\t_\t_", "1\tvamos\tir\tVERB", "2\tnos\tnosotros\tPRON"]
    (example,) = read(written(tmp_path, "\n".join(rows), "data.conllu"))
    assert example[1:] == (("vamos", "nos"), ("VERB", "PRON"))


def test_what_continues_what_nothing_began_is_told_all_at_once_and_can_be_repaired(tmp_path: Path) -> None:
    path = written(tmp_path, "张 B-PER\n\n万 I-PER\n年 I-PER\n迟 B-PER\n\n a O\n b I-LOC\n")
    with pytest.raises(InputError) as told:
        read(path)
    assert "2 rows cannot be used (line 3: the tag 'I-PER' continues what nothing began" in str(told.value)
    assert "line 7: the tag 'I-LOC'" in str(told.value)
    assert "`repair_tags=True`" in str(told.value)
    assert "`bad_rows=skip`" in str(told.value)
    notes: list[str] = []
    examples = read(path, notes, repair_tags=True)
    assert [example.tags for example in examples] == [("B-PER",), ("B-PER", "I-PER", "B-PER"), ("O", "B-LOC")]
    assert f"{path}: 2 tags that continued what nothing began, begin a span" in notes
    assert [example.words for example in read(path, bad_rows="skip")] == [("张",)]


def test_tags_that_differ_in_case_only_are_told_and_can_be_joined(tmp_path: Path) -> None:
    path = written(tmp_path, "a B-PER\nb B-PER\n\nc B-per\n")
    notes: list[str] = []
    assert read(path, notes)[1].tags == ("B-per",)
    assert any(
        "'B-PER' and 'B-per' differ in case or space only, and count as different tags" in note for note in notes
    )
    assert read(path, fold_labels=True)[1].tags == ("B-PER",)


@pytest.mark.parametrize(("words", "tags"), [("words", "tags"), ("tokens", "ner_tags"), ("tokens", "labels")])
def test_json_lines(tmp_path: Path, words: str, tags: str) -> None:
    row = json.dumps({words: ["New", "York"], tags: ["B-LOC", "E-LOC"]})
    (example,) = read(written(tmp_path, row, "data.jsonl"))
    assert example[1:] == (("New", "York"), ("B-LOC", "I-LOC"))


def test_text_with_spaces_in_a_table(tmp_path: Path) -> None:
    path = written(tmp_path, "words,tags\nNew York,B-LOC I-LOC\n", "data.csv")
    assert read(path)[0].tags == ("B-LOC", "I-LOC")


def test_without_tags_plain_text_has_a_sentence_a_line_and_columns_a_word_a_line(tmp_path: Path) -> None:
    notes: list[str] = []
    sentences = written(tmp_path, "EU rejects it .\n\n我在北京\n", "a.txt")
    assert [each.words for each in read(sentences, notes, labelled=False)] == [
        ("EU", "rejects", "it", "."),
        tuple("我在北京"),
    ]
    assert notes[-1].endswith("1 blank row is passed over")
    columns = written(tmp_path, "EU X\nit\n\nPeter Z B-PER\n")
    found = read(columns, labelled=False)
    assert [(each.words, each.tags) for each in found] == [(("EU", "it"), None), (("Peter",), None)]
    assert read(columns, labelled=False, file_format="text")[0].words == ("EU", "X")


@pytest.mark.parametrize("name", ["weibo.conll.train", "weibo_2nd_conll.train", "train"])
def test_what_its_name_says_not_is_read_as_columns_and_that_is_said(tmp_path: Path, name: str) -> None:
    notes: list[str] = []
    assert read(written(tmp_path, "EU B-ORG\n", name), notes)[0].tags == ("B-ORG",)
    assert any("read as conll" in note for note in notes) == (".conll" not in name)


def test_texts_in_json_are_split(tmp_path: Path) -> None:
    path = written(tmp_path, '{"text": "In 北京 now"}\n', "data.jsonl")
    assert read(path, labelled=False)[0].words == ("In", "北", "京", "now")


def test_text_with_a_tag_for_each_character(tmp_path: Path) -> None:
    row = json.dumps({"text": "我爱北京", "tags": ["O", "O", "B-LOC", "I-LOC"]})
    notes: list[str] = []
    (example,) = read(written(tmp_path, row, "data.jsonl"), notes)
    assert example[1:] == (tuple("我爱北京"), ("O", "O", "B-LOC", "I-LOC"))
    assert "words is 'text'" in notes[0]
    by_words = json.dumps({"text": "我 爱 北京", "tags": ["O", "O", "B-LOC"]})
    assert read(written(tmp_path, by_words, "data.jsonl"))[0].words == ("我", "爱", "北京")
    with pytest.raises(InputError, match=r"1 words, .* and 2 tags"):
        read(written(tmp_path, row.replace('"O", "O", ', ""), "data.jsonl"))


@pytest.mark.parametrize("name", ["data.tsv", "data.tab", "data.csv"])
def test_a_table_of_sentences_is_read_by_its_names(tmp_path: Path, name: str) -> None:
    between = "," if name == "data.csv" else "\t"
    path = written(tmp_path, "id,text\n1,EU rejects it\n2,EU is\n".replace(",", between), name)
    assert [example.words for example in read(path, labelled=False)] == [("EU", "rejects", "it"), ("EU", "is")]
    path = written(tmp_path, "words,tags\nNew York,B-LOC I-LOC\n".replace(",", between), name)
    assert read(path)[0][1:] == (("New", "York"), ("B-LOC", "I-LOC"))
    path = written(tmp_path, "a,body\n1,EU\n".replace(",", between), name)
    assert read(path, labelled=False, names={"text": "body"})[0].words == ("EU",)
    assert read(path, labelled=False, remembered={"text": "body"})[0].words == ("EU",)


def test_a_table_of_sentences_may_come_on_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"id\ttext\n1\tEU rejects it\n")))
    assert read("-", labelled=False, file_format="tsv")[0].words == ("EU", "rejects", "it")


def test_columns_by_number_are_known_again(tmp_path: Path) -> None:
    path = written(tmp_path, CONLL)
    kept: dict[str, str] = {}
    first = read(path, names={"text": "1", "label": "2"}, on_columns=kept.update)
    assert read(path, remembered=kept) == first


def test_python_values() -> None:
    for value in (["New", "York"], "New  York", {"tokens": ["New", "York"]}, {"text": "New York"}):
        assert Tag.read(value, "input 1") == TagExample("input 1", ("New", "York"))
    for bad in ([], "  ", 3, None, ["New", 1], {"sentense": "New York"}):
        with pytest.raises(InputError, match="input 1"):
            Tag.read(bad, "input 1")


@pytest.mark.parametrize(
    ("content", "name", "message"),
    [
        ("EU B-ORG\nrejects\n", "a.conll", "line 2: a word, 'rejects', without a tag.*a word first and its tag last"),
        ("EU\nrejects\n", "a.conll", "line 1: a word, 'EU', without a tag"),
        ("EU N B-ORG\nit O\n", "a.conll", "line 2: a word, 'it O', without a tag"),
        ("EU\tB-ORG\n\tO\n", "a.conll", "line 2: a word"),
        ("EU B-ORG\nand I_ORG\nit I-ORG\n", "a.conll", "line 1: the tag 'I_ORG' is none of a span"),
        ("-DOCSTART- O\n\n", "a.conll", "has no rows"),
        ("\n\n", "a.conll", "has no rows"),
        ("", "a.conll", "empty"),
        (b"EU O\nB\xffnn O\n", "a.conll", "line 2"),
        ('{"words": ["EU", "is"], "tags": ["O"]}', "a.jsonl", "line 1: 2 words, .*'is'.*, and 1 tags"),
        ('{"words": [], "tags": []}', "a.jsonl", "line 1: there are no words"),
        ('{"words": ["EU"], "tags": [null]}', "a.jsonl", "line 1: the label is missing"),
        ('{"words": ["EU", " "], "tags": ["O", "O"]}', "a.jsonl", "line 1: word 2 is empty"),
        ('{"words": ["EU", 3], "tags": ["O", "O"]}', "a.jsonl", "line 1: word 2 is 3"),
        ('{"words": 3, "tags": []}', "a.jsonl", "line 1: the words are 3.*list of words"),
        ('{"words": ["EU"], "tags": {}}', "a.jsonl", "line 1: the tags are {}.*list of tags"),
        ('{"wrods": ["EU"], "tags": ["O"]}', "a.jsonl", "no column is plainly the words.*Did you mean 'wrods'"),
        ('{"words": ["EU"]}', "a.jsonl", "no column is plainly the tags.*`label_column`"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(tmp_path: Path, content: str | bytes, name: str, message: str) -> None:
    path = written(tmp_path, content, name)
    with pytest.raises(InputError, match=message) as caught:
        read(path)
    assert path in str(caught.value)


def test_columns_without_names_are_numbered(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="give a number"):
        read(written(tmp_path, CONLL), names={"label": "ner"})
    with pytest.raises(InputError, match=r"no column 'ner'.*There are: 'words'"):
        read(written(tmp_path, '{"words": ["a"], "tags": ["O"]}', "a.jsonl"), names={"label": "ner"})
