"""`bertkit generate`: a left-to-right model writes on from a prompt."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import typer

from bertkit.cli.options import MACHINE, PRECISION, Opening, emit, for_people, given_texts, note, open_encoder
from bertkit.errors import InputError, UsageError
from bertkit.settings import argument, option

if TYPE_CHECKING:
    from bertkit.infer.generation import Piece

PROMPTS_AT_ONCE = 256


@dataclass(frozen=True, kw_only=True)
class Generating(Opening):
    prompts: tuple[str, ...] = argument((), "Beginnings to go on from. None: one a line from stdin.", metavar="PROMPT")
    file: str | None = option(None, "A file of prompts, one a line, or .jsonl.", flags="-f")
    field: str = option("text", "Of a .jsonl, .csv or .tsv: where the prompt is.")
    max_tokens: int = option(64, "How many tokens to write at most.", flags="-n", old="--max-new-tokens", least=1)
    temperature: float = option(
        0.0, "0: always the likeliest token. 1: drawn as the model has it; less is tamer.", least=0
    )
    top_k: int | None = option(None, "Draw only among the k likeliest tokens.", least=1)
    top_p: float | None = option(
        None, "Draw only among the likeliest tokens that together have this probability.", least=0, most=1
    )
    beams: int = option(1, "Search for the likeliest text, following so many at once.", least=1)
    length_penalty: float = option(1.0, "Of beams: more than 1 favours longer texts.")
    repetition_penalty: float = option(1.0, "More than 1 disfavours what is there already.", above=0)
    no_repeat: int = option(0, "No so many tokens in a row are written twice; 0: any may be.", least=0, most=1000)
    stop: tuple[str, ...] = option((), "A text that ends what is written, and is left out. Repeatable.")
    seed: int = option(0, "The same seed draws the same text.", least=0)
    samples: int = option(1, "How many texts for each prompt.", least=1)
    precision: str = option("float32", PRECISION, group=MACHINE)


def generate(asked: Generating) -> None:
    """Write on from a prompt, with a model that reads from left to right (GPT, GPT-2).

    On a terminal the text appears as it is written; else each is a line of JSON.

    \b
    bertkit generate MODEL "Once upon a time"
    bertkit generate MODEL "Once upon a time" --temperature 0.8 --top-p 0.9 --samples 3
    bertkit generate MODEL --file prompts.txt --beams 4 > texts.jsonl
    """
    from bertkit.corpus.reading.readers import STDIN, read_texts

    if asked.prompts and asked.file is not None:
        raise UsageError(f"both prompts and the file {asked.file} are given", "Give one of them.")
    given_texts([*asked.prompts, *asked.stop])

    from bertkit.infer.sampling import Sampling

    sampling = Sampling(
        max_new_tokens=asked.max_tokens,
        temperature=asked.temperature,
        top_k=asked.top_k,
        top_p=asked.top_p,
        beams=asked.beams,
        length_penalty=asked.length_penalty,
        repetition_penalty=asked.repetition_penalty,
        no_repeat=asked.no_repeat,
        stop=asked.stop,
        seed=asked.seed,
        samples=asked.samples,
    )
    source = iter(asked.prompts) if asked.prompts else read_texts(asked.file or STDIN, field=asked.field)
    some = list(islice(source, PROMPTS_AT_ONCE))  # a missing file is told before the model is loaded
    if not some:
        raise InputError(f"{asked.file or 'standard input'} has no prompts", "Give a beginning to go on from.")
    opened = open_encoder(asked, precision=asked.precision)

    from bertkit.infer import generation

    writer = generation.Generator(opened).writer  # with its weights laid out for writing
    tokens, start = 0, time.perf_counter()
    while some:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it is said as a note
            pieces = generation.generate(writer, some, sampling)
        if message := generation.short_of_room(writer, writer.read(some), sampling):
            note(message)
        show = _show if for_people() else _emit
        for piece in show(some, _in_order(pieces, len(some), asked.samples), asked.samples):
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
