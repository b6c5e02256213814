"""Saving that goes wrong: a full disk, a death at any moment. The folder is the old one or the new one, whole."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from bertkit import load_encoder
from bertkit.files import atomic_folder


def run(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)], capture_output=True, text=True, timeout=120
    )


SAVE = """
import sys
from pathlib import Path
from bertkit.errors import BertkitError
from bertkit.hub.folder import ModelFolder
from bertkit.hub.weights import load_model, save_model
source = ModelFolder(Path(sys.argv[1]))
model, tokenizer = load_model(source).model, source.tokenizer()
{before}
try:
    save_model(Path(sys.argv[2]), model, tokenizer, overwrite=True)
except BertkitError as error:
    print(error)
    sys.exit(3)
"""


def visible(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


@pytest.mark.parametrize("limit", [0, 1_000, 100_000, 300_000, 2_000_000])
def test_a_file_size_limit_leaves_nothing_half_written(tiny_folder, tmp_path, limit):
    """The kernel refuses the write at the limit, wherever in the folder's files that falls."""
    before = (
        f"import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))"
    )
    shutil.copytree(tiny_folder, tmp_path / "out")
    child = run(SAVE.format(before=before), tiny_folder, tmp_path / "out")
    assert child.returncode == 3, child.stderr
    assert child.stdout.count("\n") == 1
    assert str(tmp_path / "out") in child.stdout
    assert "nothing was changed" in child.stdout
    assert visible(tmp_path) == ["out"]
    load_encoder(tmp_path / "out")


@pytest.fixture
def small_disk(tmp_path: Path):
    """A file system of 3 MB of its own."""
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(place)]
    if shutil.which("mount") is None or subprocess.run(command, capture_output=True).returncode != 0:
        pytest.skip("a small file system can only be mounted by root")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_full_disk_leaves_nothing_half_written(tiny_folder, small_disk):
    child = run(SAVE.format(before=""), tiny_folder, small_disk / "out")
    assert child.returncode == 3, child.stderr
    assert "disk is full" in child.stdout
    assert visible(small_disk) == []


WALK = """
import os, signal, sys
from pathlib import Path
import torch
import bertkit.files, bertkit.tensors
from bertkit.hub.folder import ModelFolder
from bertkit.hub.weights import load_model, save_model

torch.set_num_threads(1)  # so that a forked child can compute
out = Path(sys.argv[2])
source = ModelFolder(Path(sys.argv[1]))
model, tokenizer = load_model(source).model, source.tokenizer()

def save_and_die(point):
    def failpoint(owner, name):
        real = getattr(owner, name)
        def call(*args, **kwargs):
            nonlocal point
            point -= 1
            if point < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*args, **kwargs)
        setattr(owner, name, call)
    for name in ("_exchange", "sha256_of", "sync_folder"):
        failpoint(bertkit.files, name)
    for name in ("rename", "chmod", "write_text"):
        failpoint(Path, name)
    failpoint(os, "fsync")
    failpoint(bertkit.tensors, "save_file")
    failpoint(bertkit.files.shutil, "rmtree")
    failpoint(bertkit.files.tempfile, "mkdtemp")
    save_model(out, model, tokenizer, overwrite=True)
    os._exit(0)

point = 0
while True:
    child = os.fork()
    if child == 0:
        save_and_die(point)
    _, status = os.waitpid(child, 0)
    load_model(ModelFolder(out))  # every hash in it holds
    if status == 0:
        break
    assert os.WTERMSIG(status) == signal.SIGKILL, status
    point += 1
print(point)
"""


def test_death_at_every_step_of_saving_leaves_a_whole_folder(tiny_folder, tmp_path):
    """The process kills itself before the n-th call that touches the disk, for every n there is."""
    out = tmp_path / "out"
    shutil.copytree(tiny_folder, out)
    child = run(WALK, tiny_folder, out)
    assert child.returncode == 0, child.stderr
    assert int(child.stdout) > 20, "the walk met every step"
    assert visible(out) == visible(tiny_folder)


def test_a_kill_at_random_moments_leaves_a_whole_folder(tiny_folder, tmp_path):
    out = tmp_path / "out"
    shutil.copytree(tiny_folder, out)
    code = (
        SAVE.format(before="print('go', flush=True)")
        + "\nwhile True: save_model(Path(sys.argv[2]), model, tokenizer, overwrite=True)"
    )
    draw = random.Random(1)
    caught = False
    for _ in range(5):
        child = subprocess.Popen([sys.executable, "-c", code, str(tiny_folder), str(out)], stdout=subprocess.PIPE)
        assert child.stdout is not None
        child.stdout.readline()
        time.sleep(draw.uniform(0, 0.3))
        child.kill()
        child.wait()
        child.stdout.close()
        load_encoder(out)
        caught |= any(file.startswith(".out.") for file in visible(tmp_path))
    assert caught, "some kill fell into a save"
    assert run(SAVE.format(before=""), tiny_folder, out).returncode == 0
    assert visible(tmp_path) == ["out"], "what the dead left behind is cleared away"


def test_the_old_folder_is_there_while_it_is_replaced(tmp_path):
    """No moment without a folder under the name, where the system can exchange names."""
    if sys.platform != "linux":
        pytest.skip("only Linux exchanges two names in one step")
    path = tmp_path / "folder"
    with atomic_folder(path) as new:
        (new / "file").write_text("0")
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            while True:
                if not path.exists():
                    (tmp_path / "gone").touch()
        os._exit(0)
    try:
        for number in range(200):
            with atomic_folder(path, overwrite=True) as new:
                (new / "file").write_text(str(number))
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert not (tmp_path / "gone").exists()
