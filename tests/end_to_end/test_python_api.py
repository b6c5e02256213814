"""The commands as functions of Python: the same settings, errors and results."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import bertkit
from bertkit.errors import InputError, UsageError
from commands import bertkit_command
from corpora import lines_of

ROOT = Path(__file__).parents[2]


@pytest.fixture
def place(tmp_path: Path, english: list[str]) -> Path:
    lines_of(["\n".join(english[i : i + 9]) for i in range(0, 1800, 9)], tmp_path / "text.jsonl")
    rows = [f"{'good' if n % 2 else 'bad'} {n},{n % 2}" for n in range(40)]
    (tmp_path / "reviews.csv").write_text("\n".join(["review,label", *rows]) + "\n")
    return tmp_path


def test_what_the_page_says_of_python_runs(place: Path):
    (code,) = re.findall(
        r"^```python\n(.*?bertkit\.pretrain.*?)^```", (ROOT / "docs/using.md").read_text(), re.M | re.S
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=place, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "no setting is called 'learning_rat'. Did you mean 'learning_rate'?" in done.stdout
    assert "plan: bert-tiny" in done.stderr, "what a command says on the way"
    assert "held out" in done.stderr
    assert {"shards", "run", "classifier"} <= {path.name for path in place.iterdir()}
    assert not (place / "comparison").exists(), "only its plan was asked for"


def test_functions_and_commands_make_the_same(place: Path, tiny_folder: Path, capfd: pytest.CaptureFixture[str]):
    quick = {"epochs": 1, "max_length": 16, "threads": 1}
    ours = bertkit.finetune(
        "classify", place / "reviews.csv", start=tiny_folder, out=place / "ours", quiet=True, **quick
    )
    measured = bertkit.evaluate(place / "ours", place / "reviews.csv", quiet=True, threads=1)
    assert capfd.readouterr() == ("", ""), "quiet is quiet"
    options = ("--from", tiny_folder, "--out", place / "theirs", "--epochs", 1, "--max-length", 16, "--threads", 1)
    done = bertkit_command("finetune", "classify", place / "reviews.csv", *options)
    assert done.returncode == 0, done.stderr
    weights = [(place / name / "model.safetensors").read_bytes() for name in ("ours", "theirs")]
    assert weights[0] == weights[1]
    assert measured["examples"] == 40
    assert ours["metrics"].keys() == measured["metrics"].keys()


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: bertkit.pretrain("x", out="y"), "Give `hours=H` or `steps=N`"),
        (lambda: bertkit.pretrain("x", out="y", steps="5"), "`steps` is '5'. It must be a whole number of at least 1."),
        (
            lambda: bertkit.pretrain("x", out="y", steps=5, learning_rate=0),
            "`learning_rate` is 0.0. It must be",
        ),
        (lambda: bertkit.pretrain("x", out="y", steps=5, groups=2), "`groups` with the family bert. It is for albert."),
        (lambda: bertkit.pretrain("x", out="y", steps=5, model="bert-mimi"), "Did you mean 'bert-mini'?"),
        (lambda: bertkit.pretrain(resume="x", steps=5), "and `steps` is given"),
        (lambda: bertkit.finetune("classify", "x", start="s", out="o", crf=True), "`crf` with the task classify"),
        (lambda: bertkit.finetune("clasify", "x", start="s", out="o"), "Did you mean 'classify'?"),
        (lambda: bertkit.prepare("x", out="y", boilerplat=3), "Did you mean 'boilerplate'?"),
        (lambda: bertkit.compare("x", out="y", steps=5), "Give `models=NAME,NAME` or `ablation=bert`"),
        (lambda: bertkit.register("a family"), "'a family' cannot be registered"),
    ],
)
def test_errors_name_the_keyword(call: Callable[[], object], said: str):
    with pytest.raises(UsageError) as refused:
        call()
    assert said in str(refused.value)


def test_a_file_that_is_not_there_is_the_error_of_the_command(tmp_path: Path, tiny_folder: Path):
    with pytest.raises(InputError, match="does not exist"):
        bertkit.finetune("classify", tmp_path / "no.csv", start=tiny_folder, out=tmp_path / "out", quiet=True)


def test_the_page_of_options_is_that_of_the_schemas():
    written = subprocess.run([sys.executable, "-m", "bertkit.cli.page"], capture_output=True, check=True).stdout
    assert written == (ROOT / "docs" / "options.md").read_bytes(), "make options writes it"


@pytest.mark.parametrize(
    ("arguments", "own", "others"),
    [
        (("finetune", "classify"), ("--class-weights", "--pair-column"), ("--crf", "--first-ending")),
        (("finetune", "tag"), ("--crf",), ("--class-weights", "--pair-column")),
        (("finetune",), ("--epochs",), ("--crf", "--class-weights")),
        (("pretrain", "--model", "electra-mini"), ("--generator-size",), ("--groups",)),
        (("pretrain", "--model=albert-mini"), ("--groups",), ("--generator-size",)),
        (("pretrain",), ("--learning-rate",), ("--groups", "--generator-size")),
    ],
)
def test_help_shows_what_is_of_the_task_or_family_that_is_named(
    arguments: tuple[str, ...], own: tuple[str, ...], others: tuple[str, ...]
):
    shown = bertkit_command(*arguments, "--help").stdout
    assert [option for option in own if f"\n  {option} " not in shown] == []
    assert [option for option in others if f"\n  {option} " in shown] == []


def test_flags_of_the_version_before_still_work(place: Path, tiny_folder: Path):
    shutil.copy(place / "reviews.csv", place / "r.csv")
    options = ("--from", tiny_folder, "--out", place / "model", "--epochs", 1, "--max-length", 16, "--threads", 1)
    done = bertkit_command("finetune", "classify", place / "r.csv", "--text", "review", "--label=label", *options)
    assert done.returncode == 0, done.stderr
    assert "--text " not in bertkit_command("finetune", "classify", "--help").stdout
