"""A model in memory, with its queue and its threads."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from bertkit.inference.batching import token_budget
from bertkit.inference.predictor import Predictor
from bertkit.model.few_rows import copied_bytes
from bertkit.serve.batcher import Batcher
from bertkit.serve.metrics import Metrics
from bertkit.serve.operations import Operation, Piece
from bertkit.serve.refusals import unprocessable
from bertkit.serve.settings import Settings


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
