"""The server's own routes. Everything that is asked of a model goes through `answers_of`."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse

from bertkit.infer.embedding import EmbedSettings, Floats, Plan
from bertkit.infer.layer_choice import LayerChoice
from bertkit.infer.predictor import TaskPredictor
from bertkit.infer.sampling import Sampling
from bertkit.serve import schemas
from bertkit.serve.json_body import JsonRoute
from bertkit.serve.operations import (
    Attention,
    Embed,
    EmbedWords,
    Explain,
    FillMask,
    Listener,
    Operation,
    Predict,
    Words,
    as_it_comes,
    writing,
)
from bertkit.serve.refusals import RefusalError, unprocessable
from bertkit.serve.served import facts_of

if TYPE_CHECKING:
    from bertkit.serve.models import Models
    from bertkit.serve.served import Served

MANY, MANY_TOKENS = 8, 256
"""Answers, and tokens of their inputs, beyond which writing them as JSON is left to a thread."""

PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": schemas.Problem, "description": what}
    for status, what in {
        400: "not JSON, or no HTTP",
        401: "no token, or a wrong one",
        403: "asked by a page of another server",
        404: "no such model",
        408: "sent too slowly",
        413: "too large",
        415: "not JSON",
        421: "a host that the server does not know",
        422: "an input that cannot be answered",
        429: "too busy; Retry-After says when to ask again",
        500: "a fault of the server",
        503: "loading, or stopping",
        504: "not answered in time",
    }.items()
}


router = APIRouter(prefix="/v1", responses=PROBLEMS, route_class=JsonRoute)


def models_of(request: Request) -> Models:
    models: Models = request.app.state.models
    return models


async def answers_of(
    request: Request,
    name: str,
    operation: Callable[[Served], Operation],
    items: Sequence[Any],
    write: Callable[[Sequence[Any], int], bytes],
    *,
    large: bool = False,
) -> Response:
    """The answers to some inputs, as JSON. `write` is given them and the number of their tokens; where they are large,
    in a thread."""
    async with models_of(request).using(name) as served:
        check_size(items, served)
        answers, tokens = await served.answer(operation(served), items)
        if large or len(answers) > MANY or tokens > MANY_TOKENS:
            body = await asyncio.get_running_loop().run_in_executor(served.tokenizing, write, answers, tokens)
        else:
            body = write(answers, tokens)
    return Response(body, media_type="application/json")


def check_size(items: Sequence[Any], served: Served) -> None:
    most = served.limits
    if not items:
        raise unprocessable("There are no inputs.")
    if len(items) > most.items:
        raise RefusalError(
            413, "too_many_items", f"A request may have {most.items} inputs, and this one has {len(items):,}."
        )
    for number, item in enumerate(items, 1):
        if (size := _characters(item)) > most.characters:
            raise RefusalError(
                413, "too_long", f"input {number} has {size:,} characters, and {most.characters:,} are the most."
            )


def _characters(item: Any) -> int:
    if isinstance(item, str):
        return len(item)
    if isinstance(item, dict):
        return sum(map(_characters, item.values()))
    return sum(map(_characters, item)) + len(item) if isinstance(item, list | tuple) else 0


def as_bytes(answer: Any) -> bytes:
    return json.dumps(answer, ensure_ascii=False).encode("utf-8", "replace")


def written(name: str, shown: Callable[[Any], bytes] = as_bytes) -> Callable[[Iterable[Any], int], bytes]:
    head = f'{{"model": {json.dumps(name)}, "answers": ['.encode()

    def write(answers: Iterable[Any], _: int) -> bytes:
        return head + b", ".join(map(shown, answers)) + b"]}"

    return write


def vector_bytes(vector: Floats) -> bytes:
    """Nine significant digits bring a float32 back exactly."""
    if not np.isfinite(vector).all():
        raise ValueError("a vector that is not finite")
    return b"[" + b",".join([b"%.9g"] * len(vector)) % tuple(vector.tolist()) + b"]"


@router.get("/models", response_model=schemas.ModelList, summary="The models that are served")
async def list_models(request: Request) -> Any:
    models = models_of(request)
    return {"object": "list", "data": [facts_of(each, models) for each in models.entries.values()]}


@router.get("/models/{name}", response_model=schemas.ModelFacts, summary="One of them")
async def one_model(request: Request, name: str) -> Any:
    models = models_of(request)
    return facts_of(models.entry(name), models)


def predict_router() -> APIRouter:
    """The route for what tasks are asked, with the parts of all tasks that there are now."""
    its = APIRouter(prefix="/v1", responses=PROBLEMS, route_class=JsonRoute)

    async def predict(request: Request, name: str, asked: Any) -> Any:
        return await answers_of(request, name, predicting, asked.items(), written(name))

    predict.__annotations__["asked"] = schemas.predict_request()
    summary = "What a fine-tuned model says of inputs"
    its.post("/models/{name}/predict", response_model=schemas.Answers, summary=summary)(predict)
    return its


def predicting(served: Served) -> Operation:
    """The place for predictors that are not a task's: they bring an operation of their own."""
    if not isinstance(served.predictor, TaskPredictor):
        raise unprocessable(
            f"{served.name} is not fine-tuned for a task. It can {served.predictor.task}: use that route of it."
        )
    return Predict(served.predictor)


@router.post("/models/{name}/fill-mask", response_model=schemas.Answers, summary="Guesses for masked words")
async def fill_mask(request: Request, name: str, asked: schemas.FillMaskRequest) -> Any:
    return await answers_of(
        request, name, lambda served: FillMask(served.predictor.encoder, asked.k), asked.items(), written(name)
    )


@router.post(
    "/models/{name}/generate",
    response_model=schemas.Answers,
    responses={200: {"content": {"application/x-ndjson": {"schema": {}}}}},
    summary="Text that follows prompts; with stream, a line of JSON for each piece of it as it comes",
)
async def generate(request: Request, name: str, asked: schemas.GenerateRequest) -> Any:
    sampling = asked.sampling()
    if not asked.stream:
        listener = Listener()
        try:
            return await answers_of(
                request,
                name,
                lambda served: writing(served, sampling, listener),
                asked.items(),
                written(name),
                large=True,
            )
        finally:
            listener.gone.set()  # also if it was too late, or the client has left: nobody waits for it then
    (prompt,) = asked.items()
    lines = _lines(request, name, prompt, sampling)
    first = await anext(lines)  # what is refused, is so before the answer is begun

    async def all_lines() -> AsyncIterator[bytes]:
        async with contextlib.aclosing(lines):
            yield first
            async for line in lines:
                yield line

    return StreamingResponse(all_lines(), media_type="application/x-ndjson")


async def _lines(request: Request, name: str, prompt: str, sampling: Sampling) -> AsyncGenerator[bytes]:
    async with models_of(request).using(name) as served:
        check_size([prompt], served)
        async with contextlib.aclosing(as_it_comes(served, prompt, sampling)) as pieces:
            async for piece in pieces:
                yield as_bytes(piece) + b"\n"


@router.post("/models/{name}/embed", response_model=schemas.Answers, summary="Vectors for texts, or for their words")
async def embed(request: Request, name: str, asked: schemas.EmbedRequest) -> Any:
    if asked.level == "word":
        if asked.pooling is not None or asked.normalize is not None or asked.long != "windows" or asked.allow_empty:
            raise unprocessable(
                "pooling, normalize, long and allow_empty are for texts, not for words: leave them out."
            )
        return await answers_of(request, name, lambda served: _words(served, asked), asked.items(), written(name))
    texts = asked.items()
    write = written(name, lambda each: b'{"text": %b, "vector": %b}' % (as_bytes(each[0]), vector_bytes(each[1])))

    def write_each(vectors: Sequence[Floats], tokens: int) -> bytes:
        return write(zip(texts, vectors, strict=True), tokens)

    return await answers_of(request, name, lambda served: embedding(served, asked), texts, write_each)


def _words(served: Served, asked: schemas.EmbedRequest) -> Operation:
    encoder = served.predictor.encoder
    LayerChoice.parse(asked.layers, encoder.config.num_hidden_layers)
    return EmbedWords(encoder, asked.layers, asked.split)


def embedding(served: Served, asked: schemas.EmbedRequest) -> Operation:
    settings: EmbedSettings = {"layers": asked.layers, "long": asked.long, "allow_empty": asked.allow_empty}
    if asked.pooling is not None:
        settings["pooling"] = asked.pooling
    if asked.normalize is not None:
        settings["normalize"] = asked.normalize
    return Embed(served.predictor.encoder, Plan.of(served.predictor.encoder, settings))


@router.post("/models/{name}/words", response_model=schemas.Answers, summary="Nearest words, analogies, a map of words")
async def words(request: Request, name: str, asked: schemas.WordsRequest) -> Any:
    return await answers_of(
        request, name, lambda served: Words(served, asked.ask, asked.k), [asked.inputs], written(name)
    )


@router.post("/models/{name}/attention", response_model=schemas.Answers, summary="How much tokens look at each other")
async def attention(request: Request, name: str, asked: schemas.AttentionRequest) -> Any:
    return await answers_of(
        request,
        name,
        lambda served: Attention(served.predictor.encoder, asked.layer, asked.head, truncate=asked.truncate),
        [(asked.text, asked.pair)],
        written(name),
        large=True,
    )


@router.post("/models/{name}/explain", response_model=schemas.Answers, summary="The words that a label hung on")
async def explain(request: Request, name: str, asked: schemas.ExplainRequest) -> Any:
    return await answers_of(
        request, name, lambda served: _explaining(served, asked.label), [(asked.text, asked.pair)], written(name)
    )


def _explaining(served: Served, label: str | None) -> Operation:
    if not isinstance(served.predictor, TaskPredictor):
        raise unprocessable(f"{served.name} is not fine-tuned. Only classifiers can be explained.")
    return Explain(served.predictor, label)
