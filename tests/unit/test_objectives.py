"""Losses equal their plain formulas; batches are what their samples are, however they are laid out, cut and made."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from bertkit.corpus import CorpusFolder, Sample
from bertkit.corpus.keyed import Choice
from bertkit.errors import UsageError
from bertkit.families import bert_tiny
from bertkit.nn import Bert, ComparesTexts
from bertkit.objectives import (
    FIRST,
    PLACES_AT_ONCE,
    Asked,
    Batch,
    Chosen,
    Cut,
    MaskedWords,
    Masking,
    NextSentence,
    Objective,
    Part,
    PretrainingData,
    Term,
    Together,
    answered,
    masked_word_term,
)
from bertkit.text import Tokenizer
from bertkit.train import Learner, micro_batches

VOCABULARY = 500
LENGTH = 64


def small(*, vocab_size: int = VOCABULARY, tied: bool = True, seed: int = 0, nsp: bool = True, **changes) -> Bert:
    torch.manual_seed(seed)
    still = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "initializer_range": 0.1}
    return Bert(bert_tiny(vocab_size=vocab_size, **{**still, **changes}), tied=tied, pooler=nsp, nsp=nsp)


def gradients(model: Bert, loss: Tensor, *others: Tensor) -> dict[str, Tensor]:
    model.zero_grad()
    for other in others:
        other.grad = None
    loss.backward()
    found = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    return found | {f"input {number}": other.grad.clone() for number, other in enumerate(others)}


def assert_alike(ours: dict[str, Tensor], theirs: dict[str, Tensor], tolerance: float = 1e-5) -> None:
    assert ours.keys() == theirs.keys()
    largest = max(float(tensor.abs().max()) for tensor in theirs.values())
    for name, tensor in theirs.items():
        # a gradient that is 0 but for rounding (the keys' bias) is compared with the size of all
        size = max(float(tensor.abs().max()), 1e-3 * largest)
        assert float((ours[name] - tensor).abs().max()) <= tolerance * size, name


@pytest.fixture(scope="module")
def corpus(shards: Path) -> CorpusFolder:
    return CorpusFolder(shards)


def data_of(
    corpus: CorpusFolder, *, masking: Masking | None = None, nsp: bool = True, seed: int = 0, packed: bool = True
) -> PretrainingData:
    chosen = [Chosen(name="mlm", options=masking), *([Chosen(name="nsp")] if nsp else [])]
    return PretrainingData(corpus, objectives=Together.of(chosen, corpus.tokenizer), seed=seed, packed=packed)


def some(count: int, epoch: int = 0) -> list[Choice]:
    return [Choice(epoch, number) for number in range(count)]


def hidden(batch: Batch) -> tuple[Tensor, Tensor]:
    """Where words are hidden, and which."""
    return batch.asked["mlm"]["places"], batch.asked["mlm"]["answers"]


def same(one: Batch, other: Batch) -> bool:
    def parts(batch: Batch) -> dict[str, object]:
        asked = {(name, what): value for name, its in batch.asked.items() for what, value in its.items()}
        return {
            **{name: getattr(batch, name) for name in Batch.__dataclass_fields__},
            "asked": None,
            "by": None,
            **asked,
        }

    mine, others = parts(one), parts(other)
    pairs = [(value, others[name]) for name, value in mine.items()]
    return mine.keys() == others.keys() and all(
        torch.equal(a, b) if isinstance(a, Tensor) else a == b for a, b in pairs
    )


# --- the terms


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("places", [1, 37, PLACES_AT_ONCE, 2 * PLACES_AT_ONCE + 5])
def test_the_masked_word_loss_is_the_plain_cross_entropy(tied: bool, places: int):
    model = small(tied=tied)
    with torch.no_grad():
        model.mlm.bias.normal_()
    x = torch.randn(places, 128, requires_grad=True)
    labels = torch.randint(0, VOCABULARY, (places,))
    scores = model.word_scores(x)
    with torch.no_grad():  # some must be right
        labels[::3] = scores[::3].argmax(1)
    plain = F.cross_entropy(scores, labels, reduction="sum")
    expected = gradients(model, plain * 0.37, x)
    term = masked_word_term(model, x, labels)
    assert term.total.item() == pytest.approx(plain.item(), rel=1e-5)
    assert term.count == places
    assert int(term.right) == int((scores.argmax(1) == labels).sum()) >= len(labels[::3])
    assert_alike(gradients(model, term.total * 0.37, x), expected)
    with torch.no_grad():
        unseen = masked_word_term(model, x, labels)
    assert unseen.total.item() == term.total.item()
    assert int(unseen.right) == int(term.right)


def test_scores_of_any_size_give_a_finite_loss():
    model = small()
    with torch.no_grad():
        model.mlm.bias.normal_(std=1e4)
    x, labels = torch.randn(9, 128, requires_grad=True), torch.arange(9)
    term = masked_word_term(model, x, labels)
    assert term.total.item() == pytest.approx(F.cross_entropy(model.word_scores(x), labels, reduction="sum").item())
    assert all(torch.isfinite(found).all() for found in gradients(model, term.total, x).values())


def test_reduced_precision_gives_nearly_the_same_loss():
    model = small()
    x, labels = torch.randn(50, 128, requires_grad=True), torch.arange(50)
    expected = masked_word_term(model, x, labels)
    exact = gradients(model, expected.total, x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        term = masked_word_term(model, x, labels)
    assert term.total.dtype == torch.float32
    assert term.total.item() == pytest.approx(expected.total.item(), rel=0.01)
    assert_alike(gradients(model, term.total, x), exact, 0.1)


def test_the_next_sentence_loss_is_the_plain_cross_entropy():
    model = small()
    x_BLD = torch.randn(6, 4, 128, requires_grad=True)
    random = torch.tensor([0, 1, 1, 0, 1, 0])
    scores = model.next_sentence_scores(x_BLD)
    plain = F.cross_entropy(scores, random, reduction="sum")
    expected = gradients(model, plain, x_BLD)
    term = answered(model.compared(x_BLD[:, 0]), random)
    assert term.total.item() == pytest.approx(plain.item(), rel=1e-6)
    assert (term.count, int(term.right)) == (6, int((scores.argmax(1) == random).sum()))
    assert_alike(gradients(model, term.total, x_BLD), expected)


def test_a_model_without_the_head_is_an_error():
    with pytest.raises(ValueError, match="no masked-word head"):
        masked_word_term(Bert(bert_tiny(vocab_size=50), mlm=False), torch.randn(1, 128), torch.tensor([1]))
    with pytest.raises(ValueError, match="no next-sentence head"):
        small(nsp=False).compared(torch.randn(1, 128))


# --- batches


@pytest.mark.parametrize("changes", [{}, {"pre_norm": True}, {"causal": True}], ids=["bert", "pre-norm", "one-way"])
@pytest.mark.parametrize("nsp", [True, False])
def test_packed_and_padded_batches_of_the_same_samples_say_the_same(
    corpus: CorpusFolder, tokenizer: Tokenizer, changes: dict, nsp: bool
):
    choices = some(12)
    packed, padded = (data_of(corpus, packed=way, nsp=nsp).batch(choices, LENGTH) for way in (True, False))
    assert packed.seen is None is padded.runs
    assert len({len(row) for row in padded.ids}) == 1 < len(packed.runs)
    model = small(vocab_size=tokenizer.vocab_size, nsp=nsp, **changes)
    found = []
    objectives = data_of(corpus, nsp=nsp).objectives
    for batch in (packed, padded):
        losses = objectives.terms(model, batch)
        assert losses.keys() == ({"mlm", "nsp"} if nsp else {"mlm"})
        total = torch.stack([term.total for term in losses.values()]).sum()
        found.append(({name: (t.total.item(), int(t.right)) for name, t in losses.items()}, gradients(model, total)))
    for name, (loss, right) in found[0][0].items():
        assert loss == pytest.approx(found[1][0][name][0], rel=1e-6)
        assert right == found[1][0][name][1]
    assert_alike(found[0][1], found[1][1], 2e-5)


def test_a_batch_is_the_same_whoever_makes_it(corpus: CorpusFolder, shards: Path):
    choices = [Choice(epoch, number) for epoch in (3, 4) for number in (900, 7, 31)]
    for packed in (True, False):
        one = data_of(corpus, packed=packed).batch(choices, LENGTH)
        other = data_of(CorpusFolder(shards), packed=packed)
        other.batch(some(5, epoch=9), 128)  # what was asked before does not matter
        assert same(one, other.batch(choices, LENGTH))
        assert not same(one, data_of(corpus, packed=packed, seed=1).batch(choices, LENGTH))


def test_masks_are_those_of_the_epoch(corpus: CorpusFolder):
    data = data_of(corpus, nsp=False)  # whose sequences are the same in each epoch
    first, again, later = (data.batch(some(20, epoch), LENGTH) for epoch in (0, 0, 1))
    assert same(first, again)
    assert first.runs == later.runs
    assert not torch.equal(first.ids, later.ids)
    restored = [batch.ids.scatter(0, *hidden(batch)) for batch in (first, later)]
    assert torch.equal(*restored), "what is hidden differs, what is there does not"


@pytest.mark.parametrize("nsp", [True, False])
def test_static_masks_are_the_same_in_every_epoch(nsp: bool, corpus: CorpusFolder):
    data = data_of(corpus, nsp=nsp, masking=Masking(copies=1))
    first, later = (data.batch(some(20, epoch), LENGTH) for epoch in (0, 1))
    assert same(first, later)
    assert same(first, data_of(corpus, nsp=nsp).batch(some(20, 0), LENGTH)), "the first epoch is as ever"
    assert data.size(0, LENGTH) == data.size(5, LENGTH)
    assert not same(first, data_of(corpus, nsp=nsp, masking=Masking(copies=1), seed=1).batch(some(20, 0), LENGTH))


def test_copies_of_static_masks_come_by_turns(corpus: CorpusFolder):
    data = data_of(corpus, nsp=False, masking=Masking(copies=3))
    batches = [data.batch(some(20, epoch), LENGTH) for epoch in range(6)]
    for epoch in range(3):
        assert same(batches[epoch], batches[epoch + 3])
        assert not torch.equal(batches[epoch].ids, batches[epoch + 1].ids)


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("nsp", [True, False])
def test_counts_and_places_are_those_of_the_samples(
    corpus: CorpusFolder, tokenizer: Tokenizer, packed: bool, nsp: bool
):
    data = data_of(corpus, packed=packed, nsp=nsp)
    choices = some(30)
    batch = data.batch(choices, LENGTH)
    samples = [data.sample(choice, LENGTH) for choice in choices]
    assert batch.sequences == 30
    assert batch.tokens == sum(len(sample) for sample, _ in samples)
    count = sum(len(asked[0].places) for _, asked in samples)
    assert batch.counts == ({"mlm": count, "nsp": 30} if nsp else {"mlm": count})
    ids = batch.ids.flatten()
    assert ids[batch.firsts].tolist() == [tokenizer.cls_id] * 30
    assert int((ids != tokenizer.pad_id).sum()) == batch.tokens
    if packed:
        assert sum(count * length for count, length in batch.runs) == len(ids) == batch.tokens
    elif batch.seen is not None:
        assert torch.equal(batch.seen.flatten() != 0, ids != tokenizer.pad_id)
    if nsp:
        random = batch.asked["nsp"]["answers"].tolist()
        assert sorted(random) == sorted(int(not sample.is_next) for sample, _ in samples)
        assert {0, 1} == {*random}
    whole = {tuple(sample.ids.tolist()) for sample, _ in samples}
    restored = ids.scatter(0, *hidden(batch)).tolist()
    lengths = [n for count, n in batch.runs for _ in range(count)] if packed else [len(s) for s, _ in samples]
    for first, length in zip(batch.firsts.tolist(), lengths, strict=True):
        assert tuple(restored[first : first + length]) in whole


@pytest.mark.parametrize("packed", [True, False])
def test_of_the_hidden_words_8_in_10_are_masked_1_random_1_kept(
    corpus: CorpusFolder, tokenizer: Tokenizer, packed: bool
):
    batch = data_of(corpus, packed=packed).batch(some(800), LENGTH)
    places, labels = hidden(batch)
    seen = batch.ids.flatten()[places]
    shares = [(seen == tokenizer.mask_id).double().mean().item(), (seen == labels).double().mean().item()]
    assert len(seen) > 4000
    assert len(seen) / (batch.tokens - 3 * 800) == pytest.approx(0.15, abs=0.005)
    assert shares == pytest.approx([0.8, 0.1], abs=0.025)


def test_a_batch_already_where_it_is_wanted_is_not_copied(corpus: CorpusFolder):
    batch = data_of(corpus).batch(some(2), LENGTH)
    assert batch.to(torch.device("cpu")) is batch
    moved = data_of(corpus, packed=False).batch(some(2), LENGTH).to(torch.device("meta"))
    tensors = [*vars(moved).values(), *(t for asked in moved.asked.values() for t in asked.values())]
    assert {t.device.type for t in tensors if isinstance(t, Tensor)} == {"meta"}


class Longer(Objective):
    """Asked where next sentences are asked: is the second text longer than the first?"""

    name, title, needs = "longer", "longer texts", (ComparesTexts,)

    def ask(self, sample: Sample, draw: int) -> Asked:
        return Asked(None, FIRST, np.array([int(2 * sample.segments.sum() > len(sample))]))

    def terms(self, network: Bert, part: Part, x: Tensor) -> Iterator[tuple[str, Term]]:
        yield self.name, answered(network.compared(x), part.answers)


@pytest.mark.parametrize("packed", [True, False])
def test_two_objectives_may_ask_of_one_place_and_both_teach(corpus: CorpusFolder, tokenizer: Tokenizer, packed: bool):
    model = small(vocab_size=tokenizer.vocab_size)
    mlm, nsp, longer = MaskedWords(tokenizer), NextSentence(tokenizer), Longer(tokenizer)
    found, apart = {}, []
    for objectives in ([mlm, nsp, longer], [mlm, nsp], [mlm, longer]):
        data = PretrainingData(corpus, objectives=Together(objectives), cut=Cut(of="pairs"), seed=0, packed=packed)
        batch = data.batch(some(12), LENGTH)
        assert batch.distinct is (len(objectives) == 2)
        losses = data.objectives.terms(model, batch)
        for name, term in losses.items():
            assert term.total.item() == pytest.approx(found.setdefault(name, term.total.item()), rel=1e-5)
        apart.append(gradients(model, torch.stack([term.total for term in losses.values()]).sum()))
    (only_words,) = (gradients(model, terms["mlm"].total) for terms in [Together([mlm]).terms(model, alone(batch))])
    added = {name: apart[1][name] + apart[2][name] - only_words.get(name, 0) for name in apart[0]}
    assert_alike(apart[0], added, 2e-5)


def alone(batch: Batch) -> Batch:
    return replace(batch, asked={"mlm": batch.asked["mlm"]})


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ((), "nothing is asked of the model"),
        (("mlm", "mlm"), "mlm is asked for twice"),
        (("nsp", "sop"), "nsp, sop together. They are asked of different samples"),
        (("mlm", "rtd"), "mlm, rtd together. rtd reads by itself"),
    ],
)
def test_what_cannot_be_asked_together_is_refused(names: tuple[str, ...], message: str, tokenizer: Tokenizer):
    with pytest.raises(UsageError, match=message):
        Together.of([Chosen(name=name) for name in names], tokenizer)


def test_the_weight_of_an_objective_is_that_of_its_terms(corpus: CorpusFolder, tokenizer: Tokenizer):
    model, batch = small(vocab_size=tokenizer.vocab_size), data_of(corpus).batch(some(4), LENGTH)
    halved = Together.of([Chosen(name="mlm"), Chosen(name="nsp", weight=0.5)], tokenizer)
    assert {name: term.weight for name, term in halved.terms(model, batch).items()} == {"mlm": 1.0, "nsp": 0.5}


# --- micro-batches


@pytest.mark.parametrize("packed", [True, False])
def test_a_step_in_one_piece_or_in_many_has_the_same_gradients(
    corpus: CorpusFolder, tokenizer: Tokenizer, packed: bool
):
    data = data_of(corpus, packed=packed)
    model = small(vocab_size=tokenizer.vocab_size).double()
    learner = Learner(model, data.objectives.terms).train()
    found = []
    for micro in (16, 4, 5, 1):
        batches = [data.batch(choices, LENGTH) for choices in micro_batches(some(16), micro)]
        counts = {name: sum(batch.counts[name] for batch in batches) for name in ("mlm", "nsp")}
        model.zero_grad()
        losses = []
        for batch in batches:
            loss, _ = learner(batch, counts)
            loss.backward()
            losses.append(loss.item())
        found.append((sum(losses), {name: p.grad.clone() for name, p in model.named_parameters()}))
    for loss, each in found[1:]:
        assert loss == pytest.approx(found[0][0], rel=1e-6)
        assert_alike(each, found[0][1], 1e-6)


# --- left to right


@contextmanager
def barely_dropping(model: Bert) -> Iterator[Bert]:
    """In training, on the way that dropout takes, with a chance too small for any of the coins to fall."""
    model.train()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 1e-9
    yield model
    model.eval()


def outputs(model: Bert, batch: Batch) -> Tensor:
    with torch.no_grad():
        if batch.runs is None:
            return model.encoder(batch.ids, batch.seen, batch.segments).last
        return model.encoder.packed(batch.ids, batch.runs, batch.segments).last


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("one_way", [True, False])
def test_left_to_right_a_later_token_changes_nothing_before_it(
    corpus: CorpusFolder, tokenizer: Tokenizer, packed: bool, training: bool, one_way: bool
):
    model = small(vocab_size=tokenizer.vocab_size, causal=one_way).eval()
    batch = data_of(corpus, packed=packed, nsp=False).batch(some(6), LENGTH)
    place = int(batch.firsts[2]) + 10  # the eleventh token of the third sample
    changed_ids = batch.ids.flatten().clone()
    changed_ids[place] = (changed_ids[place] + 1) % tokenizer.vocab_size
    changed = replace(batch, ids=changed_ids.view(batch.ids.shape))
    with barely_dropping(model) if training else torch.no_grad():
        before, after = (outputs(model, each).flatten(0, -2) for each in (batch, changed))
    moved = (before - after).abs().amax(1) > 1e-6
    first = int(batch.firsts[2])
    assert moved[place]
    assert moved[place + 1 : place + 5].any(), "those behind it see it"
    assert bool(moved[first:place].any()) is not one_way
    assert not moved[:first].any(), "other sequences never do"
