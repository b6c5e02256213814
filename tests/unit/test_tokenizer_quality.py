from __future__ import annotations

import pytest

from bertkit.errors import InputError
from bertkit.families import vocabulary
from bertkit.text import WORDPIECE, Tokenizer, assemble, draw_sample, measure, wordpiece
from bertkit.text.train import train

PIECES = [*WORDPIECE.specials.values(), "the", "cat", "##s", "sat", "我", ".", "unused", "mask", "[", "]", "unk"]


@pytest.fixture
def small() -> Tokenizer:
    vocabulary = {piece: number for number, piece in enumerate(PIECES)}
    return Tokenizer(assemble(WORDPIECE, wordpiece(vocabulary), lowercase=True))


def test_the_figures_of_a_small_text_are_those_counted_by_hand(small):
    quality = measure(small, ["The cats sat.", "我们 sat", "  ", "zebra zebra"])
    assert quality.texts == 3
    assert quality.words == 4 + 3 + 2  # The cats sat . / 我 们 sat / zebra zebra
    assert quality.pieces == 5 + 3 + 2
    assert quality.whole_words == quality.words - 1  # only "cats" is in two
    assert quality.unknown_pieces == 3
    assert quality.unknown_words == [("zebra", 2), ("们", 1)]
    assert quality.characters == 13 + 6 + 11
    assert quality.pieces_per_word == pytest.approx(10 / 9)
    assert quality.characters_per_piece == pytest.approx(3.0)
    assert quality.unknown_rate == pytest.approx(0.3)
    assert quality.vocabulary == len(PIECES) - 5
    assert quality.unused_examples == ["unused", "mask", "[", "]", "unk"]
    assert (quality.unused, quality.unused_rate) == (5, pytest.approx(5 / 11))


def test_special_tokens_written_in_a_text_are_text(small):
    quality = measure(small, ["[UNK] [MASK]"])
    assert (quality.words, quality.pieces, quality.unknown_pieces) == (6, 6, 0)
    assert small.encode("[MASK]").ids == [small.cls_id, small.mask_id, small.sep_id], "the tokenizer is as it was"


def test_words_are_counted_alike_for_every_kind(english):
    sample = draw_sample([*english, "我们喜欢学习自然语言处理。"] * 2)
    texts = [text for text, _ in sample.held_out] + ["我们喜欢 tokenizers!"]
    families = ("bert", "gpt2", "albert")
    figures = [measure(train(sample, vocabulary(family, vocab_size=1500)).tokenizer, texts) for family in families]
    assert len({quality.words for quality in figures}) == 1
    for quality in figures:
        assert 1 < quality.pieces_per_word < 2
        assert 0.5 < quality.whole_word_rate < 1
    assert figures[1].unknown_pieces == 0


def test_a_character_in_several_bytes_is_not_whole(english):
    tokenizer = train(draw_sample(english[:200]), vocabulary("gpt2", vocab_size=400)).tokenizer
    quality = measure(tokenizer, ["龘"])
    assert (quality.words, quality.pieces, quality.whole_words) == (1, 3, 0)


def test_a_word_that_leaves_no_piece_is_not_whole(small):
    assert measure(small, ["the \u0301 cat"]).whole_words == 2


def test_long_texts_and_many_texts_are_measured_whole(small):
    assert measure(small, ["the cat " * 50_000]).pieces == 100_000
    assert measure(small, ("the cat" for _ in range(3000))).pieces == 6000


def test_no_text_is_said(small):
    with pytest.raises(InputError, match="no text to measure"):
        measure(small, ["", " \n"])


def test_the_figures_can_be_written_as_json(small):
    record = measure(small, ["the cats"]).as_json()
    assert record["pieces_per_word"] == 1.5
    assert record["unused"] == 8
