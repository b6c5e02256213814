"""A change of the code that is not meant to change numbers does not: fifty steps of every family that can be pretrained
and of every task, by the command line alone, end with the weights they had before.

`tests/before/numbers.json` has what they were. On a processor that it names the weights are the same to the bit,
whatever they are called by now; on another, whose sums are rounded otherwise, they are as near as fifty steps leave
them. Where numbers are meant to change: python tests/parity/test_same_numbers.py CASE ... writes them anew, and the
change says why.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
import random
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from bertkit.device import choose
from commands import bertkit_command

NUMBERS = Path(__file__).parents[1] / "before" / "numbers.json"
NEAR = 0.02
"""Of the size of weights that belong together, on another processor."""
ON_CPU = ("--device", "cpu", "--precision", "float32", "--threads", 1)
VOCABULARY = {"bert": 400, "roberta": 600, "albert": 400, "gpt": 400, "gpt2": 600, "modernbert": 600}
SHORT = ("--steps", 50, "--batch", 8, "--micro-batch", 4, "--length", 32, "--long-length", 0, "--seed", 3)
AT_ONCE = ("--next-words-first", 0)
SPARING = ("--validate-every", 25, "--validation-samples", 16, "--log-every", 5, "--save-every", 50)

PRETRAINED: dict[str, tuple[str, Sequence[object]]] = {
    "bert": ("bert", ("--model", "bert-tiny")),
    "bert as in the paper": ("bert", ("--model", "bert-tiny", "--recipe", "bert", "--learning-rate", 1e-3)),
    "bert whole words": ("bert", ("--model", "bert-tiny", "--mask", "word", "--no-nsp", "--optimizer", "lamb")),
    "bert two lengths": ("bert", ("--model", "bert-tiny", "--long-length", 64, "--masks", "static")),
    "bert next words first": ("bert", ("--model", "bert-tiny", "--next-words-first", 0.4)),
    "bert left to right": ("bert", ("--model", "bert-tiny", "--left-to-right", "--no-nsp")),
    "roberta": ("roberta", ("--model", "roberta-tiny")),
    "albert": ("albert", ("--model", "albert-tiny")),
    "electra": ("bert", ("--model", "electra-tiny")),
    "modernbert": ("modernbert", ("--model", "modernbert-tiny")),
    "gpt": ("gpt", ("--model", "gpt-tiny")),
    "gpt2": ("gpt2", ("--model", "gpt2-tiny")),
}
FINE_TUNED: dict[str, tuple[str, str, Sequence[object]]] = {
    "classify": ("classify", "bert", ()),
    "classify several": ("classify", "bert", ("--class-weights", "--mix-layers", "--lstm", 16, "--layer-decay", 0.8)),
    "classify a little": ("classify", "bert", ("--lora", 4)),
    "classify by degrees": ("classify", "bert", ("--gradual", "--seeds", 2)),
    "classify roberta": ("classify", "roberta", ()),
    "classify albert": ("classify", "albert", ()),
    "classify electra": ("classify", "electra", ()),
    "classify modernbert": ("classify", "modernbert", ()),
    "classify gpt": ("classify", "gpt", ()),
    "pairs gpt2": ("pairs", "gpt2", ("--both-orders",)),
    "regress": ("regress", "bert", ()),
    "tag": ("tag", "bert", ()),
    "tag crf": ("tag", "bert", ("--crf", "--freeze", "--lstm", 16)),
    "qa": ("qa", "bert", ()),
    "qa windows": ("qa", "bert", ("--max-length", 24)),
    "choice": ("choice", "bert", ()),
    "embed scores": ("embed", "bert", ()),
    "embed pairs": ("embed alike", "bert", ()),
    "generate": ("generate", "bert", ()),
    "generate with one": ("generate", "bert", ("--way", "one")),
    "generate shared": ("generate", "bert", ("--share", "--smoothing", 0)),
    "generate gpt2": ("generate", "gpt2", ()),
}
OFTEN = {
    "bert",
    "albert",
    "electra",
    "gpt",
    "classify",
    "classify gpt",
    "tag crf",
    "qa windows",
    "choice",
    "embed pairs",
    "generate with one",
}
"""Those that every run of the tests looks at."""


class Made:
    """Text, rows and models that all cases begin with: drawn, so that they are the same on every machine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.draw = random.Random(7)
        syllables = [first + second for first in "bdfklmnprst" for second in "aeiou"]
        self.words = ["".join(self.draw.choices(syllables, k=self.draw.randint(1, 3))) for _ in range(300)]
        self.follow = [self.draw.sample(range(300), 6) for _ in range(300)]
        documents = [[self.sentence() for _ in range(self.draw.randint(4, 9))] for _ in range(240)]
        self.text = folder / "text.jsonl"
        self.text.write_text("".join(json.dumps({"text": "\n".join(each)}) + "\n" for each in documents))

    def sentence(self, shortest: int = 5) -> str:
        """Each word decides which six may follow."""
        numbers = [self.draw.randrange(300)]
        for _ in range(self.draw.randint(shortest, 2 * shortest + 2)):
            numbers.append(self.draw.choice(self.follow[numbers[-1]]))
        return " ".join(self.words[number] for number in numbers) + "."

    @functools.cache  # noqa: B019 as long as the tests
    def shards(self, tokenizer: str) -> Path:
        made, out = self.folder / f"{tokenizer}-tokenizer", self.folder / f"{tokenizer}-shards"
        size = VOCABULARY[tokenizer]
        done("tokenizer", "train", self.text, "--family", tokenizer, "--vocab-size", size, "--out", made)
        plain = ("--near-duplicates", 0, "--boilerplate", 0, "--workers", 1, "--words", "no")
        done("prepare", self.text, "--tokenizer", made, "--validation", 0.1, *plain, "--out", out)
        return out

    @functools.cache  # noqa: B019
    def run(self, case: str) -> Path:
        out = self.folder / f"run {case}"
        tokenizer, options = PRETRAINED[case]
        done("pretrain", self.shards(tokenizer), *SHORT, *AT_ONCE, *SPARING, *options, *ON_CPU, "--out", out)
        return out

    @functools.cache  # noqa: B019
    def rows(self, task: str) -> Path:
        file = self.folder / f"{task}.jsonl"
        self.draw.seed(task)
        file.write_text("".join(json.dumps(getattr(self, task.replace(" ", "_"))()) + "\n" for _ in range(240)))
        return file

    def classify(self) -> dict[str, Any]:
        text = self.sentence()
        return {"text": text, "label": ["low", "middle", "high"][sum(map(ord, text[:4])) % 3]}

    def pairs(self) -> dict[str, Any]:
        first, second = self.sentence(), self.sentence()
        return {"text": first, "pair": second, "label": str(first[0] < second[0])}

    def regress(self) -> dict[str, Any]:
        text = self.sentence()
        return {"text": text, "score": text.count("a") / 4 + 3}

    def tag(self) -> dict[str, Any]:
        tokens = self.sentence()[:-1].split()
        return {"tokens": tokens, "tags": ["B-X" if each[0] in "bd" else "O" for each in tokens]}

    def qa(self) -> dict[str, Any]:
        context = " ".join(self.sentence() for _ in range(2))
        words = context.split(" ")
        at = self.draw.randrange(1, len(words) - 1)
        start = len(" ".join(words[:at])) + 1
        answer = {"text": [words[at]], "answer_start": [start]}
        return {"id": str(self.draw.random()), "question": words[at - 1], "context": context, "answers": answer}

    def choice(self) -> dict[str, Any]:
        row = {"premise": self.sentence(), **{f"ending{n}": self.sentence(3) for n in range(3)}}
        return {**row, "label": self.draw.randrange(3)}

    def embed(self) -> dict[str, Any]:
        first, second = self.sentence(), self.sentence()
        return {"sentence1": first, "sentence2": second, "score": len({*first.split()} & {*second.split()})}

    def embed_alike(self) -> dict[str, Any]:
        first = self.sentence()
        return {"sentence1": first, "sentence2": " ".join(sorted(first.split()))}

    def generate(self) -> dict[str, Any]:
        text = self.sentence()
        return {"text": text, "target": " ".join(text.split()[:3])}

    def numbers(self, case: str) -> dict[str, Any]:
        """What a case ends with."""
        if case in PRETRAINED:
            run = self.run(case)
            last = run / "checkpoints" / "step-00000050"
            told = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
            held_out = [
                [value for value in facts.values() if isinstance(value, float)]
                for facts in told
                if facts["kind"] == "validation"
            ]
            files = [last / "weights.safetensors", last / "optimizer.safetensors", *run.glob("*/model.safetensors")]
            return summary(files, held_out[-1])
        task, start, options = FINE_TUNED[case]
        out = self.folder / f"model {case}"
        usual = ("--epochs", 2, "--batch", 8, "--seed", 5, *ON_CPU)
        kind = {"pairs": "classify"}.get(task, task.split()[0])
        done(
            "finetune",
            kind,
            self.rows(task.split()[0] if task == "embed scores" else task),
            "--from",
            self.run(start) / "model",
            *usual,
            *options,
            "--out",
            out,
        )
        metrics = json.loads((out / "bertkit.json").read_text())["metrics"]
        return summary([out / "model.safetensors"], list(metrics.values()))


def done(*arguments: object) -> None:
    ended = bertkit_command(*arguments)
    assert ended.returncode == 0, ended.stderr


def summary(files: Sequence[Path], told: Sequence[float]) -> dict[str, Any]:
    """A hash of all tensors whatever their names; and how large those of each shape are, for other processors."""
    hashes: list[str] = []
    sizes: dict[str, list[float]] = {}
    for file in files:
        for tensor in load_file(file).values():
            shape = " x ".join(map(str, tensor.shape))
            hashes.append(hashlib.sha256(shape.encode() + tensor.tobytes()).hexdigest())
            size = sizes.setdefault(shape, [0, 0.0, 0.0])
            wide = tensor.astype(np.float64)
            sizes[shape] = [
                size[0] + 1,
                size[1] + float(np.abs(wide).sum()),
                math.hypot(size[2], float(np.sqrt((wide**2).sum()))),
            ]
    return {"sha256": hashlib.sha256("".join(sorted(hashes)).encode()).hexdigest(), "sizes": sizes, "told": list(told)}


def processor() -> str:
    return f"{choose('cpu').cpu}, {torch.backends.cpu.get_cpu_capability()}"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return Made(tmp_path_factory.mktemp("made"))


def cases() -> Iterator[Any]:
    for case in (*PRETRAINED, *FINE_TUNED):
        yield case if case in OFTEN else pytest.param(case, marks=pytest.mark.slow)


@pytest.mark.parametrize("case", list(cases()))
def test_fifty_steps_end_as_they_did(made: Made, case: str):
    then, now = json.loads(NUMBERS.read_text())[case], made.numbers(case)
    if processor() in then["sha256"]:
        assert now["sha256"] == then["sha256"][processor()], "the weights are not those of before, to the bit"
    assert now["sizes"].keys() == then["sizes"].keys()
    for shape, (count, *size) in then["sizes"].items():
        assert now["sizes"][shape][0] == count
        assert now["sizes"][shape][1:] == pytest.approx(size, rel=NEAR), shape


def write_anew(wanted: Sequence[str]) -> None:
    kept = json.loads(NUMBERS.read_text()) if NUMBERS.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        made = Made(Path(folder))
        for case in wanted or [*PRETRAINED, *FINE_TUNED]:
            now = made.numbers(case)
            same = kept.get(case, {}).get("sizes") == now["sizes"]
            elsewhere = kept[case]["sha256"] if same else {}
            kept[case] = {**now, "sha256": {**elsewhere, processor(): now["sha256"]}}
            print(case, now["sha256"][:12], now["told"])
            NUMBERS.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    write_anew(sys.argv[1:])
