"""Text that a model writes on from a prompt: all of it at once, or word by word as it comes."""

from __future__ import annotations

import asyncio
import threading
import warnings
from collections.abc import AsyncGenerator, Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any

from bertkit.inference.generation import Generator, Written, generate, prompt_ids
from bertkit.inference.sampling import Sampling
from bertkit.serve.operations import Piece
from bertkit.serve.refusals import unprocessable

if TYPE_CHECKING:
    from bertkit.serve.served import Served


class Listener:
    """A client that waits for a text, and may hear its pieces as they come."""

    def __init__(self, hear: Callable[[dict[str, Any]], None] | None = None) -> None:
        self.hear = hear
        self.begun = False
        """It has heard something."""
        self.gone = threading.Event()


class Write:
    """What `bertkit generate` writes after each prompt. Prompts with the same settings are gone on from together."""

    def __init__(self, generator: Generator, sampling: Sampling, listener: Listener) -> None:
        self.encoder, self.sampling, self.listener = generator.encoder, sampling, listener

    @property
    def key(self) -> Hashable:
        return "generate", self.sampling

    def prepare(self, values: Sequence[Any]) -> list[Piece]:
        new = self.sampling.max_new_tokens * max(self.sampling.samples, self.sampling.beams)
        ids = prompt_ids(self.encoder, values)
        return [Piece((prompt, self.listener), len(its) + new) for prompt, its in zip(values, ids, strict=True)]

    def compute(self, pieces: Sequence[Piece]) -> list[Any]:
        prompts: list[str] = [piece.content[0] for piece in pieces]
        listeners: list[Listener] = [piece.content[1] for piece in pieces]
        texts: list[list[dict[str, Any]]] = [[] for _ in pieces]
        if any(each.begun for each in listeners):  # what went wrong in a batch is tried again one by one
            raise RuntimeError("a text broke off, and its beginning shall not be told twice")

        def nobody_waits() -> bool:
            return all(each.gone.is_set() for each in listeners)

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that the model became full is in the answer
            for found in generate(self.encoder, prompts, self.sampling, nobody_waits):
                listener = listeners[found.prompt]
                if listener.hear is not None:
                    listener.begun = True
                    listener.hear({"text": found.text, **({} if found.whole is None else _ending(found.whole))})
                if found.whole is not None:
                    texts[found.prompt].append({"text": found.whole.text, **_ending(found.whole)})
        return [{"prompt": prompt, "texts": its} for prompt, its in zip(prompts, texts, strict=True)]


def _ending(whole: Written) -> dict[str, Any]:
    return {"ended": whole.ended, "tokens": len(whole.ids)}


def writing(served: Served, sampling: Sampling, listener: Listener) -> Write:
    if not isinstance(served.predictor, Generator):
        raise unprocessable(f"{served.name} cannot write: it is for {served.predictor.task}.")
    return Write(served.predictor, sampling, listener)


async def as_it_comes(served: Served, prompt: str, sampling: Sampling) -> AsyncGenerator[dict[str, Any]]:
    """Pieces of the text; the last one says how it ended."""
    loop = asyncio.get_running_loop()
    heard: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()

    def hear(piece: dict[str, Any]) -> None:
        loop.call_soon_threadsafe(heard.put_nowait, piece)

    listener = Listener(hear)
    work = asyncio.ensure_future(served.answer(writing(served, sampling, listener), [prompt]))
    work.add_done_callback(lambda _: heard.put_nowait(None))
    try:
        while (piece := await heard.get()) is not None:
            yield piece
        await work  # what went wrong, if something did
    finally:
        listener.gone.set()
        work.cancel()
