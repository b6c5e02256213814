"""`bertkit finetune`: a labelled file and a pretrained model to a model for a task."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from bertkit.cli.options import Device, Encoding, Overwrite, Precision, Threads, emit, for_people
from bertkit.cli.task_options import Columns, Delimiter, TaskFormat, names_given
from bertkit.errors import UsageError
from bertkit.tasks import HOMES


def finetune(
    task: Annotated[str, typer.Argument(metavar="TASK", help=f"{', '.join(HOMES)}.")],
    train: Annotated[
        str, typer.Argument(metavar="TRAIN", help="The labelled examples: CSV, TSV, JSON lines, Parquet.")
    ],
    start: Annotated[str, typer.Option("--from", help="The pretrained model: a folder, or a name on the hub.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The model folder to write.")],
    dev: Annotated[str | None, typer.Option(help="Examples to measure on. [a tenth of TRAIN]")] = None,
    text: Annotated[str | None, typer.Option("--text-column", "--text", help="The column with the text.")] = None,
    pair: Annotated[
        str | None, typer.Option("--pair-column", "--pair", help="The column with the second text, if there is one.")
    ] = None,
    label: Annotated[str | None, typer.Option("--label-column", "--label", help="The column with the label.")] = None,
    score: Annotated[
        str | None,
        typer.Option(
            "--score-column", "--score", help="regress, embed: the column with the number; for embed also none."
        ),
    ] = None,
    negative: Annotated[
        str | None,
        typer.Option(
            "--negative-column", "--negative", help="embed: the column with a text that does not belong to the first."
        ),
    ] = None,
    question: Annotated[
        str | None,
        typer.Option(
            "--question-column",
            "--question",
            help="qa: the column with the question; --text-column is the passage, --label-column the answers.",
        ),
    ] = None,
    endings: Annotated[str | None, typer.Option(help="choice: the columns with the endings, as a,b,c.")] = None,
    first_ending: Annotated[
        int | None,
        typer.Option(min=0, max=1, help="choice: the number of the first ending, 0 or 1. [as the examples show]"),
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(min=1, help="Passes over the examples. [3; of few examples up to 20]")
    ] = None,
    batch: Annotated[int, typer.Option(min=1, help="Examples of a step.")] = 32,
    learning_rate: Annotated[
        float | None,
        typer.Option(help="The highest. [5e-5 for a width of 768, more for narrower models; frozen and LoRA: 1e-3]"),
    ] = None,
    language_weight: Annotated[
        float | None,
        typer.Option(min=0, help="GPT: how much guessing next words counts beside the task. [0.5; frozen and LoRA: 0]"),
    ] = None,
    patience: Annotated[
        int | None, typer.Option(min=1, help="Stop after so many epochs without a better score.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Fit so many times and keep the best; scores vary by seed.")] = 1,
    seed: Annotated[int, typer.Option(min=0, help="The first of them.")] = 0,
    max_length: Annotated[
        int | None, typer.Option(help="Tokens the model reads at once. [512, for qa 384, or all it can]")
    ] = None,
    long: Annotated[
        str | None,
        typer.Option(help="classify, regress: texts longer than that: head-tail, windows, head or error. [head-tail]"),
    ] = None,
    multi_label: Annotated[
        bool, typer.Option("--multi-label", help="classify: a text may have several labels, a|b or a list.")
    ] = False,
    both_orders: Annotated[
        bool, typer.Option("--both-orders", help="classify, regress: read each pair in both orders, as GPT does.")
    ] = False,
    class_weights: Annotated[bool, typer.Option("--class-weights", help="classify: rare labels count more.")] = False,
    crf: Annotated[bool, typer.Option("--crf", help="tag: judge neighbouring tags together.")] = False,
    freeze: Annotated[bool, typer.Option("--freeze", help="Only the head learns; BERT gives features.")] = False,
    last_layers: Annotated[int | None, typer.Option(min=0, help="Only the last N layers learn.")] = None,
    layer_decay: Annotated[
        float | None,
        typer.Option(help="Each layer's rate is that of the one above it times this. [1; ELECTRA 0.8, large 0.9]"),
    ] = None,
    gradual: Annotated[bool, typer.Option("--gradual", help="The head first, then a layer more each epoch.")] = False,
    mix: Annotated[bool, typer.Option("--mix-layers", help="Read a learned mix of all layers.")] = False,
    lstm: Annotated[int, typer.Option(min=0, help="A BiLSTM of so many units under the head.")] = 0,
    lora: Annotated[int, typer.Option(min=0, help="Learn matrices of this rank beside those of BERT.")] = 0,
    from_scratch: Annotated[
        bool, typer.Option("--from-scratch", help="Random weights, to see what pretraining is worth.")
    ] = False,
    delimiter: Delimiter = None,
    columns: Columns = None,
    file_format: TaskFormat = None,
    encoding: Encoding = "utf-8",
    device: Device = "auto",
    precision: Precision = "float32",
    threads: Threads = None,
    overwrite: Overwrite = False,
) -> None:
    """Fine-tune a BERT for a task.

    \b
    bertkit finetune classify reviews.csv --from MODEL --out CLASSIFIER
    bertkit finetune classify train.tsv --dev dev.tsv --from MODEL --out CLASSIFIER --seeds 5
    bertkit finetune regress pairs.tsv --text sentence1 --pair sentence2 --score similarity --from MODEL --out SCORER
    bertkit finetune choice questions.jsonl --from MODEL --out CHOOSER
    bertkit finetune embed pairs.tsv --from MODEL --out SENTENCE_VECTORS

    Columns that are not named are guessed, and that is said.
    """
    options: dict[str, Any] = {}
    for name, value, *owners in (
        ("long", long, "classify", "regress"),
        ("both_orders", both_orders, "classify", "regress"),
        ("multi_label", multi_label, "classify"),
        ("class_weights", class_weights, "classify"),
        ("crf", crf, "tag"),
        ("first_ending", first_ending, "choice"),
    ):
        if value is None or value is False:
            continue
        if task not in owners:
            raise UsageError(f"--{name.replace('_', '-')} with the task {task}", f"It is for {' and '.join(owners)}.")
        options[str(name)] = value
    for name, value in (("freeze", freeze), ("mix-layers", mix), ("lstm", lstm > 0)):
        if value and task == "embed":
            raise UsageError(
                f"--{name} with the task embed", "It has no head: vectors are the mean over the last layer."
            )

    from bertkit import device as devices
    from bertkit.cli.fit_display import FitDisplay
    from bertkit.tasks import task_called
    from bertkit.tasks.task import Reading
    from bertkit.training.examples import FinetuneRequest
    from bertkit.training.finetune import finetune as run
    from bertkit.training.transfer import Transfer

    task_called(task)
    transfer = Transfer(frozen=freeze, last_layers=last_layers, layer_decay=layer_decay, gradual=gradual, lora=lora)
    chosen = {
        "epochs": epochs,
        "learning_rate": learning_rate,
        "language_weight": language_weight,
        "patience": patience,
    }
    change = {name: value for name, value in chosen.items() if value is not None}
    request = FinetuneRequest(
        task=task,
        train=train,
        dev=dev,
        start=start,
        from_scratch=from_scratch,
        reading=Reading(
            file_format=file_format,
            delimiter=delimiter,
            columns=tuple(columns.split(",")) if columns else None,
            encoding=encoding,
            names=names_given(
                text=text, pair=pair, label=label, score=score, negative=negative, question=question, endings=endings
            ),
        ),
        options=options,
        head={"mix": mix, "lstm": lstm},
        change={**change, "batch": batch, "transfer": transfer},
        seeds=seeds,
        seed=seed,
    )
    with FitDisplay() as display:
        result = run(
            request,
            out,
            devices.choose(device, precision, threads),
            watcher=display,
            max_length=max_length,
            overwrite=overwrite,
        )
    mean, deviation = result.spread()
    facts = result.facts
    main = facts.main_metric
    if not for_people():
        emit(
            {
                "model": str(out),
                "report": str(out / "report.html"),
                "metrics": result.metrics,
                "interval": {main: list(facts.interval)},
                "baselines": {title: its[main] for title, its in facts.baselines.items()},
                main: {"seeds": result.of_seeds, "mean": mean, "deviation": deviation},
                "advice": list(facts.advice),
            }
        )
        return
    for metric, reached in result.metrics.items():
        sure = f"  (95 % sure: {facts.interval[0]:.4f} to {facts.interval[1]:.4f})" if metric == main else ""
        typer.echo(f"{metric:>12}  {reached:.4f}{sure}")
    for title, its in facts.baselines.items():
        typer.echo(f"{title:>24}: {main} {its[main]:.4f}")
    if seeds > 1:
        by = "" if result.chosen_by == main else f" by {result.chosen_by}"
        typer.echo(f"{main} over {len(result.of_seeds)} seeds: {mean:.4f} ± {deviation:.4f}; the best{by} is kept")
    for line in (*facts.advice, facts.caution):
        if line:
            typer.echo(line)
    typer.echo(f"{out / 'report.html'}\n{out}  (bertkit predict {out} FILE)")
