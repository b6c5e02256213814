"""What a task is: ten methods and data. What an example has, what a user may choose, its head, how it is measured.

A task never sees a model, only what the model's head gives: so it runs on any reader.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, ClassVar, Generic, TypeVar

from torch import Tensor

from bertkit.errors import UsageError
from bertkit.nn.fine_tuned import FineTuned
from bertkit.nn.inputs import lay_out
from bertkit.objectives.terms import Term
from bertkit.settings import Settings, read_record
from bertkit.tasks.data import Begun, Encoded, Features, Given, Head, Measure, Part, Rows, TaskBatch, Ties, Unit
from bertkit.tasks.findings import Answers, Findings
from bertkit.text.tokenizer import Tokenizer

E = TypeVar("E")
T = TypeVar("T", bound="Task[Any]")


@dataclass(frozen=True, kw_only=True)
class Task(ABC, Generic[E]):
    """All about a task, and what it needs to be told of one model: its labels, its lengths. Its fields are what a model
    folder keeps."""

    max_length: int = 512
    said: tuple[str, ...] = field(default=(), metadata={"kept": False})
    """Which of its fields a user has said of it, whatever the folder has."""

    name: ClassVar[str]
    parts: ClassVar[tuple[Part, ...]]
    """What an example has. From these come columns of tables, fields of requests and those of the page's form."""
    usual_format: ClassVar[str] = ""
    """Of a file whose name does not say what it is."""
    together: ClassVar[Any] = None
    """What is made of all labelled examples of a file together: from these, its Reading, its BadRows and a list for
    notes."""
    options: ClassVar[type[Settings]] = Settings
    """What a user may choose in training: a frozen dataclass."""
    at_use: ClassVar[Mapping[str, str]] = {}
    """What a user may say of a model that is there, and which field that is."""
    usual_length: ClassVar[int] = 512
    """So many tokens are read at once unless the user says otherwise, or the model can read fewer."""
    in_windows: ClassVar[bool] = False
    """Whether no more than usual is read at once though the model could, because the rest is read in windows."""
    whole_batches: ClassVar[bool] = False
    """Whether the loss compares the examples of a batch, so that all of them must be in one pass."""
    has_head: ClassVar[bool] = True
    writes: ClassVar[bool] = False
    """Whether its answers are texts that are written word by word."""
    start: ClassVar[Callable[..., Any] | None] = None
    """start(request, folder): what is fine-tuned for it, where that is not simply the model that a user names: a
    folder, and the request as it is then. `folder` is a place for it."""
    answers_untrained: ClassVar[bool] = False
    """Whether the model has answers before it is trained, which the trained one must beat."""

    @classmethod
    @abstractmethod
    def read(cls, value: Any, place: str) -> E:
        """One example: a row's parts by their names, or an input as Python has it, without what is right."""

    @classmethod
    @abstractmethod
    def begin(cls, examples: Sequence[E], options: Any, longest: int) -> Begun:
        """The task with the labels that the training examples have."""

    def meet(self, examples: Sequence[E], *, held_out: bool = False) -> Begun:
        """The task as these examples can be measured on, with the metrics and the answers that suit them; those that
        it cannot be measured on, with labels that training never saw, are refused. Of examples that are `held_out` in
        training, nothing needs to be said that was said of those that it learns from."""
        return Begun(self, [])

    @property
    @abstractmethod
    def head(self) -> Head: ...

    @property
    @abstractmethod
    def measure(self) -> Measure: ...

    @abstractmethod
    def ties(self, example: E) -> Ties: ...

    @abstractmethod
    def encode(self, examples: Sequence[E], tokenizer: Tokenizer, learned: int = 0) -> Encoded:
        """What is read for each. So many of them, the first, are `learned` from."""

    @abstractmethod
    def targets(self, features: Sequence[Features], numbers: Sequence[int], firsts: Tensor) -> dict[str, Tensor]: ...

    @abstractmethod
    def term(self, given: Given[Tensor], batch: TaskBatch) -> Term: ...

    def counted(self, units: Sequence[Unit]) -> int:
        """How many things the loss of some units is the sum over."""
        return len(units)

    @abstractmethod
    def answers(self, examples: Sequence[E], units: Sequence[Unit], given: Rows) -> Iterator[dict[str, Any]]:
        """What the model says of examples, fit for JSON: from the scores of each of their features."""

    @abstractmethod
    def metrics(self, examples: Sequence[E], answers: Answers) -> dict[str, float]: ...

    @abstractmethod
    def findings(self, examples: Sequence[E], answers: Answers, train: Sequence[E] = (), batch: int = 1) -> Findings:
        """What the answers to the examples that are measured on show. Without those of training, in batches of so many,
        only what is told of any examples: which classes were taken for which, and what would do better."""


def batch_of(task: Task[Any], units: Sequence[Unit], *, packed: bool, pad_id: int) -> TaskBatch:
    """Long sequences first, so that those of one length are neighbours."""
    numbered = [(number, features) for number, unit in enumerate(units) for features in unit]
    numbered.sort(key=lambda pair: -len(pair[1].ids))
    features = tuple(each for _, each in numbered)
    numbers = tuple(number for number, _ in numbered)
    laid = lay_out([(each.ids, each.segments) for each in features], packed=packed, pad_id=pad_id)
    targets = task.targets(features, numbers, laid.firsts)
    given = tuple(each.given or len(each.ids) for each in features) if task.writes else None
    its = {**vars(laid), "given": given}
    return TaskBatch(**its, features=features, numbers=numbers, targets=targets, examples=len(units))


def told(task: T, **said: Any) -> T:
    """The task as a user wants it; what is None stays as it is."""
    values = {}
    for name, value in said.items():
        if value is None:
            continue
        if name not in task.at_use:
            raise UsageError(
                f"`{name}` with a model for {task.name}",
                f"Such a model can be told {', '.join(f'`{each}`' for each in task.at_use) or 'nothing'}.",
            )
        values[task.at_use[name]] = value
    return replace(task, **values, said=(*task.said, *values)) if values else task


def finished(task: Task[Any], model: FineTuned) -> Task[Any]:
    """The task as a model folder keeps it, after training."""
    finish = task.head.finish
    return task if finish is None else finish(model)


def facts_of(task: Task[Any]) -> dict[str, Any]:
    """What a model folder has to keep of the task, as JSON."""
    kept = {each.name for each in fields(task) if each.metadata.get("kept", True)}
    lists = {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(task).items()}
    return {name: value for name, value in lists.items() if name in kept}


def task_from(kind: type[T], facts: object) -> T:
    """The task that a model folder keeps. Of a model by others only the most that it can read is known."""
    if kind.in_windows and isinstance(facts, Mapping) and facts.keys() == {"max_length"}:
        facts = {"max_length": min(kind.usual_length, facts["max_length"])}
    return read_record(kind, facts, f"what is kept of {kind.name}")
