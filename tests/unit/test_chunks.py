"""Encoding by chunks gives the tokenizer's own ids, only sooner; Chinese words are where the segmenter says."""

from __future__ import annotations

import re

import pytest
import rjieba
from hypothesis import given, settings
from hypothesis import strategies as st

from bertkit.corpus import DocumentEncoder, slices
from bertkit.families import vocabulary
from bertkit.text import (
    HAN,
    ChunkTable,
    Tokenizer,
    chunks,
    cuts_as_bert_does,
    draw_sample,
    han_word_starts,
    train_wordpiece,
)
from bertkit.text.train import train

ODD = "ÉÅßΣςİŉǅﬁ①½؛،؟۔।፡᠆‐–—―‘’“”…‹›※⁂〜・「」『』【】《》、。！，：；？～￥　\u0301\u200d\u200c\U0001f468丽𠀀豈가각าंক"
TEXT = st.text(
    st.one_of(
        st.sampled_from("abcXYZ019 ,.'\"-()[]{}_@#$%^&*+=|\\/<>~`!?:;\n"),
        st.sampled_from(ODD),
        st.sampled_from("我们学习自然语言处理苹果手机"),
        st.characters(blacklist_categories=["Cs", "Cc"]),
    ),
    max_size=60,
)


@pytest.fixture(scope="module", params=["uncased", "cased", "han together"])
def bert(request, english: list[str]) -> Tokenizer:
    texts = [*english[:2000], ODD * 2, "我们喜欢学习自然语言处理" * 2]
    trained = train_wordpiece(texts, lowercase=request.param != "cased")
    if request.param == "han together":
        normalizer = trained.backend.normalizer
        normalizer.handle_chinese_chars = False
        trained.backend.normalizer = normalizer
    trained.backend.encode_special_tokens = True
    return trained


def library_ids(tokenizer: Tokenizer, text: str) -> list[int]:
    return tokenizer.backend.encode(text, add_special_tokens=False).ids


@settings(max_examples=1500, deadline=None)
@given(TEXT)
def test_ids_are_those_of_the_tokenizer(bert: Tokenizer, text: str):
    table = ChunkTable(bert)
    tokens, starts = table.tokens(table.number(text.replace("\n", " ")))
    assert tokens.tolist() == library_ids(bert, text.replace("\n", " "))
    assert starts.tolist() == [not bert.token(token).startswith("##") for token in tokens.tolist()]


def test_ids_of_real_text_are_those_of_the_tokenizer(bert: Tokenizer, english: list[str]):
    table = ChunkTable(bert)
    for start in range(0, len(english), 100):
        text = " ".join(english[start : start + 100])
        assert table.tokens(table.number(text))[0].tolist() == library_ids(bert, text)


def test_words_about_masks_are_no_masks(tokenizer: Tokenizer):
    encoder = DocumentEncoder(tokenizer, segment_chinese=False)
    tokens = encoder.encode("A [MASK] hides a word. [SEP]\x1d").tokens.tolist()
    assert tokenizer.mask_id not in tokens
    assert tokenizer.sep_id not in tokens
    tokenizer.backend.encode_special_tokens = False


def test_a_full_table_starts_anew_and_answers_the_same(bert: Tokenizer, english: list[str], monkeypatch):
    monkeypatch.setattr(chunks, "MOST_CHUNKS", 50)
    table = ChunkTable(bert)
    for line in english[:300]:
        assert table.tokens(table.number(line))[0].tolist() == library_ids(bert, line)
        assert len(table._numbers) < 50 + 200


def test_tokenizers_of_another_build_are_not_cut(bert: Tokenizer):
    from tokenizers import pre_tokenizers

    assert cuts_as_bert_does(bert)
    other = Tokenizer(type(bert.backend).from_str(bert.backend.to_str()))
    other.backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    assert not cuts_as_bert_does(other)


@given(st.text(st.sampled_from("ab \x1d\n\x1e中"), max_size=200), st.integers(1, 9))
def test_slices_are_the_text(text: str, size: int):
    from bertkit.corpus import digest

    before, digest.SLICE = digest.SLICE, size
    try:
        pieces = list(slices(text))
    finally:
        digest.SLICE = before
    assert "".join(pieces) == text
    assert all(len(piece) <= size for piece in pieces)


def test_boundaries_are_counted_at_each_level(tokenizer: Tokenizer):
    encoder = DocumentEncoder(tokenizer, segment_chinese=False)
    one, two = (len(library_ids(tokenizer, text)) for text in ("The file is closed.", "It was open."))
    found = encoder.encode("The file is closed.\x1eIt was open.\nIt was open.\x1d\x1dIt was open.\x1d")
    assert found.sentence_tokens.tolist() == [one, two, two, two]
    assert found.line_sentences.tolist() == [2, 1, 0, 1]
    assert found.document_lines.tolist() == [2, 1, 1]
    assert found.document_tokens.tolist() == [one + 2 * two, 0, two]
    assert len(found.tokens) == len(found.word_starts) == one + 3 * two


def test_chinese_words_start_where_the_segmenter_says():
    assert han_word_starts("我们学习语言").tolist() == [True, False, True, False, True, False]
    assert han_word_starts("no Chinese here").tolist() == []
    assert han_word_starts("买T恤。\x1e我们 a b 学习\x1d").tolist() == [True, False, True, False, True, False]


@settings(max_examples=300)
@given(st.text(st.sampled_from("我们学习自然语言处理苹果手机。，a1 \n\x1e\x1dT恤𠀀豈"), max_size=80))
def test_each_chinese_character_has_its_answer(text: str):
    """As many answers as characters, and each stretch of Chinese falls into the segmenter's words for its sentence."""
    starts = iter(han_word_starts(text).tolist())
    for sentence in re.split("[\n\x1e\x1d]", text):
        for word in rjieba.cut(sentence):
            for place, character in enumerate(word):
                if re.match(f"[{HAN}]", character):
                    assert next(starts) == (place == 0)
    assert next(starts, None) is None


def test_word_starts_of_chinese_tokens(tokenizer: Tokenizer):
    encoder = DocumentEncoder(tokenizer, segment_chinese=True)
    found = encoder.encode("我们喜欢学习, they learn.\x1d")
    assert found.word_starts[:7].tolist() == [True, False, True, False, True, False, True]
    plain = DocumentEncoder(tokenizer, segment_chinese=False).encode("我们喜欢学习\x1d")
    assert plain.word_starts.tolist() == [True] * 6


def test_words_that_were_added_later_are_left_to_the_tokenizer(english: list[str]):
    trained = train_wordpiece(english[:500], vocab_size=900)
    trained.backend.add_tokens(["new york"])
    assert not cuts_as_bert_does(trained)
    encoder = DocumentEncoder(trained, segment_chinese=True)
    found = encoder.encode("In new york it is.\x1eIt is so.\x1d")
    assert found.tokens.tolist() == library_ids(trained, "In new york it is. It is so.")


def test_chinese_left_together_has_no_words_of_a_segmenter(bert: Tokenizer):
    encoder = DocumentEncoder(bert, segment_chinese=True)
    assert len(encoder.encode("我们喜欢学习自然语言处理。\x1d").tokens)


@pytest.mark.parametrize("size", [12, 20, 64])
def test_where_a_slice_ends_changes_nothing(english: list[str], monkeypatch, size: int):
    sample = draw_sample(english[:800])
    tokenizers = [train(sample, vocabulary(family, vocab_size=700)).tokenizer for family in ("bert", "gpt2", "albert")]
    text = "One two three.\x1eFour five six.\nSeven eight nine ten eleven twelve\x1dThirteen.\x1d"
    for each in tokenizers:
        encoder = DocumentEncoder(each, segment_chinese=False)
        whole = encoder.encode(text)
        with monkeypatch.context() as patch:
            patch.setattr("bertkit.corpus.digest.SLICE", size)
            sliced = encoder.encode(text)
        for name in whole._fields:
            assert getattr(whole, name).tolist() == getattr(sliced, name).tolist(), (each.kind, name)
