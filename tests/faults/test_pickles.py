"""Weights that are pickles: refused unopened, and read only when asked for, where they can do nothing."""

from __future__ import annotations

import json
import os
import pickle
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import bertkit
from bertkit import load_encoder
from bertkit.errors import BertkitError
from commands import bertkit_command


@pytest.fixture
def folder(tiny_folder: Path, tmp_path: Path) -> Path:
    """With config and tokenizer, and no weights."""
    copy = tmp_path / "pickled $(touch sprung)"
    shutil.copytree(tiny_folder, copy, ignore=shutil.ignore_patterns("bertkit.json", "model.safetensors"))
    return copy


@pytest.fixture
def tensors(tiny_folder: Path) -> dict[str, torch.Tensor]:
    return load_file(tiny_folder / "model.safetensors")


class Trap:
    def __reduce__(self):
        return os.system, ("touch " + os.environ["TRAP"],)


def converted(folder: Path, out: Path) -> tuple[int, str]:
    done = bertkit_command("convert", folder, out, "--read-pickle")
    return done.returncode, done.stderr


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "weights.pth"])
def test_a_pickle_is_refused_unopened_and_the_way_out_works(folder, tiny_folder, tensors, tmp_path, monkeypatch, name):
    monkeypatch.setenv("TRAP", str(tmp_path / "sprung"))
    (folder / name).write_bytes(pickle.dumps(Trap()))
    with pytest.raises(BertkitError, match=r"a pickle, which can run any code .* --read-pickle") as caught:
        load_encoder(folder)
    assert f"bertkit convert '{folder}' OUT" in str(caught.value), "what is pasted into a shell runs nothing else"
    code, said = converted(folder, tmp_path / "out")
    assert code == 3
    assert "Traceback" not in said
    assert not (tmp_path / "sprung").exists(), "asked for, too, nothing of it runs"
    assert not (tmp_path / "out").exists()

    torch.save(tensors, folder / name)
    assert converted(folder, tmp_path / "out") == (0, "")
    assert (load_encoder(tmp_path / "out").embed("a text") == load_encoder(tiny_folder).embed("a text")).all()
    made = json.loads((tmp_path / "out" / "bertkit.json").read_text())["provenance"]
    assert list(made["weights"]) == [name]


def test_weights_within_a_training_run_s_file_are_found(folder, tensors, tmp_path):
    torch.save({"state_dict": tensors, "epoch": 3, "optimizer": {}}, folder / "model.ckpt")
    assert converted(folder, tmp_path / "out")[0] == 0
    bertkit.load(tmp_path / "out")("a [MASK]")


def test_weights_in_several_pickles_are_read_together(folder, tensors, tmp_path):
    names = sorted(tensors)
    for number, some in enumerate((names[::2], names[1::2]), 1):
        torch.save({name: tensors[name] for name in some}, folder / f"pytorch_model-{number:05d}-of-00002.bin")
    torch.save({}, folder / "optimizer.pt")
    assert converted(folder, tmp_path / "out")[0] == 0
    bertkit.load(tmp_path / "out")("a [MASK]")


@pytest.mark.parametrize(
    "content", [b"", b"\x80\x02]", b"PK\x03\x04" + b"\0" * 50, pickle.dumps([1, 2]), pickle.dumps({"a": 1})]
)
def test_a_damaged_pickle_is_one_sentence(folder, tmp_path, content):
    (folder / "pytorch_model.bin").write_bytes(content)
    code, said = converted(folder, tmp_path / "out")
    assert code == 3
    assert said.count("\n") == 1
    assert "pytorch_model.bin cannot be read" in said


def test_a_pickle_that_asks_for_all_memory_dies_alone(folder, tmp_path):
    """A file of some kilobytes whose one tensor says that it is huge: the process that reads it has a limit."""
    small = torch.zeros(1)
    torch.save({"a": small.expand(2**40)}, folder / "pytorch_model.bin")
    code, said = converted(folder, tmp_path / "out")
    assert code == 3
    assert "cannot be read" in said


def test_reading_a_pickle_where_there_is_none_is_refused(tiny_folder, tmp_path):
    code, said = converted(tiny_folder, tmp_path / "out")
    assert code == 3
    assert "Leave --read-pickle out" in said


def test_no_pickle_and_no_code_from_data_in_the_package():
    """A rule about the source: nothing in it can run what a file says."""
    forbidden = (
        "torch.save(",
        "yaml.load",
        "shell=True",
        "extractall",
        "allow_pickle=True",
        "eval(",
        "exec(",
    )
    loads = []
    for file in Path(bertkit.__file__).parent.rglob("*.py"):
        text = file.read_text().replace(".eval()", "")
        assert not [word for word in forbidden if word in text], file
        assert not re.search(r"\b(import|from) (pickle|marshal|shelve)\b", text), file
        loads += [(file.name, line.strip()) for line in text.splitlines() if "torch.load(" in line]
    assert loads == [("pickles.py", 'loaded = torch.load(file, weights_only=True, map_location="cpu")')]


def test_what_lies_beside_the_weights_is_no_module_of_ours(folder, tensors, tmp_path):
    torch.save(tensors, folder / "pytorch_model.bin")
    for module in ("resource", "torch", "json"):
        (folder / f"{module}.py").write_text(f"open({str(tmp_path / 'sprung')!r}, 'w')\n")
    command = [Path(sys.executable).parent / "bertkit", "convert", ".", tmp_path / "out", "--read-pickle"]
    done = subprocess.run(list(map(str, command)), cwd=folder, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert not (tmp_path / "sprung").exists()
