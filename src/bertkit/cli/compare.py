"""`bertkit compare`: several models on the same text and the same tasks, side by side."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import typer

from bertkit.cli.options import emit, for_people, quiet
from bertkit.errors import BertkitError
from bertkit.train.schemas import Comparing


def compare(asked: Comparing) -> None:
    """Compare models: the same text, the same time or steps, the same tasks and seeds.

    \b
    bertkit compare text.jsonl --models bert-mini,roberta-mini --minutes 10 --task classify:train.tsv:dev.tsv -o OUT
    bertkit compare text.jsonl --models bert-mini,bert-mini:no-nsp --steps 2000 -o OUT
    bertkit compare lineage text.jsonl --hours 6 --task classify:train.tsv:dev.tsv -o OUT
    bertkit compare text.jsonl --ablation bert --model bert-mini --steps 2000 --task qa:train.json:dev.json -o OUT

    OUT/comparison.html has the table, curves and what is fair about it. If it is interrupted, the same command goes on;
    with more models, tasks or seeds it adds to what is there.
    """
    facts = compared(asked)
    if asked.plan:
        _say_plan(facts)
        return
    if for_people():
        from bertkit.cli.compare_display import print_table

        print_table(facts)
        typer.echo(f"{asked.out / 'comparison.html'}\n{asked.out / 'comparison.md'}")
    else:
        from bertkit.report.standings import results

        for record in results(facts):
            emit(record)
    require_all(facts["contestants"])


def compared(asked: Comparing) -> dict[str, Any]:
    """What comparison.json holds; or what would be done, if only the plan is asked for."""
    whole = asked.asked()
    from bertkit import device as devices
    from bertkit.cli.compare_display import CompareDisplay

    machine = devices.choose(asked.device, asked.precision, asked.threads)
    devices.apply(machine)
    from bertkit.report.comparison import write_comparison
    from bertkit.report.lineage import write_lineage
    from bertkit.train.comparing.compare import CompareWatcher, Comparison
    from bertkit.train.comparing.lineage import line as line_of
    from bertkit.train.comparing.plan import plan

    with nullcontext(CompareWatcher()) if quiet() else CompareDisplay() as display:
        report = write_lineage if asked.lineage else write_comparison
        comparison = Comparison(whole, asked.out, machine, display, report)
        if asked.plan:
            return plan(comparison)
        for line in [*comparison.notes, *(line_of(asked.model, asked.words)[1] if asked.lineage else ())]:
            display.said(line)
        return comparison.run()


def require_all(rows: list[dict[str, Any]]) -> None:
    """The others are compared all the same, but nobody shall take it for the whole."""
    again = "The same command tries again."
    if failed := [row for row in rows if "problem" in row]:
        why = f"{failed[0]['title']}: {failed[0]['problem'].rstrip('.')}"
        raise BertkitError(f"{len(failed)} of {len(rows)} failed; {why}", again)
    if failed := [row for row in rows if "failed_tasks" in row]:
        task, problem = next(iter(failed[0]["failed_tasks"].items()))
        why = f"{failed[0]['title']}, {task}: {problem.rstrip('.')}"
        raise BertkitError(f"{len(failed)} of {len(rows)} could not be fine-tuned for all tasks; {why}", again)


def _say_plan(parts: dict[str, Any]) -> None:
    from bertkit.train.comparing.plan import plan_lines

    if for_people():
        for line in plan_lines(parts):
            typer.echo(line)
    else:
        emit(parts)
