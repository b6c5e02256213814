"""What each task has of its own to be told: the columns of its parts, and its options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, make_dataclass
from typing import Any

from bertkit.settings import Settings, option
from bertkit.tables.reading import FILE
from bertkit.tasks import all_tasks_but

TASK = "the task"


@dataclass(frozen=True, kw_only=True)
class _Texts(Settings):
    pair_column: str | None = option(
        None, "The column with the second text, if there is one.", old="--pair", group=FILE
    )
    long: str | None = option(
        None, "Texts longer than the model: head-tail, windows, head or error.", usual="head-tail", group=TASK
    )
    both_orders: bool = option(False, "Read each pair in both orders, as GPT does.", group=TASK)


@dataclass(frozen=True, kw_only=True)
class ClassifyOptions(_Texts):
    multi_label: bool = option(False, "A text may have several labels, a|b or a list.", group=TASK)
    class_weights: bool = option(False, "Rare labels count more.", group=TASK)


@dataclass(frozen=True, kw_only=True)
class RegressOptions(_Texts):
    score_column: str | None = option(None, "The column with the number.", old="--score", group=FILE)


@dataclass(frozen=True, kw_only=True)
class TagOptions(Settings):
    crf: bool = option(False, "Judge neighbouring tags together.", group=TASK)


@dataclass(frozen=True, kw_only=True)
class QaOptions(Settings):
    question_column: str | None = option(
        None,
        "The column with the question; `text_column` is the passage, `label_column` the answers.",
        old="--question",
        group=FILE,
    )


@dataclass(frozen=True, kw_only=True)
class ChoiceOptions(Settings):
    endings: str | None = option(None, "The columns with the endings, as a,b,c.", group=FILE)
    first_ending: int | None = option(
        None, "The number of the first ending.", least=0, most=1, usual="as the examples show", group=TASK
    )


@dataclass(frozen=True, kw_only=True)
class EmbedOptions(Settings):
    pair_column: str | None = option(None, "The column with the second text.", old="--pair", group=FILE)
    score_column: str | None = option(
        None, "The column with the number for how alike they are; or none.", old="--score", group=FILE
    )
    negative_column: str | None = option(
        None, "The column with a text that does not belong to the first.", old="--negative", group=FILE
    )


OPTIONS: Mapping[str, type[Settings]] = {
    "classify": ClassifyOptions,
    "regress": RegressOptions,
    "tag": TagOptions,
    "qa": QaOptions,
    "choice": ChoiceOptions,
    "embed": EmbedOptions,
}


def own_options() -> dict[str, type[Settings]]:
    """Of every task that there is; one of another package has an option for the column of each of its parts."""
    return {**OPTIONS, **{kind.name: _with_columns(kind) for kind in all_tasks_but(OPTIONS)}}


def _with_columns(kind: Any) -> type[Settings]:
    columns: list[Any] = [
        (f"{part.name}_column", str | None, option(None, f"The column with the {part.name}.", group=FILE))
        for part in kind.parts
        if part.name not in ("text", "label")  # which all tasks have
    ]
    return make_dataclass(kind.options.__name__, columns, bases=(kind.options,), frozen=True, kw_only=True)
