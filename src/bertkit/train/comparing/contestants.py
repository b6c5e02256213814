"""Who takes part: a model and, after colons, options of `bertkit pretrain`.

bert-mini                                as the recipe has it
bert-mini:no-nsp:mask=word               with differences
bert-mini:no-nsp:left-to-right:lstm=256  the same pretraining as without lstm, which is of fine-tuning
./vectors                                a model folder, as it is: word vectors, or what was pretrained elsewhere
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bertkit.errors import UsageError, nearest, shortened
from bertkit.families import BERT, PRESETS, family_of_size
from bertkit.train.comparing.said import Where, known, said_in, settings_said
from bertkit.train.schemas import COMPARED, FineTuning, Pretraining

FINE_TUNING = ("lstm",)


def options() -> dict[str, Where]:
    """What may be said of one: what the recipe, the family and the optimizer can be, and one thing of fine-tuning."""
    of_fine_tuning = {name: where for name, where in known(FineTuning, lambda _: True).items() if name in FINE_TUNING}
    return known(Pretraining, lambda about: about.group in COMPARED) | of_fine_tuning


@dataclass(frozen=True, kw_only=True)
class Contestant:
    model: str
    options: Mapping[str, str] = field(default_factory=dict)
    """As they were said; a flag's value is empty."""
    title: str = ""
    """What tables call it, if not by its name."""

    @property
    def ready(self) -> Path | None:
        """Its folder, of one that is not pretrained here."""
        return None if self.model in PRESETS else Path(self.model)

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
    def settings(self) -> dict[str, Any]:
        """Its options, as Python says them."""
        made = settings_said(self.options, options())
        return {"masks": "static", **made} if "mask_copies" in made else made

    @property
    def pretraining(self) -> dict[str, Any]:
        return {name: value for name, value in self.settings.items() if name not in FINE_TUNING}

    @property
    def lstm(self) -> int:
        return int(self.settings.get("lstm", 0))

    @property
    def meaning(self) -> tuple[Any, ...]:
        """What it comes to, however it is spelled."""
        settings = self.settings
        if "mask_shares" in settings:
            from bertkit.objectives.masking import shares_of

            settings["mask_shares"] = tuple(shares_of(settings["mask_shares"]).values())
        return self.model, frozenset(settings.items())


def contestants_of(text: str) -> list[Contestant]:
    """
    >>> [contestant.name for contestant in contestants_of("bert-mini, bert-mini:mask=word:no-nsp")]
    ['bert-mini', 'bert-mini:mask=word:no-nsp']
    """
    return [_contestant(part.strip()) for part in text.split(",")]


def _contestant(text: str) -> Contestant:
    model, *said = text.split(":")
    if model not in PRESETS and (Path(model) / "config.json").is_file():
        if other := next((name for name in said if name.partition("=")[0] not in FINE_TUNING), None):
            raise UsageError(f"{text}: {shortened(other)} of a model that is there", "Leave it out.")
        return Contestant(model=model, options=said_in(said, options(), text), title=Path(model).resolve().name)
    if model not in PRESETS:
        raise UsageError(
            f"no model is called {shortened(model)}", f"{nearest(model, PRESETS)} There are: {', '.join(PRESETS)}."
        )
    return Contestant(model=model, options=said_in(said, options(), text))


def ablation(model: str) -> list[Contestant]:
    """Those of the BERT paper's sections 5.1 and C.2: what next sentences, seeing both sides, and hiding words behind
    other words than [MASK] are worth. The BiLSTM is as wide as the model, and learned in fine-tuning alone."""
    whole = _contestant(model)
    if whole.options or family_of_size(model) is not BERT:
        raise UsageError(
            f"an ablation of {model}", "It is BERT's: `model=bert-mini`, or another size, without options."
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
                "Leave one out, or give it another option; chance is judged by `seeds`.",
            )
        seen[contestant.meaning] = contestant


def as_file_name(name: str) -> str:
    return name.replace(":", ".").replace("/", "-")


def _joined(model: str, options: Mapping[str, str]) -> str:
    return ":".join([model, *(f"{name}={said}" if said else name for name, said in sorted(options.items()))])
