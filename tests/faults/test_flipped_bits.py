"""One bit, anywhere in a run, a corpus or a half-written file of answers, is found, or it changes nothing."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertkit.corpus import CorpusFolder, Recipe, prepare
from bertkit.errors import BertkitError, InputError
from bertkit.files import SEAL, read_sealed, sealed, write_sealed
from bertkit.infer import PredictionFile
from bertkit.infer.prediction_files import EXAMPLES_AT_ONCE
from bertkit.text import Tokenizer
from commands import bertkit_command
from corpora import RECIPE, contents, lines_of
from pretraining import SMALL, SPARING, Pretraining, logged, result

FEW = 12
STEPS, SAVE_EVERY = 9, 3


def flip(folder: Path, seed: int, *, leave_out: tuple[str, ...] = ()) -> Path:
    """Flip a bit in one of the files, each as likely as the others. Gives the file."""
    draw = random.Random(seed)
    files = [file for file in sorted(folder.rglob("*")) if file.is_file() and file.stat().st_size]
    file = draw.choice([file for file in files if file.name not in leave_out])
    data = bytearray(file.read_bytes())
    data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    file.write_bytes(data)
    return file


MORE = [pytest.param(seed, marks=pytest.mark.slow) for seed in range(FEW, 167)]
many = pytest.mark.parametrize("seed", [*range(FEW), *MORE])


def refused(do: Callable[[], object]) -> str | None:
    """What it says if it refuses."""
    try:
        do()
    except BertkitError as refusal:
        return str(refusal)
    return None


@given(st.dictionaries(st.text(max_size=9), st.integers() | st.text() | st.lists(st.booleans())), st.data())
def test_no_flipped_bit_of_a_sealed_file_passes(tmp_path_factory: pytest.TempPathFactory, facts, data):
    facts.pop(SEAL, None)
    file = tmp_path_factory.mktemp("sealed") / "facts.json"
    write_sealed(file, facts)
    assert read_sealed(file, InputError) == json.loads(json.dumps(facts))
    content = bytearray(sealed(facts))
    bit = data.draw(st.integers(0, 8 * len(content) - 1))
    content[bit // 8] ^= 1 << bit % 8
    file.write_bytes(content)
    with pytest.raises(InputError):
        read_sealed(file, InputError)


def test_a_file_of_a_version_before_has_no_seal_and_is_read(tmp_path: Path):
    (tmp_path / "facts.json").write_text('{"tokenizer": "' + "0a" * 32 + '", "files": {}}')
    assert read_sealed(tmp_path / "facts.json", InputError)["files"] == {}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory, english: list[str], tokenizer: Tokenizer) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    documents = ["\n".join(english[i : i + 6]) for i in range(0, 240, 6)]
    recipe = Recipe(validation=0.1, near_duplicates=None, boilerplate=None, shard_tokens=800)
    return prepare([lines_of(documents, folder / "text.jsonl")], tokenizer, folder / "shards", recipe).path


def begun(corpus: Path, run: Path, *more: object) -> Pretraining:
    words = (*SMALL, "--micro-batch", 4, *SPARING, "--steps", STEPS, "--save-every", SAVE_EVERY)
    return Pretraining(run.parent / "said", corpus, "--out", run, *words, *more)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, corpus: Path) -> dict[str, bytes]:
    run = tmp_path_factory.mktemp("whole") / "run"
    assert begun(corpus, run).end().returncode == 0
    return result(run)


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory, corpus: Path) -> Path:
    run = tmp_path_factory.mktemp("killed") / "run"
    begun(corpus, run).kill_when(lambda: logged(run) >= SAVE_EVERY + 2)
    return run


@many
def test_a_bit_of_a_run(tmp_path: Path, corpus: Path, killed: Path, whole: dict[str, bytes], seed: int):
    """The run goes on with the same command: to the same bytes, or with a word about the file."""
    run = Path(shutil.copytree(killed, tmp_path / "run"))
    file = flip(run, seed)
    ended = begun(corpus, run).end()
    told = file.name in ended.stderr
    assert "Traceback" not in ended.stderr
    assert ended.returncode == 0 or (ended.returncode == 3 and told), ended.stderr
    if ended.returncode == 0 and not told:
        assert result(run) == whole, file
    if ended.returncode == 0 and file.name != "log.jsonl":
        assert {name: data for name, data in result(run).items() if "log" not in name}.items() <= whole.items(), file


def test_settings_are_those_of_the_checkpoint(tmp_path: Path, corpus: Path, killed: Path, whole: dict[str, bytes]):
    """Whatever is in run.json: other numbers, a key that is none, nothing, no file."""
    facts = json.loads((killed / "run.json").read_text())
    other = {**facts, "settings": {**facts["settings"], "seed": 7}}
    for number, text in enumerate((json.dumps(other), json.dumps({**facts, "settings": {"sede": 1}}), "{", None)):
        run = Path(shutil.copytree(killed, tmp_path / f"run{number}"))
        (run / "run.json").unlink() if text is None else (run / "run.json").write_text(text)
        ended = begun(corpus, run).end()
        assert ended.returncode == 0, ended.stderr
        assert f"run.json was {'missing' if text is None else 'damaged'}, and is mended" in ended.stderr
        assert result(run) == whole
        assert (run / "run.json").read_text() == (killed / "run.json").read_text()


@many
def test_a_bit_of_a_corpus(tmp_path: Path, corpus: Path, seed: int):
    copy = Path(shutil.copytree(corpus, tmp_path / "shards"))
    file = flip(copy, seed)
    with pytest.raises(BertkitError) as refused:
        CorpusFolder(copy)
    assert file.name in str(refused.value) or "tokenizer" in str(refused.value)


@pytest.mark.parametrize("change", ["twice", "never", "as the other split"])
def test_a_corpus_whose_shards_are_not_its_files_is_refused(tmp_path: Path, corpus: Path, change: str):
    """A list of shards that was made before lists had a seal."""
    copy = Path(shutil.copytree(corpus, tmp_path / "shards"))
    facts = json.loads((copy / "corpus.json").read_text())
    del facts[SEAL]
    shards = facts["shards"]
    assert len(shards) > 2
    match change:
        case "twice":
            shards[1]["file"] = shards[0]["file"]
        case "never":
            del shards[0]
        case _:
            shards[0]["split"] = "validation"
    (copy / "corpus.json").write_text(json.dumps(facts))
    ended = bertkit_command("prepare", "--verify", copy)
    assert ended.returncode == 3
    assert "corpus.json is damaged: its shards are not those among its files" in ended.stderr


@pytest.fixture(scope="module")
def half_prepared(tmp_path_factory: pytest.TempPathFactory, corpus_files: Path, tokenizer: Tokenizer) -> Path:
    """A preparation that was interrupted when a few parts were there."""
    out = tmp_path_factory.mktemp("half") / "out"

    class Enough(Exception):  # noqa: N818
        pass

    from bertkit.corpus import preparing as module

    def save_three(folder: Path, number: int, *rest: object) -> None:
        if number == 3:
            raise Enough
        save_part(folder, number, *rest)

    save_part, module.save_part = module.save_part, save_three  # type: ignore[assignment]
    try:
        with pytest.raises(Enough):
            prepare([str(corpus_files)], tokenizer, out, RECIPE, part_bytes=20_000)
    finally:
        module.save_part = save_part
    assert len(list((out / "work").glob("part-*"))) == 3
    return out


@pytest.mark.parametrize("seed", range(FEW))
def test_a_bit_of_half_a_preparation(
    tmp_path: Path, half_prepared: Path, corpus_files: Path, tokenizer: Tokenizer, seed: int
):
    out = Path(shutil.copytree(half_prepared, tmp_path / "out"))
    file = flip(out, seed)
    refusal = refused(lambda: prepare([str(corpus_files)], tokenizer, out, RECIPE, part_bytes=20_000))
    if refusal is not None:
        assert file.name in refusal or "begun with" in refusal
        return
    prepare([str(corpus_files)], tokenizer, tmp_path / "whole", RECIPE, part_bytes=20_000)
    assert contents(out) == contents(tmp_path / "whole"), file


@many
def test_a_bit_of_half_of_the_answers(tmp_path: Path, seed: int):
    """Two of three stretches were answered."""
    out, identity = tmp_path / "out.jsonl", {"input": "a.csv", "model": "0f" * 32, "read": "text"}
    answers = [({}, {"label": "yes" if n % 3 else "no", "number": n}) for n in range(3 * EXAMPLES_AT_ONCE - 5)]
    with pytest.raises(KeyboardInterrupt), PredictionFile.opened(out, identity) as file:
        for stretch, _ in enumerate(file.write(iter(answers))):
            if stretch == 1:
                raise KeyboardInterrupt
    changed = flip(tmp_path, seed)

    def go_on() -> None:
        with PredictionFile.opened(out, identity) as file:
            for _ in file.write(iter(answers[file.done :])):
                pass

    refusal = refused(go_on)
    if refusal is not None:
        assert changed.name in refusal
        assert "overwrite=True" in refusal or "move it away" in refusal
        return
    assert [json.loads(line) for line in out.read_text().splitlines()] == [answer for _, answer in answers], changed


@pytest.mark.parametrize("left", [100, 0])
def test_shards_that_shrink_while_they_are_read_end_a_run_with_a_sentence(tmp_path: Path, corpus: Path, left: int):
    """And not with a bus error, nor with the zeros that a page has behind a file's end. Brought back, they are gone on
    with."""
    copy = Path(shutil.copytree(corpus, tmp_path / "shards"))
    run = tmp_path / "run"
    words = (copy, "--out", run, *SMALL, *SPARING, "--steps", 100_000, "--micro-batch", 4, "--save-every", 5)
    process = Pretraining(tmp_path / "said", *words)
    process.wait_until(lambda: logged(run) >= 6)
    for shard in copy.glob("train-*.safetensors"):
        os.truncate(shard, left)
    ended = process.end()
    assert ended.returncode == 3, ended.stderr
    assert "Traceback" not in ended.stderr
    assert "train-00000.safetensors has become shorter while it was read" in ended.stderr
    assert "Bring it back as it was and give the same command again." in ended.stderr
    shutil.rmtree(copy)
    shutil.copytree(corpus, copy)
    again = Pretraining(tmp_path / "said", *words)
    again.wait_until(lambda: logged(run) >= 12)
    os.kill(again.pid, signal.SIGTERM)
    assert again.end().returncode == 4


def test_a_mapped_file_that_ends_is_a_sentence_at_any_moment(tmp_path: Path):
    """What no check before reading can rule out: it shrinks during one."""
    file = tmp_path / "mapped.bin"
    file.write_bytes(bytes(2**16))
    code = "import numpy, os, sys; from bertkit.cli.shrunk_files import tell_of_shrunk_files as tell; tell();"
    code += "mapped = numpy.memmap(sys.argv[1]); os.truncate(sys.argv[1], 5000); print(mapped[20_000:].sum())"
    ended = subprocess.run([sys.executable, "-c", code, str(file)], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 3, ended.stderr
    assert ended.stderr.strip().startswith(f"bertkit: {file} has become shorter while it was read. Bring it back")
