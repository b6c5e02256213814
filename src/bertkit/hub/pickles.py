"""Weights out of a pickle, read where nothing can go wrong for long: in a process of its own with limits to its memory,
time and files, by torch's loader that makes tensors and nothing else. What comes back is a safetensors file.

Started as a program, this file is that process.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bertkit.errors import ModelFolderError, shortened
from bertkit.hub.safetensors_files import SINGLE, pickled_weights

if TYPE_CHECKING:
    from torch import Tensor

SECONDS = 600
REFUSED = 3
IN_WORDS = "Ask who made it for the weights as safetensors."


def without_pickle(folder: Path, place: Path) -> Path:
    """A folder at `place` with the files of `folder`, its pickled weights as safetensors."""
    pickles = pickled_weights(folder)
    if (folder / SINGLE).exists() or not pickles:
        raise ModelFolderError(f"{folder} holds no weights as a pickle alone", "Leave `read_pickle=True` out.")
    place.mkdir()
    for file in folder.iterdir():
        if file not in pickles and file.suffix != ".safetensors":
            (place / file.name).symlink_to(file.resolve())
    _read(pickles, place / SINGLE)
    return place


def _read(pickles: Sequence[Path], out: Path) -> None:
    # -P: what lies in the folder that the user is in, which may be the stranger's, is no module of ours
    command = [sys.executable, "-P", "-m", "bertkit.hub.pickles", *map(str, pickles), str(out)]
    try:
        done = subprocess.run(  # noqa: S603  # our own program
            command, capture_output=True, timeout=SECONDS, text=True, errors="replace"
        )
    except subprocess.TimeoutExpired:
        raise ModelFolderError(f"{pickles[0]} was not read in {SECONDS} seconds", IN_WORDS) from None
    if done.returncode == 0 and out.is_file():
        return
    lines = done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"]
    reason = lines[-1] if done.returncode == REFUSED else f"the process that read it died: {lines[-1]}"
    raise ModelFolderError(f"{pickles[0]} cannot be read: {shortened(reason, 150)}", IN_WORDS)


def _limit_this_process(size: int) -> None:
    """Memory and files for some times as much as the file has; no core dump, and no end of time."""
    try:
        import resource
    except ImportError:  # not on Windows
        return
    for kind, most in (
        (resource.RLIMIT_AS, 8 * 2**30 + 4 * size),
        (resource.RLIMIT_FSIZE, 2**20 + 4 * size),
        (resource.RLIMIT_CPU, SECONDS),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(kind)[1]
        resource.setrlimit(kind, (most if hard == resource.RLIM_INFINITY else min(most, hard),) * 2)


def _tensors_of(file: Path) -> dict[str, Tensor]:
    import torch

    loaded = torch.load(file, weights_only=True, map_location="cpu")
    if isinstance(loaded, dict) and isinstance(loaded.get("state_dict"), dict):
        loaded = loaded["state_dict"]
    if not isinstance(loaded, dict):
        raise TypeError(f"it holds a {type(loaded).__name__}, not tensors by name")
    tensors = {str(name): value for name, value in loaded.items() if isinstance(value, torch.Tensor)}
    if not tensors:
        raise TypeError("it holds no tensors by name")
    return {name: tensor.detach().contiguous().clone() for name, tensor in tensors.items()}


def _main(pickles: Sequence[Path], out: Path) -> int:
    import torch

    from bertkit.tensors import save_tensors

    _limit_this_process(sum(file.stat().st_size for file in pickles))
    torch.set_num_threads(1)
    tensors: dict[str, Tensor] = {}
    try:
        for file in pickles:
            tensors |= _tensors_of(file)
        save_tensors(tensors, out)
    except Exception as problem:  # whatever a stranger's file can make a loader raise
        out.unlink(missing_ok=True)
        sys.stderr.write(" ".join(str(problem).split(". ")[0].split())[:300] + "\n")
        return REFUSED
    return 0


if __name__ == "__main__":
    sys.exit(_main([Path(name) for name in sys.argv[1:-1]], Path(sys.argv[-1])))
