"""Generation, token for token the reference's: greedy, beams, and what temperature, top-k and top-p leave."""

from __future__ import annotations

import pytest
import torch
from test_outputs import close
from transformers import (
    BertConfig,
    BertLMHeadModel,
    MegatronBertConfig,
    MegatronBertForCausalLM,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from bertkit.inference.encoder import TextEncoder
from bertkit.inference.generation import write
from bertkit.inference.sampling import Repetition, Sampling, filtered
from bertkit.interop.folder import ModelFolder
from bertkit.interop.weights import load_model
from bertkit.text.train import train_wordpiece

SHAPES = {
    "post-norm": {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64},
    "relu": {
        "hidden_size": 48,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "intermediate_size": 40,
        "hidden_act": "relu",
    },
    "pre-norm": {"hidden_size": 40, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 80},
}
PROMPTS = ["The file", "A class definition is an executable statement that", "Names", "the value of the object is"]


@pytest.fixture(scope="module")
def small_tokenizer(english):
    return train_wordpiece(english, vocab_size=600)


@pytest.fixture(
    scope="module", params=[("post-norm", 0), ("post-norm", 3), ("relu", 2), ("relu", 3), ("pre-norm", 1)], ids=str
)
def pair(request, tmp_path_factory, small_tokenizer):
    """The reference and ours with the same weights, such that some texts end by themselves and some do not."""
    shape, seed = request.param
    torch.manual_seed(seed)
    kind, config = (
        (MegatronBertForCausalLM, MegatronBertConfig) if shape == "pre-norm" else (BertLMHeadModel, BertConfig)
    )
    settings = config(vocab_size=small_tokenizer.vocab_size, is_decoder=True, initializer_range=0.4, **SHAPES[shape])
    settings.update({"eos_token_id": small_tokenizer.sep_id, "pad_token_id": small_tokenizer.pad_id})
    theirs = kind(settings).eval()
    with torch.no_grad():
        theirs.cls.predictions.bias[small_tokenizer.sep_id] = 5.0
    place = tmp_path_factory.mktemp("pair")
    theirs.save_pretrained(place)
    small_tokenizer.save(place)
    return theirs, TextEncoder(load_model(ModelFolder(place))[0], small_tokenizer)


def reference(theirs, tokenizer, prompt, **settings):
    """What the reference writes after a prompt alone, the end-of-text token included."""
    ids = tokenizer.encode(prompt).ids[:-1]
    mask = torch.ones(1, len(ids), dtype=torch.long)
    rows = theirs.generate(torch.tensor([ids]), attention_mask=mask, do_sample=False, **settings)
    written = rows[:, len(ids) :].tolist()
    ends = [row.index(tokenizer.sep_id) + 1 if tokenizer.sep_id in row else len(row) for row in written]
    return [row[:end] for row, end in zip(written, ends, strict=True)]


@pytest.mark.parametrize("penalty", [1.0, 1.3])
def test_greedy_is_the_references_for_prompts_of_different_lengths_together(pair, penalty):
    theirs, ours = pair
    found = write(ours, PROMPTS, Sampling(max_new_tokens=16, repetition_penalty=penalty))
    for prompt, (text,) in zip(PROMPTS, found, strict=True):
        settings = {"max_new_tokens": 16, "repetition_penalty": penalty}
        assert [text.ids] == reference(theirs, ours.tokenizer, prompt, **settings)


@pytest.mark.parametrize(
    ("beams", "length_penalty", "penalty"), [(2, 1.0, 1.0), (4, 1.0, 1.2), (3, 0.0, 1.0), (4, 2.5, 1.0), (3, -1.0, 1.0)]
)
def test_beams_are_the_references_for_prompts_of_different_lengths_together(pair, beams, length_penalty, penalty):
    theirs, ours = pair
    settings = {"max_new_tokens": 10, "length_penalty": length_penalty, "repetition_penalty": penalty}
    found = write(ours, PROMPTS, Sampling(beams=beams, samples=beams, **settings))
    for prompt, texts in zip(PROMPTS, found, strict=True):
        more = {"num_beams": beams, "num_return_sequences": beams}
        assert [text.ids for text in texts] == reference(theirs, ours.tokenizer, prompt, **settings, **more)


def test_some_of_the_texts_compared_end_by_themselves_and_some_do_not(pair):
    _, ours = pair
    greedy = write(ours, PROMPTS, Sampling(max_new_tokens=16))
    searched = write(ours, PROMPTS, Sampling(max_new_tokens=10, beams=4, samples=4))
    assert {text.ended for texts in [*greedy, *searched] for text in texts} == {"end", "length"}


@pytest.mark.parametrize("temperature", [0.3, 1.0, 1.7])
@pytest.mark.parametrize(
    ("top_k", "top_p"), [(None, None), (5, None), (None, 0.8), (40, 0.5), (None, 1e-6), (999, 1.0)]
)
def test_what_is_left_to_draw_from_is_the_references(temperature, top_k, top_p):
    torch.manual_seed(1)
    scores = torch.randn(6, 300) * 4
    scores[0, :50] = 3.0  # as likely as each other
    expected = TemperatureLogitsWarper(temperature)(None, scores)
    if top_k is not None:
        expected = TopKLogitsWarper(top_k)(None, expected)
    if top_p is not None:
        expected = TopPLogitsWarper(top_p)(None, expected)
    found = filtered(scores, Sampling(temperature=temperature, top_k=top_k, top_p=top_p))
    assert torch.equal(found.isinf(), expected.isinf())
    close(found.softmax(-1), expected.softmax(-1))


def test_repetition_is_punished_as_in_the_reference():
    torch.manual_seed(2)
    scores, ids = torch.randn(3, 50), torch.randint(0, 50, (3, 12))
    repetition = Repetition(ids[:, :-1].tolist(), 50, 1.4, scores.device)
    repetition.add(ids[:, -1])
    assert torch.equal(repetition.punish(scores), RepetitionPenaltyLogitsProcessor(1.4)(ids, scores.clone()))
