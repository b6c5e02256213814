"""The reference that fine-tuning is compared with: transformers' Trainer and its classes, on the same sequences.

What is the same as in bertkit: the sequences of tokens, the weights at the start, the batch, the epochs, the highest
learning rate and the warm-up. What is the reference's own: the model, the loss, the optimizer (fused AdamW), the order,
the loop. Each batch is padded to its longest sequence.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_VERBOSITY"] = "error"

import torch
import transformers
from transformers.trainer_callback import PrinterCallback

from bertkit.hub import ModelFolder, load_fine_tuned
from bertkit.nn import FineTuned
from bertkit.tasks import Features, Task, Unit
from bertkit.text import Tokenizer
from bertkit.train import FitSettings

CLASSES = {
    "classify": transformers.BertForSequenceClassification,
    "regress": transformers.BertForSequenceClassification,
    "tag": transformers.BertForTokenClassification,
    "qa": transformers.BertForQuestionAnswering,
    "choice": transformers.BertForMultipleChoice,
}
NOT_ASKED = -100


def train_reference(
    model: Any, task: Task[Any], units: Sequence[Unit], settings: FitSettings, *, pad_id: int, seed: int = 0
) -> float:
    """Seconds of the Trainer's own loop."""
    with tempfile.TemporaryDirectory() as place:
        arguments = transformers.TrainingArguments(
            output_dir=place,
            num_train_epochs=settings.epochs,
            per_device_train_batch_size=settings.batch,
            learning_rate=settings.learning_rate,
            warmup_steps=settings.warmup,
            weight_decay=settings.weight_decay,
            seed=seed,
            report_to=[],
            save_strategy="no",
            logging_strategy="no",
            disable_tqdm=True,
            remove_unused_columns=False,
            use_cpu=True,
        )
        trainer = transformers.Trainer(
            model=model,
            args=arguments,
            train_dataset=[_row(task, unit) for unit in units],
            data_collator=_collator(pad_id),
        )
        trainer.remove_callback(PrinterCallback)
        start = time.perf_counter()
        trainer.train()
        return time.perf_counter() - start


def here(model: Any, tokenizer: Tokenizer) -> FineTuned:
    """A model of theirs as one of ours, to be scored by the same functions."""
    with tempfile.TemporaryDirectory() as place:
        model.save_pretrained(place)
        tokenizer.save(Path(place))
        return load_fine_tuned(ModelFolder(Path(place))).model


def _row(task: Task[Any], unit: Unit) -> dict[str, Any]:
    """A unit as the Trainer's model wants it; the endings of a choice are a list of sequences."""
    if task.name == "choice":
        return {
            "input_ids": [list(each.ids) for each in unit],
            "token_type_ids": [list(each.segments) for each in unit],
            "labels": unit[0].about[1],
        }
    (features,) = unit
    row = {"input_ids": list(features.ids), "token_type_ids": list(features.segments)}
    return {**row, **_targets(task, features)}


def _targets(task: Task[Any], features: Features) -> dict[str, Any]:
    if task.name == "classify":
        return {"labels": features.about[0]}
    if task.name == "regress":
        return {"labels": float(features.about)}
    if task.name == "qa":
        start, end = features.about.target
        return {"start_positions": start, "end_positions": end}
    labels = [NOT_ASKED] * len(features.ids)
    about = features.about
    for place, tag in zip(about.places[about.before : about.before + about.own], about.tags, strict=True):
        labels[place] = tag
    return {"labels": labels}


def _collator(pad_id: int) -> Callable[[list[dict[str, Any]]], dict[str, torch.Tensor]]:
    """Pads to the longest of the batch, as transformers' own DataCollatorWithPadding does."""

    def together(rows: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
        if isinstance(rows[0]["input_ids"][0], list):
            flat = [
                {name: row[name][number] for name in ("input_ids", "token_type_ids")}
                for row in rows
                for number in range(len(row["input_ids"]))
            ]
            batch = {name: tensor.view(len(rows), -1, tensor.shape[-1]) for name, tensor in together(flat).items()}
            return {**batch, "labels": torch.tensor([row["labels"] for row in rows])}
        longest = max(len(row["input_ids"]) for row in rows)
        fill = {"input_ids": pad_id, "token_type_ids": 0, "labels": NOT_ASKED}
        batch = {"attention_mask": torch.tensor([_padded([1] * len(row["input_ids"]), longest, 0) for row in rows])}
        for name in rows[0]:
            values = [row[name] for row in rows]
            if isinstance(values[0], list):
                values = [_padded(value, longest, fill[name]) for value in values]
            batch[name] = torch.tensor(values)
        return batch

    return together


def _padded(values: list[int], length: int, fill: int) -> list[int]:
    return values + [fill] * (length - len(values))
