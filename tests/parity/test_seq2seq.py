"""Encoders with decoders: scores and texts are transformers' EncoderDecoderModel's, folders go both ways; and what a
token sees is what it should, whoever writes."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file, save_file
from test_outputs import close
from transformers import EncoderDecoderModel

import bertkit
from bertkit.families import PRESETS, BertConfig, Gpt2Config, RobertaConfig, Seq2SeqConfig, vocabulary
from bertkit.hub import ModelFolder, load_model, save_model
from bertkit.infer import Sampling, write
from bertkit.nn import Bert, FineTuned, HeadShape, Mask, Seq2Seq, begin, lay_out, prefix_layout, told
from bertkit.text import draw_sample
from bertkit.text.train import train

SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
NARROW = {"hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 40}
TEXTS = ["The file is closed.", "Names refer to objects, and objects have values and types.", "import"]


def noisy(model):
    """Random numbers that lie further apart, so that the likeliest token is so by far, and hangs on what was read."""
    torch.manual_seed(1)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            norm = "norm" in name
            parameter.copy_(0.1 * torch.randn_like(parameter) + (norm and name.endswith("weight")))
            if "crossing" in name and not norm:
                parameter *= 4
    return model.eval()


def config_of(vocab_size, decoder=SIZES, family=BertConfig, share=False):
    more = {"max_position_embeddings": 66} if family is RobertaConfig else {}
    encoder, decoder = (family(vocab_size=vocab_size, **more, **its) for its in (SIZES, decoder))
    return Seq2SeqConfig(encoder=encoder, decoder=decoder, share=share, decoder_start_token_id=2, eos_token_id=3)


KINDS = {
    "bert": {},
    "a narrower decoder": {"decoder": NARROW},
    "one set of weights": {"share": True},
    "roberta": {"family": RobertaConfig},
}


@pytest.fixture(scope="module")
def roberta_tokenizer(english):
    return train(draw_sample(english, hold_out=False), vocabulary("roberta", vocab_size=600)).tokenizer


@pytest.fixture(scope="module", params=KINDS)
def both(request, tokenizer, roberta_tokenizer, tmp_path_factory):
    """The same weights here and there."""
    its = KINDS[request.param]
    pieces = roberta_tokenizer if "family" in its else tokenizer
    config = config_of(pieces.vocab_size, **its)
    ids = {"decoder_start_token_id": pieces.cls_id, "eos_token_id": pieces.sep_id, "pad_token_id": pieces.pad_id}
    ours = noisy(Seq2Seq(replace(config, **ids)))
    folder = tmp_path_factory.mktemp("both") / "model"
    save_model(folder, ours, pieces)
    theirs, told_of = EncoderDecoderModel.from_pretrained(folder, output_loading_info=True)
    assert not any(told_of.values())
    return ours, theirs.eval(), folder, pieces


def batch(pairs, **how):
    laid = lay_out([([*a, *b], [0] * len([*a, *b])) for a, b in pairs], pad_id=0, **how)
    return replace(laid, given=tuple(len(a) for a, _ in pairs))


PAIRS = [([2, 10, 11, 12, 13, 3], [2, 30, 31]), ([2, 20, 3], [2, 40, 41, 42]), ([2, 21, 22, 3], [2, 50, 51])]


@pytest.mark.parametrize("packed", [True, False])
@torch.no_grad()
def test_scores_are_the_references(both, packed):
    ours, theirs, _, _ = both
    mine = ours.word_scores(ours.written(batch(PAIRS, packed=packed))).split([len(b) for _, b in PAIRS])
    for (source, target), scores in zip(PAIRS, mine, strict=True):
        its = theirs(input_ids=torch.tensor([source]), decoder_input_ids=torch.tensor([target])).logits[0]
        close(scores, its)


@pytest.mark.parametrize(
    "more", [{}, {"beams": 4, "samples": 3}, {"beams": 3, "length_penalty": 2.0}, {"no_repeat": 2}]
)
def test_texts_are_the_references(both, more):
    """Token for token; a beam's results may be followed by filling there."""
    _, theirs, folder, pieces = both
    writer = bertkit.load(folder).writer
    found = write(writer, TEXTS, Sampling(max_new_tokens=16, **more))
    names = {"beams": "num_beams", "samples": "num_return_sequences", "no_repeat": "no_repeat_ngram_size"}
    said = {names.get(name, name): value for name, value in more.items()}
    for text, texts in zip(TEXTS, found, strict=True):
        ids = torch.tensor([pieces.encode(text).ids])
        rows = theirs.generate(ids, max_new_tokens=16, do_sample=False, **said).tolist()
        for row, mine in zip(rows, texts, strict=True):
            assert row[1 : 1 + len(mine.ids)] == mine.ids
            assert {*row[1 + len(mine.ids) :]} <= {pieces.pad_id, pieces.sep_id}


def test_a_text_comes_out_alike_alone_and_beside_others(both):
    writer = bertkit.load(both[2]).writer
    for how in (Sampling(max_new_tokens=12), Sampling(max_new_tokens=12, beams=3)):
        together = write(writer, TEXTS, how)
        assert [write(writer, [text], how)[0][0].ids for text in TEXTS] == [its[0].ids for its in together]
        assert len({tuple(its[0].ids) for its in together}) > 1  # another input gives another output


def test_folders_come_back_to_the_bit(both, tmp_path):
    ours, theirs, folder, _ = both
    for place in (folder, tmp_path / "theirs"):
        if place != folder:
            theirs.save_pretrained(place)
        again = load_model(ModelFolder(place)).model
        for name, tensor in ours.state_dict().items():
            assert torch.equal(again.state_dict()[name], tensor), name


def test_one_copy_of_shared_weights_is_enough(tokenizer, tmp_path):
    """As transformers wrote them when it still tied encoders and decoders."""
    ours = noisy(Seq2Seq(config_of(tokenizer.vocab_size, share=True)))
    save_model(tmp_path / "m", ours, tokenizer, manifest=False)
    tensors = load_file(tmp_path / "m" / "model.safetensors")
    assert torch.equal(
        tensors["encoder.encoder.layer.0.output.dense.weight"],
        tensors["decoder.bert.encoder.layer.0.output.dense.weight"],
    )
    one = {n: t for n, t in tensors.items() if not n.startswith("decoder.bert.") or "crossattention" in n}
    save_file(one, tmp_path / "m" / "model.safetensors", metadata={"format": "pt"})
    again = load_model(ModelFolder(tmp_path / "m")).model
    for name, tensor in ours.state_dict().items():
        assert torch.equal(again.state_dict()[name], tensor), name
    assert json.loads((tmp_path / "m" / "config.json").read_text())["tie_encoder_decoder"] is True


def small(kind, vocab_size=80):
    its = {"vocab_size": vocab_size, **SIZES}
    if kind == "two":
        return noisy(Seq2Seq(config_of(vocab_size)))
    if kind == "transformer":
        return noisy(Seq2Seq(PRESETS["transformer-tiny"](vocab_size=vocab_size)))
    config = Gpt2Config(**its) if kind == "on" else BertConfig(**its)
    return noisy(Bert(config, pooler=False, nsp=False))


WAYS = {
    "two": (False, None),
    "transformer": (False, None),
    "on": (False, None),
    "one, next words": (False, Mask(None, 1)),
    "one, hidden words": (True, Mask(79, 1)),
}


def shown(way, source, target):
    """What is laid out to be told every token of a text, and the one that follows it."""
    if way in ("two", "transformer"):
        return source, [2, *target]
    return source, [*target, *([79] * (len(target) + 1) if WAYS[way][0] else [])]


@torch.no_grad()
def teach(way, network, pairs):
    laid = [shown(way, a, b) for a, b in pairs]
    segments = int(way.startswith("one"))
    inputs = lay_out([([*a, *b], [0] * len(a) + [segments] * len(b)) for a, b in laid], packed=True, pad_id=0)
    hides = WAYS[way][0]
    return told(network, replace(inputs, given=tuple(len(a) for a, _ in laid)), hides=hides)


SOURCES = [[2, 10, 11, 12, 13, 3], [2, 20, 3], [2, 21, 22, 3]]
TARGETS = [[30, 31, 32, 33], [40, 41, 42, 43], [50, 51, 52, 53]]


@pytest.mark.parametrize("way", WAYS)
@torch.no_grad()
def test_written_one_by_one_as_told_at_once(way):
    network = small(way.split(",")[0] if way != "one" else "one")
    at_once = teach(way, network, list(zip(SOURCES, TARGETS, strict=True))).view(3, 5, -1)
    writing = begin(network, SOURCES, most=8, filling=0, start=2, mask=WAYS[way][1])
    for place in range(5):
        close(writing.told, at_once[:, place])
        if place < 4:
            writing.feed(torch.tensor([target[place] for target in TARGETS]))


@pytest.mark.parametrize("way", WAYS)
@torch.no_grad()
def test_rows_that_are_multiplied_and_taken_away_stay_themselves(way):
    network = small(way.split(",")[0])
    writing = begin(network, SOURCES, most=8, filling=0, start=2, mask=WAYS[way][1])
    writing.reorder(torch.tensor([0, 0, 1, 1, 2, 2]))
    writing.feed(torch.tensor([30, 40, 40, 50, 50, 30]))
    writing.reorder(torch.tensor([1, 0, 4, 5]), since=writing.read)  # the second source is done
    writing.feed(torch.tensor([7, 8, 9, 6]))
    writing.reorder(torch.tensor([3, 1, 0]))
    rows = [(SOURCES[2], [30, 6]), (SOURCES[0], [30, 8]), (SOURCES[0], [40, 7])]
    order = torch.tensor([3, 1, 0])
    for row, (source, target) in enumerate(rows):
        close(writing.told[order[row]], teach(way, network, [(source, target)])[-1])


@pytest.mark.parametrize("way", WAYS)
def test_what_a_token_sees(way):
    """A later word that is written never moves what is told before it; every word that is given moves all."""
    network = small(way.split(",")[0])
    before = teach(way, network, [(SOURCES[0], TARGETS[0])])
    for place in range(4):
        changed = [*TARGETS[0]]
        changed[place] = 60
        after = teach(way, network, [(SOURCES[0], changed)])
        assert torch.equal(before[: place + 1], after[: place + 1])
        assert all(
            (one - other).abs().max() > 1e-4 for one, other in zip(before[place + 1 :], after[place + 1 :], strict=True)
        )
    for place in range(1, 5):
        changed = [*SOURCES[0]]
        changed[place] = 60
        after = teach(way, network, [(changed, TARGETS[0])])
        assert all((one - other).abs().max() > 1e-4 for one, other in zip(before, after, strict=True))


@torch.no_grad()
def test_what_is_given_is_read_in_both_directions_by_one_transformer():
    """The first word that is given sees the last; and none sees what is written."""
    network = small("one")

    def read(source, target):
        ids = torch.tensor([*source, *target])
        layout = prefix_layout([len(ids)], [len(source)], hides=False, device=ids.device)
        return network.reader.laid_out(ids, torch.arange(len(ids)), layout, None, None)

    before, other_end = read(SOURCES[0], TARGETS[0]), read([*SOURCES[0][:-1], 60], TARGETS[0])
    assert ((before[:5] - other_end[:5]).abs().amax(1) > 1e-4).all()
    assert torch.equal(before[:6], read(SOURCES[0], [60, 61, 62, 63])[:6])


def test_a_head_of_a_model_that_writes_has_no_outputs():
    with pytest.raises(bertkit.BertkitError, match="a head that reads 'next' and has 2 outputs"):
        FineTuned(small("one"), HeadShape(reads="next", outputs=2))
