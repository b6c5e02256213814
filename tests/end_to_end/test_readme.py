"""What the README tells people to type works as it stands there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", (ROOT / "README.md").read_text(encoding="utf-8"), re.M | re.S)


@pytest.fixture
def place(tmp_path: Path, tiny_folder: Path) -> Path:
    """A folder as it is after `make demo`."""
    shutil.copytree(tiny_folder, tmp_path / "demo" / "model")
    shutil.copy(ROOT / "README.md", tmp_path)
    return tmp_path


def test_every_command_runs(place: Path):
    commands = [line for block in blocks("bash") for line in block.splitlines()]
    assert len(commands) >= 7
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    for command in commands:
        done = subprocess.run(command, shell=True, cwd=place, capture_output=True, text=True, env=environment)
        assert done.returncode == 0, f"{command}\n{done.stderr}"
    assert {"vectors.npy", "vectors.jsonl", "attention.html", "for-transformers"} <= {f.name for f in place.iterdir()}


def test_the_python_runs(place: Path, monkeypatch):
    assert len(blocks("python")) == 2
    for code in blocks("python"):
        subprocess.run([sys.executable, "-c", code], cwd=place, check=True)


def test_make_has_the_two_targets_it_names():
    for target in ("demo", "test"):
        assert f"$ make {target}" in "".join(blocks("console"))
        assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.M)


def test_every_link_leads_somewhere():
    for page in [ROOT / "README.md", *ROOT.glob("docs/*.md"), ROOT / "CONTRIBUTING.md"]:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
