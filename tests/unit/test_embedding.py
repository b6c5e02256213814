"""Vectors for texts and words."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import bertkit
from bertkit.errors import InputError, UsageError
from bertkit.infer import TextEncoder, embedding, vector_writer

TEXTS = ["The value of the object.", "short", "一个苹果。", "A longer sentence than the others, to be sure, is this."]


def by_hand(encoder: TextEncoder, text: str, layer: int = -1) -> torch.Tensor:
    """L x D for one text alone, the plain way."""
    with torch.no_grad():
        return encoder.model.encoder(torch.tensor([encoder.tokenizer.encode(text).ids]), hidden_states=True)[1][layer][
            0
        ]


def test_pooling_is_what_it_says(encoder):
    for number, text in enumerate(TEXTS):
        hidden = by_hand(encoder, text)
        for pooling, expected in (("cls", hidden[0]), ("mean", hidden.mean(0)), ("max", hidden.amax(0))):
            np.testing.assert_allclose(encoder.embed(TEXTS, pooling=pooling)[number], expected, atol=1e-5)


def test_layers_are_what_they_say(encoder):
    hidden = [by_hand(encoder, TEXTS[0], layer).mean(0) for layer in range(3)]
    np.testing.assert_allclose(encoder.embed(TEXTS[0], layers=0), hidden[0], atol=1e-5)
    np.testing.assert_allclose(encoder.embed(TEXTS[0], layers="sum:1..2"), hidden[1] + hidden[2], atol=1e-5)
    np.testing.assert_allclose(encoder.embed(TEXTS[0], layers="concat:1..2"), torch.cat(hidden[1:]), atol=1e-5)
    np.testing.assert_allclose(
        encoder.embed(TEXTS[0], layers="mix:0=0.5,2=0.25"), hidden[0] / 2 + hidden[2] / 4, atol=1e-5
    )


def test_one_text_gives_one_vector_and_none_give_none(encoder):
    assert encoder.embed("one").shape == (128,)
    assert encoder.embed(["one"]).shape == (1, 128)
    assert encoder.embed([]).shape == (0, 128)
    assert encoder.embed([], layers="concat:0..2").shape == (0, 384)
    assert encoder.embed("one").dtype == np.float32


@pytest.mark.filterwarnings("ignore:this model was not trained for sentence vectors")
def test_normalized_vectors_have_length_one(encoder):
    np.testing.assert_allclose(np.linalg.norm(encoder.embed(TEXTS, normalize=True), axis=1), 1, atol=1e-6)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.text(st.characters(categories=["L", "N", "P", "Z"]), min_size=1, max_size=60), max_size=12))
def test_order_is_kept_and_neighbours_do_not_matter(encoder, texts):
    together = encoder.embed(texts, allow_empty=True)
    for text, vector in zip(texts, together, strict=True):
        np.testing.assert_allclose(encoder.embed(text, allow_empty=True), vector, atol=1e-5)


def test_a_stream_in_chunks_equals_a_single_call(encoder, english, monkeypatch):
    expected = encoder.embed(english[:300])
    monkeypatch.setattr(embedding, "CHUNK_TEXTS", 17)
    parts = list(encoder.embed_stream(iter(english[:300])))
    assert len(parts) == 18
    np.testing.assert_allclose(np.concatenate([part.vectors for part in parts]), expected, atol=1e-5)


def test_a_stream_reads_no_further_than_it_must(encoder, english, monkeypatch):
    monkeypatch.setattr(embedding, "CHUNK_TEXTS", 10)
    taken = 0

    def endless():
        nonlocal taken
        while True:
            taken += 1
            yield english[taken % 100]

    stream = encoder.embed_stream(endless())
    for _ in range(3):
        next(stream)
    assert taken <= 50
    stream.close()


def test_a_stream_lets_go_of_what_it_has_done(encoder, english, monkeypatch):
    monkeypatch.setattr(embedding, "CHUNK_TEXTS", 50)
    alive = most = 0

    class Text(str):
        def __del__(self) -> None:
            nonlocal alive
            alive -= 1

    def texts():
        nonlocal alive, most
        for number in range(2000):
            alive += 1
            most = max(most, alive)
            yield Text(english[number % 100])

    assert sum(len(part.vectors) for part in encoder.embed_stream(texts())) == 2000
    assert most <= 200, "a chunk being computed, one being tokenized, one being read"


def test_long_texts_by_each_policy(encoder, english):
    text = " ".join(english[:200])
    ids = encoder.tokenizer.encode(text).ids
    assert len(ids) > 1500
    part = next(encoder.embed_stream([text, "short"], long="windows"))
    assert part.long_texts == 1
    windows = embedding.windows(len(ids) - 2, 510)
    hidden = []
    with torch.no_grad():
        for window in windows:
            inside = [ids[0], *ids[1 + window.start : 1 + window.stop], ids[-1]]
            hidden.append(encoder.model.encoder(torch.tensor([inside])).last[0])
    np.testing.assert_allclose(part.vectors[0], torch.cat(hidden).mean(0), atol=1e-5)
    np.testing.assert_allclose(encoder.embed(text, pooling="max"), torch.cat(hidden).amax(0), atol=1e-5)
    with torch.no_grad():
        beginning = encoder.model.encoder(torch.tensor([[*ids[:511], ids[-1]]])).last[0].mean(0)
    np.testing.assert_allclose(encoder.embed(text, long="truncate"), beginning, atol=1e-5)
    with pytest.raises(InputError, match=rf"text 2 has {len(ids)} tokens, and the model reads 512.*`long=windows`"):
        encoder.embed(["short", text], long="error")


@pytest.mark.parametrize("empty", ["", "   ", "\u200b\n"])
def test_an_empty_text_is_refused_with_its_number_or_allowed(encoder, empty):
    with pytest.raises(InputError, match=r"text 2 is empty.*`allow_empty=True`"):
        encoder.embed(["something", empty])
    expected = by_hand(encoder, "").mean(0)
    np.testing.assert_allclose(encoder.embed(empty, allow_empty=True), expected, atol=1e-5)


def test_wrong_settings_are_named(encoder):
    with pytest.raises(UsageError, match=r"pooling is 'avg'.*cls, mean, max"):
        encoder.embed("x", pooling="avg")
    with pytest.raises(UsageError, match="long is 'cut'"):
        encoder.embed("x", long="cut")
    with pytest.raises(InputError, match="text 2 is int"):
        encoder.embed(["x", 3])


def test_word_vectors_are_the_mean_of_their_pieces(encoder):
    text = "Unquestionably café 你好 isn't."
    encoding, hidden = encoder.tokenizer.encode(text), by_hand(encoder, text)
    (found,) = encoder.embed_words(text)
    assert found.words == ["Unquestionably", "café", "你", "好", "isn", "'", "t", "."]
    assert [text[start:stop] for start, stop in found.spans] == found.words
    assert len(encoding.ids) > len(found.words) + 2, "some word has several pieces"
    for number, vector in enumerate(found.vectors):
        pieces = [at for at, word in enumerate(encoding.words) if word == number]
        np.testing.assert_allclose(vector, hidden[pieces].mean(0), atol=1e-5)


def test_words_between_white_space(encoder):
    text = " Unquestionably  isn't\u3000你好 \u200b end"
    (found,) = encoder.embed_words(text, split="whitespace")
    assert found.words == ["Unquestionably", "isn't", "你好", "end"], "a word of which nothing is kept has no vector"
    words = encoder.embed_words(text)[0].words
    hidden = by_hand(encoder, text)
    encoding = encoder.tokenizer.encode(text)
    inside = [n for n, (start, stop) in enumerate(encoding.offsets) if text[start:stop] in ("isn", "'", "t") and stop]
    np.testing.assert_allclose(found.vectors[1], hidden[inside].mean(0), atol=1e-5)
    assert {"你", "好", "end"} <= set(words)
    with pytest.raises(UsageError, match="split is 'space'"):
        encoder.embed_words("x", split="space")


def test_white_space_is_what_bert_takes_for_it(encoder):
    """Python splits at U+001C too; BERT drops it, so that what is around it is one word."""
    (found,) = encoder.embed_words("a\x1cb c", split="whitespace")
    assert found.words == ["a\x1cb", "c"]


def test_words_of_a_long_text_are_all_there(encoder, english):
    text = " ".join(english[:150])
    (found,) = encoder.embed_words(text)
    assert found.words == [text[start:stop] for start, stop in found.spans]
    assert found.vectors.shape == (len(found.words), 128)
    assert len(encoder.tokenizer.encode(text).ids) > 1024
    assert np.isfinite(found.vectors).all()
    assert np.abs(found.vectors).sum(1).min() > 0
    assert encoder.embed_words([""])[0].vectors.shape == (0, 128)


def test_no_vector_carries_inference_mode_out(encoder):
    words = iter(bertkit.infer.embedding.embed_words(encoder, ["one", "two"]))
    next(words)
    assert not torch.is_inference_mode_enabled()


@pytest.mark.parametrize("ending", [".npy", ".jsonl", ".parquet"])
def test_vectors_come_back_from_a_file_exactly(tmp_path: Path, ending):
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(7, 5)).astype(np.float32) * 10.0 ** rng.integers(-30, 30, (7, 1))
    vectors = vectors.astype(np.float32)
    texts = ["one", "two\n", "三", "", 'q"uote', "\ud800", "seven"]
    with vector_writer(tmp_path / f"v{ending}") as writer:
        writer.write(texts[:4], vectors[:4])
        writer.write(texts[4:], vectors[4:])
    if ending == ".npy":
        read = np.load(tmp_path / "v.npy", allow_pickle=False)
    elif ending == ".jsonl":
        lines = [json.loads(line) for line in (tmp_path / "v.jsonl").read_text().splitlines()]
        assert [line["text"] for line in lines[:5]] == texts[:5]
        read = np.array([line["vector"] for line in lines], dtype=np.float32)
    else:
        parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
        table = parquet.read_table(tmp_path / "v.parquet")
        assert table["text"].to_pylist()[:5] == texts[:5]
        read = np.array(table["vector"].to_pylist(), dtype=np.float32)
    assert np.array_equal(read, vectors)


def test_words_to_parquet(tmp_path: Path, encoder):
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    texts = ["one word", "你好"]
    with vector_writer(tmp_path / "w.parquet") as writer:
        writer.write_words(texts[:1], encoder.embed_words(texts[:1]))
        writer.write_words(texts[1:], encoder.embed_words(texts[1:]))
    table = parquet.read_table(tmp_path / "w.parquet")
    assert table["text_number"].to_pylist() == [0, 0, 1, 1]
    assert table["word"].to_pylist() == ["one", "word", "你", "好"]


def test_a_file_ending_that_is_none_is_refused(tmp_path: Path):
    with pytest.raises(UsageError, match=r"\.npy, \.jsonl, \.parquet"), vector_writer(tmp_path / "v.txt"):
        pass
