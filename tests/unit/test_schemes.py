"""Tags in every scheme, and their scores."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from seqeval.metrics import accuracy_score, classification_report, f1_score, precision_score, recall_score
from seqeval.metrics.sequence_labeling import get_entities

from bertkit.errors import InputError
from bertkit.tables import Entity, entities, from_entities, recognise, to_iob2
from bertkit.tasks import span_scores, word_scores

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
