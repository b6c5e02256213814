"""`bertkit export` as a user has it, and the commands that compute with what it wrote."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

import bertkit
from bertkit.cli import app
from bertkit.hub import save_fine_tuned
from bertkit.infer import load_encoder
from bertkit.nn import Bert
from bertkit.text import Tokenizer
from commands import bertkit_command
from servers import TASKS, close, new_model, running

pytest.importorskip("onnxruntime")


def run(*arguments: object) -> Result:
    """In this process, which is quicker than another."""
    return CliRunner().invoke(app, [str(each) for each in arguments])


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory, tiny: Bert, tokenizer: Tokenizer) -> Path:
    """A classifier with a graph of either kind."""
    place, task = tmp_path_factory.mktemp("exported"), TASKS["classify"]
    save_fine_tuned(place / "model", new_model(tiny, task).eval(), task, tokenizer, metrics={}, provenance={})
    done = bertkit_command("export", place / "model", place / "fast")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["file"] == "model.onnx"
    assert said["texts"] == 192
    assert said["largest_difference"] < 1e-4
    assert said["agreement"] == 1.0
    (place / "texts.csv").write_text("review,stars\na value of a class,1\n苹果公司发布了新手机,2\n", encoding="utf-8")
    both = ("export", place / "fast", place / "fast", "--int8", "--overwrite", "--check", place / "texts.csv")
    done = run(*both, "--field", "review")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["file"] == "model.int8.onnx"
    return place / "fast"


def test_predict_answers_with_each_runtime(exported: Path):
    answers = {}
    for runtime in ("torch", "onnx", "onnx-int8"):
        done = run("predict", exported, "-t", "a value of a class", "--runtime", runtime)
        assert done.exit_code == 0, done.stderr
        answers[runtime] = json.loads(done.stdout)
    assert close(answers["onnx"], answers["torch"])
    assert answers["onnx-int8"]["probabilities"] == pytest.approx(answers["torch"]["probabilities"], abs=0.1)
    assert answers["onnx-int8"] != answers["torch"]


def test_a_folder_with_graphs_is_a_model_folder_as_before(exported: Path):
    done = run("info", exported)
    assert done.exit_code == 0, done.stderr
    manifest = json.loads((exported / "bertkit.json").read_text(encoding="utf-8"))
    assert {"model.onnx", "model.int8.onnx", "model.safetensors"} <= manifest["files"].keys()
    assert manifest["task"] == "classify"
    assert manifest["exported"].keys() == {"model.onnx", "model.int8.onnx"}


def test_embed_gives_the_same_vectors(tiny_folder: Path, tmp_path: Path):
    assert run("export", tiny_folder, tmp_path / "fast").exit_code == 0
    options = ("-t", "a text", "-t", "注意力机制", "--runtime", "onnx", "-o", tmp_path / "vectors.npy")
    done = run("embed", tmp_path / "fast", *options)
    assert done.exit_code == 0, done.stderr
    right = load_encoder(tiny_folder).embed(["a text", "注意力机制"])
    np.testing.assert_allclose(np.load(tmp_path / "vectors.npy"), right, atol=1e-4)


def test_serve_answers_with_a_graph(exported: Path):
    pytest.importorskip("fastapi")
    texts = ["a value of a class", "苹果", "a value " * 20]
    with running(exported, "--runtime", "onnx", "--reload", "0") as server, server.client() as client:
        done = client.post("/v1/models/fast/predict", json={"inputs": texts})
    assert done.status_code == 200, done.text
    for there, right in zip(done.json()["answers"], bertkit.load(exported)(texts), strict=True):
        assert close(there, right)


def test_what_cannot_be_is_told_with_the_way_out(exported: Path, tmp_path: Path):
    for arguments, said in (
        (("export", exported, tmp_path / "out", "--to", "tflite"), "It can be onnx"),
        (("predict", exported, "-t", "x", "--runtime", "onyx"), "torch, onnx, onnx-int8"),
        (("predict", exported, "-t", "x", "--runtime", "onnx", "--precision", "bfloat16"), "leave both out"),
        (("serve", exported, "--runtime", "onyx", "--lazy"), "torch, onnx, onnx-int8"),
    ):
        done = run(*arguments)
        assert done.exit_code == 2, done.stderr
        assert said in done.stderr
    done = run("export", exported, exported)
    assert done.exit_code == 3
    assert "--overwrite" in done.stderr
