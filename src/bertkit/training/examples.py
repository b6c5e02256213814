"""What was asked for of a fine-tuning, and the examples for it: read, checked and split before a model is loaded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

from bertkit.errors import InputError, UsageError
from bertkit.tasks import task_called
from bertkit.tasks.data.split import alike, in_both, split
from bertkit.tasks.task import Reading, Task, Unit
from bertkit.text.tokenizer import Tokenizer
from bertkit.training.fit import FitSettings, check_batch

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

    def __post_init__(self) -> None:
        settings = FitSettings(**self.change)  # what cannot be is refused before anything is read
        check_batch(task_called(self.task), settings.batch)
        if self.seeds < 1:
            raise UsageError(f"{self.seeds} seeds", "Give 1 or more.")
        if not 0 <= self.seed <= LARGEST_SEED - self.seeds:
            raise UsageError(f"a seed of {self.seed}", f"Give one from 0 to {LARGEST_SEED - self.seeds:,}.")
        if not 0 < self.dev_share < 1:
            raise UsageError(f"a dev share of {self.dev_share}", "It must be between 0 and 1.")


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
    labelled = train = list(kind.read(request.train, replace(request.reading, on_columns=columns.update), notes))
    if not train:
        raise InputError(f"{request.train} has no examples")
    task = kind.for_examples(train, max_length=max_length, **request.options)
    if request.dev is not None:
        reading = replace(request.reading, remembered=columns, labels=task.labels)
        dev = list(kind.read(request.dev, reading, notes))
    else:
        train, dev = _held_out(task, train, request, notes)
    task.check(dev)
    task = task.measured_on(dev)
    notes += task.remarks(labelled)
    if twice := in_both(train, dev, kind.content):
        notes.append(
            f"{twice:,} of the {len(dev):,} dev examples are in the training data too, so the score is too good"
        )
    return Examples(task, train, dev, columns)


def _held_out(
    task: Task[Any], examples: list[Any], request: FinetuneRequest, notes: list[str]
) -> tuple[list[Any], list[Any]]:
    by_kind = task.kinds(examples[0]) is not None
    by_family = task.family(examples[0]) is not None
    train, dev = split(
        examples,
        request.dev_share,
        request.seed,
        kinds=(lambda example: task.kinds(example) or ()) if by_kind else None,
        family=task.family if by_family else None,
        same=task.content,
        source=request.train,
    )
    how = ", what belongs together on one side" if by_family else ""
    if by_kind:
        several = any(len(task.kinds(example) or ()) > 1 for example in examples)
        how = f", each label with {'about ' if several else ''}its share"
        if uneven := "; ".join(_without_their_share(task, examples, dev, request.dev_share)):
            how = f", labels by their share: {uneven}"
    if not by_family and len({alike(task.content(example)) for example in examples}) < len(examples):
        how += ", what is there twice on one side"
    notes.append(f"no --dev: {len(dev):,} of {len(examples):,} examples are held out{how}")
    return train, dev


def _without_their_share(task: Task[Any], examples: Sequence[Any], dev: Sequence[Any], share: float) -> Iterator[str]:
    """Of which labels none are held out, or by far too few; the commonest is named."""
    everywhere, held_out = (
        Counter(kind for example in its for kind in task.kinds(example) or ()) for its in (examples, dev)
    )
    if rare := sum(not held_out[kind] and share * count < RARE for kind, count in everywhere.items()):
        yield f"{rare:,} of {len(task.labels):,} are too rare to have one"
    for kind, count in everywhere.most_common():
        if share * count >= RARE and (not held_out[kind] or held_out[kind] + 1 < share * count / 2):
            yield f"of {kind!r} {f'only {held_out[kind]:,}' if held_out[kind] else 'none'} of {count:,}"
            return


def not_understood(examples: Examples, encoded: Sequence[Unit], tokenizer: Tokenizer) -> Iterator[str]:
    """What the model does not read whole, and what it can make nothing of."""
    task, both = examples.task, [*examples.train, *examples.dev]
    cut = [example for example, its in zip(both, encoded, strict=True) if not all(each.whole for each in its)]
    if cut:
        longest = max(cut, key=lambda example: len(repr(task.content(example))))
        yield (
            f"{len(cut):,} of {len(both):,} examples are longer than {task.max_length} tokens and are not read whole"
            f" (classify, regress: see --long); the longest is in {longest.place}"
        )
    yield from task.out_of_reach(both, encoded)
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
