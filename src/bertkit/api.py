"""The commands as functions: what can be said of them is what can be said on the command line, by the same names, with
the same defaults, display and errors; docs/options.md has all of it.

bertkit.pretrain("shards", out="run", steps=1000, learning_rate=1e-3)
# is: bertkit pretrain shards --out run --steps 1000 --learning-rate 1e-3

With `quiet=True` nothing is said on the way.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bertkit.errors import UsageError, shortened

if TYPE_CHECKING:
    from bertkit.corpus.folder import CorpusFolder

Place = str | os.PathLike[str]


def prepare(*inputs: Place, out: Place | None = None, quiet: bool = False, **settings: Any) -> CorpusFolder:
    """Raw text to a corpus: files, folders, patterns; the corpus, open."""
    from bertkit.cli.options import quietly
    from bertkit.cli.prepare import Preparing, prepared

    asked = Preparing.of(inputs=_texts(inputs), out=out, **settings)
    with quietly(quiet):
        return prepared(asked)


def pretrain(
    shards: Place | None = None,
    *,
    out: Place | None = None,
    resume: Place | None = None,
    quiet: bool = False,
    **settings: Any,
) -> dict[str, Any]:
    """A corpus to a pretrained model, or on with a run that was stopped: where the model is, and its losses on text
    that was held out."""
    from bertkit.cli.options import quietly
    from bertkit.cli.pretrain import pretrained
    from bertkit.train.schemas import Pretraining

    asked = Pretraining.of(shards=shards, out=out, resume=resume, **settings)
    with quietly(quiet):
        return pretrained(asked)


def finetune(
    task: str = "",
    train: Place = "",
    *,
    start: Place | None = None,
    out: Place | None = None,
    quiet: bool = False,
    **settings: Any,
) -> dict[str, Any]:
    """Labelled examples and a pretrained model, `start`, to a model for a task, or on with what was stopped: where it
    is, its metrics, how sure they are, and what simpler ways come to."""
    from bertkit.cli.finetune import facts_of, finetuned
    from bertkit.cli.options import quietly
    from bertkit.train.schemas import FineTuning

    asked = FineTuning.of(task=task, train=str(train), start=start and str(start), out=out, **settings)
    with quietly(quiet):
        return facts_of(finetuned(asked))


def evaluate(model: Place, source: Place, *, quiet: bool = False, **settings: Any) -> dict[str, Any]:
    """How good a fine-tuned model is on labelled examples: `metrics`, and of a classifier the `confusion`."""
    from bertkit.cli.evaluate import Evaluating, measured
    from bertkit.cli.options import quietly

    asked = Evaluating.of(model=str(model), source=str(source), **settings)
    with quietly(quiet):
        return measured(asked)[1]


def compare(*inputs: Place, out: Place, quiet: bool = False, **settings: Any) -> dict[str, Any]:
    """Several models on the same text and tasks: what comparison.json holds, or with `plan=True` what would be done."""
    from bertkit.cli.compare import compared, require_all
    from bertkit.cli.options import quietly
    from bertkit.train.schemas import Comparing

    asked = Comparing.of(inputs=_texts(inputs), out=out, **settings)
    with quietly(quiet):
        facts = compared(asked)
    if not asked.plan:
        require_all(facts["contestants"])
    return facts


def register(what: Any) -> Any:
    """A family, an objective or a task from outside: from now on it is like those that are here. Gives it back, so that
    it can stand over a class."""
    from bertkit import families, objectives, tasks
    from bertkit.tasks.task import Task

    if isinstance(what, families.Family):
        families.register(what)
        return what
    if isinstance(what, type) and issubclass(what, objectives.Objective):
        return objectives.register(what)
    if isinstance(what, type) and issubclass(what, Task):
        return tasks.register(what)
    raise UsageError(f"{shortened(what)} cannot be registered", "Give a family, an objective or a task.")


def _texts(inputs: tuple[Place, ...]) -> tuple[str, ...]:
    return tuple(os.fspath(Path(each)) for each in inputs)
