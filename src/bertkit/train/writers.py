"""What a model that writes begins from: an encoder and a decoder put together out of pretrained models, with every
weight that exists on both sides, and new ones for the decoder's look at what was read; or, from scratch, a Transformer
with vocabularies learned from the examples themselves. A model that can write by itself stays as it is.

A network that is put together is a folder like any other, in a place that lasts as long as the run; it is a function
of what it is made from, so that a run that goes on has the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from bertkit.errors import UsageError, nearest, shortened, with_article
from bertkit.families import PRESETS, Seq2SeqConfig, family_of_size, vocabulary
from bertkit.hub.fetch import find_folder
from bertkit.hub.folder import ModelFolder
from bertkit.hub.weights import load_model, save_model
from bertkit.nn.config import TransformerConfig
from bertkit.nn.seq2seq import Seq2Seq
from bertkit.tasks import task_called
from bertkit.tasks.options import GenerateOptions
from bertkit.tasks.parts import examples_in
from bertkit.text.sample import draw_sample
from bertkit.text.tokenizer import Tokenizer
from bertkit.text.train import train
from bertkit.train.examples import FinetuneRequest
from bertkit.train.schedules import INVERSE_ROOT
from bertkit.train.transfer import Transfer

KIND = "bytes-s"
"""Of vocabularies that are learned: every text in any language comes back as it was."""
WARMUP, BETAS = 0.15, (0.9, 0.98)
SCRATCH_EPOCHS = 10
SCRATCH_RATE = 0.016
"""Over the root of the width: 0.001 for 256. That of the paper, with its 4,000 steps of warm-up."""
Told = Callable[[Iterable[str]], None]


def begun(request: FinetuneRequest, place: Path, told: Told) -> tuple[Path, FinetuneRequest]:
    options = GenerateOptions(**request.options)
    if options.way not in (None, "two", "one"):
        raise UsageError(f"`way={shortened(options.way)}`", f"{nearest(options.way, ('two', 'one'))} It is two or one.")
    if options.model is not None:
        return _from_scratch(request, options, place, told)
    start = ModelFolder(find_folder(request.start))
    if start.family.task or start.config.causal:
        if options.way is not None or options.share or options.decoder:
            raise UsageError(
                f"`way`, `share` or `decoder` for {with_article(start.config.family)} model",
                "It writes as it is: leave them out.",
            )
        return start.path, _by(request, "two" if start.family.task else "on")
    if options.way == "one":
        if options.share or options.decoder:
            raise UsageError("`share` or `decoder` for one model that reads and writes", "Leave them out.")
        _require_both_ways(start)
        return start.path, _with_new(request, () if start.parts["mlm"] else ("network.mlm.",))
    other = _decoder_for(options, start)
    if not other.parts["mlm"]:
        told([f"{other.path.name} has no head that says words: the decoder's begins with random numbers"])
    new = ("crossing", "network.project.", *(() if other.parts["mlm"] else ("network.mlm.",)))
    return _put_together(request, options, start, other, place), _with_new(_by(request, "two"), new)


def _with_new(request: FinetuneRequest, parts: tuple[str, ...]) -> FinetuneRequest:
    """What begins with nothing learns at a rate of its own."""
    transfer = replace(request.change.get("transfer", Transfer()), new=parts)
    return replace(request, change={**request.change, "transfer": transfer})


def _by(request: FinetuneRequest, way: str) -> FinetuneRequest:
    return replace(request, options={**request.options, "way": way})


def _require_both_ways(start: ModelFolder) -> None:
    config = start.config
    if not isinstance(config, TransformerConfig) or config.rotary:
        raise UsageError(
            f"one model that reads and writes, from {with_article(config.family)} model",
            "It cannot be shown a text in two ways: `way=two`.",
        )


def _decoder_for(options: GenerateOptions, start: ModelFolder) -> ModelFolder:
    other = start
    if options.decoder is not None:
        other = ModelFolder(find_folder(options.decoder))
    for folder, half in ((start, "an encoder"), (other, "a decoder")):
        config = folder.config
        if not isinstance(config, TransformerConfig) or config.causal or (half == "a decoder" and config.rotary):
            raise UsageError(
                f"{folder.path.name} is {with_article(config.family)} model, which cannot be {half} here",
                "BERT, RoBERTa, ELECTRA, ALBERT and DistilBERT can.",
            )
    if options.share and other is not start:
        raise UsageError("`share` with another `decoder`", "Only one model can have its weights in common.")
    return other


def _put_together(
    request: FinetuneRequest, options: GenerateOptions, start: ModelFolder, other: ModelFolder, place: Path
) -> Path:
    torch.manual_seed(request.seed)
    tokenizer, writer = start.tokenizer(), other.tokenizer()
    if writer.sha256() != tokenizer.sha256():
        tokenizer.writer = writer
    reads, writes = load_model(start).model, load_model(other).model
    ids = {"decoder_start_token_id": writer.frame.start[-1], "eos_token_id": writer.frame.end[0]}
    network = Seq2Seq(Seq2SeqConfig(encoder=reads.config, decoder=writes.config, share=options.share, **ids))
    mine = dict(network.state_dict())
    there = {f"decoder.{name}": tensor for name, tensor in writes.reader.state_dict().items()}
    there |= {f"encoder.{name}": tensor for name, tensor in reads.reader.state_dict().items()}
    for part, model in (("pooler", reads), ("mlm", writes)):
        if (module := getattr(model, part, None)) is not None:
            there |= {f"{part}.{name}": tensor for name, tensor in module.state_dict().items()}
    mine |= {name: tensor for name, tensor in there.items() if name in mine}
    network.load_state_dict(mine)
    save_model(place, network, tokenizer, provenance={"seed": request.seed})
    return place


def _from_scratch(
    request: FinetuneRequest, options: GenerateOptions, place: Path, told: Told
) -> tuple[Path, FinetuneRequest]:
    if not request.from_scratch or request.start or options.decoder:
        raise UsageError(
            f"`model={options.model}` with a model to start from", "It is for `from_scratch=True` without `start`."
        )
    if family_of_size(str(options.model)).task != "generate" or options.way == "one":
        raise UsageError(
            f"`model={options.model}`", "There are transformer-tiny, -mini and -base: an encoder and a decoder."
        )
    kind = task_called(request.task)
    examples: list[Any] = list(examples_in(kind, request.train, request.reading, []))
    tokenizer = _learned((each.text for each in examples), options.vocab_size, told)
    targets = (target for each in examples for target in each.targets)
    tokenizer.writer = writer = _learned(targets, options.vocab_size, told)
    ids = {"decoder_start_token_id": writer.frame.start[-1], "eos_token_id": writer.frame.end[0]}
    sizes = {"vocab_size": tokenizer.vocab_size, "decoder_vocab_size": writer.vocab_size}
    config = PRESETS[str(options.model)](**sizes, pad_token_id=tokenizer.pad_id, **ids)
    torch.manual_seed(request.seed)
    save_model(place, Seq2Seq(config), tokenizer, provenance={"seed": request.seed})
    rate = SCRATCH_RATE / config.hidden_size**0.5
    usual: dict[str, Any] = {"learning_rate": rate, "schedule": INVERSE_ROOT, "warmup": WARMUP, "betas": BETAS}
    usual |= {"epochs": SCRATCH_EPOCHS} if request.hours is None else {}
    return place, replace(_by(request, "two"), change={**usual, **request.change})


def _learned(texts: Iterable[str], size: int, told: Told) -> Tokenizer:
    found = train(draw_sample(texts, hold_out=False), vocabulary(KIND, vocab_size=size))
    told(found.notes)
    return found.tokenizer
