"""A model in memory, with its queue and its threads, and what a client may know of it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from bertkit.infer.batching import token_budget
from bertkit.infer.generation import Generator
from bertkit.infer.predictor import Predictor, TaskPredictor, load
from bertkit.nn.few_rows import copied_bytes, lay_out_for_few_rows
from bertkit.serve.batcher import Batcher
from bertkit.serve.metrics import Metrics
from bertkit.serve.operations import Operation, Piece
from bertkit.serve.refusals import unprocessable
from bertkit.serve.settings import Settings
from bertkit.tasks import is_task, task_called

if TYPE_CHECKING:
    from bertkit.serve.models import Entry, Models


class Served:
    def __init__(self, name: str, predictor: Predictor, settings: Settings, metrics: Metrics) -> None:
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
            wait=settings.wait_seconds,
            queue=settings.limits.queue,
            queue_tokens=settings.limits.queue_tokens,
            threads=cores,
            metrics=metrics,
        )
        self.tokenizing = ThreadPoolExecutor(1, thread_name_prefix=f"tokenize {name}")

    async def answer(
        self, operation: Operation, values: Sequence[Any], *, short: bool = False
    ) -> tuple[list[Any], int]:
        """An answer for each input, and how many tokens they had. `short`: tokenizing them takes less time than handing
        them to a thread that does it."""
        with self.batcher.admission(len(values)):
            try:
                if short:
                    pieces = operation.prepare(values)
                else:
                    loop = asyncio.get_running_loop()
                    pieces = await loop.run_in_executor(self.tokenizing, operation.prepare, values)
                self._check_tokens(pieces)
            except BaseException:
                self.batcher.gave_up()
                raise
            return await self.batcher.submit(operation, pieces), sum(piece.tokens for piece in pieces)

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


def _model_of(predictor: Predictor) -> Any:
    scorer = getattr(predictor, "scorer", None)
    return predictor.encoder.model if scorer is None else scorer.model


def open_model(folder: str, settings: Settings) -> Predictor:
    """A predictor whose `scorer` (for a task) and `encoder` have the methods that operations.py calls."""
    predictor = load(
        folder,
        device=settings.device,
        precision=settings.precision,
        threads=settings.threads,
        ignore_config_keys=settings.ignore_config_keys,
        runtime=settings.runtime,
    )
    encoder = predictor.encoder
    if encoder.runtime is None and encoder.device.type == "cpu" and encoder.precision == "float32":
        lay_out_for_few_rows(encoder.model)  # a request that comes alone is a few rows
    return predictor


def parts_of(task: str) -> list[dict[str, Any]] | None:
    """Of an input, where the model is for a task."""
    if not is_task(task):
        return None
    names = ("name", "needed", "several", "instead")
    return [{name: getattr(part, name) for name in names} for part in task_called(task).parts if not part.learned]


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
        "parts": parts_of(entry.task),
        **dict.fromkeys(("labels", "max_length", "mask", "layers", "heads")),
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
            facts["operations"] = ["predict", *facts["operations"], *explains]
            facts["labels"] = list(predictor.scorer.task.head.labels) or None
            facts["max_length"] = predictor.scorer.task.max_length
        elif isinstance(predictor, Generator):
            facts["operations"] = ["generate", *facts["operations"]]
        elif encoder.model.speaker is not None:
            facts["operations"] = ["fill-mask", *facts["operations"]]
            facts["mask"] = encoder.tokenizer.specials["mask"]
    return facts
