"""A pre-norm BERT is transformers' Megatron-BERT: every output, every gradient, and the folder on disk."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from test_outputs import SHAPES, as_ours, assert_equal_gradients, close, make_inputs
from transformers import AutoModel, AutoTokenizer, MegatronBertConfig, MegatronBertForPreTraining, pipeline

from bertkit import load_encoder
from bertkit.cli.info import folder_facts
from bertkit.errors import ConfigError, ModelFolderError
from bertkit.families import bert_tiny
from bertkit.hub import ModelFolder, config_from_huggingface, config_to_huggingface, load_model, save_model
from bertkit.nn import Bert
from bertkit.text import Tokenizer
from commands import bertkit_command

EVERY_SHAPE = pytest.mark.parametrize("shape", SHAPES, ids=lambda s: f"{s['num_hidden_layers']}x{s['hidden_size']}")


def make_pair(shape: dict, **settings: bool) -> tuple[MegatronBertForPreTraining, Bert]:
    """The reference with random weights, biases and norms included, and ours with the same."""
    torch.manual_seed(0)
    config = MegatronBertConfig(vocab_size=500, max_position_embeddings=64, **shape, **settings)
    theirs = MegatronBertForPreTraining(config).eval()
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    ours = Bert(config_from_huggingface(theirs.config.to_dict(), "their config")).eval()
    ours.load_state_dict(as_ours(theirs.state_dict(), ours.config), strict=True)
    return theirs, ours


@EVERY_SHAPE
@pytest.mark.parametrize("with_mask", [False, True])
@pytest.mark.parametrize("with_ids", [False, True])
@pytest.mark.parametrize("is_decoder", [False, True])
def test_every_output_equals_the_reference(shape, with_mask, with_ids, is_decoder):
    theirs, ours = make_pair(shape, is_decoder=is_decoder)
    assert (ours.config.pre_norm, ours.config.causal) == (True, is_decoder)
    ids, mask, segments, positions = make_inputs(shape.get("type_vocab_size", 2))
    given = {"attention_mask": mask if with_mask else None, "position_ids": positions if with_ids else None}
    segments = segments if with_ids else None
    with torch.no_grad():
        expected = theirs(ids, token_type_ids=segments, output_hidden_states=True, output_attentions=True, **given)
        plain = ours.encoder(ids, segment_ids=segments, hidden_states=True, attentions=True, **given)
        fused = ours.encoder(ids, segment_ids=segments, hidden_states=True, **given)
        base = theirs.bert(ids, token_type_ids=segments, **given)
    seen = mask.bool() if with_mask else torch.ones_like(ids, dtype=torch.bool)
    for a, b, c in zip(plain.hidden_states, fused.hidden_states, expected.hidden_states, strict=True):
        close(a, c)
        close(b[seen], c[seen])
    for a, b in zip(plain.attentions, expected.attentions, strict=True):
        close(a, b)
    close(plain.last, base.last_hidden_state)
    close(ours.pool(plain.last), base.pooler_output)
    close(ours.word_scores(plain.last), expected.prediction_logits)
    close(ours.next_sentence_scores(plain.last), expected.seq_relationship_logits)


@pytest.mark.parametrize("is_decoder", [False, True])
def test_packed_sequences_equal_the_reference(is_decoder):
    theirs, ours = make_pair(SHAPES[1], is_decoder=is_decoder)
    ids, *_ = make_inputs(3)
    runs = [(2, 9), (1, 20), (2, 33)]
    short, middle, long = ids[:2, :9], ids[2:3, :20], ids[3:]
    with torch.no_grad():
        packed = ours.encoder.packed(torch.cat([part.flatten() for part in (short, middle, long)]), runs)
        expected = [theirs.bert(part).last_hidden_state.flatten(0, 1) for part in (short, middle, long)]
    close(packed.last, torch.cat(expected))


@EVERY_SHAPE
@pytest.mark.parametrize("with_mask", [False, True])
@pytest.mark.parametrize("checkpointing", [False, True])
def test_every_gradient_equals_the_reference(shape, with_mask, checkpointing):
    inputs = make_inputs(shape.get("type_vocab_size", 2))
    assert_equal_gradients(*make_pair(shape), inputs, with_mask=with_mask, checkpointing=checkpointing)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, tokenizer: Tokenizer) -> Path:
    """A pre-norm BERT-tiny as bertkit saves it."""
    torch.manual_seed(0)
    model = Bert(bert_tiny(vocab_size=tokenizer.vocab_size, initializer_range=0.1, pre_norm=True)).eval()
    path = tmp_path_factory.mktemp("models") / "pre-norm"
    save_model(path, model, tokenizer)
    return path


def test_the_folder_says_what_it_is_in_keys_that_transformers_knows(folder):
    config = json.loads((folder / "config.json").read_text())
    assert (config["model_type"], config["architectures"]) == ("megatron-bert", ["MegatronBertForPreTraining"])
    assert "pre_norm" not in config
    names = load_file(folder / "model.safetensors").keys()
    assert {"bert.encoder.ln.weight", "bert.encoder.layer.1.attention.ln.bias", "bert.encoder.layer.1.ln.bias"} <= names
    assert not [name for name in names if name.startswith("bert.") and "LayerNorm" in name]


def test_auto_classes_open_the_folder_and_say_the_same(folder):
    theirs, info = AutoModel.from_pretrained(folder, output_loading_info=True)
    assert type(theirs).__name__ == "MegatronBertModel"
    assert not info["missing_keys"]
    text = "The file is closed when the block ends."
    batch = AutoTokenizer.from_pretrained(folder)(text, return_tensors="pt")
    with torch.no_grad():
        expected = theirs.eval()(**batch).last_hidden_state[0].mean(0)
    close(torch.from_numpy(load_encoder(folder).embed(text, pooling="mean")), expected)


def test_guesses_for_a_mask_equal_the_reference(folder):
    expected = pipeline("fill-mask", model=str(folder), top_k=3)("The [MASK] is closed.")
    (guesses,) = load_encoder(folder).fill_mask("The [MASK] is closed.", k=3)
    assert [guess.id for guess in guesses] == [row["token"] for row in expected]
    close(torch.tensor([g.probability for g in guesses]), torch.tensor([row["score"] for row in expected]))


@pytest.mark.parametrize("to", ["BertForMaskedLM", "MegatronBertForMaskedLM"])
def test_convert_takes_the_parts_and_keeps_the_network(folder, tmp_path, to):
    done = bertkit_command("convert", folder, tmp_path / "out", "--to", to)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["to"] == "MegatronBertForMaskedLM"
    assert ("written for MegatronBertForMaskedLM" in done.stderr) == (to == "BertForMaskedLM")
    written = ModelFolder(tmp_path / "out")
    assert (written.architecture, written.task) == ("MegatronBertForMaskedLM", "fill-mask")
    before, after = load_model(ModelFolder(folder)).model.state_dict(), load_model(written).model.state_dict()
    assert after.keys() == {name for name in before if name.startswith(("encoder.", "mlm."))}
    assert all(torch.equal(before[name], after[name]) for name in after)


def test_a_megatron_name_for_a_post_norm_model_is_taken_for_its_parts(tiny_folder, tmp_path):
    done = bertkit_command("convert", tiny_folder, tmp_path / "out", "--to", "MegatronBertModel")
    assert done.returncode == 0, done.stderr
    assert "written for BertModel" in done.stderr
    assert ModelFolder(tmp_path / "out").raw_config["model_type"] == "bert"


def test_info_tells_the_norm(folder, tiny_folder):
    pre, post = (folder_facts(str(path)) for path in (folder, tiny_folder))
    assert (pre["norm"], post["norm"]) == ("pre-norm", "post-norm")
    assert pre["architecture"] == "MegatronBertForPreTraining"
    assert pre["parameters"] == post["parameters"], "the norm after the last block instead of that of the embeddings"


def test_weights_of_the_other_norm_are_refused(folder, tiny_folder, tmp_path):
    (tmp_path / "config.json").write_bytes((folder / "config.json").read_bytes())
    (tmp_path / "model.safetensors").write_bytes((tiny_folder / "model.safetensors").read_bytes())
    with pytest.raises(
        ModelFolderError, match=r"10 tensors that config\.json asks for .* 'bert\.encoder\.layer\.0\.attention\.ln"
    ):
        load_model(ModelFolder(tmp_path))


def test_the_norm_is_no_key_of_a_config():
    with pytest.raises(ConfigError, match="pre_norm is True, and only False is supported"):
        config_from_huggingface({"model_type": "bert", "pre_norm": True}, "config.json")


def test_what_a_config_leaves_out_is_what_transformers_takes_for_it():
    theirs = config_from_huggingface(MegatronBertConfig().to_dict(), "config.json")
    assert config_from_huggingface({"model_type": "megatron-bert"}, "config.json") == theirs
    again = MegatronBertConfig(**config_to_huggingface(theirs, "MegatronBertModel"))
    assert config_from_huggingface(again.to_dict(), "config.json") == theirs
