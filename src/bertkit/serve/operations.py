"""What a model can be asked for. Each operation is done in two steps: inputs to pieces with their tokens, which needs
no model, and pieces of any number of requests to answers, which does.

An answer is what goes into JSON; vectors are arrays until the answer is written.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple, Protocol

from bertkit.errors import InputError
from bertkit.inference.attention import AttentionMaps
from bertkit.inference.embedding import Floats, Plan, Sequences, sequences_of, vectors_of
from bertkit.inference.encoder import TextEncoder
from bertkit.inference.explain import STEPS, encode_to_explain, explain_encoded, require_classifier
from bertkit.inference.fill_mask import as_json, check_guesses, guess, questions_of
from bertkit.inference.layer_choice import LayerChoice
from bertkit.inference.predictor import TaskPredictor
from bertkit.inference.vector_files import word_rows

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
        examples = [kind.example(value, f"input {number}") for number, value in enumerate(values, 1)]
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

    @property
    def key(self) -> Hashable:
        return "embed", self.plan

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

    @property
    def key(self) -> Hashable:
        return "embed-words", self.layers, self.split

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

    @property
    def key(self) -> Hashable:
        return "fill-mask", self.k

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
            "tokens": maps.tokens,
            "surfaces": maps.surfaces,
            "gaps": maps.gaps,
            "words": maps.words,
            "segments": maps.segments,
            "tokens_in_text": maps.tokens_in_text,
            "layers": list(self.layers),
            "heads": list(self.heads),
            "maps": chosen.astype(float).round(6).tolist(),
        }


class Explain:
    """Which words the answer of a classifier hung on."""

    def __init__(self, predictor: TaskPredictor, label: str | None) -> None:
        self.scorer, self.label = predictor.scorer, label
        self.task = require_classifier(self.scorer, label)
        self.key = object()  # each is computed by itself

    def prepare(self, values: Sequence[Any]) -> list[Piece]:
        found = [(value, encode_to_explain(self.scorer, *value)) for value in values]
        return [Piece((value, encoded), STEPS * len(encoded.ids)) for value, encoded in found]  # so often it is read

    def compute(self, pieces: Sequence[Piece]) -> list[Any]:
        asked = (piece.content for piece in pieces)
        return [
            explain_encoded(self.scorer, self.task, encoded, (text, pair or ""), self.label).as_json()
            for (text, pair), encoded in asked
        ]
