"""All that depends on the family of a network, as one record: answered here, and nowhere asked by name.

Nothing here or in the files beside needs torch to be imported: what does is named, and imported when it is first used.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from bertkit.families.names import HuggingFace, own_names
from bertkit.nn.config import Config, Heads
from bertkit.settings import Settings
from bertkit.text.kinds import FORMS, Form


def later(place: str) -> Callable[..., Any]:
    """A function that is imported when it is first called.

    >>> later("math:sqrt")(4)
    2.0
    """
    module, _, name = place.partition(":")

    def call(*given: Any, **named: Any) -> Any:
        return getattr(importlib.import_module(module), name)(*given, **named)

    return call


def nothing_special(_: str, recipe: Any, asked: Any) -> Any:  # noqa: ARG001
    return recipe


def nothing_to_say(*_: Any, **__: Any) -> str | None:
    return None


def uncounted(*_: Any, **__: Any) -> float:
    return 0.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Family:
    name: str
    title: str
    config: type[Config]
    """Its own fields only."""
    build: Callable[..., Any]
    """build(config, needs=..., **options): a new Network, as it is pretrained, that can do what is needed."""
    kept: Callable[..., Any] | None = None
    """kept(config, **parts), without weights: a Network as folders have it, if that is another."""
    sizes: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    """By name; they take differences."""
    tokenizer: str = "wordpiece"
    """A kind of tokenizer, of text/kinds.py."""
    heads: Heads = field(default_factory=Heads)
    usual: Callable[..., Any] = nothing_special
    """usual(name, recipe, asked): a recipe as the family has it, its objectives above all; what it cannot do is
    refused."""
    options: type[Settings] | None = None
    """More that `pretrain` may be told of it."""
    either_way: bool = False
    """Whether its networks, as they are pretrained, are ReadsEitherWay (nn/protocols.py)."""
    layer_decay: float = 1.0
    """How much slower each layer is fine-tuned than the one above it, as its paper has it."""
    layer_decay_of_large: float = 1.0
    """The same for models wider than base."""
    learning_rates: tuple[float, float] | None = None
    """Of fine-tuning, where they do not go by the width: of all weights, and of the head alone."""
    language_weight: float = 0.0
    """How much saying words goes on to count while a task is learned."""
    task: str = ""
    """What a network of it is for, where its folder does not say; nothing: what its parts are for."""
    files: tuple[HuggingFace, ...] = ()
    """Config keys and tensor names of transformers, both ways; if there are none, folders hold its own."""
    published: Callable[..., Any] = nothing_to_say
    """published(folder): the files of weights, of a folder that holds a network as its authors published it, in a way
    that is nobody else's."""
    from_published: Callable[..., Any] = nothing_to_say
    """from_published(folder, place): the model folder at `place` that is made of it."""
    flops: Callable[..., float] = uncounted
    """flops(config, length, mask_rate, **options): of the matrix products in a step of training, for one token."""
    note: Callable[..., str | None] = nothing_to_say
    """note(config, **options): what to say of what was asked for, before a run begins."""
    compared: str = ""
    """What to say of it where its numbers stand beside those of others."""
    graph: Callable[..., Any] | None = None
    """graph(model, int8=..., facts=...): an ONNX model."""

    @cache  # noqa: B019 families stay
    def files_for(self, config: Config) -> HuggingFace:
        """The names for this config."""
        if not self.files:
            return own_names(self.name, self.title, self.without_weights(config).state_dict())
        return next(files for files in self.files if files.suits(config))

    @property
    def form(self) -> Form:
        """Of its tokenizer."""
        return FORMS[self.tokenizer]

    def begun(self, config: Config, parts: Collection[str]) -> Any:
        """A network as folders have it, with these parts above its reader, and with weights as drawn."""
        if self.kept is None:
            return self.build(config)
        return self.kept(config, **{part: part in parts for part in ("pooler", "mlm", "nsp")})

    def without_weights(self, config: Config, **parts: bool) -> Any:
        """A network as folders have it, with shapes and no memory, to be filled by `load_state_dict(assign=True)`."""
        from bertkit.nn.network import shapes_only

        with shapes_only():
            return self.build(config) if self.kept is None else self.kept(config, **parts)
