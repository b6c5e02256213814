"""An extended vocabulary has the new words as pieces, and changes nothing else."""

from __future__ import annotations

import doctest
import random

import pytest
import tokenizers
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, models, pre_tokenizers

from bertkit.errors import BertkitError, InputError, TokenizerError, UsageError
from bertkit.families import FAMILIES, vocabulary
from bertkit.text import (
    WORDPIECE,
    Extended,
    Sample,
    Tokenizer,
    assemble,
    cut,
    cuts_as_bert_does,
    draw_sample,
    extend,
    extend_vocabulary,
    require_extendable,
    trace,
    train_wordpiece,
    wordpiece,
)
from bertkit.text.train import train

SENTENCES = [
    "The Nephrologist saw glomerulonephritis in both kidneys.",
    "Glomerulonephritis, says the nephrologist, harms a kidney; nephrologists treat it.",
    "肾炎患者的肾脏，需要检查。",
    "Creatinine of 140 µmol was measured, and the value is returned.",
]
PLAIN = "the value of an object is a list of items , and 12 names are returned . 我们学习语言"
TEXT = st.text(
    st.one_of(
        st.sampled_from("abcdefghijklmnopqrstuvwxyz ABC019.,-'[]#"),
        st.sampled_from("肾炎患者我们学习µÉß"),
        st.characters(exclude_categories=("Cs",)),
    ),
    max_size=40,
)
SLOW_FIXTURES = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.filter_too_much]


def domain(times: int = 10) -> Sample:
    """Each sentence with a number of its own, so that texts differ and each word occurs `times` times or more."""
    lines = [f"{sentence} {number}" for number in range(times) for sentence in SENTENCES]
    return draw_sample(lines, hold_out=False)


@pytest.fixture(scope="module")
def extended(tokenizer: Tokenizer) -> Extended:
    return extend_vocabulary(tokenizer, domain(), add=40)


def words_of(tokenizer: Tokenizer, text: str) -> list[str]:
    backend = tokenizer.backend
    return [word for word, _ in backend.pre_tokenizer.pre_tokenize_str(backend.normalizer.normalize_str(text))]


def small(vocabulary: list[str]) -> Tokenizer:
    pieces = [*WORDPIECE.specials.values(), *vocabulary]
    return Tokenizer(assemble(WORDPIECE, wordpiece({piece: n for n, piece in enumerate(pieces)}), lowercase=True))


def test_the_examples_in_the_docs_are_true():
    found = doctest.testmod(extend)
    assert found.attempted > 0
    assert found.failed == 0


def test_the_words_of_the_domain_are_one_token_each(tokenizer, extended):
    for word in ("nephrologist", "glomerulonephritis", "creatinine", "µmol", "肾", "炎"):
        before = tokenizer.encode(word).tokens[1:-1]
        assert len(before) > 1 or before == ["[UNK]"]
        assert word in extended.added
    for word in extended.added:
        assert extended.tokenizer.encode(word).tokens == ["[CLS]", word, "[SEP]"]
    assert extended.tokenizer.encode("NEPHROLOGIST, 肾炎").tokens[1:-1] == ["nephrologist", ",", "肾", "炎"]


def test_new_tokens_are_pieces_and_begin_longer_words(extended):
    ours = extended.tokenizer
    model_vocabulary = ours.backend.get_vocab(with_added_tokens=False)
    assert set(extended.added) <= model_vocabulary.keys()
    added_tokens = {token.content for token in ours.backend.get_added_tokens_decoder().values()}
    assert added_tokens == set(WORDPIECE.specials.values())
    assert ours.encode("glomerulonephritises").tokens[1] == "glomerulonephritis"
    assert cuts_as_bert_does(ours)  # so that preparing a corpus stays fast


def test_every_old_token_keeps_its_id_and_the_new_ones_follow(tokenizer, extended):
    before, after = tokenizer.backend.get_vocab(), extended.tokenizer.backend.get_vocab()
    assert before.items() <= after.items()
    assert [after[word] for word in extended.added] == list(
        range(tokenizer.vocab_size, tokenizer.vocab_size + len(extended.added))
    )
    assert extended.tokenizer.vocab_size == len(after) == len(before) + len(extended.added)
    assert extended.tokenizer.specials == tokenizer.specials


def test_the_old_tokenizer_stays_as_it_was(tokenizer, extended):
    before = tokenizer.sha256()
    again = extend_vocabulary(tokenizer, domain(), add=40)
    assert tokenizer.sha256() == before
    assert again.added == extended.added
    assert again.tokenizer.sha256() == extended.tokenizer.sha256() != before


@settings(max_examples=800, deadline=None, suppress_health_check=SLOW_FIXTURES)
@given(TEXT)
def test_a_text_without_the_new_words_is_cut_as_before(tokenizer, extended, text: str):
    assume(not any(word.startswith(tuple(extended.added)) for word in words_of(tokenizer, text)))
    assert extended.tokenizer.encode(text) == tokenizer.encode(text)


@settings(max_examples=300, deadline=None, suppress_health_check=SLOW_FIXTURES)
@given(st.data())
def test_between_new_words_every_other_word_is_cut_as_before(tokenizer, extended, data):
    plain = st.sampled_from(PLAIN.split())
    words = data.draw(st.lists(st.one_of(plain, st.sampled_from(extended.added)), max_size=12))
    pieces = [[w] if w in extended.added else tokenizer.encode(w).tokens[1:-1] for w in words]
    expected = [piece for some in pieces for piece in some]
    assert extended.tokenizer.encode(" ".join(words)).tokens[1:-1] == expected


def test_real_text_without_the_new_words_is_cut_as_before(tokenizer, extended, english):
    same = [
        line
        for line in english
        if not any(word.startswith(tuple(extended.added)) for word in words_of(tokenizer, line))
    ]
    assert len(same) > len(english) // 2
    assert extended.tokenizer.encode_ids(same) == tokenizer.encode_ids(same)


def test_words_are_ranked_by_the_pieces_they_save_in_all():
    old = small([*"abcdefgh", *(f"##{c}" for c in "abcdefgh")])
    sample = draw_sample(["abcdef"] * 6 + ["gh"] * 20 + ["hg"] * 40, hold_out=False)
    assert extend_vocabulary(old, sample, add=3).added == ["hg", "abcdef", "gh"]  # 40 x 1, 6 x 5, 20 x 1
    assert extend_vocabulary(old, sample, add=1).added == ["hg"]


def test_what_a_chosen_word_saves_already_is_not_counted_again():
    old = small([*"abcdefgh", *(f"##{c}" for c in "abcdefgh")])
    sample = draw_sample(["abcdef"] * 30 + ["abcdefh"] * 20 + ["fgh"] * 15, hold_out=False)
    # By itself abcdefh would save 20 x 6 and fgh 15 x 2; behind abcdef the first saves only 20.
    assert extend_vocabulary(old, sample, add=3).added == ["abcdef", "fgh", "abcdefh"]


def test_rare_words_are_left_out_and_no_more_than_asked_for_are_added(tokenizer):
    few = extend_vocabulary(tokenizer, domain(), add=3)
    assert (len(few.added), few.notes) == (3, [])
    sample = draw_sample(["glomerulonephritis " * 6 + "nephrologist " * 5], hold_out=False)
    all_of_them = extend_vocabulary(tokenizer, sample, add=50, min_count=6)
    assert all_of_them.added == ["glomerulonephritis"]
    assert all_of_them.notes == ["there are no more than 1 words to add; 50 were asked for"]
    assert set(extend_vocabulary(tokenizer, sample, add=50).added) == {"glomerulonephritis", "nephrologist"}


def test_the_order_of_the_texts_does_not_matter(tokenizer, english):
    lines = [*english, *(f"{sentence} {n}" for n in range(9) for sentence in SENTENCES)]
    outcomes = set()
    for seed in range(3):
        random.Random(seed).shuffle(lines)
        outcomes.add(extend_vocabulary(tokenizer, draw_sample(lines), add=200).tokenizer.sha256())
    assert len(outcomes) == 1


def test_few_words_at_a_time_are_counted_like_all_at_once(tokenizer, extended, monkeypatch):
    monkeypatch.setattr(extend, "MOST_CHUNKS", 5)
    assert extend_vocabulary(tokenizer, domain(), add=40).added == extended.added
    monkeypatch.setattr(extend, "MOST_WORDS", 12)
    assert len(extend_vocabulary(tokenizer, domain(), add=40).added) <= 12


def test_a_cased_tokenizer_gets_words_as_they_are_written(english):
    cased = train_wordpiece(english[:2000], vocab_size=2000, lowercase=False)
    new = extend_vocabulary(cased, domain(), add=40)
    assert {"Nephrologist", "nephrologist"} <= set(new.added)
    assert new.tokenizer.encode("Nephrologist").tokens[1:-1] == ["Nephrologist"]


def test_a_word_too_long_for_any_piece_is_not_chosen(tokenizer):
    sample = draw_sample(["ab" * 51 + " nephrologist"] * 9, hold_out=False)
    assert extend_vocabulary(tokenizer, sample, add=9).added == ["nephrologist"]


def test_a_word_with_an_added_token_in_it_is_not_chosen(tokenizer):
    backend = tokenizers.Tokenizer.from_str(tokenizer.backend.to_str())
    backend.add_tokens(["covid"])
    sample = draw_sample(["covidology nephrologist"] * 9, hold_out=False)
    assert extend_vocabulary(Tokenizer(backend), sample, add=9).added == ["nephrologist"]


def test_a_word_that_looks_like_a_continuing_piece_is_not_chosen(tokenizer):
    backend = tokenizers.Tokenizer.from_str(tokenizer.backend.to_str())
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    sample = draw_sample(["##heading nephrologist"] * 9, hold_out=False)
    new = extend_vocabulary(Tokenizer(backend), sample, add=9)
    assert new.added == ["nephrologist"]


def test_no_known_word_of_the_text_becomes_unknown():
    # ##q has no piece of its own: behind "foo", "fooqz" could not be written any more.
    old = small(["fo", "##o", "##oqz", "b", "##a", "##r", "##f"])
    sample = draw_sample(["foo"] * 50 + ["fooqz"] * 2 + ["bar"] * 9, hold_out=False)
    new = extend_vocabulary(old, sample, add=2)
    assert new.added == ["bar"]
    assert new.tokenizer.encode("fooqz").ids == old.encode("fooqz").ids


def test_special_tokens_on_top_of_the_vocabulary_keep_their_ids(tokenizer, tmp_path):
    backend = tokenizers.Tokenizer.from_str(tokenizer.backend.to_str())
    backend.add_special_tokens([AddedToken("[ENT]", special=True, normalized=False)])
    backend.add_tokens(["covid"])
    old = Tokenizer(backend)
    new = extend_vocabulary(old, domain(), add=5)
    new.tokenizer.save(tmp_path)
    text = "the [ENT] of covid covids [ENT]s"
    for opened in (new.tokenizer, Tokenizer.open(tmp_path)):
        assert opened.encode(text) == old.encode(text)
        assert opened.encode(new.added[0]).ids[1:-1] == [old.vocab_size]


def test_a_vocabulary_with_a_hole_keeps_it(tmp_path):
    old = Tokenizer(
        assemble(
            WORDPIECE, wordpiece({**{t: n for n, t in enumerate(WORDPIECE.specials.values())}, "a": 9}), lowercase=True
        )
    )
    new = extend_vocabulary(old, draw_sample(["bc a"] * 9), add=1)
    new.tokenizer.save(tmp_path)
    assert Tokenizer.open(tmp_path).encode("a bc").ids[1:-1] == [9, 10]


def test_an_added_token_that_would_be_found_elsewhere_is_refused(tokenizer):
    backend = tokenizers.Tokenizer.from_str(tokenizer.backend.to_str())
    backend.add_tokens([AddedToken("gizmo", single_word=True)])
    with pytest.raises(TokenizerError, match="'gizmo' was added on top"):
        require_extendable(Tokenizer(backend))


@pytest.mark.parametrize("family", ["roberta", "gpt2", "albert"])
def test_other_families_are_refused(family, english):
    other = train(draw_sample(english[:200]), vocabulary(family, vocab_size=400)).tokenizer
    with pytest.raises(TokenizerError, match=f"only WordPiece.*--family {FAMILIES[family].tokenizer}"):
        extend_vocabulary(other, domain(), add=5)


def test_another_mark_for_continuing_pieces_is_refused():
    vocabulary = {token: n for n, token in enumerate(WORDPIECE.specials.values())}
    backend = assemble(WORDPIECE, models.WordPiece(vocabulary, continuing_subword_prefix="@@"), lowercase=True)
    with pytest.raises(TokenizerError, match="'@@'"):
        extend_vocabulary(Tokenizer(backend), domain(), add=5)


@pytest.mark.parametrize(
    ("error", "settings", "texts", "message"),
    [
        (UsageError, {"add": 0}, ["glomerulonephritis"], "add is 0"),
        (UsageError, {"add": 1, "min_count": 0}, ["glomerulonephritis"], "min_count is 0"),
        (InputError, {"add": 1}, [], "no text"),
        (InputError, {"add": 1}, ["the value of the list"] * 9, "nothing to add"),
    ],
)
def test_what_cannot_be_done_is_said(tokenizer, error: type[BertkitError], settings, texts, message):
    with pytest.raises(error, match=message):
        extend_vocabulary(tokenizer, draw_sample(texts, hold_out=False), **settings)


@settings(max_examples=300, deadline=None, suppress_health_check=SLOW_FIXTURES)
@given(TEXT)
def test_words_are_cut_as_the_library_cuts_them(tokenizer, text: str):
    vocabulary = tokenizer.backend.get_vocab()
    for word in words_of(tokenizer, text):
        expected = [token.value for token in tokenizer.backend.model.tokenize(word)]
        assert (cut(word, vocabulary) or ["[UNK]"]) == expected


@settings(max_examples=500, deadline=None)
@given(st.text("abc", min_size=1, max_size=8), st.sets(st.text("abc", min_size=1, max_size=3), max_size=12))
def test_continuations_are_cut_as_behind_a_beginning(text: str, pieces: set[str]):
    vocabulary = {"x", *(f"##{piece}" for piece in pieces), *pieces}  # nothing that is longer begins with x
    whole = cut("x" + text, vocabulary)
    assert cut(text, vocabulary, continues=True) == whole[1:]


def test_a_token_is_traced_to_the_same_token_or_to_its_pieces():
    old = small(["word", "##s", "##word", "x", ",", "[", "]", "we", "##b"])
    new = small(["##s", "words", "##words", "Word", "Ω", "word", "##Ω", "wexs", "we,x"])
    ids, known = new.backend.get_vocab(), old.backend.get_vocab()
    origins = trace(old, new)
    assert origins.kept == {**{n: n for n in range(5)}, ids["##s"]: known["##s"], ids["word"]: known["word"]}
    assert origins.pieces == {
        ids["words"]: [known["word"], known["##s"]],
        ids["##words"]: [known["##word"], known["##s"]],
        ids["Word"]: [known["word"]],  # as the old tokenizer, which folds case, reads it
        ids["we,x"]: [known["we"], known[","], known["x"]],
    }
    assert origins.unknown == [ids["Ω"], ids["##Ω"], ids["wexs"]]


def test_special_tokens_are_traced_by_their_role():
    names = {"pad": "<p>", "unk": "<u>", "cls": "<c>", "sep": "<s>", "mask": "<m>"}
    pieces = ["word", *names.values()]
    model = wordpiece({piece: n for n, piece in enumerate(pieces)}, unk="<u>")
    new = Tokenizer(assemble(WORDPIECE, model, lowercase=True, specials=names), specials=names)
    old = small(["word"])
    origins = trace(old, new)
    assert origins.kept == {0: old.backend.token_to_id("word"), 1: 0, 2: 1, 3: 2, 4: 3, 5: 4}
    assert (origins.pieces, origins.unknown) == ({}, [])
