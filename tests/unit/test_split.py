"""What is held out where there is no dev file: labels by their share, and every label stays in training."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertkit.errors import InputError, UsageError
from bertkit.tables import TextExample, in_both
from bertkit.tables.split import split
from bertkit.tasks import Classify, Qa, QaExample, Regress
from bertkit.train import FinetuneRequest, read_examples

ONE_LABEL, SEVERAL_LABELS = (Classify(classes=("a", "b"), multi_label=several) for several in (False, True))


def content(example: Any) -> Any:
    return ONE_LABEL.ties(example).content


def kinds_of(example: TextExample) -> Any:
    return ONE_LABEL.ties(example).labels


def test_texts_that_differ_in_case_and_white_space_alone_are_the_same():
    train, dev = [TextExample("1", "Good value")], [TextExample("2", "good  value "), TextExample("3", "good values")]
    assert in_both(train, dev, content) == 1
    assert in_both(train, [TextExample("4", "good value", "a pair")], content) == 0
    questions = [QaExample(str(n), str(n), f"who {n}?", f"Passage {n // 2} tells.{' ' * (n % 2)}") for n in range(40)]
    train, dev = split(questions, 0.1, 0, family=lambda each: Qa().ties(each).family)
    assert not {each.context.strip() for each in train} & {each.context.strip() for each in dev}


def test_a_pair_and_its_mirror_are_the_same(tmp_path: Path):
    there, back = TextExample("1", "Good value", "It fell apart"), TextExample("2", "it fell apart", "good  value")
    assert in_both([there], [back], content) == in_both([there], [back], lambda each: Regress().ties(each).content) == 1
    assert in_both([there], [back._replace(pair="it fell apart")], content) == 0
    table = tmp_path / "pairs.tsv"
    pairs = [(f"a text {n}", f"another {n}", n % 5) for n in range(50)]
    rows = [f"{a}\t{b}\t{score}\n{b}\t{a}\t{score}\n" for a, b, score in pairs]
    table.write_text("sentence1\tsentence2\tscore\n" + "".join(rows))
    for task in ("embed", "regress"):
        notes: list[str] = []
        found = read_examples(FinetuneRequest(task=task, train=str(table), start=""), 64, notes)
        assert len(found.dev) == 10
        assert not {each.text for each in found.train} & {each.text for each in found.dev}
        assert not [note for note in notes if "in the training data too" in note]


def test_families_that_have_an_example_in_common_are_one():
    pairs = ["ab", "bc", "cd", *(letter * 2 for letter in "xyzuvwop")]
    pairs += [pair[::-1] for pair in pairs]
    examples = [TextExample(str(number), *pair) for number, pair in enumerate(pairs)]
    for seed in range(20):
        train, dev = split(examples, 0.2, seed, family=lambda each: each.text, same=content)
        assert not {content(each) for each in train} & {content(each) for each in dev}
        assert not {each.text for each in train} & {each.text for each in dev}


def test_a_split_has_every_label_in_its_share():
    examples = [TextExample(str(n), f"text {n}", None, "rare" if n % 10 == 0 else "often") for n in range(200)]
    train, dev = split(examples, 0.1, 0, kinds=kinds_of)
    assert len(dev) == 20
    assert sum(example.right == "rare" for example in dev) == 2
    assert sorted([*train, *dev], key=lambda e: int(e.place)) == examples
    assert split(examples, 0.1, 0, kinds=kinds_of) == (train, dev)
    assert in_both(train, [*dev, train[0]], content) == 1


def test_a_label_that_is_there_once_stays_in_training():
    examples = [TextExample(str(n), f"text {n}", None, "only" if n == 7 else str(n % 2)) for n in range(40)]
    train, _ = split(examples, 0.2, 3, kinds=kinds_of)
    assert examples[7] in train
    with pytest.raises(InputError, match="every label is there once"):
        split([example._replace(right=example.place) for example in examples], 0.1, 0, kinds=kinds_of)
    many = [TextExample(str(n), "x", None, str(n // 2)) for n in range(60)]
    assert len(split(many, 0.1, 0, kinds=kinds_of)[1]) == 6, "a tenth, however many labels there are"
    with pytest.raises(InputError, match="too few to hold some out"):
        split(examples[:5], 0.1, 0)


def test_families_stay_together():
    examples = [TextExample(str(n), f"text {n}", None, n // 4) for n in range(80)]
    train, dev = split(examples, 0.2, 0, family=lambda example: example.right)
    assert len(dev) == 16
    assert not {example.right for example in train} & {example.right for example in dev}
    with pytest.raises(InputError, match="belong together"):
        split(examples[:20], 0.2, 0, family=lambda _: "one")


@pytest.mark.parametrize("seed", range(8))
def test_a_family_larger_than_the_share_stays_in_training(seed: int):
    families = [0] * 200 + [1 + n // 3 for n in range(33)]
    examples = [TextExample(str(n), f"text {n}", None, family) for n, family in enumerate(families)]
    train, dev = split(examples, 0.1, seed, family=lambda example: example.right)
    assert 21 <= len(dev) <= 23
    assert sum(example.right == 0 for example in train) == 200
    two = [example._replace(right=example.right > 0) for example in examples]
    train, dev = split(two, 0.1, seed, family=lambda example: example.right)
    assert (len(train), len(dev)) == (200, 33), "the smaller one, where there is room for none"
    train, dev = split(examples[200:], 0.99, seed, family=lambda example: example.right)
    assert (len(train), len(dev)) == (3, 30), "one is always left to learn from"


@pytest.mark.parametrize("kinds", [None, kinds_of])
def test_examples_of_one_content_stay_together(kinds: Any):
    alike = [TextExample(str(n), f"text {n // 3}", None, str(n // 6 % 2)) for n in range(120)]
    train, dev = split(alike, 0.2, 0, kinds=kinds, same=content)
    assert len(dev) == 24
    assert in_both(train, dev, content) == 0
    assert in_both(*split(alike, 0.2, 0, kinds=kinds), content) > 0, "what it would be without"
    assert sorted([*train, *dev], key=lambda example: int(example.place)) == alike
    different = [example._replace(text=example.place) for example in alike]
    kept = split(different, 0.2, 0, kinds=kinds, same=content)
    assert kept == split(different, 0.2, 0, kinds=kinds)
    often = [*alike[::3], *(alike[0]._replace(place=str(n)) for n in range(200, 260))]
    for seed in range(5):
        train, dev = split(often, 0.2, seed, kinds=kinds, same=content)
        assert 6 <= len(dev) <= 12, "the text that is there sixty times is learned from"
    with pytest.raises(InputError, match="all examples are the same"):
        split([alike[0]] * 20, 0.2, 0, kinds=kinds, same=content)


def test_a_label_that_has_one_text_stays_in_training():
    examples = [TextExample(str(n), f"text {n}", None, str(n % 2)) for n in range(40)]
    examples += [TextExample(str(n), "another text", None, "2") for n in range(40, 43)]
    for seed in range(5):
        train, dev = split(examples, 0.2, seed, kinds=kinds_of, same=content)
        assert [example.right for example in train].count("2") == 3
        assert 7 <= len(dev) <= 8
    alike = [example._replace(text=example.right) for example in examples]
    train, dev = split(alike, 0.2, 0, kinds=kinds_of, same=content)
    assert dev, "a text for each label: on both sides, rather than no dev set"
    assert {example.right for example in train} == {"0", "1", "2"}


@given(st.lists(st.sets(st.sampled_from("abcdefgh"), max_size=4), min_size=10, max_size=60), st.integers(0, 3))
def test_no_label_is_held_out_whole(labels: list[set[str]], seed: int):
    examples = [TextExample(str(n), "x", None, tuple(sorted(its))) for n, its in enumerate(labels)]
    often = Counter(label for its in labels for label in its or {""})
    if not any(all(often[label] > 1 for label in its or {""}) for its in labels):
        with pytest.raises(InputError, match="the training data: every"):
            split(examples, 0.1, seed, kinds=lambda each: SEVERAL_LABELS.ties(each).labels or ())
        return
    train, dev = split(examples, 0.1, seed, kinds=lambda each: SEVERAL_LABELS.ties(each).labels or ())
    assert dev
    assert {label for example in train for label in example.right} == set().union(*labels)
    assert sorted([*train, *dev], key=lambda example: int(example.place)) == examples


def test_several_labels_have_about_their_share_each():
    names = [f"label {number}" for number in range(12)]
    examples = [TextExample(str(n), "x", None, its) for n, its in enumerate(combinations(names, 4))]
    _, dev = split(examples, 0.1, 0, kinds=lambda each: SEVERAL_LABELS.ties(each).labels or ())
    assert 45 <= len(dev) <= 55
    there = Counter(label for example in dev for label in example.right)
    assert all(abs(there[name] - 16.5) <= 5 for name in names), "each is in a third of 495"


def held_out(folder: Path, rows: list[str], twice: int = 0, **options: bool) -> list[str]:
    """The first texts may be there twice."""
    train = folder / "train.csv"
    texts = [f"text {n % twice if n < 2 * twice else n}" for n in range(len(rows))]
    train.write_text("text,label\n" + "".join(f"{text},{row}\n" for text, row in zip(texts, rows, strict=True)))
    notes: list[str] = []
    read_examples(FinetuneRequest(task="classify", train=str(train), start="", options=options), 64, notes)
    return [note for note in notes if "held out" in note]


def test_the_note_says_how_it_was_split(tmp_path: Path):
    (one,) = held_out(tmp_path, ["a", "b"] * 20)
    assert one.endswith("4 of 40 examples are held out, each label with its share")
    (rare,) = held_out(tmp_path, [f"c{n // 2}" for n in range(40)])
    assert rare.endswith("4 of 40 examples are held out, labels by their share: 16 of 20 are too rare to have one")
    (twice,) = held_out(tmp_path, ["a", "b"] * 20, twice=4)
    assert twice.endswith("its share, what is there twice on one side")
    (several,) = held_out(tmp_path, ["a|b", "b|c", "a", "c"] * 20, multi_label=True)
    assert several.endswith("examples are held out, each label with about its share")


def test_the_note_does_not_promise_shares_that_equal_texts_forbid(tmp_path: Path):
    train = tmp_path / "train.csv"

    def noted(*rows: str) -> str:
        train.write_text("text,label\n" + "\n".join(rows) + "\n")
        notes: list[str] = []
        read_examples(FinetuneRequest(task="classify", train=str(train), start=""), 64, notes)
        return next(note for note in notes if "held out" in note)

    ham = [f"hello {n},ham" for n in range(120)]
    told = noted(*["buy now,spam"] * 60, *(f"offer {n},spam" for n in range(20)), *ham)
    assert told.endswith("held out, labels by their share: of 'spam' only 2 of 80, what is there twice on one side")
    told = noted(*["buy now,spam"] * 60, "odd,rare", *ham)
    assert told.endswith(": 1 of 3 are too rare to have one; of 'spam' none of 60, what is there twice on one side")


def test_sets_of_labels_that_all_differ_can_be_split(tmp_path: Path):
    rows = [f"b|u{n % 13}|v{n % 7}" for n in range(40)]
    (note,) = held_out(tmp_path, rows, multi_label=True)
    assert "of 40 examples are held out" in note


@pytest.mark.parametrize(
    ("rows", "several", "told"),
    [
        (["a", "b"], False, "2 examples are too few to hold some out"),
        ([f"c{n}" for n in range(20)], False, "every label is there once, so there is nothing to learn"),
        ([f"b|c{n}" for n in range(20)], True, "every example has a label that no other has"),
    ],
)
def test_what_cannot_be_split_is_told_with_its_file(tmp_path: Path, rows: list[str], several: bool, told: str):
    with pytest.raises(InputError, match=f"train.csv: {told}"):
        held_out(tmp_path, rows, multi_label=several)


@pytest.mark.parametrize("seed", [-1, 2**32 - 1])
def test_a_seed_that_no_generator_takes_is_refused(seed: int):
    with pytest.raises(UsageError, match=f"a seed of {seed}. Give one from 0 to 4,294,967,294"):
        FinetuneRequest(task="classify", train="", start="", seed=seed)
