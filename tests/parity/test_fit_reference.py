"""Fine-tuning takes the steps that plain AdamW takes on transformers' classes: the same weights come of both.

Without dropout, and with all examples in each batch so that their order is nothing, there is nothing left to chance.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from transformers import BertForSequenceClassification, BertForTokenClassification

from bertkit.interop.fine_tuned import load_fine_tuned, save_fine_tuned
from bertkit.interop.folder import ModelFolder
from bertkit.tasks.classify import Classify
from bertkit.tasks.data.texts import TextExample
from bertkit.tasks.regress import Regress
from bertkit.tasks.tag import Tag, TagExample
from bertkit.tasks.task import Task, Unit
from bertkit.text.tokenizer import Tokenizer
from bertkit.training.fit import FitSettings, fit
from bertkit.training.schedules import Schedule
from fitting import sentences, small

SETTINGS = FitSettings(epochs=6, batch=16, learning_rate=5e-4)
NOT_ASKED = -100


def numbered(examples: list[TextExample]) -> list[TextExample]:
    return [example._replace(right=number / 7) for number, example in enumerate(examples)]


def tagged(examples: list[TextExample]) -> list[TagExample]:
    """As many words each: here a sentence's mean counts, there that of all words."""
    words = [tuple(example.text.split()[:5]) for example in examples]
    tags = [tuple("B-x" if len(word) % 2 else "O" for word in its) for its in words]
    return [TagExample(str(n), *both) for n, both in enumerate(zip(words, tags, strict=True))]


CASES: dict[str, tuple[Any, Any, Any]] = {
    "classify": (Classify, BertForSequenceClassification, list),
    "regress": (Regress, BertForSequenceClassification, numbered),
    "tag": (Tag, BertForTokenClassification, tagged),
}


@pytest.mark.parametrize("name", CASES)
def test_a_fit_ends_where_plain_adamw_does(english: list[str], tokenizer: Tokenizer, tmp_path: Path, name: str):
    kind, their_class, made_of = CASES[name]
    examples = made_of(sentences(english, SETTINGS.batch))
    task = kind.for_examples(examples, max_length=32)
    model = small(tokenizer, task)
    save_fine_tuned(tmp_path / "start", model, task, tokenizer, metrics={}, provenance={})
    theirs = their_class.from_pretrained(tmp_path / "start")
    before = theirs.classifier.weight.detach().clone()
    encoded = task.encode(examples, tokenizer)
    units = [unit for features in encoded for unit in task.units(features)]

    fit(model, task, units, None, SETTINGS, seed=0, pad_id=tokenizer.pad_id)
    plain_adamw(theirs, as_their_batch(task, units, tokenizer.pad_id))

    theirs.save_pretrained(tmp_path / "theirs")
    tokenizer.save(tmp_path / "theirs")
    expected = load_fine_tuned(ModelFolder(tmp_path / "theirs")).model.state_dict()
    assert (theirs.classifier.weight - before).abs().max() > 1e-3, "they learned"
    decayed_only = "bert.encoder.embeddings.word.weight"  # rows of words that no example has, which stay here
    used = torch.tensor(sorted({token for unit in units for each in unit for token in each.ids}))
    for key, ours in model.state_dict().items():
        both = (ours[used], expected[key][used]) if key == decayed_only else (ours, expected[key])
        torch.testing.assert_close(*both, rtol=0, atol=2e-5, msg=lambda told, key=key: f"{key}: {told}")


def plain_adamw(model: nn.Module, batch: dict[str, torch.Tensor]) -> None:
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


def as_their_batch(task: Task[Any], units: list[Unit], pad_id: int) -> dict[str, torch.Tensor]:
    rows = [features for (features,) in units]
    longest = max(len(row.ids) for row in rows)

    def padded(values: list[list[int]], fill: int) -> torch.Tensor:
        return torch.tensor([[*row, *[fill] * (longest - len(row))] for row in values])

    if task.name == "tag":
        tags = [[NOT_ASKED] * longest for _ in rows]
        for its, row in zip(tags, rows, strict=True):
            for place, tag in zip(row.about.places, row.about.tags, strict=True):
                its[place] = tag
        labels = torch.tensor(tags)
    elif isinstance(task, Regress):
        labels = torch.tensor([(row.about - task.mean) / task.deviation for row in rows])
    else:
        labels = torch.tensor([row.about[0] for row in rows])
    return {
        "input_ids": padded([list(row.ids) for row in rows], pad_id),
        "token_type_ids": padded([list(row.segments) for row in rows], 0),
        "attention_mask": padded([[1] * len(row.ids) for row in rows], 0),
        "labels": labels,
    }
