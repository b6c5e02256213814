"""The network by itself: sizes, initialisation, and the different ways through it that must agree."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bertkit.families import PRESETS, bert_base, bert_large, bert_mini, bert_tiny
from bertkit.nn import Bert, Padded, TransformerConfig, additive_mask, grouped

# Turc et al. 2019, table 1 (millions, pretraining heads included); BERT-large's 340M is Devlin et al. 2018, rounded.
PUBLISHED = {"bert-tiny": 4.4, "bert-mini": 11.3, "bert-small": 29.1, "bert-medium": 41.7, "bert-base": 110.1}


@pytest.mark.parametrize(("name", "millions"), PUBLISHED.items())
def test_parameter_counts_are_the_published_ones(name, millions):
    assert round(Bert.without_weights(PRESETS[name]()).parameter_count() / 1e6, 1) == millions


def test_large_has_340_million_parameters():
    assert round(Bert.without_weights(bert_large()).parameter_count() / 1e6, -1) == 340


def test_bare_encoders_have_the_counts_of_the_published_checkpoints():
    assert Bert.without_weights(bert_base(), mlm=False, nsp=False).parameter_count() == 109_482_240
    assert Bert.without_weights(bert_large(), mlm=False, nsp=False).parameter_count() == 335_141_888


def test_presets_have_the_published_sizes():
    made = {name: make() for name, make in PRESETS.items()}
    lstms = ("elmo", "awd-lstm")
    sizes = {name: (its.num_hidden_layers, its.hidden_size) for name, its in made.items() if its.family not in lstms}
    assert sizes == {
        "bert-tiny": (2, 128),
        "bert-mini": (4, 256),
        "bert-small": (4, 512),
        "bert-medium": (8, 512),
        "bert-base": (12, 768),
        "bert-large": (24, 1024),
        "roberta-tiny": (2, 128),
        "roberta-mini": (4, 256),
        "roberta-base": (12, 768),
        "roberta-large": (24, 1024),
        "albert-tiny": (2, 128),
        "albert-mini": (4, 256),
        "albert-base": (12, 768),
        "albert-large": (24, 1024),
        "albert-xlarge": (24, 2048),
        "albert-xxlarge": (12, 4096),
        "electra-tiny": (2, 128),
        "electra-mini": (4, 256),
        "electra-small": (12, 256),
        "electra-base": (12, 768),
        "electra-large": (24, 1024),
        "gpt-tiny": (2, 128),
        "gpt-mini": (4, 256),
        "gpt": (12, 768),
        "gpt2-tiny": (2, 128),
        "gpt2-mini": (4, 256),
        "gpt2": (12, 768),
        "gpt2-medium": (24, 1024),
        "gpt2-large": (36, 1280),
        "gpt2-xl": (48, 1600),
        "modernbert-tiny": (2, 128),
        "modernbert-mini": (4, 256),
        "modernbert-base": (22, 768),
        "modernbert-large": (28, 1024),
        "transformer-tiny": (2, 128),
        "transformer-mini": (3, 256),
        "transformer-base": (6, 512),
    }
    gated = {"modernbert-tiny": 320, "modernbert-mini": 640, "modernbert-base": 1152, "modernbert-large": 2624}
    for name, config in made.items():
        if not isinstance(config, TransformerConfig):
            continue
        assert config.intermediate_size == gated.get(name, 4 * config.hidden_size), name
        assert config.head_size == (128 if name == "albert-xlarge" else 64), name


def test_initialisation_is_as_published():
    torch.manual_seed(0)
    model = Bert(bert_mini())
    for name, parameter in model.named_parameters():
        if "norm" in name:
            assert (parameter == (1.0 if name.endswith("weight") else 0.0)).all(), name
        elif name.endswith("bias"):
            assert (parameter == 0).all(), name
        else:
            assert parameter.std().item() == pytest.approx(0.02, rel=0.05), name
            assert abs(parameter.mean().item()) < 4 * 0.02 / parameter.numel() ** 0.5, name
    assert (model.encoder.embeddings.word.weight[0] == 0).all(), "the padding token's embedding"


def test_initialisation_does_not_underflow_into_denormals():
    """A badly scaled start makes every step three times as slow."""
    torch.manual_seed(0)
    model = Bert(bert_mini()).eval()
    output = model.encoder(torch.randint(1, 30000, (2, 128)), attentions=True)
    smallest = torch.finfo(torch.float32).tiny
    assert all((maps >= smallest).all() for maps in output.attentions)


@pytest.fixture(scope="module")
def model() -> Bert:
    torch.manual_seed(0)
    return Bert(bert_tiny(vocab_size=300, initializer_range=0.1)).eval()


def padded_batch() -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(1)
    ids = torch.randint(1, 300, (4, 20))
    return ids, (torch.arange(20)[None] < torch.tensor([20, 13, 5, 5])[:, None])


@torch.no_grad()
@pytest.mark.parametrize("preset", [bert_tiny, bert_mini, bert_base])
def test_fused_and_plain_attention_agree(preset):
    """Each layer to 1e-6; through the whole stack to 1e-6 of the outputs' size, which is about 4."""
    torch.manual_seed(0)
    model = Bert(preset(vocab_size=300)).eval()
    ids, mask = padded_batch()
    for hiding in (None, mask):
        fused, plain = (model.encoder(ids, hiding, hidden_states=True, attentions=maps) for maps in (False, True))
        layout = Padded(None if hiding is None else additive_mask(hiding, torch.float32))
        for block, state in zip(model.encoder.blocks, plain.hidden_states[:-1], strict=True):
            one, other = (block.attention(state, layout, want_map)[0] for want_map in (False, True))
            torch.testing.assert_close(one, other, rtol=0, atol=1e-6)
        size = plain.last.abs().max().item()
        torch.testing.assert_close(fused.last, plain.last, rtol=0, atol=1e-6 * size)


@torch.no_grad()
def test_padding_changes_nothing(model):
    ids, mask = padded_batch()
    together = model.encoder(ids, mask).last
    for row, length in enumerate(mask.sum(1).tolist()):
        alone = model.encoder(ids[row : row + 1, :length]).last[0]
        torch.testing.assert_close(together[row, :length], alone, rtol=0, atol=1e-5)


@torch.no_grad()
def test_packed_and_padded_batches_agree_in_every_layer(model):
    ids, mask = padded_batch()
    padded = model.encoder(ids, mask, hidden_states=True)
    packed = model.encoder.packed(ids[mask], [(1, 20), (1, 13), (2, 5)], hidden_states=True)
    assert len(padded.hidden_states) == len(packed.hidden_states) == 3
    for a, b in zip(padded.hidden_states, packed.hidden_states, strict=True):
        torch.testing.assert_close(a[mask], b, rtol=0, atol=1e-5)


def test_packed_batches_have_the_same_gradients(model):
    ids, mask = padded_batch()
    parameters = list(model.encoder.parameters())
    a = torch.autograd.grad(model.encoder(ids, mask).last[mask].square().sum(), parameters)
    b = torch.autograd.grad(model.encoder.packed(ids[mask], [(1, 20), (1, 13), (2, 5)]).last.square().sum(), parameters)
    for one, other in zip(a, b, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-3)


@torch.no_grad()
@pytest.mark.parametrize("family", [{}, {"pre_norm": True}, {"causal": True}], ids=["post", "pre", "causal"])
@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 30)), min_size=1, max_size=8))
def test_sequences_packed_in_any_lengths_are_as_each_alone(family, runs):
    """Some of nearly one length are filled up to it within attention: nothing of that may be seen outside."""
    torch.manual_seed(0)
    encoder = Bert(bert_tiny(vocab_size=300, initializer_range=0.1, **family)).eval().encoder
    lengths = [length for count, length in runs for _ in range(count)]
    sequences = [torch.randint(1, 300, (length,)) for length in lengths]
    packed = encoder.packed(torch.cat(sequences), runs).last
    alone = torch.cat([encoder(sequence[None]).last[0] for sequence in sequences])
    torch.testing.assert_close(packed, alone, rtol=0, atol=1e-5)


@torch.no_grad()
def test_sequences_filled_up_within_attention_are_exact_in_double_precision_too():
    torch.manual_seed(0)
    encoder = Bert(bert_tiny(vocab_size=300, initializer_range=0.1)).double().eval().encoder
    sequences = [torch.randint(1, 300, (length,)) for length in (20, 19, 19, 17)]
    packed = encoder.packed(torch.cat(sequences), [(1, 20), (2, 19), (1, 17)]).last
    alone = torch.cat([encoder(sequence[None]).last[0] for sequence in sequences])
    torch.testing.assert_close(packed, alone, rtol=0, atol=1e-12)


def test_attention_fills_up_where_it_is_cheaper_than_many_small_products():
    assert list(grouped([(64, 10), (1, 11), (1, 12)])) == [[(64, 10)], [(1, 11), (1, 12)]]
    assert [len(group) for group in grouped([(1, n) for n in range(5, 10)])] == [5]


@pytest.mark.parametrize("family", [{}, {"pre_norm": True}], ids=["post", "pre"])
@pytest.mark.parametrize("layout", ["packed", "padded"])
def test_the_places_that_are_wanted_are_as_if_all_were_computed(family, layout):
    torch.manual_seed(0)
    encoder = Bert(bert_tiny(vocab_size=300, initializer_range=0.1, **family)).eval().encoder
    ids, mask = padded_batch()
    only = torch.tensor([17, 0, 3, 21, 40])

    def last(**which):
        if layout == "packed":
            return encoder.packed(ids[mask], [(1, 20), (1, 13), (2, 5)], **which).last
        return encoder(ids, mask, **which).last

    some, those = last(only=only), last().flatten(0, -2)[only]
    torch.testing.assert_close(some, those, rtol=0, atol=1e-5)
    parameters = list(encoder.parameters())
    a, b = (torch.autograd.grad(found.square().sum(), parameters) for found in (some, those))
    for one, other in zip(a, b, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-3)


@torch.no_grad()
def test_a_row_with_nothing_to_look_at_is_finite(model):
    ids, mask = padded_batch()
    mask = mask.clone()
    mask[2] = False
    for attentions in (False, True):
        assert torch.isfinite(model.encoder(ids, mask, attentions=attentions).last).all()


@torch.no_grad()
def test_a_mask_for_each_token_can_look_left_only(model):
    ids, _ = padded_batch()
    left = torch.ones(20, 20).tril().expand(4, 20, 20)
    whole = model.encoder(ids, left).last
    cut = model.encoder(ids[:, :11], left[:, :11, :11]).last
    torch.testing.assert_close(whole[:, :11], cut, rtol=0, atol=1e-5)


def test_a_mask_of_another_shape_is_refused(model):
    with pytest.raises(ValueError, match="B x L"):
        model.encoder(torch.ones(2, 3, dtype=torch.long), torch.ones(3))


def test_gradient_checkpointing_gives_the_same_gradients_with_dropout():
    ids = torch.randint(1, 300, (3, 16))
    gradients = []
    for switch in (False, True):
        torch.manual_seed(5)
        model = Bert(bert_tiny(vocab_size=300)).train()
        model.encoder.gradient_checkpointing = switch
        torch.manual_seed(6)
        model.word_scores(model.encoder(ids).last).logsumexp(-1).sum().backward()
        gradients.append([p.grad for p in model.parameters() if p.grad is not None])
    for one, other in zip(*gradients, strict=True):
        assert torch.equal(one, other)


def test_a_part_that_is_not_there_is_named(model):
    bare = Bert(bert_tiny(vocab_size=300), pooler=False, mlm=False, nsp=False)
    hidden = bare.encoder(torch.ones(1, 4, dtype=torch.long)).last
    for ask, part in (
        (bare.pool, "pooler"),
        (bare.word_scores, "masked-word"),
        (bare.next_sentence_scores, "next-sent"),
    ):
        with pytest.raises(ValueError, match=part):
            ask(hidden)


def test_dropout_acts_in_training_only(model):
    ids, mask = padded_batch()
    assert torch.equal(model.encoder(ids, mask).last, model.encoder(ids, mask).last)
    model.train()
    try:
        assert not torch.equal(model.encoder(ids, mask).last, model.encoder(ids, mask).last)
    finally:
        model.eval()


def test_positions_can_begin_as_waves():
    """The likeness of two positions depends on how far they are apart, and on nothing else."""
    model = Bert(bert_tiny(vocab_size=100, max_position_embeddings=64))
    model.encoder.embeddings.begin_with_waves(0.02)
    weight = model.encoder.embeddings.position.weight.detach().double()
    assert weight.std().item() == pytest.approx(0.02, rel=1e-3)
    likeness = weight @ weight.t()
    for apart in (0, 1, 5, 30):
        torch.testing.assert_close(
            likeness.diagonal(apart), likeness[0, apart].expand(64 - apart), rtol=1e-4, atol=1e-7
        )
    assert likeness[0, 1] > likeness[0, 2] > likeness[0, 4]
