"""Words with tags out of files: columns, tables, JSON lines, plain text."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path

import pytest

from bertkit.errors import InputError, UsageError
from bertkit.tables import Reading, TagExample, looks_like_columns
from bertkit.tasks import Tag, examples_in

CONLL = "-DOCSTART- -X- O O\n\nEU NNP I-NP I-ORG\nrejects VBZ I-VP O\nBonn NNP I-NP I-LOC\nParis NNP B-NP B-LOC\n"


def written(folder: Path, content: str | bytes, name: str = "data.txt") -> str:
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
    (example,) = read(written(tmp_path, CONLL), names={"word": "1", "tag": "2"})
    assert example.tags == ("NNP", "VBZ", "NNP", "NNP")


def test_white_space_of_other_scripts_can_be_a_word(tmp_path: Path) -> None:
    (example,) = read(written(tmp_path, "　 O\n京 B-LOC\n"))
    assert example.words == ("　", "京")


def test_universal_dependencies(tmp_path: Path) -> None:
    rows = ["# text = vámonos #", "1-2\tvámonos\t_\t_", "1\tvamos\tir\tVERB", "2\tnos\tnosotros\tPRON"]
    (example,) = read(written(tmp_path, "\n".join(rows), "data.conllu"))
    assert example[1:] == (("vamos", "nos"), ("VERB", "PRON"))


def test_a_span_cut_by_the_end_of_a_sentence_begins_again(tmp_path: Path) -> None:
    notes: list[str] = []
    examples = read(written(tmp_path, "张 B-PER\n\n万 I-PER\n年 I-PER\n迟 B-PER\n"), notes)
    assert [example.tags for example in examples] == [("B-PER",), ("B-PER", "I-PER", "B-PER")]
    assert "1 sentences end within a span" in notes[0]
    with pytest.raises(InputError, match="line 3: the tag 'I-LOC' at the start of a sentence"):
        read(written(tmp_path, "张 B-PER\n\n万 I-LOC\n"))


@pytest.mark.parametrize(("words", "tags"), [("words", "tags"), ("tokens", "ner_tags"), ("tokens", "labels")])
def test_json_lines(tmp_path: Path, words: str, tags: str) -> None:
    row = json.dumps({words: ["New", "York"], tags: ["B-LOC", "E-LOC"]})
    (example,) = read(written(tmp_path, row, "data.jsonl"))
    assert example[1:] == (("New", "York"), ("B-LOC", "I-LOC"))


def test_text_with_spaces_in_a_table(tmp_path: Path) -> None:
    path = written(tmp_path, "words,tags\nNew York,B-LOC I-LOC\n", "data.csv")
    assert read(path)[0].tags == ("B-LOC", "I-LOC")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("EU rejects it .\n\n \nPeter\n", [("EU", "rejects", "it", "."), (), (), ("Peter",)]),
        ("我在北京，1998年\n", [tuple("我在北京，1998年")]),
        ("EU\nrejects\n\nPeter\n", [("EU", "rejects"), ("Peter",)]),
        ("EU X O\nit Y O\n\nPeter Z B-PER\n", [("EU", "it"), ("Peter",)]),
        ("当\n京\n\n北\n", [("当", "京"), ("北",)]),
        ("当希望工程救助的百万儿童\n当希望工程\n\n当希望工程救助\n", None),
    ],
)
def test_without_tags_a_line_is_a_sentence_or_a_word(
    tmp_path: Path, content: str, words: list[tuple[str, ...]] | None
) -> None:
    found = [example.words for example in read(written(tmp_path, content), labelled=False)]
    assert found == (words if words is not None else [tuple(line) for line in content.splitlines()])
    assert all(example.tags is None for example in read(written(tmp_path, content), labelled=False))


def test_the_user_says_what_a_line_is(tmp_path: Path) -> None:
    path = written(tmp_path, "a b\n\na b\n")
    assert len(read(path, labelled=False, file_format="conll")[0].words) == 1
    assert len(read(path, labelled=False, file_format="text")[0].words) == 2
    assert not looks_like_columns(["a b", "a b"])


def test_texts_in_json_are_split(tmp_path: Path) -> None:
    path = written(tmp_path, '{"text": "In 北京 now"}\n', "data.jsonl")
    assert read(path, labelled=False)[0].words == ("In", "北", "京", "now")


def test_text_with_a_tag_for_each_character(tmp_path: Path) -> None:
    row = json.dumps({"text": "我爱北京", "tags": ["O", "O", "B-LOC", "I-LOC"]})
    notes: list[str] = []
    (example,) = read(written(tmp_path, row, "data.jsonl"), notes)
    assert example[1:] == (tuple("我爱北京"), ("O", "O", "B-LOC", "I-LOC"))
    assert "the words are in 'text'" in notes[0]
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


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("Text\tO\nis\tO\nlong\tO\n", [("Text", "is", "long")]),
        ("Text\tNN\nis\tVB\n", [("Text", "is")]),
        ("Words\n\nare\nhere\n", [("Words",), ("are", "here")]),
    ],
)
def test_a_word_a_line_with_tabs_is_no_table_and_that_is_said(
    tmp_path: Path, content: str, words: list[tuple[str, ...]]
) -> None:
    notes: list[str] = []
    path = written(tmp_path, content, "data.tsv")
    assert [example.words for example in read(path, notes, labelled=False)] == words
    assert "taken for a word a line" in notes[0]
    assert [example.words for example in read(path, notes, labelled=False, file_format="conll")] == words
    assert len(notes) == 1, "who says what it is need not be told"


def test_columns_by_number_are_known_again_where_they_are(tmp_path: Path) -> None:
    path = written(tmp_path, CONLL)
    kept: dict[str, str] = {}
    first = read(path, names={"text": "1", "label": "2"}, on_columns=kept.update)
    assert read(path, remembered=kept) == first
    assert read(written(tmp_path, "EU\nis\n\nhere\n"), remembered={"text": "2"}, labelled=False)[0].words[0] == "EU"


def test_python_values() -> None:
    for value in (["New", "York"], "New  York", {"tokens": ["New", "York"]}, {"text": "New York"}):
        assert Tag.read(value, "input 1") == TagExample("input 1", ("New", "York"))
    for bad in ([], "  ", 3, None, ["New", 1], {"sentense": "New York"}):
        with pytest.raises(InputError, match="input 1"):
            Tag.read(bad, "input 1")


@pytest.mark.parametrize(
    ("content", "name", "message"),
    [
        ("EU B-ORG\nrejects\n", "a.txt", "line 2: 'rejects' has no tag"),
        ("EU\nrejects\n", "a.txt", "line 1: 'EU' has no tag.*separated by spaces or tabs"),
        ("EU N B-ORG\nit O\n", "a.txt", "line 2: 'it O' has 2 columns, and 3 are needed"),
        ("EU\tB-ORG\n\tO\n", "a.txt", r"line 2: '\\tO' has no word"),
        ("EU B-ORG\n\nit O\nBonn I-LOC\n", "a.txt", "line 4: the tag 'I-LOC' after 'O'"),
        ("-DOCSTART- O\n\n", "a.txt", "holds no sentence"),
        ("\n\n", "a.txt", "holds no sentence"),
        ("", "a.txt", "empty"),
        ('{"words": ["EU"], "tags": ["O"]}\n', "a.txt", "line 1: that is JSON.*`file_format=jsonl`"),
        (b"EU O\nB\xffnn O\n", "a.txt", "line 2: byte 0xff at column 2 is not UTF-8"),
        ('{"words": ["EU", "is"], "tags": ["O"]}', "a.jsonl", "line 1: 2 words, .*'is'.*, and 1 tags"),
        ('{"words": [], "tags": []}', "a.jsonl", "line 1: 'words' has no words"),
        ('{"words": ["EU"], "tags": [null]}', "a.jsonl", "line 1, word 1: the label is missing"),
        ('{"words": ["EU", " "], "tags": ["O", "O"]}', "a.jsonl", "line 1: word 2 of 'words' is empty"),
        ('{"words": ["EU", 3], "tags": ["O", "O"]}', "a.jsonl", "line 1: word 2 of 'words' is 3"),
        ('{"words": 3, "tags": []}', "a.jsonl", "line 1: 'words' is 3.*list of words"),
        ('{"words": ["EU"], "tags": {}}', "a.jsonl", "line 1: 'tags' is {}.*list of tags"),
        ('{"wrods": ["EU"], "tags": ["O"]}', "a.jsonl", "no column is called 'words' .*Did you mean 'wrods'"),
        ('{"words": ["EU"]}', "a.jsonl", "no column is called 'tags'"),
        (
            '{"words": ["EU", "a"], "tags": ["B-X", "O"]}\n{"words": ["a", "b"], "tags": ["O", "I-X"]}',
            "a.jsonl",
            "line 2, word 2: the tag 'I-X' after 'O'",
        ),
    ],
)
def test_what_is_wrong_is_named_with_its_place(tmp_path: Path, content: str | bytes, name: str, message: str) -> None:
    path = written(tmp_path, content, name)
    with pytest.raises(InputError, match=message) as caught:
        read(path)
    assert path in str(caught.value)


@pytest.mark.parametrize(
    "row", [("['EU', 'rejects']", "['B-ORG', 'O']"), ('["EU", "rejects"]', "B-ORG O"), ("EU rejects", "[3, 0]")]
)
def test_lists_written_as_text_are_refused(tmp_path: Path, row: tuple[str, str]) -> None:
    cells = ",".join(f'"{cell.replace(chr(34), 2 * chr(34))}"' for cell in row)
    path = written(tmp_path, f"tokens,ner_tags\n{cells}\n", "a.csv")
    with pytest.raises(InputError, match=r"line 2: '(tokens|ner_tags)' is a list written as text"):
        read(path)
    if row[0].startswith("["):
        with pytest.raises(InputError, match="'tokens' is a list written as text"):
            read(path, labelled=False)
    assert read(written(tmp_path, "text\n[Laughter] (1996) ['tis so]\n", "b.csv"), labelled=False)


def test_a_word_a_row_is_not_taken_for_sentences(tmp_path: Path) -> None:
    rows = "".join(f"{n // 5},word{n},{'B-PER' if n % 5 else 'O'}\n" for n in range(40))
    path = written(tmp_path, f"Sentence #,Word,Tag\n{rows}", "kaggle.csv")
    with pytest.raises(InputError, match="each of the 40 records has one word, as if a row were a word"):
        read(path, names={"text": "Word", "label": "Tag"})
    notes: list[str] = []
    assert len(read(path, notes, names={"text": "Word"}, labelled=False)) == 40
    assert "each of the 40 records has one word" in notes[-1]


@pytest.mark.parametrize(("header", "rest"), [("word\tpos", "EU\tNNP"), ("token pos ner", "EU NNP B-ORG")])
def test_a_line_with_names_above_words_is_refused(tmp_path: Path, header: str, rest: str) -> None:
    with pytest.raises(InputError, match=r"line 1: '\w+' and '\w+' seem to be names of columns\. Remove the line"):
        read(written(tmp_path, f"{header}\n{rest}\n\n{rest}\n"))
    assert len(read(written(tmp_path, "word pos\nEU neg\n\nbad pos\n"))) == 2, "where it stands again it is a tag"


def test_spans_without_a_last_word_are_counted(tmp_path: Path) -> None:
    notes: list[str] = []
    (example,) = read(written(tmp_path, "Ann B-PER\nmet O\nBob B-PER\nBy E-PER\n"), notes)
    assert example.tags == ("B-PER", "O", "B-PER", "I-PER")
    assert any("1 span has no last word" in note for note in notes)


def test_columns_without_names_are_numbered(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="give a number"):
        read(written(tmp_path, CONLL), names={"tag": "ner"})
    with pytest.raises(InputError, match=r"no column 'ner'.*There are: 'words'"):
        read(written(tmp_path, '{"words": ["a"], "tags": ["O"]}', "a.jsonl"), names={"tag": "ner"})
