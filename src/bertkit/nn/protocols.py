"""What others may ask of a network, and nothing else: whoever needs one of these says so, and never asks for a family.

A Reader makes vectors of tokens; it is what is kept of a pretraining, fine-tuned and embedded. A network (network.py)
is what a run trains: one reader or several, and what they can say. What a network can do it says itself (`abilities`),
so that it is refused in the first second where an objective or a command needs more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from torch import Tensor, nn

from bertkit.nn.inputs import Inputs


class Reader(Protocol):
    """Tokens to vectors: an Encoder, a language model of LSTMs, a table of word vectors."""

    width: int
    depth: int
    """Layers above the embeddings; word vectors have none."""
    longest: int | None
    """Tokens at once; None: any number."""
    causal: bool
    """Whether each token sees itself and those to its left alone."""

    def read(self, inputs: Inputs, only: Tensor | None = None) -> Tensor:
        """T x D, or M x D at the places that are wanted."""

    def layers(self, inputs: Inputs) -> tuple[Tensor, ...]:
        """depth + 1 of T x D: what enters the first layer, then what each says."""

    def depth_of(self, parameter: str) -> int:
        """How far below the top a parameter is: 0 what comes behind the last layer, 1 the last layer, the first one's
        number and 1 more for the embeddings."""

    def units(self) -> Iterator[nn.Module]:
        """What is shared out, compiled, computed again: the layers that have weights of their own, from the bottom."""

    def matrices(self) -> Iterator[tuple[Tensor, int]]:
        """The matrices inside the units, and how many lie in each one, one below the other."""

    def words(self) -> nn.Module | None:
        """The table with a row for each token, if there is one."""


class ReadsEitherWay(Protocol):
    """A network whose reader also reads with each token seeing only those to its left (`Inputs.causal`)."""

    @property
    def reader(self) -> Reader: ...


class SaysWords(Protocol):
    """Which word is hidden here, or comes next?"""

    @property
    def reader(self) -> Reader: ...

    def word_parts(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """... x E, V x E and V, whose product and sum are the scores: apart, for a loss that never has all of them."""

    def word_scores(self, x: Tensor) -> Tensor:
        """... x V for what the reader says of some places."""


class WritesFrom(Protocol):
    """A network of two readers: what it writes, it writes from a text that was read."""

    def written(self, inputs: Inputs) -> Tensor:
        """M x D: at each token that is written, in their order, what is said of the one that follows."""

    def remembered(self, sources: Sequence[Sequence[int]], *, most: int) -> Any:
        """What was read of each text, for `most` tokens to be written from it."""

    def word_parts(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor | None]: ...

    def word_scores(self, x: Tensor) -> Tensor: ...


class ComparesTexts(Protocol):
    """Does the second text follow the first?"""

    @property
    def reader(self) -> Reader: ...

    def compared(self, first_BD: Tensor) -> Tensor:
        """B x 2 from the vectors of the first tokens."""


class TellsReplaced(Protocol):
    """Is this the token that stood here?"""

    @property
    def reader(self) -> Reader: ...

    def replaced_scores(self, x: Tensor) -> Tensor:
        """A score for each vector, above 0 if its token seems to have been replaced."""


class HasSpeaker(Protocol):
    """Two networks: one that reads, and one beside it that says words."""

    @property
    def reader(self) -> Reader: ...
    @property
    def speaker(self) -> SaysWords: ...
