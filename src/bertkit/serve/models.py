"""The models of a server: loaded when they are wanted or at the start, anew when their folder changes, and unloaded
when memory is short, the one that was asked longest ago first.

A load runs in a thread, one at a time; who asks for a model meanwhile waits for the same load. A folder that has become
bad leaves what was loaded from it in service.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from bertkit.errors import BertkitError, nearest, shortened
from bertkit.hub.fetch import find_folder
from bertkit.hub.folder import ModelFolder
from bertkit.infer.predictor import Predictor, TaskPredictor
from bertkit.infer.runtime import check_runtime, graph_bytes
from bertkit.serve.batcher import Batcher
from bertkit.serve.card import sample_of
from bertkit.serve.metrics import Metrics
from bertkit.serve.refusals import RefusalError, not_ready
from bertkit.serve.served import Served, open_model
from bertkit.serve.settings import Serving

log = logging.getLogger("bertkit.serve")

Signature = tuple[tuple[str, int, int, int], ...]

OF_A_MODEL = re.compile("/v1/models/([^/]+)/[^/]+")
OF_THE_DEFAULT = frozenset({"/embed", "/predict"})
"""Routes that ask a model something."""


class Entry:
    """A model that the server knows, loaded or not."""

    def __init__(self, name: str, folder: str) -> None:
        self.name, self.folder = name, folder
        opened = ModelFolder(find_folder(folder))
        self.task, self.path, self.fine_tuned = opened.task, opened.path, opened.is_for_a_task
        self.pairs: bool | None = opened.manifest.get("task_facts", {}).get("pairs")
        """Whether it reads two texts; None where nobody knows."""
        self.sample = sample_of(opened.path)
        self.served: Served | None = None
        self.awaited = 0
        """Requests that wait for it to be loaded."""
        self.used = 0.0
        self.loading: asyncio.Task[Served] | None = None
        self.loaded: Signature = ()
        """Of the files that are served."""
        self.seen: Signature = ()
        """Of the files at the last look."""
        self.refused: Signature = ()
        """Of files that could not be loaded."""

    @property
    def state(self) -> str:
        if self.served is not None:
            return "ready"
        return "loading" if self.loading is not None else "not loaded"


class Models:
    def __init__(self, settings: Serving, metrics: Metrics) -> None:
        """Folders are opened, so that what is wrong with one is known before anything is served."""
        check_runtime(settings.runtime, settings.device, settings.precision)
        self.settings, self.metrics = settings, metrics
        self.entries = {name: Entry(name, folder) for name, folder in settings.folders.items()}
        for entry in self.entries.values():
            self._need_of(entry)
        self._one_load = asyncio.Lock()
        self._loader = ThreadPoolExecutor(1, thread_name_prefix="load")
        self._closing: set[asyncio.Future[None]] = set()

    def entry(self, name: str) -> Entry:
        if name not in self.entries:
            hint = nearest(name, self.entries)
            raise RefusalError(
                404, "unknown_model", f"No model is called {shortened(name)}. {hint or 'GET /v1/models lists them.'}"
            )
        return self.entries[name]

    def queue_of(self, path: str) -> Batcher | None:
        """Of the model that a request to this path is for, if it is loaded: known from the path alone, before anything
        is read, parsed or checked."""
        named = OF_A_MODEL.fullmatch(path)
        name = named[1] if named else self.settings.default if path in OF_THE_DEFAULT else None
        entry = self.entries.get(name or "")
        return None if entry is None or entry.served is None else entry.served.batcher

    @contextlib.asynccontextmanager
    async def using(self, name: str) -> AsyncIterator[Served]:
        """The model, loaded if it was not; it stays in memory for as long."""
        entry = self.entry(name)
        entry.used = time.monotonic()
        entry.awaited += 1  # what is loaded for somebody is not unloaded before they have had it
        try:
            while (served := entry.served) is None:
                await self._loaded(entry)
        finally:
            entry.awaited -= 1
        served.users += 1
        try:
            yield served
        finally:
            served.users -= 1
            if served is not entry.served and not served.users:
                self._end(served)

    async def load_all(self) -> None:
        """As many as there is memory for, in their order; the others when they are asked for."""
        for entry in self.entries.values():
            used = sum(each.served.bytes for each in self.entries.values() if each.served is not None)
            if (
                self.settings.memory_bytes is None
                or used + await self._in_loader(self._need_of, entry) <= self.settings.memory_bytes
            ):
                await self._load(entry)

    async def watch(self) -> None:
        """Look at the folders for ever, and load those that have changed and stay as they are for one look."""
        while self.settings.reload:
            await asyncio.sleep(self.settings.reload)
            for entry in self.entries.values():
                if entry.served is None:
                    continue
                now = await self._in_loader(_signature, entry.path)
                settled, entry.seen = now == entry.seen, now
                if now and settled and now not in (entry.loaded, entry.refused):
                    await self._reload(entry, now)

    async def close(self) -> None:
        for entry in self.entries.values():
            if entry.served is not None:
                self._end(entry.served)
                entry.served = None
        await asyncio.gather(*self._closing)
        self._loader.shutdown()

    async def _loaded(self, entry: Entry) -> Served:
        """Whoever comes while it loads gets the same; that one of them goes away does not stop it."""
        if entry.loading is None:
            entry.loading = asyncio.create_task(self._load(entry))
        try:
            return await asyncio.shield(entry.loading)
        except BertkitError as problem:
            log.error("%s: %s", entry.name, problem)
            raise not_ready(f"{entry.name} could not be loaded; the log of the server says why.", 10) from None

    async def _load(self, entry: Entry) -> Served:
        try:
            async with self._one_load:
                if entry.served is not None:
                    return entry.served
                self._make_room(entry, await self._in_loader(self._need_of, entry))
                entry.loaded = entry.seen = await self._in_loader(_signature, entry.path)
                return self._put(entry, *await self._in_loader(_open_and_try, entry.folder, self.settings))
        except BertkitError:
            self.metrics.load(entry.name, "failed")
            raise
        finally:
            entry.loading = None

    async def _reload(self, entry: Entry, signature: Signature) -> None:
        try:
            async with self._one_load:
                if entry.served is None:  # unloaded meanwhile: the next request for it loads what is there then
                    return
                self._make_room(entry, await self._in_loader(self._need_of, entry))
                opened = await self._in_loader(_open_and_try, entry.folder, self.settings)
                old, entry.loaded = entry.served, signature
                self._put(entry, *opened)
        except Exception as problem:
            # Files that are half written look like this too; the next change is tried again.
            entry.refused = signature
            self.metrics.load(entry.name, "refused")
            log.error(
                "%s: its folder has changed and cannot be loaded, so the old model goes on: %s", entry.name, problem
            )
            return
        if old is not None and not old.users:
            self._end(old)
        log.info("%s: loaded anew, its folder has changed", entry.name)

    def _put(self, entry: Entry, predictor: Predictor, pace: float) -> Served:
        entry.served = served = Served(entry.name, predictor, self.settings, self.metrics, pace)
        served.bytes += graph_bytes(self.settings.runtime, entry.path)
        entry.task, entry.refused = predictor.task, ()
        if isinstance(predictor, TaskPredictor):
            entry.pairs = getattr(predictor.scorer.task, "pairs", None)
        self.metrics.loaded(entry.name, served.bytes)
        self.metrics.load(entry.name, "loaded")
        return served

    def _need_of(self, entry: Entry) -> int:
        """In bytes, about, before it is loaded; an error if that is more than all models may have."""
        settings = self.settings
        folder = ModelFolder(entry.path)
        # For single requests torch on a CPU has a copy of all weights but those of words.
        copied = settings.runtime == "torch" and settings.device in ("auto", "cpu")
        words = folder.config.vocab_size * folder.config.embedding_width
        weights = 4 * (2 * folder.parameters - words if copied else folder.parameters)
        need = weights + graph_bytes(settings.runtime, entry.path)
        if settings.memory_bytes is not None and need > settings.memory_bytes:
            raise BertkitError(
                f"{entry.name} needs {need:,} bytes, and --memory allows {settings.memory_bytes:,} for all models",
                "Allow more, or leave it out.",
            )
        return need

    def _make_room(self, wanted: Entry, need: int) -> None:
        """Beside what is loaded of it already, which goes when the new one has come."""
        if self.settings.memory_bytes is None:
            return
        others = [each for each in self.entries.values() if each.served and each is not wanted]
        there = sorted(others, key=lambda each: each.used)
        used = sum(each.served.bytes for each in there if each.served)
        for each in there:
            if used + need <= self.settings.memory_bytes:
                return
            if each.served is not None and not each.served.users and not each.awaited:
                used -= each.served.bytes
                self._end(each.served)
                each.served = None
                self.metrics.loaded(each.name, 0)
                log.info("%s: unloaded, to make room for %s", each.name, wanted.name)
        if used + need > self.settings.memory_bytes:
            raise not_ready(f"{wanted.name} is not loaded, and the models that are loaded are all at work.")

    def _end(self, served: Served) -> None:
        closing = asyncio.ensure_future(asyncio.to_thread(served.close))
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    async def _in_loader(self, function: Any, *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._loader, function, *arguments)


def _open_and_try(folder: str, settings: Serving) -> tuple[Predictor, float]:
    """With the seconds that a token takes. Computing finds what loading does not, and makes the first answer as quick
    as the others."""
    predictor = open_model(folder, settings)
    encoder, texts, seconds = predictor.encoder, ["1 2 3 4 5 6 7 8"] * 8, 0.0
    for _ in range(2):  # the first time more is done than ever after
        began = time.perf_counter()
        encoder.embed(texts, pooling="mean", normalize=False, allow_empty=True)
        seconds = time.perf_counter() - began
    return predictor, seconds / sum(map(len, encoder.tokenizer.encode_ids(texts)))


def _signature(folder: Path) -> Signature:
    """Changes with any file; nothing if the folder is not there, as for a moment while it is exchanged."""
    try:
        found = [(str(each), each.stat()) for each in folder.rglob("*") if each.is_file()]
        return tuple(sorted((name, facts.st_ino, facts.st_size, facts.st_mtime_ns) for name, facts in found))
    except OSError:
        return ()
