"""What the page on serving tells people to type works as it stands there."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from bertkit.serve import Limits
from servers import Server, running

PAGE = (Path(__file__).parents[2] / "docs" / "serving.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.M | re.S)


@pytest.fixture(scope="module")
def documented(folders: Path, tmp_path_factory: pytest.TempPathFactory):
    """The server of the page, started as it says."""
    (said,) = blocks("console")
    models = dict(each.split("=") for each in said.splitlines()[0].removeprefix("$ bertkit serve ").split())
    assert models == {"reviews": "reviews-model", "words": "demo/model"}
    place = {"reviews-model": folders / "classify", "demo/model": folders / "words"}
    with running(*(f"{name}={place[folder]}" for name, folder in models.items()), "--reload", "0") as started:
        for line in said.splitlines()[1:]:
            assert line.replace(":8000", f":{started.port}") in started.said
        yield started


def test_every_command_gets_an_answer(documented: Server):
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    commands = [line for block in blocks("bash") for line in block.splitlines()]
    assert len(commands) == 8
    for command in commands:
        asked = command.replace(":8000", f":{documented.port}")
        done = subprocess.run(asked, shell=True, capture_output=True, text=True, check=True)
        assert "error" not in json.loads(done.stdout), (command, done.stdout)


def test_the_python_runs(documented: Server):
    (code,) = blocks("python")
    asked = code.replace(":8000", f":{documented.port}")
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert len(re.findall(r"^(neg|pos) \{'neg': ", done.stdout, re.M)) == 2


def test_every_limit_is_listed_with_its_usual_value():
    listed = {}
    for names, values in re.findall(r"^\| (`\w+`(?:, `\w+`)*) \| ([\d, and]+) \|", PAGE, re.M):
        listed.update(zip(re.findall(r"\w+", names), re.findall(r"[\d,]+", values), strict=True))
    usual = {name: float(value.replace(",", "")) for name, value in listed.items()}
    assert usual == {each.name: each.default for each in fields(Limits)}


def test_every_status_that_is_given_is_listed():
    from bertkit.serve import PROBLEMS

    assert {int(status) for status in PROBLEMS} <= set(map(int, re.findall(r"^\| (\d{3}) \|", PAGE, re.M)))
