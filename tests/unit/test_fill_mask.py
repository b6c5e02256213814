from __future__ import annotations

import pytest
import torch

import bertkit
from bertkit.errors import InputError, UsageError
from bertkit.infer import TextEncoder
from bertkit.nn import Bert


def test_guesses_are_the_likeliest_tokens(encoder):
    text = "The [MASK] of the [MASK] object."
    encoding = encoder.tokenizer.encode(text)
    with torch.no_grad():
        scores = encoder.model.word_scores(encoder.model.encoder(torch.tensor([encoding.ids])).last)[0].softmax(-1)
    masks = [at for at, token in enumerate(encoding.tokens) if token == "[MASK]"]
    found = encoder.fill_mask(text, k=4)
    assert len(found) == len(masks) == 2
    for guesses, at in zip(found, masks, strict=True):
        best = scores[at].topk(4)
        assert [guess.id for guess in guesses] == best.indices.tolist()
        assert [guess.probability for guess in guesses] == pytest.approx(best.values.tolist(), abs=1e-5)
        assert [guess.token for guess in guesses] == [encoder.tokenizer.token(i) for i in best.indices.tolist()]


def test_many_texts_equal_one_by_one(encoder, english):
    texts = [f"[MASK] {line} [MASK]" if number % 3 else f"{line} [MASK]" for number, line in enumerate(english[:40])]
    for text, found in zip(texts, encoder.fill_mask(texts, k=2), strict=True):
        alone = encoder.fill_mask(text, k=2)
        assert [[guess.token for guess in mask] for mask in found] == [
            [guess.token for guess in mask] for mask in alone
        ]


def test_a_mask_in_a_long_text_sees_what_is_around_it(encoder, english):
    before, after = " ".join(english[:100]), " ".join(english[100:200])
    ids = encoder.tokenizer.encode(f"{before} [MASK] {after}").ids
    at = ids.index(encoder.tokenizer.mask_id)
    inside = [ids[0], *ids[at - 255 : at + 255], ids[-1]]
    with torch.no_grad():
        scores = encoder.model.word_scores(encoder.model.encoder(torch.tensor([inside])).last)[0, 256]
    assert encoder.fill_mask(f"{before} [MASK] {after}", k=1)[0][0].id == int(scores.argmax())
    assert len(encoder.fill_mask(f"[MASK] {before} {after} [MASK]", k=1)) == 2


def test_a_text_without_a_mask_is_refused(encoder):
    with pytest.raises(InputError, match=r"no \[MASK\] in 'nothing hidden'.*Write \[MASK\]"):
        encoder.fill_mask("nothing hidden")
    with pytest.raises(InputError, match="is int"):
        encoder.fill_mask([3])


def test_a_model_without_the_head_says_so(encoder):
    bare = TextEncoder(Bert(encoder.config, mlm=False, nsp=False), encoder.tokenizer, name="bare")
    with pytest.raises(UsageError, match="bare has no masked-word head"):
        bare.fill_mask("a [MASK]")


def test_rows_beyond_the_vocabulary_are_never_guessed(encoder):
    config = bertkit.BertConfig.from_json(
        {**encoder.config.to_json(), "vocab_size": encoder.tokenizer.vocab_size + 100}
    )
    model = Bert(config)
    with torch.no_grad():
        model.mlm.bias[-100:] = 50.0
    guesses = TextEncoder(model, encoder.tokenizer).fill_mask("a [MASK]", k=50)[0]
    assert all(guess.id < encoder.tokenizer.vocab_size for guess in guesses)


def test_load_gives_a_predictor_for_the_folders_task(tiny_folder, tmp_path, tiny, tokenizer):
    predictor = bertkit.load(tiny_folder)
    assert predictor.task == "fill-mask"
    assert len(predictor("a [MASK] b", k=3)[0]) == 3
    assert len(predictor(["a [MASK]", "[MASK] [MASK]"])) == 2
    from bertkit.hub import save_model

    save_model(tmp_path / "bare", tiny, tokenizer, architecture="BertModel")
    assert bertkit.load(tmp_path / "bare")("a text").shape == (128,)
