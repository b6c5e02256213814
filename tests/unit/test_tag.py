"""Tagging words: every scheme and every file people have, no word lost, scores as seqeval counts them."""

from __future__ import annotations

import copy
import gzip
import io
import itertools
import json
from collections.abc import Iterable
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from seqeval.metrics import accuracy_score, classification_report, f1_score, precision_score, recall_score
from seqeval.metrics.sequence_labeling import get_entities

from bertkit.errors import BertkitError, InputError, UsageError
from bertkit.inference.scoring import Scorer
from bertkit.model.bert import Bert
from bertkit.model.crf import NO_TAG, Crf
from bertkit.model.fine_tuned import FineTuned
from bertkit.tasks.data.conll import TagExample, looks_like_columns
from bertkit.tasks.schemes import Entity, entities, from_entities, recognise, to_iob2
from bertkit.tasks.tag import Tag
from bertkit.tasks.tag_scores import span_scores, word_scores
from bertkit.tasks.task import Reading
from bertkit.tasks.word_windows import framed_windows, pieces_of_words, windows_of_words
from bertkit.text.tokenizer import Tokenizer
from bertkit.training.fit import FitSettings, fit

CONLL = "-DOCSTART- -X- O O\n\nEU NNP I-NP I-ORG\nrejects VBZ I-VP O\nBonn NNP I-NP I-LOC\nParis NNP B-NP B-LOC\n"
TYPES = st.sampled_from(["PER", "LOC", "A-B"])


@st.composite
def spans(draw: st.DrawFn) -> tuple[list[Entity], int]:
    """Spans of words that do not overlap, and how many words there are."""
    found, place = [], 0
    for type_, gap, length in draw(st.lists(st.tuples(TYPES, st.integers(0, 2), st.integers(1, 3)), max_size=6)):
        found.append(Entity(type_, place + gap, place + gap + length))
        place += gap + length
    return found, place + draw(st.integers(0, 2))


def in_iob1(found: list[Entity], length: int) -> list[str]:
    tags, end_of = ["O"] * length, {}
    for type_, start, stop in found:
        first = "B" if end_of.get(start) == type_ else "I"
        tags[start:stop] = [f"{first}-{type_}", *[f"I-{type_}"] * (stop - start - 1)]
        end_of = {stop: type_}
    return tags


def in_bioes(found: list[Entity], length: int, letters: str) -> list[str]:
    begin, inside, end, single = letters
    tags = ["O"] * length
    for type_, start, stop in found:
        middle = [f"{inside}-{type_}"] * (stop - start - 2)
        whole = [f"{single}-{type_}"] if stop - start == 1 else [f"{begin}-{type_}", *middle, f"{end}-{type_}"]
        tags[start:stop] = whole
    return tags


def somewhere(number: int, word: int) -> str:
    return f"sentence {number}, word {word}"


def written(folder: Path, content: str | bytes, name: str = "data.txt") -> str:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(path)


def read(path: str, notes: list[str] | None = None, **reading) -> list[TagExample]:
    return list(Tag.read(path, Reading(**reading), [] if notes is None else notes))


@given(spans())
@settings(deadline=None)
def test_every_scheme_becomes_the_same_iob2(drawn: tuple[list[Entity], int]) -> None:
    found, length = drawn
    iob2 = from_entities(found, length)
    assert entities(iob2) == found
    assert to_iob2(iob2) == iob2
    assert to_iob2(in_iob1(found, length)) == iob2
    for letters in ("BIES", "BILU", "BMES"):
        assert to_iob2(in_bioes(found, length, letters)) == iob2


@given(spans())
@settings(deadline=None)
def test_schemes_are_recognised(drawn: tuple[list[Entity], int]) -> None:
    found, length = drawn
    assert recognise([from_entities(found, length)], somewhere) == "IOB2"
    assert recognise([in_iob1(found, length)], somewhere) == ("IOB1" if found else "IOB2")
    bioes = in_bioes(found, length, "BIES")
    assert recognise([bioes], somewhere) == ("BIOES" if found else "IOB2")


@given(st.lists(st.sampled_from(["O", "B", "I", *(f"{a}-{b}" for a in "BIES" for b in ("X", "Y"))]), max_size=12))
@settings(deadline=None)
def test_spans_are_those_of_seqeval_whatever_the_tags(tags: list[str]) -> None:
    assert [(type_, start, stop - 1) for type_, start, stop in entities(tags)] == get_entities(tags)


def test_parts_of_speech_are_plain() -> None:
    assert recognise([["NN", "VB"], ["O", "PUNCT"]], somewhere) == "plain"


def test_a_rare_b_tag_does_not_make_iob1_wrong() -> None:
    assert recognise([["I-PER", "O"]] * 100 + [["B-PER", "O"]], somewhere) == "IOB1"


def test_tags_without_a_type_mark_spans_too() -> None:
    assert recognise([["B", "I", "O", "B"]], somewhere) == "IOB2"
    assert recognise([["B", "M", "E", "S"]], somewhere) == "BIOES"
    assert to_iob2(["B", "M", "E", "S"]) == ["B", "I", "I", "B"]


@pytest.mark.parametrize(
    ("tags", "message"),
    [
        (["B-PER", "O", "I-PER"], "word 2: the tag 'I-PER' after 'O', and nothing of its type has begun .*IOB2"),
        (["I-PER", "O", "B-PER"], "word 0: the tag 'I-PER' at the start of a sentence"),
        (["B-PER", "I-LOC"], "word 1: the tag 'I-LOC' after 'B-PER'.*A span begins with 'B-LOC'"),
        (["I-PER", "O", "I-PER", "O", "B-PER"], "word 4: the tag 'B-PER' begins a span, and 2 others .*IOB1"),
        (["S-PER", "E-PER"], "word 1: the tag 'E-PER' after 'S-PER'.*BIOES"),
        (["B-PER", "I-PER", "I_PER"], "word 2: 'I_PER' is no tag of a span"),
    ],
)
def test_what_no_scheme_allows_is_refused(tags: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        recognise([tags], somewhere)


TAGS = st.sampled_from(["O", "B-PER", "I-PER", "B-LOC", "I-LOC"])
PAIRS = st.lists(st.lists(st.tuples(TAGS, TAGS), min_size=1, max_size=8), min_size=1, max_size=5)


@given(PAIRS)
@settings(deadline=None)
def test_equal_seqeval(drawn: list[list[tuple[str, str]]]) -> None:
    truth, said = ([[pair[side] for pair in sentence] for sentence in drawn] for side in (0, 1))
    scores = span_scores(truth, said)
    assert scores["f1"] == f1_score(truth, said, zero_division=0)
    assert scores["precision"] == precision_score(truth, said, zero_division=0)
    assert scores["recall"] == recall_score(truth, said, zero_division=0)
    assert scores["accuracy"] == accuracy_score(truth, said)
    if {name for name in scores if name.startswith("f1_")}:
        report = classification_report(truth, said, output_dict=True, zero_division=0)
        for name in scores:
            if name.startswith("f1_"):
                assert scores[name] == report[name[3:]]["f1-score"]


def test_schemes_that_seqeval_does_not_know_count_too() -> None:
    assert span_scores([["B-PER", "I-PER", "O"]], [["B-PER", "L-PER", "U-LOC"]])["f1"] == pytest.approx(2 / 3)


def test_sentences_without_words_score_nothing() -> None:
    for count in (span_scores, word_scores):
        assert set(count([[]], [[]]).values()) == {0.0}
    assert span_scores([[], ["B-X"]], [[], ["B-X"]])["f1"] == 1.0


def test_plain_tags_count_word_by_word() -> None:
    scores = word_scores([["NN", "VB"], ["NN"]], [["NN", "NN"], ["NN"]])
    assert scores["accuracy"] == scores["f1"] == pytest.approx(2 / 3)
    assert scores["f1_NN"] == pytest.approx(0.8)
    assert scores["f1_macro"] == pytest.approx(0.4)


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
        assert Tag.example(value, "input 1") == TagExample("input 1", ("New", "York"))
    for bad in ([], "  ", 3, None, ["New", 1], {"sentense": "New York"}):
        with pytest.raises(InputError, match="input 1"):
            Tag.example(bad, "input 1")


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
        ('{"words": ["EU"], "tags": ["O"]}\n', "a.txt", "line 1: that is JSON.*--format jsonl"),
        (b"EU O\nB\xffnn O\n", "a.txt", "line 2: byte 0xff at column 2 is not UTF-8"),
        ('{"words": ["EU", "is"], "tags": ["O"]}', "a.jsonl", "line 1: 2 words, .*'is'.*, and 1 tags"),
        ('{"words": [], "tags": []}', "a.jsonl", "line 1: 'words' has no words"),
        ('{"words": ["EU"], "tags": [null]}', "a.jsonl", "line 1, word 1: the label is None"),
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


def test_columns_without_names_are_numbered(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="give a number"):
        read(written(tmp_path, CONLL), names={"tag": "ner"})
    with pytest.raises(InputError, match=r"no column 'ner'.*There are: 'words'"):
        read(written(tmp_path, '{"words": ["a"], "tags": ["O"]}', "a.jsonl"), names={"tag": "ner"})


ONE = (TagExample("a, line 1", ("EU", "it"), ("B-ORG", "O")),)


def test_tags_of_a_type_come_together() -> None:
    task = Tag.for_examples(ONE, max_length=64, crf=True)
    assert task == Tag(tags=("O", "B-ORG", "I-ORG"), max_length=64, scheme="IOB2", crf=True)
    plain = Tag.for_examples([TagExample("a", ("a", "b"), ("VB", "NN"))])
    assert (plain.tags, plain.scheme) == (("NN", "VB"), "plain")


def test_facts_are_json_and_come_back() -> None:
    task = Tag.for_examples(ONE, crf=True)
    assert Tag.from_facts(json.loads(json.dumps(task.facts()))) == task
    assert Tag.from_facts({"tags": ["O", "B-X"], "max_length": 9}).scheme == "IOB2"
    assert Tag.from_facts({"tags": ["NN", "VB"], "max_length": 9}).scheme == "plain"


def test_a_tag_only_in_dev_is_refused() -> None:
    task = Tag.for_examples(ONE)
    task.check([TagExample("dev, line 1", ("a", "b"), ("B-ORG", "I-ORG"))])
    for tag in ("B-ORGS", "NN"):
        with pytest.raises(InputError, match=f"dev, line 7, word 2: the tag '{tag}', of 'b', is not among") as caught:
            task.check([TagExample("dev, line 7", ("a", "b"), ("O", tag))])
        assert ("Did you mean 'B-ORG'?" in str(caught.value)) == (tag == "B-ORGS")


def test_what_cannot_be_a_tagger_is_refused() -> None:
    with pytest.raises(InputError, match="only one tag"):
        Tag.for_examples([TagExample("a", ("a",), ("O",))])
    for wrong in ({"scheme": "IOB3"}, {"max_length": 2}):
        with pytest.raises(BertkitError):
            Tag(tags=("O", "B-X"), **wrong)


@given(st.integers(1, 40), st.data())
@settings(deadline=None)
def test_each_word_is_in_one_core_and_every_window_fits(room: int, data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.integers(1, room), min_size=1, max_size=80))
    found = windows_of_words(sizes, room)
    assert [word for each in found for word in range(each.core_start, each.core_stop)] == list(range(len(sizes)))
    for each in found:
        assert each.start <= each.core_start < each.core_stop <= each.stop
        assert sum(sizes[each.start : each.stop]) <= room


def test_windows_have_context_on_both_sides() -> None:
    middle = windows_of_words([2] * 100, 40)[3]
    assert middle.start < middle.core_start
    assert middle.core_stop < middle.stop


@given(words=st.lists(st.text(max_size=12), min_size=1, max_size=30), max_length=st.integers(3, 20))
@settings(deadline=None)
def test_no_word_is_lost_whatever_it_is(tokenizer: Tokenizer, words: list[str], max_length: int) -> None:
    (pieces,) = pieces_of_words([words], tokenizer)
    assert len(pieces) == len(words)
    found = 0
    for ids, about in framed_windows(pieces, tokenizer, max_length):
        assert len(ids) <= max_length
        assert about.first == found
        for number, place in enumerate(about.own_places, found):
            assert ids[place] == pieces[number][0]
        found += about.own
    assert found == len(words)


def test_a_word_that_is_longer_than_a_window_is_cut_and_that_is_known(tokenizer: Tokenizer) -> None:
    task = Tag(tags=("O", "B-X"), max_length=12)
    cut, whole = task.encode([TagExample("a", ("to", "x1" * 50, "be")), TagExample("b", ("to", "be") * 50)], tokenizer)
    assert not all(each.whole for each in cut)
    assert sum(each.about.own for each in cut) == 3
    assert len(whole) > 1
    assert all(each.whole for each in whole)


def test_odd_words_are_unknown_not_lost(tokenizer: Tokenizer) -> None:
    unknown = [tokenizer.unk_id]
    (pieces,) = pieces_of_words([["import", "\u200b", "", "\x00", "\ud800", "import"]], tokenizer)
    assert pieces[0] == pieces[-1]
    assert pieces[1:-1] == [unknown] * 4


def test_words_are_read_as_the_text_is(tokenizer: Tokenizer, english: list[str]) -> None:
    sentences = [line.split() for line in english[:200]]
    for words, pieces in zip(sentences, pieces_of_words(sentences, tokenizer), strict=True):
        flat = [piece for its in pieces for piece in its]
        assert flat == tokenizer.encode_ids([" ".join(words)])[0][1:-1]


def drawn_crf(tags: int, seed: int) -> Crf:
    torch.manual_seed(seed)
    crf = Crf(tags).double().requires_grad_(False)
    for parameter in crf.parameters():
        torch.nn.init.normal_(parameter)
    return crf


def every_path(crf: Crf, scores: torch.Tensor) -> dict[tuple[int, ...], float]:
    """The score of each sequence of tags."""

    def score(path: tuple[int, ...]) -> float:
        own = sum(float(scores[place, tag]) for place, tag in enumerate(path))
        steps = sum(float(crf.steps[a, b]) for a, b in itertools.pairwise(path))
        return own + steps + float(crf.starts[path[0]]) + float(crf.ends[path[-1]])

    return {path: score(path) for path in itertools.product(range(len(crf.starts)), repeat=len(scores))}


def log_of_sum(values: Iterable[float]) -> torch.Tensor:
    return torch.tensor(list(values), dtype=torch.double).logsumexp(0)


@given(st.integers(1, 4), st.integers(2, 3), st.integers(0, 1000))
@settings(deadline=None, max_examples=25)
def test_loss_equals_enumeration(length: int, tags: int, seed: int) -> None:
    crf = drawn_crf(tags, seed)
    scores = torch.randn(length, tags, dtype=torch.double)
    of_paths = every_path(crf, scores)
    right = tuple(torch.randint(tags, (length,)).tolist())
    padded = torch.cat([scores, torch.randn(3, tags, dtype=torch.double)])[None]
    labels = torch.tensor([[*right, 0, 1, 0]])
    loss = crf.loss(padded, labels, torch.tensor([length]))
    torch.testing.assert_close(loss[0], log_of_sum(of_paths.values()) - of_paths[right])


@given(st.lists(st.integers(0, 4), max_size=5), st.integers(2, 3), st.integers(0, 1000))
@settings(deadline=None, max_examples=40)
def test_the_best_tags_of_many_sequences_at_once_are_those_of_enumeration(
    lengths: list[int], tags: int, seed: int
) -> None:
    crf = drawn_crf(tags, seed)
    sequences = [torch.randn(length, tags, dtype=torch.double) for length in lengths]
    expected = []
    for scores in sequences:
        of_paths = every_path(crf, scores) if len(scores) else {(): 0.0}
        expected.append(list(max(of_paths, key=of_paths.__getitem__)))
    assert crf.best(sequences) == expected


@given(st.lists(st.integers(0, 4), max_size=5), st.integers(2, 3), st.integers(0, 1000))
@settings(deadline=None, max_examples=40)
def test_the_probabilities_of_tags_are_those_of_enumeration(lengths: list[int], tags: int, seed: int) -> None:
    crf = drawn_crf(tags, seed)
    sequences = [3 * torch.randn(length, tags, dtype=torch.double) for length in lengths]
    found = crf.marginals(sequences)
    assert len(found) == len(sequences)
    for scores, chances in zip(sequences, found, strict=True):
        expected = torch.zeros(len(scores), tags, dtype=torch.double)
        of_paths = every_path(crf, scores) if len(scores) else {}
        for path, score in of_paths.items():
            for place, tag in enumerate(path):
                expected[place, tag] += torch.exp(score - log_of_sum(of_paths.values()))
        torch.testing.assert_close(chances, expected, rtol=0, atol=1e-12)


def test_the_probabilities_of_a_long_chain_of_large_scores_add_up() -> None:
    (chances,) = drawn_crf(5, 0).float().marginals([100 * torch.randn(3000, 5)])
    torch.testing.assert_close(chances.sum(1), torch.ones(3000, dtype=torch.double), rtol=0, atol=1e-12)


@given(st.integers(2, 5), st.data())
@settings(deadline=None, max_examples=40)
def test_a_part_is_judged_as_the_whole_chain_judges_it(length: int, data: st.DataObject) -> None:
    """Given the tags on either side, so that training on windows and decoding whole sentences agree."""
    crf = drawn_crf(3, data.draw(st.integers(0, 1000)))
    start = data.draw(st.integers(0, length - 1))
    stop = data.draw(st.integers(start + 1, length))
    scores = torch.randn(length, 3, dtype=torch.double)
    right = tuple(torch.randint(3, (length,)).tolist())
    of_paths = every_path(crf, scores)
    around = right[:start], right[stop:]
    agreeing = [score for path, score in of_paths.items() if (path[:start], path[stop:]) == around]
    beside = torch.tensor([[right[start - 1] if start else NO_TAG, right[stop] if stop < length else NO_TAG]])
    part = slice(start, stop)
    loss = crf.loss(scores[None, part], torch.tensor([right[part]]), torch.tensor([stop - start]), beside)
    torch.testing.assert_close(loss[0], log_of_sum(agreeing) - of_paths[right])


def test_with_a_crf_windows_know_the_tags_beside_them_and_a_sentence_is_one_chain(
    tiny: Bert, tokenizer: Tokenizer
) -> None:
    words = tuple("the import statement binds names to values".split() * 3)
    tags = tuple(("O", "B-X", "I-X")[number % 3] for number in range(len(words)))
    example = TagExample("a", words, tags)
    task = Tag.for_examples([example], max_length=10, crf=True)
    (unit,) = task.encode([example], tokenizer)
    assert len(unit) > 2
    numbers = [NO_TAG, *map(task.tags.index, tags), NO_TAG]
    for each in unit:
        first = each.about.first
        assert each.about.beside == (numbers[first], numbers[first + each.about.own + 1])
    model = new_model(tiny, task).eval()
    for parameter in model.crf.parameters():
        torch.nn.init.normal_(parameter)
    scorer = Scorer(model, task, tokenizer)
    scores = scorer.scores(unit)
    own = torch.cat([its[list(each.about.own_places)] for each, its in zip(unit, scores, strict=True)])
    (best,) = model.crf.best([own])
    assert scorer.answer([example])[0]["tags"] == [task.tags[number] for number in best]


def new_model(tiny: Bert, task: Tag) -> FineTuned:
    torch.manual_seed(0)
    bert = copy.deepcopy(tiny)
    bert.mlm = bert.nsp = bert.pooler = None
    return FineTuned(bert, task.shape)


@pytest.mark.parametrize("crf", [False, True])
def test_loss_is_the_same_in_any_layout_and_for_windows_by_themselves(
    tiny: Bert, tokenizer: Tokenizer, crf: bool
) -> None:
    words = ("import", "statement", "binds", "names", "expressions")
    examples = [TagExample("a", words[:n], ("O", "B-X", "I-X", "O", "B-X")[:n]) for n in (5, 1, 3)]
    task = Tag.for_examples(examples, max_length=6, crf=crf)
    model = new_model(tiny, task).eval()
    units = [unit for features in task.encode(examples, tokenizer) for unit in task.units(features)]
    assert len(units) > len(examples)
    alone = [task.term(model, task.batch([unit], packed=True, pad_id=0)) for unit in units]
    expected = torch.stack([term.total for term in alone]).sum()
    for packed in (True, False):
        term = task.term(model, task.batch(units, packed=packed, pad_id=0))
        assert term.count == len(units)
        torch.testing.assert_close(term.total, expected)
    if crf:  # without scores for neighbours it is nothing else than the cross entropy
        plain = Tag(tags=task.tags, max_length=6)
        model.crf = None
        torch.testing.assert_close(plain.term(model, task.batch(units, packed=True, pad_id=0)).total, expected)


@pytest.mark.parametrize("crf", [False, True])
def test_learns_a_trivial_tagging(tiny: Bert, tokenizer: Tokenizer, crf: bool) -> None:
    tag_of = {"import": "B-KEY", "statement": "I-KEY", "the": "O", "names": "O", "values": "B-END"}
    generator = torch.Generator().manual_seed(3)
    vocabulary = ["import statement", "the", "names", "values"]
    examples = []
    for number in range(64):
        drawn = torch.randint(len(vocabulary), (6,), generator=generator).tolist()
        words = tuple(" ".join(vocabulary[each] for each in drawn).split())
        examples.append(TagExample(f"line {number}", words, tuple(tag_of[word] for word in words)))
    task = Tag.for_examples(examples, max_length=8, crf=crf)
    model = new_model(tiny, task)
    scorer = Scorer(model, task, tokenizer)
    units = [unit for features in task.encode(examples, tokenizer) for unit in task.units(features)]
    steps = FitSettings(epochs=4, batch=8, learning_rate=1e-3)
    fitted = fit(
        model,
        task,
        units,
        lambda: task.metrics(examples, scorer.answer(examples)),
        steps,
        seed=0,
        pad_id=tokenizer.pad_id,
    )
    assert fitted.best.metrics["f1"] > 0.98
    text = "the import statement names values"
    (answer,) = scorer.answer([Tag.example(text, "here")])
    assert answer["words"] == text.split()
    assert answer["tags"] == ["O", "B-KEY", "I-KEY", "O", "B-END"]
    assert answer["entities"] == [
        {"type": "KEY", "start": 1, "end": 3, "text": "import statement"},
        {"type": "END", "start": 4, "end": 5, "text": "values"},
    ]
    assert len(answer["probabilities"]) == 5
    assert all(0.5 < chance <= 1 for chance in answer["probabilities"])


@pytest.mark.parametrize("crf", [False, True])
def test_long_sentences_are_answered_word_for_word(tiny: Bert, tokenizer: Tokenizer, crf: bool) -> None:
    task = Tag(tags=("O", "B-X", "I-X"), max_length=16, crf=crf)
    words = tuple("the import statement binds names to values".split() * 20)
    short = TagExample("b", tuple("我在北京"))
    scorer = Scorer(new_model(tiny, task), task, tokenizer)
    found = scorer.answer([TagExample("a", words), short, TagExample("c", ())])
    assert [len(answer["tags"]) for answer in found] == [len(words), 4, 0]
    assert all(len(answer.get("probabilities", answer["tags"])) == len(answer["tags"]) for answer in found)
    assert all(" " not in entity["text"] for entity in found[1]["entities"])
    json.dumps(found)
