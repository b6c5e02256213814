"""What this machine can do, and what follows from it: device, threads, precision, instruction set.

The one trap is AMX. Some virtual machines advertise it and then kill the process on its first instruction, so
before reduced precision is used on such a CPU it is tried in a child process, once; the answer is kept.

Overrides, for machines we guess wrong: BERTKIT_DEVICE, BERTKIT_THREADS, BERTKIT_PRECISION, and BERTKIT_AMX
(`on` or `off`: believe me instead of trying).
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bertkit.errors import UsageError
from bertkit.files import atomic_file
from bertkit.settings import Settings, option

if TYPE_CHECKING:
    import torch

DEVICES = ("auto", "cpu", "cuda", "mps")
PRECISIONS = ("float32", "bfloat16", "float16", "auto")
PROBE_SECONDS = 120

AMX_PROBE = "import torch; a = torch.ones(64, 64, dtype=torch.bfloat16); assert (a @ a)[0, 0] == 64"

WITHOUT_AMX = {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_FP16", "MKL_ENABLE_INSTRUCTIONS": "AVX512"}
"""What keeps the two libraries under torch's matrix products away from AMX. Read by them at their first use."""


PATIENCE_OF_THREADS = {"GOMP_SPINCOUNT": "3000"}
"""When one of torch's threads waits for another, it spins, 100 times as long as this by default. Whoever else wants the
core then waits too, and so does the thread that is waited for: beside other work a step took up to ten times as long.
Alone on a machine it makes a few percent, if anything. Read when torch is loaded."""


@dataclass(frozen=True, kw_only=True)
class OnMachine(Settings):
    """Where a command computes, as it is told."""

    device: str = option("auto", "auto, cpu, cuda or mps.", group="the machine")
    threads: int | None = option(None, "CPU threads.", least=1, usual="all physical cores", group="the machine")


@dataclass(frozen=True, kw_only=True)
class Machine:
    """The choices made for this machine. `precision` is what matrix products are computed in."""

    device: str
    precision: str
    threads: int
    cpu: str
    instruction_set: str
    amx: str


def choose(device: str = "auto", precision: str = "float32", threads: int | None = None) -> Machine:
    """Decide, without changing anything yet.

    `float32` is exact and the default; `auto` takes what is fastest here: bfloat16 on a GPU or a CPU whose AMX
    works, else float32 (without AMX, bfloat16 is the slower one).
    """
    if device == "auto":
        device = os.environ.get("BERTKIT_DEVICE", device)
    if precision in ("float32", "auto"):
        precision = os.environ.get("BERTKIT_PRECISION", precision)
    _require(device, DEVICES, "device")
    _require(precision, PRECISIONS, "precision")
    found = _find_device(device)
    amx = "not checked" if advertises_amx() else "none"
    if found == "cpu" and precision in ("auto", "bfloat16") and advertises_amx():
        amx = "works" if amx_works() else "advertised, and crashes"
    if precision == "auto":
        fast = (found == "cuda" and _gpu_has_bfloat16()) or amx == "works"
        precision = "bfloat16" if fast else "float32"
    if precision == "float16" and found == "cpu":
        raise UsageError("float16 is for GPUs; on this CPU it is slower and less exact", "Use float32 or auto.")
    return Machine(
        device=found,
        precision=precision,
        threads=threads or usable_threads(),
        cpu=_cpu_name(),
        instruction_set=_instruction_set(),
        amx=amx,
    )


def apply(machine: Machine) -> torch.device:
    """Set torch up accordingly. To be called before the first tensor is computed: the threads that torch starts
    then inherit the flushing of denormal numbers, which otherwise cost a factor of three."""
    if machine.amx == "advertised, and crashes":
        for name, value in WITHOUT_AMX.items():
            os.environ.setdefault(name, value)
    import torch

    torch.set_flush_denormal(True)
    torch.set_num_threads(machine.threads)
    return torch.device(machine.device)


def share_cores() -> None:
    """Let torch's threads give way to other work. For programs, before torch is loaded: a library should not decide
    that."""
    for name, value in PATIENCE_OF_THREADS.items():
        os.environ.setdefault(name, value)


@cache
def _malloc_trim() -> Callable[[int], int] | None:
    try:
        trim: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):  # not glibc
        return None
    return trim


def give_memory_back() -> None:
    """Hand freed memory to the system. glibc keeps it between what is still in use, and in a stream of batches of all
    lengths that comes to several times what is needed. Takes milliseconds."""
    if (trim := _malloc_trim()) is not None:
        trim(0)


def describe(machine: Machine) -> dict[str, Any]:
    return asdict(machine)


@cache
def usable_threads() -> int:
    """The cores this process may use: physical ones, of those it is confined to, within a container's share."""
    for name in ("BERTKIT_THREADS", "OMP_NUM_THREADS"):
        if os.environ.get(name, "").isdigit() and int(os.environ[name]) > 0:
            return int(os.environ[name])
    return physical_cores()


def physical_cores() -> int:
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))
    cores = {_core_of(cpu) for cpu in allowed}
    return max(1, min(len(cores), _container_share()))


def advertises_amx() -> bool:
    return "amx_bf16" in _cpu_flags()


def amx_works() -> bool:
    """Whether AMX is really there: tried in a child process, which may die of it; remembered for this CPU, kernel
    and version of torch."""
    told = os.environ.get("BERTKIT_AMX", "")
    if told in ("on", "off"):
        return told == "on"
    remembered = _cache_file()
    try:
        return bool(json.loads(remembered.read_text(encoding="utf-8"))["amx_works"])
    except (OSError, ValueError, KeyError, TypeError):
        pass
    works = survives(AMX_PROBE)
    try:
        with atomic_file(remembered) as file:
            file.write(json.dumps({"amx_works": works}).encode())
    except Exception:  # noqa: S110 a read-only home only means trying again next time
        pass
    return works


def survives(code: str) -> bool:
    """Whether a fresh Python runs `code` to its end."""
    try:
        child = subprocess.run(  # noqa: S603 our own interpreter on our own line
            [sys.executable, "-c", code], capture_output=True, timeout=PROBE_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return False
    return child.returncode == 0


def _require(value: str, choices: tuple[str, ...], what: str) -> None:
    if value not in choices:
        raise UsageError(f"{what} is {value!r}", f"It can be one of: {', '.join(choices)}.")


def _find_device(wanted: str) -> str:
    if wanted == "cpu":
        return "cpu"
    import torch

    present = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if wanted == "auto":
        return next(name for name, there in present.items() if there)
    if not present[wanted]:
        raise UsageError(f"device {wanted} was asked for, and torch does not find one", "Use `device` auto or cpu.")
    return wanted


def _gpu_has_bfloat16() -> bool:
    import torch

    return torch.cuda.get_device_capability() >= (8, 0)


def _cache_file() -> Path:
    facts = [_cpu_name(), *sorted(_cpu_flags()), platform.release(), importlib.metadata.version("torch")]
    key = hashlib.sha256("\n".join(facts).encode()).hexdigest()[:16]
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bertkit" / f"machine-{key}.json"


@cache
def _cpu_info() -> dict[str, str]:
    """The first CPU of /proc/cpuinfo; empty where there is no such file."""
    try:
        block = Path("/proc/cpuinfo").read_text(encoding="utf-8").split("\n\n")[0]
    except OSError:
        return {}
    pairs = (line.partition(":") for line in block.splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}


def _cpu_flags() -> frozenset[str]:
    return frozenset(_cpu_info().get("flags", "").split())


def _cpu_name() -> str:
    return _cpu_info().get("model name") or platform.processor() or platform.machine()


def _instruction_set() -> str:
    ladder = ("amx_bf16", "avx512_bf16", "avx512f", "avx2", "avx")
    return next((name for name in ladder if name in _cpu_flags()), platform.machine())


def _core_of(cpu: int) -> tuple[str, str]:
    """What tells physical cores apart: two hardware threads of one core give the same."""
    topology = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology")
    try:
        return (topology / "physical_package_id").read_text().strip(), (topology / "core_id").read_text().strip()
    except OSError:
        return "", str(cpu)


def _container_share() -> int:
    """A container may see every core and be given the time of a few."""
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        return max(1, int(quota) // int(period))
    except (OSError, ValueError):
        return sys.maxsize
