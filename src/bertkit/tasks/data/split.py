"""A dev set cut from the training data where none is given, and rows that are in both where one is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

from bertkit.errors import InputError

E = TypeVar("E")
FEWEST = 10


def split(
    examples: Sequence[E],
    share: float,
    seed: int,
    *,
    kind: Callable[[E], Hashable] | None = None,
    family: Callable[[E], Hashable] | None = None,
) -> tuple[list[E], list[E]]:
    """Training and dev examples, each in the order they had.

    With `kind`, such as the label, every kind has its share in both; kinds that are there once stay in training. With
    `family`, such as the passage that a question is about, families stay together.
    """
    from sklearn.model_selection import GroupShuffleSplit, train_test_split

    if len(examples) < FEWEST:
        raise InputError(f"{len(examples)} examples are too few to hold some out", "Give --dev FILE, or more examples.")
    numbers = list(range(len(examples)))
    if family is not None:
        families = {name: number for number, name in enumerate(dict.fromkeys(map(family, examples)))}
        if len(families) < 2:
            raise InputError("all examples belong together, so none can be held out", "Give --dev FILE.")
        groups = [families[family(example)] for example in examples]
        parts = GroupShuffleSplit(1, test_size=share, random_state=seed).split(numbers, groups=groups)
        held_out = next(parts)[1].tolist()
    elif kind is not None:
        kinds = [kind(example) for example in examples]
        times = Counter(kinds)
        common = [number for number in numbers if times[kinds[number]] > 1]
        if not common:
            raise InputError("every label is there once, so there is nothing to learn", "Is that the right column?")
        wanted = max(1, round(share * len(common)))
        labels = [str(kinds[number]) for number in common]
        few = len(set(labels)) > min(wanted, len(common) - wanted)  # for some of each kind
        _, held_out = train_test_split(common, test_size=wanted, stratify=None if few else labels, random_state=seed)
    else:
        _, held_out = train_test_split(numbers, test_size=share, random_state=seed)
    chosen = set(held_out)
    return [examples[n] for n in numbers if n not in chosen], [examples[n] for n in sorted(chosen)]


def in_both(train: Sequence[E], dev: Sequence[E], content: Callable[[E], Hashable]) -> int:
    """How many dev examples are in the training data too."""
    seen = {content(example) for example in train}
    return sum(content(example) in seen for example in dev)
