"""From a text to a folder of vectors. What is done on the way lies in VECTORS.run: the text as numbers, then what is
learned, every minute; the same command goes on, and with one thread ends with the same bytes."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from bertkit.device import usable_threads
from bertkit.errors import UsageError, WriteError
from bertkit.families.vectors import ONE_HOT
from bertkit.files import locked, read_json, remove_folder, write_sealed
from bertkit.hub.folder import require_place
from bertkit.words.progress import Learning, Said
from bertkit.words.schemas import TrainingWords
from bertkit.words.stream import Stream, plan_of, read_stream

Array = np.ndarray[Any, Any]
PLAN, LOCK = "plan.json", "bertkit.lock"


class Method(Protocol):
    def __call__(self, stream: Stream, asked: TrainingWords, learning: Learning, threads: int) -> dict[str, Array]:
        """Tables by name: `table` has a row for each word, `ngrams` one for each bucket."""


@dataclass
class Saying:
    """Who is told what on the way; here nobody."""

    reading: Callable[[int, int | None], None] = lambda _, __: None
    """Bytes read, of how many."""
    learning: Callable[[Said], None] = lambda _: None
    note: Callable[[str], None] = lambda _: None


def train_words(asked: TrainingWords, saying: Saying | None = None) -> dict[str, Any]:
    """Learn vectors, or go on with it; what there is to tell of them."""
    saying = saying or Saying()
    require_kernels(asked.method)
    require_place(asked.out, overwrite=asked.overwrite, read=[each for each in asked.inputs if each != "-"])
    threads = asked.threads or usable_threads()
    reading = asked.reading()
    plan = {**plan_of(asked.inputs, reading), "asked": json.loads(json.dumps(asked.facts())), "threads": threads}
    run = asked.out.with_name(f"{asked.out.name}.run")
    with _claimed(run, plan, overwrite=asked.overwrite):
        sizes = [source["size"] for source in plan["sources"]]
        total, done = (sum(sizes) if all(each is not None for each in sizes) else None), 0

        def read(count: int) -> None:
            nonlocal done
            done += count
            saying.reading(done, total)

        stream = read_stream(asked.inputs, reading, run, read)
        for note in _notes(stream, asked, threads):
            saying.note(note)
        learning = Learning(run, saying.learning)
        tables = method_called(asked.method)(stream, asked, learning, threads)
        facts = _facts(stream, asked, learning, threads)
        _save(asked, stream, tables, facts)
    remove_folder(run)
    return facts


def require_kernels(method: str) -> None:
    if method in ("skip-gram", "cbow", "glove") and importlib.util.find_spec("numba") is None:
        raise UsageError(
            f"{method} is compiled by numba, which is not installed",
            "pip install 'bertkit[words]'; nnlm and one-hot do without.",
        )


def method_called(name: str) -> Method:
    if name == "glove":
        from bertkit.words.glove import learn_glove

        return learn_glove
    if name == "nnlm":
        from bertkit.words.nnlm import learn_nnlm

        return learn_nnlm
    if name == ONE_HOT:
        return lambda stream, asked, learning, threads: {}  # noqa: ARG005
    from bertkit.words.windows import learn_windows

    return learn_windows


@contextmanager
def _claimed(run: Path, plan: dict[str, Any], *, overwrite: bool) -> Any:
    """The folder for what is done on the way; one of other work is refused, what cannot go on is removed."""
    before = read_json(run / PLAN, WriteError) if (run / PLAN).exists() else None
    if run.exists() and before is None and {path.name for path in run.iterdir()} - {LOCK}:
        raise WriteError(f"{run} holds other files, which are not touched", "Move it, or choose another `out`.")
    if before is not None:
        same = all(before.get(name) == value for name, value in plan.items())
        if not same and not overwrite:
            raise WriteError(
                f"{run} holds vectors begun with other text or settings",
                "Give the command they were begun with, choose another `out`, or begin anew with `overwrite=True`.",
            )
        if not same:
            remove_folder(run)
    run.mkdir(parents=True, exist_ok=True)
    with locked(run / LOCK, f"{run} is in use by another process"):
        write_sealed(run / PLAN, plan)
        try:
            yield
        except BaseException:
            if not any(path.name not in (PLAN, LOCK) and not path.name.startswith(".") for path in run.iterdir()):
                remove_folder(run)
            raise


def _notes(stream: Stream, asked: TrainingWords, threads: int) -> Any:
    facts = stream.facts
    known, places = facts["known"], facts["places"]
    yield (
        f"{facts['documents']:,} documents, {places:,} words and signs; {len(stream.words):,} different ones are kept,"
        f" which are {known / max(places, 1):.1%} of all"
    )
    if facts["unreadable"]:
        yield f"{facts['unreadable']:,} records could not be read and were passed over"
    if facts["forgotten"]:
        yield (
            f"there were more different words than fit in memory: of rare ones up to {facts['forgotten']} occurrences"
            " were not counted"
        )
    if asked.method != ONE_HOT and len(stream.words) < asked.dimension:
        yield f"{len(stream.words):,} words for {asked.dimension} dimensions: fewer would say as much"
    if threads > 1 and asked.method in ("skip-gram", "cbow", "glove"):
        yield (
            f"{threads} threads write without locks, so another run will not have the same numbers; `threads=1` repeats"
            " them to the bit"
        )


def _facts(stream: Stream, asked: TrainingWords, learning: Learning, threads: int) -> dict[str, Any]:
    seconds = round(learning.seconds, 2)
    return {
        **asked.facts(),
        "words": len(stream.words),
        "read": {name: stream.facts[name] for name in ("documents", "places", "known", "left_out", "unreadable")},
        "stream_sha256": stream.facts["sha256_of_stream"],
        "threads": threads,
        "seconds": seconds,
        "words_a_second": round(learning.words / max(learning.seconds, 1e-9)),
        "words_a_second_are": "before frequent ones are left out",
        **learning.facts,
    }


def _save(asked: TrainingWords, stream: Stream, tables: dict[str, Array], facts: dict[str, Any]) -> None:
    from bertkit.words.folder import save_words

    repeatable = {name: value for name, value in facts.items() if not name.startswith(("words_a_second", "seconds"))}
    save_words(
        asked.out,
        stream.words,
        tables.get("table"),
        method=asked.method,
        lowercase=not asked.cased,
        counts=stream.counts,
        ngrams=tables.get("ngrams"),
        ngram_sizes=(asked.shortest_ngram, asked.longest_ngram),
        provenance={**repeatable, "inputs": list(asked.inputs)},
        overwrite=asked.overwrite,
    )
