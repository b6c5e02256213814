"""What a user may say to `predict`, `evaluate` and `bertkit.load`, and what they say of texts that were not read whole.
In this process, because there are many; test_cli_finetune.py has the commands in processes of their own."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner, Result

import bertkit
from bertkit.cli import app
from bertkit.errors import InputError, NumbersError, UsageError
from bertkit.hub import save_fine_tuned
from bertkit.infer import Scorer
from bertkit.nn import Bert, FineTuned, Pooler, needs_pooler
from bertkit.tasks import Classify, Embed, MultipleChoice, Qa, Regress, Tag, Task
from bertkit.text import Tokenizer

TASKS: dict[str, Task[Any]] = {
    "classify": Classify(classes=("neg", "pos"), max_length=48, pairs=False),
    "strict": Classify(classes=("neg", "pos"), max_length=48, pairs=False, long="error"),
    "pairs": Classify(classes=("neg", "pos"), max_length=48, pairs=True),
    "regress": Regress(max_length=48, pairs=False),
    "tag": Tag(tags=("O", "B-LOC", "I-LOC"), max_length=48),
    "qa": Qa(max_length=48),
    "choice": MultipleChoice(max_length=48),
    "embed": Embed(max_length=48),
}
LONG = "value " * 100
ONE_WORD = "." * 200
SHORT_AND_LONG: dict[str, tuple[Any, Any]] = {
    "classify": ("value", LONG),
    "regress": ("value", LONG),
    "tag": (("a", "value"), ("a", ONE_WORD, "value")),
    "qa": (("What is it?", LONG), (LONG, "A value.")),
    "choice": (("value", ["a", "b"]), (LONG, ["a", "b"])),
    "embed": (("value", "a"), ("a", LONG)),
}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory, tiny: Bert, tokenizer: Tokenizer) -> Path:
    """A folder for each task, its head as it was drawn."""
    folder = tmp_path_factory.mktemp("fine-tuned")
    torch.manual_seed(0)
    for name, task in TASKS.items():
        save_fine_tuned(folder / name, new_model(tiny, task), task, tokenizer, metrics={}, provenance={})
    return folder


def new_model(tiny: Bert, task: Task[Any]) -> FineTuned:
    bert = copy.deepcopy(tiny)
    bert.mlm = bert.nsp = None
    bert.pooler = Pooler(bert.config) if needs_pooler(bert.config, task.head.shape.reads) else None
    return FineTuned(bert, task.head.shape)


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [*map(str, arguments), "--threads", "1"])


def answers_of(done: Result) -> list[dict[str, Any]]:
    assert done.exit_code == 0, done.output
    return [json.loads(line) for line in done.stdout.splitlines()]


def refused(done: Result, told: str, code: int) -> None:
    assert done.exit_code == code, done.output
    assert told in done.stderr
    assert not done.stdout


@pytest.mark.parametrize("task", SHORT_AND_LONG)
def test_an_answer_says_that_its_input_was_not_read_whole(models: Path, task: str):
    model = bertkit.load(models / task, threads=1)
    whole, cut = model(list(SHORT_AND_LONG[task]))
    assert "cut" not in whole
    assert cut["cut"] is True
    assert json.loads(json.dumps(cut)) == cut


def test_what_was_not_read_whole_is_said_of_texts_on_the_command_line(models: Path):
    done = run("predict", models / "classify", "-t", LONG, "-t", "short")
    assert [answer.get("cut") for answer in answers_of(done)] == [True, None]
    assert "1 example was longer than 48 tokens and not read whole: it is input 1" in done.stderr
    assert "not read whole" not in run("predict", models / "classify", "-t", "short").stderr


def test_what_was_not_read_whole_is_said_of_files(tmp_path: Path, models: Path):
    source = tmp_path / "a.csv"
    source.write_text(f"text,label\nshort,pos\n{LONG},neg\n{LONG},pos\n")
    told = f"2 examples were longer than 48 tokens and not read whole: the first is {source}, line 3"
    done = run("evaluate", models / "classify", source)
    assert answers_of(done)[0]["cut"] == 2
    assert told in done.stderr
    done = run("predict", models / "classify", source)
    assert [answer.get("cut") for answer in answers_of(done)] == [None, True, True]
    assert told in done.stderr
    done = run("evaluate", models / "classify", source, "--long", "windows")
    assert "cut" not in answers_of(done)[0]
    assert "not read whole" not in done.stderr


def test_what_to_do_with_long_texts_can_be_said_anew(tmp_path: Path, models: Path):
    refused(run("predict", models / "strict", "-t", LONG), "--long head-tail, windows or head", 3)
    policies = {
        long: run("predict", models / "strict", "-t", f"a {LONG} b", "--long", long) for long in ("head", "windows")
    }
    head, windows = (answers_of(done)[0] for done in policies.values())
    assert head["probabilities"] != windows["probabilities"]
    assert (head.get("cut"), windows.get("cut")) == (True, None)
    assert bertkit.load(models / "strict", threads=1, long="windows")(f"a {LONG} b") == windows
    source = tmp_path / "a.csv"
    source.write_text(f"text,label\n{LONG},neg\n")
    assert run("evaluate", models / "strict", source).exit_code == 3
    assert run("evaluate", models / "strict", source, "--long", "head").exit_code == 0
    with pytest.raises(InputError, match="the model reads 48"):
        bertkit.load(models / "classify", threads=1, long="error")(LONG)


def test_what_a_task_cannot_be_told_is_refused(models: Path, tiny_folder: Path):
    refused(run("predict", models / "tag", "-t", "a", "--long", "head"), "--long with a model for tag", 2)
    refused(run("predict", models / "classify", "-t", "a", "--no-answer"), "--no-answer with a model for classify", 2)
    refused(run("predict", models / "classify", "-t", "a", "--long", "heads"), "Did you mean 'head'?", 2)
    with pytest.raises(UsageError, match="not fine-tuned"):
        bertkit.load(tiny_folder, long="head")


def test_a_question_and_its_passage_come_in_either_order(models: Path):
    passage, question = "The Normans came from Norway.", "Who came?"
    (expected,) = answers_of(run("predict", models / "qa", "-t", question, "--pair", passage))
    assert answers_of(run("predict", models / "qa", "--question", question, "-t", passage)) == [expected]
    assert bertkit.load(models / "qa", threads=1)((question, passage)) == expected
    assert passage[expected["start"] : expected["end"]] == expected["answer"]


def test_a_model_that_chooses_answers_on_the_command_line(models: Path):
    done = run(
        "predict", models / "choice", "-t", "It rains, so", "--ending", "go", "--ending", "stay", "--ending", "a"
    )
    (answer,) = answers_of(done)
    assert answer == bertkit.load(models / "choice", threads=1)(("It rains, so", ["go", "stay", "a"]))
    assert len(answer["probabilities"]) == 3


@pytest.mark.parametrize(
    ("task", "options", "told"),
    [
        ("choice", ("-t", "a"), "a beginning without endings"),
        ("choice", ("-t", "a", "-t", "b", "--ending", "c"), "--ending with 2 --text"),
        ("choice", ("--ending", "c"), "--ending with 0 --text"),
        ("classify", ("-t", "a", "--ending", "b", "--ending", "c"), "--ending with a model for classify"),
        ("classify", ("-t", "a", "--question", "b"), "--question with a model for classify"),
        ("classify", ("-t", "a", "--pair", "b"), "the model reads one text, and there is a --pair too. Leave it out."),
        ("pairs", ("-t", "a"), "the model reads two texts at once, and there is no --pair. Give one to each --text."),
        ("qa", ("-t", "a"), "--text without a question"),
        ("qa", ("-t", "a", "--question", "b", "--question", "c"), "2 --question for 1 --text"),
        ("qa", ("-t", "a", "--question", "b", "--pair", "c"), "more than one of --pair, --question and --ending"),
    ],
)
def test_texts_that_do_not_belong_together_are_wrong_usage(
    models: Path, task: str, options: tuple[str, ...], told: str
):
    refused(run("predict", models / task, *options), told, 2)


@pytest.mark.parametrize("task", SHORT_AND_LONG)
def test_a_model_that_has_no_finite_answers_gives_none(tmp_path: Path, tiny: Bert, tokenizer: Tokenizer, task: str):
    model = new_model(tiny, TASKS[task])
    with torch.no_grad():
        model.network.encoder.embeddings.word.weight.fill_(3e38)  # finite, but what is computed with it is not
    save_fine_tuned(tmp_path / "broken", model, TASKS[task], tokenizer, metrics={}, provenance={})
    with pytest.raises(NumbersError, match="broken: the model's scores are not finite numbers"):
        bertkit.load(tmp_path / "broken", threads=1)(SHORT_AND_LONG[task][0])
    if task == "classify":
        (tmp_path / "a.txt").write_text("value\n")
        told = "a lower --learning-rate"
        refused(run("predict", tmp_path / "broken", "-t", "value"), told, 3)
        refused(run("predict", tmp_path / "broken", tmp_path / "a.txt", "-o", tmp_path / "out.jsonl"), told, 3)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["a.txt", "broken"]


def test_answers_are_told_apart_by_the_tokenizer_too(tmp_path: Path, tiny: Bert, tokenizer: Tokenizer):
    """So that those begun with another are not gone on with."""
    tokenizer.save(tmp_path)
    backend = json.loads((tmp_path / "tokenizer.json").read_text())
    backend["normalizer"]["lowercase"] = not backend["normalizer"]["lowercase"]
    (tmp_path / "tokenizer.json").write_text(json.dumps(backend))
    (tmp_path / "tokenizer_config.json").unlink()
    task = Classify(classes=("a", "b"), max_length=16)
    model = new_model(tiny, task)
    same, other = Scorer(model, task, tokenizer), Scorer(model, task, Tokenizer.open(tmp_path))
    before = same.fingerprint()
    same.answer([task.read("some text", "here")])
    assert same.fingerprint() == before != other.fingerprint()
