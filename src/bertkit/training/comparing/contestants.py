"""Who takes part: a model and, after colons, options of `bertkit pretrain`.

bert-mini                                as the recipe has it
bert-mini:no-nsp:mask=word               with differences
bert-mini:no-nsp:left-to-right:lstm=256  the same pretraining as without lstm, which is of fine-tuning
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bertkit.errors import UsageError, nearest, shortened
from bertkit.model.presets import PRESETS
from bertkit.objectives.masking import shares_of

FLAGS: Mapping[str, tuple[str, bool]] = {
    "no-nsp": ("nsp", False),
    "left-to-right": ("left_to_right", True),
    "across-documents": ("across_documents", True),
    "pre-norm": ("pre_norm", True),
    "post-norm": ("pre_norm", False),
}
VALUES: Mapping[str, tuple[str, Callable[[str], Any]]] = {
    "batch": ("batch", int),
    "length": ("length", int),
    "long-length": ("long_length", int),
    "dropout": ("dropout", float),
    "optimizer": ("optimizer.kind", str),
    "learning-rate": ("optimizer.learning_rate", float),
    "mask": ("masking.unit", str),
    "mask-rate": ("masking.rate", float),
    "mask-copies": ("masking.copies", int),
    "generator-size": ("generator_size", float),
}
"""What each changes in a recipe, by the names that a request has for it."""
OTHERS = ("recipe", "mask-shares", "lstm")
OPTIONS = (*FLAGS, *VALUES, *OTHERS)
FINE_TUNING = ("lstm",)
MOST_DROPOUT = 0.9
"""As for `bertkit pretrain`."""


@dataclass(frozen=True, kw_only=True)
class Contestant:
    model: str
    options: Mapping[str, str] = field(default_factory=dict)
    """As they were said; a flag's value is empty."""
    title: str = ""
    """What tables call it, if not by its name."""

    @property
    def name(self) -> str:
        return _joined(self.model, self.options)

    @property
    def run(self) -> str:
        """What it is called without what only fine-tuning knows: equal for those that share a pretraining."""
        return _joined(self.model, {name: said for name, said in self.options.items() if name not in FINE_TUNING})

    @property
    def folder(self) -> str:
        """Of its run."""
        return as_file_name(self.run)

    @property
    def called(self) -> str:
        return self.title or self.name

    @property
    def recipe(self) -> str | None:
        return self.options.get("recipe")

    @property
    def lstm(self) -> int:
        return int(self.options.get("lstm", 0))

    @property
    def meaning(self) -> tuple[Any, ...]:
        """What it comes to, however it is spelled."""
        return self.model, self.recipe, self.lstm, frozenset(self.change().items())

    def change(self) -> dict[str, Any]:
        """Its differences from a recipe, as a request has them."""
        changes: dict[str, Any] = {}
        for name, said in self.options.items():
            if name in FLAGS:
                changes[FLAGS[name][0]] = FLAGS[name][1]
            elif name in VALUES:
                changes[VALUES[name][0]] = VALUES[name][1](said)
            elif name == "mask-shares":
                changes |= {f"masking.{part}": share for part, share in shares_of(said).items()}
        return changes


def contestants_of(text: str) -> list[Contestant]:
    """
    >>> [contestant.name for contestant in contestants_of("bert-mini, bert-mini:mask=word:no-nsp")]
    ['bert-mini', 'bert-mini:mask=word:no-nsp']
    """
    return [_contestant(part.strip()) for part in text.split(",")]


def _contestant(text: str) -> Contestant:
    model, *said = text.split(":")
    if model not in PRESETS:
        raise UsageError(
            f"no model is called {shortened(model)}", f"{nearest(model, PRESETS)} There are: {', '.join(PRESETS)}."
        )
    options: dict[str, str] = {}
    for part in said:
        name, equals, value = part.partition("=")
        if name not in OPTIONS:
            raise UsageError(
                f"{text}: {shortened(name)} is no option of a contestant",
                f"{nearest(name, OPTIONS)} There are: {', '.join(OPTIONS)}; after a model's name, parted by colons.",
            )
        if name in options:
            raise UsageError(f"{text}: {name} is there twice", "Say it once.")
        if bool(equals) == (name in FLAGS) or (equals and not value):
            way = name if name in FLAGS else f"{name}=VALUE"
            raise UsageError(f"{text}: {shortened(part)}", f"It is said as {way}.")
        options[name] = value
        _require_number(text, name, value)
    return Contestant(model=model, options=options)


def _require_number(text: str, name: str, value: str) -> None:
    kind = int if name == "lstm" else VALUES[name][1] if name in VALUES else str
    try:
        number = kind(value)
    except ValueError:
        wanted = "a whole number" if kind is int else "a number"
        raise UsageError(f"{text}: {name} is {shortened(value)}", f"It is {wanted}.") from None
    if isinstance(number, int) and number < (0 if name == "long-length" else 1):
        raise UsageError(f"{text}: {name} is {number}", "It is at least 1.")
    if name == "dropout" and not 0 <= float(number) <= MOST_DROPOUT:
        raise UsageError(f"{text}: dropout is {value}", f"It is a number from 0 to {MOST_DROPOUT}.")


def ablation(model: str) -> list[Contestant]:
    """Those of the BERT paper's sections 5.1 and C.2: what next sentences, seeing both sides, and hiding words behind
    other words than [MASK] are worth. The BiLSTM is as wide as the model, and learned in fine-tuning alone."""
    whole = _contestant(model)
    if whole.options or PRESETS[model]().family != "bert":
        raise UsageError(
            f"an ablation of {model}", "It is BERT's: --model bert-mini, or another size, without options."
        )
    one_way = {"no-nsp": "", "left-to-right": ""}
    width = PRESETS[model]().hidden_size
    return [
        Contestant(model=model, title="full BERT"),
        Contestant(model=model, options={"no-nsp": ""}, title="no NSP"),
        Contestant(model=model, options=one_way, title="left to right, no NSP"),
        Contestant(model=model, options={**one_way, "lstm": str(width)}, title="left to right, no NSP, + BiLSTM"),
        Contestant(model=model, options={"mask-shares": "100/0/0"}, title="always [MASK] (100/0/0)"),
    ]


def require_different(contestants: Sequence[Contestant]) -> None:
    seen: dict[tuple[Any, ...], Contestant] = {}
    for contestant in contestants:
        if first := seen.get(contestant.meaning):
            as_what = "" if first.name == contestant.name else f", as {first.called} too"
            raise UsageError(
                f"{contestant.called} takes part twice{as_what}",
                "Leave one out, or give it another option; chance is judged by --seeds.",
            )
        seen[contestant.meaning] = contestant


def as_file_name(name: str) -> str:
    return name.replace(":", ".").replace("/", "-")


def _joined(model: str, options: Mapping[str, str]) -> str:
    return ":".join([model, *(f"{name}={said}" if said else name for name, said in sorted(options.items()))])
