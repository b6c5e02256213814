"""ModernBERT equals the reference: hidden states, attention, words, classes and gradients, padded and packed, beyond
the local window; its folders and tokenizer open both ways, in today's spelling and in the published one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tokenizers as library
import torch
import transformers
from test_family import make_inputs
from test_outputs import close
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, processors, trainers

import bertkit
from bertkit.errors import BertkitError
from bertkit.families import PRESETS, family_of
from bertkit.hub import ModelFolder, save_model
from bertkit.nn import Bert
from bertkit.text import Tokenizer
from references import opened, shaken

SIZES = {"vocab_size": 504, "hidden_size": 48, "num_attention_heads": 4, "intermediate_size": 72, "pad_token_id": 3}
SHAPES: dict[str, dict[str, Any]] = {
    "as published, a window of 9": {**SIZES, "num_hidden_layers": 5, "local_attention": 8},
    "all biases": {
        **SIZES,
        "num_hidden_layers": 4,
        "local_attention": 13,
        "global_attn_every_n_layers": 2,
        "hidden_activation": "silu",
        "norm_eps": 1e-3,
        **dict.fromkeys(("attention_bias", "mlp_bias", "norm_bias", "classifier_bias"), True),
    },
    "a window wider than the text": {**SIZES, "hidden_size": 64, "num_hidden_layers": 3, "local_attention": 128},
    "other turns, all layers global": {
        **SIZES,
        "num_attention_heads": 2,
        "num_hidden_layers": 2,
        "layer_types": ["full_attention"] * 2,
        "rope_parameters": {
            "full_attention": {"rope_type": "default", "rope_theta": 500.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 70.0},
        },
    },
}
EVERY_SHAPE = pytest.mark.parametrize("shape", SHAPES)
PUBLISHED = {
    "architectures": ["ModernBertForMaskedLM"],
    "attention_bias": False,
    "attention_dropout": 0.0,
    "bos_token_id": 50281,
    "classifier_activation": "gelu",
    "classifier_bias": False,
    "classifier_dropout": 0.0,
    "classifier_pooling": "mean",
    "cls_token_id": 50281,
    "decoder_bias": True,
    "deterministic_flash_attn": False,
    "embedding_dropout": 0.0,
    "eos_token_id": 50282,
    "global_attn_every_n_layers": 3,
    "global_rope_theta": 160000.0,
    "gradient_checkpointing": False,
    "hidden_activation": "gelu",
    "hidden_size": 768,
    "initializer_cutoff_factor": 2.0,
    "initializer_range": 0.02,
    "intermediate_size": 1152,
    "layer_norm_eps": 1e-05,
    "local_attention": 128,
    "local_rope_theta": 10000.0,
    "max_position_embeddings": 8192,
    "mlp_bias": False,
    "mlp_dropout": 0.0,
    "model_type": "modernbert",
    "norm_bias": False,
    "norm_eps": 1e-05,
    "num_attention_heads": 12,
    "num_hidden_layers": 22,
    "pad_token_id": 50283,
    "position_embedding_type": "absolute",
    "reference_compile": None,
    "repad_logits_with_grad": False,
    "sep_token_id": 50282,
    "sparse_pred_ignore_index": -100,
    "sparse_prediction": False,
    "torch_dtype": "float32",
    "transformers_version": "4.47.0.dev0",
    "vocab_size": 50368,
}
"""The keys of the first published config.json."""


def reference(shape: str, kind: str = "ForMaskedLM", **more: Any) -> Any:
    config = transformers.ModernBertConfig(**SHAPES[shape], **more, attn_implementation="eager")
    return shaken(getattr(transformers, f"ModernBert{kind}"), config)


@EVERY_SHAPE
@pytest.mark.parametrize("with_mask", [False, True])
def test_every_output_equals_the_reference(shape, with_mask, tmp_path):
    theirs = reference(shape)
    ours = opened(theirs, tmp_path)
    ids, mask = make_inputs()
    seen = mask.bool() if with_mask else torch.ones_like(ids, dtype=torch.bool)
    mask = mask if with_mask else None
    with torch.no_grad():
        expected = theirs(ids, attention_mask=mask, output_hidden_states=True, output_attentions=True)
        found = ours.encoder(ids, mask, hidden_states=True, attentions=True)
        fused = ours.encoder(ids, mask)
    for a, b in zip(found.hidden_states, expected.hidden_states, strict=True):
        close(a[seen], b[seen])
    for a, b in zip(found.attentions, expected.attentions, strict=True):
        close(a.transpose(1, 2)[seen], b.transpose(1, 2)[seen])
    close(ours.word_scores(fused.last)[seen], expected.logits[seen])


@EVERY_SHAPE
def test_packed_sequences_equal_padded_ones(shape, tmp_path):
    ours = opened(reference(shape), tmp_path)
    ids, _ = make_inputs()
    parts = [ids[:2, :33], ids[2:3, :20], ids[3:, :18], ids[4:, :3]]  # 20 and 18 are filled up to one length
    with torch.no_grad():
        packed = ours.encoder.packed(
            torch.cat([part.flatten() for part in parts]), [tuple(part.shape) for part in parts]
        )
        expected = torch.cat([ours.encoder(part).last.flatten(0, 1) for part in parts])
    close(packed.last, expected)


@EVERY_SHAPE
def test_gradients_equal_the_reference_packed_and_padded(shape, tmp_path):
    theirs = reference(shape)
    ids, mask = make_inputs()
    mask[:] = (torch.arange(33)[None] < torch.tensor([33, 33, 20, 18, 4])[:, None]).long()
    seen = mask.bool()
    (theirs(ids, attention_mask=mask).logits[seen] ** 2).mean().backward()
    for packed in (False, True):
        ours = opened(theirs, tmp_path / str(packed))
        runs = [(2, 33), (1, 20), (1, 18), (1, 4)]
        last = ours.encoder.packed(ids[seen], runs).last if packed else ours.encoder(ids, mask).last[seen]
        (ours.word_scores(last) ** 2).mean().backward()
        family = family_of(ours.config).files_for(ours.config)
        gradients = {name: each.grad for name, each in theirs.named_parameters() if each.grad is not None}
        mine = {name: each.grad for name, each in ours.named_parameters() if each.grad is not None}
        made = family.to_theirs(mine, ours.config)
        assert made.keys() == gradients.keys()
        for name, gradient in made.items():
            close(gradient, gradients[name], 1e-4)


def test_a_token_sees_no_further_than_half_a_window_in_each_local_layer(tmp_path):
    ours = opened(reference("as published, a window of 9"), tmp_path)
    ids, _ = make_inputs()
    with torch.no_grad():
        maps = ours.encoder(ids, attentions=True).attentions
    apart = (torch.arange(33)[:, None] - torch.arange(33)).abs()
    for number, attention in enumerate(maps):
        assert bool((attention[..., apart > 4] > 0).any()) == (number % 3 == 0)
        assert (attention[..., apart <= 4] > 0).all()


def test_a_place_with_nothing_but_padding_around_it_gives_no_gradient_that_is_not_a_number(tmp_path):
    ours = opened(reference("as published, a window of 9"), tmp_path)
    ids = torch.randint(5, 500, (30,))
    out = ours.encoder.packed(ids, [(1, 22), (1, 8)])  # the second is filled up with 14, and its last see no token
    (out.last**2).sum().backward()
    assert out.last.isfinite().all()
    assert all(each.grad.isfinite().all() for each in ours.encoder.parameters())


def test_given_positions_are_refused(tmp_path):
    ours = opened(reference("a window wider than the text"), tmp_path)
    ids, _ = make_inputs()
    with pytest.raises(ValueError, match="count on from 0"):
        ours.encoder(ids, position_ids=torch.arange(33)[None])


@EVERY_SHAPE
@pytest.mark.parametrize("kind", ["Model", "ForMaskedLM"])
def test_folders_open_both_ways_with_the_same_bits(shape, kind, tmp_path, tokenizer):
    theirs = reference(shape, kind)
    ours = opened(theirs, tmp_path / "theirs")
    save_model(tmp_path / "ours", ours, tokenizer, architecture=type(theirs).__name__)
    again, report = type(theirs).from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    for name, tensor in theirs.state_dict().items():
        assert torch.equal(again.state_dict()[name], tensor), name
    for key in ("layer_types", "rope_parameters", "sliding_window", "norm_bias", "hidden_activation", "norm_eps"):
        assert getattr(again.config, key) == getattr(theirs.config, key)


def test_classifiers_keep_the_head_that_guessed_words(tmp_path):
    ours = opened(reference("all biases"), tmp_path)
    assert torch.equal(ours.pooler.dense.weight, ours.mlm.dense.weight)
    assert torch.equal(ours.pooler.norm.bias, ours.mlm.norm.bias)
    x = torch.randn(3, 48)
    assert torch.equal(ours.pooler.pooled(x), ours.mlm.transform(x))


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_scores_of_a_classifier_equal_the_reference(pooling, tmp_path, tokenizer):
    theirs = reference("as published, a window of 9", "ForSequenceClassification", classifier_pooling=pooling)
    theirs.save_pretrained(tmp_path)
    tokenizer.save(tmp_path)
    classify = bertkit.load(tmp_path)
    texts = ["The import statement binds names, and more than these", ("one text", "and another one")]
    for text, found in zip(texts, classify(texts), strict=True):
        ids = tokenizer.encode(*([text] if isinstance(text, str) else text)).ids
        with torch.no_grad():
            expected = theirs(torch.tensor([ids])).logits.softmax(-1)[0]
        assert list(found["probabilities"].values()) == pytest.approx(expected.tolist(), abs=1e-5)


def test_the_published_configuration_is_the_preset(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(PUBLISHED))
    assert ModelFolder(tmp_path).config == PRESETS["modernbert-base"]()


def test_an_old_configuration_and_the_one_of_today_are_one(tmp_path):
    today = json.loads(transformers.ModernBertConfig(**PUBLISHED).to_json_string(use_diff=False))
    assert "layer_types" in today
    assert "global_rope_theta" not in today
    (tmp_path / "config.json").write_text(json.dumps(today))
    assert ModelFolder(tmp_path).config == PRESETS["modernbert-base"]()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"layer_types": ["sliding_attention"] * 22}, "layer_types is"),
        ({"layer_types": "full_attention"}, "layer_types is"),
        ({"rope_parameters": {"full_attention": {"rope_type": "yarn", "rope_theta": 1.0}}}, "yarn"),
        ({"rope_parameters": {"full_attention": {"rope_theta": 5.0, "factor": 4}}}, "factor"),
        ({"rope_parameters": {"rope_theta": 10000.0}}, "rope_parameters has 'rope_theta'"),
        ({"rope_parameters": [1]}, "not an object"),
        ({"rope_scaling": {"rope_type": "linear", "factor": 2.0}}, "rope_scaling"),
        ({"decoder_bias": False}, "decoder_bias is False"),
        ({"classifier_activation": "relu"}, "classifier_activation is 'relu'"),
        ({"classifier_pooling": "max"}, "classifier_pooling is 'max'"),
        ({"local_attention": 0}, "local_attention is 0"),
        ({"global_attn_every_n_layers": 0}, "global_attn_every_n_layers is 0"),
        ({"global_rope_theta": "much"}, "global_rope_theta is 'much'"),
        ({"norm_bias": 1}, "norm_bias is 1"),
        ({"num_attention_heads": 256}, "pairs of numbers"),
        ({"model_type": "bert"}, "is not BERT's"),
    ],
)
def test_what_cannot_be_represented_is_refused(changes, message, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({**PUBLISHED, **changes}))
    with pytest.raises(BertkitError, match=message) as refused:
        ModelFolder(tmp_path)
    assert "config.json" in str(refused.value)


def test_parameters_as_published():
    published = {"modernbert-base": 149e6, "modernbert-large": 395e6}
    for name, count in published.items():
        made = Bert.without_weights(PRESETS[name](), pooler=False, nsp=False).parameter_count()
        assert made == pytest.approx(count, rel=0.005), name


@pytest.fixture(scope="session")
def published_tokenizer(english: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as the published ones are: NFC, byte-level BPE, the special tokens after all others, runs of spaces and
    GPT-NeoX's own tokens among them, and no class of its own."""
    backend = library.Tokenizer(models.BPE())
    backend.normalizer = normalizers.NFC()
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(
        vocab_size=480, special_tokens=["<|endoftext|>"], initial_alphabet=alphabet, show_progress=False
    )
    backend.train_from_iterator(english, trainer)
    backend.add_tokens([AddedToken("  ", normalized=True)])
    names = ["[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]", "[unused0]"]
    backend.add_special_tokens([AddedToken(name, lstrip=name == "[MASK]", normalized=False) for name in names])
    ends = [(name, backend.token_to_id(name)) for name in ("[CLS]", "[SEP]")]
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=ends
    )
    folder = tmp_path_factory.mktemp("published")
    backend.save(str(folder / "tokenizer.json"))
    roles = {f"{name.strip('[]').lower()}_token": name for name in names[:5]}
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 8192, **roles}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder


@pytest.fixture(scope="session")
def tokenizer(published_tokenizer: Path) -> Tokenizer:
    return Tokenizer.open(published_tokenizer)


def test_a_published_tokenizer_is_modernberts(tokenizer, published_tokenizer, tmp_path):
    assert tokenizer.form.name == "bytes-cls"
    tokenizer.save(tmp_path)
    for folder in (published_tokenizer, tmp_path):
        theirs = transformers.AutoTokenizer.from_pretrained(folder)
        for text in ("The import  statement", "cafe\u0301 😀 we [MASK] it", ""):
            assert tokenizer.encode(text).ids == theirs(text)["input_ids"]
            assert tokenizer.encode(text, "and more").ids == theirs(text, "and more")["input_ids"]
    tokens = tokenizer.encode("names", "it").tokens
    assert (tokens[0], tokens.count("[SEP]"), tokens[-1]) == ("[CLS]", 2, "[SEP]")
    before = tokenizer.encode("we").ids[:-1]
    assert tokenizer.encode("we [MASK]").ids == [*before, tokenizer.mask_id, tokenizer.sep_id]
    assert Tokenizer.open(tmp_path).sha256() == tokenizer.sha256()


def test_a_published_folder_fills_masks_embeds_and_shows_attention(published_tokenizer, tokenizer, tmp_path):
    theirs = reference("as published, a window of 9")
    theirs.save_pretrained(tmp_path)
    tokenizer.save(tmp_path)
    encoder = bertkit.load_encoder(tmp_path)
    text = "The import statement binds names, and the names are looked up where they are used."
    maps = encoder.attention(text)
    ids = tokenizer.encode(text).ids
    assert len(ids) > 2 * 9
    with torch.no_grad():
        expected = theirs(torch.tensor([ids]), output_attentions=True, output_hidden_states=True)
        guesses = theirs(torch.tensor([tokenizer.encode("The [MASK] is closed.").ids])).logits
    close(torch.from_numpy(maps.maps), torch.cat(expected.attentions))
    close(torch.from_numpy(encoder.embed(text, pooling="mean")), expected.hidden_states[-1][0].mean(0))
    ((first, *_),) = encoder.fill_mask("The [MASK] is closed.")
    scores = guesses[0, tokenizer.encode("The [MASK] is closed.").ids.index(tokenizer.mask_id), : tokenizer.vocab_size]
    assert first.probability == pytest.approx(float(scores.softmax(-1).max()), abs=1e-5)
