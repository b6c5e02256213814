"""`bertkit finetune`: a labelled file and a pretrained model to a model for a task."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from bertkit.cli.declare import said_here
from bertkit.cli.options import emit, for_people, note, quiet
from bertkit.cli.running import as_before, interruption, refuse_others, speaks, threads_under_torchrun
from bertkit.train.schemas import FineTuning

if TYPE_CHECKING:
    from bertkit.train.findings import FitFacts
    from bertkit.train.finetune import FinetuneResult


ON_THE_WAY = ("resume", "device", "threads")
"""What may be said of a fine-tuning that goes on."""


def finetune(asked: FineTuning, said: frozenset[str]) -> None:
    """Fine-tune a BERT for a task.

    \b
    bertkit finetune classify reviews.csv --from MODEL --out CLASSIFIER
    bertkit finetune classify train.tsv --dev dev.tsv --from MODEL --out CLASSIFIER --seeds 5
    bertkit finetune regress pairs.tsv --pair-column sentence2 --score-column similarity --from MODEL --out SCORER
    bertkit finetune choice questions.jsonl --from MODEL --out CHOOSER
    bertkit finetune embed pairs.tsv --from MODEL --out SENTENCE_VECTORS
    bertkit finetune --resume CLASSIFIER                   # after any interruption, as does the same command
    torchrun --nproc-per-node 4 -m bertkit finetune classify reviews.csv --from MODEL --out CLASSIFIER

    Columns that are not named are known by usual names; what is wrong with a file is told all at once.
    """
    if asked.resume is not None:
        refuse_others(asked, ON_THE_WAY, said)
    result = finetuned(asked)
    if not speaks():
        return
    if for_people():
        _show(result)
        return
    emit(facts_of(result))


def facts_of(result: FinetuneResult) -> dict[str, Any]:
    """What it came to, for programs."""
    mean, deviation = result.spread()
    facts = result.facts
    main = facts.main_metric
    return {
        "model": str(result.path),
        "report": str(result.path / "report.html"),
        "metrics": result.metrics,
        "interval": {main: list(facts.interval)},
        "baselines": {title: its[main] for title, its in facts.baselines.items()},
        main: {"seeds": result.of_seeds, "mean": mean, "deviation": deviation},
        "advice": [said_here(line) for line in facts.advice],
    }


def finetuned(asked: FineTuning) -> FinetuneResult:
    out, device, threads = asked.resume or asked.out or Path(), asked.device, asked.threads
    if asked.resume is not None:
        refuse_others(asked, ON_THE_WAY)
    for message in asked.unusual():
        note(message)
    from bertkit import device as devices
    from bertkit.cli.training_display import TrainingDisplay
    from bertkit.report.fit_page import report_files
    from bertkit.train.finetune import finetune as begin
    from bertkit.train.finetune import resume as go_on
    from bertkit.train.finetune import run_folder
    from bertkit.train.watcher import Watcher

    request, run = asked.request() if asked.resume is None else None, run_folder(out)
    if request is None:
        device, threads = as_before(run, device, threads)

    def report(facts: FitFacts) -> Mapping[str, bytes]:
        return report_files(replace(facts, advice=[said_here(line) for line in facts.advice]))

    machine = devices.choose(device, asked.precision, threads or threads_under_torchrun())
    shown = nullcontext(Watcher()) if quiet() else TrainingDisplay()
    with shown as display, interruption(run, f"bertkit finetune --resume {out}"):
        if request is None:
            return go_on(out, machine, watcher=display, report=report)
        overwrite = asked.overwrite
        return begin(request, out, machine, watcher=display, overwrite=overwrite, report=report)


def _show(result: FinetuneResult) -> None:
    facts, out = result.facts, result.path
    main = facts.main_metric
    for metric, reached in result.metrics.items():
        sure = f"  (95 % sure: {facts.interval[0]:.4f} to {facts.interval[1]:.4f})" if metric == main else ""
        typer.echo(f"{metric:>12}  {reached:.4f}{sure}")
    for title, its in facts.baselines.items():
        typer.echo(f"{title:>24}: {main} {its[main]:.4f}")
    if len(result.of_seeds) > 1:
        mean, deviation = result.spread()
        by = "" if result.chosen_by == main else f" by {result.chosen_by}"
        typer.echo(f"{main} over {len(result.of_seeds)} seeds: {mean:.4f} ± {deviation:.4f}; the best{by} is kept")
    for line in (*facts.advice, facts.caution):
        if line:
            typer.echo(said_here(line))
    typer.echo(f"{out / 'report.html'}\n{out}  (bertkit predict {out} FILE)")
