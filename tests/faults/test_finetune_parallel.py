"""Fine-tuning with several processes: the same numbers as with one.

Without dropout: what it drops depends on how a step is cut, and two processes cut it in two.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from bertkit import Bert
from bertkit.families import PRESETS, Gpt2Config, bert_tiny, vocabulary
from bertkit.hub import save_model
from bertkit.text import Tokenizer, draw_sample
from bertkit.text.train import train
from pretraining import ONE_THREAD, Finetuning

CLOSE = 1e-5
WORDS = ("import", "return", "value", "class")
ROWS = "text,label\n" + "".join(f"{WORDS[n % 4]} {'number ' * (n % 5)}{n},{n % 2}\n" for n in range(50))
PAIRS = "text1,text2\n" + "".join(f"{WORDS[n % 4]} number {n},{'value ' * (n % 3)}of {n}\n" for n in range(50))
TAGGED = "".join("very O\n" * (n % 3) + f"to O\nNew B-LOC\nYork{n} I-LOC\n\n" for n in range(50))
WRITTEN = "text,target\n" + "".join(f"{WORDS[n % 4]} number {n},{WORDS[n % 4]} {n % 5}\n" for n in range(50))
FILES = {
    "generate": ("d.csv", WRITTEN),
    "classify": ("a.csv", ROWS),
    "embed": ("b.csv", PAIRS),
    "tag": ("c.conll", TAGGED),
}


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory, tokenizer: Tokenizer) -> Path:
    torch.manual_seed(0)
    out = tmp_path_factory.mktemp("start") / "model"
    config = bert_tiny(vocab_size=tokenizer.vocab_size, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    save_model(out, Bert(config), tokenizer)
    return out


def words(folder: Path, start: Path, task: str, *more: object) -> list[object]:
    name, content = FILES[task]
    (start.parent / name).write_text(content)
    how = ("--epochs", 2, "--batch", 6, "--max-length", 16, "--learning-rate", 1e-4)
    return [task, start.parent / name, "--from", start, "--out", folder / "model", *how, *more]


def torchrun(*arguments: object) -> str:
    launcher = ["-m", "torch.distributed.run", "--nproc-per-node", 2, "--rdzv-backend", "c10d"]
    place = ["--rdzv-endpoint", "localhost:0", "-m", "bertkit", "finetune", *arguments, *ONE_THREAD]
    done = subprocess.run(
        [sys.executable, *map(str, [*launcher, *place])],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        timeout=200,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    ("task", "more"),
    [
        ("classify", ()),
        ("embed", ()),
        ("generate", ()),
        pytest.param("classify", ("--parallel", "fsdp"), marks=SLOW),
        pytest.param("embed", ("--parallel", "fsdp"), marks=SLOW),
        pytest.param("tag", ("--crf",), marks=SLOW),
        pytest.param("classify", ("--gradual", "--seeds", 2), marks=SLOW),
        pytest.param("classify", ("--lora", 4), marks=SLOW),
        pytest.param("classify", ("--lora", 4, "--parallel", "fsdp"), marks=SLOW),
        pytest.param("classify", ("--freeze",), marks=SLOW),
    ],
)
def test_two_processes_compute_what_one_does(tmp_path: Path, start: Path, task: str, more: tuple[object, ...]):
    one, two = tmp_path / "one", tmp_path / "two"
    ended = Finetuning(
        one, *words(one, start, task, *(each for each in more if each not in ("--parallel", "fsdp")))
    ).end()
    assert ended.returncode == 0, ended.stderr
    said = torchrun(*words(two, start, task, *more))
    assert said.count("epoch 1 ") == (2 if "--seeds" in more else 1), "one speaks for all"
    mine, its = (load_file(folder / "model" / "model.safetensors") for folder in (two, one))
    assert mine.keys() == its.keys()
    assert max(float((mine[name] - its[name]).abs().max()) for name in mine) <= CLOSE
    assert not (two / "model.run").exists()


def test_the_losses_told_are_those_of_one_process(tmp_path: Path, english: list[str]):
    """Of a GPT two are told together: that of the task, which every process has the whole of, and that of next words,
    of which each has its part."""
    learned = train(draw_sample(english[:300], hold_out=False), vocabulary("gpt2", vocab_size=400)).tokenizer
    torch.manual_seed(0)
    config = PRESETS["gpt2-tiny"](vocab_size=learned.vocab_size, **dict.fromkeys(Gpt2Config.dropouts, 0.0))
    start = tmp_path / "start" / "model"
    save_model(start, Bert(config, pooler=False, nsp=False), learned)
    one, two = tmp_path / "one", tmp_path / "two"
    ended = Finetuning(one, *words(one, start, "embed")).end()
    assert ended.returncode == 0, ended.stderr
    said = torchrun(*words(two, start, "embed"))
    losses = [re.findall(r"^epoch \d+  loss (\d\.\d+)", each, re.MULTILINE) for each in (ended.stderr, said)]
    assert len(losses[0]) == 2
    assert [float(loss) for loss in losses[1]] == pytest.approx([float(loss) for loss in losses[0]], abs=2e-4)
