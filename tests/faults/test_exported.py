"""Graphs that are damaged, missing, or of another model; models that have no graph; onnxruntime that is not there."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
import torch

import bertkit
from bertkit.errors import ModelFolderError, NumbersError, UsageError, WriteError
from bertkit.families import PRESETS, BertConfig, bert_tiny, require_exportable
from bertkit.files import sha256_of
from bertkit.hub import ModelFolder, save_fine_tuned, save_model
from bertkit.infer import export as exporting
from bertkit.infer import load_encoder
from bertkit.infer.export import export
from bertkit.nn import Bert, FineTuned, HeadShape
from bertkit.tasks import Tag
from bertkit.text import Tokenizer
from manifests import manifest_of, write_manifest

pytest.importorskip("onnxruntime")


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory, tiny_folder: Path) -> Path:
    folder = tmp_path_factory.mktemp("exported") / "tiny"
    export(ModelFolder(tiny_folder), folder, texts=["a text"])
    return folder


@pytest.fixture
def folder(exported: Path, tmp_path: Path) -> Path:
    shutil.copytree(exported, tmp_path / "tiny")
    return tmp_path / "tiny"


def list_anew(folder: Path) -> None:
    """As somebody would who does not want to be told of hashes."""
    manifest = manifest_of(folder)
    manifest["files"]["model.onnx"] = sha256_of(folder / "model.onnx")
    write_manifest(folder, manifest)


def test_a_damaged_graph_is_refused(folder: Path):
    content = bytearray((folder / "model.onnx").read_bytes())
    content[len(content) // 2] ^= 1
    (folder / "model.onnx").write_bytes(content)
    with pytest.raises(ModelFolderError, match=r"model\.onnx has changed"):
        load_encoder(folder, runtime="onnx")


def test_a_graph_that_is_none_is_refused(folder: Path):
    (folder / "model.onnx").write_bytes(b"this is no graph")
    list_anew(folder)
    with pytest.raises(ModelFolderError, match=r"model\.onnx cannot be opened.*Export it again"):
        load_encoder(folder, runtime="onnx")


def test_the_graph_of_another_model_is_refused(folder: Path, tokenizer: Tokenizer, tmp_path: Path):
    torch.manual_seed(5)
    save_model(tmp_path / "other", Bert(bert_tiny(vocab_size=tokenizer.vocab_size)).eval(), tokenizer)
    export(ModelFolder(tmp_path / "other"), tmp_path / "other-fast", texts=["a text"])
    shutil.copy(tmp_path / "other-fast" / "model.onnx", folder)
    with pytest.raises(ModelFolderError, match="has changed"):
        load_encoder(folder, runtime="onnx")
    list_anew(folder)
    with pytest.raises(ModelFolderError, match="made from other weights"):
        load_encoder(folder, runtime="onnx")


def test_a_graph_that_nobody_lists_is_refused(exported: Path, tiny_folder: Path, tmp_path: Path):
    shutil.copytree(tiny_folder, tmp_path / "tiny")
    shutil.copy(exported / "model.onnx", tmp_path / "tiny")
    with pytest.raises(ModelFolderError, match=r"not listed in bertkit\.json"):
        load_encoder(tmp_path / "tiny", runtime="onnx")


def test_a_folder_without_the_graph_says_how_to_make_it(folder: Path):
    with pytest.raises(UsageError, match=r"has no model\.int8\.onnx.*export MODEL OUT --int8"):
        load_encoder(folder, runtime="onnx-int8")


def test_without_onnxruntime_the_extra_is_named(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(UsageError, match=r"bertkit\[onnx\]"):
        load_encoder(folder, runtime="onnx")
    with pytest.raises(UsageError, match=r"bertkit\[onnx\]"):
        export(ModelFolder(folder), tmp_path / "out")
    assert load_encoder(folder).embed("a text").shape == (128,)


def test_a_head_with_an_lstm_or_a_mix_is_refused(tiny: Bert, tokenizer: Tokenizer, tmp_path: Path):
    task = Tag(tags=("O", "B-A"), max_length=32)
    for name, shape in (
        ("lstm", HeadShape(reads="tokens", outputs=2, lstm=4)),
        ("mix", HeadShape(reads="tokens", outputs=2, mix=True)),
    ):
        model = FineTuned(Bert(tiny.config, pooler=False, mlm=False, nsp=False), shape).eval()
        save_fine_tuned(tmp_path / name, model, task, tokenizer, metrics={}, provenance={})
        with pytest.raises(UsageError, match="cannot be exported"):
            export(ModelFolder(tmp_path / name), tmp_path / "out")
        assert not (tmp_path / "out").exists()


def test_a_model_that_reads_from_left_to_right_is_refused(tokenizer: Tokenizer, tmp_path: Path):
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    config = BertConfig(vocab_size=tokenizer.vocab_size, causal=True, **sizes)
    save_model(tmp_path / "model", Bert(config, nsp=False, pooler=False).eval(), tokenizer)
    with pytest.raises(UsageError, match="left to right"):
        export(ModelFolder(tmp_path / "model"), tmp_path / "out")


def test_a_modernbert_is_refused():
    with pytest.raises(UsageError, match="a modernbert model cannot be exported"):
        require_exportable(Bert.without_weights(PRESETS["modernbert-tiny"](vocab_size=100, pad_token_id=0)))


def test_what_is_there_is_not_overwritten(exported: Path, tiny_folder: Path):
    before = sha256_of(exported / "model.onnx")
    with pytest.raises(WriteError, match="`overwrite=True`"):
        export(ModelFolder(tiny_folder), exported)
    assert sha256_of(exported / "model.onnx") == before


@pytest.mark.parametrize(("int8", "limit", "value"), [(False, "LARGEST_DIFFERENCE", 0.0), (True, "REFUSE_BELOW", 1.0)])
def test_a_graph_too_far_from_the_model_is_not_written(
    int8: bool, limit: str, value: float, tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(exporting, limit, value)
    with pytest.raises(NumbersError, match="Nothing was written"):
        export(ModelFolder(tiny_folder), tmp_path / "out", int8=int8, texts=["a text"])
    assert not (tmp_path / "out").exists()


def test_only_the_cpu_computes_a_graph(folder: Path):
    with pytest.raises(UsageError, match="leave both out"):
        bertkit.load(folder, runtime="onnx", device="cuda")
