"""RoBERTa, ALBERT, ELECTRA and DistilBERT equal the reference: every output, packed or padded, every gradient, and the
folders on disk, both ways."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from test_outputs import close

from bertkit.errors import BertkitError
from bertkit.families import family_of, vocabulary
from bertkit.hub import ModelFolder, load_fine_tuned, load_model, save_model
from bertkit.nn import Bert
from bertkit.text import Tokenizer, draw_sample
from bertkit.text.train import train
from references import opened, shaken

SIZES = {"vocab_size": 500, "hidden_size": 48, "num_attention_heads": 4, "intermediate_size": 96}


class Kind(NamedTuple):
    """A class of transformers, its configuration, and how its answer is had from both sides."""

    config: Callable[..., Any]
    model: Any
    settings: dict[str, Any]
    theirs: Callable[[Any], torch.Tensor]
    ours: Callable[[Bert, torch.Tensor], torch.Tensor]


def _hidden(model: Bert, x: torch.Tensor) -> torch.Tensor:
    return x


def _words(model: Bert, x: torch.Tensor) -> torch.Tensor:
    return model.word_scores(x)


DISTIL = {"vocab_size": 500, "dim": 48, "n_heads": 4, "hidden_dim": 96, "max_position_embeddings": 64}
KINDS = {
    "roberta": Kind(
        transformers.RobertaConfig,
        transformers.RobertaForMaskedLM,
        {**SIZES, "num_hidden_layers": 2, "max_position_embeddings": 66, "type_vocab_size": 1, "layer_norm_eps": 1e-5},
        lambda out: out.logits,
        _words,
    ),
    "roberta, padding as token 3, relu": Kind(
        transformers.RobertaConfig,
        transformers.RobertaForMaskedLM,
        {
            **SIZES,
            "num_hidden_layers": 3,
            "max_position_embeddings": 70,
            "type_vocab_size": 2,
            "pad_token_id": 3,
            "hidden_act": "relu",
        },
        lambda out: out.logits,
        _words,
    ),
    "roberta, bare": Kind(
        transformers.RobertaConfig,
        transformers.RobertaModel,
        {**SIZES, "num_hidden_layers": 1, "max_position_embeddings": 66, "type_vocab_size": 1},
        lambda out: out.pooler_output,
        lambda model, x: model.pool(x),
    ),
    "albert": Kind(
        transformers.AlbertConfig,
        transformers.AlbertForMaskedLM,
        {**SIZES, "num_hidden_layers": 4, "embedding_size": 16, "max_position_embeddings": 64},
        lambda out: out.logits,
        _words,
    ),
    "albert, three groups": Kind(
        transformers.AlbertConfig,
        transformers.AlbertForMaskedLM,
        {**SIZES, "num_hidden_layers": 7, "num_hidden_groups": 3, "embedding_size": 48, "max_position_embeddings": 64},
        lambda out: out.logits,
        _words,
    ),
    "albert, fourteen groups of eighteen layers": Kind(
        transformers.AlbertConfig,
        transformers.AlbertForMaskedLM,
        {**SIZES, "num_hidden_layers": 18, "num_hidden_groups": 14, "embedding_size": 8, "max_position_embeddings": 64},
        lambda out: out.logits,
        _words,
    ),
    "albert, sentence order": Kind(
        transformers.AlbertConfig,
        transformers.AlbertForPreTraining,
        {**SIZES, "num_hidden_layers": 2, "embedding_size": 24, "max_position_embeddings": 64},
        lambda out: out.sop_logits,
        lambda model, x: model.next_sentence_scores(x),
    ),
    "electra, generator": Kind(
        transformers.ElectraConfig,
        transformers.ElectraForMaskedLM,
        {**SIZES, "num_hidden_layers": 2, "embedding_size": 32, "max_position_embeddings": 64, "hidden_act": "relu"},
        lambda out: out.logits,
        _words,
    ),
    "electra, discriminator": Kind(
        transformers.ElectraConfig,
        transformers.ElectraForPreTraining,
        {**SIZES, "num_hidden_layers": 2, "embedding_size": 32, "max_position_embeddings": 64},
        lambda out: out.logits,
        lambda model, x: model.replaced_scores(x),
    ),
    "electra, one width": Kind(
        transformers.ElectraConfig,
        transformers.ElectraModel,
        {**SIZES, "num_hidden_layers": 3, "embedding_size": 48, "max_position_embeddings": 64},
        lambda out: out.last_hidden_state,
        _hidden,
    ),
    "distilbert": Kind(
        transformers.DistilBertConfig,
        transformers.DistilBertForMaskedLM,
        {**DISTIL, "n_layers": 3},
        lambda out: out.logits,
        _words,
    ),
    "distilbert, waves": Kind(
        transformers.DistilBertConfig,
        transformers.DistilBertModel,
        {**DISTIL, "n_layers": 1, "sinusoidal_pos_embds": True},
        lambda out: out.last_hidden_state,
        _hidden,
    ),
}
EVERY_KIND = pytest.mark.parametrize("kind", KINDS)


def reference(kind: Kind) -> Any:
    return shaken(kind.model, kind.config(**kind.settings))


def make_inputs() -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(1)
    ids = torch.randint(5, 500, (5, 33))
    mask = (torch.arange(33)[None] < torch.tensor([33, 1, 20, 32, 7])[:, None]).long()
    return ids, mask


@EVERY_KIND
@pytest.mark.parametrize("with_mask", [False, True])
def test_every_output_equals_the_reference(kind, with_mask, tmp_path):
    kind = KINDS[kind]
    theirs = reference(kind)
    ours = opened(theirs, tmp_path / "theirs")
    ids, mask = make_inputs()
    seen = mask.bool() if with_mask else torch.ones_like(ids, dtype=torch.bool)
    filled = ids.masked_fill(~seen, theirs.config.pad_token_id)
    mask = mask if with_mask else None
    with torch.no_grad():
        expected = theirs(filled, attention_mask=mask, output_hidden_states=True)
        found = ours.encoder(filled, mask, hidden_states=True)
        answer, wanted = kind.ours(ours, found.last), kind.theirs(expected)
    for a, b in zip(found.hidden_states, expected.hidden_states, strict=True):
        close(a[seen], b[seen])
    same_places = wanted.shape[:2] == seen.shape
    close(answer[seen] if same_places else answer, wanted[seen] if same_places else wanted)


@EVERY_KIND
def test_packed_sequences_equal_padded_ones(kind, tmp_path):
    ours = opened(reference(KINDS[kind]), tmp_path / "theirs")
    ids, _ = make_inputs()
    parts = [ids[:2, :9], ids[2:3, :20], ids[3:]]
    with torch.no_grad():
        packed = ours.encoder.packed(torch.cat([part.flatten() for part in parts]), [(2, 9), (1, 20), (2, 33)])
        expected = torch.cat([ours.encoder(part).last.flatten(0, 1) for part in parts])
    close(packed.last, expected)


@EVERY_KIND
def test_gradients_equal_the_reference(kind, tmp_path):
    kind = KINDS[kind]
    theirs = reference(kind)
    ours = opened(theirs, tmp_path / "theirs")
    ids, _ = make_inputs()
    (kind.theirs(theirs(ids)) ** 2).mean().backward()
    (kind.ours(ours, ours.encoder(ids).last) ** 2).mean().backward()
    close(ours.encoder.embeddings.word.weight.grad, theirs.get_input_embeddings().weight.grad)
    family = family_of(ours.config).files_for(ours.config)
    gradients = {family.canonical(name): each.grad for name, each in theirs.named_parameters() if each.grad is not None}
    mine = {name: each.grad for name, each in ours.named_parameters() if each.grad is not None}
    compared = 0
    for name, gradient in family.to_theirs(mine, ours.config).items():
        close(gradient, gradients[name], 1e-4)
        compared += 1
    assert compared == len(gradients)


@EVERY_KIND
def test_folders_open_both_ways_with_the_same_bits(kind, tmp_path, tokenizers):
    theirs = reference(KINDS[kind])
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
    for key in KINDS[kind].settings:
        assert said.get(key, getattr(theirs.config, key)) == getattr(theirs.config, key)


@pytest.fixture(scope="session")
def tokenizers(english: list[str]) -> dict[str, Tokenizer]:
    sample = draw_sample(english, hold_out=False)
    return {name: train(sample, vocabulary(name, vocab_size=500)).tokenizer for name in ("bert", "roberta", "albert")}


def test_parameters_of_albert_as_published():
    from bertkit.families import PRESETS

    published = {"albert-base": 12e6, "albert-large": 18e6, "albert-xlarge": 60e6, "albert-xxlarge": 235e6}
    for name, count in published.items():
        made = Bert.without_weights(PRESETS[name](), nsp=False, mlm=False).parameter_count()
        assert made == pytest.approx(count, rel=0.06), name


@pytest.mark.parametrize("name", ["roberta", "albert", "electra, discriminator"])
def test_weights_of_one_family_in_anothers_config_are_refused(name, tmp_path):
    opened(reference(KINDS[name]), tmp_path / "theirs")
    config = json.loads((tmp_path / "theirs" / "config.json").read_text())
    sizes = {*SIZES, "num_hidden_layers", "max_position_embeddings"}
    kept = {key: value for key, value in config.items() if key in sizes}
    (tmp_path / "theirs" / "config.json").write_text(json.dumps({**kept, "model_type": "bert"}))
    with pytest.raises(BertkitError, match="tensors"):
        load_model(ModelFolder(tmp_path / "theirs"))


def test_a_classifier_saved_with_a_pooler_that_it_does_not_use_opens(tmp_path, tokenizers):
    theirs = reference(KINDS["roberta, bare"])
    config = theirs.config
    config.vocab_size = tokenizers["roberta"].vocab_size
    torch.manual_seed(3)
    classifier = transformers.RobertaForSequenceClassification(config).eval()
    classifier.save_pretrained(tmp_path / "theirs")
    tokenizers["roberta"].save(tmp_path / "theirs")
    file = tmp_path / "theirs" / "model.safetensors"
    unused = {"roberta.pooler.dense.weight": torch.randn(48, 48), "roberta.pooler.dense.bias": torch.randn(48)}
    save_file({**load_file(file), **unused}, file, metadata={"format": "pt"})
    model = load_fine_tuned(ModelFolder(tmp_path / "theirs")).model
    assert torch.equal(model.network.pooler.dense.weight, classifier.classifier.dense.weight)
    assert torch.equal(model.dense.weight, classifier.classifier.out_proj.weight)


@pytest.mark.parametrize(("name", "head"), [("albert", "predictions"), ("roberta", "lm_head")])
def test_of_two_biases_of_the_masked_word_head_the_decoders_counts(name, head, tmp_path):
    theirs = reference(KINDS[name])
    theirs.save_pretrained(tmp_path)
    file = tmp_path / "model.safetensors"
    two = {f"{head}.bias": torch.randn(500), f"{head}.decoder.bias": torch.randn(500)}
    save_file({**load_file(file), **two}, file, metadata={"format": "pt"})
    ours, notes = load_model(ModelFolder(tmp_path))
    assert any("that of the decoder is used" in note for note in notes)
    ids, _ = make_inputs()
    with torch.no_grad():
        expected = type(theirs).from_pretrained(tmp_path).eval()(ids).logits
        close(ours.word_scores(ours.encoder(ids).last), expected)


def test_an_electra_discriminator_is_no_model_that_fills_masks(tmp_path, tokenizers):
    ours = opened(reference(KINDS["electra, discriminator"]), tmp_path / "theirs")
    assert ModelFolder(tmp_path / "theirs").task == "embed"
    save_model(tmp_path / "ours", ours, tokenizers["bert"])
    assert ModelFolder(tmp_path / "ours").task == "embed"


def test_another_family_is_named_before_its_settings_are(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"max_relative_positions": -1, "model_type": "deberta"}))
    with pytest.raises(BertkitError, match="model_type is 'deberta'"):
        ModelFolder(tmp_path)
