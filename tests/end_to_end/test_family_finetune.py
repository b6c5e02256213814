"""Every family through the commands: fine-tune, evaluate, predict, embed, attention, convert, info."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import bertkit
from bertkit.families import PRESETS, DistilBertConfig, electra_generator, vocabulary
from bertkit.hub import save_model
from bertkit.nn import Bert
from bertkit.text import draw_sample
from bertkit.text.train import train
from commands import bertkit_command

DISTILBERT = DistilBertConfig(hidden_size=128, num_hidden_layers=2, num_attention_heads=2)
FAMILIES = ("roberta", "albert", "electra", "distilbert", "modernbert")
TOKENIZERS = {
    "roberta": "roberta",
    "albert": "albert",
    "electra": "bert",
    "distilbert": "bert",
    "modernbert": "modernbert",
}


def done(*arguments: object) -> str:
    result = bertkit_command(*arguments)
    assert result.returncode == 0, result.stderr
    return result.stdout


def refused(*arguments: object) -> str:
    result = bertkit_command(*arguments)
    assert result.returncode == 2, result.stderr
    return result.stderr


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory, english: list[str]) -> dict[str, Path]:
    sample = draw_sample(english, hold_out=False)
    tokenizers = {name: train(sample, vocabulary(name, vocab_size=600)).tokenizer for name in TOKENIZERS.values()}
    made = {}
    for family in FAMILIES:
        tokenizer = tokenizers[TOKENIZERS[family]]
        sizes = {"vocab_size": tokenizer.vocab_size, "pad_token_id": tokenizer.pad_id}
        torch.manual_seed(0)
        parts = {"pooler": family in ("roberta", "albert"), "nsp": family == "albert"}
        config = replace(DISTILBERT, **sizes) if family == "distilbert" else PRESETS[f"{family}-tiny"](**sizes)
        is_electra = family == "electra"
        model = Bert(config, mlm=not is_electra, rtd=is_electra, **parts)
        made[family] = tmp_path_factory.mktemp("families") / family
        save_model(made[family], model, tokenizer)
        if is_electra:
            made["generator"] = made[family].parent / "generator"
            save_model(made["generator"], Bert(electra_generator(config, 0.5), nsp=False, pooler=False), tokenizer)
    return made


@pytest.fixture(scope="module")
def reviews(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows = [
        f"the {thing} is {how}\t{how}" for thing in ("file", "loop", "class", "name") for how in ("good", "bad") * 5
    ]
    path = tmp_path_factory.mktemp("rows") / "reviews.tsv"
    path.write_text("\n".join(["text\tlabel", *rows]) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_is_fine_tuned_and_learns(family, folders, reviews, tmp_path):
    out = tmp_path / "model"
    done(
        "finetune", "classify", reviews, "--dev", reviews, "--from", folders[family], "--out", out, "--epochs", 8,
        "--learning-rate", "2e-3",
    )  # fmt: skip
    manifest = json.loads((out / "bertkit.json").read_text())
    assert manifest["family"] == family
    assert manifest["metrics"]["accuracy"] == 1.0
    decay = manifest["provenance"]["settings"]["transfer"]["layer_decay"]
    assert decay == (0.8 if family == "electra" else 1.0)
    assert bertkit.load(out)("the loop is bad")["label"] == "bad"


@pytest.mark.parametrize("family", FAMILIES)
def test_vectors_attention_and_facts(family, folders, tmp_path):
    encoder = bertkit.load_encoder(folders[family])
    assert encoder.embed(["one text", "another"]).shape == (2, 128)
    maps = encoder.attention("a text", "and its pair").maps
    assert maps.shape[:2] == (2, 2)
    np.testing.assert_allclose(maps.sum(-1), 1, atol=1e-3)
    done("attention", folders[family], "a text", "and its pair", "-o", tmp_path / "page.html")
    assert (tmp_path / "page.html").exists()
    facts = json.loads(done("info", folders[family]))
    assert facts["family"] == family


def test_shared_layers_cannot_be_trained_in_part(folders, reviews, tmp_path):
    message = refused(
        "finetune", "classify", reviews, "--from", folders["albert"], "--out", tmp_path / "m", "--last-layers", 2
    )
    assert "weights of their own" in message


def test_who_cannot_guess_words_says_who_can(folders):
    message = refused("fill-mask", folders["electra"], "The [MASK].")
    assert "ELECTRA discriminator" in message
    assert "generator" in message
    guesses = json.loads(done("fill-mask", folders["generator"], "The [MASK].").splitlines()[0])
    assert guesses


def test_a_class_that_a_family_has_not_is_told(folders, tmp_path):
    assert "no RobertaForPreTraining" in refused(
        "convert", folders["roberta"], tmp_path / "m", "--to", "BertForPreTraining"
    )
    assert not (tmp_path / "m").exists()
    done("convert", folders["albert"], tmp_path / "masked", "--to", "AlbertForMaskedLM")
    assert json.loads((tmp_path / "masked" / "config.json").read_text())["architectures"] == ["AlbertForMaskedLM"]
