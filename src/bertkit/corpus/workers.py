"""Blocks to digests on all cores, in order, with a bounded number of blocks under way."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Generator, Iterable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import connection
from pathlib import Path
from typing import TypeVar

from bertkit.corpus.digest import Digester, DigestSettings
from bertkit.corpus.parts import Digest
from bertkit.corpus.reading.readers import Block
from bertkit.corpus.reading.sources import Source
from bertkit.errors import CorpusError
from bertkit.text.tokenizer import Tokenizer

Mark = TypeVar("Mark")

UNDER_WAY = 3
"""Blocks for each worker that are read ahead."""


def digest_blocks(
    blocks: Iterable[tuple[Block, Mark]],
    tokenizer: Path,
    sources: Sequence[Source],
    settings: DigestSettings,
    workers: int,
) -> Generator[tuple[Digest, Mark]]:
    """Each block's digest, in the order of the blocks, with the mark that came with the block."""
    if workers == 1:
        digester = Digester(sources, Tokenizer.open(tokenizer), settings)
        yield from ((digester.digest(block), mark) for block, mark in blocks)
        return
    pool = ProcessPoolExecutor(
        workers,
        mp_context=multiprocessing.get_context("spawn"),  # a fork would carry over the threads' locks of whoever calls
        initializer=_begin,
        initargs=(tokenizer, list(sources), settings),
    )
    under_way: deque[tuple[Future[Digest], Mark]] = deque()
    try:
        with _one_thread_each():
            for block, mark in blocks:
                under_way.append((pool.submit(_digest, block), mark))
                if len(under_way) > UNDER_WAY * workers:
                    yield _result(*under_way.popleft())
            while under_way:
                yield _result(*under_way.popleft())
    finally:
        _end(pool)


def _end(pool: ProcessPoolExecutor) -> None:
    processes = list((pool._processes or {}).values())
    try:
        pool.shutdown(wait=True, cancel_futures=True)
    except RuntimeError:  # interrupted before the pool had started the thread that tells its processes to end
        for process in processes:
            process.terminate()


def _result(future: Future[Digest], mark: Mark) -> tuple[Digest, Mark]:
    try:
        return future.result(), mark
    except BrokenProcessPool:
        raise CorpusError(
            "a worker process died, most often because memory ran out; all finished parts are kept",
            "Give the same command again, with fewer `workers`.",
        ) from None


class _one_thread_each:  # noqa: N801 - used as a verb
    """While workers start, the environment tells their libraries not to start threads: the cores are taken."""

    NAMES = ("RAYON_NUM_THREADS", "TOKENIZERS_PARALLELISM", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")

    def __enter__(self) -> None:
        self.before = {name: os.environ.get(name) for name in self.NAMES}
        os.environ.update(dict.fromkeys(self.NAMES, "1") | {"TOKENIZERS_PARALLELISM": "false"})

    def __exit__(self, *_: object) -> None:
        for name, value in self.before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


class _Worker:
    """What a worker process keeps from block to block."""

    digester: Digester


def _begin(tokenizer: Path, sources: Sequence[Source], settings: DigestSettings) -> None:
    """In a new worker. Ctrl-C reaches everybody in a terminal; only the parent answers it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_die_with_parent, daemon=True).start()
    _Worker.digester = Digester(sources, Tokenizer.open(tokenizer), settings)


def _die_with_parent() -> None:
    """A parent that was killed cannot tell its workers; they would wait for the next block for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)


def _digest(block: Block) -> Digest:
    return _Worker.digester.digest(block)
