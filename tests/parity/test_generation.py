"""Generation, token for token the reference's: greedy, beams, and what top-k, top-p and temperature leave to draw from."""

from __future__ import annotations

import pytest
import torch
from test_outputs import close
from transformers import BertConfig as TheirConfig
from transformers import BertLMHeadModel, LogitsProcessorList, RepetitionPenaltyLogitsProcessor
from transformers import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from bertkit.inference.encoder import TextEncoder
from bertkit.inference.generation import end_of_text, generate, write
from bertkit.inference.sampling import Repetition, Sampling, filtered
from bertkit.interop.folder import ModelFolder
from bertkit.interop.weights import load_model

SHAPES = [
    {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64},
    {
        "hidden_size": 48,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "intermediate_size": 40,
        "hidden_act": "relu",
    },
]
PROMPTS = ["The file", "A class definition is an executable statement that", "Names", "the value of the object is"]


def make_pair(place, tokenizer, shape, seed):
    """The reference and ours with the same weights, sharp enough that the end of the text comes up now and then."""
    torch.manual_seed(seed)
    config = TheirConfig(vocab_size=tokenizer.vocab_size, is_decoder=True, initializer_range=0.4, **shape)
    config.update({"eos_token_id": tokenizer.sep_id, "pad_token_id": tokenizer.pad_id})
    theirs = BertLMHeadModel(config).eval()
    theirs.save_pretrained(place)
    tokenizer.save(place)
    return theirs, TextEncoder(load_model(ModelFolder(place))[0], tokenizer)


@pytest.fixture(scope="module", params=[(shape, seed) for shape in range(2) for seed in range(3)])
def pair(request, tmp_path_factory, tokenizer):
    shape, seed = request.param
    return make_pair(tmp_path_factory.mktemp("pair"), tokenizer, SHAPES[shape], seed)


def reference(theirs, tokenizer, prompt, **settings):
    """What the reference writes after a prompt alone, the end-of-text token included."""
    ids = tokenizer.encode(prompt).ids[:-1]
    mask = torch.ones(1, len(ids), dtype=torch.long)
    rows = theirs.generate(torch.tensor([ids]), attention_mask=mask, do_sample=False, **settings)[
        :, len(ids) :
    ].tolist()
    ends = [row.index(tokenizer.sep_id) + 1 if tokenizer.sep_id in row else len(row) for row in rows]
    return [row[:end] for row, end in zip(rows, ends, strict=True)]


@pytest.mark.parametrize("penalty", [1.0, 1.3])
def test_greedy_is_the_references_for_prompts_of_different_lengths_together(pair, tokenizer, penalty):
    theirs, ours = pair
    found = write(ours, PROMPTS, Sampling(max_new_tokens=20, repetition_penalty=penalty))
    for prompt, (text,) in zip(PROMPTS, found, strict=True):
        expected = reference(theirs, tokenizer, prompt, max_new_tokens=20, repetition_penalty=penalty)
        assert [text.ids] == expected


@pytest.mark.parametrize("beams", [2, 4])
@pytest.mark.parametrize("length_penalty", [1.0, 0.0, 2.5, -1.0])
def test_beams_are_the_references_for_prompts_of_different_lengths_together(pair, tokenizer, beams, length_penalty):
    theirs, ours = pair
    settings = {"max_new_tokens": 12, "length_penalty": length_penalty}
    found = write(ours, PROMPTS, Sampling(beams=beams, samples=beams, **settings))
    for prompt, texts in zip(PROMPTS, found, strict=True):
        expected = reference(theirs, tokenizer, prompt, num_beams=beams, num_return_sequences=beams, **settings)
        assert [text.ids for text in texts] == expected
