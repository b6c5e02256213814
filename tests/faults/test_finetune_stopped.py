"""Commands that are told to stop, and data that changes while a model learns from it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bertkit import device as devices
from bertkit.files import sha256_of
from bertkit.train import Examples, FinetuneRequest, Watcher
from bertkit.train.finetune import finetune

ROWS = "text,label\n" + "".join(f"word {n},{'ab'[n % 2]}\n" for n in range(40))
STOPPED = 4


def stopped_at(first: str, *command: object) -> tuple[int, str]:
    """The exit code of a command that gets SIGTERM once it has said `first`, and all that it says."""
    process = subprocess.Popen(
        [sys.executable, "-m", "bertkit", *map(str, command)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    assert process.stderr is not None
    said = b""
    while first.encode() not in said and (part := process.stderr.read1()):
        said += part
    process.send_signal(signal.SIGTERM)
    _, rest = process.communicate(timeout=60)
    return process.returncode, (said + rest).decode()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory, tiny_folder: Path) -> Path:
    folder = tmp_path_factory.mktemp("stopped")
    (folder / "train.csv").write_text(ROWS)
    request = FinetuneRequest(
        task="classify", train=str(folder / "train.csv"), start=str(tiny_folder), change={"epochs": 1}
    )
    return finetune(request, folder / "model", devices.choose("cpu", "float32", 1)).path


def test_a_fit_that_is_told_to_stop_leaves_nothing_and_can_be_had_again(tiny_folder: Path, tmp_path: Path):
    (tmp_path / "train.csv").write_text(ROWS)
    command = ("finetune", "classify", tmp_path / "train.csv", "--from", tiny_folder, "--out", tmp_path / "model")
    code, said = stopped_at("held out", *command, "--epochs", 2000)
    assert code == STOPPED, said
    assert "Traceback" not in said
    assert [file.name for file in tmp_path.iterdir()] == ["train.csv"]
    assert subprocess.run([sys.executable, "-m", "bertkit", *map(str, command), "--epochs", "1"]).returncode == 0


@pytest.mark.parametrize("command", ["evaluate", "embed"])
def test_other_long_work_that_is_told_to_stop_says_no_more_than_that(model: Path, tmp_path: Path, command: str):
    rows = "".join(f"word {n},{'ab'[n % 2]}\n" for n in range(200_000))
    (tmp_path / "a.csv").write_text(f"text,label\n{rows}")
    code, said = stopped_at("\n", command, model, tmp_path / "a.csv", *(["--field", "text"] * (command == "embed")))
    assert code == STOPPED, said
    assert "Traceback" not in said


def test_the_folder_tells_of_the_data_as_it_was_when_it_was_read(tiny_folder: Path, tmp_path: Path):
    train = tmp_path / "train.csv"
    train.write_text(ROWS)
    read = sha256_of(train)

    class Rewriting(Watcher):
        def learns_from(self, examples: Examples) -> None:
            assert len(examples.train) + len(examples.dev) == 40
            train.write_text("text,label\nsomething else,a\n")

    request = FinetuneRequest(task="classify", train=str(train), start=str(tiny_folder), change={"epochs": 1})
    finetune(request, tmp_path / "model", devices.choose("cpu", "float32", 1), watcher=Rewriting())
    facts = json.loads((tmp_path / "model" / "bertkit.json").read_text())
    assert facts["provenance"]["data"]["train"] == {"file": "train.csv", "sha256": read}
