"""Preparing a corpus is killed again and again, and what comes out in the end is the same to the last bit."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bertkit.corpus.folder import CorpusFolder
from bertkit.corpus.preparing.documents import open_part
from bertkit.corpus.preparing.prepare import prepare
from bertkit.errors import CorpusError, WriteError
from bertkit.text.tokenizer import Tokenizer
from corpora import RECIPE, contents, lines_of

PROGRAM = """
import os, sys
from pathlib import Path
from bertkit.corpus.preparing.prepare import prepare
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
            part_bytes=30_000, workers={workers})
"""


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory, corpus_files: Path, tokenizer: Tokenizer) -> dict[str, bytes]:
    out = tmp_path_factory.mktemp("undisturbed") / "out"
    prepare([str(corpus_files)], tokenizer, out, RECIPE, part_bytes=30_000)
    return contents(out)


def program(place: Path, source: Path, tokenizer: Tokenizer, *, workers: int = 1, deaths: int = 0) -> list[str]:
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
        )
    )
    return [sys.executable, str(script)]


def test_thirty_kills_at_random_moments(tmp_path: Path, corpus_files: Path, tokenizer: Tokenizer, undisturbed):
    """With worker processes, as the command line runs it. A kill comes at a random moment of what is left to do; when
    a run gets through before its kill, the next begins from nothing."""
    command = program(tmp_path, corpus_files, tokenizer, workers=2)
    draw = random.Random(11)
    kills = finished = 0
    longest = 2.5
    while kills < 30:
        start = time.monotonic()
        process = subprocess.Popen(command, start_new_session=True)
        try:
            process.wait(draw.uniform(0.4, longest))
            assert process.returncode == 0
            longest = max(0.6, (time.monotonic() - start) * 1.05)
            assert contents(tmp_path / "out") == undisturbed
            subprocess.run(["rm", "-rf", str(tmp_path / "out")], check=True)
            finished += 1
        except subprocess.TimeoutExpired:
            process.kill()  # the main process only: its workers must notice by themselves
            process.wait()
            kills += 1
    subprocess.run(command, check=True)
    assert contents(tmp_path / "out") == undisturbed
    assert kills == 30


def test_death_before_every_step_on_the_disk(tmp_path: Path, corpus_files: Path, tokenizer: Tokenizer, undisturbed):
    """Every rename, removal and flush of the main process is the last thing before a death, one after another; each
    run goes on from where the last one died."""
    deaths = 0
    for step in (*range(1, 12), *range(12, 60, 6)):
        died = subprocess.run(program(tmp_path, corpus_files, tokenizer, deaths=step)).returncode
        if died == 0:
            break
        assert died == 137
        deaths += 1
    subprocess.run(program(tmp_path, corpus_files, tokenizer), check=True)
    assert deaths >= 10
    assert contents(tmp_path / "out") == undisturbed


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
    with pytest.raises(WriteError, match="another settings"):
        prepare([str(source)], tokenizer, out, part_bytes=30_000)
    lines_of(english[:500], source)
    with pytest.raises(WriteError, match="another text"):
        prepare([str(source)], tokenizer, out, RECIPE, part_bytes=30_000)


def test_other_text_on_standard_input_is_noticed(tmp_path: Path, tokenizer: Tokenizer, english: list[str]):
    (tmp_path / "tokenizer").mkdir()
    tokenizer.save(tmp_path / "tokenizer")
    command = program(tmp_path, Path("-"), tokenizer, deaths=16)
    first = "\n\n".join("\n".join(english[i : i + 9]) for i in range(0, 2700, 9))
    assert subprocess.run(command, input=first.encode()).returncode == 137
    command = program(tmp_path, Path("-"), tokenizer)
    other = subprocess.run(command, input=first[5000:].encode(), capture_output=True)
    assert b"is not the text that the interrupted run was reading" in other.stderr
    subprocess.run(command, input=first.encode(), check=True)
    CorpusFolder(tmp_path / "out").verify()


def test_two_runs_in_one_folder_are_refused(tmp_path: Path, corpus_files: Path, tokenizer: Tokenizer):
    from bertkit.corpus.preparing.resume import claim

    with claim(tmp_path / "out", overwrite=False), pytest.raises(WriteError, match="another process"):
        prepare([str(corpus_files)], tokenizer, tmp_path / "out", RECIPE)
    prepare([str(corpus_files)], tokenizer, tmp_path / "out", RECIPE)


def test_a_folder_with_other_things_is_left_alone(tmp_path: Path, corpus_files: Path, tokenizer: Tokenizer):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("three years of work")
    for overwrite in (False, True):
        with pytest.raises(WriteError, match="not empty"):
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
