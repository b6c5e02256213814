"""A GPT in use: what every model folder can do works without [CLS], [SEP], padding and mask; what cannot, says so."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from bertkit.cli.info import folder_facts
from bertkit.errors import ConfigError, InputError, ModelFolderError, TokenizerError, UsageError
from bertkit.families import PRESETS, vocabulary
from bertkit.hub import ModelFolder, load_model, save_model
from bertkit.infer import TextEncoder, load_encoder
from bertkit.nn import Bert, lay_out
from bertkit.text import draw_sample
from bertkit.text.train import train
from commands import bertkit_command

EVERY_GPT = pytest.mark.parametrize("family", ["gpt", "gpt2"])


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory, english: list[str]) -> dict[str, Path]:
    place, sample = tmp_path_factory.mktemp("gpts"), draw_sample(english, hold_out=False)
    for family in ("gpt", "gpt2"):
        tokenizer = train(sample, vocabulary(family, vocab_size=600)).tokenizer
        torch.manual_seed(0)
        config = PRESETS[f"{family}-tiny"](vocab_size=tokenizer.vocab_size, max_position_embeddings=64)
        save_model(place / family, Bert(config, pooler=False, nsp=False), tokenizer)
    return {family: place / family for family in ("gpt", "gpt2")}


@pytest.fixture
def encoder(folders: dict[str, Path], family: str) -> TextEncoder:
    return load_encoder(folders[family], device="cpu")


@EVERY_GPT
def test_the_vector_of_a_text_is_the_mean_over_all_of_its_tokens(encoder, family):
    text = "The statement is closed."
    ids = torch.tensor([encoder.tokenizer.encode(text).ids])
    with torch.no_grad():
        expected = encoder.model.encoder(ids).last[0].mean(0).numpy()
    np.testing.assert_allclose(encoder.embed(text), expected, atol=1e-5)
    several = encoder.embed([text, "A", "Another text, which is longer than the first."])
    np.testing.assert_allclose(several[0], expected, atol=1e-5)


@EVERY_GPT
def test_a_long_text_is_read_in_windows_that_leave_out_nothing(encoder, family, english):
    text = " ".join(english[:30])
    ids = encoder.tokenizer.encode(text).ids
    assert len(ids) > 3 * encoder.max_length
    with torch.no_grad():
        first = encoder.model.encoder(torch.tensor([ids[: encoder.max_length]])).last[0].mean(0).numpy()
    np.testing.assert_allclose(encoder.embed(text, long="truncate"), first, atol=1e-5)
    assert np.isfinite(encoder.embed(text)).all()
    words = encoder.embed_words([text, "", "two words"])
    assert [len(each.words) for each in words][1:] == [0, 2]
    assert "".join(words[0].words).replace(" ", "") == text.replace(" ", "")


@EVERY_GPT
def test_an_empty_text_is_refused_or_is_the_end_of_one(encoder, family):
    with pytest.raises(InputError, match="text 2 is empty"):
        encoder.embed(["one", ""])
    ids = torch.tensor([[encoder.tokenizer.eos_id]])
    with torch.no_grad():
        expected = encoder.model.encoder(ids).last[0, 0].numpy()
    np.testing.assert_allclose(encoder.embed(["one", ""], allow_empty=True)[1], expected, atol=1e-5)
    assert len(encoder.embed(["a"])) == 1  # a single token is a text


@EVERY_GPT
def test_attention_maps_look_only_left(encoder, family):
    maps = encoder.attention("The statement is closed.")
    assert len(maps.tokens) == len(encoder.tokenizer.encode("The statement is closed.").ids)
    assert not np.triu(maps.maps, 1).any()
    np.testing.assert_allclose(maps.maps.sum(-1), 1, atol=1e-5)
    assert "".join(maps.surfaces).replace(" ", "") == "Thestatementisclosed."
    with pytest.raises(InputError, match="the text is empty"):
        encoder.attention("")


@EVERY_GPT
def test_any_token_may_fill_up_short_sequences(encoder, family):
    texts = ["The statement is closed.", "A", "Two words"]
    sequences = [(ids, [0] * len(ids)) for ids in encoder.tokenizer.encode_ids(texts)]
    with torch.no_grad():
        packed = encoder.model.encoder.read(lay_out(sequences, packed=True, pad_id=0))
        for filling in (encoder.tokenizer.filling_id, 17):
            padded = lay_out(sequences, packed=False, pad_id=filling)
            seen = padded.seen.flatten().bool()
            torch.testing.assert_close(encoder.model.encoder.read(padded)[seen], packed, atol=1e-5, rtol=0)


@EVERY_GPT
def test_what_a_gpt_cannot_do_is_told(encoder):
    with pytest.raises(UsageError, match=r"is a GPT: it reads from left to right and has no mask.*bertkit generate"):
        encoder.fill_mask("The [MASK] is closed.")
    with pytest.raises(UsageError, match=r"its first token sees none of the others.*mean or max"):
        encoder.embed("a text", pooling="cls")


def test_fill_mask_on_the_command_line_says_it_in_a_sentence(folders):
    done = bertkit_command("fill-mask", folders["gpt2"], "The [MASK] is closed.")
    assert done.returncode == 2
    assert "gpt2 is a GPT: it reads from left to right and has no mask" in done.stderr
    assert "Traceback" not in done.stderr


@EVERY_GPT
def test_info_says_what_it_is(folders, family):
    facts = folder_facts(str(folders[family]))
    assert (facts["family"], facts["task"], facts["attention"]) == (family, "generate", "left to right")
    assert facts["norm"] == ("pre-norm" if family == "gpt2" else "post-norm")
    assert facts["parts"] == "encoder, next-word head"
    assert facts["parameters"] == load_model(ModelFolder(folders[family])).model.parameter_count()


def test_a_tokenizer_of_another_kind_is_refused(folders, tmp_path, english):
    folder = ModelFolder(folders["gpt2"])
    albert = train(draw_sample(english, hold_out=False), vocabulary("albert", vocab_size=600)).tokenizer
    save_model(tmp_path / "wrong", load_model(folder).model, albert)
    with pytest.raises(TokenizerError, match="has a Unigram tokenizer, and GPT-2's is BPE"):
        ModelFolder(tmp_path / "wrong").tokenizer()


@pytest.mark.parametrize(
    ("model", "tokenizer", "message"),
    [
        ("roberta", "gpt2", r"has GPT-2's tokenizer, and RoBERTa reads RoBERTa's.*special tokens.*RobertaTokenizer"),
        ("modernbert", "gpt2", r"has GPT-2's tokenizer, and ModernBERT reads ModernBERT's"),
        ("roberta", "gpt", r"has OpenAI GPT's tokenizer, and RoBERTa reads RoBERTa's"),
        ("gpt", "gpt2", r"has GPT-2's tokenizer, and OpenAI GPT reads OpenAI GPT's.*ends of words"),
        ("gpt2", "gpt", r"has OpenAI GPT's tokenizer, and GPT-2 reads GPT-2's.*ends of words"),
    ],
)
def test_a_tokenizer_of_the_kind_but_of_another_family_is_refused(folders, tmp_path, model, tokenizer, message):
    other = ModelFolder(folders[tokenizer]).tokenizer()
    config = PRESETS[f"{model}-tiny"](vocab_size=other.vocab_size, pad_token_id=1)
    save_model(tmp_path / "wrong", Bert(config, pooler=False, nsp=False), other)
    with pytest.raises(TokenizerError, match=message):
        load_encoder(tmp_path / "wrong")


def test_a_gpt2_may_read_wordpiece_as_chinese_ones_do(tmp_path, tokenizer):
    config = PRESETS["gpt2-tiny"](vocab_size=tokenizer.vocab_size)
    save_model(tmp_path / "chinese", Bert(config, pooler=False, nsp=False), tokenizer)
    assert load_encoder(tmp_path / "chinese").embed("a text").shape == (128,)


def test_weights_of_one_gpt_in_the_others_config_are_refused(folders, tmp_path):
    for one, other in (("gpt", "gpt2"), ("gpt2", "gpt")):
        place = tmp_path / one
        place.mkdir()
        (place / "config.json").write_bytes((folders[other] / "config.json").read_bytes())
        (place / "model.safetensors").write_bytes((folders[one] / "model.safetensors").read_bytes())
        with pytest.raises(ModelFolderError, match="tensors"):
            load_model(ModelFolder(place))


@pytest.mark.parametrize(
    ("family", "change"),
    [
        ("gpt2", {"causal": False}),
        ("gpt2", {"pre_norm": False}),
        ("gpt2", {"type_vocab_size": 2}),
        ("gpt", {"pre_norm": True}),
        ("gpt", {"intermediate_size": 100}),
    ],
)
def test_what_is_no_gpt_is_not_called_one(family, change):
    with pytest.raises(ConfigError, match=f"{next(iter(change))} is .* in a {family} model"):
        PRESETS[f"{family}-tiny"](**change)
