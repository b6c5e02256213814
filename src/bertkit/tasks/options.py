"""What each task has of its own to be told: the columns of its parts, and its options."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, make_dataclass
from typing import Any

from bertkit.settings import Settings, option, options_of
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


@dataclass(frozen=True, kw_only=True)
class GenerateOptions(Settings):
    target_column: str | None = option(None, "The column with the text that is to be written.", group=FILE)
    way: str | None = option(
        None,
        "two: an encoder and a decoder, both from the model; one: the model reads and writes.",
        usual="two; a GPT goes on",
        group=TASK,
    )
    decoder: str | None = option(None, "Another model for the decoder to begin from.", metavar="MODEL", group=TASK)
    share: bool = option(False, "Encoder and decoder have their weights in common.", group=TASK)
    model: str | None = option(
        None, "With `from_scratch`: transformer-tiny, -mini or -base, with a vocabulary of its own.", group=TASK
    )
    vocab_size: int = option(8000, "Of each side's vocabulary, where it is learned.", least=300, group=TASK)
    asks: str = option(
        "hidden",
        "One model: for hidden words, as it was pretrained, or next words.",
        choices=("hidden", "next"),
        group=TASK,
    )
    most: int | None = option(None, "Tokens to write at most.", least=2, usual="by the training data", group=TASK)
    long: str = option(
        "head",
        "Texts longer than the model: head, head-tail, windows or error.",
        choices=("head", "head-tail", "windows", "error"),
        group=TASK,
    )
    metric: str | None = option(
        None,
        "What decides: bleu, chrf or rouge.",
        choices=("bleu", "chrf", "rouge"),
        usual="rouge for summaries, else bleu",
        group=TASK,
    )
    smoothing: float = option(0.1, "Label smoothing.", least=0, most=0.9, group=TASK)
    beams: int = option(1, "Search for the likeliest text, following so many at once.", least=1, most=256, group=TASK)
    length_penalty: float = option(1.0, "Of beams: more than 1 favours longer texts.", group=TASK)
    no_repeat: int = option(0, "No so many tokens in a row are written twice; 0: any may be.", least=0, group=TASK)


OPTIONS: Mapping[str, type[Settings]] = {
    "classify": ClassifyOptions,
    "regress": RegressOptions,
    "tag": TagOptions,
    "qa": QaOptions,
    "choice": ChoiceOptions,
    "embed": EmbedOptions,
    "generate": GenerateOptions,
}


def own_options() -> dict[str, type[Settings]]:
    """Of every task that there is; one of another package has an option for the column of each of its parts."""
    return {**OPTIONS, **{kind.name: _with_columns(kind) for kind in all_tasks_but(OPTIONS)}}


def columns_beside(known: Collection[str]) -> type[Settings]:
    """Those that `finetune` can be told of any task, beside the known ones."""
    more: dict[str, Any] = {}
    for its in own_options().values():
        for name, about in options_of(its).items():
            if about.group == FILE and name not in known:
                more[name] = (name, str | None, option(None, about.help, group=FILE))
    return make_dataclass("Columns", more.values(), bases=(Settings,), frozen=True, kw_only=True)


def _with_columns(kind: Any) -> type[Settings]:
    columns: list[Any] = [
        (f"{part.name}_column", str | None, option(None, f"The column with the {part.name}.", group=FILE))
        for part in kind.parts
        if part.name not in ("text", "label")  # which all tasks have
    ]
    return make_dataclass(kind.options.__name__, columns, bases=(kind.options,), frozen=True, kw_only=True)
