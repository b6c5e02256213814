"""Folders as other programs leave them: what is not ours is told and left out, what cannot be read says the way."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import bertkit
from bertkit.cli.info import folder_facts
from bertkit.errors import BertkitError, InputError, Notice, TokenizerError
from bertkit.families import PRESETS
from bertkit.hub import ModelFolder, load_fine_tuned, load_model, save_fine_tuned, save_model
from bertkit.nn import Bert
from bertkit.text import Tokenizer
from servers import TASKS, new_model


@pytest.fixture
def folder(tiny_folder: Path, tmp_path: Path) -> Path:
    copy = tmp_path / "others"
    shutil.copytree(tiny_folder, copy)
    (copy / "bertkit.json").unlink()
    return copy


def change(folder: Path, renamed: str = "", **more: torch.Tensor) -> None:
    tensors = load_file(folder / "model.safetensors")
    kept = {f"{renamed}{name}": tensor for name, tensor in tensors.items()}
    save_file(
        {**kept, **{name.replace("__", "."): tensor for name, tensor in more.items()}}, folder / "model.safetensors"
    )


def test_tensors_that_are_no_berts_are_listed_and_left_out(folder: Path):
    before = load_model(ModelFolder(folder)).model.state_dict()
    change(folder, adapter__down=torch.ones(3), bert__encoder__extra__weight=torch.ones(2))
    with pytest.warns(
        Notice, match=r"2 tensors .* are none of BERT's and are left out: 'adapter.down', 'bert.encoder.e"
    ):
        after = load_model(ModelFolder(folder)).model.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_what_is_missing_is_refused_with_what_is_there_instead(folder: Path):
    tensors = load_file(folder / "model.safetensors")
    tensors["bert.encoder.layer.0.attention.self.query_proj.weight"] = tensors.pop(
        "bert.encoder.layer.0.attention.self.query.weight"
    )
    save_file(tensors, folder / "model.safetensors")
    with pytest.raises(
        BertkitError, match=r"1 tensors that .*self.query.weight'; there are others: .*query_proj.weight"
    ):
        load_model(ModelFolder(folder))


@pytest.mark.parametrize("prefix", ["text_model.", "model.network."])
def test_a_model_that_is_a_part_of_another_is_read_alone(folder: Path, prefix: str):
    before = load_model(ModelFolder(folder)).model.state_dict()
    change(folder, prefix, image__proj=torch.ones(2))
    with pytest.warns(Notice, match="is a part of another"):
        after = load_model(ModelFolder(folder)).model.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_a_classifier_inside_another_model_keeps_its_head(tiny: Bert, tokenizer: Tokenizer, tmp_path: Path):
    task = TASKS["classify"]
    save_fine_tuned(tmp_path / "m", new_model(tiny, task), task, tokenizer, metrics={}, provenance={})
    (tmp_path / "m" / "bertkit.json").unlink()
    before = load_fine_tuned(ModelFolder(tmp_path / "m")).model.state_dict()
    change(tmp_path / "m", "model.")
    after = load_fine_tuned(ModelFolder(tmp_path / "m")).model.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_two_models_in_one_are_refused(folder: Path):
    tensors = load_file(folder / "model.safetensors")
    both = {f"{part}.{name}": tensor.clone() for part in ("one", "other") for name, tensor in tensors.items()}
    save_file(both, folder / "model.safetensors")
    with pytest.raises(BertkitError, match=r"2 models in the weights, 'one.*save_pretrained"):
        load_model(ModelFolder(folder))


@pytest.mark.parametrize(
    ("files", "told"),
    [
        (("bert_model.ckpt.index", "bert_config.json"), "checkpoint of TensorFlow.*convert_bert_original_tf"),
        (("config.json", "tf_model.h5"), "checkpoint of TensorFlow.*from_tf=True"),
        (("config.json", "flax_model.msgpack"), "checkpoint of Flax.*from_flax=True"),
        (("model.pt", "dict.txt"), "checkpoint of fairseq.*convert_roberta_original"),
        (("modules.json", "0_Transformer/config.json", "0_Transformer/model.safetensors"), "Name that one: .*0_Trans"),
        (("config.json", "pytorch_model.bin", "tf_model.h5"), "--read-pickle"),
    ],
)
def test_checkpoints_of_other_programs_are_known_and_the_way_is_told(tmp_path: Path, files: tuple[str, ...], told: str):
    for name in files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(json.dumps({"model_type": "bert"}))
    with pytest.raises(BertkitError, match=told):
        load_model(ModelFolder(tmp_path))


def test_a_gpt_without_a_tokenizer_opens_for_ids(tokenizer: Tokenizer, tmp_path: Path):
    sizes = {"vocab_size": 100, "max_position_embeddings": 32}
    save_model(tmp_path / "m", Bert(PRESETS["gpt2-tiny"](**sizes), pooler=False, nsp=False), tokenizer, manifest=False)
    for name in ("tokenizer.json", "tokenizer_config.json", "vocab.txt"):
        (tmp_path / "m" / name).unlink()
    with pytest.warns(Notice, match="no tokenizer, so texts are ids"):
        writer = bertkit.load(tmp_path / "m")
    (whole,) = writer("4 17 99", max_new_tokens=3)
    assert [int(word) for word in whole.text.split()] == whole.ids
    assert writer.encoder.embed(["4 17", "99"]).shape[0] == 2
    assert folder_facts(str(tmp_path / "m"))["task"] == "generate"
    with pytest.raises(TokenizerError, match="learns nothing from texts"):
        writer.encoder.tokenizer.for_tasks()
    with pytest.raises(InputError, match="'cat' is no id from 0 to 99"):
        writer("the cat"[4:], max_new_tokens=3)
