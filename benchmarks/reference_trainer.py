"""The reference that pretraining is compared with: transformers' Trainer and BertForPreTraining, on the same samples.

What is the same as in bertkit: the samples, their order, their masks, and if wanted the weights at the start. What is
the reference's own: the model, the loss, the optimizer (its default, fused AdamW), the loop. It is set up as somebody
would who knows it, and is spared what is not its work: samples are drawn and masked beforehand, nothing is logged or
saved, evaluation is not timed.

    data = make_dataset(corpus, "train", length=128, seed=0, epoch=0, count=3200)
    batches = validation_batches(make_dataset(corpus, "validation", length=128, seed=0, epoch=0), 64)
    model = reference_like(bert, corpus.tokenizer, dropout=0.1)
    timed = train_reference(model, data, batch=32, learning_rate=5e-4, steps=100)
    timed.tokens_per_second, validation_loss(model, batches)["mlm_loss"]
"""

from __future__ import annotations

import copy
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_VERBOSITY"] = "error"

import numpy as np
import torch
import torch.nn.functional as F
import transformers
from torch import Tensor
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import Dataset
from transformers import BertForPreTraining, Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_callback import PrinterCallback
from transformers.utils import logging as transformers_logging

import bertkit
from bertkit.corpus import Order, key
from bertkit.hub import config_to_huggingface, save_model
from bertkit.objectives import Masking, Vocabulary, mask

transformers_logging.disable_progress_bar()
NOT_ASKED = -100
"""The label of a place that was not hidden, as torch's cross entropy has it."""

Batch = dict[str, Tensor]
Metrics = dict[str, float]


class Row(NamedTuple):
    """One masked sample."""

    ids: np.ndarray
    segments: np.ndarray
    labels: np.ndarray
    random: int
    """0 if B goes on where A ends, 1 if it is from elsewhere."""
    epoch: int
    number: int


class Samples(Dataset[dict[str, Any]]):
    """Masked samples in the order in which they are learned from."""

    def __init__(self, rows: Sequence[Row], pad_id: int) -> None:
        self.rows, self.pad_id = rows, pad_id

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, position: int) -> dict[str, Any]:
        row = self.rows[position]
        return {
            "input_ids": row.ids,
            "token_type_ids": row.segments,
            "attention_mask": np.ones(len(row.ids), np.int64),
            "labels": row.labels,
            "next_sentence_label": row.random,
        }

    @property
    def collate(self) -> Callable[[Sequence[Mapping[str, Any]]], Batch]:
        return partial(collate, pad_id=self.pad_id)


def make_dataset(
    corpus: bertkit.CorpusFolder, split: str, *, length: int, seed: int, epoch: int, count: int | None = None
) -> Samples:
    """The first `count` samples of an epoch in its order, or all. If it has fewer, those of the next epochs follow."""
    tokenizer = corpus.tokenizer
    vocabulary = Vocabulary(tokenizer.mask_id, np.array(tokenizer.ordinary_ids))
    rows: list[Row] = []
    while True:
        pairs = corpus.pairs(split, max_length=length, seed=seed, epoch=epoch)
        wanted = len(pairs) if count is None else min(len(pairs), count - len(rows))
        for number in Order(len(pairs), seed, epoch).samples(np.arange(wanted)).tolist():
            sample = pairs[number]
            masked = mask(sample, Masking(), vocabulary, key("mask", seed, epoch, number))
            labels = np.full(len(sample), NOT_ASKED, np.int32)
            labels[masked.positions] = masked.labels
            segments = sample.segments.astype(np.int8)
            rows.append(Row(masked.ids.astype(np.int32), segments, labels, int(not sample.is_next), epoch, number))
        if count is None or len(rows) == count:
            return Samples(rows, tokenizer.pad_id)
        epoch += 1


def collate(samples: Sequence[Mapping[str, Any]], *, pad_id: int) -> Batch:
    """Side by side, filled up to the longest."""
    fillers = {"input_ids": pad_id, "token_type_ids": 0, "attention_mask": 0, "labels": NOT_ASKED}
    longest = max(len(sample["input_ids"]) for sample in samples)
    batch = {name: np.full((len(samples), longest), filler, np.int64) for name, filler in fillers.items()}
    for row, sample in enumerate(samples):
        for name, values in batch.items():
            values[row, : len(sample[name])] = sample[name]
    batch["next_sentence_label"] = np.array([sample["next_sentence_label"] for sample in samples], np.int64)
    return {name: torch.from_numpy(values) for name, values in batch.items()}


def reference_model(config: bertkit.BertConfig, *, dropout: float = 0.1) -> BertForPreTraining:
    """The reference's network with the same sizes and weights of its own drawing."""
    _require_published(config)
    settings = config_to_huggingface(config, "BertForPreTraining") | _dropouts(dropout)
    return BertForPreTraining(transformers.BertConfig(**settings))


def reference_like(bert: bertkit.Bert, tokenizer: bertkit.Tokenizer, *, dropout: float = 0.1) -> BertForPreTraining:
    """The reference's network with the weights of ours, so that both start from the same place."""
    _require_published(bert.config)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "model"
        save_model(folder, bert, tokenizer, architecture="BertForPreTraining", manifest=False)
        model, found = BertForPreTraining.from_pretrained(
            folder, output_loading_info=True, dtype=torch.float32, **_dropouts(dropout)
        )
    for problem in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        if found[problem]:
            raise ValueError(f"the reference did not take over all weights: {problem} {sorted(found[problem])}")
    return model


def _require_published(config: bertkit.BertConfig) -> None:
    if config.pre_norm or config.is_decoder:
        raise ValueError("the reference is BERT as published: post-norm, and each token sees all others")


def _dropouts(dropout: float) -> dict[str, float]:
    return {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}


class Step(NamedTuple):
    """How far training was when a step ended."""

    seconds: float
    """Evaluation not counted."""
    tokens: int
    """Padding not counted."""


class Timed(TrainerCallback):
    """A clock that stands still during evaluation. Ends the training after `limit` seconds of it; calls `evaluate` at
    the start, at the end, and whenever another `every` seconds have passed, and keeps the answers in `curve`."""

    def __init__(
        self,
        *,
        limit: float | None = None,
        evaluate: Callable[[BertForPreTraining], Metrics] | None = None,
        every: float = 60.0,
    ) -> None:
        self.limit, self.evaluate, self.every = limit, evaluate, every
        self.steps: list[Step] = []
        self.curve: list[Metrics] = []
        self._before, self._since = 0.0, 0.0

    @property
    def seconds(self) -> float:
        """Of training, up to the end of the last step."""
        return self.steps[-1].seconds if self.steps else 0.0

    @property
    def tokens_per_second(self) -> float:
        return self.steps[-1].tokens / self.seconds

    @property
    def progress(self) -> float:
        """The share of the time limit that has passed by now, within a step too."""
        if self.limit is None:
            raise ValueError("without a time limit there is no share of it")
        return min(1.0, (self._before + time.perf_counter() - self._since) / self.limit)

    def on_train_begin(self, _args: Any, state: TrainerState, _control: TrainerControl, **facts: Any) -> None:
        self._evaluate(facts["model"], state)
        self._since = time.perf_counter()

    def on_step_end(self, _args: Any, state: TrainerState, control: TrainerControl, **facts: Any) -> None:
        self._before += time.perf_counter() - self._since
        self.steps.append(Step(self._before, int(state.num_input_tokens_seen)))
        at_the_limit = self.limit is not None and self.seconds >= self.limit
        if at_the_limit:
            control.should_training_stop = True
        last = self.curve[-1]["seconds"] if self.curve else 0.0
        if at_the_limit or state.global_step >= state.max_steps or self.seconds // self.every > last // self.every:
            self._evaluate(facts["model"], state)
        self._since = time.perf_counter()

    def _evaluate(self, model: BertForPreTraining, state: TrainerState) -> None:
        if self.evaluate is not None:
            tokens = int(state.num_input_tokens_seen)
            place = {"seconds": self.seconds, "step": state.global_step, "tokens": tokens}
            self.curve.append({**place, **self.evaluate(model)})


class _ByTheClock(Trainer):
    """A Trainer whose linear schedule ends when the time does. How many steps that will be is planned anew at each of
    them from the speed so far: steps * limit / seconds. The share that is done is then the share of the time."""

    def __init__(self, *args: Any, timed: Timed, warmup: float, **named: Any) -> None:
        self._timed, self._warmup = timed, warmup
        super().__init__(*args, **named)

    def create_scheduler(self, num_training_steps: int, optimizer: Any = None) -> LambdaLR:  # noqa: ARG002
        self.lr_scheduler = LambdaLR(optimizer or self.optimizer, self._factor)
        self._created_lr_scheduler = True
        return self.lr_scheduler

    def _factor(self, step: int) -> float:
        progress = self._timed.progress if step else 0.0
        if progress < self._warmup:
            return progress / self._warmup
        return (1 - progress) / (1 - self._warmup)


def train_reference(
    model: BertForPreTraining,
    data: Samples,
    *,
    batch: int,
    learning_rate: float,
    steps: int | None = None,
    seconds: float | None = None,
    warmup: float = 0.06,
    weight_decay: float = 0.01,
    evaluate: Callable[[BertForPreTraining], Metrics] | None = None,
    every: float = 60.0,
    seed: int = 0,
    callback: TrainerCallback | None = None,
    **settings: Any,
) -> Timed:
    """Train for so many steps, or for so many seconds; up to the highest rate during the share `warmup` of them, then
    straight down to 0. `settings` are further ones of TrainingArguments.

    Steps are not made of several batches: this model's loss ignores what Trainer hands it to average over them, and
    Trainer then adds gradients up (transformers 5.22: with two batches a step they are twice as large).
    """
    if (steps is None) == (seconds is None):
        raise ValueError("give either steps or seconds")
    if settings.get("gradient_accumulation_steps", 1) != 1:
        raise ValueError("gradient accumulation would make the reference's gradients too large")
    there = len(data) // batch
    if there < (steps or 1):
        raise ValueError(f"{steps or 1} steps of {batch} samples, and there are {len(data)} samples")
    timed = Timed(limit=seconds, evaluate=evaluate, every=every)
    with tempfile.TemporaryDirectory() as place:
        arguments = TrainingArguments(
            output_dir=place,
            max_steps=steps or there,
            per_device_train_batch_size=batch,
            learning_rate=learning_rate,
            lr_scheduler_type="linear",
            warmup_steps=warmup,  # below 1 it is a share
            weight_decay=weight_decay,
            max_grad_norm=1.0,
            train_sampling_strategy="sequential",  # the samples lie in their order
            remove_unused_columns=False,
            include_num_input_tokens_seen="non_padding",
            dataloader_num_workers=0,
            use_cpu=True,
            logging_strategy="no",
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            log_level="error",
            seed=seed,
            **settings,
        )
        parts: dict[str, Any] = {
            "model": model,
            "args": arguments,
            "train_dataset": data,
            "data_collator": data.collate,
        }
        if seconds is None:
            trainer = Trainer(**parts, callbacks=[timed])
        else:
            trainer = _ByTheClock(**parts, callbacks=[timed], timed=timed, warmup=warmup)
        trainer.remove_callback(PrinterCallback)
        if callback is not None:
            trainer.add_callback(callback)
        trainer.train()
    return timed


def seconds_per_step(model: BertForPreTraining, data: Samples, *, batch: int, **settings: Any) -> float:
    """The median over all steps that the data is enough for, on a copy of the model; the first three only warm up."""
    steps = len(data) // batch
    if steps < 5:
        raise ValueError(f"{steps} steps are too few to measure, take 5 or more")
    timed = train_reference(copy.deepcopy(model), data, batch=batch, learning_rate=1e-5, steps=steps, **settings)
    return statistics.median(np.diff([step.seconds for step in timed.steps])[2:].tolist())


def validation_batches(data: Samples, size: int) -> list[Batch]:
    """All samples, those of about the same length together."""
    order = sorted(range(len(data)), key=lambda position: len(data.rows[position].ids))
    return [data.collate([data[p] for p in order[start : start + size]]) for start in range(0, len(data), size)]


@torch.inference_mode()
def validation_loss(model: BertForPreTraining | bertkit.Bert, batches: Sequence[Batch]) -> Metrics:
    """Loss and accuracy over all hidden words and over all pairs of the batches, for the reference's model or ours."""
    trained, sums = model.training, dict.fromkeys(("mlm_loss", "mlm_accuracy", "nsp_loss", "nsp_accuracy"), 0.0)
    words = pairs = 0
    model.eval()
    for batch in batches:
        hidden, random = batch["labels"] != NOT_ASKED, batch["next_sentence_label"]
        labels = batch["labels"][hidden]
        word_scores, next_scores = _answers(model, batch, hidden)
        sums["mlm_loss"] += F.cross_entropy(word_scores, labels, reduction="sum").item()
        sums["mlm_accuracy"] += (word_scores.argmax(-1) == labels).sum().item()
        sums["nsp_loss"] += F.cross_entropy(next_scores, random, reduction="sum").item()
        sums["nsp_accuracy"] += (next_scores.argmax(-1) == random).sum().item()
        words, pairs = words + len(labels), pairs + len(random)
    model.train(trained)
    return {name: total / (words if name.startswith("mlm") else pairs) for name, total in sums.items()}


def _answers(model: BertForPreTraining | bertkit.Bert, batch: Batch, hidden: Tensor) -> tuple[Tensor, Tensor]:
    """Scores for the hidden words only, and for the next sentence."""
    inputs = batch["input_ids"], batch["attention_mask"], batch["token_type_ids"]
    if isinstance(model, bertkit.Bert):
        x_BLD = model.encoder(*inputs).last
        return model.word_scores(x_BLD[hidden]), model.next_sentence_scores(x_BLD)
    output = model.bert(*inputs)
    return model.cls.predictions(output.last_hidden_state[hidden]), model.cls.seq_relationship(output.pooler_output)
