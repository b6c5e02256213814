"""Fine-tuning takes the steps that plain AdamW takes on transformers' classes: the same weights come of both.

Without dropout, and with all examples in each batch so that their order is nothing, there is nothing left to chance.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
import transformers
from torch import Tensor, nn

from bertkit.hub import ModelFolder, load_fine_tuned, save_fine_tuned
from bertkit.tables import TextExample
from bertkit.tasks import Answer, ChoiceExample, Features, QaExample, TagExample, Unit, task_called
from bertkit.text import Tokenizer
from bertkit.train import FitSettings, Schedule
from bertkit.train.fit import fit
from fitting import WORDS, begun, sentences, small

SETTINGS = FitSettings(epochs=6, batch=16, learning_rate=5e-4)
NOT_ASKED = -100
WORD_ROWS = "bert.encoder.embeddings.word.weight"


class Case(NamedTuple):
    """How a task's examples are made of sentences, and what its reference is told to be right."""

    examples: Callable[[list[TextExample]], list[Any]]
    targets: Callable[[Any, list[Unit]], dict[str, Tensor]]


def numbered(texts: list[TextExample]) -> list[TextExample]:
    return [example._replace(right=number / 7) for number, example in enumerate(texts)]


def tagged(texts: list[TextExample]) -> list[TagExample]:
    """As many words each: here every sentence counts the same, there every word."""
    words = [tuple(example.text.split()[:5]) for example in texts]
    tags = [tuple("B-x" if len(word) % 2 else "O" for word in its) for its in words]
    return [TagExample(str(n), *both) for n, both in enumerate(zip(words, tags, strict=True))]


def asked(texts: list[TextExample]) -> list[QaExample]:
    """All of one length: the reference lets padding take part in its softmax."""
    passage = texts[0].text
    starts = [passage.index(word) for word in passage.split()]
    answers = [Answer(word, start) for word, start in zip(passage.split(), starts, strict=True)]
    return [QaExample(str(n), str(n), WORDS[n % 2], passage, (answers[n % len(answers)],)) for n, _ in enumerate(texts)]


def with_endings(texts: list[TextExample]) -> list[ChoiceExample]:
    endings = tuple(f"{word} it is" for word in WORDS)
    return [ChoiceExample(str(n), each.text, endings, n % len(endings)) for n, each in enumerate(texts)]


def labels_of(_: Any, units: list[Unit]) -> dict[str, Tensor]:
    return {"labels": torch.tensor([each.about[0] for (each,) in units])}


def scaled_numbers(task: Any, units: list[Unit]) -> dict[str, Tensor]:
    return {"labels": torch.tensor([(each.about - task.mean) / task.deviation for (each,) in units])}


def tags_of(_: Any, units: list[Unit]) -> dict[str, Tensor]:
    labels = torch.full((len(units), longest(units)), NOT_ASKED)
    for row, (each,) in zip(labels, units, strict=True):
        row[torch.tensor(each.about.places)] = torch.tensor(each.about.tags)
    return {"labels": labels}


def spans_of(_: Any, units: list[Unit]) -> dict[str, Tensor]:
    firsts, lasts = torch.tensor([each.about.target for (each,) in units]).T
    return {"start_positions": firsts, "end_positions": lasts}


def right_endings(_: Any, units: list[Unit]) -> dict[str, Tensor]:
    return {"labels": torch.tensor([unit[0].about[1] for unit in units])}


CASES = {
    "classify": Case(list, labels_of),
    "regress": Case(numbered, scaled_numbers),
    "tag": Case(tagged, tags_of),
    "qa": Case(asked, spans_of),
    "choice": Case(with_endings, right_endings),
}


@pytest.mark.parametrize("name", CASES)
def test_a_fit_ends_where_plain_adamw_does(english: list[str], tokenizer: Tokenizer, tmp_path: Path, name: str):
    case, kind = CASES[name], task_called(name)
    examples = case.examples(sentences(english, SETTINGS.batch))
    task = begun(kind, examples, max_length=48)
    model = small(tokenizer, task)
    save_fine_tuned(tmp_path / "start", model, task, tokenizer, metrics={}, provenance={})
    theirs = getattr(transformers, task.head.hugging_face).from_pretrained(tmp_path / "start")
    units = task.encode(examples, tokenizer).to_learn()
    assert len(units) == SETTINGS.batch, "no example has several windows"
    start = {key: tensor.clone() for key, tensor in model.state_dict().items()}

    fit(model, task, units, None, SETTINGS, seed=0, pad_id=tokenizer.pad_id)
    plain_adamw(theirs, {**inputs_of(units, tokenizer.pad_id), **case.targets(task, units)})

    theirs.save_pretrained(tmp_path / "theirs")
    tokenizer.save(tmp_path / "theirs")
    expected = load_fine_tuned(ModelFolder(tmp_path / "theirs")).model.state_dict()
    used = torch.tensor(sorted({token for each in chain(*units) for token in each.ids}))
    # Not the biases: of some the gradient is 0, since they add the same to all scores, and Adam scales up its rounding.
    for key in (key for key, tensor in start.items() if tensor.ndim > 1):
        rows = used if key == WORD_ROWS else slice(None)  # others only decay there, and here they stay
        way = model.state_dict()[key][rows] - start[key][rows]
        apart = model.state_dict()[key][rows] - expected[key][rows]
        assert way.abs().max() > 1e-3, f"{key} has not learned"
        assert apart.norm() < 0.01 * way.norm(), f"{key} went another way"


def plain_adamw(model: nn.Module, batch: dict[str, Tensor]) -> None:
    matrices = [each for each in model.parameters() if each.ndim > 1]
    others = [each for each in model.parameters() if each.ndim <= 1]
    groups = [
        {"params": matrices, "weight_decay": SETTINGS.weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups)
    schedule = Schedule(warmup=SETTINGS.warmup, decay=1 - SETTINGS.warmup)
    model.train()
    for step in range(SETTINGS.epochs):
        optimizer.zero_grad()
        model(**batch).loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), SETTINGS.clip)
        for group in optimizer.param_groups:
            group["lr"] = SETTINGS.learning_rate * schedule.factor(step, SETTINGS.epochs)
        optimizer.step()


def inputs_of(units: list[Unit], pad_id: int) -> dict[str, Tensor]:
    """Padded to the longest; where a unit has several sequences, side by side as the reference wants its choices."""

    def padded(values: Callable[[Features], list[int]], fill: int) -> Tensor:
        rows = [[*values(each), *[fill] * (longest(units) - len(each.ids))] for each in chain(*units)]
        together = torch.tensor(rows)
        return together if len(units[0]) == 1 else together.view(len(units), len(units[0]), -1)

    return {
        "input_ids": padded(lambda each: list(each.ids), pad_id),
        "token_type_ids": padded(lambda each: list(each.segments), 0),
        "attention_mask": padded(lambda each: [1] * len(each.ids), 0),
    }


def longest(units: list[Unit]) -> int:
    return max(len(each.ids) for each in chain(*units))
