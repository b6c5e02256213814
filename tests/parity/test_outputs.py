"""The model equals the reference, transformers' BertForPreTraining: every output and every gradient."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import BertConfig as TheirConfig
from transformers import BertForPreTraining

from bertkit.families import BertConfig, family_of, join
from bertkit.hub import config_from_huggingface
from bertkit.nn import Bert

SHAPES = [
    {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64},
    {
        "hidden_size": 48,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "intermediate_size": 96,
        "type_vocab_size": 3,
    },
    {"hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 512},
    {
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 1,
        "intermediate_size": 100,
        "hidden_act": "relu",
    },
    {
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 128,
        "hidden_act": "gelu_new",
    },
    {
        "hidden_size": 36,
        "num_hidden_layers": 12,
        "num_attention_heads": 3,
        "intermediate_size": 72,
        "layer_norm_eps": 1e-5,
    },
]


def make_pair(shape: dict, seed: int = 0) -> tuple[BertForPreTraining, Bert]:
    """The reference with random weights, biases and norms included, and ours with the same."""
    torch.manual_seed(seed)
    theirs = BertForPreTraining(TheirConfig(vocab_size=500, max_position_embeddings=64, **shape)).eval()
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    config = config_from_huggingface(theirs.config.to_dict(), "their config")
    ours = Bert(config).eval()
    ours.load_state_dict(as_ours(theirs.state_dict(), config), strict=True)
    return theirs, ours


def as_ours(theirs: dict[str, torch.Tensor], config: BertConfig) -> dict[str, torch.Tensor]:
    rows = family_of(config).files_for(config).table(config)
    return {row.ours: join(theirs[name] for name in row.theirs) for row in rows if row.ours != "mlm.decoder"}


def make_inputs(segments: int, seed: int = 1) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(seed)
    ids = torch.randint(1, 500, (5, 33))
    mask = (torch.arange(33)[None] < torch.tensor([33, 1, 20, 32, 7])[:, None]).long()
    return ids, mask, torch.randint(0, segments, (5, 33)), torch.randint(0, 64, (5, 33))


def close(ours: torch.Tensor, theirs: torch.Tensor, tolerance: float = 1e-5) -> None:
    torch.testing.assert_close(ours, theirs, rtol=0, atol=tolerance)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: f"{shape['num_hidden_layers']}x{shape['hidden_size']}")
@pytest.mark.parametrize("with_mask", [False, True])
@pytest.mark.parametrize("with_segments", [False, True])
@pytest.mark.parametrize("with_positions", [False, True])
def test_every_output_equals_the_reference(shape, with_mask, with_segments, with_positions):
    theirs, ours = make_pair(shape)
    theirs.set_attn_implementation("eager")
    ids, mask, segments, positions = make_inputs(shape.get("type_vocab_size", 2))
    given = {
        "attention_mask": mask if with_mask else None,
        "position_ids": positions if with_positions else None,
    }
    segments = segments if with_segments else None
    with torch.no_grad():
        expected = theirs(ids, token_type_ids=segments, output_hidden_states=True, output_attentions=True, **given)
        plain = ours.encoder(ids, segment_ids=segments, hidden_states=True, attentions=True, **given)
        fused = ours.encoder(ids, segment_ids=segments, hidden_states=True, **given)
        pooled = theirs.bert(ids, token_type_ids=segments, **given).pooler_output
    seen = mask.bool() if with_mask else torch.ones_like(ids, dtype=torch.bool)
    assert len(expected.hidden_states) == len(plain.hidden_states) == len(fused.hidden_states)
    for a, b, c in zip(plain.hidden_states, fused.hidden_states, expected.hidden_states, strict=True):
        close(a, c)
        close(b[seen], c[seen])
    assert len(expected.attentions) == len(plain.attentions) == shape["num_hidden_layers"]
    for a, b in zip(plain.attentions, expected.attentions, strict=True):
        close(a, b)
    close(ours.pool(plain.last), pooled)
    close(ours.word_scores(plain.last), expected.prediction_logits)
    close(ours.next_sentence_scores(plain.last), expected.seq_relationship_logits)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: f"{shape['num_hidden_layers']}x{shape['hidden_size']}")
@pytest.mark.parametrize("with_mask", [False, True])
@pytest.mark.parametrize("checkpointing", [False, True])
def test_every_gradient_equals_the_reference(shape, with_mask, checkpointing):
    theirs, ours = make_pair(shape)
    inputs = make_inputs(shape.get("type_vocab_size", 2))
    assert_equal_gradients(theirs, ours, inputs, with_mask=with_mask, checkpointing=checkpointing)


def assert_equal_gradients(theirs, ours: Bert, inputs, *, with_mask: bool, checkpointing: bool = False) -> None:
    """Of the pretraining loss, for hidden words and next sentences drawn at random."""
    ids, mask, segments, _ = inputs
    given = mask if with_mask else None
    torch.manual_seed(2)
    labels = torch.randint(1, 500, ids.shape)
    labels[torch.rand(ids.shape) < 0.8] = -100
    next_sentence = torch.randint(0, 2, (len(ids),))
    theirs(ids, given, segments, labels=labels, next_sentence_label=next_sentence).loss.backward()

    if checkpointing:
        turn_dropout_off(ours)
        ours.train()
        ours.encoder.gradient_checkpointing = True
    last = ours.encoder(ids, given, segments).last
    masked = labels != -100
    loss = torch.nn.functional.cross_entropy(ours.word_scores(last[masked]), labels[masked])
    loss = loss + torch.nn.functional.cross_entropy(ours.next_sentence_scores(last), next_sentence)
    loss.backward()

    gradients = {name: parameter.grad for name, parameter in theirs.named_parameters(remove_duplicate=False)}
    expected = as_ours(gradients, ours.config)
    for name, parameter in ours.named_parameters():
        close(parameter.grad, expected[name], 1e-4)


def turn_dropout_off(model: Bert) -> None:
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0


def test_hidden_states_of_real_weights_equal_the_reference(minilm: Path, english: list[str]):
    from transformers import AutoModel, AutoTokenizer

    from bertkit import load_encoder

    sentences = english[:: len(english) // 200][:200]
    assert len(sentences) == 200
    ours = load_encoder(minilm)
    theirs, tokenizer = AutoModel.from_pretrained(minilm).eval(), AutoTokenizer.from_pretrained(minilm)
    for start in range(0, 200, 25):
        batch = tokenizer(sentences[start : start + 25], padding=True, return_tensors="pt")
        seen = batch["attention_mask"].bool()
        with torch.no_grad():
            expected = theirs(**batch, output_hidden_states=True).hidden_states
            padded = ours.model.encoder(batch["input_ids"], batch["attention_mask"], hidden_states=True).hidden_states
        assert len(expected) == len(padded) == 7
        for a, b in zip(padded, expected, strict=True):
            close(a[seen], b[seen], 1e-4)


def test_vectors_of_real_weights_equal_the_reference(minilm: Path, english: list[str]):
    """The packed way that `embed` takes, against the padded one of the reference."""
    from transformers import AutoModel, AutoTokenizer

    from bertkit import load_encoder

    sentences = english[::97][:60]
    theirs, tokenizer = AutoModel.from_pretrained(minilm).eval(), AutoTokenizer.from_pretrained(minilm)
    batch = tokenizer(sentences, padding=True, return_tensors="pt")
    weights = batch["attention_mask"][..., None].float()
    with torch.no_grad():
        expected = (theirs(**batch).last_hidden_state * weights).sum(1) / weights.sum(1)
    vectors = torch.from_numpy(load_encoder(minilm).embed(sentences, pooling="mean", normalize=False))
    close(vectors, expected)
