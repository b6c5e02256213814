"""A model fitted to another vocabulary knows what it knew, and begins with new tokens where their pieces were."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from bertkit.errors import CorpusError, ModelFolderError, TokenizerError
from bertkit.families import bert_tiny, vocabulary
from bertkit.nn import Bert, Fitted, fit_vocabulary
from bertkit.text import (
    WORDPIECE,
    Tokenizer,
    assemble,
    draw_sample,
    extend_vocabulary,
    train_wordpiece,
    wordpiece,
)
from bertkit.text.train import train
from bertkit.train import match_vocabulary

NEW_WORDS = ["nephrologist", "glomerulonephritis", "creatinine", "肾"]
PLAIN = ["The value of [MASK] is returned.", "我们[MASK]欢学习自然语言处理。", "a list of items, and their names"]


def made(vocab_size: int, *, seed: int = 1, tied: bool = True, **changes: object) -> Bert:
    """A model in which every number, biases too, is one that no other has."""
    torch.manual_seed(seed)
    model = Bert(bert_tiny(vocab_size=vocab_size, initializer_range=0.1, **changes), tied=tied).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    return model


@pytest.fixture(scope="module")
def extended(tokenizer: Tokenizer) -> Tokenizer:
    return extend_vocabulary(tokenizer, draw_sample([" ".join(NEW_WORDS)] * 9), add=10).tokenizer


@pytest.fixture(scope="module", params=[True, False], ids=["tied", "untied"])
def model(request, tokenizer: Tokenizer) -> Bert:
    """With rows beyond the vocabulary, where the new tokens' ids are."""
    return made(tokenizer.vocab_size + 8, tied=request.param)


@pytest.fixture(scope="module")
def fitted(model: Bert, tokenizer: Tokenizer, extended: Tokenizer) -> Fitted:
    return fit_vocabulary(model, tokenizer, extended)


def tables(model: Bert) -> list[Tensor]:
    """All that has a row for each token."""
    assert model.mlm is not None
    decoder = [] if model.mlm.decoder is None else [model.mlm.decoder]
    return [tensor.detach() for tensor in (model.encoder.embeddings.word.weight, model.mlm.bias, *decoder)]


def bits(tensor: Tensor) -> Tensor:
    """So that 0 and -0 differ."""
    return tensor.contiguous().view(torch.int32)


def row_of(tokenizer: Tokenizer, *tokens: str) -> list[int]:
    vocabulary = tokenizer.backend.get_vocab()
    return [vocabulary[token] for token in tokens]


def test_the_model_has_a_row_for_each_token_and_no_more(fitted, extended, tokenizer):
    assert fitted.model.config.vocab_size == extended.vocab_size
    assert {len(table) for table in tables(fitted.model)} == {extended.vocab_size}
    assert (fitted.kept, fitted.from_pieces, fitted.unknown) == (tokenizer.vocab_size, 3, 1)
    assert not fitted.model.training


def test_rows_of_tokens_that_both_know_are_the_same_to_the_bit(model, fitted, tokenizer):
    for before, after in zip(tables(model), tables(fitted.model), strict=True):
        assert torch.equal(bits(after[: tokenizer.vocab_size]), bits(before[: tokenizer.vocab_size]))


def test_everything_else_is_the_same_to_the_bit(model, fitted):
    before, after = model.state_dict(), fitted.model.state_dict()
    assert before.keys() == after.keys()
    others = [name for name in before if name not in ("encoder.embeddings.word.weight", "mlm.bias", "mlm.decoder")]
    assert len(others) > 30
    for name in others:
        assert torch.equal(bits(before[name]), bits(after[name])), name


def test_a_new_word_begins_as_the_mean_of_its_pieces(model, fitted, tokenizer, extended):
    for word in ("nephrologist", "glomerulonephritis", "creatinine"):
        pieces = tokenizer.encode(word).ids[1:-1]
        assert len(pieces) > 1
        (new,) = row_of(extended, word)
        for before, after in zip(tables(model), tables(fitted.model), strict=True):
            torch.testing.assert_close(after[new], before[pieces].mean(0), rtol=1e-6, atol=1e-7)
            assert not torch.equal(after[new], before[new])  # the row that no token used


def test_an_unknown_token_begins_as_the_mean_of_the_ordinary_ones(model, fitted, tokenizer, extended):
    assert tokenizer.encode("肾").tokens[1:-1] == ["[UNK]"]
    (new,) = row_of(extended, "肾")
    ordinary = [number for number in range(tokenizer.vocab_size) if number > 4]
    assert [tokenizer.token(number) for number in range(5)] == list(WORDPIECE.specials.values())
    for before, after in zip(tables(model), tables(fitted.model), strict=True):
        torch.testing.assert_close(after[new], before[ordinary].mean(0), rtol=1e-5, atol=1e-7)


def test_hidden_states_of_texts_without_new_words_are_the_same_to_the_bit(model, fitted, tokenizer, extended):
    for text in PLAIN:
        ids = torch.tensor([tokenizer.encode(text).ids])
        assert extended.encode(text).ids == ids[0].tolist()
        with torch.inference_mode():
            before = model.encoder(ids, hidden_states=True).hidden_states
            after = fitted.model.encoder(ids, hidden_states=True).hidden_states
        for one, other in zip(before, after, strict=True):
            assert torch.equal(bits(one), bits(other))


def test_scores_of_old_words_are_the_same(model, fitted, tokenizer):
    for text in PLAIN:
        ids = torch.tensor([tokenizer.encode(text).ids])
        with torch.inference_mode():
            before = model.word_scores(model.encoder(ids).last)[..., : tokenizer.vocab_size]
            after = fitted.model.word_scores(fitted.model.encoder(ids).last)[..., : tokenizer.vocab_size]
        # The kernel may add up in another order when the matrix has another height.
        torch.testing.assert_close(after, before, rtol=1e-6, atol=1e-5)
        assert torch.equal(after.argmax(-1), before.argmax(-1))
        assert before.std() > 0.5


def test_the_old_model_is_unchanged_and_shares_nothing(model, tokenizer, extended):
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    copy = fit_vocabulary(model, tokenizer, extended).model
    with torch.no_grad():
        for parameter in copy.parameters():
            parameter.zero_()
    assert model.config.vocab_size == tokenizer.vocab_size + 8
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())


def test_the_fitted_model_learns_its_new_words(fitted, extended):
    model = fitted.model
    (new,) = row_of(extended, "nephrologist")
    ids = torch.tensor([extended.encode("the nephrologist").ids])
    scores = model.word_scores(model.encoder(ids).last)
    scores[0, 2, new].backward()
    gradient = model.encoder.embeddings.word.weight.grad
    assert gradient is not None
    assert gradient[new].abs().sum() > 0
    model.zero_grad()


def test_the_mode_and_the_checkpointing_of_the_model_go_along(tokenizer, extended):
    model = made(tokenizer.vocab_size).train()
    model.encoder.gradient_checkpointing = True
    copy = fit_vocabulary(model, tokenizer, extended).model
    assert copy.training
    assert copy.encoder.gradient_checkpointing


@pytest.mark.parametrize("parts", [{"mlm": False, "nsp": False}, {"pooler": False, "nsp": False}])
def test_a_model_has_the_parts_it_had(tokenizer, extended, parts):
    model = Bert(bert_tiny(vocab_size=tokenizer.vocab_size), **parts)
    fitted = fit_vocabulary(model, tokenizer, extended)
    assert fitted.model.state_dict().keys() == model.state_dict().keys()
    for part in ("pooler", "mlm", "nsp"):
        assert (getattr(fitted.model, part) is None) == (getattr(model, part) is None)


def test_a_pre_norm_model_in_half_precision_is_fitted_as_it_is(tokenizer, extended):
    model = made(tokenizer.vocab_size, pre_norm=True).bfloat16()
    fitted = fit_vocabulary(model, tokenizer, extended).model
    assert {tensor.dtype for tensor in fitted.state_dict().values()} == {torch.bfloat16}
    assert fitted.config == replace(model.config, vocab_size=extended.vocab_size)


def test_tokens_may_move_and_vanish(english, tokenizer):
    """The shards' tokenizer was learned from other text: other ids, words missing, words new."""
    new = train_wordpiece([*english[:1500], *["glomerulonephritis creatinine"] * 50], vocab_size=2500)
    model = made(tokenizer.vocab_size)
    fitted = fit_vocabulary(model, tokenizer, new)
    known = tokenizer.backend.get_vocab()
    both = [(number, known[token]) for token, number in new.backend.get_vocab().items() if token in known]
    assert any(number != other for number, other in both)
    assert fitted.kept == len(both)
    assert fitted.kept + fitted.from_pieces + fitted.unknown == new.vocab_size
    assert fitted.from_pieces > 10
    news, olds = map(list, zip(*both, strict=True))
    for before, after in zip(tables(model), tables(fitted.model), strict=True):
        assert torch.equal(bits(after[news]), bits(before[olds]))


def test_the_padding_token_may_move():
    old = small(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "word", "##s"])
    new = small(["[unused0]", "words", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "word", "##s", "[PAD]"])
    model = made(old.vocab_size, seed=2)
    fitted = fit_vocabulary(model, old, new).model
    assert (model.config.pad_token_id, fitted.config.pad_token_id) == (0, 8)
    assert fitted.encoder.embeddings.word.padding_idx == 8
    for before, after in zip(tables(model), tables(fitted), strict=True):
        assert torch.equal(bits(after[[8, 2, 3, 4, 5, 6, 7]]), bits(before[:7]))
        torch.testing.assert_close(after[1], before[[5, 6]].mean(0), rtol=1e-6, atol=1e-7)


def test_a_continuation_begins_as_the_mean_of_continuations():
    specials = list(WORDPIECE.specials.values())
    old = small([*specials, "xy", "z", "##xy", "##z"])
    new = small([*specials, "##xyz", "xyz"])
    model = made(old.vocab_size, seed=3)
    fitted = fit_vocabulary(model, old, new).model
    for before, after in zip(tables(model), tables(fitted), strict=True):
        torch.testing.assert_close(after[5], before[[7, 8]].mean(0), rtol=1e-6, atol=1e-7)
        torch.testing.assert_close(after[6], before[[5, 8]].mean(0), rtol=1e-6, atol=1e-7)


def test_unused_places_do_not_count_as_ordinary_and_ids_without_a_token_get_a_row():
    old = small([*WORDPIECE.specials.values(), "[unused1]", "a", "b", "[unused12]"])
    vocabulary = {**{token: number for number, token in enumerate(WORDPIECE.specials.values())}, "ω": 5, "a": 7}
    new = Tokenizer(assemble(WORDPIECE, wordpiece(vocabulary), lowercase=True))
    model = made(old.vocab_size, seed=4)
    fitted = fit_vocabulary(model, old, new)
    assert (fitted.kept, fitted.from_pieces, fitted.unknown) == (6, 0, 1)
    for before, after in zip(tables(model), tables(fitted.model), strict=True):
        for row in (5, 6):
            torch.testing.assert_close(after[row], before[[6, 7]].mean(0), rtol=1e-6, atol=1e-7)
        assert torch.equal(bits(after[7]), bits(before[6]))


def test_the_same_tokenizer_needs_nothing(model, tokenizer, tmp_path):
    tokenizer.save(tmp_path)
    for extend in (False, True):
        matched = match_vocabulary(
            model, tokenizer, Tokenizer.open(tmp_path), extend=extend, folder="model", shards="shards"
        )
        assert matched == (model, tokenizer.vocab_size, 0, 0)
        assert matched.model is model


def test_another_tokenizer_is_refused_with_both_hashes_and_both_ways_out(model, tokenizer, extended):
    with pytest.raises(CorpusError) as refusal:
        match_vocabulary(model, tokenizer, extended, extend=False, folder="old/model", shards="new/shards")
    for said in (
        *(tokenizer.sha256(), extended.sha256(), "old/model", "new/shards"),
        *("`tokenizer=old/model`", "`extend_vocabulary=True`"),
    ):
        assert said in str(refusal.value)


def test_another_tokenizer_is_fitted_if_asked_for(model, fitted, tokenizer, extended):
    matched = match_vocabulary(model, tokenizer, extended, extend=True, folder="model", shards="shards")
    assert matched[1:] == fitted[1:]
    after = fitted.model.state_dict()
    assert all(torch.equal(tensor, after[name]) for name, tensor in matched.model.state_dict().items())


def test_a_tokenizer_that_is_not_the_models_is_refused(tokenizer, extended):
    with pytest.raises(ModelFolderError, match=f"{tokenizer.vocab_size} pieces.*vocab_size is 100"):
        fit_vocabulary(made(100), tokenizer, extended)


def test_another_family_is_refused(english, tokenizer):
    other = train(draw_sample(english[:200]), vocabulary("roberta", vocab_size=400)).tokenizer
    with pytest.raises(TokenizerError, match=r"byte-level BPE framed by <s>, and only WordPiece.*Prepare the text"):
        fit_vocabulary(made(tokenizer.vocab_size), tokenizer, other)


def small(pieces: list[str]) -> Tokenizer:
    return Tokenizer(assemble(WORDPIECE, wordpiece({piece: n for n, piece in enumerate(pieces)}), lowercase=True))
