"""An encoder with a decoder against transformers' EncoderDecoderModel: training with Seq2SeqTrainer, and writing.

Two BERTs (4 x 256 by default, vocabularies of 8,000 learned from the texts), the same random weights on both sides,
float32, in one process, in alternating rounds; the texts are abstracts of papers and their one-line summaries.
Training: the same examples, batch, rate and label smoothing, fused AdamW; the Trainer pads each batch to its
longest text. Writing: 32 new tokens for 1 text and for 32, greedy and with 4 beams; both must write the same tokens, of
beams but for rounding, which is told.

`python benchmarks/generate.py --models seq2seq --data FOLDER` runs it; a measurement that stands in `--out` already is
not made again.
"""

from __future__ import annotations

import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_VERBOSITY"] = "error"

import torch
import transformers
from transformers.trainer_callback import PrinterCallback

import bertkit
from bertkit.families import BertConfig, Seq2SeqConfig
from bertkit.hub import save_fine_tuned
from bertkit.infer import Sampling, written_after
from bertkit.nn import FineTuned, HeadShape, Seq2Seq
from bertkit.tables import Reading
from bertkit.tasks import Generate, examples_in
from bertkit.text import Tokenizer, train_wordpiece
from bertkit.train import FitSettings
from bertkit.train.fit import fit

DATA = "generate/scitldr_train.jsonl"
SOURCE, NEW, SMOOTHING = 512, 32, 0.1
NOT_ASKED = -100


def clock() -> float:
    """Of one thread the time that it computed, which others on the machine change less; else the time that passed."""
    return time.process_time() if torch.get_num_threads() == 1 else time.perf_counter()


def measurements(
    data: Path, rounds: int, *, layers: int = 4, hidden: int = 256
) -> Iterator[tuple[str, Callable[[], Any]]]:
    """By name, what measures it."""
    examples = list(examples_in(Generate, str(data / DATA), Reading(), []))
    tokenizer = train_wordpiece([text for each in examples for text in (each.text, *each.targets)], vocab_size=8000)
    half = BertConfig(
        vocab_size=tokenizer.vocab_size,
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=hidden // 64,
        intermediate_size=4 * hidden,
    )
    ids = {"decoder_start_token_id": tokenizer.cls_id, "eos_token_id": tokenizer.sep_id}
    task = Generate(max_length=SOURCE, most=NEW, room=512, smoothing=SMOOTHING)

    def model(spread: float) -> FineTuned:
        torch.manual_seed(0)
        halves = replace(half, initializer_range=spread)
        return FineTuned(
            Seq2Seq(Seq2SeqConfig(encoder=halves, decoder=halves, **ids)), HeadShape(reads="next", outputs=0)
        )

    yield "training", lambda: training(lambda: model(0.02), task, tokenizer, examples, rounds)
    for texts in (1, 32):
        for beams in (1, 4):
            yield (
                f"writing {texts} with {beams} beams",
                lambda texts=texts, beams=beams: writing(model(0.1), task, tokenizer, examples, texts, beams, rounds),
            )


def training(
    new_model: Callable[[], FineTuned], task: Generate, tokenizer: Tokenizer, examples: list[Any], rounds: int
) -> dict[str, Any]:
    ours, theirs = [], []
    count = 256
    for number in range(rounds):
        some = [each._replace(targets=each.targets[:1]) for each in examples[number * count : (number + 1) * count]]
        encoded = task.encode(some, tokenizer, len(some))
        units, settings = encoded.to_learn(), FitSettings(epochs=1, batch=32)
        tokens = sum(len(each.ids) for unit in units for each in unit)
        mine = new_model()
        reference = _reference(mine, encoded.task, tokenizer)
        start = clock()
        fit(mine, encoded.task, units, None, settings, seed=number, pad_id=tokenizer.pad_id)
        ours.append(tokens / (clock() - start))
        theirs.append(tokens / _train_reference(reference, units, settings, tokenizer))
    return _told(ours, theirs)


def _reference(model: FineTuned, task: Generate, tokenizer: Tokenizer) -> Any:
    with tempfile.TemporaryDirectory() as place:
        save_fine_tuned(Path(place) / "m", model, task, tokenizer, metrics={}, provenance={})
        return transformers.EncoderDecoderModel.from_pretrained(Path(place) / "m")


def _train_reference(model: Any, units: Any, settings: FitSettings, tokenizer: Tokenizer) -> float:
    """Seconds of the Trainer's own loop."""
    rows = [{"input_ids": list(each.ids[: each.given]), "labels": list(each.about)} for unit in units for each in unit]

    def batch(some: list[dict[str, list[int]]]) -> dict[str, torch.Tensor]:
        def padded(name: str, filling: int) -> torch.Tensor:
            longest = max(len(row[name]) for row in some)
            return torch.tensor([row[name] + [filling] * (longest - len(row[name])) for row in some])

        ids, labels = padded("input_ids", tokenizer.pad_id), padded("labels", NOT_ASKED)
        start = torch.full((len(some), 1), tokenizer.cls_id)
        decoder = torch.cat([start, labels[:, :-1].clamp(min=0)], 1)
        return {
            "input_ids": ids,
            "attention_mask": (ids != tokenizer.pad_id).long(),
            "decoder_input_ids": decoder,
            "labels": labels,
        }

    with tempfile.TemporaryDirectory() as place:
        arguments = transformers.Seq2SeqTrainingArguments(
            output_dir=place,
            num_train_epochs=1,
            per_device_train_batch_size=settings.batch,
            learning_rate=settings.learning_rate,
            label_smoothing_factor=SMOOTHING,
            report_to=[],
            save_strategy="no",
            logging_strategy="no",
            disable_tqdm=True,
            remove_unused_columns=False,
            use_cpu=True,
        )
        trainer = transformers.Seq2SeqTrainer(model=model, args=arguments, train_dataset=rows, data_collator=batch)
        trainer.remove_callback(PrinterCallback)
        start = clock()
        trainer.train()
        return clock() - start


def writing(
    model: FineTuned, task: Generate, tokenizer: Tokenizer, examples: list[Any], texts: int, beams: int, rounds: int
) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as place:
        save_fine_tuned(Path(place) / "m", model, task, tokenizer, metrics={}, provenance={})
        ours = bertkit.load(Path(place) / "m")
        theirs = transformers.EncoderDecoderModel.from_pretrained(Path(place) / "m").eval()
    writer = replace(ours.writer, end=None)
    read = writer.read([each.text for each in examples[:texts]])
    longest = max(map(len, read))
    ids = torch.tensor([[*its, *[tokenizer.pad_id] * (longest - len(its))] for its in read])
    mask = (ids != tokenizer.pad_id).long()
    theirs.generation_config.eos_token_id = None
    theirs.config.eos_token_id = None

    def bertkits() -> list[list[int]]:
        found = [
            piece for piece in written_after(writer, read, Sampling(max_new_tokens=NEW, beams=beams)) if piece.whole
        ]
        return [piece.whole.ids for piece in sorted(found, key=lambda piece: piece.prompt)]

    def reference() -> list[list[int]]:
        how = {"max_new_tokens": NEW, "num_beams": beams, "do_sample": False, "pad_token_id": tokenizer.pad_id}
        found = theirs.generate(input_ids=ids, attention_mask=mask, decoder_start_token_id=tokenizer.cls_id, **how)
        return [row[1:] for row in found.tolist()]

    same = sum(a == b for a, b in zip(bertkits(), reference(), strict=True))
    speeds: dict[str, list[float]] = {"bertkit": [], "transformers": []}
    ways = {"bertkit": bertkits, "transformers": reference}
    draws = random.Random(texts)
    for _ in range(rounds):
        for name in draws.sample(list(ways), 2):
            start = clock()
            ways[name]()
            speeds[name].append(texts * NEW / (clock() - start))
    return {**_told(speeds["bertkit"], speeds["transformers"]), "same_texts": f"{same} of {texts}"}


def _told(ours: list[float], theirs: list[float]) -> dict[str, Any]:
    medians = {"bertkit": statistics.median(ours), "transformers": statistics.median(theirs)}
    ratio = statistics.median(a / b for a, b in zip(ours, theirs, strict=True))
    return {"tokens_per_second": {name: round(value, 1) for name, value in medians.items()}, "ratio": round(ratio, 2)}
