"""Pretraining as each family does it: what it is asked, what it may not be asked, and that it learns."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers

import bertkit
from bertkit import device
from bertkit.corpus import CorpusFolder, prepare
from bertkit.corpus import Recipe as Preparation
from bertkit.errors import InterruptionError, UsageError
from bertkit.families import family_called, usual_for, vocabulary
from bertkit.objectives import Masking, PretrainingData, SentenceOrder, Together, Vocabulary, mask
from bertkit.text import draw_sample, ordinary_ids
from bertkit.text.train import train
from bertkit.train import Request, Watcher, fast, make_recipe, resume
from bertkit.train.pretrain import pretrain
from corpora import lines_of

FEW_STEPS = {"batch": 8, "length": 32}


@pytest.fixture(scope="module")
def corpora(tmp_path_factory: pytest.TempPathFactory, english: list[str], shards: Path) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("families")
    documents = ["\n".join(english[i : i + 12]) for i in range(0, 2400, 12)]
    text = lines_of(documents, folder / "text.jsonl")
    sample = draw_sample(english[:2400], hold_out=False)
    made = {"bert": shards, "electra": shards}
    for family in ("roberta", "albert", "modernbert"):
        tokenizer = train(sample, vocabulary(family, vocab_size=800)).tokenizer
        recipe = Preparation(validation=0.1, near_duplicates=None, boilerplate=None)
        made[family] = prepare([text], tokenizer, folder / family, recipe).path
    few = lines_of(documents[:8], folder / "few.jsonl")
    recipe = Preparation(validation=0.2, near_duplicates=None, boilerplate=None)
    made["modernbert, a few texts"] = prepare([few], tokenizer, folder / "few", recipe).path
    return made


def trained(corpora: dict[str, Path], family: str, out: Path, **change: object) -> tuple[Path, dict[str, float]]:
    request = Request(
        shards=corpora[family], model=f"{family}-tiny", steps=12, change={**FEW_STEPS, **change}, validation_samples=16
    )
    return out, pretrain(request, out, device.choose("cpu", "float32", 1), Watcher())


@pytest.mark.parametrize(
    ("family", "their_class", "asked"),
    [
        ("roberta", transformers.RobertaForMaskedLM, {"mlm"}),
        ("albert", transformers.AlbertForPreTraining, {"mlm", "sop"}),
        ("modernbert", transformers.ModernBertForMaskedLM, {"mlm"}),
    ],
)
def test_a_run_ends_in_a_folder_that_transformers_opens(family, their_class, asked, corpora, tmp_path):
    run, facts = trained(corpora, family, tmp_path / "run")
    assert {name.removesuffix("_accuracy") for name in facts if name.endswith("_accuracy")} == asked
    _, report = their_class.from_pretrained(run / "model", output_loading_info=True)
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    encoder = bertkit.load_encoder(run / "model")
    mask_token = encoder.tokenizer.specials["mask"]
    assert len(encoder.fill_mask(f"The {mask_token} statement.", k=3)[0]) == 3
    assert json.loads((run / "run.json").read_text())["settings"]["model"]["family"] == family


@pytest.mark.parametrize(
    ("corpus", "change"),
    [
        pytest.param("albert", {}, marks=pytest.mark.slow),
        ("electra", {}),
        ("modernbert, a few texts", {"masks": 1}),
    ],
)
def test_a_run_gone_on_with_is_the_same_to_the_bit(corpus, change, corpora, tmp_path):
    request = Request(
        shards=corpora[corpus],
        model=f"{corpus.split(',')[0]}-tiny",
        steps=12,
        change={**FEW_STEPS, **change},
        validation_samples=16,
    )
    whole = tmp_path / "whole"
    pretrain(request, whole, device.choose("cpu", "float32", 1), Watcher())

    class Stopping(Watcher):
        def stepped(self, facts: dict[str, float]) -> None:
            if facts["step"] == 6:
                os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(InterruptionError):
        pretrain(request, tmp_path / "cut", device.choose("cpu", "float32", 1), Stopping())
    resume(tmp_path / "cut", device.choose("cpu", "float32", 1), Watcher())
    for file in ("model/model.safetensors", "log.jsonl"):
        assert (whole / file).read_bytes() == (tmp_path / "cut" / file).read_bytes(), file


@pytest.mark.parametrize(
    ("family", "corpus", "change", "message"),
    [
        ("roberta", "bert", {}, "prepared with a tokenizer for BERT .*--family roberta"),
        ("bert", "roberta", {}, "prepared with a tokenizer for RoBERTa .*--family bert"),
        ("albert", "roberta", {}, "reads ALBERT's .unigram"),
        ("roberta", "roberta", {"nsp": True}, "next sentences for a roberta"),
        ("roberta", "roberta", {"left_to_right": True, "nsp": False}, "left to right"),
        ("albert", "albert", {"pre_norm": True}, "norms first"),
        ("modernbert", "modernbert", {"pre_norm": False}, "norms last"),
        ("modernbert", "modernbert", {"nsp": True}, "next sentences for a modernbert"),
        ("modernbert", "modernbert", {"left_to_right": True, "nsp": False}, "left to right"),
        ("modernbert", "roberta", {}, "prepared with a tokenizer for RoBERTa .*--family modernbert"),
    ],
)
def test_what_does_not_go_together_is_told_and_nothing_is_left(family, corpus, change, message, corpora, tmp_path):
    request = Request(shards=corpora[corpus], model=f"{family}-tiny", steps=2, change={**FEW_STEPS, **change})
    with pytest.raises(UsageError, match=message):
        pretrain(request, tmp_path / "run", device.choose("cpu", "float32", 1), Watcher())
    assert not (tmp_path / "run").exists()


def test_swapped_pairs_are_neighbours_in_the_wrong_order(corpora):
    corpus = CorpusFolder(corpora["albert"])
    data = PretrainingData(corpus, objectives=Together([SentenceOrder(corpus.tokenizer)]), seed=3, packed=True)
    samples = data._open(0, 64)
    order = [samples[number] for number in range(len(samples))]
    assert 0.4 < np.mean([sample.is_next for sample in order]) < 0.6
    for sample in order:
        first, second = sample.parts
        before, after = (first, second) if sample.is_next else (second, first)
        assert (before.shard, before.start < before.stop <= after.start) == (after.shard, True)


def test_ngrams_are_runs_of_up_to_three_words_the_short_ones_more_often(corpora):
    corpus = CorpusFolder(corpora["albert"])
    vocabulary = Vocabulary(corpus.tokenizer.mask_id, np.array(ordinary_ids(corpus.tokenizer)))
    sequences = corpus.sequences("train", max_length=128)
    runs: list[int] = []
    for number in range(min(300, len(sequences))):
        sample = sequences[number]
        masked = mask(sample, Masking(unit="ngram", rate=0.05), vocabulary, number)
        places = masked.positions[sample.word_starts[masked.positions]]
        words = np.flatnonzero(sample.word_starts & ~sample.special)
        numbers = np.searchsorted(words, places)
        runs += [len(run) for run in np.split(numbers, np.flatnonzero(np.diff(numbers) != 1) + 1) if len(run)]
    counts = np.bincount(runs, minlength=4)
    assert counts[1] > counts[2] > counts[3] > 0
    assert counts[4:].sum() < 0.05 * counts.sum()  # only where two of them touch


def test_groups_of_layers_are_kept_in_the_run_and_its_config(corpora, tmp_path):
    request = Request(shards=corpora["albert"], model="albert-mini", steps=2, change={**FEW_STEPS, "groups": 3})
    pretrain(request, tmp_path / "run", device.choose("cpu", "float32", 1), Watcher())
    run, config = (json.loads((tmp_path / "run" / name).read_text()) for name in ("run.json", "model/config.json"))
    assert (run["request"]["change"]["groups"], run["settings"]["model"]["num_hidden_groups"]) == (3, 3)
    assert (config["num_hidden_groups"], config["num_hidden_layers"]) == (3, 4)
    assert len(bertkit.load_encoder(tmp_path / "run" / "model").model.encoder.blocks) == 3
    their_class = transformers.AlbertForPreTraining
    theirs, info = their_class.from_pretrained(tmp_path / "run" / "model", output_loading_info=True)
    assert len(theirs.albert.encoder.albert_layer_groups) == 3
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (
            {"model": "albert-mini", "change": {"groups": 5}},
            "`groups=5` for albert-mini, which has 4 layers. Give from 1",
        ),
        ({"model": "albert-mini", "change": {"groups": 0}}, "`groups=0` for albert-mini"),
        ({"model": "bert-mini", "change": {"groups": 2}}, "`groups=2` for a bert model.*Only ALBERT's share them"),
        ({"change": {"groups": 2}}, "`groups=2` for a bert model"),
        ({"model": "roberta-tiny", "change": {"groups": 1}}, "`groups=1` for a roberta model"),
    ],
)
def test_groups_that_cannot_be_are_refused(asked, message):
    with pytest.raises(UsageError, match=message):
        make_recipe(Request(shards=Path("shards"), steps=2, **asked))


def test_a_model_that_is_gone_on_with_keeps_its_groups():
    with pytest.raises(UsageError, match="keeps the groups it was trained with"):
        usual_for(family_called("albert"), fast(), {"model": None, "groups": 2})


def test_a_group_of_layers_learns_from_all_of_them():
    from bertkit.families import PRESETS
    from bertkit.nn import Bert

    torch.manual_seed(0)
    shared = Bert(PRESETS["albert-tiny"](vocab_size=100))
    deep = Bert(PRESETS["albert-tiny"](vocab_size=100, num_hidden_layers=6))
    assert shared.parameter_count() == deep.parameter_count()
    deep.load_state_dict(shared.state_dict())
    ids = torch.randint(5, 100, (2, 9))
    assert not torch.allclose(shared.encoder(ids).last, deep.encoder(ids).last)
