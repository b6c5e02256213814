"""What a run writes down survives deaths, and goes back to exactly where a checkpoint was made."""

from __future__ import annotations

import itertools
import json
import math
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bertkit.errors import InputError, UsageError, WriteError
from bertkit.train import Journal, read_log, read_times


def step_record(step: int) -> dict:
    return {"kind": "step", "step": step, "mlm_loss": 10 / step + 0.1, "learning_rate": 1e-4, "tokens": 4000 * step}


def train(journal: Journal, first: int, last: int, *, checkpoint_at: int = 0) -> int:
    """A loop's worth of records: step, event, validation, guesses, then perhaps a checkpoint."""
    position = 0
    for step in range(first, last + 1):
        if step % 4 == 0:
            journal.write({"kind": "event", "step": step, "event": "skipped", "message": "loss 1e9 among losses of 3"})
        journal.write(step_record(step))
        if step % 2 == 0:
            journal.write({"kind": "validation", "step": step, "mlm_loss": 9 / step})
            journal.write({"kind": "guesses", "step": step, "sentences": [{"text": "注意 [MASK]", "masks": []}]})
        journal.time({"step": step, "seconds": step * 0.5, "tokens_per_second": 8000.0})
        if step == checkpoint_at:
            position = journal.position()
    return position


def test_a_record_is_in_the_file_as_soon_as_it_is_written(tmp_path):
    """In a process that is killed right after, so nothing that it still holds can help."""
    code = """
import os, signal, sys
from pathlib import Path
from bertkit.train.journal import Journal
journal = Journal(Path(sys.argv[1]))
journal.write({"kind": "step", "step": 1, "loss": 0.1 + 0.2})
journal.time({"step": 1, "seconds": 2.5})
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "run")], timeout=60)
    assert done.returncode == -signal.SIGKILL
    assert (tmp_path / "run" / "log.jsonl").read_bytes() == b'{"kind":"step","step":1,"loss":0.30000000000000004}\n'
    assert read_times(tmp_path / "run") == [{"step": 1, "seconds": 2.5}]


def test_a_number_that_json_lacks_is_written_as_a_word_and_read_as_a_number(tmp_path):
    record = {"loss": math.nan, "norm": math.inf, "low": -math.inf, "deep": [["a", math.nan]], "message": "nan"}
    with Journal(tmp_path) as journal:
        journal.write({"kind": "step", "step": 1, **record})

    def refuse(name: str) -> None:
        raise AssertionError(name)

    written = json.loads((tmp_path / "log.jsonl").read_text(), parse_constant=refuse)
    assert [written[key] for key in record] == ["nan", "inf", "-inf", [["a", "nan"]], "nan"]
    (read,) = read_log(tmp_path)
    assert math.isnan(read["loss"])
    assert (read["norm"], read["low"], read["message"]) == (math.inf, -math.inf, "nan")


def test_every_text_is_one_line(tmp_path):
    texts = ["two\nlines", "\u2028 and \u0085", "注意力", "\x00", "\ud800"]
    with Journal(tmp_path) as journal:
        for text in texts:
            journal.write({"kind": "event", "event": "note", "message": text})
    assert [record["message"] for record in read_log(tmp_path)] == [*texts[:-1], "?"]
    assert (tmp_path / "log.jsonl").read_bytes().count(b"\n") == len(texts)


@pytest.mark.parametrize("died_at", [6, 7, 8, 12])
def test_a_run_that_goes_on_from_a_checkpoint_has_the_log_of_an_undisturbed_one(tmp_path, died_at):
    with Journal(tmp_path / "whole") as journal:
        train(journal, 1, 12)
    with Journal(tmp_path / "broken") as journal:
        position = train(journal, 1, died_at, checkpoint_at=6)
    with (tmp_path / "broken" / "log.jsonl").open("ab") as file:
        file.write(b'{"kind":"step","st')
    with Journal(tmp_path / "broken") as journal:
        assert journal.rewind(position, 6) == []
        train(journal, 7, 12)
    for name in ("log.jsonl", "times.jsonl"):
        assert (tmp_path / "broken" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_a_run_without_a_checkpoint_begins_anew(tmp_path):
    with Journal(tmp_path) as journal:
        train(journal, 1, 3)
    with Journal(tmp_path) as journal:
        assert journal.rewind(0, 0) == []
        assert journal.position() == 0
    assert read_log(tmp_path) == read_times(tmp_path) == []


def test_times_keep_what_happened_up_to_the_checkpoint(tmp_path):
    with Journal(tmp_path) as journal:
        position = train(journal, 1, 5, checkpoint_at=3)
    with (tmp_path / "times.jsonl").open("ab") as file:
        file.write(b'{"step":6,"sec')
    for _ in range(2):
        with Journal(tmp_path) as journal:
            journal.rewind(position, 3)
            journal.time({"event": "resumed", "step": 3, "seconds": 1.5, "message": ""})
            journal.time({"step": 4, "seconds": 2.0})
    assert [(record["step"], record.get("event")) for record in read_times(tmp_path)] == [
        (1, None),
        (2, None),
        (3, None),
        (3, "resumed"),
        (3, "resumed"),
        (4, None),
    ]


def test_a_log_that_was_shortened_or_changed_is_a_note(tmp_path):
    with Journal(tmp_path) as journal:
        position = train(journal, 1, 3, checkpoint_at=3)
    log = tmp_path / "log.jsonl"
    whole = log.read_bytes()
    log.unlink()
    with Journal(tmp_path) as journal:
        (note,) = journal.rewind(position, 3)
        assert f"{log} has 0 bytes, and {position} were written" in note
        train(journal, 4, 4)
    assert [record["step"] for record in read_log(tmp_path)] == [4, 4, 4, 4]
    log.write_bytes(b"{}\n" + whole + whole)
    with Journal(tmp_path) as journal:
        (note,) = journal.rewind(position, 3)
    assert "was changed since it was written" in note
    assert log.read_bytes().endswith(b"}\n")


def test_a_torn_last_line_is_not_read_and_not_written_onto(tmp_path):
    with Journal(tmp_path) as journal:
        train(journal, 1, 1)
    with (tmp_path / "log.jsonl").open("ab") as file:
        file.write(b'{"kind":"step","step":2' + b" " * 200_000)
    assert [record["step"] for record in read_log(tmp_path)] == [1]
    with Journal(tmp_path) as journal:
        journal.write(step_record(2))
    assert [record["step"] for record in read_log(tmp_path)] == [1, 2]


def test_a_damaged_line_is_named(tmp_path):
    with Journal(tmp_path) as journal:
        train(journal, 1, 3)
    lines = (tmp_path / "log.jsonl").read_bytes().splitlines(keepends=True)
    for damage in (b"\x00\x00\x00\n", b"[1]\n", b"\xff\n", b'{"kind":"step","rtep":2}\n', b'{"step":"2"}\n'):
        (tmp_path / "log.jsonl").write_bytes(lines[0] + damage + lines[1])
        with pytest.raises(InputError, match=r"log\.jsonl line 2 is no record"):
            read_log(tmp_path)


def test_no_log_yet_is_an_empty_one_and_no_folder_an_error(tmp_path):
    assert read_log(tmp_path) == read_times(tmp_path) == []
    with pytest.raises(InputError, match="not a run folder"):
        read_log(tmp_path / "elsewhere")


def test_after_going_back_the_later_records_count(tmp_path):
    with Journal(tmp_path) as journal:
        train(journal, 1, 7)
        journal.write({"kind": "event", "step": 7, "event": "rollback", "to": 3, "message": "not finite"})
        gone_back = read_log(tmp_path)
        journal.write({"kind": "step", "step": 4, "mlm_loss": 0.5})
        journal.write({"kind": "validation", "step": 4, "mlm_loss": 0.6})
        journal.time({"step": 4, "seconds": 99.0})
    assert [record["step"] for record in gone_back if record["kind"] == "step"] == [1, 2, 3]
    records = read_log(tmp_path)
    assert [record["step"] for record in records if record["kind"] == "step"] == [1, 2, 3, 4]
    assert [record["mlm_loss"] for record in records if record["kind"] == "validation"] == [4.5, 0.6]
    assert [record["event"] for record in records if record["kind"] == "event"] == ["skipped", "rollback"]
    assert [(record["step"], record["seconds"]) for record in read_times(tmp_path)][-2:] == [(3, 1.5), (4, 99.0)]


def test_times_of_validations_do_not_outlive_what_was_gone_back_over(tmp_path):
    """The steps that are left go up, so that a time can be looked up between them."""
    with Journal(tmp_path) as journal:
        for step in (1, 2, 3, 4, 2, 3):
            journal.time({"step": step, "seconds": 1.0})
            if step == 4:
                journal.time({"step": step, "seconds": 1.0, "kind": "validation"})
    assert [record["step"] for record in read_times(tmp_path)] == [1, 2, 3]


def test_of_a_long_log_a_part_can_be_read_with_all_that_is_rare_and_the_last(tmp_path):
    with Journal(tmp_path) as journal:
        train(journal, 1, 1001)
    records = read_log(tmp_path, most=100)
    steps = [record["step"] for record in records if record["kind"] == "step"]
    assert 30 < len(steps) < 200
    assert steps[-1] == 1001
    assert max(after - before for before, after in itertools.pairwise([0, *steps])) < 50
    for kind in ("validation", "guesses", "event"):
        assert [r for r in records if r["kind"] == kind] == [r for r in read_log(tmp_path) if r["kind"] == kind]
    assert len(read_times(tmp_path, most=100)) < 200
    with (tmp_path / "log.jsonl").open("ab") as file:
        file.write(b"damaged\n")
    with pytest.raises(InputError, match=r"line 2252 is no record: b'damaged'"):
        read_log(tmp_path, most=100)


def test_a_full_disk_leaves_whole_lines_and_is_explained(tmp_path):
    code = """
import resource, sys
from pathlib import Path
from bertkit.errors import WriteError
from bertkit.train.journal import Journal
journal = Journal(Path(sys.argv[1]))
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
for step in range(1000):
    try:
        journal.write({"kind": "step", "step": step, "loss": 1.5})
    except WriteError as problem:
        print(step, problem)
        break
"""
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, timeout=60)
    step, _, message = done.stdout.partition(" ")
    assert "could not write" in message, done.stderr
    assert "log.jsonl" in message
    assert "file size limit" in message
    assert (tmp_path / "log.jsonl").read_bytes().endswith(b"}\n")
    assert [record["step"] for record in read_log(tmp_path)] == list(range(int(step)))


@pytest.mark.skipif(os.name != "posix", reason="needs a POSIX file system")
def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "run").write_text("a file")
    with pytest.raises(WriteError, match=r"could not write .*run"):
        Journal(tmp_path / "run")


def tensorboard_scalars(run: Path, tag: str) -> list[tuple[int, float]]:
    reading = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator", reason="tensorboard is not installed"
    )
    events = reading.EventAccumulator(str(run / "tensorboard"))
    events.Reload()
    return [(event.step, round(event.value, 4)) for event in events.Scalars(tag)]


def test_tensorboard_gets_the_scalars_and_forgets_what_was_gone_back_over(tmp_path):
    pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    with Journal(tmp_path, tensorboard=True) as journal:
        position = train(journal, 1, 6, checkpoint_at=4)
    with Journal(tmp_path, tensorboard=True) as journal:
        journal.rewind(position, 4)
        journal.write({"kind": "step", "step": 5, "mlm_loss": 0.5})
        journal.write({"kind": "event", "step": 5, "event": "rollback", "to": 2, "message": ""})
        journal.write({"kind": "step", "step": 3, "mlm_loss": 0.25})
    assert tensorboard_scalars(tmp_path, "training/mlm_loss") == [(1, 10.1), (2, 5.1), (3, 0.25)]
    assert tensorboard_scalars(tmp_path, "validation/mlm_loss") == [(2, 4.5)]
    assert tensorboard_scalars(tmp_path, "time/tokens_per_second") == [(1, 8000.0), (2, 8000.0)]


def test_without_asking_there_is_no_tensorboard_folder(tmp_path):
    with Journal(tmp_path) as journal:
        train(journal, 1, 2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log.jsonl", "times.jsonl"]


def test_tensorboard_that_is_not_installed_is_named_before_anything_is_made(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    monkeypatch.delitem(sys.modules, "torch.utils.tensorboard", raising=False)
    with pytest.raises(UsageError, match=r"pip install 'bertkit\[tensorboard\]'"):
        Journal(tmp_path / "run", tensorboard=True)
    assert not (tmp_path / "run").exists()
