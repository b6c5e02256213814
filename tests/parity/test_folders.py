"""Folders of the Hugging Face world, in all their spellings, open here; ours open there; nothing changes on the way."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import (
    AutoModel,
    BertForMaskedLM,
    BertForPreTraining,
    BertForSequenceClassification,
    BertModel,
    MegatronBertForPreTraining,
)

from bertkit.families import bert_tiny
from bertkit.hub import ModelFolder, architecture_of, load_model, save_model
from bertkit.nn import Bert
from bertkit.text import Tokenizer

PARTS = {
    "Model": [True, False, False],
    "ForMaskedLM": [False, True, False],
    "ForPreTraining": [True, True, True],
    "ForNextSentencePrediction": [True, False, True],
}
"""Whether a class has a pooler, a masked-word head, a next-sentence head."""
CLASSES = {
    f"{kind}{name}": getattr(transformers, f"{kind}{name}") for kind in ("Bert", "MegatronBert") for name in PARTS
}


@pytest.fixture
def reference(tmp_path: Path, tokenizer: Tokenizer):
    """Makes a folder as transformers saves it, of a class with random weights; returns both."""

    def make(kind: type, **settings):
        torch.manual_seed(7)
        sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
        model = kind(kind.config_class(vocab_size=tokenizer.vocab_size, **sizes, **settings)).eval()
        folder = tmp_path / "theirs"
        model.save_pretrained(folder)
        tokenizer.save(folder)
        return model, folder

    return make


def inputs() -> torch.Tensor:
    torch.manual_seed(3)
    return torch.randint(5, 400, (3, 12))


def agrees(ours: Bert, theirs: torch.nn.Module) -> None:
    ids = inputs()
    with torch.no_grad():
        last = ours.encoder(ids).last
        base = theirs.bert if hasattr(theirs, "bert") else theirs
        torch.testing.assert_close(last, base(ids).last_hidden_state, rtol=0, atol=1e-5)
        output = theirs(ids)
        if ours.mlm is not None:
            logits = output.prediction_logits if hasattr(output, "prediction_logits") else output.logits
            torch.testing.assert_close(ours.word_scores(last), logits, rtol=0, atol=1e-5)
        if ours.nsp is not None:
            logits = output.seq_relationship_logits if hasattr(output, "seq_relationship_logits") else output.logits
            torch.testing.assert_close(ours.next_sentence_scores(last), logits, rtol=0, atol=1e-5)


def rewrite(folder: Path, change) -> None:
    """Replace the tensors of a folder by what `change` makes of them."""
    tensors = change(load_file(folder / "model.safetensors"))
    save_file({name: tensor.clone() for name, tensor in tensors.items()}, folder / "model.safetensors")


@pytest.mark.parametrize("name", CLASSES)
def test_their_folder_opens_here(reference, name):
    theirs, folder = reference(CLASSES[name])
    ours, notes = load_model(ModelFolder(folder))
    assert notes == []
    assert [ours.pooler is not None, ours.mlm is not None, ours.nsp is not None] == PARTS[name.split("Bert")[1]]
    assert ours.config.pre_norm == name.startswith("Megatron")
    assert architecture_of(ours) == name
    agrees(ours, theirs)


@pytest.mark.parametrize("name", CLASSES)
def test_our_folder_opens_there_with_no_key_missing_or_unexpected(tokenizer, tmp_path, name):
    torch.manual_seed(0)
    pre_norm = name.startswith("Megatron")
    model = Bert(bert_tiny(vocab_size=tokenizer.vocab_size, initializer_range=0.1, pre_norm=pre_norm)).eval()
    save_model(tmp_path / "ours", model, tokenizer, architecture=name)
    theirs, info = CLASSES[name].from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not any(info.values()), info
    reloaded, _ = load_model(ModelFolder(tmp_path / "ours"))
    agrees(reloaded, theirs.eval())


@pytest.mark.parametrize("name", CLASSES)
def test_the_round_trip_is_bit_equal(reference, tokenizer, tmp_path, name):
    _, folder = reference(CLASSES[name])
    ours, _ = load_model(ModelFolder(folder))
    save_model(tmp_path / "ours", ours, tokenizer)
    before, after = load_file(folder / "model.safetensors"), load_file(tmp_path / "ours" / "model.safetensors")
    assert before.keys() == after.keys()
    assert all(torch.equal(before[key], after[key]) for key in before)
    theirs = CLASSES[name].from_pretrained(tmp_path / "ours")
    theirs.save_pretrained(tmp_path / "again")
    again = load_file(tmp_path / "again" / "model.safetensors")
    assert before.keys() == again.keys()
    assert all(torch.equal(before[key], again[key]) for key in before)


def test_old_names_gamma_and_beta(reference):
    theirs, folder = reference(BertForPreTraining)
    rewrite(
        folder,
        lambda tensors: {
            name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): tensor
            for name, tensor in tensors.items()
        },
    )
    agrees(load_model(ModelFolder(folder)).model, theirs)


def test_encoder_with_the_prefix_and_leftovers_of_training(reference):
    """`bert.` before a bare encoder's names, `module.` before that, and a buffer that is no weight."""
    theirs, folder = reference(BertModel)
    rewrite(
        folder,
        lambda tensors: (
            {f"module.bert.{name}": tensor for name, tensor in tensors.items()}
            | {"module.bert.embeddings.position_ids": torch.arange(512)[None]}
        ),
    )
    agrees(load_model(ModelFolder(folder)).model, theirs)


def test_pretraining_heads_beside_an_encoder_without_prefix(reference):
    theirs, folder = reference(BertForPreTraining)
    rewrite(folder, lambda tensors: {name.removeprefix("bert."): tensor for name, tensor in tensors.items()})
    agrees(load_model(ModelFolder(folder)).model, theirs)


def test_a_missing_pooler_is_no_error(reference):
    theirs, folder = reference(BertModel)
    rewrite(folder, lambda tensors: {name: t for name, t in tensors.items() if "pooler" not in name})
    ours, _ = load_model(ModelFolder(folder))
    assert ours.pooler is None
    agrees(ours, theirs)


def test_a_decoder_stored_a_second_time_is_still_tied(reference):
    theirs, folder = reference(BertForPreTraining)

    def with_copies(tensors):
        embedding, bias = tensors["bert.embeddings.word_embeddings.weight"], tensors["cls.predictions.bias"]
        return tensors | {"cls.predictions.decoder.weight": embedding, "cls.predictions.decoder.bias": bias}

    rewrite(folder, with_copies)
    ours, notes = load_model(ModelFolder(folder))
    assert ours.mlm is not None
    assert ours.mlm.decoder is None
    assert notes == []
    agrees(ours, theirs)


def test_only_the_decoder_has_the_bias(reference):
    theirs, folder = reference(BertForMaskedLM)
    with torch.no_grad():
        theirs.cls.predictions.bias.normal_()
    theirs.save_pretrained(folder)
    rewrite(
        folder,
        lambda tensors: {
            name.replace("cls.predictions.bias", "cls.predictions.decoder.bias"): t for name, t in tensors.items()
        },
    )
    agrees(load_model(ModelFolder(folder)).model, theirs)


def test_no_bias_at_all_is_zero_and_said(reference):
    theirs, folder = reference(BertForMaskedLM)
    rewrite(folder, lambda tensors: {name: t for name, t in tensors.items() if name != "cls.predictions.bias"})
    ours, notes = load_model(ModelFolder(folder))
    assert "no bias" in notes[0]
    agrees(ours, theirs)  # theirs starts with zeros


@pytest.mark.parametrize("kind", [BertForPreTraining, MegatronBertForPreTraining])
def test_an_untied_decoder_stays_untied_both_ways(reference, tokenizer, tmp_path, kind):
    theirs, folder = reference(kind, tie_word_embeddings=False)
    assert "cls.predictions.decoder.weight" in load_file(folder / "model.safetensors")
    ours, notes = load_model(ModelFolder(folder))
    assert "of its own" in notes[0]
    agrees(ours, theirs)
    save_model(tmp_path / "ours", ours, tokenizer)
    again, info = kind.from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not any(info.values()), info
    agrees(ours, again.eval())


def test_a_sharded_folder_opens_and_ours_can_be_sharded(reference, tokenizer, tmp_path):
    theirs, folder = reference(BertForPreTraining)
    (folder / "model.safetensors").unlink()
    theirs.save_pretrained(folder, max_shard_size="100KB")
    assert len(list(folder.glob("model-*.safetensors"))) > 1
    ours, _ = load_model(ModelFolder(folder))
    agrees(ours, theirs)
    save_model(tmp_path / "ours", ours, tokenizer, shard_bytes=100_000)
    assert len(list((tmp_path / "ours").glob("model-*.safetensors"))) > 1
    agrees(ours, BertForPreTraining.from_pretrained(tmp_path / "ours").eval())
    agrees(load_model(ModelFolder(tmp_path / "ours")).model, theirs)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_float_types_become_float32(reference, dtype):
    _, folder = reference(BertModel)
    before = load_file(folder / "model.safetensors")
    rewrite(folder, lambda tensors: {name: tensor.to(dtype) for name, tensor in tensors.items()})
    ours, _ = load_model(ModelFolder(folder))
    word = ours.encoder.embeddings.word.weight
    assert torch.equal(word, before["embeddings.word_embeddings.weight"].to(dtype).float())


@pytest.mark.parametrize("kind", [BertForSequenceClassification, transformers.MegatronBertForSequenceClassification])
def test_the_head_of_a_fine_tuned_model_is_left_out_and_said(reference, kind):
    theirs, folder = reference(kind)
    ours, notes = load_model(ModelFolder(folder))
    assert ModelFolder(folder).task == "classify"
    assert notes == ["the head of a fine-tuned model was left out: classifier"]
    with torch.no_grad():
        expected = theirs.bert(inputs()).last_hidden_state
        torch.testing.assert_close(ours.encoder(inputs()).last, expected, rtol=0, atol=1e-5)


def test_a_config_without_model_type_as_the_first_checkpoints_had(reference):
    theirs, folder = reference(BertModel)
    config = json.loads((folder / "config.json").read_text())
    keep = {
        "vocab_size",
        "hidden_size",
        "num_hidden_layers",
        "num_attention_heads",
        "intermediate_size",
        "type_vocab_size",
    }
    (folder / "config.json").write_text(json.dumps({key: config[key] for key in keep}))
    agrees(load_model(ModelFolder(folder)).model, theirs)


def test_auto_model_opens_ours(tiny_folder):
    assert type(AutoModel.from_pretrained(tiny_folder)).__name__ == "BertModel"


def test_a_vocabulary_smaller_than_a_padded_embedding_is_accepted(reference, tokenizer):
    _, folder = reference(BertModel)
    config = json.loads((folder / "config.json").read_text())
    config["vocab_size"] = rows = (tokenizer.vocab_size + 70) // 64 * 64
    (folder / "config.json").write_text(json.dumps(config))

    def padded(tensors):
        name = "embeddings.word_embeddings.weight"
        return tensors | {name: torch.nn.functional.pad(tensors[name], (0, 0, 0, rows - tokenizer.vocab_size))}

    rewrite(folder, padded)
    opened = ModelFolder(folder)
    assert opened.tokenizer().vocab_size == tokenizer.vocab_size
    assert load_model(opened).model.encoder.embeddings.word.weight.shape[0] == rows
