"""A model in memory, with its queue and its threads, and what a client may know of it."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

from bertkit.infer.batching import token_budget
from bertkit.infer.generation import Generator
from bertkit.infer.predictor import Predictor, TaskPredictor, load
from bertkit.nn.few_rows import copied_bytes
from bertkit.serve.batcher import Batcher, Request
from bertkit.serve.metrics import Metrics
from bertkit.serve.operations import Operation, Piece
from bertkit.serve.refusals import unprocessable
from bertkit.serve.settings import Serving
from bertkit.tasks import is_task, task_called
from bertkit.words.asked import vectors_of

if TYPE_CHECKING:
    from bertkit.serve.models import Entry, Models


class Served:
    def __init__(self, name: str, predictor: Predictor, settings: Serving, metrics: Metrics, pace: float) -> None:
        """`pace`: seconds that a token takes."""
        import torch

        self.name, self.predictor, self.limits = name, predictor, settings.limits
        predictor.encoder.name = name  # clients shall not hear what its folder is called
        self.users = 0
        encoder = predictor.encoder
        cores = torch.get_num_threads() if encoder.device.type == "cpu" else 1
        model = _model_of(predictor)
        self.bytes = sum(each.numel() * each.element_size() for each in model.parameters()) + copied_bytes(model)
        self.batcher = Batcher(
            name,
            budget=settings.batch_tokens or cores * token_budget(encoder.config, encoder.device.type),
            patience=settings.wait_seconds,
            pace=pace,
            queue_tokens=settings.limits.queue_tokens,
            threads=cores,
            metrics=metrics,
        )
        self.vectors = vectors_of(encoder.model, encoder.tokenizer, name) if predictor.task == "embed" else None
        """If it is a table of words."""
        self.tokenizing = ThreadPoolExecutor(1, thread_name_prefix=f"tokenize {name}")

    async def answer(self, operation: Operation, values: Sequence[Any]) -> tuple[list[Any], int]:
        """An answer for each input, and how many tokens they had. They are tokenized in a thread, which hands them on
        to the one that computes, or by that one itself: the event loop has nothing to do with either."""
        request = self.batcher.begin(operation, len(values))
        try:
            work = partial(self._tokenize, request, values)
            if self.batcher.admitted == len(values):  # nobody else is here
                self.batcher.errand(work)
            else:
                self.tokenizing.submit(work)
            return await request.future, request.tokens
        finally:
            self.batcher.end(request)

    def _tokenize(self, request: Request, values: Sequence[Any]) -> None:
        try:
            try:
                pieces = [] if request.gone else request.operation.prepare(values)
                self._check_tokens(pieces)
            except BaseException:
                self.batcher.give_up()
                raise
            self.batcher.submit(request, pieces)
        except BaseException as problem:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self.batcher.loop.call_soon_threadsafe(_fail, request, problem)

    def _check_tokens(self, pieces: Sequence[Piece]) -> None:
        for number, piece in enumerate(pieces, 1):
            if piece.tokens > self.limits.tokens:
                raise unprocessable(
                    f"input {number} has {piece.tokens:,} tokens, and {self.limits.tokens:,} are the most."
                )
        if (total := sum(piece.tokens for piece in pieces)) > self.limits.queue_tokens:
            raise unprocessable(
                f"The inputs have {total:,} tokens together, and {self.limits.queue_tokens:,} are the most. Send fewer."
            )

    def close(self) -> None:
        self.tokenizing.shutdown()
        self.batcher.close()


def _fail(request: Request, problem: BaseException) -> None:
    if not request.future.done():
        request.future.set_exception(problem)


def _model_of(predictor: Predictor) -> Any:
    scorer = getattr(predictor, "scorer", None)
    return predictor.encoder.model if scorer is None else scorer.model


def open_model(folder: str, settings: Serving) -> Predictor:
    """A predictor whose `scorer` (for a task) and `encoder` have the methods that operations.py calls."""
    return load(
        folder,
        device=settings.device,
        precision=settings.precision,
        threads=settings.threads,
        runtime=settings.runtime,
    )


def parts_of(task: str, pairs: bool | None, *, fine_tuned: bool) -> list[dict[str, Any]] | None:
    """Of an input, where the model is for a task; a model that only goes on writing is for none. A second text is
    needed, or none, if the model has learned so."""
    if not is_task(task) or (task_called(task).writes and not fine_tuned):
        return None
    names = ("name", "needed", "several", "instead")
    parts = [{name: getattr(part, name) for name in names} for part in task_called(task).parts if not part.learned]
    known = [part for part in parts if pairs is not False or part["name"] != "pair"]
    return [part | {"needed": True} if part["name"] == "pair" and pairs else part for part in known]


def facts_of(entry: Entry, models: Models) -> dict[str, Any]:
    """What a client may know of a model: what it can be asked, and how it is."""
    served = entry.served
    facts: dict[str, Any] = {
        "id": entry.name,
        "object": "model",
        "owned_by": "bertkit",
        "created": 0,
        "task": entry.task,
        "state": entry.state,
        "default": entry.name == models.settings.default,
        "operations": ["embed", "attention"],
        "parts": parts_of(entry.task, entry.pairs, fine_tuned=entry.fine_tuned),
        "sample": entry.sample,
        **dict.fromkeys(("labels", "max_length", "mask", "layers", "heads")),
        "table": False,
        "queue": 0 if served is None else served.batcher.admitted,
        "reload_refused": bool(entry.refused),
    }
    if served is not None:
        predictor, encoder = served.predictor, served.predictor.encoder
        facts |= {
            "max_length": encoder.max_length,
            "layers": encoder.config.num_hidden_layers,
            "heads": encoder.config.num_attention_heads or None,
        }
        if facts["heads"] is None:
            facts["operations"] = ["embed"]
        if isinstance(predictor, TaskPredictor):
            explains = ["explain"] if predictor.scorer.task.head.is_classifier else []
            writes = ["generate"] if predictor.scorer.task.writes else []
            facts["operations"] = ["predict", *writes, *facts["operations"], *explains]
            facts["labels"] = list(predictor.scorer.task.head.labels) or None
            facts["max_length"] = predictor.scorer.task.max_length
        elif served.vectors is not None:
            facts["operations"], facts["table"] = ["words", *facts["operations"]], True
        elif isinstance(predictor, Generator):
            facts["operations"] = ["generate", *facts["operations"]]
        elif encoder.model.speaker is not None:
            facts["operations"] = ["fill-mask", *facts["operations"]]
            facts["mask"] = encoder.tokenizer.specials["mask"]
    return facts
