"""`bertkit compare`: several models on the same text and the same tasks, side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bertkit.cli.options import Device, Format, Threads, emit, for_people
from bertkit.errors import BertkitError, UsageError

if TYPE_CHECKING:
    from bertkit.training.comparing.contestants import Contestant


def compare(
    inputs: Annotated[
        list[str],
        typer.Argument(metavar="TEXT...", help="Raw text: files, folders, globs. Or corpora of bertkit prepare."),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder for all of it.")],
    models: Annotated[
        str | None,
        typer.Option(
            help="As bert-mini,roberta-mini,bert-mini:no-nsp:mask=word: with options of bertkit pretrain, and lstm=N."
        ),
    ] = None,
    ablation: Annotated[
        str | None, typer.Option(help="bert: the paper's, without NSP, one way, and so on; of --model.")
    ] = None,
    model: Annotated[str, typer.Option(help="The size for --ablation.")] = "bert-mini",
    minutes: Annotated[float | None, typer.Option(help="How long each is pretrained.")] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="How many steps each takes, instead.")] = None,
    task: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TASK:TRAIN:DEV",
            help="Fine-tune each for it: classify:train.tsv:dev.tsv. Also NAME=TASK:..., and after that columns,"
            " as :text=review, :delimiter=semicolon, and for choice :first-ending=1. Repeatable.",
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="How often each is fine-tuned for each task.")] = 3,
    epochs: Annotated[int | None, typer.Option(min=1, help="Of fine-tuning. [3; of few examples up to 20]")] = None,
    most_examples: Annotated[
        int | None, typer.Option(min=1, help="Fine-tune with so many, which each seed draws. [all]")
    ] = None,
    max_length: Annotated[int, typer.Option(min=8, help="Tokens of an example that are read.")] = 128,
    with_random: Annotated[
        bool, typer.Option("--with-random", help="Fine-tune from random weights too: what pretraining is worth.")
    ] = False,
    recipe: Annotated[str, typer.Option(help="fast or bert, as for bertkit pretrain.")] = "fast",
    batch: Annotated[int | None, typer.Option(min=1, help="Sequences of a step.")] = None,
    length: Annotated[int | None, typer.Option(min=8, help="Tokens of a sequence. [128]")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of pretraining.")] = 0,
    validate_every: Annotated[int | None, typer.Option(min=1, help="Steps. [a twentieth of the run]")] = None,
    tokenizer: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FOLDER", help="Use it instead of training one; one for each kind that is read. Repeatable."
        ),
    ] = None,
    vocab_size: Annotated[int | None, typer.Option(min=100, help="Of the tokenizers that are trained. [30000]")] = None,
    cased: Annotated[
        bool, typer.Option("--cased", help="Keep case; done anyway if one of the models needs it.")
    ] = False,
    field: Annotated[str | None, typer.Option(help="The field or column that holds the text. [text]")] = None,
    file_format: Format = None,
    validation: Annotated[
        float | None, typer.Option(min=0, max=0.5, help="The share of documents held out. [0.01]")
    ] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Say what would be done and how long it takes.")] = False,
    precision: Annotated[str, typer.Option(help="float32, bfloat16, or auto: what is fastest here.")] = "auto",
    device: Device = "auto",
    threads: Threads = None,
) -> None:
    """Compare models: the same text, the same time or steps, the same tasks and seeds.

    \b
    bertkit compare text.jsonl --models bert-mini,roberta-mini --minutes 10 --task classify:train.tsv:dev.tsv -o OUT
    bertkit compare text.jsonl --models bert-mini,bert-mini:no-nsp --steps 2000 -o OUT
    bertkit compare text.jsonl --ablation bert --model bert-mini --steps 2000 --task qa:train.json:dev.json -o OUT

    OUT/comparison.html has the table, curves and what is fair about it. If it is interrupted, the same command goes on;
    with more models, tasks or seeds it adds to what is there.
    """
    from bertkit.training.comparing.asked import Asked
    from bertkit.training.comparing.tasks import tasks_of

    if (minutes is None) == (steps is None):
        raise UsageError("how long to pretrain is not said, or twice", "Give --minutes M or --steps N.")
    of_text = {
        "vocab_size": vocab_size,
        "cased": cased or None,
        "field_name": field,
        "file_format": file_format,
        "validation": validation,
    }
    said: dict[str, Any] = {name: value for name, value in of_text.items() if value is not None}
    asked = Asked(
        inputs=tuple(inputs),
        contestants=tuple(_contestants(models, ablation, model)),
        tasks=tuple(tasks_of(task or [])),
        steps=steps,
        hours=None if minutes is None else minutes / 60,
        recipe=recipe,
        change={name: value for name, value in (("batch", batch), ("length", length)) if value is not None},
        seed=seed,
        validate_every=validate_every,
        tokenizers=tuple(tokenizer or ()),
        seeds=seeds,
        epochs=epochs,
        most_examples=most_examples,
        max_length=max_length,
        with_random=with_random,
        **said,
    )
    asked.require_read(said)
    from bertkit import device as devices
    from bertkit.cli.compare_display import CompareDisplay, print_table

    machine = devices.choose(device, precision, threads)
    devices.apply(machine)
    from bertkit.training.comparing.compare import Comparison
    from bertkit.training.comparing.plan import plan as planned
    from bertkit.training.comparing.plan import plan_lines

    with CompareDisplay() as display:
        comparison = Comparison(asked, out, machine, display)
        if plan:
            parts = planned(comparison)
            _say_plan(parts, plan_lines(parts))
            return
        for line in comparison.notes:
            display.said(line)
        facts = comparison.run()
    if for_people():
        print_table(facts)
        typer.echo(f"{out / 'comparison.html'}\n{out / 'comparison.md'}")
    else:
        from bertkit.report.standings import results

        for record in results(facts):
            emit(record)
    _require_all(facts["contestants"])


def _contestants(models: str | None, ablation: str | None, model: str) -> list[Contestant]:
    from bertkit.training.comparing import contestants

    if (models is None) == (ablation is None):
        raise UsageError("who takes part is not said, or twice", "Give --models NAME,NAME or --ablation bert.")
    if models is not None:
        return contestants.contestants_of(models)
    if ablation != "bert":
        raise UsageError(f"no ablation is called {ablation!r}", "There is: bert.")
    return contestants.ablation(model)


def _require_all(rows: list[dict[str, Any]]) -> None:
    """The others are compared all the same, but nobody shall take it for the whole."""
    again = "The same command tries again."
    if failed := [row for row in rows if "problem" in row]:
        why = f"{failed[0]['title']}: {failed[0]['problem'].rstrip('.')}"
        raise BertkitError(f"{len(failed)} of {len(rows)} failed; {why}", again)
    if failed := [row for row in rows if "failed_tasks" in row]:
        task, problem = next(iter(failed[0]["failed_tasks"].items()))
        why = f"{failed[0]['title']}, {task}: {problem.rstrip('.')}"
        raise BertkitError(f"{len(failed)} of {len(rows)} could not be fine-tuned for all tasks; {why}", again)


def _say_plan(parts: dict[str, Any], lines: list[str]) -> None:
    if for_people():
        for line in lines:
            typer.echo(line)
    else:
        emit(parts)
