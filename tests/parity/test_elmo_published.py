"""The files of an ELMo as they were published, written here in that form with small sizes, give what a plain
transcription of the published equations gives: word by word, gate by gate, in numpy."""

from __future__ import annotations

import json

import numpy as np
import pytest

from bertkit import load_encoder
from commands import bertkit_command

h5py = pytest.importorskip("h5py")
WIDE, WAY, CELL, LAYERS, CLIP = 4, 6, 10, 2, 0.4
FILTERS = [[1, 3], [2, 4], [3, 5]]
SENTENCE = "Wörter , characters a extraordinarily-long-word-that-has-more-than-fifty-characters-in-it 苹果"


def options(**lstm):
    return {
        "lstm": {
            "use_skip_connections": True,
            "projection_dim": WAY,
            "cell_clip": CLIP,
            "proj_clip": CLIP,
            "dim": CELL,
            "n_layers": LAYERS,
            **lstm,
        },
        "char_cnn": {
            "activation": "relu",
            "filters": FILTERS,
            "n_highway": 2,
            "embedding": {"dim": WIDE},
            "n_characters": 262,
            "max_characters_per_token": 50,
        },
    }


def weights():
    draw = np.random.default_rng(5)
    found = sum(many for _, many in FILTERS)
    shapes = {"char_embed": (261, WIDE), "CNN_proj/W_proj": (found, WAY), "CNN_proj/b_proj": (WAY,)}
    for number, (width, many) in enumerate(FILTERS):
        shapes |= {f"CNN/W_cnn_{number}": (1, width, WIDE, many), f"CNN/b_cnn_{number}": (many,)}
    for number in range(2):
        for part in ("transform", "carry"):
            shapes |= {f"CNN_high_{number}/W_{part}": (found, found), f"CNN_high_{number}/b_{part}": (found,)}
    for side in range(2):
        for layer in range(LAYERS):
            cell = f"RNN_{side}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
            shapes |= {f"{cell}/W_0": (2 * WAY, 4 * CELL), f"{cell}/B": (4 * CELL,), f"{cell}/W_P_0": (CELL, WAY)}
    return {name: draw.normal(0, 0.5, shape).astype(np.float32) for name, shape in shapes.items()}


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    folder = tmp_path_factory.mktemp("published")
    (folder / "options.json").write_text(json.dumps(options()))
    with h5py.File(folder / "weights.hdf5", "w") as file:
        for name, array in weights().items():
            file[name] = array
    return folder


@pytest.fixture(scope="module")
def converted(published, tmp_path_factory):
    out = tmp_path_factory.mktemp("converted") / "elmo"
    ended = bertkit_command("convert", published, out)
    assert ended.returncode == 0, ended.stderr
    return out


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def spelt(word):
    signs = {"<S>": [256], "</S>": [257]}.get(word) or list(word.encode())[:48]
    row = np.full(50, 260)
    row[: len(signs) + 2] = [258, *signs, 259]
    return row


def word_vector(w, word):
    x = w["char_embed"][spelt(word)]
    found = []
    for number, (width, _) in enumerate(FILTERS):
        kernel, bias = w[f"CNN/W_cnn_{number}"][0], w[f"CNN/b_cnn_{number}"]
        windows = [np.einsum("wd,wdm->m", x[at : at + width], kernel) + bias for at in range(50 - width + 1)]
        found.append(np.maximum(np.max(windows, 0), 0))
    x = np.concatenate(found)
    for number in range(2):
        part = {
            name: x @ w[f"CNN_high_{number}/W_{name}"] + w[f"CNN_high_{number}/b_{name}"]
            for name in ("transform", "carry")
        }
        gate = sigmoid(part["carry"])
        x = gate * np.maximum(part["transform"], 0) + (1 - gate) * x
    return x @ w["CNN_proj/W_proj"] + w["CNN_proj/b_proj"]


def one_way(w, side, xs):
    layers = []
    for layer in range(LAYERS):
        cell = f"RNN_{side}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
        c, h, said = np.zeros(CELL), np.zeros(WAY), []
        for x in xs:
            i, j, f, o = np.split(np.concatenate([x, h]) @ w[f"{cell}/W_0"] + w[f"{cell}/B"], 4)
            c = np.clip(sigmoid(f + 1) * c + sigmoid(i) * np.tanh(j), -CLIP, CLIP)
            h = np.clip((sigmoid(o) * np.tanh(c)) @ w[f"{cell}/W_P_0"], -CLIP, CLIP)
            said.append(h + x if layer else h)
        layers.append(said)
        xs = said
    return layers


def transcribed(words):
    w = {name: array.astype(np.float64) for name, array in weights().items()}
    xs = [word_vector(w, word) for word in ["<S>", *words, "</S>"]]
    left, right = one_way(w, 0, xs), one_way(w, 1, xs[::-1])
    layers = [np.concatenate([xs, xs], 1)]
    layers += [np.concatenate([ahead, back[::-1]], 1) for ahead, back in zip(left, right, strict=True)]
    return [layer[1:-1] for layer in layers]


def test_every_layer_is_that_of_the_published_equations(converted):
    encoder = load_encoder(converted)
    wanted = transcribed(SENTENCE.split())
    for number in range(LAYERS + 1):
        (found,) = encoder.embed_words([SENTENCE], layers=number, split="whitespace")
        assert found.words == SENTENCE.split()
        np.testing.assert_allclose(found.vectors, wanted[number], atol=1e-5)


def test_several_texts_at_once_are_as_each_by_itself(converted):
    encoder = load_encoder(converted)
    texts = [SENTENCE, "a b", "one", "two words and more of them"]
    together = encoder.embed_words(texts, layers="concat:0..2", split="whitespace")
    for text, found in zip(texts, together, strict=True):
        np.testing.assert_allclose(found.vectors, np.concatenate(transcribed(text.split()), 1), atol=1e-5)


def test_what_came_of_them_is_a_model_like_others(converted, tmp_path):
    rows = "text,label\n" + "".join(f"{word} thing number {n},{word}\n" for n in range(12) for word in ("good", "bad"))
    (tmp_path / "rows.csv").write_text(rows)
    ended = bertkit_command(
        "finetune", "classify", tmp_path / "rows.csv", "--from", converted, "--freeze", "--mix-layers", "--epochs", 1,
        "--out", tmp_path / "out",
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    ended = bertkit_command("predict", tmp_path / "out", tmp_path / "rows.csv")
    assert ended.returncode == 0, ended.stderr
    assert len(ended.stdout.splitlines()) == 24


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        ({"use_skip_connections": False}, "use_skip_connections is False, and only True is known"),
        ({"proj_clip": 7}, "proj_clip is 7, and only 0.4 is known"),
        ({"dim": 11}, "W_0 is (12, 40), and by the options it is (12, 44)"),
        ({"n_layers": 3}, "has no RNN_0/RNN/MultiRNNCell/Cell2/LSTMCell/W_0"),
        ({"n_layers": "two"}, "num_hidden_layers is 'two'"),
    ],
)
def test_options_and_weights_that_do_not_belong_together_are_refused(published, tmp_path, damage, words):
    folder = tmp_path / "published"
    folder.mkdir()
    (folder / "weights.hdf5").symlink_to(published / "weights.hdf5")
    (folder / "options.json").write_text(json.dumps(options(**damage)))
    ended = bertkit_command("convert", folder, tmp_path / "out")
    assert (ended.returncode, words in ended.stderr) == (3, True), ended.stderr
    assert not (tmp_path / "out").exists()


def test_a_file_that_is_none_is_refused(tmp_path):
    folder = tmp_path / "published"
    folder.mkdir()
    (folder / "options.json").write_text(json.dumps(options()))
    (folder / "weights.hdf5").write_text("no HDF5")
    ended = bertkit_command("convert", folder, tmp_path / "out")
    assert (ended.returncode, "is damaged or no HDF5" in ended.stderr) == (3, True), ended.stderr
