"""`bertkit pretrain`: a prepared corpus to a pretrained BERT."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import typer

from bertkit.cli.options import emit, for_people, note, quiet
from bertkit.cli.running import as_before, interruption, refuse_others, speaks, threads_under_torchrun
from bertkit.train.schemas import Pretraining

ON_THE_WAY = ("resume", "shards", "device", "threads")
"""What may be said of a run that goes on."""


def pretrain(asked: Pretraining, said: frozenset[str]) -> None:
    """Pretrain a BERT, or a model of another family, on a prepared corpus: masked words and next sentences.

    \b
    bertkit pretrain SHARDS --hours 8 --out RUN            # the best model that time can buy
    bertkit pretrain SHARDS --model bert-mini --steps 10000 --out RUN
    bertkit pretrain SHARDS --model gpt2-mini --hours 2 --out RUN      # the next word, left to right
    bertkit pretrain SHARDS --from MODEL --hours 2 --out RUN    # go on from a model
    bertkit pretrain --resume RUN                          # after any interruption; SHARDS too if they were moved
    torchrun --nproc-per-node 4 -m bertkit pretrain SHARDS --hours 8 --out RUN

    Ctrl-C saves and stops. RUN/model is the model, RUN/report.html tells how it went.
    """
    if asked.resume is not None:
        refuse_others(asked, ON_THE_WAY, said)
    facts = pretrained(asked)
    if speaks():
        _result(asked.resume or asked.out or Path(), facts)


def pretrained(asked: Pretraining) -> dict[str, Any]:
    """A run to its end, begun or gone on with: what it came to."""
    run = asked.resume or asked.out or Path()
    if asked.resume is not None:
        refuse_others(asked, ON_THE_WAY)
    for message in asked.unusual():
        note(message)
    from bertkit import device as devices

    request = asked.request() if asked.resume is None else None
    device, threads = asked.device, asked.threads
    if asked.resume is not None:
        device, threads = as_before(asked.resume, device, threads)
    machine = devices.choose(device, asked.precision, threads or threads_under_torchrun())
    devices.apply(machine)
    from bertkit.cli.training_display import TrainingDisplay
    from bertkit.report.page import write_report
    from bertkit.train.pretrain import pretrain as begin
    from bertkit.train.pretrain import resume as go_on
    from bertkit.train.watcher import Watcher

    with (
        nullcontext(Watcher()) if quiet() else TrainingDisplay() as display,
        interruption(run, f"bertkit pretrain --resume {run}"),
    ):
        if request is None:
            facts = go_on(run, machine, display, shards=asked.shards, report=write_report)
        else:
            how: dict[str, Any] = {"overwrite": asked.overwrite, "command": tuple(sys.argv), "report": write_report}
            facts = begin(request, run, machine, display, **how)
    return {"model": str(run / "model"), "report": str(run / "report.html"), **facts}


def _result(run: Path, facts: dict[str, Any]) -> None:
    from bertkit.hub.folder import ModelFolder
    from bertkit.objectives.terms import answered_right, titles_of
    from bertkit.train.run_facts import facts_of

    if not for_people():
        emit(facts)
        return
    folder = run / ("generator" if (run / "generator").is_dir() else "model")
    opened = ModelFolder(folder)
    if opened.task == "generate":
        attempt = f'generate {folder} "Once upon a time"'
    else:
        attempt = f'fill-mask {folder} "A text with a {opened.tokenizer().specials["mask"]} in it."'
    titles = titles_of((facts_of(run) or {})["objectives"])
    figures = f"perplexity {facts['perplexity']:.1f}, " if "perplexity" in facts else ""
    typer.echo(
        f"held-out text: {figures}{answered_right(titles, facts)}\n"
        f"model   {run / 'model'}\nreport  {run / 'report.html'}\n"
        f"try     bertkit {attempt}"
    )
