"""Routes in the shapes that clients of other servers speak: OpenAI's embeddings, and text-embeddings-inference for the
default model."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from fastapi import APIRouter, Request

from bertkit.infer.embedding import Floats, Plan
from bertkit.infer.predictor import TaskPredictor
from bertkit.serve import schemas
from bertkit.serve.json_body import JsonRoute
from bertkit.serve.operations import Embed, Operation, Piece, Predict
from bertkit.serve.refusals import unprocessable
from bertkit.serve.routes import PROBLEMS, answers_of, as_bytes, models_of, vector_bytes

if TYPE_CHECKING:
    from bertkit.serve.served import Served

router = APIRouter(responses=PROBLEMS, route_class=JsonRoute)


class Uncut:
    """An operation whose inputs must fit the model whole, unless the client has them cut."""

    def __init__(self, operation: Operation, longest: int) -> None:
        self.operation, self.key, self.longest = operation, operation.key, longest

    def prepare(self, values: Sequence[Any]) -> list[Piece]:
        pieces = self.operation.prepare(values)
        for number, piece in enumerate(pieces, 1):
            if not all(each.whole for each in piece.content[1]):
                raise unprocessable(
                    f"input {number} is longer than the {self.longest} tokens that the model reads; truncate cuts it."
                )
        return pieces

    def compute(self, pieces: Sequence[Piece]) -> list[Any]:
        return self.operation.compute(pieces)


@router.post("/v1/embeddings", response_model=schemas.OpenAIList, summary="Vectors, as OpenAI's clients ask for them")
async def openai_embeddings(request: Request, asked: schemas.OpenAIEmbeddings) -> Any:
    name = asked.model or models_of(request).settings.default

    def operation(served: Served) -> Operation:
        encoder = served.predictor.encoder
        if asked.dimensions not in (None, encoder.config.hidden_size):
            raise unprocessable(f"The vectors of {name} have {encoder.config.hidden_size} dimensions, no fewer.")
        return Embed(encoder, Plan.of(encoder, {}))

    return await answers_of(request, name, operation, asked.items(), _openai(name, asked.encoding_format))


def _openai(name: str, encoding: str) -> Callable[[Sequence[Any], int], bytes]:
    def shown(vector: Floats) -> bytes:
        if encoding == "float":
            return vector_bytes(vector)
        return b'"' + base64.b64encode(np.ascontiguousarray(vector, "<f4").tobytes()) + b'"'

    def write(vectors: Sequence[Floats], tokens: int) -> bytes:
        rows = b", ".join(
            b'{"object": "embedding", "index": %d, "embedding": %b}' % (number, shown(vector))
            for number, vector in enumerate(vectors)
        )
        usage = b'{"prompt_tokens": %d, "total_tokens": %d}' % (tokens, tokens)
        model = json.dumps(name).encode()
        return b'{"object": "list", "data": [%b], "model": %b, "usage": %b}' % (rows, model, usage)

    return write


@router.post("/embed", response_model=list[list[float]], summary="Vectors, as text-embeddings-inference gives them")
async def tei_embed(request: Request, asked: schemas.TeiEmbed) -> Any:
    def operation(served: Served) -> Operation:
        encoder = served.predictor.encoder
        plan = Plan.of(encoder, {"normalize": asked.normalize, "long": "truncate" if asked.truncate else "error"})
        return Embed(encoder, plan)

    def write(vectors: Sequence[Floats], _: int) -> bytes:
        return b"[" + b", ".join(map(vector_bytes, vectors)) + b"]"

    return await answers_of(request, models_of(request).settings.default, operation, asked.items(), write)


@router.post(
    "/predict",
    response_model=list[schemas.TeiLabel] | list[list[schemas.TeiLabel]],
    summary="Labels with their scores, as text-embeddings-inference gives them",
)
async def tei_predict(request: Request, asked: schemas.TeiPredict) -> Any:
    many = isinstance(asked.inputs, list) and isinstance(asked.inputs[0], list)
    items: list[Any] = list(asked.inputs) if many else [asked.inputs]

    def operation(served: Served) -> Operation:
        predictor = served.predictor
        if not isinstance(predictor, TaskPredictor) or predictor.task != "classify":
            raise unprocessable(f"{served.name}, the default model, is no classifier.")
        if asked.raw_scores:
            raise unprocessable("Only probabilities are given, no raw scores.")
        predict = Predict(predictor)
        return predict if asked.truncate else Uncut(predict, predictor.scorer.task.max_length)

    def write(answers: Sequence[Any], _: int) -> bytes:
        ranked = [
            sorted(({"score": score, "label": label} for label, score in answer["probabilities"].items()), key=_score)
            for answer in answers
        ]
        return as_bytes(ranked if many else ranked[0])

    return await answers_of(request, models_of(request).settings.default, operation, items, write)


def _score(row: dict[str, Any]) -> float:
    return -float(row["score"])
