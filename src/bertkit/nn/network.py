"""What every network has that a run trains and a folder keeps. A family's own network is one of these; what it can do
beside reading, it says in `abilities` (protocols.py)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

if TYPE_CHECKING:
    from bertkit.text.tokenizer import Tokenizer


class Network(nn.Module):
    config: Any
    rows_by_token: tuple[str, ...] = ()
    """The parameters with a row for each token, if it can be fitted to other tokens."""
    spells = False
    """Whether it reads its tokens by their characters, and must `meet` the tokenizer first."""
    parts_go = False
    """Whether `keep` takes away all that is not for reading."""

    if TYPE_CHECKING:  # a property, or a part

        @property
        def reader(self) -> Any:
            """The Reader that is kept, fine-tuned, embedded."""

    @property
    def speaker(self) -> Any:
        """Who is asked riddles and fills masks, a SaysWords; None if nobody can."""
        return None

    @property
    def abilities(self) -> frozenset[type]:
        """Which of the protocols it answers to, as it is."""
        return frozenset()

    has_head = False
    """Whether there is one for a task on top."""

    @property
    def network(self) -> Self:
        """What a model that is fine-tuned has under its head; here it is all."""
        return self

    @property
    def readers(self) -> tuple[Any, ...]:
        """All of them, that which is kept first."""
        return (self.reader,)

    @classmethod
    def without_weights(cls, config: Any, **parts: Any) -> Self:
        """The same network with shapes and no memory, to be filled by `load_state_dict(..., assign=True)`."""
        with shapes_only():
            return cls(config, **parts)

    def bare(self, config: Any) -> Self:
        """A network with the same parts, without weights."""
        return type(self).without_weights(config)

    def folders(self, weights: Mapping[str, Tensor]) -> Mapping[str, Network]:
        """What is kept of it, with these weights, by the name of the folder it is kept in."""
        bare = self.bare(self.config)
        bare.load_state_dict(dict(weights), assign=True)
        return {"model": bare}

    def keep(self, parts: Collection[str], *, add: bool = False) -> None:
        """Do without all parts above the reader but these; `add` those that are not there yet."""

    def meet(self, tokenizer: Tokenizer) -> None:
        """Learn how tokens are spelt, if that is what it reads."""

    def begin_with_waves(self, deviation: float) -> None:
        """Positions that are learned, where there are some, begin as sines and cosines and not as noise."""

    def units(self) -> Iterator[nn.Module]:
        for reader in self.readers:
            yield from reader.units()

    def matrices(self) -> Iterator[tuple[Tensor, int]]:
        for reader in self.readers:
            yield from reader.matrices()

    def parameter_count(self) -> int:
        return sum(parameter.numel() for parameter in self.parameters())


@contextmanager
def shapes_only() -> Iterator[None]:
    """What is built meanwhile has shapes and no memory."""
    with torch.device("meta"), NoInitialisation():
        yield


class NoInitialisation(TorchFunctionMode):
    """Skips torch.nn.init: drawing random numbers for weights without memory is useless, and costs two seconds of
    imports."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__module__", None) == "torch.nn.init":
            return kwargs["tensor"] if "tensor" in kwargs else args[0]
        return func(*args, **kwargs)
