"""What --overwrite may replace, a model or a tokenizer, and what it may not: anything else that lies there."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from bertkit.cli import app
from bertkit.errors import WriteError
from bertkit.hub import require_place
from commands import bertkit_command

COMMANDS = {
    "finetune": ("finetune", "classify", "{file}", "--from", "{model}", "--out", "{out}", "--overwrite"),
    "convert": ("convert", "{model}", "{out}", "--overwrite"),
    "export": ("export", "{model}", "{out}", "--check", "{file}", "--overwrite"),
    "train": ("tokenizer", "train", "{file}", "--out", "{out}", "--overwrite"),
    "extend": ("tokenizer", "extend", "{model}", "{file}", "--out", "{out}", "--overwrite"),
}
READS_A_FILE = [name for name in COMMANDS if name != "convert"]


def run(command: str, file: Path, model: Path, out: Path) -> Result:
    return CliRunner().invoke(app, [part.format(file=file, model=model, out=out) for part in COMMANDS[command]])


def contents(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def rows(place: Path) -> Path:
    place.write_text("text,label\n" + "".join(f"text {n},{n % 2}\n" for n in range(20)))
    return place


@pytest.fixture
def out(tmp_path: Path, tiny_folder: Path) -> Path:
    """A model folder that is to be replaced."""
    return shutil.copytree(tiny_folder, tmp_path / "out")


@pytest.mark.parametrize("command", READS_A_FILE)
@pytest.mark.parametrize("manifest", [True, False])
def test_a_folder_with_what_is_read_is_not_replaced(out: Path, tiny_folder: Path, command: str, manifest: bool):
    if not manifest:
        (out / "bertkit.json").unlink()
    before = contents(out) | {"r.csv": rows(out / "r.csv").read_bytes()}
    done = run(command, out / "r.csv", tiny_folder, out)
    assert done.exit_code == 3, done.output
    assert f"{out} is to be replaced, and {out / 'r.csv'} lies in it. Move it, or choose another place." in done.stderr
    assert contents(out) == before
    assert [path.name for path in out.parent.iterdir()] == ["out"]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_folder_with_a_file_that_is_not_of_the_model_is_not_replaced(
    out: Path, tiny_folder: Path, tmp_path: Path, command: str
):
    (out / "notes").mkdir()
    (out / "notes" / "mine.txt").write_text("mine")
    before = contents(out)
    done = run(command, rows(tmp_path / "r.csv"), tiny_folder, out)
    assert done.exit_code == 3, done.output
    assert "has notes/mine.txt in it, which bertkit did not write with the model" in done.stderr
    assert contents(out) == before


@pytest.mark.parametrize("command", COMMANDS)
def test_a_folder_without_a_model_is_not_replaced(tiny_folder: Path, tmp_path: Path, command: str):
    out = tmp_path / "papers"
    out.mkdir()
    (out / "thesis.tex").write_text("mine")
    done = run(command, rows(tmp_path / "r.csv"), tiny_folder, out)
    assert done.exit_code == 3, done.output
    assert f"{out} has no model in it" in done.stderr
    assert contents(out) == {"thesis.tex": b"mine"}


def test_models_and_tokenizers_are_replaced_when_told_to(out: Path, tiny_folder: Path, tmp_path: Path):
    (out / ".DS_Store").write_text("of a file manager")
    require_place(out, overwrite=True, read=[tmp_path / "r.csv", tiny_folder, out])
    assert run("convert", tmp_path, tiny_folder, out).exit_code == 0
    assert contents(out).keys() == contents(tiny_folder).keys()
    (out / "bertkit.json").unlink()
    (out / "README.md").write_text("a folder of others may have anything")
    require_place(out, overwrite=True)
    for name in ("config.json", "model.safetensors", "README.md"):
        (out / name).unlink()
    require_place(out, overwrite=True)
    require_place(tmp_path / "new", overwrite=False)
    with pytest.raises(WriteError, match="exists and is not empty"):
        require_place(out, overwrite=False)


def test_a_model_to_read_that_lies_in_the_folder_is_kept(out: Path, tmp_path: Path):
    (out / "bertkit.json").unlink()
    shutil.copytree(out, out / "base")
    done = run("finetune", rows(tmp_path / "r.csv"), out / "base", out)
    assert done.exit_code == 3, done.output
    assert f"{out / 'base'} lies in it" in done.stderr


def test_the_model_to_start_from_is_not_replaced_by_what_comes_of_it(out: Path, tmp_path: Path):
    before = contents(out)
    done = run("finetune", rows(tmp_path / "r.csv"), out, out)
    assert done.exit_code == 3, done.output
    assert f"{out} is the model to start from, and would be lost. Choose another --out." in done.stderr
    assert contents(out) == before


@pytest.mark.parametrize("place", ["file/model", "file/folder/model"])
def test_a_place_that_cannot_be_written_is_refused_before_anything_is_learned(
    tiny_folder: Path, tmp_path: Path, place: str
):
    (tmp_path / "file").write_text("not a folder")
    done = run("finetune", rows(tmp_path / "r.csv"), tiny_folder, tmp_path / place)
    assert done.exit_code == 3, done.output
    assert f"could not write {tmp_path / place}: " in done.stderr
    assert "epoch" not in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "r.csv"]


def test_trying_a_place_leaves_nothing_there(tmp_path: Path):
    require_place(tmp_path / "new" / "model", overwrite=False)
    assert not list(tmp_path.iterdir())


def test_a_list_of_files_that_cannot_be_read_says_so(out: Path):
    (out / "bertkit.json").write_text(json.dumps({"format": 1}))
    with pytest.raises(WriteError, match="lists no files, so the folder is not replaced"):
        require_place(out, overwrite=True)


@pytest.mark.parametrize("command", ["embed", "attention"])
def test_vectors_and_pages_replace_a_file_only_if_told_to(tiny_folder: Path, tmp_path: Path, command: str):
    out = tmp_path / "out.npy"
    out.write_text("mine")
    words = (command, tiny_folder, *(("--text",) * (command == "embed")), "a text", "-o", out)
    done = bertkit_command(*words)
    assert done.returncode == 3, done.stderr
    assert f"{out} exists" in done.stderr
    assert "--overwrite" in done.stderr
    assert out.read_text() == "mine"
    assert bertkit_command(*words, "--overwrite").returncode == 0
    assert out.read_bytes() != b"mine"
