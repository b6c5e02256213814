"""Generation, token for token the reference's: greedy, beams, and what temperature, top-k and top-p leave."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from test_outputs import close
from transformers import (
    BertConfig,
    BertLMHeadModel,
    GPT2Config,
    GPT2LMHeadModel,
    MegatronBertConfig,
    MegatronBertForCausalLM,
    OpenAIGPTConfig,
    OpenAIGPTLMHeadModel,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from bertkit.families import vocabulary
from bertkit.hub import ModelFolder, load_model
from bertkit.infer import Repetition, Sampling, TextEncoder, end_of_text, filtered, prompt_ids, write
from bertkit.text import Tokenizer, draw_sample
from bertkit.text.train import train

SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
WIDER = {"hidden_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 40}
KINDS = {
    "bert": (BertLMHeadModel, BertConfig(**SIZES, is_decoder=True)),
    "bert, relu": (BertLMHeadModel, BertConfig(**WIDER, is_decoder=True, hidden_act="relu")),
    "bert, pre-norm": (MegatronBertForCausalLM, MegatronBertConfig(**SIZES, is_decoder=True)),
    "gpt2": (GPT2LMHeadModel, GPT2Config(n_embd=32, n_layer=2, n_head=2)),
    "gpt2, deeper": (GPT2LMHeadModel, GPT2Config(n_embd=48, n_layer=4, n_head=4, n_positions=64)),
    "gpt": (OpenAIGPTLMHeadModel, OpenAIGPTConfig(n_embd=32, n_layer=2, n_head=2)),
}
MODELS = [
    ("bert", 0),
    ("bert", 3),
    ("bert, relu", 2),
    ("bert, pre-norm", 1),
    ("gpt2", 0),
    ("gpt2", 1),
    ("gpt2, deeper", 2),
    ("gpt", 0),
]
PROMPTS = ["The file", "A class definition is an executable statement that", "Names", "the value of the object is"]


@pytest.fixture(scope="module")
def tokenizers(english) -> dict[str, Tokenizer]:
    sample = draw_sample(english, hold_out=False)
    return {name: train(sample, vocabulary(name, vocab_size=600)).tokenizer for name in ("bert", "gpt", "gpt2")}


@pytest.fixture(scope="module", params=MODELS, ids=str)
def pair(request, tmp_path_factory, tokenizers):
    """The reference and ours with the same weights, such that some texts end by themselves and some do not."""
    kind, seed = request.param
    tokenizer = tokenizers[kind.split(",")[0]]
    end = end_of_text(tokenizer)
    model, config = KINDS[kind]
    config.update({"vocab_size": tokenizer.vocab_size, "initializer_range": 0.4})
    config.update({"bos_token_id": end, "eos_token_id": end, "pad_token_id": end})
    torch.manual_seed(seed)
    theirs = model(config).eval()
    rename_a_token_that_is_written(theirs, tokenizer, end)
    place = tmp_path_factory.mktemp("pair")
    theirs.save_pretrained(place)
    tokenizer.save(place)
    return theirs, TextEncoder(load_model(ModelFolder(place))[0], tokenizer)


def rename_a_token_that_is_written(theirs, tokenizer, end):
    """Let one that comes after some of the prompts, but not after all, be the end of the text."""
    framed = tokenizer.form.framed
    prompts = [ids[:-1] if framed else ids for ids in tokenizer.encode_ids(PROMPTS)]
    written = [theirs.generate(torch.tensor([ids]), max_new_tokens=10)[0, len(ids) :].tolist() for ids in prompts]
    found = Counter(token for ids in written for token in set(ids[2:]))
    chosen = min(token for token, count in found.items() if token != end and count < len(PROMPTS))
    with torch.no_grad():
        words = theirs.get_input_embeddings().weight
        words[[end, chosen]] = words[[chosen, end]]


def reference(pair, prompt, **settings):
    """What the reference writes after a prompt alone, the end-of-text token included."""
    theirs, ours = pair
    (ids,), end = prompt_ids(ours, [prompt]), end_of_text(ours.tokenizer)
    mask = torch.ones(1, len(ids), dtype=torch.long)
    rows = theirs.generate(torch.tensor([ids]), attention_mask=mask, do_sample=False, **settings)
    written = rows[:, len(ids) :].tolist()
    return [row[: row.index(end) + 1] if end in row else row for row in written]


@pytest.mark.parametrize("penalty", [1.0, 1.3])
def test_greedy_is_the_references_for_prompts_of_different_lengths_together(pair, penalty):
    _, ours = pair
    found = write(ours, PROMPTS, Sampling(max_new_tokens=16, repetition_penalty=penalty))
    for prompt, (text,) in zip(PROMPTS, found, strict=True):
        settings = {"max_new_tokens": 16, "repetition_penalty": penalty}
        assert [text.ids] == reference(pair, prompt, **settings)


@pytest.mark.parametrize(
    ("beams", "length_penalty", "penalty"), [(2, 1.0, 1.0), (4, 1.0, 1.2), (3, 0.0, 1.0), (4, 2.5, 1.0), (3, -1.0, 1.0)]
)
def test_beams_are_the_references_for_prompts_of_different_lengths_together(pair, beams, length_penalty, penalty):
    _, ours = pair
    settings = {"max_new_tokens": 10, "length_penalty": length_penalty, "repetition_penalty": penalty}
    found = write(ours, PROMPTS, Sampling(beams=beams, samples=beams, **settings))
    for prompt, texts in zip(PROMPTS, found, strict=True):
        more = {"num_beams": beams, "num_return_sequences": beams}
        assert [text.ids for text in texts] == reference(pair, prompt, **settings, **more)


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
