"""Preparing a corpus is killed again and again, and what comes out in the end is the same to the last bit."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from bertkit.corpus import CorpusFolder, open_part, prepare
from bertkit.errors import CorpusError, InputError, InterruptionError, WriteError
from bertkit.text import Tokenizer
from corpora import RECIPE, contents, lines_of

PROGRAM = """
import os, sys
from pathlib import Path
from bertkit.corpus.preparing import prepare
from bertkit.text.tokenizer import Tokenizer
sys.path.insert(0, {root!r})
from corpora import RECIPE

if __name__ == "__main__":
    left = {deaths}
    def count(step):
        def counted(*arguments, **options):
            global left
            left -= 1
            if left == 0:
                os._exit(137)
            return step(*arguments, **options)
        return counted
    if left:
        for name in ("replace", "rename", "unlink", "fsync", "rmdir"):
            setattr(os, name, count(getattr(os, name)))
    prepare([{source!r}], Tokenizer.open(Path({tokenizer!r})), Path({out!r}), RECIPE,
            part_bytes=30_000, workers={workers}, overwrite={overwrite})
"""


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory, corpus_files: Path, tokenizer: Tokenizer) -> dict[str, bytes]:
    out = tmp_path_factory.mktemp("undisturbed") / "out"
    prepare([str(corpus_files)], tokenizer, out, RECIPE, part_bytes=30_000)
    return contents(out)


def program(
    place: Path, source: Path, tokenizer: Tokenizer, *, workers: int = 1, deaths: int = 0, overwrite: bool = False
) -> list[str]:
    if not (place / "tokenizer").exists():
        (place / "tokenizer").mkdir(parents=True)
        tokenizer.save(place / "tokenizer")
    script = place / "script.py"
    script.write_text(
        PROGRAM.format(
            root=str(Path(__file__).parents[1]),
            source=str(source),
            tokenizer=str(place / "tokenizer"),
            out=str(place / "out"),
            workers=workers,
            deaths=deaths,
            overwrite=overwrite,
        )
    )
    return [sys.executable, str(script)]


def stage_of(out: Path) -> str:
    """How far a run has come, from what lies in its folder."""
    work = out / "work"
    if (out / "corpus.json").exists():
        return "finished"
    if list((work / "finished").glob("*.safetensors")):
        return "writing"
    return "reading" if list(work.glob("part-*.safetensors")) else "starting"


def count(out: Path, pattern: str) -> int:
    try:
        return len(list(out.glob(pattern)))
    except FileNotFoundError:  # a folder was moved or removed while it was looked at
        return 0


def wait_for(process: subprocess.Popen[bytes], out: Path, stage: str, more: int, deadline: float = 60) -> None:
    """Until a run has reached a stage and written so many more files, or has ended."""
    pattern = {"starting": "work/*", "reading": "work/part-*", "writing": "work/finished/*", "finished": "*"}[stage]
    before = count(out, pattern)
    end = time.monotonic() + deadline
    while process.poll() is None and time.monotonic() < end:
        if count(out, pattern) >= before + more:
            return
        time.sleep(0.0005)


@pytest.mark.slow
def test_thirty_kills_in_all_stages(tmp_path: Path, corpus_files: Path, tokenizer: Tokenizer, undisturbed):
    """With worker processes, as the command line runs it: killed while it starts, reads, writes shards, moves them to
    their place. Each run goes on from where the last one died; whenever one gets through, the result is compared and
    the next begins from nothing."""
    command = program(tmp_path, corpus_files, tokenizer, workers=2)
    out, draw = tmp_path / "out", random.Random(11)
    killed_in: Counter[str] = Counter()
    finished = 0
    while killed_in.total() < 30:
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        stage = draw.choice(["starting", "reading", "reading", "writing", "writing"])
        wait_for(process, out, stage, draw.randint(1, 3))
        time.sleep(draw.uniform(0, 0.01))
        if process.poll() is None:
            process.kill()  # the main process only: its workers must notice by themselves
            killed_in[stage_of(out)] += 1
        process.wait()
        if process.returncode == 0:
            assert contents(out) == undisturbed
            shutil.rmtree(out)
            finished += 1
    subprocess.run(command, check=True)
    assert contents(out) == undisturbed
    assert killed_in["reading"] >= 5
    assert killed_in["writing"] >= 5


@pytest.mark.parametrize("overwrite", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_death_before_every_step_on_the_disk(
    tmp_path: Path, corpus_files: Path, tokenizer: Tokenizer, undisturbed, overwrite: bool
):
    """Every rename, removal and flush of the main process is the last thing before a death, one after another; each
    run goes on from where the last one died. Also where another corpus is there before, to be replaced."""
    out = tmp_path / "out"
    if overwrite:
        prepare([str(corpus_files / "a.jsonl")], tokenizer, out, RECIPE)
    stages = set()
    for step in (*range(1, 16), *range(16, 400, 5)):
        died = subprocess.run(program(tmp_path, corpus_files, tokenizer, deaths=step, overwrite=overwrite)).returncode
        if died == 0:
            break
        assert died == 137
        stages.add(stage_of(out))
    subprocess.run(program(tmp_path, corpus_files, tokenizer, overwrite=overwrite), check=True)
    assert contents(out) == undisturbed
    assert {"reading", "writing"} <= stages or overwrite


def test_what_an_interrupted_replacement_left_is_not_taken_for_new_work(
    tmp_path: Path, corpus_files: Path, tokenizer: Tokenizer, undisturbed
):
    """Shards and parts of another text, without the plan they belonged to."""
    out = tmp_path / "out"
    prepare([str(corpus_files / "a.jsonl")], tokenizer, out, RECIPE)
    (out / "corpus.json").unlink()
    (out / "work" / "finished").mkdir(parents=True)
    (out / "work" / "bertkit.lock").touch()
    for shard in out.glob("train-*"):
        shutil.copy(shard, out / "work" / "finished")
    prepare([str(corpus_files)], tokenizer, out, RECIPE, part_bytes=30_000)
    assert contents(out) == undisturbed


def test_a_failed_replacement_leaves_the_old_corpus(tmp_path: Path, corpus_files: Path, tokenizer: Tokenizer):
    out = tmp_path / "out"
    prepare([str(corpus_files / "b.txt")], tokenizer, out, RECIPE)
    before = contents(out)
    strict = replace(RECIPE, strict=True)
    with pytest.raises(InputError, match="line 131"):
        prepare([str(corpus_files / "a.jsonl")], tokenizer, out, strict, overwrite=True)
    assert contents(out) == before
    CorpusFolder(out)


def test_after_a_failure_the_remedy_works(tmp_path: Path, corpus_files: Path, tokenizer: Tokenizer):
    source, out = str(corpus_files / "a.jsonl"), tmp_path / "out"
    with pytest.raises(InputError, match="line 131"):
        prepare([source], tokenizer, out, replace(RECIPE, strict=True))
    assert not out.exists()
    assert prepare([source], tokenizer, out, RECIPE).report["read"]["quarantined"] == 3


def test_results_among_the_inputs_are_not_read(tmp_path: Path, corpus_files: Path, tokenizer: Tokenizer):
    texts = tmp_path / "texts"
    shutil.copytree(corpus_files, texts)
    first = contents(prepare([str(texts)], tokenizer, texts / "shards", RECIPE).path)
    assert contents(prepare([str(texts)], tokenizer, texts / "shards", RECIPE).path) == first
    assert contents(prepare([str(texts)], tokenizer, texts / "shards", RECIPE, overwrite=True).path) == first


def test_other_text_on_standard_input_into_a_finished_folder_is_refused(
    tmp_path: Path, tokenizer: Tokenizer, english: list[str]
):
    command = program(tmp_path, Path("-"), tokenizer)
    for text, words in (
        (english[:300], b""),
        (english[:300], b""),
        (english[300:600], b"is other text than was read here before"),
    ):
        done = subprocess.run(command, input="\n".join(text).encode(), capture_output=True)
        assert (done.returncode == 0) == (words == b""), done.stderr
        assert words in done.stderr


def test_file_names_that_are_not_utf8(tmp_path: Path, tokenizer: Tokenizer, english: list[str]):
    (tmp_path / "texts").mkdir()
    for name, content in ((b"caf\xe9.txt", "\n".join(english[:50]).encode()), (b"bad\xff.txt", b"\x89PNG\r\n\x1a\n")):
        (tmp_path / "texts" / os.fsdecode(name)).write_bytes(content)
    corpus = prepare([str(tmp_path / "texts")], tokenizer, tmp_path / "out", replace(RECIPE, validation=0))
    assert "caf\\xe9.txt" in json.loads((corpus.path / "sources.jsonl").read_text())["file"]
    assert "bad\\xff.txt" in json.loads((corpus.path / "quarantine.jsonl").read_text())["file"]


def test_workers_do_not_outlive_a_killed_parent(tmp_path: Path, corpus_files: Path, tokenizer: Tokenizer):
    process = subprocess.Popen(program(tmp_path, corpus_files, tokenizer, workers=2), start_new_session=True)
    group = process.pid
    deadline = time.monotonic() + 60
    while len(members(group)) < 3 and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.05)
    process.kill()
    process.wait()
    while members(group) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not members(group)


def members(group: int) -> list[str]:
    """The living processes of a group."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            except (OSError, IndexError):
                continue
            if int(fields[2]) == group and fields[0] != "Z":
                found.append(entry.name)
    return found


def test_ctrl_c_keeps_what_was_done_and_the_same_command_goes_on(
    tmp_path: Path, corpus_files: Path, tokenizer: Tokenizer, undisturbed
):
    command = [sys.executable, "-m", "bertkit", "prepare", str(corpus_files), "-o", str(tmp_path / "out")]
    program(tmp_path, corpus_files, tokenizer)
    command += ["--tokenizer", str(tmp_path / "tokenizer"), "--workers", "2"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    while not (tmp_path / "out" / "work" / "plan.json").exists():
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 4, said
    assert "Give the same command again" in said
    assert "Traceback" not in said
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    CorpusFolder(tmp_path / "out").verify()


def test_ctrl_c_while_the_workers_start_leaves_none_behind(
    tmp_path: Path, corpus_files: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
):
    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("concurrent.futures.process._ExecutorManagerThread.start", interrupted)
    with pytest.raises((KeyboardInterrupt, InterruptionError)):
        prepare([str(corpus_files)], tokenizer, tmp_path / "out", RECIPE, workers=2)
    for process in multiprocessing.active_children():
        process.join(20)
    assert not multiprocessing.active_children()


def stop_half_way(tmp_path: Path, source: Path, tokenizer: Tokenizer) -> Path:
    """A folder in which a run died after its first parts."""
    subprocess.run(program(tmp_path, source, tokenizer, deaths=16))
    work = tmp_path / "out" / "work"
    assert list(work.glob("part-*"))
    assert not (tmp_path / "out" / "corpus.json").exists()
    return tmp_path / "out"


def test_an_unfinished_folder_is_no_corpus(tmp_path: Path, corpus_files: Path, tokenizer: Tokenizer):
    with pytest.raises(CorpusError, match=r"not finished.*same bertkit prepare command"):
        CorpusFolder(stop_half_way(tmp_path, corpus_files, tokenizer))


def test_going_on_with_other_settings_or_text_is_refused(tmp_path: Path, tokenizer: Tokenizer, english: list[str]):
    source = Path(lines_of(["\n".join(english[i : i + 9]) for i in range(0, 2700, 9)], tmp_path / "a.jsonl"))
    out = stop_half_way(tmp_path, source, tokenizer)
    with pytest.raises(WriteError, match="other settings"):
        prepare([str(source)], tokenizer, out, part_bytes=30_000)
    lines_of(english[:500], source)
    with pytest.raises(WriteError, match="other text"):
        prepare([str(source)], tokenizer, out, RECIPE, part_bytes=30_000)


def test_other_text_on_standard_input_is_noticed(tmp_path: Path, tokenizer: Tokenizer, english: list[str]):
    (tmp_path / "tokenizer").mkdir()
    tokenizer.save(tmp_path / "tokenizer")
    command = program(tmp_path, Path("-"), tokenizer, deaths=16)
    first = "\n\n".join("\n".join(english[i : i + 9]) for i in range(0, 2700, 9))
    assert subprocess.run(command, input=first.encode()).returncode == 137
    command = program(tmp_path, Path("-"), tokenizer)
    other = subprocess.run(command, input=first[5000:].encode(), capture_output=True)
    assert b"is other text than was read here before" in other.stderr
    subprocess.run(command, input=first.encode(), check=True)
    CorpusFolder(tmp_path / "out").verify()


def test_two_runs_in_one_folder_are_refused(tmp_path: Path, corpus_files: Path, tokenizer: Tokenizer):
    from bertkit.corpus import claim

    with claim(tmp_path / "out"), pytest.raises(WriteError, match="another process"):
        prepare([str(corpus_files)], tokenizer, tmp_path / "out", RECIPE)
    prepare([str(corpus_files)], tokenizer, tmp_path / "out", RECIPE)


def test_a_folder_with_other_things_is_left_alone(tmp_path: Path, corpus_files: Path, tokenizer: Tokenizer):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("three years of work")
    for overwrite in (False, True):
        with pytest.raises(WriteError, match="holds other files"):
            prepare([str(corpus_files)], tokenizer, tmp_path / "out", RECIPE, overwrite=overwrite)
    assert (tmp_path / "out" / "thesis.txt").read_text() == "three years of work"


def test_every_flipped_bit_is_named(tmp_path: Path, corpus_files: Path, tokenizer: Tokenizer):
    corpus = prepare([str(corpus_files)], tokenizer, tmp_path / "out", RECIPE)
    draw = random.Random(5)
    for _ in range(100):
        name = draw.choice(list(corpus.manifest["files"]))
        file = corpus.path / name
        before = file.read_bytes()
        changed = bytearray(before)
        changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
        file.write_bytes(changed)
        with pytest.raises(Exception) as refused:  # noqa: PT011 - the tokenizer's files have an error of their own
            CorpusFolder(corpus.path)
        assert Path(name).name in str(refused.value) or "tokenizer" in str(refused.value)
        file.write_bytes(before)
    CorpusFolder(corpus.path)


def test_a_shard_that_is_missing_or_cut_short_is_named(tmp_path: Path, corpus_files: Path, tokenizer: Tokenizer):
    corpus = prepare([str(corpus_files)], tokenizer, tmp_path / "out", RECIPE)
    shard = corpus.path / corpus.shard_names("train")[1]
    whole = shard.read_bytes()
    shard.write_bytes(whole[:-1])
    with pytest.raises(CorpusError, match=rf"{shard.name} is damaged"):
        CorpusFolder(corpus.path)
    with pytest.raises(CorpusError, match=rf"{shard.name} is damaged"):
        CorpusFolder(corpus.path, verify=False).shards("train")
    shard.unlink()
    with pytest.raises(CorpusError, match=f"lacks {shard.name}"):
        CorpusFolder(corpus.path)


def test_a_full_disk_is_one_line_and_the_run_goes_on_later(tmp_path: Path, corpus_files: Path, tokenizer: Tokenizer):
    """A limit on file sizes stands in for a disk with no room."""
    import resource

    command = program(tmp_path, corpus_files, tokenizer)
    limited = subprocess.run(
        command,
        capture_output=True,
        text=True,
        preexec_fn=lambda: (
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN),
            resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000)),
        ),
    )
    assert limited.returncode != 0
    assert "could not write" in limited.stderr
    subprocess.run(command, check=True)
    CorpusFolder(tmp_path / "out").verify()


def test_a_part_says_where_the_next_begins(tmp_path: Path, corpus_files: Path, tokenizer: Tokenizer):
    work = stop_half_way(tmp_path, corpus_files, tokenizer) / "work"
    cursors = [open_part(path).cursor for path in sorted(work.glob("part-*.safetensors"))]
    places = [(cursor.source, cursor.blocks) for cursor in cursors]
    assert places == sorted(places)
    assert not any(cursor.finished for cursor in cursors)
