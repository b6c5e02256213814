"""What a model can be asked: which places of a sample an objective asks about, and what loss its answers come to.

Several objectives share one pass through the encoder (`Together`): of its last layer only the places that somebody
asks about are computed, and each objective is given its own. What is asked is a function of (seed, epoch, number), so a
batch is the same whoever makes it: any process, any worker, now or after a restart.

    @register
    class Longer(Objective):            # is the second text longer than the first?
        name, title, cut, needs = "longer", "longer texts", Cut("pairs"), (ComparesTexts,)

        def ask(self, sample, draw):
            longer = int((sample.segments == 1).sum() > (sample.segments == 0).sum())
            return Asked(None, FIRST, np.array([longer]))

        def terms(self, network, part, x):
            yield self.name, answered(network.compared(x), part.answers)
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self

import numpy as np

from bertkit.corpus.shards import Array
from bertkit.errors import UsageError, nearest, shortened
from bertkit.nn.inputs import Inputs
from bertkit.nn.protocols import ReadsEitherWay
from bertkit.objectives.terms import Term, loss_of
from bertkit.plugins import Table, opener

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from bertkit.corpus.samples import Sample
    from bertkit.nn.network import Network
    from bertkit.text.tokenizer import Tokenizer

FIRST = np.array([0])
"""The place of a sample's [CLS]."""


@dataclass(frozen=True, kw_only=True)
class Cut:
    """Which samples are cut out of a corpus."""

    of: Literal["sequences", "pairs", "stream"] = "sequences"
    """`stream`: stretches of one long text, each of which begins where the one before ends."""
    negatives: Literal["document", "swap"] = "document"
    """Of pairs: what half of the second texts are; from elsewhere, or the first, which has changed places with it."""
    across: bool = False
    """Of sequences: whether they go on into the next document."""
    short_share: float = 0.1
    """Of pairs: how many are shorter than they could be, so that the model knows such too."""
    ways: tuple[int, ...] = ()
    """Of a stream: who reads on remembers what stood before, from the left (0), from the right (1), or both. Then a
    batch is so many lanes through the text, and not drawn."""


class Asked(NamedTuple):
    """What an objective asks of one sample."""

    ids: Array | None
    """What the model sees instead of the sample; None: the sample as it is."""
    places: Array
    """Where it is asked, in order."""
    answers: Array
    """What is right there."""
    chances: Array | None = None
    """A number between 0 and 1 for each place, for an objective that leaves something to chance."""
    stands: Array | None = None
    """Shard, start and stop in the corpus, 1 x 3, for an objective that goes on from one sample to the next."""


class Memory:
    """What who reads on remembers at the end of each stretch of text, to go on with in the next one: by the place in
    the corpus where the one ends and the other begins, and the way it is read."""

    def __init__(self) -> None:
        self.states: dict[tuple[int, ...], Tensor] = {}

    def before(self, stands: Sequence[Sequence[int]], way: int, nothing: Tensor) -> Tensor:
        """A row for each stretch; `nothing` where the text before was not read."""
        import torch

        rows = [self.states.pop((way, shard, start), nothing) for shard, start, _ in stands]
        return torch.stack(rows).to(nothing.device)

    def keep(self, stands: Sequence[Sequence[int]], way: int, state_BS: Tensor) -> None:
        for (shard, _, stop), row in zip(stands, state_BS.detach(), strict=True):
            if row.isfinite().all():
                self.states[way, shard, stop] = row.clone()


@dataclass(frozen=True)
class Part(Inputs):
    """Samples for one pass, and what one objective asks of them."""

    places: Tensor
    answers: Tensor
    chances: Tensor | None = None
    stands: Tensor | None = None
    memory: Memory | None = None


@dataclass(frozen=True)
class Batch(Inputs):
    """Samples for one pass, and what all objectives ask of them."""

    asked: Mapping[str, Mapping[str, Tensor]]
    """By the name of each objective its `places` and `answers`, and `chances` if it has some."""
    counts: Mapping[str, int]
    """How many examples each term of the loss has, known before the model is asked."""
    distinct: bool
    """Whether no place is asked for twice."""
    by: Together = field(compare=False, kw_only=True)
    """Who asks."""
    memory: Memory | None = None
    """What was read before; None: nothing is."""

    def part(self, name: str) -> Part:
        inputs: dict[str, Any] = {each.name: getattr(self, each.name) for each in fields(Inputs)}
        return Part(**{**inputs, **self.asked[name]}, memory=self.memory)

    def to(self, device: torch.device) -> Self:
        if device.type == "cpu":
            return self
        moved = {
            name: {key: tensor.to(device, non_blocking=True) for key, tensor in asked.items()}
            for name, asked in self.asked.items()
        }
        return replace(super().to(device), asked=moved)


class Objective:
    """What is asked of a model. Says by its attributes what it is, so that nobody has to know it by name."""

    name: ClassVar[str]
    """In logs, run.json, curves."""
    title: ClassVar[str]
    """For people: what is asked for."""
    needs: ClassVar[tuple[type, ...]] = ()
    """What the network must be able to do: some of `nn.protocols`."""
    cut: ClassVar[Cut | None] = None
    """Which samples it is asked of; None: any."""
    hides: ClassVar[bool] = False
    """Whether it changes what the model sees. Of those that are together one may."""
    alone: ClassVar[bool] = False
    """Whether it reads by itself, what and as often as it likes: nothing can be beside it then."""
    causal: ClassVar[bool] = False
    """Whether the model must not see what is to the right of a place."""
    best: ClassVar[Literal["lower"] | None] = "lower"
    """Whether the loss of its first term on held-out text says which of two checkpoints is better. Questions that
    become harder while a model learns do not."""
    asks: ClassVar[Mapping[str, str]]
    """The terms of its loss and what each of them asks for; if it does not say, one of its own name and title."""
    options: ClassVar[type | None] = None
    """A frozen dataclass of what may be chosen."""
    plain: ClassVar[Any] = None
    """Options for held-out text, the same in all runs so that they compare; None: as in training."""

    def __init_subclass__(cls) -> None:
        if "asks" not in vars(cls) and "name" in vars(cls):
            cls.asks = {cls.name: cls.title}

    def __init__(self, tokenizer: Tokenizer, options: Any = None) -> None:
        self.tokenizer = tokenizer
        self.chosen = options if options is not None or self.options is None else self.options()

    def ask(self, sample: Sample, draw: int) -> Asked:
        """The places of a sample, and what is right there. All that is random follows from `draw`, which is the same
        for all objectives: each takes `key(draw, "its own word")`."""
        raise NotImplementedError

    def terms(self, network: Any, part: Part, x: Tensor | None) -> Iterator[tuple[str, Term]]:
        """The parts of the loss, by name; `x` is what the reader says of the places, None for who is `alone`."""
        raise NotImplementedError

    def counts(self, part: Part) -> dict[str, int]:
        """How many examples each term will have."""
        return {name: len(part.answers) for name in self.asks}

    def figures(self, means: Mapping[str, float]) -> dict[str, float]:  # noqa: ARG002
        """What else people want to know, from the means of the terms."""
        return {}

    def told(self, means: Mapping[str, float]) -> str:
        """The loss as people watch it while a model learns."""
        return f"loss {means[loss_of(next(iter(self.asks)))]:.3f}"

    def epoch_of_draw(self, epoch: int) -> int:
        """The epoch whose samples and draws an epoch has."""
        return epoch

    @classmethod
    def share(cls, options: Any) -> float:  # noqa: ARG003
        """About how many of a sample's places it asks about."""
        return 0.0


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """An objective by its name, as a recipe has it."""

    name: str
    weight: float = 1.0
    options: Any = None

    def __post_init__(self) -> None:
        if not 0 < self.weight < float("inf"):
            raise UsageError(f"a weight of {self.weight} for {self.name}", "Give a number above 0; 1 is usual.")

    @classmethod
    def said(cls, text: str) -> Self:
        """As people write it.

        >>> Chosen.said("mlm=0.5").weight
        0.5
        """
        name, equals, weight = text.partition("=")
        options = objective_called(name).options
        try:
            return cls(name=name, weight=float(weight) if equals else 1.0, options=options and options())
        except ValueError:
            raise UsageError(f"an objective {shortened(text)}", "Say it as NAME or NAME=WEIGHT.") from None


def classes_of(chosen: Sequence[Chosen]) -> list[type[Objective]]:
    """What was chosen, if it can be asked together."""
    found = [objective_called(each.name) for each in chosen]
    _require_compatible(found)
    return found


def require_able(chosen: Sequence[Chosen], network: Network, model: str, *, in_turn: bool = False) -> None:
    """Refuse a network that cannot answer. What is asked `in_turn` with something else may have it read another way
    than it does for that."""
    for each in classes_of(chosen):
        either = in_turn and ReadsEitherWay in network.abilities
        blind = each.causal and not (network.reader.causal or either)
        if blind or not network.abilities.issuperset(each.needs):
            lacks = "sees both sides of each word" if blind else "has nothing to answer with"
            raise UsageError(f"{each.title} for {model}, which {lacks}", "Choose another model, or another objective.")


class Together:
    """Objectives that are asked of the same samples in one pass."""

    def __init__(self, objectives: Sequence[Objective], weights: Sequence[float] = ()) -> None:
        self.objectives = tuple(objectives)
        self.weights = tuple(weights) or (1.0,) * len(self.objectives)
        _require_compatible(self.objectives)

    @classmethod
    def of(cls, chosen: Sequence[Chosen], tokenizer: Tokenizer, *, plain: bool = False) -> Self:
        """Those that a recipe names; `plain`, as held-out text is asked about."""
        made = []
        for each in chosen:
            objective = objective_called(each.name)
            made.append(objective(tokenizer, objective.plain if plain and objective.plain else each.options))
        return cls(made, [each.weight for each in chosen])

    @property
    def cut(self) -> Cut:
        return next((each.cut for each in self.objectives if each.cut is not None), Cut())

    @property
    def causal(self) -> bool:
        return any(each.causal for each in self.objectives)

    @property
    def first(self) -> Objective:
        """The one whose loss is looked at."""
        return self.objectives[0]

    def epoch_of_draw(self, epoch: int) -> int:
        return next((each.epoch_of_draw(epoch) for each in self.objectives if each.hides), epoch)

    def ask(self, sample: Sample, draw: int) -> list[Asked]:
        return [each.ask(sample, draw) for each in self.objectives]

    def terms(self, network: Any, batch: Batch) -> dict[str, Term]:
        """All losses of a batch, by name."""
        parts = [batch.part(each.name) for each in self.objectives]
        given: Sequence[Tensor | None] = [None] if self.first.alone else _read(network, batch, parts)
        return {
            name: term if weight == 1.0 else replace(term, weight=weight * term.weight)
            for each, weight, part, x in zip(self.objectives, self.weights, parts, given, strict=True)
            for name, term in each.terms(network, part, x)
        }

    def figures(self, means: Mapping[str, float]) -> dict[str, float]:
        return {name: value for each in self.objectives for name, value in each.figures(means).items()}

    def loss(self, means: Mapping[str, float]) -> float:
        """The one that is looked at: of the first term of the first objective. Where others had all the turns, theirs
        are all there is."""
        return means.get(loss_of(next(iter(self.first.asks))), means["loss"])

    def told(self, means: Mapping[str, float]) -> str:
        """The same as people watch it."""
        asked = loss_of(next(iter(self.first.asks))) in means
        return self.first.told(means) if asked else f"loss {means['loss']:.3f}"

    def score(self, means: Mapping[str, float]) -> float | None:
        """By which the best checkpoint is known, lower is better; None if nothing says it."""
        return None if self.first.best is None or not means else self.loss(means)

    def facts(self) -> list[dict[str, Any]]:
        """For run.json: what was asked, and how the log calls it."""
        return [
            {"name": each.name, "title": each.title, "weight": weight, "terms": dict(each.asks), "best": each.best}
            for each, weight in zip(self.objectives, self.weights, strict=True)
        ]


def _require_compatible(objectives: Sequence[Objective | type[Objective]]) -> None:
    names = [each.name for each in objectives]
    if not objectives:
        raise UsageError("nothing is asked of the model", "Name an objective.")
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UsageError(f"{twice} is asked for twice", "Name each objective once.")
    both = ", ".join(names)
    if len(objectives) > 1 and (alone := next((each for each in objectives if each.alone), None)):
        raise UsageError(f"{both} together", f"{alone.name} reads by itself: ask nothing beside it.")
    if sum(each.hides for each in objectives) > 1:
        raise UsageError(f"{both} together", "More than one of them changes what the model sees: choose one.")
    if len({each.cut for each in objectives if each.cut is not None}) > 1:
        raise UsageError(f"{both} together", "They are asked of different samples: choose one.")


def _read(network: Any, batch: Batch, parts: Sequence[Part]) -> Sequence[Tensor]:
    """What the reader says of each part's places, in one pass. A place may be asked for more than once."""
    import torch

    places, sizes = torch.cat([part.places for part in parts]), [len(part.places) for part in parts]
    if batch.distinct:
        return torch.split(network.reader.read(batch, places), sizes)
    places, at = torch.unique(places, return_inverse=True)
    return torch.split(network.reader.read(batch, places)[at], sizes)


_HOMES = {"mlm": "words", "clm": "words", "nsp": "pairs", "sop": "pairs", "rtd": "rtd"} | dict.fromkeys(
    ("bilm", "lm", "lm-right"), "bilm"
)
"""Where those lie that come with the package: opened when they are asked for, with torch."""
_registered: dict[str, type[Objective]] = {}


def register(objective: type[Objective]) -> type[Objective]:
    """Make an objective known by its name, to recipes and the command line."""
    known = _registered.setdefault(objective.name, objective)
    if (known.__module__, known.__qualname__) != (objective.__module__, objective.__qualname__):
        raise ValueError(f"an objective is called {objective.name} already: {known.__module__}.{known.__qualname__}")
    return objective


OBJECTIVES = Table(_registered, opener("bertkit.objectives", register))
"""Those that are open."""


def objectives_known() -> list[str]:
    return [*_HOMES, *(name for name in OBJECTIVES if name not in _HOMES)]


def objective_called(name: str) -> type[Objective]:
    if name in _HOMES:
        importlib.import_module(f"bertkit.objectives.{_HOMES[name]}")
    if name not in OBJECTIVES:
        known = objectives_known()
        raise UsageError(
            f"no objective is called {shortened(name)}", f"{nearest(name, known)} There are: {', '.join(known)}."
        )
    return OBJECTIVES[name]
