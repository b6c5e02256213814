"""`is_decoder`: each token sees itself and those to its left, as in transformers' BERT under the same key."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from test_outputs import SHAPES, assert_equal_gradients, close, make_inputs, make_pair
from transformers import BertConfig as TheirConfig
from transformers import BertForMaskedLM, BertForPreTraining, BertLMHeadModel, BertModel, pipeline

from bertkit import load, load_encoder
from bertkit.cli.info import folder_facts
from bertkit.errors import ConfigError, UsageError
from bertkit.families import bert_tiny
from bertkit.hub import ModelFolder, load_model, save_model
from bertkit.nn import Bert
from bertkit.text import Tokenizer
from commands import bertkit_command
from manifests import manifest_of, write_manifest

EVERY_SHAPE = pytest.mark.parametrize("shape", SHAPES, ids=lambda s: f"{s['num_hidden_layers']}x{s['hidden_size']}")


@EVERY_SHAPE
@pytest.mark.parametrize("padding", ["none", "right", "left"])
@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
def test_every_output_equals_the_reference(shape, padding, implementation):
    theirs, ours = make_pair(shape | {"is_decoder": True})
    theirs.set_attn_implementation(implementation)
    assert ours.config.causal
    ids, mask, segments, _ = make_inputs(shape.get("type_vocab_size", 2))
    mask = {"none": torch.ones_like(mask), "right": mask, "left": mask.flip(1)}[padding]
    given = None if padding == "none" else mask
    with torch.no_grad():
        expected = theirs(ids, given, segments, output_hidden_states=True)
        plain = ours.encoder(ids, given, segments, hidden_states=True, attentions=True)
        fused = ours.encoder(ids, given, segments, hidden_states=True)
    seen = mask.bool()
    for a, b, c in zip(plain.hidden_states, fused.hidden_states, expected.hidden_states, strict=True):
        close(a[seen], c[seen])
        close(b[seen], c[seen])
    close(ours.word_scores(plain.last[seen]), expected.prediction_logits[seen])
    first_seen = seen[:, 0]
    close(ours.next_sentence_scores(plain.last)[first_seen], expected.seq_relationship_logits[first_seen])


@EVERY_SHAPE
@pytest.mark.parametrize("with_mask", [False, True])
def test_attention_maps_equal_the_reference_and_look_only_left(shape, with_mask):
    theirs, ours = make_pair(shape | {"is_decoder": True})
    theirs.set_attn_implementation("eager")
    ids, mask, _, _ = make_inputs(2)
    given = mask if with_mask else None
    with torch.no_grad():
        expected = theirs(ids, given, output_attentions=True).attentions
        maps = ours.encoder(ids, given, attentions=True).attentions
    for a, b in zip(maps, expected, strict=True):
        close(a, b)
        assert not a.triu(1).any()
        close(a.sum(-1), torch.ones(a.shape[:-1]))


def test_packed_sequences_equal_the_reference():
    theirs, ours = make_pair(SHAPES[1] | {"is_decoder": True})
    ids, *_ = make_inputs(3)
    runs = [(2, 9), (1, 20), (2, 33)]
    parts = ids[:2, :9], ids[2:3, :20], ids[3:]
    with torch.no_grad():
        packed = ours.encoder.packed(torch.cat([part.flatten() for part in parts]), runs).last
        expected = [theirs.bert(part).last_hidden_state.flatten(0, 1) for part in parts]
    close(packed, torch.cat(expected))


@EVERY_SHAPE
@pytest.mark.parametrize("with_mask", [False, True])
def test_every_gradient_equals_the_reference(shape, with_mask):
    inputs = make_inputs(shape.get("type_vocab_size", 2))
    assert_equal_gradients(*make_pair(shape | {"is_decoder": True}), inputs, with_mask=with_mask)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, tokenizer: Tokenizer) -> Path:
    """A left-to-right BERT-tiny as bertkit saves it."""
    torch.manual_seed(0)
    model = Bert(bert_tiny(vocab_size=tokenizer.vocab_size, initializer_range=0.1, causal=True)).eval()
    path = tmp_path_factory.mktemp("models") / "left-to-right"
    save_model(path, model, tokenizer)
    return path


@pytest.mark.parametrize("kind", [BertModel, BertForMaskedLM, BertForPreTraining])
def test_our_folder_opens_there_and_says_the_same(folder, tmp_path, tokenizer, kind):
    ours, _ = load_model(ModelFolder(folder))
    save_model(tmp_path / "ours", ours, tokenizer, architecture=kind.__name__)
    theirs, info = kind.from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not any(info.values()), info
    assert theirs.config.is_decoder is True
    ids, mask, segments, _ = make_inputs(2)
    base = theirs if kind is BertModel else theirs.bert
    with torch.no_grad():
        expected = base.eval()(ids, mask, segments).last_hidden_state
        close(ours.encoder(ids, mask, segments).last[mask.bool()], expected[mask.bool()])


@pytest.mark.parametrize("kind", [BertModel, BertForMaskedLM, BertLMHeadModel])
@pytest.mark.parametrize("is_decoder", [False, True])
def test_their_folder_opens_here_bit_equal(tmp_path, tokenizer, kind, is_decoder):
    torch.manual_seed(7)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    theirs = kind(TheirConfig(vocab_size=tokenizer.vocab_size, is_decoder=is_decoder, **sizes)).eval()
    theirs.save_pretrained(tmp_path / "theirs")
    assert json.loads((tmp_path / "theirs" / "config.json").read_text())["is_decoder"] is is_decoder
    tokenizer.save(tmp_path / "theirs")
    ours, notes = load_model(ModelFolder(tmp_path / "theirs"))
    assert notes == []
    assert ours.config.causal is is_decoder
    ids = make_inputs(2)[0]
    with torch.no_grad():
        output, last = theirs(ids), ours.encoder(ids).last
        if kind is BertModel:
            close(last, output.last_hidden_state)
        else:
            close(ours.word_scores(last), output.logits)
    save_model(tmp_path / "ours", ours, tokenizer)
    before, after = (load_file(tmp_path / name / "model.safetensors") for name in ("theirs", "ours"))
    assert before.keys() == after.keys()
    assert all(torch.equal(before[key], after[key]) for key in before)


def test_scores_of_words_equal_the_reference_and_see_only_what_is_left_of_them(folder):
    expected = pipeline("fill-mask", model=str(folder), top_k=3)("The file [MASK] closed.")
    encoder = load_encoder(folder)

    def likeliest(text: str) -> torch.return_types.topk:
        ids = encoder.tokenizer.encode(text).ids
        with torch.no_grad():
            last = encoder.model.encoder(torch.tensor([ids])).last[0, ids.index(encoder.tokenizer.mask_id)]
            return encoder.model.word_scores(last).softmax(-1).topk(3)

    best = likeliest("The file [MASK] closed.")
    assert best.indices.tolist() == [row["token"] for row in expected]
    close(best.values, torch.tensor([row["score"] for row in expected]))
    close(likeliest("The file [MASK] opened and read to its end.").values, best.values)


@pytest.mark.parametrize("kind", ["BertForMaskedLM", "BertForPreTraining"])
@pytest.mark.parametrize("manifest", ["as written", "of before", "none"])
def test_a_folder_is_a_writer_and_fills_no_masks(folder, tmp_path, tokenizer, kind, manifest):
    model, _ = load_model(ModelFolder(folder))
    place = tmp_path / "one-way"
    save_model(place, model, tokenizer, architecture=kind, manifest=manifest != "none")
    if manifest == "of before":
        write_manifest(place, manifest_of(place) | {"task": "fill-mask"})
    assert folder_facts(str(place))["task"] == "generate"
    writer = load(place)
    assert writer("The file is", max_new_tokens=2)[0].ids
    with pytest.raises(UsageError, match=r"one-way reads from left to right: it guesses the next word.*generate"):
        writer.encoder.fill_mask("The file [MASK] closed.")


def test_one_without_a_head_gives_vectors(folder, tmp_path, tokenizer):
    model, _ = load_model(ModelFolder(folder))
    save_model(tmp_path / "bare", model, tokenizer, architecture="BertModel")
    assert load(tmp_path / "bare")("The file").shape == (128,)


def test_vectors_and_attention_of_a_text_look_only_left(folder):
    encoder = load_encoder(folder)
    short, long = (encoder.embed_words(text)[0].vectors for text in ("the file is", "the file is closed again"))
    close(torch.from_numpy(short), torch.from_numpy(long[:3]))
    maps = torch.as_tensor(encoder.attention("the file is closed", "and opened").maps)
    assert maps.any()
    assert not maps.triu(1).any()


def test_info_tells_the_direction_and_convert_keeps_it(folder, tiny_folder, tmp_path):
    assert folder_facts(str(tiny_folder))["attention"] == "both ways"
    assert folder_facts(str(folder))["attention"] == "left to right"
    done = bertkit_command("convert", folder, tmp_path / "out", "--to", "BertForMaskedLM")
    assert done.returncode == 0, done.stderr
    assert ModelFolder(tmp_path / "out").config.causal is True


@pytest.mark.parametrize("value", [None, 1, "true"])
def test_a_value_that_is_neither_true_nor_false_is_named_with_its_file(folder, tmp_path, value):
    config = json.loads((folder / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"is_decoder": value}))
    with pytest.raises(ConfigError, match=rf"config\.json: is_decoder is {value!r}. It must be true or false"):
        ModelFolder(tmp_path)
