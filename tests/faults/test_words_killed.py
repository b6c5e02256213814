"""Learning vectors, killed and stopped: the same command goes on, and on one thread ends with the same bytes."""

import json
import random
import signal
import subprocess
import sys
import time
from hashlib import sha256

import pytest

SLOW = """
import sys
from bertkit.words import progress, windows, glove
from bertkit.cli import main
progress.SAVE_SECONDS = 0.0
windows.PARTS_AT_ONCE = 1
sys.argv = ["bertkit", *sys.argv[1:]]
main()
"""
METHODS = {
    "skip-gram": ["--dimension", "20", "--epochs", "40"],
    "glove": ["--dimension", "20", "--epochs", "60", "--memory-mb", "16"],
    "nnlm": ["--dimension", "8", "--hidden", "8", "--order", "3", "--epochs", "12"],
}


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    draw, path = random.Random(0), tmp_path_factory.mktemp("text") / "text.jsonl"
    words = [f"{a}{b}" for a in "bcdfghklmn" for b in "aeiou"]
    weights = [1 / (n + 1) for n in range(len(words))]
    lines = (" ".join(draw.choices(words, weights, k=20)) for _ in range(3000))
    path.write_text("".join(json.dumps({"text": line}) + "\n" for line in lines))
    return path


def command(text, out, method, *more):
    how = ["--method", method, "--threads", "1", "--seed", "3", *METHODS[method], *more]
    return [sys.executable, "-c", SLOW, "words", "train", str(text), "-o", str(out), *how]


def digests(folder):
    return {file.name: sha256(file.read_bytes()).hexdigest() for file in folder.iterdir()}


@pytest.mark.parametrize(
    "method", ["skip-gram", *(pytest.param(each, marks=pytest.mark.slow) for each in ("glove", "nnlm"))]
)
def test_killed_again_and_again_it_ends_with_the_same_bytes(text, tmp_path, method):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    subprocess.run(command(text, whole, method), check=True, capture_output=True)
    state, deaths, seen = killed.with_name("killed.run") / "state" / "state.json", 0, None
    for _ in range(12):
        process = subprocess.Popen(command(text, killed, method), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while process.poll() is None:
            now = state.stat().st_mtime_ns if state.exists() else None
            if now != seen and now is not None and deaths < 2:
                process.send_signal(signal.SIGKILL)
                deaths += 1
                seen = now
            time.sleep(0.005)
        process.wait()
        seen = state.stat().st_mtime_ns if state.exists() else None
        if killed.exists():
            break
    assert deaths == 2
    assert digests(killed) == digests(whole)
    assert not killed.with_name("killed.run").exists()


def test_another_command_is_not_gone_on_with(text, tmp_path):
    out = tmp_path / "out"
    process = subprocess.Popen(command(text, out, "skip-gram"), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    state = out.with_name("out.run") / "state" / "state.json"
    while not state.exists():
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    assert "Give the same command again" in process.communicate()[1].decode()
    assert process.returncode == 4
    other = subprocess.run(command(text, out, "skip-gram", "--seed", "4"), capture_output=True, text=True)
    assert other.returncode == 3
    assert "begun with other text or settings" in other.stderr
    assert "Traceback" not in other.stderr
    subprocess.run(command(text, out, "skip-gram", "--seed", "4", "--overwrite"), check=True, capture_output=True)
    assert out.exists()
