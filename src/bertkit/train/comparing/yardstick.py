"""One measure for models of one kind, whatever their tokenizers: the same held-out text, bits for each byte of it.

The loss of a run is a mean over tokens, of samples that are laid out as its objective wants them. Models with other
tokenizers, or with pairs of sentences instead of one text, are not measured by the same thing then. Here the text is
always one sequence of sentences. Of a model that guesses hidden words, every such word is hidden whole and behind
[MASK]; one that reads from left to right is asked for every next token. What it costs to say what was asked for is
divided by its bytes.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bertkit.corpus.folder import CorpusFolder
from bertkit.hub.folder import ModelFolder
from bertkit.hub.weights import load_model
from bertkit.nn.protocols import SaysWords
from bertkit.objectives.data import PretrainingData
from bertkit.objectives.masking import Masking
from bertkit.objectives.objective import Together
from bertkit.objectives.terms import loss_of
from bertkit.objectives.words import MaskedWords, NextWords
from bertkit.train.comparing.corpora import byte_lengths
from bertkit.train.parallel import Group
from bertkit.train.stepper import Learner
from bertkit.train.validation import first_samples, validate

SAMPLES, SEQUENCES_AT_ONCE = 1024, 32
WHOLE_WORDS = Masking(unit="word", masked=1.0, random=0.0)
HIDDEN, GENERATOR, NEXT = "hidden words", "hidden words, by its generator", "every next token"
"""What is asked for."""


def held_out(run: Path, corpus: CorpusFolder, *, length: int, device: torch.device) -> dict[str, Any]:
    """What it costs the run's model to say held-out text; nothing, if it is a model that guesses no words."""
    generator = (run / "generator").is_dir()
    folder = ModelFolder(run / ("generator" if generator else "model"))
    model = load_model(folder).model.to(device)
    if SaysWords not in model.abilities:
        return {}
    one_way = model.reader.causal
    asked = NextWords(corpus.tokenizer) if one_way else MaskedWords(corpus.tokenizer, WHOLE_WORDS)
    data = PretrainingData(corpus, "validation", objectives=Together([asked]), seed=0, packed=device.type == "cpu")
    found = validate(
        Learner(model, data.objectives.terms),
        data,
        samples=SAMPLES,
        length=length,
        micro=SEQUENCES_AT_ONCE,
        group=Group(device=device),
    )
    labels = np.concatenate([data.sample(each, length)[1][0].answers for each in first_samples(data, SAMPLES, length)])
    size = int(byte_lengths(corpus.tokenizer)[labels].sum())
    return {
        "bits_per_byte": found[loss_of(asked.name)] * len(labels) / math.log(2) / max(size, 1),
        "asked_for": GENERATOR if generator else NEXT if one_way else HIDDEN,
        "tokens": len(labels),
        "bytes": size,
    }
