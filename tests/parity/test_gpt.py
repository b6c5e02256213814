"""GPT and GPT-2 equal the reference: every output and attention map, every gradient, and the folders on disk, both
ways."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from test_outputs import close

from bertkit.errors import BertkitError
from bertkit.families import PRESETS, family_of, vocabulary
from bertkit.hub import ModelFolder, load_model, save_model
from bertkit.nn import Bert
from bertkit.objectives import masked_word_term
from bertkit.text import Tokenizer, draw_sample
from bertkit.text.train import train
from references import opened, shaken

WORDS = 500
GPT2, GPT = transformers.GPT2Config, transformers.OpenAIGPTConfig
SHAPES: dict[str, tuple[Any, dict[str, Any]]] = {
    "gpt2": (GPT2, {"n_embd": 48, "n_layer": 2, "n_head": 4}),
    "gpt2, one head, relu": (GPT2, {"n_embd": 32, "n_layer": 1, "n_head": 1, "activation_function": "relu"}),
    "gpt2, narrow": (GPT2, {"n_embd": 36, "n_layer": 3, "n_head": 3, "n_inner": 50, "layer_norm_epsilon": 1e-3}),
    "gpt2, padding": (GPT2, {"n_embd": 64, "n_layer": 2, "n_head": 2, "pad_token_id": 7, "embd_pdrop": 0.3}),
    "gpt": (GPT, {"n_embd": 48, "n_layer": 2, "n_head": 4}),
    "gpt, deep, silu": (GPT, {"n_embd": 24, "n_layer": 5, "n_head": 2, "afn": "silu"}),
    "gpt, wide": (GPT, {"n_embd": 128, "n_layer": 1, "n_head": 2, "layer_norm_epsilon": 1e-6}),
}
EVERY_SHAPE = pytest.mark.parametrize("shape", SHAPES)
WITH_AND_WITHOUT_HEAD = pytest.mark.parametrize("head", [True, False])
CLASSES = {
    (GPT2, True): transformers.GPT2LMHeadModel,
    (GPT2, False): transformers.GPT2Model,
    (GPT, True): transformers.OpenAIGPTLMHeadModel,
    (GPT, False): transformers.OpenAIGPTModel,
}


def reference(shape: str, *, head: bool = True, **more: Any) -> Any:
    config, settings = SHAPES[shape]
    sizes = {"vocab_size": WORDS, "n_positions": 64, "bos_token_id": 0, "eos_token_id": 0}
    return shaken(CLASSES[config, head], config(**{**sizes, **settings, **more}, attn_implementation="eager"))


def make_inputs() -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(1)
    ids = torch.randint(0, WORDS, (5, 33))
    mask = (torch.arange(33)[None] < torch.tensor([33, 1, 20, 32, 7])[:, None]).long()
    return ids, mask


@pytest.fixture(scope="session")
def tokenizers(english: list[str]) -> dict[str, Tokenizer]:
    sample = draw_sample(english, hold_out=False)
    return {name: train(sample, vocabulary(name, vocab_size=WORDS)).tokenizer for name in ("gpt", "gpt2")}


@EVERY_SHAPE
@WITH_AND_WITHOUT_HEAD
@pytest.mark.parametrize("with_mask", [False, True])
def test_every_output_equals_the_reference(shape, head, with_mask, tmp_path):
    theirs = reference(shape, head=head)
    ours = opened(theirs, tmp_path / "theirs")
    ids, mask = make_inputs()
    seen = mask.bool() if with_mask else torch.ones_like(ids, dtype=torch.bool)
    given = mask if with_mask else None
    with torch.no_grad():
        expected = theirs(ids, attention_mask=given, output_hidden_states=True, output_attentions=True)
        plain = ours.encoder(ids, given, hidden_states=True, attentions=True)
        fused = ours.encoder(ids, given, hidden_states=True)
    for a, b, c in zip(plain.hidden_states, fused.hidden_states, expected.hidden_states, strict=True):
        close(a[seen], c[seen])
        close(b[seen], c[seen])
    for a, b in zip(plain.attentions, expected.attentions, strict=True):
        close(a.transpose(1, 2)[seen], b.transpose(1, 2)[seen])
    if head:
        close(ours.word_scores(plain.last[seen]), expected.logits[seen])
    else:
        close(plain.last[seen], expected.last_hidden_state[seen])


@EVERY_SHAPE
def test_packed_sequences_equal_padded_ones(shape, tmp_path):
    ours = opened(reference(shape), tmp_path / "theirs")
    ids, _ = make_inputs()
    parts = [ids[:2, :9], ids[2:3, :20], ids[3:]]
    with torch.no_grad():
        packed = ours.encoder.packed(torch.cat([part.flatten() for part in parts]), [(2, 9), (1, 20), (2, 33)])
        expected = torch.cat([ours.encoder(part).last.flatten(0, 1) for part in parts])
    close(packed.last, expected)


@EVERY_SHAPE
def test_a_later_token_never_moves_an_earlier_output(shape, tmp_path):
    ours = opened(reference(shape), tmp_path / "theirs")
    ids, _ = make_inputs()
    changed = ids.clone()
    changed[:, 20:] = (changed[:, 20:] + 1) % WORDS
    with torch.no_grad():
        before, after = ours.encoder(ids).last, ours.encoder(changed).last
    assert torch.equal(before[:, :20], after[:, :20])
    assert not torch.isclose(before[:, 20:], after[:, 20:]).all(-1).any()


@EVERY_SHAPE
def test_gradients_equal_the_reference(shape, tmp_path):
    theirs = reference(shape)
    ours = opened(theirs, tmp_path / "theirs")
    ids, _ = make_inputs()
    loss = theirs(ids, labels=ids).loss
    loss.backward()
    labels = ids[:, 1:].flatten()
    term = masked_word_term(ours, ours.encoder(ids).last[:, :-1].flatten(0, 1), labels)
    (term.total / term.count).backward()
    close(term.total / term.count, loss)
    family = family_of(ours.config).files_for(ours.config)
    gradients = {family.canonical(name): each.grad for name, each in theirs.named_parameters()}
    found = family.to_theirs({name: each.grad for name, each in ours.named_parameters()}, ours.config)
    assert found.keys() == gradients.keys()
    for name, gradient in found.items():
        close(gradient, gradients[name], 1e-4)


@EVERY_SHAPE
@WITH_AND_WITHOUT_HEAD
def test_folders_open_both_ways_with_the_same_bits(shape, head, tmp_path, tokenizers):
    theirs = reference(shape, head=head)
    ours = opened(theirs, tmp_path / "theirs")
    form = family_of(ours.config).tokenizer
    tokenizer = next(each for each in tokenizers.values() if each.form.name == form)
    save_model(tmp_path / "ours", ours, tokenizer, architecture=type(theirs).__name__)
    again, report = type(theirs).from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    for name, tensor in theirs.state_dict().items():
        assert torch.equal(again.state_dict()[name], tensor), name
    assert load_file(tmp_path / "theirs" / "model.safetensors").keys() == (
        load_file(tmp_path / "ours" / "model.safetensors").keys()
    )
    said = json.loads((tmp_path / "ours" / "config.json").read_text())
    for key, value in SHAPES[shape][1].items():
        assert said[key] == value or key == "embd_pdrop"
    assert said["eos_token_id"] == tokenizer.eos_id
    assert ModelFolder(tmp_path / "ours").tokenizer().sha256() == tokenizer.sha256()


def test_an_output_matrix_of_its_own_is_kept(tmp_path, tokenizers):
    theirs = reference("gpt2", tie_word_embeddings=False)
    ours = opened(theirs, tmp_path / "theirs")
    ids, _ = make_inputs()
    with torch.no_grad():
        close(ours.word_scores(ours.encoder(ids).last), theirs(ids).logits)
    save_model(tmp_path / "ours", ours, tokenizers["gpt2"])
    again, report = transformers.GPT2LMHeadModel.from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not report["missing_keys"] | report["unexpected_keys"]
    assert torch.equal(again.lm_head.weight, theirs.lm_head.weight)


@pytest.mark.parametrize("shape", ["gpt2", "gpt"])
def test_published_files_open_with_masks_among_the_weights_and_bare_names(shape, tmp_path):
    theirs = reference(shape)
    theirs.save_pretrained(tmp_path)
    file = tmp_path / "model.safetensors"
    bare = {name.removeprefix("transformer."): tensor for name, tensor in load_file(file).items()}
    layers = {name.split(".")[1] for name in bare if name.startswith("h.")}
    masks = {f"h.{layer}.attn.bias": torch.ones(1, 1, 64, 64).tril() for layer in layers}
    masks |= {f"h.{layer}.attn.masked_bias": torch.tensor(-1e4) for layer in layers}
    save_file({**bare, **masks}, file, metadata={"format": "pt"})
    ours = load_model(ModelFolder(tmp_path)).model
    ids, _ = make_inputs()
    with torch.no_grad():
        close(ours.word_scores(ours.encoder(ids).last), theirs(ids).logits)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("scale_attn_by_inverse_layer_idx", True),
        ("reorder_and_upcast_attn", True),
        ("add_cross_attention", True),
        ("scale_attn_weights", False),
    ],
)
def test_what_would_compute_something_else_is_refused(key, value, tmp_path):
    reference("gpt2").save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, key: value}))
    with pytest.raises(BertkitError, match=f"{key} is {value}, and only {not value} is supported"):
        ModelFolder(tmp_path)


def test_matrices_that_are_not_transposed_are_refused(tmp_path):
    reference("gpt2").save_pretrained(tmp_path)
    file = tmp_path / "model.safetensors"
    tensors = load_file(file)
    name = "transformer.h.0.mlp.c_fc.weight"
    save_file({**tensors, name: tensors[name].t().contiguous()}, file, metadata={"format": "pt"})
    with pytest.raises(
        BertkitError, match=r"'transformer.h.0.mlp.c_fc.weight' is 192 x 48, and by config.json it is 48"
    ):
        load_model(ModelFolder(tmp_path))


def test_parameters_are_as_published():
    published = {
        "gpt": 116_534_784,
        "gpt2": 124_439_808,
        "gpt2-medium": 354_823_168,
        "gpt2-large": 774_030_080,
        "gpt2-xl": 1_557_611_200,
    }
    for name, count in published.items():
        made = Bert.without_weights(PRESETS[name](), pooler=False, nsp=False)
        assert made.parameter_count() == count, name


def test_gpt2_begins_with_small_additions_to_the_sum():
    torch.manual_seed(0)
    model = Bert(PRESETS["gpt2-mini"](vocab_size=100), pooler=False, nsp=False)
    for block in model.encoder.blocks:
        assert block.attention.output.weight.std().item() == pytest.approx(0.02 / 8**0.5, rel=0.02)
        assert block.feed_forward.narrow.weight.std().item() == pytest.approx(0.02 / 8**0.5, rel=0.02)
        assert block.feed_forward.widen.weight.std().item() == pytest.approx(0.02, rel=0.02)
