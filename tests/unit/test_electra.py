"""ELECTRA's two networks: what is sampled, what is asked of whom, where gradients go, and that a run keeps both."""

from __future__ import annotations

from itertools import accumulate
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st

import bertkit
from bertkit import device
from bertkit.cli.training_display import TrainingDisplay
from bertkit.corpus import CorpusFolder
from bertkit.corpus.keyed import Choice
from bertkit.errors import UsageError
from bertkit.families import PRESETS, SHARED, Electra, electra_generator
from bertkit.objectives import (
    WEIGHT,
    Batch,
    Masking,
    PretrainingData,
    ReplacedTokens,
    Term,
    Together,
    masked_word_term,
    masked_words_with_guesses,
    sampled,
)
from bertkit.train import Learner, Request, Watcher, make_recipe
from bertkit.train.pretrain import pretrain

STILL = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


@pytest.fixture
def model(shards: Path) -> Electra:
    torch.manual_seed(0)
    config = PRESETS["electra-tiny"](vocab_size=CorpusFolder(shards).tokenizer.vocab_size, embedding_size=64, **STILL)
    return Electra(config, generator_size=0.5)


def data_of(shards: Path, *, packed: bool = True) -> PretrainingData:
    corpus = CorpusFolder(shards)
    asked = ReplacedTokens(corpus.tokenizer, Masking(masked=0.85, random=0.0))
    return PretrainingData(corpus, objectives=Together([asked]), seed=0, packed=packed)


def batch_of(shards: Path, *, packed: bool = True, count: int = 6) -> Batch:
    return data_of(shards, packed=packed).batch([Choice(0, number) for number in range(count)], 48)


def terms_of(model: Electra, shards: Path, batch: Batch) -> dict[str, Term]:
    return data_of(shards).objectives.terms(model, batch)


def test_words_are_sampled_as_often_as_they_are_likely():
    torch.manual_seed(0)
    weights = torch.rand(301, 1).pow(8)
    many = sampled(weights.expand(-1, 50_000).contiguous(), torch.rand(50_000))
    found = torch.bincount(many, minlength=301) / 50_000
    likely = (weights / weights.sum()).flatten()
    assert (found - likely).abs().max() < 0.01
    assert 0.5 * (found - likely).abs().sum() < 0.05


@given(st.integers(1, 400), st.integers(0, 2**31))
def test_what_has_no_weight_is_never_sampled(words, seed):
    generator = torch.Generator().manual_seed(seed)
    weights = torch.rand(words, 9, generator=generator) * (torch.rand(words, 9, generator=generator) < 0.1)
    weights[words // 2] += 1e-6
    for uniform in (torch.zeros(9), torch.full((9,), 1 - 2**-24), torch.rand(9, generator=generator)):
        chosen = sampled(weights, uniform)
        assert (weights.gather(0, chosen[None]) > 0).all()


def test_sampling_leaves_the_loss_and_its_gradients_as_they_are(model, shards):
    batch = batch_of(shards)
    generator, hidden = model.generator, batch.part("rtd")
    found = []
    for way in (
        lambda x: masked_word_term(generator, x, hidden.answers),
        lambda x: masked_words_with_guesses(generator, x, hidden.answers, hidden.chances)[0],
    ):
        generator.zero_grad()
        term = way(generator.encoder.read(batch, hidden.places))
        term.total.backward()
        gradients = [parameter.grad.clone() for parameter in generator.parameters() if parameter.grad is not None]
        found.append((term.total.item(), gradients))
    assert found[0][0] == found[1][0]
    assert all(torch.equal(a, b) for a, b in zip(found[0][1], found[1][1], strict=True))


def test_the_discriminators_loss_moves_nothing_of_the_generators_own(model, shards):
    """No gradient passes through the sampling; the embeddings are both's."""
    model.train()
    terms = terms_of(model, shards, batch_of(shards))
    terms["rtd"].total.backward()
    for name, parameter in model.generator.named_parameters():
        shared = name.startswith(tuple(f"encoder.embeddings.{part}." for part in SHARED))
        assert (parameter.grad is not None) == shared, name
    assert all(parameter.grad is not None for parameter in model.discriminator.parameters())


def test_it_is_asked_of_every_token_and_right_guesses_are_no_replacements(model, shards):
    batch = batch_of(shards)
    model.eval()
    seen: list[torch.Tensor] = []
    model.discriminator.encoder.embeddings.word.register_forward_hook(lambda _, given, __: seen.append(given[0]))
    terms, hidden = terms_of(model, shards, batch), batch.part("rtd")
    original = batch.ids.clone()
    original[hidden.places] = hidden.answers
    read = seen[-1]  # the discriminator comes second
    places = torch.ones(len(original), dtype=torch.bool)
    places[hidden.places] = False
    assert torch.equal(read[places], original[places])  # what was not hidden is as it was
    assert CorpusFolder(shards).tokenizer.mask_id not in read[hidden.places].tolist()
    with torch.no_grad():
        x = model.discriminator.encoder.packed(read, batch.runs, batch.segments).last
        scores = model.discriminator.replaced_scores(x)
    expected = torch.nn.functional.binary_cross_entropy_with_logits(scores, (read != original).float(), reduction="sum")
    torch.testing.assert_close(terms["rtd"].total.detach(), expected, rtol=1e-5, atol=1e-3)
    assert terms["rtd"].count == batch.tokens == batch.counts["rtd"]
    assert terms["rtd"].weight == WEIGHT == 50


def test_padding_is_not_asked_for(model, shards):
    model.eval()
    with torch.no_grad():
        terms = terms_of(model, shards, batch_of(shards, packed=False))
    assert terms["rtd"].count == batch_of(shards).tokens


def test_the_losses_are_weighted_as_published(model, shards):
    batch = batch_of(shards)
    model.eval()
    loss, sums = Learner(model, data_of(shards).objectives.terms)(batch, batch.counts)
    expected = sums["mlm_loss"] / batch.counts["mlm"] + 50 * sums["rtd_loss"] / batch.counts["rtd"]
    torch.testing.assert_close(loss.detach(), expected)


@settings(max_examples=20, deadline=None)
@given(sizes=st.lists(st.integers(1, 5), min_size=1, max_size=5), packed=st.booleans())
def test_a_sample_is_always_filled_in_the_same_way_whatever_it_is_cut_together_with(shards, sizes, packed):
    """For each sample by its words: the same places, and the same chances at them."""
    data = data_of(shards, packed=packed)
    choices = [Choice(0, number) for number in range(sum(sizes))]

    def chances(batches: list[Batch]) -> dict[tuple[int, ...], list[float]]:
        found = {}
        for batch in batches:
            ids, asked = batch.ids.flatten().clone(), batch.part("rtd")
            ids[asked.places] = asked.answers
            for first, length in zip(batch.firsts.tolist(), batch.lengths.tolist(), strict=True):
                inside = (asked.places >= first) & (asked.places < first + length)
                found[tuple(ids[first : first + length].tolist())] = asked.chances[inside].tolist()
        return found

    ends = list(accumulate(sizes))
    parts = [data.batch(choices[end - size : end], 48) for size, end in zip(sizes, ends, strict=True)]
    whole = chances([data.batch(choices, 48)])
    assert chances(parts) == whole
    assert len(whole) == len(choices)
    drawn = [chance for each in whole.values() for chance in each]
    assert len({*drawn}) == len(drawn)
    assert all(0 <= chance < 1 for chance in drawn)


def test_a_run_keeps_both_networks_and_each_opens_in_transformers(shards, tmp_path, capsys):
    request = Request(
        shards=shards,
        model="electra-tiny",
        steps=30,
        change={"batch": 8, "length": 32, "generator_size": 0.5},
        validation_samples=16,
    )
    with TrainingDisplay() as display:
        facts = pretrain(request, tmp_path / "run", device.choose("cpu", "float32", 1), display)
    assert {"mlm_loss", "rtd_loss", "rtd_accuracy"} <= facts.keys()
    said = capsys.readouterr().err
    assert f"generator's loss {facts['mlm_loss']:.3f}, discriminator's {facts['rtd_loss']:.3f}" in " ".join(
        said.split()
    )
    assert "step 30/30 generator's loss" in " ".join(display._line().split())
    for folder, their_class in (
        ("model", transformers.ElectraForPreTraining),
        ("generator", transformers.ElectraForMaskedLM),
    ):
        _, report = their_class.from_pretrained(tmp_path / "run" / folder, output_loading_info=True)
        assert not report["missing_keys"]
        assert not report["unexpected_keys"]
    generator = bertkit.load_encoder(tmp_path / "run" / "generator")
    assert len(generator.fill_mask("The [MASK] statement.", k=3)[0]) == 3
    discriminator = bertkit.load_encoder(tmp_path / "run" / "model")
    tables = [each.model.encoder.embeddings.word.weight for each in (generator, discriminator)]
    assert torch.equal(*tables)
    assert np.isfinite(discriminator.embed("one text")).all()


@pytest.mark.parametrize(
    ("name", "size", "message"),
    [
        ("electra-tiny", 2.0, "a generator of 2 times the width of its discriminator"),
        ("electra-tiny", 0.0, "a generator of 0 times"),
        ("bert-tiny", 0.5, "a generator for a bert model"),
        ("albert-tiny", 0.5, "a generator for an albert model"),
    ],
)
def test_a_generator_that_cannot_be_is_refused(name, size, message, shards, tmp_path):
    request = Request(shards=shards, model=name, steps=2, change={"generator_size": size})
    with pytest.raises(UsageError, match=message):
        pretrain(request, tmp_path / "run", device.choose("cpu", "float32", 1), Watcher())
    assert not (tmp_path / "run").exists()


def test_a_generator_of_another_width_than_asked_for_is_told(shards, tmp_path):
    said: list[str] = []

    class Listening(Watcher):
        def said(self, message: str) -> None:
            said.append(message)

    for size in (0.25, 0.5):
        change = {"batch": 4, "length": 32, "generator_size": size}
        request = Request(shards=shards, model="electra-tiny", steps=1, change=change, validation_samples=4)
        pretrain(request, tmp_path / str(size), device.choose("cpu", "float32", 1), Listening())
    notes = [text for text in said if "the generator is" in text]
    assert notes == [
        "the generator is 0.5 times as wide as the discriminator, not 0.25: heads are 64 wide, and it has 1 of them"
    ]


def test_the_generator_of_each_size_is_as_wide_as_published(shards):
    def width(name: str, **change: float) -> int:
        recipe = make_recipe(Request(shards=shards, model=name, steps=1, change=change))
        return electra_generator(PRESETS[name](), recipe.built_with["generator_size"]).hidden_size

    assert [width(f"electra-{size}") for size in ("small", "base", "large")] == [64, 256, 256]
    assert width("electra-base", generator_size=0.25) == 192
