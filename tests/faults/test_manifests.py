"""bertkit.json and the files of sentence-transformers: what they say is checked before anything is made of it."""

from __future__ import annotations

import copy
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import bertkit
from bertkit import load_encoder
from bertkit.errors import BertkitError
from bertkit.hub import save_fine_tuned
from bertkit.nn import Bert, FineTuned
from bertkit.tasks import Classify, Qa, Regress, Tag
from bertkit.text import Tokenizer
from commands import bertkit_command, on_a_terminal
from manifests import manifest_of, write_manifest

TASKS = {
    "classify": Classify(classes=("bad", "good"), max_length=64),
    "regress": Regress(max_length=64),
    "tag": Tag(tags=("O", "B-PER", "I-PER"), max_length=64, crf=True),
    "qa": Qa(max_length=64),
}


@pytest.fixture(scope="module")
def good(tmp_path_factory, tiny: Bert, tokenizer: Tokenizer) -> Path:
    place = tmp_path_factory.mktemp("good")
    for name, task in TASKS.items():
        bert = copy.deepcopy(tiny)
        bert.mlm = bert.nsp = None
        save_fine_tuned(place / name, FineTuned(bert, task.head.shape), task, tokenizer, metrics={}, provenance={})
    return place


def spoiled(folder: Path, tmp_path: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    shutil.copytree(folder, tmp_path / "spoiled")
    manifest = manifest_of(folder)
    change(manifest)
    write_manifest(tmp_path / "spoiled", manifest)
    return tmp_path / "spoiled"


def refused(folder: Path) -> str:
    """By predict as by info, with one sentence."""
    with pytest.raises(BertkitError) as caught:
        bertkit.load(folder)
    message = str(caught.value)
    assert caught.value.remedy
    assert len(message.replace(str(folder), "")) < 300
    done = bertkit_command("info", folder)
    assert done.returncode == 3
    assert done.stderr == f"bertkit: {message}\n"
    return message


BAD_FACTS: list[Any] = [
    *(5, None, [], "text"),
    {},
    {"classes": 5},
    {"classes": "ab"},
    {"classes": ["only"]},
    {"classes": ["a", "a"]},
    {"classes": ["a", 1]},
    {"classes": ["a", "b", "c"]},
    {"classes": ["a", "b"], "max_length": 0},
    {"classes": ["a", "b"], "max_length": -5},
    {"classes": ["a", "b"], "max_length": 10**9},
    {"classes": ["a", "b"], "max_length": "64"},
    {"classes": ["a", "b"], "max_length": True},
    {"classes": ["a", "b"], "multi_label": "yes"},
    {"classes": ["a", "b"], "long": "hedd"},
    {"classes": ["a", "b"], "weights": [1.0, "2"]},
    {"classes": ["a", "b"], "lenght": 64},
    {"classes": ["a"] * 50},
]


@pytest.mark.parametrize("facts", BAD_FACTS, ids=str)
def test_task_facts_that_cannot_be_are_refused(good, tmp_path, facts):
    assert "bertkit.json" in refused(spoiled(good / "classify", tmp_path, lambda kept: kept.update(task_facts=facts)))


BAD_HEADS: list[Any] = [
    *(5, None, [], {}),
    {"reads": "text", "outputs": 10**9},
    {"reads": "text", "outputs": 10**18},
    {"reads": "text", "outputs": "50"},
    {"reads": "text", "outputs": 2.0},
    {"reads": "text", "outputs": 2, "lstm": 10**8},
    {"reads": "text", "outputs": 2, "lstm": 60_000},
    {"reads": "text", "outputs": 2, "mix": "no"},
    {"reads": "text", "outputs": 3},
    {"reads": "tokens", "outputs": 2},
    {"reads": "words", "outputs": 2},
]


@pytest.mark.parametrize("head", BAD_HEADS, ids=str)
def test_heads_that_cannot_be_are_refused_before_they_take_memory(good, tmp_path, head):
    refused(spoiled(good / "classify", tmp_path, lambda kept: kept.update(head=head)))


@pytest.mark.parametrize(
    ("task", "facts"),
    [
        ("regress", {"mean": "5"}),
        ("regress", {"deviation": None}),
        ("tag", {"tags": ["O"]}),
        ("tag", {"tags": ["O", "B-PER"], "crf": True}),
        ("tag", {"tags": ["O", "B-PER", "I-PER"], "crf": False}),
        ("tag", {"tags": ["O", "B-PER", "B-PER"], "crf": True}),
        ("qa", {"max_length": 64, "threshold": "high"}),
        ("qa", {"max_length": 64, "stride": None}),
    ],
    ids=str,
)
def test_facts_of_every_task_are_checked(good, tmp_path, task, facts):
    refused(spoiled(good / task, tmp_path, lambda kept: kept.update(task_facts=facts)))


@pytest.mark.parametrize(
    "change",
    [
        {"encoding": []},
        {"encoding": {"pooling": 5}},
        {"encoding": {"pooling": "mean", "normalize": "yes"}},
        {"encoding": {"max_length": 0}},
        {"encoding": {"max_length": -5}},
        {"task": 5},
        {"task": "clasify"},
        {"family": "gpt2"},
        {"files": []},
        {"columns": ["text"]},
    ],
    ids=str,
)
def test_what_else_a_manifest_says_is_checked(good, tmp_path, change):
    refused(spoiled(good / "classify", tmp_path, lambda kept: kept.update(change)))


def test_a_file_that_decides_and_is_not_listed_is_refused(good, tmp_path):
    """Who takes a file out of the list could change it unseen."""
    folder = spoiled(good / "classify", tmp_path, lambda kept: kept["files"].pop("model.safetensors"))
    assert "model.safetensors is not among the files" in refused(folder)


def test_every_good_folder_is_content(good):
    for name in TASKS:
        done = bertkit_command("info", good / name)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["verified"] is True


# sentence-transformers

STEPS = [
    {"idx": 0, "path": "", "type": "sentence_transformers.models.Transformer"},
    {"idx": 1, "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    {"idx": 2, "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"},
]


@pytest.fixture
def sentences(tiny_folder: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "sentences"
    shutil.copytree(tiny_folder, folder, ignore=shutil.ignore_patterns("bertkit.json"))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_mean_tokens": true}')
    (folder / "modules.json").write_text(json.dumps(STEPS))
    return folder


def test_vectors_are_normalised_as_the_folder_says(sentences):
    assert abs((load_encoder(sentences).embed("a text") ** 2).sum() - 1) < 1e-5


@pytest.mark.parametrize("content", ["{}", "[]", "5", '[{"idx": 0}]', "[[]]", '"Normalize"', json.dumps(STEPS[::-1])])
def test_steps_that_are_none_are_refused(sentences, content):
    (sentences / "modules.json").write_text(content)
    assert "modules.json" in refused(sentences)


@pytest.mark.parametrize("kind", ["folder", "pipe", "link to nothing"])
def test_a_modules_file_that_is_no_file_is_refused(sentences, kind):
    file = sentences / "modules.json"
    file.unlink()
    {"folder": file.mkdir, "pipe": lambda: os.mkfifo(file), "link to nothing": lambda: file.symlink_to("x")}[kind]()
    assert "modules.json" in refused(sentences)


@pytest.mark.parametrize("content", ["{}", '{"pooling_mode_mean_tokens": "true"}', '{"pooling_mode": ""}', "[]"])
def test_a_pooling_that_is_not_said_is_refused(sentences, content):
    (sentences / "1_Pooling" / "config.json").write_text(content)
    assert "1_Pooling/config.json" in refused(sentences)


def test_a_pooling_that_is_missing_is_refused(sentences):
    shutil.rmtree(sentences / "1_Pooling")
    assert "1_Pooling/config.json does not exist" in refused(sentences)


def test_steps_after_the_encoder_that_we_cannot_do_are_refused(sentences):
    dense = {"idx": 3, "path": "3_Dense", "type": "sentence_transformers.models.Dense"}
    (sentences / "modules.json").write_text(json.dumps([*STEPS, dense]))
    assert "'Dense'" in refused(sentences)


def test_a_pooling_that_we_cannot_do_is_refused_unless_another_is_chosen(sentences):
    (sentences / "1_Pooling" / "config.json").write_text('{"pooling_mode_weightedmean_tokens": true}')
    encoder = load_encoder(sentences)
    assert encoder.embed("a text", pooling="mean").shape == (128,)
    with pytest.raises(BertkitError, match=r"weightedmean.*cls, mean, max"):
        encoder.embed("a text")


def test_one_bit_of_what_decides_answers_is_found(good: Path, tmp_path: Path):
    folder = spoiled(good / "regress", tmp_path, lambda kept: kept["task_facts"].update(mean=0.0))
    bertkit.load(folder)
    file = folder / "bertkit.json"
    assert b'"mean": 0.0' in file.read_bytes()
    file.write_bytes(file.read_bytes().replace(b'"mean": 0.0', b'"mean": 4.0'))
    assert "not, to the byte, what was written" in refused(folder)
    file.write_bytes(file.read_bytes().replace(b'"mean": 4.0', b'"mean": 0.0'))
    bertkit.load(folder)


def test_what_a_file_says_is_nothing_that_a_terminal_obeys(good: Path, tmp_path: Path):
    odd = {"by\x1b]0;owned\x07": "a\x1b[2J"}
    folder = spoiled(good / "regress", tmp_path, lambda kept: kept["provenance"].update(odd))
    shown = on_a_terminal("info", folder)
    assert "owned" in shown
    assert "\x1b]0;" not in shown
    assert "\x07" not in shown
