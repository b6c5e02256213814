"""What is chosen for a machine; the AMX trap with real child processes that really die."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from bertkit import device
from bertkit.errors import UsageError

SIGILL = "import os, signal; os.kill(os.getpid(), signal.SIGILL)"


@pytest.fixture
def amx_machine(monkeypatch, tmp_path):
    """A CPU that says it has AMX, and a cache of its own."""
    flags = frozenset({"amx_bf16", "avx2"})
    monkeypatch.setattr(device, "_cpu_flags", lambda: flags)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("BERTKIT_AMX", raising=False)


def test_a_child_that_dies_of_an_illegal_instruction_is_told_from_one_that_lives():
    assert not device.survives(SIGILL)
    assert not device.survives("raise SystemExit(3)")
    assert device.survives("pass")


def test_broken_amx_means_float32_and_is_remembered(amx_machine, monkeypatch, tmp_path):
    monkeypatch.setattr(device, "AMX_PROBE", SIGILL)
    machine = device.choose("cpu", "auto")
    assert (machine.precision, machine.amx) == ("float32", "advertised, and crashes")
    assert len(list(tmp_path.rglob("machine-*.json"))) == 1
    monkeypatch.setattr(device, "survives", lambda _: pytest.fail("tried again"))
    assert device.choose("cpu", "auto") == machine


def test_working_amx_means_bfloat16(amx_machine, monkeypatch):
    monkeypatch.setattr(device, "AMX_PROBE", "pass")
    assert device.choose("cpu", "auto").precision == "bfloat16"


def test_float32_needs_no_probe(amx_machine, monkeypatch):
    monkeypatch.setattr(device, "survives", lambda _: pytest.fail("tried"))
    assert device.choose("cpu").amx == "not checked"


def test_a_damaged_cache_is_tried_anew(amx_machine, monkeypatch):
    monkeypatch.setattr(device, "AMX_PROBE", "pass")
    file = device._cache_file()
    file.parent.mkdir(parents=True)
    file.write_text('{"amx_')
    assert device.amx_works()


def test_the_user_knows_better(amx_machine, monkeypatch):
    monkeypatch.setattr(device, "survives", lambda _: pytest.fail("tried"))
    monkeypatch.setenv("BERTKIT_AMX", "off")
    assert device.choose("cpu", "auto").precision == "float32"
    monkeypatch.setenv("BERTKIT_AMX", "on")
    assert device.choose("cpu", "auto").precision == "bfloat16"
    monkeypatch.setenv("BERTKIT_PRECISION", "float32")
    assert device.choose("cpu", "auto").precision == "float32"


def test_broken_amx_is_kept_away_from(amx_machine, monkeypatch):
    """The libraries under torch are told before their first use."""
    code = (
        "import os; from bertkit import device; device._cpu_flags = lambda: frozenset({'amx_bf16'});"
        "device.amx_works = lambda: False; device.apply(device.choose('cpu', 'auto'));"
        "print(os.environ['ONEDNN_MAX_CPU_ISA'])"
    )
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert child.stdout.strip() == "AVX512_CORE_FP16"


def test_denormals_are_flushed_on_every_thread():
    code = (
        "from bertkit import device; device.apply(device.choose('cpu', threads=4)); import torch;"
        "x = torch.full((4_000_000,), 1e-39); print(int((x * 0.5 != 0).sum()))"
    )
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert child.stdout.strip() == "0"


def test_threads_follow_the_environment(monkeypatch):
    for name in ("OMP_NUM_THREADS", "BERTKIT_THREADS"):
        device.usable_threads.cache_clear()
        monkeypatch.setenv(name, "3" if name.startswith("OMP") else "5")
        assert device.choose("cpu").threads == (3 if name.startswith("OMP") else 5)
    device.usable_threads.cache_clear()
    monkeypatch.delenv("OMP_NUM_THREADS")
    monkeypatch.delenv("BERTKIT_THREADS")
    assert device.choose("cpu").threads >= 1
    assert device.choose("cpu", threads=2).threads == 2


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"device": "gpu"}, r"device is 'gpu'.*auto, cpu"),
        ({"precision": "half"}, "precision is 'half'"),
        ({"device": "cpu", "precision": "float16"}, "float16 is for GPUs"),
    ],
)
def test_wrong_choices_are_named(given, message):
    with pytest.raises(UsageError, match=message):
        device.choose(**given)


def test_a_device_that_is_not_there_is_named():
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU, so asking for one is right")
    with pytest.raises(UsageError, match=r"cuda was asked for.*`device` auto"):
        device.choose("cuda")


def test_threads_give_way_to_other_work_unless_the_user_says_otherwise(monkeypatch):
    monkeypatch.delenv("GOMP_SPINCOUNT", raising=False)
    monkeypatch.setattr(os, "environ", dict(os.environ))
    device.share_cores()
    assert os.environ["GOMP_SPINCOUNT"] == "3000"
    os.environ["GOMP_SPINCOUNT"] = "7"
    device.share_cores()
    assert os.environ["GOMP_SPINCOUNT"] == "7"


def test_freed_memory_is_handed_back_where_that_can_be_done_and_else_nothing_happens(monkeypatch):
    device.give_memory_back()
    device._malloc_trim.cache_clear()

    def without_glibc(name):
        raise OSError("no such library")

    monkeypatch.setattr("ctypes.CDLL", without_glibc)
    assert device._malloc_trim() is None
    device.give_memory_back()
    device._malloc_trim.cache_clear()
