"""Tags in every scheme, and their scores."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from seqeval.metrics import accuracy_score, classification_report, f1_score, precision_score, recall_score
from seqeval.metrics.sequence_labeling import get_entities

from bertkit.tasks import (
    Entity,
    entities,
    from_entities,
    odd_tag,
    recognise,
    span_scores,
    to_iob2,
    unbegun,
    word_scores,
)

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
    assert recognise([from_entities(found, length)]) == "IOB2"
    assert recognise([in_iob1(found, length)]) == ("IOB1" if found else "IOB2")
    bioes = in_bioes(found, length, "BIES")
    assert recognise([bioes]) == ("BIOES" if found else "IOB2")


@given(st.lists(st.sampled_from(["O", "B", "I", *(f"{a}-{b}" for a in "BIES" for b in ("X", "Y"))]), max_size=12))
@settings(deadline=None)
def test_spans_are_those_of_seqeval_whatever_the_tags(tags: list[str]) -> None:
    assert [(type_, start, stop - 1) for type_, start, stop in entities(tags)] == get_entities(tags)


def test_parts_of_speech_are_plain() -> None:
    assert recognise([["NN", "VB"], ["O", "PUNCT"]]) == "plain"


def test_a_rare_b_tag_does_not_make_iob1_wrong() -> None:
    assert recognise([["I-PER", "O"]] * 100 + [["B-PER", "O"]]) == "IOB1"


def test_tags_without_a_type_mark_spans_too() -> None:
    assert recognise([["B", "I", "O", "B"]]) == "IOB2"
    assert recognise([["B", "M", "E", "S"]]) == "BIOES"
    assert to_iob2(["B", "M", "E", "S"]) == ["B", "I", "I", "B"]


@pytest.mark.parametrize(
    ("tags", "words"),
    [
        (["B-PER", "O", "I-PER"], [2]),
        (["I-PER", "O", "B-PER"], [0]),
        (["B-PER", "I-LOC", "I-LOC"], [1]),
        (["S-PER", "E-PER"], [1]),
        (["B-PER", "I-PER", "E-PER"], []),
        (["B-PER", "I-PER"], []),
    ],
)
def test_what_nothing_began_is_found(tags: list[str], words: list[int]) -> None:
    assert unbegun(tags, recognise([tags])) == words


def test_a_tag_of_no_scheme_is_found_among_others() -> None:
    assert odd_tag(["B-PER", "I-PER", "I_PER"]) == 2
    assert odd_tag(["B-PER", "O"]) is None


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
