"""The pretraining of one contestant, as a process of its own does it, with what it took and what came of it."""

from __future__ import annotations

import os
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bertkit import device
from bertkit.corpus.folder import CorpusFolder
from bertkit.device import Machine
from bertkit.errors import InputError, InterruptionError
from bertkit.files import read_sealed, write_sealed
from bertkit.hub.folder import ModelFolder
from bertkit.train.comparing.yardstick import held_out
from bertkit.train.journal import read_log, read_times
from bertkit.train.pretrain import pretrain, resume
from bertkit.train.request import Request
from bertkit.train.run import Reporter, no_report
from bertkit.train.run_facts import facts_of
from bertkit.train.watcher import Watcher


@dataclass(frozen=True, kw_only=True)
class Job:
    request: Request
    run: Path
    length: int
    """Of the sequences that the held-out words are hidden in."""

    @property
    def result(self) -> Path:
        return self.run.with_name(f"{self.run.name}.json")

    def to_json(self) -> dict[str, Any]:
        return {"request": self.request.to_json(), "run": str(self.run), "length": self.length}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Job:
        asked = values["request"]
        request = Request(**{**asked, "shards": Path(asked["shards"])})
        return cls(request=request, run=Path(values["run"]), length=values["length"])

    @property
    def finished(self) -> bool:
        return "parameters" in self.known()

    def do(self, machine: Machine, watcher: Watcher, report: Reporter = no_report) -> None:
        """Begin the run or go on with it, and write down what came of it."""
        begun = facts_of(self.run) is not None
        facts = (
            resume(self.run, machine, watcher, shards=self.request.shards, report=report)
            if begun
            else pretrain(self.request, self.run, machine, watcher, command=tuple(sys.argv), report=report)
        )
        self.remember_memory()
        memory = self.known()["peak_memory"]
        corpus = CorpusFolder(self.request.shards, verify=False)
        words = held_out(self.run, corpus, length=self.length, device=device.apply(machine))
        self._write({**self._outcome(), "peak_memory": memory, "validation": facts, "held_out": words})

    def remember_memory(self) -> None:
        """Of all sessions of a run the most; a session that is killed has told it with its last checkpoint."""
        before = self.known()
        if (memory := peak_memory()) > before.get("peak_memory", 0):
            self._write({**before, "peak_memory": memory})

    def known(self) -> dict[str, Any]:
        """What came of it so far."""
        if not self.result.exists():
            return {}
        return read_sealed(self.result, InputError, "Remove it: what it says is then measured again.")

    def _outcome(self) -> dict[str, Any]:
        run, steps = facts_of(self.run) or {}, [each for each in read_log(self.run) if each["kind"] == "step"]
        last = steps[-1] if steps else {}
        times = [each for each in read_times(self.run) if "event" not in each and each["step"] <= last.get("step", 0)]
        speeds = sorted(each["tokens_per_second"] for each in times if "tokens_per_second" in each)
        kept = ModelFolder(self.run / "model")
        encoder = kept.family.without_weights(kept.config, pooler=False, mlm=False, nsp=False)
        return {
            "parameters": run["plan"]["parameters"],
            "encoder_parameters": encoder.parameter_count(),
            "steps": last.get("step", 0),
            "tokens": last.get("tokens", 0),
            "samples": last.get("samples", 0),
            "batch": last.get("batch", 0),
            "seconds": max((each["seconds"] for each in times), default=0.0),
            "tokens_per_second": speeds[len(speeds) // 2] if speeds else 0.0,
            "machine": run["machine"],
        }

    def _write(self, facts: dict[str, Any]) -> None:
        write_sealed(self.result, facts)


def peak_memory() -> int:
    """The most bytes this process has held in memory; on a GPU, there."""
    import torch

    if torch.cuda.is_available() and torch.cuda.max_memory_allocated():
        return int(torch.cuda.max_memory_allocated())
    try:  # what getrusage tells, a process has in part from the one that started it
        status = Path("/proc/self/status").read_text()
        return 1024 * next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        import resource

        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else 1024 * most


def end_with(pipe: int) -> None:
    """End this process when the one at the other end of the pipe has gone: nobody would be there for what it does, and
    its run could not be gone on with while it lives. What it has saved stands."""

    def watch() -> None:
        while os.read(pipe, 1):
            pass
        os._exit(InterruptionError.exit_code)

    threading.Thread(target=watch, daemon=True).start()
