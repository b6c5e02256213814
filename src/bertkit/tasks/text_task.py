"""What the tasks about a whole text, or a pair of them, have in common."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, ClassVar

from bertkit.tasks.data.texts import TextExample, example_of
from bertkit.tasks.task import Task


class TextTask(Task[TextExample]):
    architecture: ClassVar[str] = "BertForSequenceClassification"
    may_be_told: ClassVar[tuple[str, ...]] = ("long",)

    @classmethod
    def example(cls, value: Any, place: str) -> TextExample:
        return example_of(value, place)

    @staticmethod
    def content(example: TextExample) -> Hashable:
        return example.text, example.pair
