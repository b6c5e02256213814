"""What a model can be asked for. Each operation is done in two steps: inputs to pieces with their tokens, which needs
no model, and pieces of any number of requests to answers, which does.

An answer is what goes into JSON; vectors are arrays until the answer is written.
"""

from __future__ import annotations

import asyncio
import threading
import warnings
from collections.abc import AsyncGenerator, Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from bertkit.errors import InputError
from bertkit.infer.attention import AttentionMaps
from bertkit.infer.embedding import Floats, Plan, Sequences, sequences_of, vectors_of
from bertkit.infer.encoder import TextEncoder
from bertkit.infer.explain import STEPS, encode_to_explain, explain_encoded, require_classifier
from bertkit.infer.fill_mask import as_json, check_guesses, guess, questions_of
from bertkit.infer.generation import Written, generate
from bertkit.infer.layer_choice import LayerChoice
from bertkit.infer.predictor import TaskPredictor
from bertkit.infer.sampling import Sampling
from bertkit.infer.vector_files import word_rows
from bertkit.infer.writer import Writer
from bertkit.serve.refusals import unprocessable
from bertkit.words.asked import answer

if TYPE_CHECKING:
    from bertkit.serve.served import Served


MOST_NUMBERS = 500_000
"""So many numbers of attention maps, of vectors of words, or of guesses with their probabilities, in one answer:
writing them as JSON holds everybody up."""


class Piece(NamedTuple):
    """One input, tokenized."""

    content: Any
    tokens: int


class Operation(Protocol):
    @property
    def key(self) -> Hashable:
        """Pieces of operations with equal keys may be computed together."""

    def prepare(self, values: Sequence[Any]) -> list[Piece]:
        """One for each input; what is wrong with one is an InputError."""

    def compute(self, pieces: Sequence[Piece]) -> list[Any]:
        """An answer for each."""


class Predict:
    """What `bertkit predict` writes of each input."""

    key = "predict"

    def __init__(self, predictor: TaskPredictor) -> None:
        self.scorer = predictor.scorer

    def prepare(self, values: Sequence[Any]) -> list[Piece]:
        kind = type(self.scorer.task)
        examples = [kind.read(value, f"input {number}") for number, value in enumerate(values, 1)]
        units = self.scorer.task.encode(examples, self.scorer.tokenizer)
        return [
            Piece((example, features), sum(len(each.ids) for each in features))
            for example, features in zip(examples, units, strict=True)
        ]

    def compute(self, pieces: Sequence[Piece]) -> list[Any]:
        examples, features = zip(*(piece.content for piece in pieces), strict=True)
        return [answered.answer for answered in self.scorer.answer_encoded(examples, features)]


class Embed:
    """A vector for each text."""

    def __init__(self, encoder: TextEncoder, plan: Plan) -> None:
        self.encoder, self.plan = encoder, plan
        self.key = "embed", plan

    def prepare(self, values: Sequence[Any]) -> list[Piece]:
        found = sequences_of(self.encoder, list(values), 0, self.plan)
        parts: list[list[list[int]]] = [[] for _ in values]
        for ids, owner in zip(found.ids, found.owners, strict=True):
            parts[owner].append(ids)
        return [Piece(windows, sum(map(len, windows))) for windows in parts]

    def compute(self, pieces: Sequence[Piece]) -> list[Floats]:
        owned = [(ids, owner) for owner, piece in enumerate(pieces) for ids in piece.content]
        sequences = Sequences([ids for ids, _ in owned], [owner for _, owner in owned], len(pieces), 0)
        return list(vectors_of(self.encoder, sequences, self.plan))


class EmbedWords:
    """A vector for each word of each text."""

    def __init__(self, encoder: TextEncoder, layers: str, split: str) -> None:
        self.encoder, self.layers, self.split = encoder, layers, split
        self.key = "embed-words", layers, split

    def prepare(self, values: Sequence[Any]) -> list[Piece]:
        ids = self.encoder.encode_checked(values, 0, allow_empty=False)
        config = self.encoder.config
        width = LayerChoice.parse(self.layers, config.num_hidden_layers).width(config.hidden_size)
        if (tokens := sum(map(len, ids))) * width > MOST_NUMBERS:
            raise InputError(
                f"{tokens:,} tokens with {width:,} numbers each are more than fit into an answer",
                f"Send at most some {MOST_NUMBERS // width:,} tokens in a request.",
            )
        return [Piece(text, len(its)) for text, its in zip(values, ids, strict=True)]

    def compute(self, pieces: Sequence[Piece]) -> list[Any]:
        texts = [piece.content for piece in pieces]
        found = self.encoder.embed_words(texts, layers=self.layers, split=self.split)
        return [{"text": text, "words": word_rows(words)} for text, words in zip(texts, found, strict=True)]


class FillMask:
    """What `bertkit fill-mask` writes of each text."""

    def __init__(self, encoder: TextEncoder, k: int) -> None:
        check_guesses(encoder, k)
        self.encoder, self.k = encoder, k
        self.key = "fill-mask", k

    def prepare(self, values: Sequence[Any]) -> list[Piece]:
        found = [(text, questions_of(self.encoder, text, 0)) for text in values]
        masks = sum(len(question.positions) for _, questions in found for question in questions)
        if masks * self.k > MOST_NUMBERS:
            raise InputError(
                f"{self.k:,} guesses for {masks:,} masks are more than fit into an answer", "Ask for fewer."
            )
        return [Piece(each, sum(len(question.ids) for question in each[1])) for each in found]

    def compute(self, pieces: Sequence[Piece]) -> list[Any]:
        questions = [question for piece in pieces for question in piece.content[1]]
        guesses = iter(guess(self.encoder, questions, self.k))
        return [
            as_json(text, [mask for _ in its for mask in next(guesses)])
            for text, its in (piece.content for piece in pieces)
        ]


class Attention:
    """The maps of one text, or of one layer or head."""

    def __init__(self, encoder: TextEncoder, layer: int | None, head: int | None, *, truncate: bool) -> None:
        layers, heads = encoder.config.num_hidden_layers, encoder.config.num_attention_heads
        if not heads:
            raise unprocessable(f"{encoder.name} has no attention.")
        for name, chosen, count in (("layer", layer, layers), ("head", head, heads)):
            if chosen is not None and not 0 <= chosen < count:
                raise InputError(f"there is no {name} {chosen}", f"They are counted from 0 to {count - 1}.")
        self.encoder, self.truncate = encoder, truncate
        self.layers = range(layers) if layer is None else range(layer, layer + 1)
        self.heads = range(heads) if head is None else range(head, head + 1)
        self.key = object()  # each is computed by itself

    def prepare(self, values: Sequence[Any]) -> list[Piece]:
        pieces = []
        for text, pair in values:
            tokens = len(self.encoder.tokenizer.encode(text, pair).ids)
            shown = min(tokens, self.encoder.max_length)
            if len(self.layers) * len(self.heads) * shown**2 > MOST_NUMBERS:
                raise InputError(
                    f"{len(self.layers)} layers of {len(self.heads)} heads for {shown} tokens are more than fit into "
                    "an answer",
                    "Name a layer, or a layer and a head, or give a shorter text.",
                )
            pieces.append(Piece((text, pair), tokens))
        return pieces

    def compute(self, pieces: Sequence[Piece]) -> list[Any]:
        return [self._shown(self.encoder.attention(*piece.content, truncate=self.truncate)) for piece in pieces]

    def _shown(self, maps: AttentionMaps) -> dict[str, Any]:
        chosen = maps.maps[self.layers.start : self.layers.stop, self.heads.start : self.heads.stop]
        return {
            **maps.about_tokens(),
            "tokens_in_text": maps.tokens_in_text,
            "layers": list(self.layers),
            "heads": list(self.heads),
            "maps": chosen.astype(float).round(6).tolist(),
        }


class Explain:
    """Which words the answer of a classifier hung on."""

    def __init__(self, predictor: TaskPredictor, label: str | None) -> None:
        self.scorer, self.label = predictor.scorer, label
        self.head = require_classifier(self.scorer, label)
        self.key = object()  # each is computed by itself

    def prepare(self, values: Sequence[Any]) -> list[Piece]:
        found = [(value, encode_to_explain(self.scorer, *value)) for value in values]
        return [Piece((value, encoded), STEPS * len(encoded.ids)) for value, encoded in found]  # so often it is read

    def compute(self, pieces: Sequence[Piece]) -> list[Any]:
        asked = (piece.content for piece in pieces)
        return [
            explain_encoded(self.scorer, self.head, encoded, (text, pair or ""), self.label).as_json()
            for (text, pair), encoded in asked
        ]


class Words:
    """What a table of words knows of some of them."""

    def __init__(self, served: Served, ask: str, k: int) -> None:
        if served.vectors is None:
            raise unprocessable(f"{served.name} is no table of words: what it says of one depends on its text.")
        self.vectors, self.ask, self.k = served.vectors, ask, k
        self.key = "words", ask, k

    def prepare(self, values: Sequence[Any]) -> list[Piece]:
        return [Piece(words, len(words)) for words in values]

    def compute(self, pieces: Sequence[Piece]) -> list[Any]:
        return [answer(self.vectors, self.ask, piece.content, self.k) for piece in pieces]


class Listener:
    """A client that waits for a text, and may hear its pieces as they come."""

    def __init__(self, hear: Callable[[dict[str, Any]], None] | None = None) -> None:
        self.hear = hear
        self.begun = False
        """It has heard something."""
        self.gone = threading.Event()


class Write:
    """What `bertkit generate` writes after each prompt. Prompts with the same settings are gone on from together."""

    def __init__(self, predictor: Any, sampling: Sampling, listener: Listener) -> None:
        self.writer: Writer = predictor.writer
        self.sampling, self.listener = sampling, listener
        self.key = "generate", sampling

    def prepare(self, values: Sequence[Any]) -> list[Piece]:
        new = self.sampling.max_new_tokens * max(self.sampling.samples, self.sampling.beams)
        ids = self.writer.read(values)
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
            for found in generate(self.writer, prompts, self.sampling, nobody_waits):
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
    if not hasattr(served.predictor, "writer"):
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
