"""A contestant's pretraining in a process of its own, which `bertkit compare` starts: what to do comes as one line of
JSON on stdin, and the end of stdin is the end of it."""

from __future__ import annotations

import json
import sys

from bertkit import device as devices
from bertkit.cli.options import emit
from bertkit.cli.training_display import TrainingDisplay
from bertkit.device import Machine, share_cores
from bertkit.errors import BertkitError, InterruptionError


def main() -> int:
    share_cores()
    asked = json.loads(sys.stdin.readline())
    machine = Machine(**asked["machine"])
    devices.apply(machine)
    from bertkit.report.page import write_report
    from bertkit.train.comparing.job import Job, end_with

    job = Job.from_json(asked["job"])

    class Display(TrainingDisplay):
        def saved(self, step: int) -> None:
            super().saved(step)
            job.remember_memory()

    end_with(sys.stdin.fileno())
    try:
        with Display() as display:
            job.do(machine, display, write_report)
    except InterruptionError as stopped:
        return stopped.exit_code
    except KeyboardInterrupt:
        return InterruptionError.exit_code
    except BertkitError as problem:
        emit({"problem": problem.problem, "remedy": problem.remedy})
        return problem.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
