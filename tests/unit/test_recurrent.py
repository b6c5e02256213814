"""Language models of LSTMs: what each way may know, that a batch is as good as one text, what is remembered from
stretch to stretch, and which stretches come in which order."""

from __future__ import annotations

import math

import numpy as np
import pytest
import tokenizers
import torch
import torch.nn.functional as F
from tokenizers import models
from torch import nn

from bertkit.corpus import CorpusFolder, Lanes, Stream, read_backwards
from bertkit.errors import ConfigError, UsageError
from bertkit.families import PRESETS, family_of_size
from bertkit.nn import LEFT, RIGHT, ClippedLstm, Context, FineTuned, HeadShape, LayerMix, Lstm, Rows, lay_out
from bertkit.objectives import Chosen, Memory, PretrainingData, Together, objective_called, word_term
from bertkit.text import Form, Tokenizer
from bertkit.train import OnCorpus, Place, Stage, take


@pytest.fixture(scope="module")
def corpus(shards):
    return CorpusFolder(shards)


FRAME = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]"}
WORDS = Form("words", "whole words", "words", "PreTrainedTokenizerFast", FRAME, vocab_size=64)
TEXTS = [[5, 9, 11, 7, 6], [8, 8, 13], [4, 10, 12, 14, 6, 5, 9], [7]]


def model(name: str, tokenizer=None, **changes):
    torch.manual_seed(3)
    size = 40 if tokenizer is None else tokenizer.vocab_size
    config = PRESETS[name](vocab_size=size, **changes)
    made = family_of_size(name).build(config).eval()
    if tokenizer is not None:
        made.meet(tokenizer)
    return made


def inputs(texts, packed):
    return lay_out([(ids, [0] * len(ids)) for ids in texts], packed=packed, pad_id=0)


def small(name: str, tokenizer=None, **changes):
    if name == "elmo":  # as published in kind, but small
        shape = {"hidden_size": 16, "cell_size": 24, "filters": ((1, 4), (2, 8)), "highways": 2, "clip": 0.3}
        return model("elmo", tokenizer, **{**shape, **changes})
    return model(name, tokenizer, **changes)


READERS = ["elmo-tiny", "elmo", "table", "awd-lstm-tiny", "from the right"]


def reader(name: str, tokenizer):
    if name == "table":
        return small("elmo-tiny", characters=False)
    if name == "from the right":
        return small("awd-lstm-tiny", backwards=True)
    return small(name, tokenizer if name.startswith("elmo") else None)


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("name", READERS)
def test_batches_of_one_and_of_many_agree(name, packed, tokenizer):
    made = reader(name, tokenizer)
    with torch.no_grad():
        laid = inputs(TEXTS, packed)
        many = made.layers(laid)
        assert len(many) == made.depth + 1
        for first, ids in zip(laid.firsts.tolist(), TEXTS, strict=True):
            for mine, whole in zip(made.layers(inputs([ids], packed)), many, strict=True):
                torch.testing.assert_close(whole[first : first + len(ids)], mine, atol=1e-5, rtol=0)
        only = laid.firsts
        torch.testing.assert_close(made.read(laid, only), made.read(laid)[only])


@pytest.mark.parametrize("name", READERS)
def test_a_word_moves_no_state_of_who_has_not_read_it(name, tokenizer):
    made = reader(name, tokenizer)
    changed = [[*TEXTS[0][:2], 25, *TEXTS[0][3:]]]
    with torch.no_grad():
        before, after = made.layers(inputs(TEXTS[:1], True)), made.layers(inputs(changed, True))
    for layer in range(1, made.depth + 1):
        moved = (before[layer] - after[layer]).abs()
        left, right = moved.chunk(2, 1) if name in ("elmo-tiny", "elmo", "table") else (moved, moved)
        if name != "from the right":
            assert left[:2].max() == 0 < left[2:].amax(1).min()
        if name != "awd-lstm-tiny":
            assert right[3:].max() == 0 < right[:3].amax(1).min()


@pytest.mark.parametrize("name", READERS)
def test_reading_on_is_reading_at_once(name, tokenizer):
    made = reader(name, tokenizer)
    ids = torch.tensor([[5, 9, 11, 7, 6, 8, 8, 13], [4, 10, 12, 14, 6, 5, 9, 7]])
    ways = {"awd-lstm-tiny": [LEFT], "from the right": [RIGHT]}.get(name, [LEFT, RIGHT])
    with torch.no_grad():
        for way in ways:
            whole, end = made.onwards(ids, way, None)
            first, middle = made.onwards(ids[:, :3], way, made.nothing_read().expand(2, -1))
            second, last = made.onwards(ids[:, 3:], way, middle)
            torch.testing.assert_close(torch.cat([first, second], 1), whole, atol=1e-6, rtol=0)
            torch.testing.assert_close(last, end, atol=1e-6, rtol=0)


def test_what_reads_on_says_what_the_reader_says(tokenizer):
    """In pretraining text from the right is given turned round; a reader turns it by itself."""
    made = small("elmo-tiny", tokenizer)
    ids = torch.tensor([TEXTS[2]])
    with torch.no_grad():
        top = made.read(inputs([TEXTS[2]], True))
        left, _ = made.onwards(ids, LEFT, None)
        right, _ = made.onwards(ids.flip(1), RIGHT, None)
    torch.testing.assert_close(top, torch.cat([left[0], right[0].flip(0)], 1), atol=1e-6, rtol=0)


def test_a_mix_of_one_layer_is_that_layer(tokenizer):
    made = small("elmo-tiny", tokenizer)
    states = made.layers(inputs(TEXTS, True))
    for number, state in enumerate(states):
        mix = LayerMix(len(states))
        with torch.no_grad():
            mix.weights.copy_(F.one_hot(torch.tensor(number), len(states)) * 100.0)
        torch.testing.assert_close(mix(states), state)


@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")
def test_layers_of_one_kind_are_torchs_lstm():
    torch.manual_seed(0)
    mine, its = Lstm(6, 8), nn.LSTM(6, 8, batch_first=True)
    its.load_state_dict({f"{name}_l0": weight for name, weight in mine.state_dict().items()})
    x = torch.randn(3, 5, 6)
    torch.testing.assert_close(mine(x, (torch.zeros(3, 8), torch.zeros(3, 8)))[0], its(x)[0])
    wide = ClippedLstm(6, 8, 4, 1e6)
    projected = nn.LSTM(6, 8, proj_size=4, batch_first=True)
    named = {"weight_ih_l0": wide.weight_ih, "weight_hh_l0": wide.weight_hh, "bias_ih_l0": wide.bias}
    named |= {"bias_hh_l0": torch.zeros(32), "weight_hr_l0": wide.projection}
    projected.load_state_dict(named)
    said, (hidden, cell) = wide(x, (torch.zeros(3, 4), torch.zeros(3, 8)))
    its_said, (its_hidden, its_cell) = projected(x)
    for ours, theirs in ((said, its_said), (hidden, its_hidden[0]), (cell, its_cell[0])):
        torch.testing.assert_close(ours, theirs)


def test_no_number_goes_beyond_the_limit(tokenizer):
    made = small("elmo", tokenizer)
    with torch.no_grad():
        for each in made.parameters():
            each.mul_(30)
        said, remembered = made.onwards(torch.tensor([TEXTS[2]]), LEFT, None)
        assert remembered.abs().max() <= 0.3
        assert remembered.abs().max() == pytest.approx(0.3)
    assert said.isfinite().all()


def test_dropped_weights_are_neither_kept_nor_used_to_answer():
    torch.manual_seed(0)
    layer = Lstm(4, 4, drop=0.5)
    before = {name: tensor.clone() for name, tensor in layer.state_dict().items()}
    x, state = torch.randn(2, 6, 4), (torch.zeros(2, 4), torch.zeros(2, 4))
    dropped = [layer.train()(x, state)[0] for _ in range(2)]
    assert not torch.equal(*dropped)
    assert torch.equal(layer.eval()(x, state)[0], layer(x, state)[0])
    assert all(torch.equal(before[name], tensor) for name, tensor in layer.state_dict().items())
    layer.train()(x, state)[0].sum().backward()
    for weight in layer.parameters():  # none is lost on the way
        assert weight.grad is not None
        assert weight.grad.abs().sum() > 0


def test_each_dropout_is_that_which_its_name_says():
    config = PRESETS["awd-lstm"](vocab_size=40, hidden_dropout_prob=0.1)
    made = family_of_size("awd-lstm").build(config)
    assert [each.p for each in made.way.drops] == pytest.approx([0.25, 0.15, 0.15])
    assert [each.drop for each in made.way.layers] == pytest.approx([0.2] * 3)
    assert (made.leaves.p, made.pieces.drop) == pytest.approx((0.1, 0.02))


def test_the_published_sizes():
    assert PRESETS["awd-lstm"]().cells == (1152, 1152, 400)
    published = family_of_size("elmo").without_weights(PRESETS["elmo"](says_words=False))
    assert published.width == 1024
    assert round(published.parameter_count() / 1e6, 1) == 93.6


def test_lanes_go_through_all_of_the_text_one_sample_after_the_other():
    lanes = Lanes(13, 4, ways=2)
    steps = lanes.samples(np.arange(lanes.count)).reshape(-1, 4)
    assert steps[:, 0].tolist() == [0, 1, 2, 3, 4, 5]
    assert steps[:, 1].tolist() == [-6, -5, -4, -3, -2, -1]
    assert steps[:, 2].tolist() == [6, 7, 8, 9, 10, 11]
    assert Lanes(13, 3, ways=1, backwards=True).samples(np.arange(3)).tolist() == [-4, -8, -12]
    with pytest.raises(UsageError, match="half are read from the right"):
        Lanes(13, 3, ways=2)
    with pytest.raises(UsageError, match="Give a smaller `batch` or `length`"):
        Lanes(2, 8, ways=1)


@pytest.mark.parametrize("objective", ["bilm", "lm", "lm-right"])
def test_each_stretch_goes_on_where_its_lane_was(objective, corpus, tokenizer):
    together = Together.of([Chosen(name=objective)], tokenizer)
    data = PretrainingData(corpus, objectives=together, seed=0, packed=True)
    stage = Stage(length=16, batch=4, share=1.0)
    work = OnCorpus(data, [stage])
    place, before = Place(), None
    for _ in range(5):
        chosen, place = take(work, place, stage, 0)
        samples = [data.sample(choice, 16)[0] for choice in chosen]
        if before is not None:
            for earlier, later in zip(before, samples, strict=True):
                assert earlier.parts[0].stop == later.parts[0].start
        before = samples


def test_a_sample_read_backwards_is_the_same_turned_round(corpus):
    stream = corpus.stream(max_length=12)
    assert isinstance(stream, Stream)
    sample = stream[1]
    turned = read_backwards(sample)
    assert turned.ids.tolist() == sample.ids.tolist()[::-1]
    assert (turned.parts[0].start, turned.parts[0].stop) == (sample.parts[0].stop, sample.parts[0].start)
    again = read_backwards(turned)
    assert again.ids.tolist() == sample.ids.tolist()
    assert again.parts == sample.parts


def test_between_documents_stands_what_a_text_ends_and_begins_with(corpus, tokenizer):
    stream = corpus.stream(max_length=64)
    ids = np.concatenate([stream[n].ids for n in range(len(stream))])
    ends = np.flatnonzero(ids[:-1] == tokenizer.sep_id)
    assert len(ends) > 2
    assert (ids[ends + 1] == tokenizer.cls_id).all()
    shards = corpus.shards("train")
    assert len(ids) == sum(len(each.tokens) + 2 * len(each) for each in shards)


def test_what_is_remembered_changes_what_is_said(corpus, tokenizer):
    made = small("elmo-tiny", tokenizer)
    together = Together.of([Chosen(name="bilm")], tokenizer)
    data = PretrainingData(corpus, objectives=together, seed=0, packed=True)
    stage, memory = Stage(length=16, batch=4, share=1.0), Memory()
    work = OnCorpus(data, [stage])
    first, place = take(work, Place(), stage, 0)
    second, _ = take(work, place, stage, 0)
    with torch.no_grad():
        data.objectives.terms(made, data.batch(first, 16, memory))
        assert len(memory.states) == 4
        held = {place: row.clone() for place, row in memory.states.items()}
        with_it = data.objectives.terms(made, data.batch(second, 16, memory))
        without = data.objectives.terms(made, data.batch(second, 16, Memory()))
    assert all(with_it[name].total != without[name].total for name in ("next", "previous"))
    whole = torch.from_numpy(np.concatenate([data.sample(each, 16)[0].ids for each in (first[0], second[0])]))[None]
    with torch.no_grad():
        _, middle = made.onwards(whole[:, :16], LEFT, None)
    stands = data.sample(first[0], 16)[0].parts[0]
    torch.testing.assert_close(held[LEFT, stands.shard, stands.stop], middle[0], atol=1e-6, rtol=0)


def test_a_state_that_is_not_finite_is_forgotten():
    memory = Memory()
    memory.keep([(0, 0, 5), (0, 9, 12)], LEFT, torch.tensor([[1.0, math.nan], [1.0, 2.0]]))
    assert [*memory.states] == [(LEFT, 0, 12)]


def test_words_drawn_give_about_the_loss_of_all():
    """The gradient of the estimate points where that of the whole does."""
    torch.manual_seed(0)
    made = model("awd-lstm-tiny")
    with torch.no_grad():
        made.pieces = nn.Embedding(4000, 128)
        made.bias = nn.Parameter(torch.zeros(4000))
    x = 0.1 * torch.randn(256, 128)
    answers = ((torch.rand(256, dtype=torch.float64) * math.log(4001)).exp() - 1).long()
    whole = word_term(made, x, answers, 0)
    drawn = torch.stack([word_term(made, x, answers, 800).total.detach() for _ in range(8)]).mean()
    assert float(drawn) == pytest.approx(float(whole.total.detach()), rel=0.05)
    grads = [torch.autograd.grad(word_term(made, x, answers, n).total, made.pieces.weight)[0] for n in (0, 800)]
    assert F.cosine_similarity(*(each.flatten() for each in grads), dim=0) > 0.8


def test_what_cannot_be_is_refused():
    with pytest.raises(ConfigError, match="without a projection its cells are as many"):
        PRESETS["elmo-tiny"](cell_size=64)
    with pytest.raises(ConfigError, match="filters is"):
        PRESETS["elmo"](filters=((0, 3),))
    with pytest.raises(UsageError, match="Of this model only the last layer can be read"):
        model("awd-lstm", hidden_size=8, cell_size=16).layers(inputs(TEXTS, True))
    assert objective_called("bilm").needs != objective_called("lm").needs


@pytest.mark.parametrize("packed", [True, False])
def test_a_classifier_of_an_lstm_reads_last_highest_and_mean(packed):
    for backwards in (False, True):
        made = model("awd-lstm-tiny", backwards=backwards)
        tuned = FineTuned(made, HeadShape(reads="text", outputs=2)).eval()
        laid = inputs(TEXTS, packed)
        with torch.no_grad():
            x, scores = made.read(laid), tuned(laid)
            for row, (first, ids) in enumerate(zip(laid.firsts.tolist(), TEXTS, strict=True)):
                mine = x[first : first + len(ids)]
                read_last = mine[0] if backwards else mine[-1]
                wanted = tuned.dense(torch.cat([read_last, mine.amax(0), mine.mean(0)]))
                torch.testing.assert_close(scores[row], wanted, atol=1e-5, rtol=0)


def test_rows_lead_there_and_back():
    for packed in (True, False):
        laid = inputs(TEXTS, packed)
        x = torch.arange(laid.ids.numel(), dtype=torch.float32)[:, None]
        for way in (LEFT, RIGHT):
            rows = Rows.of(laid, way)
            back = rows.together(rows.apart(x))
            for first, ids in zip(laid.firsts.tolist(), TEXTS, strict=True):
                assert torch.equal(back[first : first + len(ids)], x[first : first + len(ids)])


@pytest.mark.parametrize("packed", [True, False])
def test_a_context_reads_whole_words_in_its_own_pieces(tokenizer, packed):
    """TagLM beside word vectors: each word's vector is the mean of those of its pieces, where it stands."""
    whole = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "closed", "unclosed", "a", "modules"]
    words = Tokenizer(tokenizers.Tokenizer(models.WordLevel({w: n for n, w in enumerate(whole)}, "[UNK]")), WORDS)
    elmo = small("elmo-tiny", tokenizer)
    context = Context(elmo, tokenizer, words).eval()
    assert not any(parameter.requires_grad for parameter in context.parameters())
    texts = [[2, 5, 6, 3], [2, 7, 1, 4, 6, 3]]
    found = context(inputs(texts, packed))
    laid = inputs(texts, packed)
    for first, ids in zip(laid.firsts.tolist(), texts, strict=True):
        pieces = [_pieces_of(tokenizer, whole[each]) for each in ids]
        assert max(map(len, pieces)) > 1
        flat = [each for its in pieces for each in its]
        with torch.no_grad():
            read = elmo.read(inputs([flat], True)).split([len(its) for its in pieces])
        wanted = torch.stack([each.mean(0) for each in read])
        torch.testing.assert_close(found[first : first + len(ids)], wanted, atol=1e-5, rtol=0)
    with pytest.raises(UsageError, match="reads other tokens"):
        Context(elmo, words, tokenizer)


def _pieces_of(tokenizer, word):
    if word in tokenizer.specials.values():
        return [tokenizer.backend.token_to_id(word)]
    return list(tokenizer.frame.inside(tokenizer.encode_ids([word])[0]))
