"""Artifacts are whole or absent."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from bertkit.errors import InputError, WriteError
from bertkit.files import atomic_file, atomic_folder, read_json, remove_folder, remove_leftovers


def leftovers(folder: Path) -> list[str]:
    return [file.name for file in folder.iterdir() if file.name.startswith(".")]


def test_a_file_appears_when_it_is_complete(tmp_path):
    path = tmp_path / "deep" / "file"
    with atomic_file(path) as file:
        file.write(b"all")
        assert not path.exists()
    assert path.read_bytes() == b"all"
    assert leftovers(path.parent) == []
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~current_umask()


def current_umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with pytest.raises(RuntimeError), atomic_file(path) as file:
        file.write(b"half")
        raise RuntimeError
    assert path.read_bytes() == b"old"
    assert leftovers(tmp_path) == []


def test_a_failed_folder_leaves_the_old_one(tmp_path):
    path = tmp_path / "folder"
    path.mkdir()
    (path / "old").write_text("old")
    with pytest.raises(RuntimeError), atomic_folder(path, overwrite=True) as new:
        (new / "half").write_text("half")
        raise RuntimeError
    assert [file.name for file in path.iterdir()] == ["old"]
    assert leftovers(tmp_path) == []


def test_a_folder_is_replaced_whole(tmp_path):
    path = tmp_path / "folder"
    for name in ("first", "second"):
        with atomic_folder(path, overwrite=True) as new:
            (new / name).write_text(name)
    assert [file.name for file in path.iterdir()] == ["second"]
    assert leftovers(tmp_path) == []


def test_a_folder_in_use_is_not_replaced_unless_told(tmp_path):
    (tmp_path / "thing").write_text("mine")
    with pytest.raises(WriteError, match=r"exists and is not empty.*`overwrite=True`"), atomic_folder(tmp_path):
        pass
    with pytest.raises(WriteError, match="is a file"), atomic_folder(tmp_path / "thing"):
        pass


def test_a_folder_is_removed_and_a_link_to_one_only_itself(tmp_path):
    (tmp_path / "real" / "deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    remove_folder(tmp_path / "link")
    assert [file.name for file in tmp_path.iterdir()] == ["real"]
    assert (tmp_path / "real" / "deep").exists()
    remove_folder(tmp_path / "real")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(WriteError, match=r"could not remove .*real: No such file"):
        remove_folder(tmp_path / "real")


def test_a_folder_loses_its_name_before_its_files(tmp_path):
    """The process kills itself when the first file is about to go."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").write_text("x")
    code = """
import os, signal, sys
from pathlib import Path
from bertkit.files import remove_folder
sys.addaudithook(lambda event, _: os.kill(os.getpid(), signal.SIGKILL) if event == "os.remove" else None)
remove_folder(Path(sys.argv[1]))
"""
    assert subprocess.run([sys.executable, "-c", code, tmp_path / "folder"]).returncode == -9
    [left] = tmp_path.iterdir()
    assert left.name.startswith(".folder.")
    assert (left / "file").exists()
    remove_leftovers(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_leftovers_of_the_living_stay(tmp_path):
    with atomic_folder(tmp_path / "folder") as new:
        dead = subprocess.Popen(["true"])
        dead.wait()
        left = new.with_name(new.name.replace(f"-{os.getpid()}-", f"-{dead.pid}-"))
        left.mkdir()
        elsewhere = new.with_name(".folder.0123abcd-" + left.name.split("-", 1)[1])
        elsewhere.mkdir()
        remove_leftovers(tmp_path, "other")
        assert left.exists()
        remove_leftovers(tmp_path)
        assert not left.exists()
        assert new.exists()
        assert elsewhere.exists(), "another machine's processes cannot be asked"


def test_a_link_is_followed_and_a_pipe_is_left_alone(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with atomic_folder(tmp_path / "link") as new:
        (new / "file").write_text("x")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real" / "file").exists()
    assert leftovers(tmp_path) == []
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(WriteError, match="not a regular file"), atomic_file(tmp_path / "pipe"):
        pass


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(WriteError, match="could not write"), atomic_file(blocked / "inside"):
        pass


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"a": 1', "not valid JSON.*line 1 column"),
        (b"\xff\xfe", "not UTF-8: byte 0xff"),
        (b"[1, 2]", "where a JSON object is expected"),
        (b"[" * 100_000, "not usable JSON"),
        (b'{"a": ' + b"9" * 10_000 + b"}", "not usable JSON"),
        (b"", "not valid JSON"),
    ],
)
def test_json_that_is_none_is_explained(tmp_path, content, message):
    path = tmp_path / "x.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_json(path)


def test_json_may_start_with_a_byte_order_mark(tmp_path):
    (tmp_path / "x.json").write_bytes(b'\xef\xbb\xbf{"a": 1}')
    assert read_json(tmp_path / "x.json") == {"a": 1}


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "x.json")
    with pytest.raises(InputError, match="not a regular file"):
        read_json(tmp_path / "x.json")
