"""`bertkit generate`: a left-to-right model writes on from a prompt."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from bertkit.cli.options import (
    Device,
    IgnoreKeys,
    Model,
    Precision,
    Threads,
    emit,
    for_people,
    given_texts,
    note,
    open_encoder,
)
from bertkit.errors import InputError, UsageError

if TYPE_CHECKING:
    from bertkit.inference.generation import Piece

PROMPTS_AT_ONCE = 256


def generate(
    model: Model,
    prompts: Annotated[
        list[str] | None,
        typer.Argument(metavar="PROMPT", help="Beginnings to go on from. None: one a line from stdin."),
    ] = None,
    file: Annotated[str | None, typer.Option("--file", "-f", help="A file of prompts, one a line, or .jsonl.")] = None,
    field: Annotated[str, typer.Option(help="Of a .jsonl, .csv or .tsv: where the prompt is.")] = "text",
    max_tokens: Annotated[
        int, typer.Option("--max-tokens", "--max-new-tokens", "-n", help="How many tokens to write at most.")
    ] = 64,
    temperature: Annotated[
        float, typer.Option(help="0: always the likeliest token. 1: drawn as the model has it; less is tamer.")
    ] = 0.0,
    top_k: Annotated[int | None, typer.Option(help="Draw only among the k likeliest tokens.")] = None,
    top_p: Annotated[
        float | None, typer.Option(help="Draw only among the likeliest tokens that together have this probability.")
    ] = None,
    beams: Annotated[int, typer.Option(help="Search for the likeliest text, following so many at once.")] = 1,
    length_penalty: Annotated[float, typer.Option(help="Of beams: more than 1 favours longer texts.")] = 1.0,
    repetition_penalty: Annotated[float, typer.Option(help="More than 1 disfavours what is there already.")] = 1.0,
    stop: Annotated[
        list[str] | None, typer.Option(help="A text that ends what is written, and is left out. Repeatable.")
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed draws the same text.")] = 0,
    samples: Annotated[int, typer.Option(help="How many texts for each prompt.")] = 1,
    device: Device = "auto",
    precision: Precision = "float32",
    threads: Threads = None,
    ignore_config_key: IgnoreKeys = None,
) -> None:
    """Write on from a prompt, with a model that reads from left to right (GPT, GPT-2).

    On a terminal the text appears as it is written; else each is a line of JSON.

    \b
    bertkit generate MODEL "Once upon a time"
    bertkit generate MODEL "Once upon a time" --temperature 0.8 --top-p 0.9 --samples 3
    bertkit generate MODEL --file prompts.txt --beams 4 > texts.jsonl
    """
    from bertkit.corpus.reading.readers import STDIN, read_texts

    if prompts and file is not None:
        raise UsageError(f"both prompts and the file {file} are given", "Give one of them.")
    given_texts([*(prompts or []), *(stop or [])])

    from bertkit.inference.sampling import Sampling

    sampling = Sampling(
        max_new_tokens=max_tokens,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        beams=beams,
        length_penalty=length_penalty,
        repetition_penalty=repetition_penalty,
        stop=tuple(stop or ()),
        seed=seed,
        samples=samples,
    )
    source = iter(prompts) if prompts else read_texts(file or STDIN, field=field)
    some = list(islice(source, PROMPTS_AT_ONCE))  # a missing file is told before the model is loaded
    if not some:
        raise InputError(f"{file or 'standard input'} has no prompts", "Give a beginning to go on from.")
    opened = open_encoder(model, device, precision, threads, ignore_config_key)

    from bertkit.inference import generation

    encoder = generation.Generator(opened).encoder  # with its weights laid out for writing
    tokens, start = 0, time.perf_counter()
    while some:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it is said as a note
            pieces = generation.generate(encoder, some, sampling)
        if message := generation.short_of_room(encoder, generation.prompt_ids(encoder, some), sampling):
            note(message)
        show = _show if for_people() else _emit
        for piece in show(some, _in_order(pieces, len(some), samples), samples):
            tokens += 0 if piece.whole is None else len(piece.whole.ids)
        some = list(islice(source, PROMPTS_AT_ONCE))
    seconds = time.perf_counter() - start
    note(f"{tokens:,} tokens in {seconds:.1f} s, {tokens / max(seconds, 1e-9):,.1f} tokens/s")


def _in_order(pieces: Iterable[Piece], prompts: int, samples: int) -> Iterator[Piece]:
    """The pieces of one text after another: those of the first as they come, meanwhile others are held back."""
    order = ((prompt, sample) for prompt in range(prompts) for sample in range(samples))
    held: dict[tuple[int, int], list[Piece]] = {}
    current = next(order)
    for piece in pieces:
        held.setdefault((piece.prompt, piece.sample), []).append(piece)
        while ready := held.pop(current, None):
            yield from ready
            if ready[-1].whole is None:
                break
            current = next(order, (prompts, 0))


def _show(prompts: list[str], pieces: Iterable[Piece], samples: int) -> Iterator[Piece]:
    begun = False
    for piece in pieces:
        if not begun:
            number = f"{piece.sample + 1}: " if samples > 1 else ""
            typer.secho(number + prompts[piece.prompt], bold=True, nl=False)
            begun = True
        sys.stdout.write(piece.text)
        if piece.whole is not None:
            sys.stdout.write("\n")
            begun = False
        sys.stdout.flush()
        yield piece


def _emit(prompts: list[str], pieces: Iterable[Piece], samples: int) -> Iterator[Piece]:
    for piece in pieces:
        if piece.whole is not None:
            sample = {"sample": piece.sample} if samples > 1 else {}
            whole = {"text": piece.whole.text, "ended": piece.whole.ended, "tokens": len(piece.whole.ids)}
            emit({"prompt": prompts[piece.prompt], **sample, **whole})
        yield piece
