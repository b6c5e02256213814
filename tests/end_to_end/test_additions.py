"""A family, an objective and a task of another package (tests/additions), installed beside this one, which knows
nothing of them: from text to the page, and killed on the way."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from commands import bertkit_command
from corpora import contents, lines_of
from pretraining import Finetuning, Pretraining, records, result
from servers import Server, running

ADDITIONS = Path(__file__).parents[1] / "additions"
ENTRY_POINTS = """[bertkit.families]
two-ways = two_ways:TWO_WAYS
[bertkit.objectives]
topic = topic:Topic
[bertkit.tasks]
better = better:Better
"""
STEPS = 24
PRETRAINING = ("--model", "two-ways-tiny", "--objectives", "mlm,topic=0.5", "--steps", STEPS, "--save-every", 6)
SHORT = ("--length", 32, "--batch", 8, "--validate-every", 12, "--validation-samples", 16, "--log-every", 1)
FITTING = ("--epochs", 4, "--batch", 8, "--learning-rate", 1e-2, "--max-length", 32, "--save-seconds", 0)
SIDES = ("left", "right")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where everything lies; the package is on the path of every process that is started meanwhile."""
    place = tmp_path_factory.mktemp("additions")
    installed = place / "installed"
    shutil.copytree(ADDITIONS, installed, ignore=shutil.ignore_patterns("__pycache__"))
    about = installed / "additions-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: additions\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(ENTRY_POINTS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(installed), prepend=os.pathsep)
        patch.syspath_prepend(installed)
        yield place


def done(command: str, *arguments: object) -> str:
    ended = bertkit_command(*command.split(), *arguments)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def refused(command: str, *arguments: object) -> str:
    ended = bertkit_command(*command.split(), *arguments)
    assert ended.returncode == 2, ended.stderr
    return ended.stderr


def through(process: Pretraining) -> str:
    ended = process.end()
    assert ended.returncode == 0, ended.stderr
    return ended.stderr


@pytest.fixture(scope="module")
def shards(place: Path, english: list[str]) -> Path:
    text = lines_of(["\n".join(english[i : i + 6]) for i in range(0, 360, 6)], place / "text.jsonl")
    done("tokenizer train", text, "--family", "two-ways", "--vocab-size", 600, "--out", place / "tokenizer")
    done("prepare", text, "--tokenizer", place / "tokenizer", "--out", place / "shards", "--validation", 0.1)
    return place / "shards"


@pytest.fixture(scope="module")
def run(place: Path, shards: Path) -> Path:
    through(Pretraining(place / "said", shards, "--out", place / "run", *PRETRAINING, *SHORT))
    return place / "run"


@pytest.fixture(scope="module")
def rows(place: Path, english: list[str]) -> Path:
    texts = [(f"good {line[20:40]}", f"bad {line[:30]}") for line in english[:64]]
    made = [{SIDES[n % 2]: good, SIDES[1 - n % 2]: bad, "winner": SIDES[n % 2]} for n, (good, bad) in enumerate(texts)]
    (place / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in made), encoding="utf-8")
    return place / "rows.jsonl"


@pytest.fixture(scope="module")
def fit(place: Path, run: Path, rows: Path) -> Path:
    through(Finetuning(place / "said", "better", rows, "--from", run / "model", "--out", place / "fit", *FITTING))
    return place / "fit"


@pytest.mark.parametrize("name", ["two_ways", "topic", "better"])
def test_the_documentation_shows_what_is_tested(name: str):
    code = (ADDITIONS / f"{name}.py").read_text(encoding="utf-8")
    assert f"```python\n{code}```" in (ADDITIONS.parents[1] / "docs" / "extending.md").read_text(encoding="utf-8")


def test_both_objectives_are_learned_in_one_pass(run: Path):
    facts = json.loads((run / "run.json").read_text())
    assert [each["name"] for each in facts["settings"]["recipe"]["objectives"]] == ["mlm", "topic"]
    first, last = (records(run, "validation")[at] for at in (0, -1))
    for loss in ("mlm_loss", "topic_loss"):
        assert last[loss] < first[loss]
    page = (run / "report.html").read_text()
    assert "words of the text" in page
    assert "masked words" in page
    config = json.loads((run / "model" / "config.json").read_text())
    assert (config["model_type"], config["hidden_size"]) == ("two-ways", 32)


def test_pretraining_killed_ends_with_the_same_bytes(place: Path, shards: Path, run: Path):
    words = (shards, "--out", place / "killed" / "run", *PRETRAINING, *SHORT)
    killed = Pretraining(place / "said", *words, dies_in_pass=STEPS // 2 + 3)
    assert killed.end().returncode == -signal.SIGKILL
    through(Pretraining(place / "said", *words))
    assert result(place / "killed" / "run") == result(run)


def test_fine_tuning_killed_ends_with_the_same_bytes(place: Path, run: Path, rows: Path, fit: Path):
    words = ("better", rows, "--from", run / "model", "--out", place / "again" / "fit", *FITTING)
    assert Finetuning(place / "said", *words, dies_in_pass=17).end().returncode == -signal.SIGKILL
    assert not (place / "again" / "fit").exists()
    assert "going on from" in through(Finetuning(place / "said", "--resume", place / "again" / "fit"))
    assert contents(place / "again" / "fit") == contents(fit)


def test_the_model_is_measured_asked_and_described(place: Path, fit: Path, run: Path, rows: Path):
    assert json.loads(done("evaluate", fit, rows))["metrics"]["accuracy"] > 0.9
    said = [json.loads(line)["better"] for line in done("predict", fit, rows).splitlines()]
    assert said[:2] == ["left", "right"]
    facts = json.loads(done("info", fit))
    assert (facts["family"], facts["task"], facts["hidden_size"]) == ("two-ways", "better", 32)
    assert "heads" not in facts
    guesses = json.loads(done("fill-mask", run / "model", "the [MASK] is"))["masks"][0]
    assert sum(guess["probability"] for guess in guesses) <= 1
    (place / "texts.txt").write_text("one text\nanother, longer text\n")
    done("embed", fit, place / "texts.txt", "--out", place / "vectors.npy")
    assert np.load(place / "vectors.npy").shape == (2, 32)


def test_names_and_options_are_known(tmp_path: Path, shards: Path):
    help_of_task = done("finetune", "better", "--help")
    assert all(flag in help_of_task for flag in ("--margin", "--left-column", "--right-column"))
    assert "--crf" not in help_of_task
    begin = ("pretrain", shards, "--out", tmp_path / "run", "--steps", 1, "--model", "two-ways-tiny", "--objectives")
    assert "Did you mean 'topic'" in refused(*begin, "mlm,topik")
    assert "next sentences for a two-ways model, which has no head for them" in refused(*begin, "mlm,nsp")


WAYS = (("--layer-decay", 0.8), ("--freeze",), ("--gradual",), ("--last-layers", 1), ("--mix-layers",), ("--lstm", 8))


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way[0])
def test_the_family_is_fine_tuned_in_every_way(place: Path, tmp_path: Path, run: Path, way: tuple[object, ...]):
    texts = [f"value {n} {'import' if n % 2 else 'class'},{'ab'[n % 2]}\n" for n in range(30)]
    (tmp_path / "rows.csv").write_text("text,label\n" + "".join(texts))
    where = ("--from", run / "model", "--out", tmp_path / "fit", "--epochs", 2, "--max-length", 16)
    through(Finetuning(place / "said", "classify", tmp_path / "rows.csv", *where, *way))
    assert json.loads((tmp_path / "fit" / "bertkit.json").read_text())["family"] == "two-ways"


def test_what_the_family_cannot_do_is_a_sentence(place: Path, tmp_path: Path, run: Path, rows: Path, fit: Path):
    fitting = ("finetune", "better", rows, "--from", run / "model", "--out", tmp_path / "fit", "--lora", 4)
    for said, command in (
        ("--lora for a two-ways model. Its layers have no matrices to stand beside", fitting),
        ("a two-ways model cannot be exported", ("export", fit, tmp_path / "exported")),
        ("attention maps of model. Its network has no attention", ("attention", run / "model", "a text")),
    ):
        told = refused(*command)
        assert said in told
        assert told.strip().splitlines()[-1].startswith("bertkit: ")
        assert "Traceback" not in told


@pytest.fixture(scope="module")
def server(fit: Path, run: Path) -> Iterator[Server]:
    with running(fit, run / "model", "--reload", "0") as started:
        yield started


def test_it_is_served(server: Server):
    with server.client() as client:
        facts = client.get("/v1/models/fit").json()
        assert (facts["task"], facts["operations"][0]) == ("better", "predict")
        assert [(part["name"], part["needed"]) for part in facts["parts"]] == [("left", True), ("right", True)]
        assert "attention" not in facts["operations"]
        words = client.get("/v1/models/model").json()
        assert (words["parts"], words["operations"]) == (None, ["fill-mask", "embed"])
        inputs = [{"left": "good value", "right": "bad import"}, ["bad import", "good value"]]
        answers = client.post("/v1/models/fit/predict", json={"inputs": inputs}).json()["answers"]
        assert [answer["better"] for answer in answers] == ["left", "right"]
        refused = client.post("/v1/models/fit/predict", json={"inputs": {"left": "one"}})
        assert refused.status_code == 422
        assert '"right"' in refused.json()["error"]["message"]
        assert client.post("/v1/models/fit/predict", json={"inputs": {"middle": "one"}}).status_code == 422
        fields = client.get("/openapi.json").json()["components"]["schemas"]["Fields"]["properties"]
        assert fields["left"]["description"] == "better"
        assert fields["text"]["description"] == "classify, regress, tag, embed, generate"
        refused = client.post("/v1/models/model/attention", json={"text": "a text"})
        assert refused.status_code == 422
        assert "model has no attention" in refused.json()["error"]["message"]
        assert "Traceback" not in server.said


def test_the_page_makes_its_form(server: Server, browser: Any):
    from selenium.webdriver.support.wait import WebDriverWait

    def texts(css: str) -> list[str]:
        code = "return [...document.querySelectorAll(arguments[0])].map((each) => each.innerText.trim())"
        return browser.execute_script(code, css)

    def wait_for(css: str) -> None:
        WebDriverWait(browser, 20, poll_frequency=0.02).until(lambda _: texts(css))

    browser.get(f"{server.url}/")
    browser.execute_script("localStorage.clear(); localStorage.setItem('bertkit.language', 'en')")
    browser.get("about:blank")
    browser.get(f"{server.url}/#fit/")
    wait_for(".field label")
    assert texts(".tabs a")[0] == "Predict"
    assert texts(".field label") == ["left", "right"]
    for name, text in (("left", "good value"), ("right", "bad import")):
        browser.find_element("css selector", f"[name={name}]").send_keys(text)
    browser.find_element("css selector", "button.main").click()
    wait_for(".result:not([aria-busy]) .verdict")
    assert texts(".result .verdict") == ["better left"]
    browser.get("about:blank")
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []


def test_where_the_package_is_not_nobody_knows_of_it(fit: Path, rows: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("PYTHONPATH")
    ended = bertkit_command("predict", fit, rows)
    assert ended.returncode == 3
    assert "two-ways" in ended.stderr


def test_a_broken_package_is_told_in_one_sentence_and_breaks_nothing_else(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    about = tmp_path / "broken-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[bertkit.tasks]\nworse = worse_task:Worse\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    ended = bertkit_command("finetune", "better", "--help")
    assert ended.returncode == 0
    assert "--left-column" in ended.stdout
    why = "\"ModuleNotFoundError: No module named 'worse_task'\""
    assert ended.stderr == f"note: worse of broken, which is worse_task:Worse, cannot be loaded: {why}\n"
