"""`bertkit pretrain`: a prepared corpus to a pretrained BERT."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from bertkit.cli.options import Device, Overwrite, Threads, emit, for_people
from bertkit.errors import InterruptionError, UsageError, nearest, shortened

MASKS = ("dynamic", "static")


def pretrain(
    context: typer.Context,
    shards: Annotated[
        Path | None, typer.Argument(metavar="SHARDS", help="A corpus that `bertkit prepare` made.", show_default=False)
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="RUN", help="The run's folder, new or empty.")
    ] = None,
    resume: Annotated[
        Path | None, typer.Option("--resume", metavar="RUN", help="Go on with a run that was stopped, exactly.")
    ] = None,
    hours: Annotated[float | None, typer.Option(help="How long to train; the rest is planned by it.")] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="How many steps to train, instead.")] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="bert-tiny, -mini, -small, -medium, -base or -large, or of another family, such as gpt2-mini. "
            "[what the hours allow, or bert-mini]"
        ),
    ] = None,
    start_from: Annotated[
        str | None, typer.Option("--from", metavar="MODEL", help="Go on from this model, in your own domain.")
    ] = None,
    extend_vocabulary: Annotated[
        bool, typer.Option("--extend-vocabulary", help="Fit the model of --from to the corpus's own vocabulary.")
    ] = False,
    groups: Annotated[
        int | None, typer.Option(help="ALBERT: so many groups of layers, each with weights of its own. [1]")
    ] = None,
    recipe: Annotated[str, typer.Option(help="fast: the most from a budget of time; bert: as in the paper.")] = "fast",
    batch: Annotated[int | None, typer.Option(min=1, help="Sequences of a step, over all processes.")] = None,
    length: Annotated[int | None, typer.Option(min=8, help="Tokens of a sequence. [128]")] = None,
    long_length: Annotated[
        int | None, typer.Option(min=0, help="Of the last 10 % of the steps; 0: as before. [bert 512, fast 0]")
    ] = None,
    learning_rate: Annotated[float | None, typer.Option(help="The highest. [the recipe's]")] = None,
    optimizer: Annotated[str | None, typer.Option(help="adamw, lamb (large batches) or muon. [the recipe's]")] = None,
    dropout: Annotated[float | None, typer.Option(min=0, max=0.9, help="In all layers. [the recipe's]")] = None,
    mask: Annotated[
        str | None, typer.Option(help="Hide token, word (whole words), span or ngram. [the recipe's; ALBERT ngram]")
    ] = None,
    mask_rate: Annotated[float | None, typer.Option(help="How much is hidden. [0.15]")] = None,
    mask_shares: Annotated[
        str | None, typer.Option(help="Of 100 hidden tokens: masked/random/as they are. [80/10/10]")
    ] = None,
    masks: Annotated[
        str | None, typer.Option(help="dynamic: drawn anew in each epoch; static: drawn once. [dynamic]")
    ] = None,
    mask_copies: Annotated[
        int | None,
        typer.Option(min=1, help="Static masks: so many for each sample, by turns; the first BERT had 10. [1]"),
    ] = None,
    no_nsp: Annotated[bool, typer.Option("--no-nsp", help="Without next-sentence prediction.")] = False,
    generator_size: Annotated[
        float | None,
        typer.Option(help="ELECTRA: its generator's width, as a share of the discriminator's. [0.25; base 1/3]"),
    ] = None,
    left_to_right: Annotated[
        bool, typer.Option("--left-to-right", help="Each token sees only those before it; with --no-nsp.")
    ] = False,
    across_documents: Annotated[
        bool,
        typer.Option("--across-documents", help="Fill sequences on into the next document; without pairs. [GPT: so]"),
    ] = False,
    pre_norm: Annotated[
        bool | None, typer.Option("--pre-norm/--post-norm", help="Where layers normalise. [the recipe's]")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Decides weights, order, masks and dropout.")] = 0,
    micro_batch: Annotated[
        int | None, typer.Option(min=1, help="Sequences at once; gradients of several are added up to a batch.")
    ] = None,
    validate_every: Annotated[int | None, typer.Option(min=1, help="Steps. [a twentieth of the run]")] = None,
    save_every: Annotated[
        int | None, typer.Option(min=1, help="Steps from checkpoint to checkpoint. [each validation, and 5 minutes]")
    ] = None,
    keep: Annotated[int, typer.Option(min=2, help="How many checkpoints stay, besides the best.")] = 2,
    log_every: Annotated[int | None, typer.Option(min=1, help="Steps from line to line of the log.")] = None,
    validation_samples: Annotated[int, typer.Option(min=1, help="Held-out samples for each validation.")] = 256,
    parallel: Annotated[str, typer.Option(help="Under torchrun: ddp, or fsdp for models that do not fit.")] = "ddp",
    gradient_checkpointing: Annotated[
        bool, typer.Option("--gradient-checkpointing", help="Less memory for a third more time.")
    ] = False,
    compiled: Annotated[
        bool, typer.Option("--compile", help="torch.compile the blocks: for GPUs; on CPUs it does not pay.")
    ] = False,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Scalars for TensorBoard in RUN/tensorboard.")
    ] = False,
    precision: Annotated[str, typer.Option(help="float32, bfloat16, or auto: what is fastest here.")] = "auto",
    device: Device = "auto",
    threads: Threads = None,
    overwrite: Overwrite = False,
) -> None:
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
    if resume is not None:
        _refuse_others(context)
    if resume is None and shards is None:
        raise UsageError("no corpus is named", "Give the folder that bertkit prepare made, or --resume RUN.")
    run = resume or out
    if run is None:
        raise UsageError("no folder for the run is named", "Add --out RUN.")
    changes = {
        "batch": batch,
        "length": length,
        "long_length": long_length,
        "dropout": dropout,
        "pre_norm": pre_norm,
        "optimizer.kind": optimizer,
        "optimizer.learning_rate": learning_rate,
        "masking.unit": mask,
        "masking.rate": mask_rate,
        "masking.copies": _copies(masks, mask_copies),
        "nsp": False if no_nsp else None,
        "generator_size": generator_size,
        "left_to_right": True if left_to_right else None,
        "across_documents": True if across_documents else None,
    }
    if mask_shares is not None:
        from bertkit.objectives.masking import shares_of

        changes |= {f"masking.{name}": share for name, share in shares_of(mask_shares).items()}
    from bertkit import device as devices
    from bertkit.cli.training_display import TrainingDisplay

    if resume is not None:
        device, threads = _as_before(resume, device, threads)
    machine = devices.choose(device, precision, threads or _threads_under_torchrun())
    devices.apply(machine)
    from bertkit.training.pretrain import pretrain
    from bertkit.training.pretrain import resume as go_on
    from bertkit.training.request import Request

    with TrainingDisplay() as display, _interruption(run):
        if resume is not None or shards is None:
            facts = go_on(run, machine, display, shards=shards)
        else:
            request = Request(
                shards=shards,
                model=model,
                start_from=start_from,
                extend_vocabulary=extend_vocabulary,
                groups=groups,
                recipe=recipe,
                change={name: value for name, value in changes.items() if value is not None},
                steps=steps,
                hours=hours,
                seed=seed,
                micro_batch=micro_batch,
                log_every=log_every,
                validate_every=validate_every,
                save_every=save_every,
                keep=keep,
                validation_samples=validation_samples,
                parallel=parallel,
                compiled=compiled,
                gradient_checkpointing=gradient_checkpointing,
                tensorboard=tensorboard,
            )
            facts = pretrain(request, run, machine, display, overwrite=overwrite, command=tuple(sys.argv))
    if int(os.environ.get("RANK", "0")) == 0:
        _result(run, facts)


def _copies(masks: str | None, copies: int | None) -> int | None:
    """How often samples are masked; 0 for anew in each epoch."""
    if masks is not None and masks not in MASKS:
        raise UsageError(
            f"masks that are {shortened(masks)}", f"{nearest(masks, MASKS)} There are: {', '.join(MASKS)}."
        )
    if masks != "static" and copies is not None:
        raise UsageError(f"--mask-copies {copies} of masks drawn anew in each epoch", "Add --masks static.")
    return None if masks is None else (copies or 1) * (masks == "static")


def _refuse_others(context: typer.Context) -> None:
    """A run goes on as it was begun; what else is said would be ignored."""
    for name in context.params:
        said = getattr(context.get_parameter_source(name), "name", "") == "COMMANDLINE"
        if said and name not in ("resume", "shards", "device", "threads"):
            option = f"--{name.replace('_', '-')}"
            raise UsageError(
                f"--resume goes on with a run as it was begun, and {option} is given",
                "Leave it out; or begin a new run with --from RUN/model.",
            )


def _as_before(run: Path, device: str, threads: int | None) -> tuple[str, int | None]:
    """A run goes on with the device and threads it had, for the same bits; on another machine with what is there."""
    from bertkit import device as devices
    from bertkit.files import read_json

    if not (run / "run.json").exists() or int(os.environ.get("WORLD_SIZE", "1")) > 1:
        return device, threads
    before = read_json(run / "run.json").get("machine", {})
    here = devices.choose(device)
    if before.get("cpu") != here.cpu or before.get("processes") != 1:
        return device, threads
    same = before.get("device") if device == "auto" and before.get("device") == "cpu" else device
    return str(same), threads or before.get("threads")


@contextmanager
def _interruption(run: Path) -> Iterator[None]:
    """Before the first step, or the second time, Ctrl-C stops at once."""
    try:
        yield
    except InterruptionError as stopped:
        if int(os.environ.get("RANK", "0")) > 0:  # the first process says it for all
            raise typer.Exit(stopped.exit_code) from None
        raise
    except KeyboardInterrupt:
        begun = (run / "run.json").exists()
        raise InterruptionError(
            "stopped at once" + ("; the newest checkpoint stands" if begun else " before the first step"),
            f"Go on with: bertkit pretrain --resume {run}" if begun else "",
        ) from None


def _result(run: Path, facts: dict[str, Any]) -> None:
    from bertkit.interop.folder import ModelFolder
    from bertkit.objectives.terms import answered_right, word_loss
    from bertkit.training.validation import perplexity

    result = {"model": str(run / "model"), "report": str(run / "report.html"), **facts}
    result["perplexity"] = perplexity(word_loss(facts))
    if not for_people():
        emit(result)
        return
    folder = run / ("generator" if "rtd_accuracy" in facts else "model")
    opened = ModelFolder(folder)
    if opened.task == "generate":
        attempt = f'generate {folder} "Once upon a time"'
    else:
        attempt = f'fill-mask {folder} "A text with a {opened.tokenizer().specials["mask"]} in it."'
    typer.echo(
        f"held-out text: perplexity {result['perplexity']:.1f}, {answered_right(facts)}\n"
        f"model   {run / 'model'}\nreport  {run / 'report.html'}\n"
        f"try     bertkit {attempt}"
    )


def _threads_under_torchrun() -> int | None:
    """torchrun sets OMP_NUM_THREADS to 1 for each of several processes; the cores are rather shared among them."""
    from bertkit.device import physical_cores

    local = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    if local == 1 or "BERTKIT_THREADS" in os.environ:
        return None
    return max(1, physical_cores() // local)
