"""What a model knows without a task: each kind asked in its own way, and figures that do not flatter."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path

import pytest
import torch

from bertkit.errors import InputError, UsageError
from bertkit.families import bert_tiny
from bertkit.infer import TextEncoder, likelihoods, pairs_of, score_pairs, score_text, scores_together
from bertkit.nn import Bert
from bertkit.text import Tokenizer
from commands import bertkit_command

TEXTS = ["Unhashable types sleep.", "The object of the subclasses.", "if"]


def of_ids(model: Bert, ids: list[int]) -> torch.Tensor:
    with torch.no_grad():
        return model.word_scores(model.encoder(torch.tensor([ids])).last)[0].log_softmax(-1)


def test_a_masked_model_is_asked_for_each_token_without_the_later_pieces_of_its_word(encoder):
    found = likelihoods(encoder, TEXTS)
    split = False
    for text, likely in zip(TEXTS, found, strict=True):
        encoded = encoder.tokenizer.encode(text)
        places = range(1, len(encoded.ids) - 1)
        for place, log in zip(places, likely.logs, strict=True):
            later = [p for p in places if p >= place and encoded.words[p] == encoded.words[place]]
            split = split or len(later) > 1
            seen = [encoder.tokenizer.mask_id if p in later else token for p, token in enumerate(encoded.ids)]
            assert log == pytest.approx(float(of_ids(encoder.model, seen)[place, encoded.ids[place]]), abs=1e-5)
        assert [text[slice(*span)] for span in likely.spans] == [text[slice(*encoded.offsets[p])] for p in places]
    assert split, "a word of several pieces is among them"


def test_a_model_that_reads_from_left_to_right_is_asked_for_each_next_token(tokenizer: Tokenizer):
    torch.manual_seed(0)
    model = Bert(bert_tiny(vocab_size=tokenizer.vocab_size, initializer_range=0.1, causal=True), nsp=False).eval()
    (found,) = likelihoods(TextEncoder(model, tokenizer), TEXTS[:1])
    ids = tokenizer.encode(TEXTS[0]).ids
    logs = of_ids(model, ids)
    assert found.logs == pytest.approx([float(logs[p - 1, ids[p]]) for p in range(1, len(ids) - 1)], abs=1e-5)


def test_a_discriminator_is_asked_whether_each_token_is_the_original(tokenizer: Tokenizer):
    torch.manual_seed(0)
    config = bert_tiny(vocab_size=tokenizer.vocab_size, initializer_range=0.1)
    model = Bert(config, mlm=False, nsp=False, pooler=False, rtd=True).eval()
    (found,) = likelihoods(TextEncoder(model, tokenizer), TEXTS[:1])
    with torch.no_grad():
        scores = model.replaced_scores(model.encoder(torch.tensor([tokenizer.encode(TEXTS[0]).ids])).last)[0, 1:-1]
    assert found.logs == pytest.approx((-scores).sigmoid().log().tolist(), abs=1e-5)


def test_many_texts_are_as_likely_as_one_by_one(encoder, english):
    texts = english[:30]
    for text, likely in zip(texts, likelihoods(encoder, texts), strict=True):
        assert likely.total == pytest.approx(likelihoods(encoder, [text])[0].total, rel=1e-5)


def test_equal_sentences_are_no_success_and_frequency_stands_beside(encoder):
    pairs = [("The cat sleeps.", "The cat sleeps."), ("the of the of", "the zebra of"), ("a b", "b a")]
    counts = Counter({"the": 100, "of": 80, "cat": 1, "a": 5, "b": 5})
    score = score_pairs(encoder, "some", pairs, counts)
    assert score.equal == pytest.approx(1 / 3)
    assert score.right <= 2 / 3
    assert (score.frequency, score.frequency_equal) == (pytest.approx(1 / 3), pytest.approx(2 / 3)), "zebra is rare"
    assert score.right_of_equal in (0.0, 0.5)
    assert score_pairs(encoder, "some", pairs).frequency is None
    both = scores_together([score, score])
    assert (both.pairs, both.right, both.right_of_equal) == (6, score.right, score.right_of_equal)


def test_kinds_of_words_in_text_add_up_to_its_bits(encoder, english):
    text = "In the garden of Ada Lovelace there was an elephant."
    counts = Counter({"in": 9, "the": 9, "of": 9, "there": 9, "was": 9, "an": 9})
    score = score_text(encoder, [text], counts)
    assert score.words == {"common": 6, "content": 2, "names": 2, "signs": 0}
    total = -likelihoods(encoder, [text])[0].total
    assert score.bits_per_byte == pytest.approx(total / math.log(2) / len(text.encode()), rel=1e-6)
    chinese = score_text(encoder, ["我们喜欢学习。"], Counter({"我": 5}))
    assert chinese.words["common"] == 1
    assert chinese.words["content"] == 5


def test_what_is_no_pair_is_refused_with_its_line(tmp_path: Path, encoder):
    file = tmp_path / "pairs.jsonl"
    for line in ('{"good": "a"}', "no json", '{"good": "a", "bad": 3}', '["a", "b"]', '{"good": "a", "bad": " "}'):
        file.write_text(f'{{"good": "one", "bad": "two"}}\n{line}\n')
        with pytest.raises(InputError, match=r"line 2.*Write a pair a line"):
            pairs_of(file)
    file.write_text("")
    with pytest.raises(InputError, match="empty"):
        pairs_of(file)
    with pytest.raises(InputError, match=r"text 2 has \d+ tokens, the model reads 512.*Cut it"):
        likelihoods(encoder, ["short", "long " * 600])
    bare = TextEncoder(Bert(encoder.config, mlm=False, nsp=False), encoder.tokenizer, name="bare")
    with pytest.raises(UsageError, match="bare has no head that scores words"):
        likelihoods(bare, ["a"])


def test_the_command_measures_pairs_and_text(tmp_path: Path, tiny_folder: Path, english: list[str]):
    (tmp_path / "pairs").mkdir()
    (tmp_path / "pairs" / "cats.jsonl").write_text('{"good": "The cats sleep.", "bad": "The cats sleeps."}\n' * 3)
    (tmp_path / "text.txt").write_text("\n".join(english[:60]))
    ended = bertkit_command(
        "knows", tiny_folder, "--pairs", tmp_path / "pairs", "--text", tmp_path / "text.txt", "--sentences", 20
    )
    assert ended.returncode == 0, ended.stderr
    cats, whole, text = map(json.loads, ended.stdout.splitlines())
    assert (cats["pairs_of"], cats["pairs"], whole["pairs_of"]) == ("cats", 3, "all")
    assert text["sentences"] == 20
    assert text["bits_per_byte"] > 1
    assert set(text["perplexity_of_words"]) >= {"common", "content"}
    for wrong, said in (((), "Give --pairs, --text, or both"), (("--pairs", tmp_path / "no"), "is not there")):
        ended = bertkit_command("knows", tiny_folder, *wrong)
        assert ended.returncode in (2, 3)
        assert said in ended.stderr
