from __future__ import annotations

import doctest
import importlib
import os
import random
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertkit.errors import BertkitError, TokenizerError
from bertkit.families import FAMILIES, vocabulary
from bertkit.text import Sample, Tokenizer, draw_sample, more_specials, parts
from bertkit.text.train import train

CHINESE = ["我们喜欢学习自然语言处理。", "注意力机制让模型看到整个句子。", "苹果公司发布了新手机，他吃了一个苹果。"]
EVERY_FAMILY = pytest.mark.parametrize("family", ["bert", "roberta", "modernbert", "gpt2", "albert", "gpt"])


@pytest.fixture(scope="module")
def sample(english: list[str]) -> Sample:
    return draw_sample([*english, *CHINESE * 3], hold_out=False)


def learned(sample: Sample, family: str = "bert", **settings: object) -> Tokenizer:
    return train(sample, vocabulary(family, **{"vocab_size": 1500, **settings})).tokenizer


@pytest.mark.parametrize("module", ["kinds", "sample", "recipe", "train"])
def test_the_examples_in_the_docs_are_true(module):
    found = doctest.testmod(importlib.import_module(f"bertkit.text.{module}"))
    assert found.attempted > 0
    assert found.failed == 0


TRAINING = """
import hashlib, random, sys
from pydoc_data.topics import topics
from bertkit.families import vocabulary
from bertkit.text.sample import draw_sample
from bertkit.text.train import train
lines = [line for text in topics.values() for line in text.splitlines()] + {chinese!r} * 3
random.Random(int(sys.argv[1])).shuffle(lines)
sample = draw_sample(lines)
for family in ("bert", "roberta", "gpt2", "albert", "gpt"):
    recipe = vocabulary(family, vocab_size=1500, words=["widget"], special_tokens=["[ENT]"])
    tokenizer = train(sample, recipe).tokenizer
    print(family, hashlib.sha256(tokenizer.backend.to_str(pretty=True).encode()).hexdigest())
"""


def test_the_same_text_gives_the_same_file_whatever_the_order_and_the_threads():
    outcomes = set()
    for run, threads in enumerate((1, 2, 1, 2, 2)):
        done = subprocess.run(
            [sys.executable, "-c", TRAINING.format(chinese=CHINESE), str(run)],
            env={**os.environ, "RAYON_NUM_THREADS": str(threads), "PYTHONHASHSEED": str(run)},
            capture_output=True,
            text=True,
            check=True,
        )
        outcomes.add(done.stdout)
    assert len(outcomes) == 1
    assert len(outcomes.pop().splitlines()) == 5


@EVERY_FAMILY
def test_the_vocabulary_has_the_size_asked_for_with_the_special_tokens_first(sample, family):
    tokenizer = learned(sample, family, special_tokens=["[ENT]", "[unused0]"], words=["widget", "gizmo"])
    kin = FAMILIES[family].form
    expected = [*dict.fromkeys([*kin.specials.values(), *kin.learned_with.values()]), "[ENT]", "[unused0]"]
    assert tokenizer.vocab_size == len(tokenizer.backend.get_vocab()) == 1500
    assert [tokenizer.token(number) for number in range(len(expected))] == expected
    assert more_specials(tokenizer) == ["[ENT]", "[unused0]"]
    ids = tokenizer.backend.encode("one [ENT]two", add_special_tokens=False).ids
    assert ids.count(tokenizer.backend.token_to_id("[ENT]")) == 1


@pytest.mark.parametrize(
    ("family", "single", "pair"),
    [
        ("bert", "[CLS] a [SEP]", "[CLS] a [SEP] b [SEP]"),
        ("roberta", "<s> a </s>", "<s> a </s> </s> b </s>"),
        ("gpt2", "a", "a b"),
        ("gpt", "a</w>", "a</w> b</w>"),
        ("albert", "[CLS] ▁a [SEP]", "[CLS] ▁a [SEP] ▁b [SEP]"),
    ],
)
def test_each_family_has_its_frame(sample, family, single, pair):
    tokenizer = learned(sample, family)
    assert tokenizer.kind == FAMILIES[family].form.kind
    assert tokenizer.encode("a").tokens == single.split()
    assert tokenizer.encode("a", "b").tokens == pair.split()
    if family == "roberta":
        assert set(tokenizer.encode("a", "b").segments) == {0}
    if family in ("bert", "albert"):
        assert tokenizer.encode("a", "b").segments == [0, 0, 0, 1, 1]


WORDS = ["widget", "widgets", "wid", "Gizmo", "electroencephalography", "electro", "encephalography", "été", "function"]


@EVERY_FAMILY
def test_extra_words_are_one_piece_each_also_when_one_is_in_another(sample, family):
    words = [*WORDS, "苹果", "苹果手机"] if family not in ("bert", "gpt") else WORDS
    tokenizer = learned(sample, family, words=words)
    for word in words:
        for text in (word, f" {word}", f"the {word}"):
            pieces = tokenizer.backend.encode(text, add_special_tokens=False).tokens
            assert len(pieces) == len(text.split()), (text, pieces)


def test_extra_words_leave_the_others_as_they_were(english):
    sample = draw_sample(english[:300], hold_out=False)
    for family in ("roberta", "gpt2", "albert", "gpt"):
        plain, extended = (learned(sample, family, vocab_size=4000, words=words) for words in ([], ["widget", "gizmo"]))
        assert extended.vocab_size > plain.vocab_size, "there was room for all, so nothing had to go"
        for line in english[:600]:
            assert plain.encode(line).tokens == extended.encode(line).tokens


def test_case_is_folded_unless_cased(sample):
    for family in ("bert", "albert"):
        folding, keeping = learned(sample, family), learned(sample, family, lowercase=False)
        assert (folding.lowercase, keeping.lowercase) == (True, False)
        assert folding.encode("CAFÉ").ids == folding.encode("cafe").ids
        assert keeping.encode("The").ids != keeping.encode("the").ids
    assert learned(sample, "roberta").lowercase is False


def test_rare_characters_are_unknown_and_said(english):
    trained = train(draw_sample([*english[:500] * 2, "ℵ ℶℶ"], hold_out=False), vocabulary(vocab_size=900))
    assert any("unknown: 1 (" in note and note.endswith(": ℵ") for note in trained.notes)
    tokenizer = trained.tokenizer
    assert tokenizer.encode("ℵ").ids == [tokenizer.cls_id, tokenizer.unk_id, tokenizer.sep_id]
    assert tokenizer.unk_id not in tokenizer.encode("ℶℶ").ids
    limited = train(draw_sample(english), vocabulary(vocab_size=900, max_alphabet=20))
    assert sum(len(piece) == 1 for piece in limited.tokenizer.backend.get_vocab()) == 20


def test_a_vocabulary_full_of_characters_is_said(sample):
    notes = train(sample, vocabulary(vocab_size=230, min_frequency=3)).notes
    assert any("single characters take" in note for note in notes)


def test_too_little_text_for_the_vocabulary_is_said():
    trained = train(draw_sample(["a few words and a few more words"] * 5, hold_out=False))
    assert trained.tokenizer.vocab_size < 100
    assert any("30528 were asked for" in note for note in trained.notes)


def test_every_text_comes_back_from_bytes(sample):
    tokenizer = learned(sample, "gpt2")

    @settings(max_examples=300, deadline=None)
    @given(st.text(st.characters(exclude_categories=("Cs",))))
    def comes_back(text: str) -> None:
        assert tokenizer.decode(tokenizer.encode(text).ids) == text.replace("<|endoftext|>", "")

    comes_back()


@EVERY_FAMILY
def test_the_digest_tells_tokenizers_apart_and_survives_saving(sample, family, tmp_path):
    tokenizer = learned(sample, family)
    before = tokenizer.sha256()
    tokenizer.save(tmp_path)
    opened = Tokenizer.open(tmp_path)
    assert (opened.form, opened.specials, opened.sha256()) == (tokenizer.form, tokenizer.specials, before)
    opened.backend.encode_special_tokens = True
    assert opened.sha256() == before
    assert learned(sample, family, vocab_size=1499).sha256() != before
    assert learned(sample, family, special_tokens=["[ENT]"]).sha256() != before


def test_a_special_token_that_the_family_lacks_is_named(sample):
    tokenizer = learned(sample, "gpt2")
    assert tokenizer.eos_id == tokenizer.bos_id == 0
    assert tokenizer.filling_id < tokenizer.vocab_size
    with pytest.raises(TokenizerError, match="this byte-level BPE tokenizer has no pad token"):
        _ = tokenizer.pad_id


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"family": "robert"},
            r"no family is called 'robert'\. Did you mean 'roberta'\? There are: bert, roberta, albert",
        ),
        ({"vocab_size": 60}, "vocab_size is 60, and the special tokens, single characters and extra words need"),
        ({"vocab_size": 3}, r"vocab_size is 3, and .* need 5"),
        ({"family": "albert", "vocab_size": 60}, "vocab_size is 60, and"),
        (
            {"family": "roberta", "vocab_size": 260},
            "vocab_size is 260, and the special tokens, the 256 bytes .* need 261",
        ),
        ({"family": "gpt2", "vocab_size": 259, "words": ["gizmo"]}, "vocab_size is 259, too small for 1 extra words"),
        ({"vocab_size": 0}, "vocab_size is 0"),
        ({"min_frequency": 0}, "min_frequency is 0"),
        ({"family": "gpt2", "lowercase": True}, "a byte-level BPE tokenizer keeps case"),
        ({"family": "gpt", "lowercase": False}, "a tokenizer of BPE with ends of words folds case"),
        ({"special_tokens": ["[A]", "[A]"]}, r"'\[A\]' is there twice"),
        ({"special_tokens": ["[MASK]"]}, r"'\[MASK\]' is there twice"),
        ({"special_tokens": [" "]}, "special token ' '"),
        ({"words": ["New York"]}, "extra word 'New York'.*without white space"),
        ({"words": ["C++"]}, r"always cuts it into 'c', '\+', '\+'"),
        ({"words": ["苹果"]}, "always cuts it into '苹', '果'"),
        ({"words": ["\u0301"]}, "cuts it into nothing"),
        ({"words": ["x" * 101]}, r"cannot be made one piece: it is \['\[UNK\]'\]"),
        ({"min_frequency": 10**9}, "no character of the text occurs 1000000000 times"),
    ],
)
def test_what_cannot_be_learned_is_said_in_a_line(sample, settings, message):
    with pytest.raises(BertkitError, match=message):
        train(sample, vocabulary(**settings))


def test_no_text_is_said():
    for texts in ([], [""], ["  \n", "\t"]):
        with pytest.raises(BertkitError, match="no text to learn"):
            train(draw_sample(texts))


@given(st.lists(st.text("ab \n", max_size=12), max_size=60), st.randoms())
def test_the_sample_does_not_depend_on_the_order(texts, draw):
    shuffled = list(texts)
    draw.shuffle(shuffled)
    assert draw_sample(texts) == draw_sample(shuffled)


def test_a_limited_sample_does_not_depend_on_the_order_and_keeps_its_limit():
    draw = random.Random(1)
    texts = [draw.choice("ab") * draw.randint(1, 60_000) for _ in range(200)] + ["again and again " * 500] * 40
    samples = []
    for _ in range(3):
        draw.shuffle(texts)
        samples.append(draw_sample(texts, limit_bytes=2**20))
    assert samples[0] == samples[1] == samples[2]
    held = sum(len(text) for text, _ in samples[0].texts)
    assert 2**19 < held <= 2**20
    assert samples[0].read == 240


def test_texts_that_come_again_are_counted_and_held_once():
    sample = draw_sample(["one", "two", "one", "one"], hold_out=False)
    assert sorted(sample.texts) == [("one", 3), ("two", 1)]


def test_some_texts_are_held_out_and_none_of_them_is_learned_from(english):
    sample = draw_sample(english)
    learned_from, judged_on = ({text for text, _ in some} for some in (sample.texts, sample.held_out))
    assert not learned_from & judged_on
    assert learned_from | judged_on == set(english)
    assert 0.03 < len(judged_on) / len(english) < 0.06
    assert len(draw_sample(english[:50]).held_out) == 5
    assert not draw_sample(english[:9]).held_out


@given(st.text("ab \n"), st.integers(1, 10))
def test_parts_are_short_and_together_the_text(text, limit):
    found = list(parts(text, limit))
    assert "".join(found) == text
    assert all(len(part) <= limit for part in found)


def test_lone_surrogates_do_no_harm():
    tokenizer = train(draw_sample(["one \ud800 two"] * 12, hold_out=False), vocabulary(vocab_size=60)).tokenizer
    assert tokenizer.encode("one").tokens == ["[CLS]", "one", "[SEP]"]
