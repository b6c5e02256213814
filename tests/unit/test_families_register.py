"""A family of another package, additions/two_ways.py, is used like all others."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from two_ways import TWO_WAYS, TwoWaysConfig

import bertkit
from bertkit.errors import BertkitError, ConfigError, ModelFolderError, UsageError
from bertkit.families import FAMILIES, PRESETS, family_of, register
from bertkit.hub import ModelFolder, load_fine_tuned, load_model, save_fine_tuned, save_model
from bertkit.infer.export import export
from bertkit.nn import FineTuned, SaysWords, lay_out
from bertkit.tasks import Classify
from bertkit.text import Tokenizer
from bertkit.train import FinetuneRequest, FitSettings, Optimizers, OptimizerSettings, Transfer
from bertkit.train.fit import fit
from bertkit.train.fit_job import new_model
from fitting import sentences


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    register(TWO_WAYS)
    yield
    del FAMILIES["two-ways"], PRESETS["two-ways-tiny"]


@pytest.fixture
def folder(tmp_path: Path, tokenizer: Tokenizer) -> Path:
    torch.manual_seed(0)
    config = PRESETS["two-ways-tiny"](vocab_size=tokenizer.vocab_size)
    save_model(tmp_path / "made", family_of(config).build(config, needs=(SaysWords,)), tokenizer)
    return tmp_path / "made"


def test_it_is_one_of_the_families_and_not_twice():
    assert family_of(TwoWaysConfig()).title == "Two Ways"
    assert TwoWaysConfig.from_json(TwoWaysConfig(hidden_size=8).to_json()).hidden_size == 8
    register(TWO_WAYS)
    with pytest.raises(UsageError, match="there is a 'two-ways-tiny' already"):
        register(replace(TWO_WAYS, name="other"))


def test_its_folder_opens_with_the_same_bits_and_gives_vectors_and_words(folder: Path, tokenizer: Tokenizer):
    opened = ModelFolder(folder)
    assert json.loads((folder / "config.json").read_text())["model_type"] == "two-ways"
    assert (opened.family.name, opened.task, opened.manifest["family"]) == ("two-ways", "fill-mask", "two-ways")
    model = load_model(opened).model
    assert opened.parameters == model.parameter_count()
    encoder = bertkit.load_encoder(folder)
    texts = ["a short text", "another one, which is longer"]
    one, other = encoder.embed(texts)
    ids = [(each.ids, each.segments) for each in map(tokenizer.encode, texts)]
    inputs = lay_out(ids, packed=False, pad_id=0)
    with torch.inference_mode():
        expected = inputs.means(model.read(inputs))
    torch.testing.assert_close(torch.tensor([one.tolist(), other.tolist()]), expected, rtol=1e-5, atol=1e-6)
    assert encoder.embed("a", layers="concat:0..2").shape == (96,)
    assert len(bertkit.load(folder)("the [MASK] is")[0]) == 5


def test_what_it_cannot_do_is_a_sentence(folder: Path, tmp_path: Path, tokenizer: Tokenizer):
    encoder = bertkit.load_encoder(folder)
    with pytest.raises(UsageError, match="Its network has no attention"):
        encoder.attention("a text")
    with pytest.raises(UsageError, match="a two-ways model cannot be exported"):
        export(ModelFolder(folder), tmp_path / "exported")
    task = Classify(classes=("bad", "good"), max_length=32)
    model = new_model(ModelFolder(folder), task, FinetuneRequest(task="classify", train="", start=str(folder)), 0)
    with pytest.raises(UsageError, match=r"`lora` for a two-ways model.*no matrices to stand beside"):
        taught(model, task, tokenizer, Transfer(lora=4))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda config: config | {"residuals": True}, "config.json: unknown key 'residuals'.*'residual'"),
        (lambda config: config | {"residual": 1}, "config.json: residual is 1. It must be true or false"),
        (lambda config: config | {"hidden_size": 64}, "'network.pieces.weight' is .* x 32, and by config.json .* x 64"),
        (
            lambda config: config | {"num_hidden_layers": 3},
            "8 tensors that config.json asks for are not in",
        ),
        (lambda config: config | {"model_type": "three-ways"}, "model_type is 'three-ways'.*another family"),
    ],
)
def test_a_folder_that_does_not_fit_is_refused(folder: Path, damage, message: str):
    config = damage(json.loads((folder / "config.json").read_text()))
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "bertkit.json").unlink()
    with pytest.raises((ConfigError, ModelFolderError), match=message):
        load_model(ModelFolder(folder))


def taught(model: FineTuned, task: Any, tokenizer: Tokenizer, transfer: Transfer) -> list[str]:
    """Names of what moved in one step of each of two epochs."""
    before = {name: each.clone() for name, each in model.state_dict().items()}
    examples = sentences(["import a class", "return the value"] * 4, 8)
    units = task.encode(examples, tokenizer).to_learn()
    fit(
        model,
        task,
        units,
        None,
        FitSettings(epochs=2, batch=8, learning_rate=1e-2, transfer=transfer),
        seed=0,
        pad_id=0,
    )
    after = model.state_dict()
    assert after.keys() == before.keys()
    return [name for name, each in before.items() if not torch.equal(each, after[name])]


WAYS = {
    "all": (Transfer(), {0, 1, 2, 3}),
    "frozen": (Transfer(frozen=True), {0}),
    "last layer": (Transfer(last_layers=1), {0, 1}),
    "gradual": (Transfer(gradual=True), {0, 1}),
}


@pytest.mark.parametrize("way", WAYS)
def test_it_is_fine_tuned_in_every_way_and_opens_with_its_head(folder: Path, tmp_path: Path, tokenizer: Tokenizer, way):
    task = Classify(classes=("0", "1"), max_length=32)
    model = new_model(ModelFolder(folder), task, FinetuneRequest(task="classify", train="", start=str(folder)), 0)
    transfer, moved = WAYS[way]
    assert {model.depths()[name] for name in taught(model, task, tokenizer, transfer)} == moved
    save_fine_tuned(tmp_path / "fit", model, task, tokenizer, metrics={}, provenance={})
    again = load_fine_tuned(ModelFolder(tmp_path / "fit")).model
    assert all(torch.equal(each, again.state_dict()[name]) for name, each in model.state_dict().items())
    assert set(bertkit.load(tmp_path / "fit")("import a class")["probabilities"]) == {"0", "1"}


def test_muon_has_what_it_says_are_its_matrices(folder: Path):
    model = load_model(ModelFolder(folder)).model
    muon = Optimizers(model, OptimizerSettings(kind="muon")).each[1]
    assert {group["parts"] for group in muon.param_groups} == {4}
    assert sum(len(group["params"]) for group in muon.param_groups) == 2 * 4


def test_without_its_registration_its_folder_is_no_model(folder: Path):
    family, preset = FAMILIES.pop("two-ways"), PRESETS.pop("two-ways-tiny")
    try:
        with pytest.raises(BertkitError, match=r"model_type is 'two-ways'.*another family"):
            ModelFolder(folder)
    finally:
        FAMILIES["two-ways"], PRESETS["two-ways-tiny"] = family, preset
