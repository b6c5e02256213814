"""Pretraining in a process of its own, so that its memory is its own and nothing is left behind."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import suppress
from typing import Any

from bertkit.device import Machine, describe
from bertkit.errors import BertkitError, InterruptionError, TrainingError, UsageError
from bertkit.train.comparing.job import Job
from bertkit.train.signals import Signals

COMMAND = (sys.executable, "-m", "bertkit.cli.compare_run")
LOOK_SECONDS = 0.2


def do_in_child(job: Job, machine: Machine, signals: Signals) -> None:
    """Wait until a child has done it. A signal is handed on once: the child then saves and ends."""
    process = subprocess.Popen(  # noqa: S603
        COMMAND,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # Ctrl-C is for us; it would come twice else
    )
    if process.stdin is None or process.stdout is None:
        raise RuntimeError("a child without pipes")
    try:
        with suppress(BrokenPipeError):  # it has ended already, and its code is told below
            process.stdin.write(json.dumps({"machine": describe(machine), "job": job.to_json()}) + "\n")
            process.stdin.flush()
        told = False
        while process.poll() is None:
            if signals.received and not told:
                process.terminate()
                told = True
            try:
                process.wait(LOOK_SECONDS)
            except subprocess.TimeoutExpired:
                continue
        answer = process.stdout.read()
    finally:
        process.kill()  # if it is still there, we were told to stop at once
        process.wait()
        with suppress(BrokenPipeError):
            process.stdin.close()
        process.stdout.close()
    if signals.received or process.returncode == InterruptionError.exit_code:
        raise InterruptionError(
            f"stopped in the pretraining of {job.run.name}; what is done is saved", "Give the same command again."
        )
    if process.returncode:
        raise _problem(process.returncode, answer)


def _problem(code: int, answer: str) -> BertkitError:
    if code < 0:
        return TrainingError(f"its process was ended by signal {-code}", "If that was for memory, take less: batch=16.")
    try:
        said: dict[str, Any] = json.loads(answer.splitlines()[-1])
        problem, remedy = said["problem"], said["remedy"]
    except (IndexError, KeyError, TypeError, ValueError):  # a fault of ours in it: its traceback is on the screen
        return TrainingError(f"its process ended with {code}, for a reason that it printed above")
    kind = UsageError if code == UsageError.exit_code else TrainingError
    return kind(problem, remedy)
