"""Wrong examples for `finetune`, `evaluate` and `predict`: what is wrong, where, what to do, exit code 3, and nothing
written. In this process, because there are many; test_cli_finetune.py has the same in processes of their own."""

from __future__ import annotations

import copy
import csv
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from bertkit.cli import app
from bertkit.errors import InputError
from bertkit.hub import save_fine_tuned
from bertkit.infer import PredictionFile
from bertkit.infer.scoring import EXAMPLES_AT_ONCE
from bertkit.nn import Bert, FineTuned, Pooler, needs_pooler
from bertkit.tasks import Classify, MultipleChoice, Qa, Regress, Tag
from bertkit.text import Tokenizer

TASKS = {
    "classify": Classify(classes=("neg", "pos"), max_length=48, pairs=False),
    "pair": Classify(classes=("0", "1"), max_length=48, pairs=True),
    "several": Classify(classes=("a", "b"), max_length=48, pairs=False, multi_label=True),
    "regress": Regress(max_length=48, pairs=False),
    "tag": Tag(tags=("O", "B-LOC", "I-LOC"), max_length=48),
    "qa": Qa(max_length=48),
    "choice": MultipleChoice(max_length=48),
}
ROWS = "text,label\n" + "".join(f"value number {n},{'pos' if n % 2 else 'neg'}\n" for n in range(20))
PAIRS = "sentence1\tsentence2\tlabel\n" + "".join(f"good {n}\tvalue {n}\t{n % 2}\n" for n in range(20))
SEVERAL = "text,label\n" + "".join(f"value {n},{'a|b' if n % 2 else 'a'}\n" for n in range(20))
SCORES = "text,score\n" + "".join(f"value number {n},{n / 7:.2f}\n" for n in range(20))
TWO_NUMBERS = "text,stars given,words\n" + "".join(f"value {n},{n / 7:.2f},{n % 3}\n" for n in range(20))
TAGGED = "".join(f"to O\nNew B-LOC\nYork{n} I-LOC\n\n" for n in range(12))
CHINESE = "我 O\n在 O\n北 B-LOC\n京 I-LOC\n\n" * 12
WORDS = "".join(json.dumps({"words": ["to", "Bonn", str(n)], "tags": ["O", "B-LOC", "O"]}) + "\n" for n in range(12))
QUESTIONS = "".join(
    json.dumps({"question": "Where?", "context": f"From Norway {n}.", "answers": ["Norway"]}) + "\n" for n in range(12)
)
CHOICES = "".join(
    json.dumps({"premise": f"value {n}", "endings": ["return", "import"], "label": n % 2}) + "\n" for n in range(12)
)
GOOD = {
    "classify": ("a.csv", ROWS),
    "pair": ("a.tsv", PAIRS),
    "several": ("a.csv", SEVERAL),
    "regress": ("a.csv", SCORES),
    "tag": ("a.conll", TAGGED),
    "qa": ("a.jsonl", QUESTIONS),
    "choice": ("a.jsonl", CHOICES),
}


def squad(*questions: dict[str, Any], **paragraph: Any) -> str:
    return json.dumps({"data": [{"paragraphs": [{"context": "From Norway.", **paragraph, "qas": list(questions)}]}]})


def choice(*endings: str | None, label: int = 0) -> str:
    return json.dumps({"premise": "a", "endings": endings, "label": label})


def asked(name: str = "q1", text: str = "Norway") -> dict[str, Any]:
    return {"id": name, "question": "Where?", "answers": [{"text": text, "answer_start": 5}]}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory, tiny: Bert, tokenizer: Tokenizer) -> Path:
    """A folder for each task, its head as it was drawn."""
    folder = tmp_path_factory.mktemp("fine-tuned")
    for name, task in TASKS.items():
        bert = copy.deepcopy(tiny)
        bert.mlm = bert.nsp = None
        bert.pooler = Pooler(bert.config) if needs_pooler(bert.config, task.head.shape.reads) else None
        save_fine_tuned(folder / name, FineTuned(bert, task.head.shape), task, tokenizer, metrics={}, provenance={})
    return folder


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def refused(done: Result, *told: str, code: int = 3) -> None:
    assert done.exit_code == code, done.output
    assert "Traceback" not in done.output
    for words in told:
        assert words in done.stderr


def written(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def finetune(folder: Path, tiny_folder: Path, task: str, train: Path, *options: object) -> Result:
    where = ("--from", tiny_folder, "--out", folder / "model")
    return run("finetune", task, train, *where, "--epochs", 1, "--threads", 1, *options)


@pytest.mark.parametrize(
    ("task", "name", "content", "options", "told"),
    [
        ("classify", "a.csv", ROWS, ("--text", "txt"), ("there is no column 'txt'", "Did you mean 'text'?")),
        ("classify", "a.csv", ROWS.replace(",pos", ",neg"), (), ("line 2: there is only one label", "'neg'")),
        ("classify", "a.csv", ROWS.replace(",neg", ",pos"), ("--multi-label",), ("only one label", "'pos'")),
        ("classify", "a.csv", ROWS + " ,pos\n", (), ("line 22: the text is empty", "fill it in", "--bad-rows skip")),
        ("classify", "a.csv", "text, so;1\nbad, so;0\n" * 9, (), ("as many commas and semicolons", "--delimiter semi")),
        ("classify", "a.csv", ROWS + ROWS, (), ("line 22: the header once more", "joined")),
        ("classify", "a.csv.gz", gzip.compress(ROWS.encode())[:-9], (), ("ends early", "Copy or download")),
        ("classify", "a.csv", b"\x89PNG\r\n\x1a\n" + bytes(50), (), ("a PNG picture", "Give a table")),
        ("classify", "a.csv", b"", (), ("a.csv: empty", "Give a table")),
        ("classify", "a.csv", "text,label\n", (), ("a.csv has no rows",)),
        ("classify", "a.jsonl", '{"text": "a", "label": 1}\n{\n', (), ("line 2: not valid JSON", "leave the row out")),
        ("classify", "a.tsv", PAIRS + "good\t\t1\n", (), ("line 22: the pair is empty",)),
        ("classify", "a.csv", "a,b\n1,2\n", (), ("the text; and no", "--text-column", "--label-column", "--columns")),
        ("regress", "a.csv", SCORES + "b,NaN\n", (), ("line 22: the score is 'NaN', not a number", "mend it")),
        ("regress", "a.csv", TWO_NUMBERS, (), ("plainly the score", "--score-column")),
        ("regress", "a.csv", SCORES, ("--score", "scor"), ("Did you mean 'score'?",)),
        ("tag", "a.jsonl", WORDS + '{"words": ["a"], "tags": []}', (), ("line 13: 1 words", "0 tags", "needs a tag")),
        ("tag", "a.jsonl", WORDS + '{"words": [], "tags": []}', (), ("line 13: there are no words",)),
        ("tag", "a.jsonl", WORDS + '{"words": [""], "tags": ["O"]}', (), ("line 13: word 1 is empty",)),
        ("tag", "a.conll", TAGGED + "to O\nBonn I-LOC\n", (), ("line 49: the tag 'I-LOC' continues", "--repair-tags")),
        ("tag", "a.conll.train", CHINESE + "我 O\n北 I-LOC\n", (), ("line 61: the tag 'I-LOC'", "--repair")),
        ("tag", "a.txt", CHINESE + "北京\n", (), ("line 61: a word, '北京', without a tag",)),
        ("qa", "a.json", squad(asked(text="Sweden")), (), ("question 'q1': the answer 'Sweden' is not in", "mend it")),
        ("qa", "a.json", squad(asked(), asked()), (), ("question 'q1': this id is there twice", "its own id")),
        ("qa", "a.json", squad(asked()).replace("context", "contxt"), (), ("the context", "'contxt'?")),
        ("qa", "a.jsonl", QUESTIONS.replace("context", "contxt"), (), ("the context", "Did you mean 'contxt'?")),
        ("choice", "a.jsonl", CHOICES.replace("premise", "premis"), (), ("the premise", "Did you mean 'premis'?")),
        ("choice", "a.jsonl", CHOICES, ("--endings", "ending"), ("no column 'ending'", "Did you mean 'endings'?")),
        ("choice", "a.jsonl", CHOICES + choice("b"), (), ("line 13", "two or more")),
        ("choice", "a.jsonl", CHOICES + choice("b", None), (), ("['b', None]", "two or more")),
        ("choice", "a.jsonl", CHOICES + choice("b", "c", label=2), (), ("must be 0 to 1",)),
    ],
)  # fmt: skip
def test_wrong_examples_are_not_learned_from(
    tmp_path: Path,
    tiny_folder: Path,
    task: str,
    name: str,
    content: str | bytes,
    options: tuple[str, ...],
    told: tuple[str, ...],
):
    train = written(tmp_path, name, content)
    refused(finetune(tmp_path, tiny_folder, task, train, *options), *told)
    assert list(tmp_path.iterdir()) == [train]


@pytest.mark.parametrize(
    ("task", "name", "train", "dev", "told"),
    [
        (
            "classify",
            "csv",
            ROWS,
            "text,label\na,pos\nb,neutral\n",
            "dev.csv, line 3: the label 'neutral' is not among",
        ),
        ("classify", "csv", ROWS, "text,label\n", "dev.csv has no rows"),
        (
            "tag",
            "conll",
            TAGGED,
            "a O\nb B-PER\n",
            "dev.conll, line 1, word 2 of the sentence: the type 'PER', of 'b', is not among",
        ),
        ("tag", "conll", TAGGED, "-DOCSTART- O\n", "dev.conll has no rows"),
        (
            "choice",
            "jsonl",
            CHOICES,
            CHOICES.replace(": 1}", ": 2}"),
            "dev.jsonl, line 2: the right ending is number 2",
        ),
    ],
)
def test_what_a_model_cannot_be_measured_on_is_refused_before_it_learns(
    tmp_path: Path, tiny_folder: Path, task: str, name: str, train: str, dev: str, told: str
):
    files = [written(tmp_path, f"dev.{name}", dev), written(tmp_path, f"train.{name}", train)]
    refused(finetune(tmp_path, tiny_folder, task, files[1], "--dev", files[0]), told)
    assert sorted(tmp_path.iterdir()) == files


@pytest.mark.parametrize(
    ("task", "option"),
    [("tag", "pair"), ("tag", "score"), ("qa", "pair"), ("choice", "score"), ("classify", "endings")],
)
def test_a_column_that_a_task_does_not_have_is_wrong_usage(tmp_path: Path, tiny_folder: Path, task: str, option: str):
    train = written(tmp_path, *GOOD[task])
    flag = "--endings" if option == "endings" else f"--{option}-column"
    refused(finetune(tmp_path, tiny_folder, task, train, flag, "x"), f"{flag} with the task {task}. It is for", code=2)


def test_how_endings_are_counted_is_for_choices_only(tmp_path: Path, tiny_folder: Path):
    for task, first, words, code in (
        ("classify", 1, "--first-ending with the task classify. It is for choice.", 2),
        ("choice", 1, "the right ending is number 0", 3),
        ("choice", 2, "--first-ending is 2. It must be a whole number from 0 to 1", 2),
    ):
        train = written(tmp_path, *GOOD[task])
        refused(finetune(tmp_path, tiny_folder, task, train, "--first-ending", first), words, code=code)


def with_a_bad_line(content: str) -> bytes:
    return content.encode() + b"\xff\n"


def cut_short(content: str) -> bytes:
    return gzip.compress((content + content.partition("\n")[2] * 50).encode())[:-20]


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("damage", [with_a_bad_line, cut_short])
def test_predictions_for_wrong_input_leave_nothing(
    tmp_path: Path, models: Path, task: str, damage: Callable[[str], bytes]
):
    """Whatever is wrong in its last line: the file is looked through before anything is written."""
    name, content = GOOD[task]
    source = written(tmp_path, f"{name}.gz" if damage is cut_short else name, damage(content))
    done = run("predict", models / task, source, "--out", tmp_path / "new" / "answers.jsonl", "--threads", 1)
    refused(done, source.name, "line ")
    refused(run("evaluate", models / task, source, "--threads", 1), source.name, "line ")
    assert list(tmp_path.iterdir()) == [source]


@pytest.mark.parametrize(
    ("task", "name", "content", "told"),
    [
        ("classify", "a.csv", "txet\na\n", "no column is plainly the text"),
        ("classify", "a.csv", "text,n\na,1\n ,2\n", "a.csv, line 3: the text is empty"),
        ("classify", "a.json", squad(asked()), "no column is plainly the text"),
        ("tag", "a.json", squad(asked()), "no column is plainly the words"),
        ("pair", "a.txt", "a\nb\n", "a.txt, line 1: the model reads two texts at once, and there is one"),
        ("tag", "a.jsonl", '{"words": ["a"]}\n{"words": []}\n', "a.jsonl, line 2: there are no words"),
        ("qa", "a.jsonl", '{"question": "a", "context": ""}\n', "a.jsonl, line 1: the context is empty"),
        ("choice", "a.jsonl", '{"premise": "a", "endings": ["b"]}\n', "a.jsonl, line 1: the endings are ['b']"),
        ("choice", "a.txt", "a\n", "no column is plainly the endings"),
    ],
)
def test_a_row_that_cannot_be_answered_is_named(
    tmp_path: Path, models: Path, task: str, name: str, content: str, told: str
):
    source = written(tmp_path, name, content)
    refused(run("predict", models / task, source, "-o", tmp_path / "answers.jsonl", "--threads", 1), told)
    assert list(tmp_path.iterdir()) == [source]


def test_input_that_turns_out_wrong_while_answers_are_written_leaves_nothing(tmp_path: Path):
    with pytest.raises(InputError), PredictionFile.opened(tmp_path / "out.jsonl", {"input": "a"}) as file:
        assert list(file.write([({}, {"label": "a"})])) == [1]
        raise InputError("line 2 is wrong")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(KeyboardInterrupt), PredictionFile.opened(tmp_path / "out.jsonl", {"input": "a"}) as file:
        assert list(file.write([({}, {"label": "a"})] * (EXAMPLES_AT_ONCE + 1))) == [EXAMPLES_AT_ONCE, 1]
        raise KeyboardInterrupt
    with PredictionFile.opened(tmp_path / "out.jsonl", {"input": "a"}) as file:
        assert file.done == EXAMPLES_AT_ONCE, "what was interrupted goes on, with those that are computed together"


def test_every_line_of_plain_text_that_is_not_blank_is_tagged_and_known_by_its_number(tmp_path: Path, models: Path):
    source = written(tmp_path, "a.txt", "going to Bonn\n\nEU is not here\n\n")
    out = tmp_path / "answers.jsonl"
    done = run("predict", models / "tag", source, "-o", out, "--threads", 1)
    assert done.exit_code == 0, done.output
    answers = [json.loads(line) for line in out.read_text().splitlines()]
    assert [(answer["id"], len(answer["words"])) for answer in answers] == [(1, 3), (3, 4)]


def test_a_table_gets_answers_beside_its_columns(tmp_path: Path, models: Path):
    source = written(tmp_path, "a.csv", 'id,text,label\nx7,"good, so",yes\n,,\nx9,,no\nx8,"two\nlines",no\n')
    out = tmp_path / "answers.csv"
    refused(run("predict", models / "classify", source, "-o", out, "--threads", 1), "line 4: the text is empty")
    done = run("predict", models / "classify", source, "-o", out, "--bad-rows", "skip", "--threads", 1)
    assert done.exit_code == 0, done.output
    with out.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["id"], row["text"], row["label"]) for row in rows] == [
        ("x7", "good, so", "yes"),
        ("x8", "two\nlines", "no"),
    ]
    assert all(row["predicted_label"] in ("neg", "pos") and 0.5 <= float(row["probability"]) <= 1 for row in rows)
    beside = tmp_path / "answers.csv.a.csv.bad-rows.jsonl"
    assert json.loads(beside.read_text())["row"]["id"] == "x9"
    assert str(beside) in done.stderr
    done = run("predict", models / "classify", source, "--bad-rows", "skip", "--threads", 1)
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == ["x7", "x8"]


def test_thousands_of_classes_are_learned(tmp_path: Path, tiny_folder: Path):
    rows = "text,label\n" + "".join(f"value {n},class {n // 2}\n" for n in range(3000))
    done = finetune(
        tmp_path, tiny_folder, "classify", written(tmp_path, "a.csv", rows), "--max-length", 16, "--batch", 512
    )
    assert done.exit_code == 0, done.output
    assert "the commonest label" in json.loads(done.stdout)["baselines"]
    assert not (tmp_path / "model" / "confusion.png").exists()


def test_columns_of_questions_can_be_named(tmp_path: Path, models: Path):
    rows = QUESTIONS.replace("question", "q").replace("context", "c").replace("answers", "a")
    source = written(tmp_path, "a.jsonl", rows)
    named = ("--question-column", "q", "--text-column", "c")
    done = run("evaluate", models / "qa", source, *named, "--label-column", "a", "--threads", 1)
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["examples"] == 12
    assert run("predict", models / "qa", source, *named, "--threads", 1).exit_code == 0
