"""`bertkit generate` as a user has it."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from bertkit.families import PRESETS, vocabulary
from bertkit.hub import save_model
from bertkit.nn import Bert
from bertkit.text import draw_sample
from bertkit.text.train import train
from commands import bertkit_command


@pytest.fixture(scope="module")
def writer(tmp_path_factory: pytest.TempPathFactory, english: list[str]) -> Path:
    """A GPT-2 that has learned nothing."""
    tokenizer = train(draw_sample(english, hold_out=False), vocabulary("gpt2", vocab_size=600)).tokenizer
    torch.manual_seed(0)
    sizes = {"vocab_size": tokenizer.vocab_size, "max_position_embeddings": 64, "initializer_range": 0.3}
    model = Bert(PRESETS["gpt2-tiny"](**sizes), pooler=False, nsp=False)
    folder = tmp_path_factory.mktemp("models") / "writer"
    save_model(folder, model, tokenizer)
    return folder


def lines(done: subprocess.CompletedProcess[str]) -> list[dict[str, object]]:
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_prompts_from_arguments_a_file_and_stdin_are_gone_on_with_alike(writer, tmp_path):
    prompts = ["The file is", "Names"]
    done = bertkit_command("generate", writer, *prompts, "-n", 7)
    found = lines(done)
    assert [line["prompt"] for line in found] == prompts
    assert all((line["ended"], line["tokens"]) == ("length", 7) for line in found)
    assert re.search(r"^note: 14 tokens in [\d.]+ s, [\d.,]+ tokens/s$", done.stderr, re.M)
    text = "\n".join(prompts) + "\n"
    (tmp_path / "prompts.txt").write_text(text)
    assert lines(bertkit_command("generate", writer, "--file", tmp_path / "prompts.txt", "-n", 7)) == found
    assert lines(bertkit_command("generate", writer, "-n", 7, stdin=text.encode())) == found


def test_every_setting_reaches_the_model(writer):
    (greedy,) = lines(bertkit_command("generate", writer, "The file is", "-n", 12))
    words = str(greedy["text"])
    (stopped,) = lines(bertkit_command("generate", writer, "The file is", "-n", 12, "--stop", words[6:8]))
    assert (stopped["text"], stopped["ended"]) == (words[: words.index(words[6:8])], "stop")
    drawing = ["--temperature", 1, "--top-k", 50, "--top-p", 0.9, "--samples", 2, "--seed", 3]
    drawn = lines(bertkit_command("generate", writer, "The file is", "-n", 12, *drawing))
    assert [line["sample"] for line in drawn] == [0, 1]
    assert len({words, *(str(line["text"]) for line in drawn)}) == 3
    (best,) = lines(bertkit_command("generate", writer, "The file is", "-n", 5, "--beams", 3))
    assert best["tokens"] == 5


def test_on_a_terminal_the_text_follows_its_prompt(writer):
    (piped,) = lines(bertkit_command("generate", writer, "The file is", "-n", 9))
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "bertkit", "generate", str(writer), "The file is", "-n", "9"]
    process = subprocess.Popen(command, stdout=theirs, stderr=subprocess.PIPE)
    os.close(theirs)
    shown = b""
    try:
        while part := os.read(ours, 4096):
            shown += part
    except OSError:  # how a terminal ends on Linux
        pass
    assert process.communicate()[1].startswith(b"note: 9 tokens")
    os.close(ours)
    plain = re.sub(r"\x1b\[\d+m", "", shown.decode()).replace("\r\n", "\n")
    assert plain == f"The file is{piped['text']}\n"


def test_a_model_that_will_be_full_says_so(writer):
    done = bertkit_command("generate", writer, "The file is", "-n", 900)
    (line,) = lines(done)
    assert line["ended"] == "full"
    assert "note: writer reads 64 tokens at once: after prompt 1 there is room for" in done.stderr
    assert "Warning" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["The", "--beams", 2, "--temperature", 1], 2, "temperature 1 with 2 beams"),
        (["The", "--top-p", 1.5, "--temperature", 1], 2, "--top-p is 1.5. It must be a number from 0 to 1"),
        (["The", "--top-k", 5], 2, "top_k 5 where nothing is drawn"),
        (["The", "--file", "prompts.txt"], 2, "both prompts and the file prompts.txt"),
        ([""], 3, "prompt 1 is empty"),
        (["--file", "not-there.txt"], 3, "not-there.txt"),
        ([], 3, "standard input has no prompts"),
    ],
)
def test_what_cannot_work_is_told_in_one_line(writer, arguments, code, message):
    done = bertkit_command("generate", writer, *arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_an_encoder_is_told_to_fill_masks(tiny_folder):
    done = bertkit_command("generate", tiny_folder, "The file")
    assert done.returncode == 2
    assert "tiny reads in both directions; it cannot write on. Use fill-mask" in done.stderr
