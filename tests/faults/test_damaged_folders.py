"""Hundreds of damaged model folders, generated: every one is refused with one sentence that says what to do, or gives
the numbers of the good one. None ends in a traceback, takes seconds, or is read as another model."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.torch import load_file, save_file

import bertkit
from bertkit.errors import BertkitError
from bertkit.families import bert_tiny
from bertkit.files import write_hashes
from bertkit.hub import save_fine_tuned
from bertkit.nn import Bert, FineTuned
from bertkit.tasks import Classify
from bertkit.text import Tokenizer
from manifests import manifest_of

SECONDS = 5
ODD: list[Any] = [None, -1, 0, 1.5, 10**12, "x", "\x1b[31mred", True, [], {}, {"a": 1}, [1], "long " * 50_000, 10**400]
TEXTS = ["The import statement binds names", "我们喜欢学习", "One Unknowable Wörd 🙂"]
Damage = Callable[[Path, random.Random], None]


@pytest.fixture(scope="module")
def good(tmp_path_factory, tokenizer: Tokenizer) -> dict[str, Path]:
    """Two folders: as bertkit fine-tunes them, and as others have them, with pooling and no hashes."""
    import torch

    place = tmp_path_factory.mktemp("good")
    torch.manual_seed(0)
    task = Classify(classes=("bad", "so so", "good"), max_length=64)
    config = bert_tiny(vocab_size=tokenizer.vocab_size, num_hidden_layers=1, hidden_size=32, intermediate_size=64)
    model = FineTuned(Bert(config, mlm=False, nsp=False), task.head.shape)
    save_fine_tuned(place / "ours", model, task, tokenizer, metrics={"accuracy": 0.5}, provenance={})
    shutil.copytree(place / "ours", place / "theirs", ignore=shutil.ignore_patterns("bertkit.json"))
    (place / "theirs" / "1_Pooling").mkdir()
    (place / "theirs" / "1_Pooling" / "config.json").write_text('{"pooling_mode_mean_tokens": true}')
    kinds = ("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")
    steps = [{"path": path, "type": f"sentence_transformers.models.{kind}"} for path, kind in kinds]
    (place / "theirs" / "modules.json").write_text(json.dumps(steps))
    return {"ours": place / "ours", "theirs": place / "theirs"}


def numbers_of(folder: Path) -> list[np.ndarray]:
    """What a user gets of it."""
    predictor = bertkit.load(folder)
    with warnings.catch_warnings(action="ignore"):  # that nobody trained it for sentence vectors
        vectors = predictor.encoder.embed(TEXTS)
    if predictor.task != "classify":
        return [vectors]
    return [np.array([list(each["probabilities"].values()) for each in predictor(TEXTS)]), vectors]


def changed(name: str, how: Callable[[Any, random.Random], Any]) -> Damage:
    """A JSON file with something in it changed."""

    def damage(folder: Path, draw: random.Random) -> None:
        content = json.loads((folder / name).read_text())
        result = how(content, draw)
        (folder / name).write_text(json.dumps(content if result is None else result))

    return damage


def somewhere(content: Any, draw: random.Random) -> None:
    """One value anywhere in it becomes an odd one, is left out, or is called otherwise."""
    while True:
        keys = list(content) if isinstance(content, dict) else list(range(len(content)))
        key = draw.choice(keys)
        inner = content[key]
        if isinstance(inner, dict | list) and inner and len(inner) < 100 and draw.random() < 0.7:
            content = inner
            continue
        match draw.randrange(4):
            case 0 if isinstance(content, dict):
                del content[key]
            case 1 if isinstance(content, dict):
                content[draw.choice(["x", "\x1b]0;title\x07", str(key).upper(), str(key) + "s"])] = content.pop(key)
            case _:
                content[key] = draw.choice(ODD)
        return


def tensors(folder: Path, draw: random.Random) -> None:
    import torch

    file = folder / "model.safetensors"
    held = load_file(file)
    name = draw.choice(sorted(held))
    tensor = held[name]
    match draw.randrange(7):
        case 0:
            del held[name]
        case 1:
            held[name + "\x1b[2J"] = held.pop(name)
        case 2:
            held[name] = tensor.flatten()[: max(1, tensor.numel() // 2)].clone()
        case 3:
            held[name] = tensor.to(torch.int32)
        case 4:
            held[name].view(-1)[draw.randrange(tensor.numel())] = draw.choice([float("nan"), float("inf")])
        case 5:
            held[name] = torch.zeros(0)
        case 6:
            held[f"extra.{name}"] = tensor.clone()
    save_file(held, file)


def cut(folder: Path, draw: random.Random) -> None:
    file = draw.choice(deciding(folder))
    content = file.read_bytes()
    file.write_bytes(content[: draw.randrange(len(content))])


def header(folder: Path, draw: random.Random) -> None:
    with (folder / "model.safetensors").open("r+b") as file:
        for _ in range(draw.randint(1, 3)):
            file.seek(draw.randrange(8 if draw.random() < 0.3 else 400))
            file.write(bytes([draw.randrange(256)]))


def no_file(folder: Path, draw: random.Random) -> None:
    """Something else where a file was: nothing, a folder, a pipe, a link to nothing, to itself, to what never ends."""
    file = draw.choice(deciding(folder))
    file.unlink()
    match draw.randrange(6):
        case 1:
            file.mkdir()
        case 2:
            os.mkfifo(file)
        case 3:
            file.symlink_to("nowhere")
        case 4:
            file.symlink_to(file.name)
        case 5:
            file.symlink_to("/dev/zero")


def forbidden(folder: Path, draw: random.Random) -> None:
    draw.choice(deciding(folder)).chmod(0)


def deciding(folder: Path) -> list[Path]:
    """Without those that nothing is read from while others are there."""
    unread = ("vocab.txt",)
    return sorted(file for file in folder.rglob("*") if file.is_file() and file.name not in unread)


JSON_FILES = {
    "ours": ("config.json", "tokenizer.json", "tokenizer_config.json", "bertkit.json", "bertkit.json"),
    "theirs": ("config.json", "tokenizer.json", "tokenizer_config.json", "modules.json", "1_Pooling/config.json"),
}
SAYS_ANOTHER_MODEL = (
    # of config.json: dropout, names of classes and sizes that only cap are a user's to choose
    "id2label label2id layer_norm_eps hidden_act model_type architectures problem_type".split()
)


def cases(count: int, seed: int) -> Iterator[tuple[str, str, Damage, int]]:
    draw = random.Random(seed)
    for number in range(count):
        kind = draw.choice(["ours", "theirs"])
        name = draw.choice(JSON_FILES[kind])
        ways: list[tuple[str, Damage]] = [
            *[(name, changed(name, somewhere))] * 6,
            *[("tensors", tensors)] * 2,
            ("header", header),
            ("cut", cut),
            ("no file", no_file),
        ]
        if os.geteuid():
            ways.append(("forbidden", forbidden))
        title, damage = draw.choice(ways)
        yield kind, title, damage, number


@contextlib.contextmanager
def no_longer_than(seconds: int) -> Iterator[None]:
    def late(*_: Any) -> None:
        raise TimeoutError(f"it took more than {seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def judged(good: dict[str, Path], place: Path, case: tuple[str, str, Damage, int]) -> str:
    """refused, or the same; anything else is a fault and raised."""
    kind, title, damage, seed = case
    folder = place / "damaged"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(good[kind], folder)
    damage(folder, random.Random(seed))
    if kind == "ours" and title not in ("bertkit.json", "no file", "cut"):  # what hashes would find is found without
        manifest = manifest_of(folder)
        write_hashes(folder, {name: each for name, each in manifest.items() if name != "files"}, "bertkit.json")
    place_of = f"case {seed}: {title} of {kind}"
    try:
        with no_longer_than(SECONDS):
            found = numbers_of(folder)
    except BertkitError as error:
        said = str(error)
        if not error.remedy:
            raise AssertionError(f"{place_of}: no remedy in {said}") from error
        said = said.replace(str(folder), "")
        if len(said) >= 300 or not said.isprintable():
            raise AssertionError(f"{place_of}: {said!r}") from error
        return "refused"
    except BaseException as problem:
        raise AssertionError(f"{place_of}: {type(problem).__name__}: {problem}") from problem
    if not (folder / "config.json").is_symlink() and is_another_model(good[kind], folder):
        return "another"
    for mine, its in zip(numbers_of(good[kind]), found, strict=True):
        assert mine.shape == its.shape, place_of
        np.testing.assert_allclose(mine, its, atol=1e-6, err_msg=place_of)
    return "the same"


def is_another_model(good: Path, folder: Path) -> bool:
    """Whether what was changed is a setting that makes a good model of another kind: its norms' epsilon, how it lower
    cases, a word in its vocabulary, or that its vectors are made as nobody says. Nobody can tell that it was not
    meant."""
    for name in ("modules.json", "tokenizer_config.json", "tokenizer.json"):
        if (good / name).exists() and not (folder / name).exists():
            return True
    before, after = (json.loads((each / "config.json").read_text()) for each in (good, folder))
    names = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    settings, its = (json.loads((each / "tokenizer_config.json").read_text()) for each in (good, folder))
    tokenizer, other = (json.loads((each / "tokenizer.json").read_text()) for each in (good, folder))
    return bool(names & {*SAYS_ANOTHER_MODEL}) or settings != its or tokenizer != other


def test_damaged_folders_are_refused_with_one_sentence(good, tmp_path):
    found = [judged(good, tmp_path, case) for case in cases(80, seed=1)]
    assert found.count("refused") > 40


@pytest.mark.slow
def test_four_hundred_damaged_folders_are_refused_with_one_sentence(good, tmp_path):
    found = [judged(good, tmp_path, case) for case in cases(400, seed=2)]
    assert found.count("refused") > 250
    assert found.count("another") < 60
