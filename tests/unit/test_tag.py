"""A tagger: windows of words, what it learns, what it answers."""

from __future__ import annotations

import copy
import json

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bertkit.errors import BertkitError, InputError
from bertkit.infer import Scorer
from bertkit.nn import NO_TAG, Bert, FineTuned
from bertkit.tasks import (
    Tag,
    TagExample,
    batch_of,
    facts_of,
    framed_windows,
    pieces_of_words,
    task_from,
    windows_of_words,
)
from bertkit.text import Tokenizer
from bertkit.train import FitSettings
from bertkit.train.fit import fit
from fitting import begun, term_of

ONE = (TagExample("a, line 1", ("EU", "it"), ("B-ORG", "O")),)


def test_tags_of_a_type_come_together() -> None:
    task = begun(Tag, ONE, max_length=64, crf=True)
    assert task == Tag(tags=("O", "B-ORG", "I-ORG"), max_length=64, scheme="IOB2", crf=True)
    plain = begun(Tag, [TagExample("a", ("a", "b"), ("VB", "NN"))])
    assert (plain.tags, plain.scheme) == (("NN", "VB"), "plain")


def test_facts_are_json_and_come_back() -> None:
    task = begun(Tag, ONE, crf=True)
    assert task_from(Tag, json.loads(json.dumps(facts_of(task)))) == task
    assert task_from(Tag, {"tags": ["O", "B-X"], "max_length": 9}).scheme == "IOB2"
    assert task_from(Tag, {"tags": ["NN", "VB"], "max_length": 9}).scheme == "plain"


def test_a_tag_only_in_dev_is_refused() -> None:
    task = begun(Tag, ONE)
    task.meet([TagExample("dev, line 1", ("a", "b"), ("B-ORG", "I-ORG"))])
    for tag, told in (("B-ORGS", "type 'ORGS'"), ("NN", "tag 'NN'"), ("ORG", "tag 'ORG'")):
        with pytest.raises(
            InputError, match=f"dev, line 7, word 2 of the sentence: the {told}, of 'b', is not"
        ) as raised:
            task.meet([TagExample("dev, line 7", ("a", "b"), ("O", tag))])
        assert ("Did you mean 'ORG'?" in str(raised.value)) == (tag == "B-ORGS")


def test_what_cannot_be_a_tagger_is_refused() -> None:
    with pytest.raises(InputError, match="only one tag"):
        begun(Tag, [TagExample("a", ("a",), ("O",))])
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


def test_with_a_crf_windows_know_the_tags_beside_them_and_a_sentence_is_one_chain(
    tiny: Bert, tokenizer: Tokenizer
) -> None:
    words = tuple("the import statement binds names to values".split() * 3)
    tags = tuple(("O", "B-X", "I-X")[number % 3] for number in range(len(words)))
    example = TagExample("a", words, tags)
    task = begun(Tag, [example], max_length=10, crf=True)
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
    return FineTuned(bert, task.head.shape)


@pytest.mark.parametrize("crf", [False, True])
def test_loss_is_the_same_in_any_layout_and_for_windows_by_themselves(
    tiny: Bert, tokenizer: Tokenizer, crf: bool
) -> None:
    words = ("import", "statement", "binds", "names", "expressions")
    examples = [TagExample("a", words[:n], ("O", "B-X", "I-X", "O", "B-X")[:n]) for n in (5, 1, 3)]
    task = begun(Tag, examples, max_length=6, crf=crf)
    model = new_model(tiny, task).eval()
    units = task.encode(examples, tokenizer).to_learn()
    assert len(units) > len(examples)
    alone = [term_of(task, model, batch_of(task, [unit], packed=True, pad_id=0)) for unit in units]
    expected = torch.stack([term.total for term in alone]).sum()
    for packed in (True, False):
        term = term_of(task, model, batch_of(task, units, packed=packed, pad_id=0))
        assert term.count == len(units)
        torch.testing.assert_close(term.total, expected)
    if crf:  # without scores for neighbours it is nothing else than the cross entropy
        plain = Tag(tags=task.tags, max_length=6)
        model.crf = None
        torch.testing.assert_close(term_of(plain, model, batch_of(task, units, packed=True, pad_id=0)).total, expected)


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
    task = begun(Tag, examples, max_length=8, crf=crf)
    model = new_model(tiny, task)
    scorer = Scorer(model, task, tokenizer)
    units = task.encode(examples, tokenizer).to_learn()
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
    (answer,) = scorer.answer([Tag.read(text, "here")])
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
