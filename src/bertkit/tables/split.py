"""A dev set cut from the training data where none is given, and rows that are in both where one is."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Sequence
from hashlib import blake2b
from typing import TypeVar

import numpy as np

from bertkit.errors import InputError

E = TypeVar("E")
FEWEST = 10
NO_LABEL = ()
"""Stands for the labels of an example that has none."""


def split(
    examples: Sequence[E],
    share: float,
    seed: int,
    *,
    kinds: Callable[[E], Collection[Hashable]] | None = None,
    family: Callable[[E], Hashable] | None = None,
    same: Callable[[E], Hashable] | None = None,
    source: str = "the training data",
) -> tuple[list[E], list[E]]:
    """Training and dev examples, each in the order they had. `source` is where they are from, for messages.

    With `kinds`, such as the labels of an example, every kind has its share in both, as nearly as its number allows,
    and some of it is always in training. With `family`, such as the passage that a question is about, families stay
    together. With `same`, so do examples for which it gives the same, such as those with one text, if it can be; and so
    do families that share one. Of texts, case and white space make no difference for both.
    """
    from sklearn.model_selection import train_test_split

    if len(examples) < FEWEST:
        raise InputError(
            f"{source}: {len(examples)} examples are too few to hold some out", "Give `dev=FILE`, or more examples."
        )
    if family is not None:
        ties = (family,) if same is None else (family, same)
        families = _tied([[alike(tie(example)) for tie in ties] for example in examples])
        if len(families) < 2:
            raise InputError(f"{source}: all examples belong together, so none can be held out", "Give `dev=FILE`.")
        return _sides(examples, _whole_families(families, share * len(examples), seed))
    equal: dict[Hashable, list[int]] = {}
    for number, example in enumerate(examples):
        equal.setdefault(number if same is None else alike(same(example)), []).append(number)
    if len(equal) < 2:
        raise InputError(f"{source}: all examples are the same, so none can be held out", "Give `dev=FILE`.")
    # What is there more often than the dev set is large would make it something else.
    groups = [its for its in equal.values() if len(its) <= max(1, share * len(examples))]
    if kinds is not None:
        kinds_of = [tuple(dict.fromkeys(kinds(example))) or (NO_LABEL,) for example in examples]
        chosen = _groups_by_kinds(groups, kinds_of, share, seed)
        chosen = chosen or _groups_by_kinds(list(equal.values()), kinds_of, share, seed)
        # So few texts that one label would be lost: then on both sides, which is said of whatever is.
        chosen = chosen or _groups_by_kinds([[number] for number in range(len(examples))], kinds_of, share, seed)
        if not chosen:
            found = [kind for its in kinds_of for kind in its]
            once = len(set(found)) == len(found)
            raise InputError(
                f"{source}: every label is there once, so there is nothing to learn"
                if once
                else f"{source}: every example has a label that no other has, so none can be held out",
                "Is that the right column?" if once else "Give `dev=FILE`.",
            )
    else:
        groups = groups if len(groups) > 1 else list(equal.values())
        drawn = train_test_split(range(len(groups)), test_size=share, random_state=seed)[1]
        chosen = {number for group in drawn for number in groups[group]}
    return _sides(examples, chosen)


def _sides(examples: Sequence[E], chosen: Collection[int]) -> tuple[list[E], list[E]]:
    train = [example for number, example in enumerate(examples) if number not in chosen]
    return train, [examples[number] for number in sorted(chosen)]


def _tied(keys: Sequence[Sequence[bytes]]) -> list[list[int]]:
    """The numbers of examples in groups, so that what has a key in common, or is tied by others that do, is in one.

    >>> _tied([[b"a"], [b"b"], [b"b", b"c"], [b"c"], [b"a"]])
    [[0, 4], [1, 2, 3]]
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    numbers: dict[bytes, int] = {}
    columns = [numbers.setdefault(key, len(numbers)) for its in keys for key in its]
    rows = [row for row, its in enumerate(keys) for _ in its]
    size = len(keys) + len(numbers)
    edges = coo_array((np.ones(len(rows)), (rows, len(keys) + np.array(columns))), shape=(size, size))
    groups: dict[int, list[int]] = {}
    for row, group in enumerate(connected_components(edges, directed=False)[1][: len(keys)].tolist()):
        groups.setdefault(group, []).append(row)
    return list(groups.values())


def _whole_families(families: Sequence[Sequence[int]], wanted: float, seed: int) -> set[int]:
    """Families as they are drawn, as long as there is room for them: a large one stays in training. If there is room
    for none, the smallest. One is always left."""
    room = min(max(1, round(wanted)), sum(map(len, families)) - 1)
    chosen: set[int] = set()
    for family in np.random.default_rng(seed).permutation(len(families)).tolist():
        if len(chosen) + len(families[family]) <= room:
            chosen.update(families[family])
    smallest: Sequence[int] = min(families, key=len)
    return chosen or set(smallest)


def _groups_by_kinds(
    groups: Sequence[Sequence[int]], kinds: Sequence[tuple[Hashable, ...]], share: float, seed: int
) -> set[int]:
    """The numbers in the groups that are held out; a group has the kinds of all that is in it."""
    of_groups = [tuple(dict.fromkeys(kind for number in its for kind in kinds[number])) for its in groups]
    return {number for group in _by_kinds(of_groups, share, seed) for number in groups[group]}


def _by_kinds(kinds: Sequence[tuple[Hashable, ...]], share: float, seed: int) -> set[int]:
    """Iterative stratification (Sechidis et al., 2011): the rarest kind is dealt out first, since the others can make
    up for it later, each example to the side that lacks most of the kind; never all of a kind to dev."""
    order = np.random.default_rng(seed).permutation(len(kinds)).tolist()
    times = Counter(kind for number in order for kind in kinds[number])
    having: dict[Hashable, list[int]] = {}
    for number in order:
        for kind in kinds[number]:
            having.setdefault(kind, []).append(number)
    lacking = _shares(times, share)
    may_leave = {kind: count - 1 for kind, count in times.items()}
    left = dict(times)
    rank = {kind: number for number, kind in enumerate(times)}  # the order is drawn: it decides between equally rare
    rarest = [(count, rank[kind], kind) for kind, count in left.items()]
    heapq.heapify(rarest)
    chosen: set[int] = set()
    dealt: set[int] = set()
    while rarest:
        count, _, kind = heapq.heappop(rarest)
        if count != left[kind]:
            continue  # there is another entry for it, with the number that is left now
        for number in having[kind]:
            if number in dealt:
                continue
            dealt.add(number)
            its = kinds[number]
            held_out = 2 * lacking[kind] > left[kind] and all(may_leave[each] for each in its)
            for each in its:
                left[each] -= 1
                lacking[each] -= held_out
                may_leave[each] -= held_out
                if each != kind and left[each]:
                    heapq.heappush(rarest, (left[each], rank[each], each))
            if held_out:
                chosen.add(number)
    if not chosen:  # labels so rare that none of them has a share
        chosen.update([number for number in order if all(times[kind] > 1 for kind in kinds[number])][:1])
    return chosen


def _shares(times: Counter[Hashable], share: float) -> dict[Hashable, int]:
    """How many of each kind shall be held out: whole numbers in proportion (Webster's method), never all of a kind. So
    of many kinds too rare for a share of their own, some are held out and others are not, and their sum is right."""
    shares = dict.fromkeys(times, 0)
    claims = [(0.5 / count, number, kind) for number, (kind, count) in enumerate(times.items()) if count > 1]
    heapq.heapify(claims)
    for _ in range(max(1, round(share * sum(count for count in times.values() if count > 1)))):
        if not claims:
            break
        _, number, kind = heapq.heappop(claims)
        shares[kind] += 1
        if shares[kind] < times[kind] - 1:
            heapq.heappush(claims, ((shares[kind] + 0.5) / times[kind], number, kind))
    return shares


def alike(content: Hashable) -> bytes:
    """The same for texts, or tuples or sets of them, that differ in nothing but case and white space: a model that
    learned one knows the other. So short that it can be kept for each of many.

    >>> alike(("Good  value\\n", None)) == alike(("good value", None))
    True
    """
    return blake2b(_plain(content).encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _plain(content: Hashable) -> str:
    if isinstance(content, str):
        return " ".join(content.split()).lower()
    if isinstance(content, frozenset):
        return f"in any order {sorted(map(_plain, content))}"
    return repr([_plain(part) for part in content]) if isinstance(content, tuple) else repr(content)


def in_both(train: Sequence[E], dev: Sequence[E], content: Callable[[E], Hashable]) -> int:
    """How many dev examples are in the training data too."""
    seen = {alike(content(example)) for example in train}
    return sum(alike(content(example)) in seen for example in dev)
