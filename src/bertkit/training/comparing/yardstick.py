"""One measure for masked-word models of all kinds: the same held-out text, whole words hidden, bits for each byte.

The loss of a run is a mean over tokens, of samples that are laid out as its objective wants them. Models with other
tokenizers, or with pairs of sentences instead of one text, are not measured by the same thing then. Here the text is
always one sequence of sentences, every hidden word is hidden whole and behind [MASK], and what it costs to say it is
divided by the bytes that were hidden.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bertkit.corpus.folder import CorpusFolder
from bertkit.interop.folder import ModelFolder
from bertkit.interop.weights import load_model
from bertkit.objectives.masking import Masking
from bertkit.objectives.pretraining import PretrainingData, terms
from bertkit.training.comparing.corpora import byte_lengths
from bertkit.training.loop import Learner
from bertkit.training.parallel import Group
from bertkit.training.validation import first_samples, validate

SAMPLES, SEQUENCES_AT_ONCE = 1024, 32
WHOLE_WORDS = Masking(unit="word", masked=1.0, random=0.0)
BOTH, LEFT, GENERATOR = "both sides", "the left alone", "both sides, by its generator"
"""From what a hidden word is guessed."""


def held_out(run: Path, corpus: CorpusFolder, *, length: int, device: torch.device) -> dict[str, Any]:
    """What the run's model makes of hidden words; nothing, if it is a model that guesses none."""
    if "mask" not in corpus.tokenizer.specials:
        return {}
    generator = (run / "generator").is_dir()
    folder = ModelFolder(run / ("generator" if generator else "model"))
    model = load_model(folder).model.to(device)
    if model.mlm is None:
        return {}
    data = PretrainingData(corpus, "validation", masking=WHOLE_WORDS, nsp=False, seed=0, packed=device.type == "cpu")
    found = validate(
        Learner(model, terms),
        data,
        samples=SAMPLES,
        length=length,
        micro=SEQUENCES_AT_ONCE,
        group=Group(device=device),
    )
    labels = np.concatenate([data.sample(each, length)[1].labels for each in first_samples(data, SAMPLES, length)])
    hidden = int(byte_lengths(corpus.tokenizer)[labels].sum())
    return {
        "bits_per_byte": found["mlm_loss"] * len(labels) / math.log(2) / max(hidden, 1),
        "tokens_right": found["mlm_accuracy"],
        "from": GENERATOR if generator else LEFT if folder.config.is_decoder else BOTH,
        "hidden_tokens": len(labels),
        "hidden_bytes": hidden,
    }
