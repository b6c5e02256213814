"""What was asked for of a fine-tuning, and the examples for it: read, checked and split before a model is loaded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from typing import Any, Self

from bertkit.errors import UsageError
from bertkit.tables.reading import Reading
from bertkit.tables.split import alike, in_both, split
from bertkit.tasks import task_called
from bertkit.tasks.data import Encoded
from bertkit.tasks.parts import examples_in
from bertkit.tasks.task import Task
from bertkit.text.tokenizer import Tokenizer
from bertkit.train.fit import FitSettings, check_batch
from bertkit.train.parallel import WAYS
from bertkit.train.transfer import Transfer

RARE = 2
"""Of a label that has fewer to be held out, chance may hold out none."""
LARGEST_SEED = 2**32 - 1
"""That of scikit-learn's generators."""


@dataclass(frozen=True, kw_only=True)
class FinetuneRequest:
    """What the user asked for."""

    task: str
    train: str
    dev: str | None = None
    start: str
    """The pretrained model: a folder, or a name on the hub."""
    context: str | None = None
    """A model whose vectors stand beside those of the LSTM under the head."""
    also_on: tuple[str, ...] = ()
    """Unlabelled text to learn first, with that of the examples: as the model was pretrained."""
    from_scratch: bool = False
    """Of `start` only sizes and vocabulary, with random weights: to see what pretraining is worth."""
    reading: Reading = field(default_factory=Reading)
    dev_share: float = 0.1
    options: Mapping[str, Any] = field(default_factory=dict)
    """Of the task."""
    head: Mapping[str, Any] = field(default_factory=dict)
    """What the head has more: mix, lstm."""
    change: Mapping[str, Any] = field(default_factory=dict)
    """What of FitSettings shall not be as usual."""
    seeds: int = 1
    seed: int = 0
    max_length: int | None = None
    """Tokens that the model reads at once."""
    hours: float | None = None
    """How long to learn, with all seeds, instead of a number of epochs."""
    parallel: str = "ddp"
    save_seconds: float = 300.0
    """How old the newest checkpoint may become. What takes less writes none."""

    def __post_init__(self) -> None:
        settings = FitSettings(**self.change)  # what cannot be is refused before anything is read
        check_batch(task_called(self.task), settings.batch)
        if self.seeds < 1:
            raise UsageError(f"{self.seeds} seeds", "Give 1 or more.")
        if not 0 <= self.seed <= LARGEST_SEED - self.seeds:
            raise UsageError(f"a seed of {self.seed}", f"Give one from 0 to {LARGEST_SEED - self.seeds:,}.")
        if self.hours is not None and "epochs" in self.change:
            raise UsageError("both `hours` and `epochs` are given", "Give one of them.")
        if self.hours is not None and not 0 < self.hours < 24 * 366:
            raise UsageError(f"{self.hours} hours", "Give a time of more than 0 hours.")
        if self.parallel not in WAYS or (self.parallel == "fsdp" and settings.transfer.gradual):
            ways = f"There are: {', '.join(WAYS)}; fsdp not with `gradual=True`."
            raise UsageError(f"`parallel={self.parallel}`", ways)
        if self.also_on and self.from_scratch:
            raise UsageError("`also_on` of a model with random weights", "Leave one of them out.")
        if not 0 < self.dev_share < 1:
            raise UsageError(f"a dev share of {self.dev_share}", "It must be between 0 and 1.")

    def to_json(self) -> dict[str, Any]:
        values = asdict(self)
        values["reading"] = {name: its for name, its in values["reading"].items() if not name.startswith("on_")}
        return values

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        reading, change = dict(values["reading"]), dict(values["change"])
        for name in ("columns", "labels"):
            reading[name] = None if reading[name] is None else tuple(reading[name])
        if "transfer" in change:
            change["transfer"] = Transfer(**{**change["transfer"], "new": tuple(change["transfer"].get("new", ()))})
        known = {name: value for name, value in values.items() if name != "ignore_config_keys"}  # as was said once
        also_on = tuple(values.get("also_on", ()))
        return cls(**{**known, "reading": Reading(**reading), "change": change, "also_on": also_on})


@dataclass(frozen=True)
class Examples:
    """What is learned from and what is measured on."""

    task: Task[Any]
    train: list[Any]
    dev: list[Any]
    columns: dict[str, str]
    """Where the training data has the parts of an example, for the model to know them again."""


def read_examples(request: FinetuneRequest, max_length: int, notes: list[str]) -> Examples:
    """Read and check everything before a model is loaded."""
    kind = task_called(request.task)
    columns: dict[str, str] = {}
    reading = replace(request.reading, several=bool(request.options.get("multi_label")))
    train = list(examples_in(kind, request.train, replace(reading, on_columns=columns.update), notes))
    task, told = kind.begin(train, kind.options(**request.options), max_length)
    if request.dev is not None:
        reading = replace(reading, remembered=columns, labels=task.head.labels)
        dev = list(examples_in(kind, request.dev, reading, notes))
    else:
        train, dev = _held_out(task, train, request, notes)
    task, of_dev = task.meet(dev, held_out=True)
    notes += [*told, *of_dev]
    if twice := in_both(train, dev, lambda example: task.ties(example).content):
        notes.append(
            f"{twice:,} of the {len(dev):,} dev examples are in the training data too, so the score is too good"
        )
    return Examples(task, train, dev, columns)


def _held_out(
    task: Task[Any], examples: list[Any], request: FinetuneRequest, notes: list[str]
) -> tuple[list[Any], list[Any]]:
    ties = {id(example): task.ties(example) for example in examples}
    by_kind, by_family = (ties[id(examples[0])][part] is not None for part in (1, 2))
    train, dev = split(
        examples,
        request.dev_share,
        request.seed,
        kinds=(lambda example: ties[id(example)].labels or ()) if by_kind else None,
        family=(lambda example: ties[id(example)].family) if by_family else None,
        same=lambda example: ties[id(example)].content,
        source=request.train,
    )
    how = ", what belongs together on one side" if by_family else ""
    if by_kind:
        several = any(len(each.labels or ()) > 1 for each in ties.values())
        how = f", each label with {'about ' if several else ''}its share"
        if uneven := "; ".join(_without_their_share(task, examples, dev, request.dev_share)):
            how = f", labels by their share: {uneven}"
    if not by_family and len({alike(each.content) for each in ties.values()}) < len(examples):
        how += ", what is there twice on one side"
    notes.append(f"no `dev`: {len(dev):,} of {len(examples):,} examples are held out{how}")
    return train, dev


def _without_their_share(task: Task[Any], examples: Sequence[Any], dev: Sequence[Any], share: float) -> Iterator[str]:
    """Of which labels none are held out, or by far too few; the commonest is named."""
    everywhere, held_out = (
        Counter(kind for example in its for kind in task.ties(example).labels or ()) for its in (examples, dev)
    )
    if rare := sum(not held_out[kind] and share * count < RARE for kind, count in everywhere.items()):
        yield f"{rare:,} of {len(task.head.labels):,} are too rare to have one"
    for kind, count in everywhere.most_common():
        if share * count >= RARE and (not held_out[kind] or held_out[kind] + 1 < share * count / 2):
            yield f"of {kind!r} {f'only {held_out[kind]:,}' if held_out[kind] else 'none'} of {count:,}"
            return


def not_understood(examples: Examples, encoded: Encoded, tokenizer: Tokenizer) -> Iterator[str]:
    """What the model does not read whole, and what it can make nothing of."""
    task, both = examples.task, [*examples.train, *examples.dev]
    cut = [example for example, its in zip(both, encoded, strict=True) if not all(each.whole for each in its)]
    if cut:
        longest = max(cut, key=lambda example: len(repr(task.ties(example).content)))
        yield (
            f"{len(cut):,} of {len(both):,} examples are longer than {task.max_length} tokens and are not read whole"
            f" (classify, regress: see `long`); the longest is in {longest.place}"
        )
    yield from encoded.notes
    specials = {*chain(*tokenizer.frame), *([tokenizer.unk_id] if "unk" in tokenizer.specials else [])}
    unknown = [
        example
        for example, its in zip(both, encoded, strict=True)
        if all(specials.issuperset(each.ids) for each in its)
    ]
    if unknown:
        yield (
            f"{len(unknown):,} of {len(both):,} examples have nothing in them that the vocabulary knows, only [UNK];"
            f" the first is in {unknown[0].place}"
        )
