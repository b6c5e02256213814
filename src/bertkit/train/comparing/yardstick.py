"""One measure for models of one kind, whatever their tokenizers: the same held-out text, bits for each byte of it.

The loss of a run is a mean over tokens, of samples that are laid out as its objective wants them. Models with other
tokenizers, or with pairs of sentences instead of one text, are not measured by the same thing then. Here the text is
always one sequence of sentences. Of a model that guesses hidden words, every such word is hidden whole and behind
[MASK]; one that reads from left to right is asked for every next token. What it costs to say what was asked for is
divided by its bytes.
"""

from __future__ import annotations

import math
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bertkit.corpus.folder import CorpusFolder
from bertkit.hub.folder import ModelFolder
from bertkit.hub.weights import load_model
from bertkit.nn.protocols import SaysWords
from bertkit.nn.recurrent import ReadsFromLeft
from bertkit.objectives.bilm import WordsFromTheLeft
from bertkit.objectives.data import PretrainingData
from bertkit.objectives.masking import Masking
from bertkit.objectives.objective import Objective, Together
from bertkit.objectives.terms import loss_of
from bertkit.objectives.words import MaskedWords, NextWords
from bertkit.train.comparing.corpora import byte_lengths
from bertkit.train.parallel import Group
from bertkit.train.stepper import Learner
from bertkit.train.validation import first_samples, lanes_of, validate

SAMPLES, SEQUENCES_AT_ONCE = 1024, 32
WHOLE_WORDS = Masking(unit="word", masked=1.0, random=0.0)
HIDDEN, GENERATOR, NEXT = "hidden words", "hidden words, by its generator", "every next token"
"""What is asked for."""


def held_out(run: Path, corpus: CorpusFolder, *, length: int, device: torch.device) -> dict[str, Any]:
    """What it costs the run's model to say held-out text; nothing, if it is a model that guesses no words."""
    generator = (run / "generator").is_dir()
    folder = ModelFolder(run / ("generator" if generator else "model"))
    model = load_model(folder).model.to(device)
    model.meet(corpus.tokenizer)
    reads_on = ReadsFromLeft in model.abilities
    if not reads_on and SaysWords not in model.abilities:
        return {}
    one_way = reads_on or model.reader.causal
    asked: Objective
    if one_way:
        asked = (WordsFromTheLeft if reads_on else NextWords)(corpus.tokenizer)
    else:
        asked = MaskedWords(corpus.tokenizer, WHOLE_WORDS)
    data = PretrainingData(corpus, "validation", objectives=Together([asked]), seed=0, packed=device.type == "cpu")
    found = validate(
        Learner(model, data.objectives.terms),
        data,
        samples=SAMPLES,
        length=length,
        micro=SEQUENCES_AT_ONCE,
        group=Group(device=device),
    )
    chosen = first_samples(data, SAMPLES, length) if not reads_on else chain(*lanes_of(data, SAMPLES, length))
    labels = np.concatenate([data.sample(each, length)[1][0].answers for each in chosen])
    size = int(byte_lengths(corpus.tokenizer)[labels].sum())
    return {
        "bits_per_byte": found[loss_of(next(iter(asked.asks)))] * len(labels) / math.log(2) / max(size, 1),
        "asked_for": GENERATOR if generator else NEXT if one_way else HIDDEN,
        "tokens": len(labels),
        "bytes": size,
    }
