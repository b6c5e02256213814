"""Exported models give what torch gives, for every family and task, whatever the texts and their lengths."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import bertkit
from bertkit.families import Config, config_from_json, vocabulary
from bertkit.hub import ModelFolder, save_fine_tuned, save_model
from bertkit.infer import TEXTS as TEXTS_AT_EXPORT
from bertkit.infer import TaskPredictor, load_encoder
from bertkit.infer.export import export
from bertkit.nn import Bert, FineTuned, needs_pooler
from bertkit.tasks import Classify, Embed, MultipleChoice, Qa, Regress, Tag, Task
from bertkit.text import Tokenizer, draw_sample
from bertkit.text.train import train

pytest.importorskip("onnxruntime")

SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
FAMILIES: dict[str, dict[str, Any]] = {
    "bert": {},
    "roberta": {"type_vocab_size": 1, "pad_token_id": 1},
    "albert": {"embedding_size": 16, "num_hidden_groups": 1, "hidden_act": "gelu_new"},
    "electra": {"embedding_size": 16},
    "distilbert": {"type_vocab_size": 0},
}
TOKENIZERS = {"bert": "bert", "roberta": "roberta", "albert": "albert", "electra": "bert", "distilbert": "bert"}
LONG = "The import statement binds names " * 12
TEXTS = [
    "The import statement",
    ("one text", "and another one"),
    "no",
    LONG,
    "注意力机制让模型看到整个句子。",
    "no more",
]
QUESTIONS = [("What binds?", "The import statement  binds names."), ("Who?", "Nobody."), ("What?", LONG)]
CHOICES = [("The import statement", ["binds names", "is a loop", LONG]), ("A class", ["is a type", "苹果"])]
SENTENCES = [("The", "import", "statement"), ("注意力",), tuple(LONG.split())]
TASKS: dict[str, tuple[Task[Any], list[Any]]] = {
    "classify": (Classify(classes=("bad", "good", "so so"), max_length=64), TEXTS),
    "regress": (Regress(max_length=64), TEXTS),
    "choice": (MultipleChoice(max_length=64), CHOICES),
    "tag": (Tag(tags=("O", "B-A", "I-A"), max_length=64), SENTENCES),
    "qa": (Qa(max_length=64), QUESTIONS),
    "embed": (Embed(max_length=64), [("a text", LONG), ("苹果公司", "no more")]),
}
EVERY_PAIR = [(family, task) for family in FAMILIES for task in TASKS]


@pytest.fixture(scope="session")
def tokenizers(english: list[str]) -> dict[str, Tokenizer]:
    sample = draw_sample([*english, *(text for text in TEXTS if isinstance(text, str))], hold_out=False)
    return {name: train(sample, vocabulary(name, vocab_size=500)).tokenizer for name in set(TOKENIZERS.values())}


def config_of(family: str, tokenizer: Tokenizer, **more: Any) -> Config:
    own = {**SIZES, **FAMILIES[family], **more}
    return config_from_json({"family": family, "vocab_size": tokenizer.vocab_size, "initializer_range": 0.2, **own})


def saved(folder: Path, family: str, task: Task[Any], tokenizer: Tokenizer) -> Path:
    torch.manual_seed(1)
    config = config_of(family, tokenizer)
    bert = Bert(config, pooler=needs_pooler(config, task.head.shape.reads), mlm=False, nsp=False)
    model = FineTuned(bert, task.head.shape).eval()
    for parameter in model.parameters():  # biases begin as 0, and norms as 1
        if parameter.dim() == 1:
            torch.nn.init.normal_(parameter, mean=float(parameter.detach()[0]), std=0.2)
    save_fine_tuned(folder, model, task, tokenizer, metrics={}, provenance={})
    return folder


def opened(folder: Path, runtime: str = "torch") -> TaskPredictor:
    predictor = bertkit.load(folder, runtime=runtime)
    assert isinstance(predictor, TaskPredictor)
    return predictor


def scores_of(predictor: TaskPredictor, inputs: list[Any]) -> list[torch.Tensor]:
    scorer = predictor.scorer
    units = scorer.task.encode([scorer.task.read(value, "here") for value in inputs], scorer.tokenizer)
    return scorer.scores([each for unit in units for each in unit])


@pytest.mark.parametrize(("family", "name"), EVERY_PAIR)
def test_scores_are_those_of_torch(family: str, name: str, tokenizers: dict[str, Tokenizer], tmp_path: Path):
    task, inputs = TASKS[name]
    folder = saved(tmp_path / "model", family, task, tokenizers[TOKENIZERS[family]])
    export(ModelFolder(folder), tmp_path / "fast", texts=["a text", "another"])
    export(ModelFolder(tmp_path / "fast"), tmp_path / "fast", int8=True, texts=["a text", "another"], overwrite=True)
    exact = scores_of(opened(tmp_path / "fast"), inputs)
    for there, right in zip(scores_of(opened(tmp_path / "fast", "onnx"), inputs), exact, strict=True):
        torch.testing.assert_close(there, right, atol=1e-4, rtol=1e-4)
    near, right = torch.cat(scores_of(opened(tmp_path / "fast", "onnx-int8"), inputs)), torch.cat(exact)
    assert not torch.equal(near, right)
    assert (near - right).norm() < 0.15 * right.norm()


def test_answers_are_those_of_torch(tokenizers: dict[str, Tokenizer], tmp_path: Path):
    for name, (task, inputs) in TASKS.items():
        folder = saved(tmp_path / name, "bert", task, tokenizers["bert"])
        export(ModelFolder(folder), tmp_path / f"{name}-fast", texts=["a text"])
        exact, there = opened(folder)(inputs), opened(tmp_path / f"{name}-fast", "onnx")(inputs)
        assert [_rounded(answer) for answer in there] == [_rounded(answer) for answer in exact]


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(its) for key, its in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(its) for its in value]
    return pytest.approx(value, abs=1e-4) if isinstance(value, float) else value


def test_a_crf_decodes_what_the_graph_says(tokenizers: dict[str, Tokenizer], tmp_path: Path):
    task = Tag(tags=("O", "B-A", "I-A"), max_length=64, crf=True)
    folder = saved(tmp_path / "model", "bert", task, tokenizers["bert"])
    export(ModelFolder(folder), tmp_path / "fast", texts=["a text"])
    exact, there = opened(folder)(SENTENCES), opened(tmp_path / "fast", "onnx")(SENTENCES)
    assert [_rounded(answer) for answer in there] == [_rounded(answer) for answer in exact]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
def test_vectors_are_those_of_torch(family: str, pooling: str, tokenizers: dict[str, Tokenizer], tmp_path: Path):
    tokenizer = tokenizers[TOKENIZERS[family]]
    torch.manual_seed(2)
    save_model(tmp_path / "model", Bert(config_of(family, tokenizer), mlm=False, nsp=False).eval(), tokenizer)
    export(ModelFolder(tmp_path / "model"), tmp_path / "fast", texts=["a text", "another"])
    texts = [text for text in TEXTS if isinstance(text, str)]
    exact = load_encoder(tmp_path / "model").embed(texts, pooling=pooling)
    there = load_encoder(tmp_path / "fast", runtime="onnx").embed(texts, pooling=pooling)
    np.testing.assert_allclose(there, exact, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("hidden_act", ["gelu_new", "relu", "silu", "tanh"])
def test_pre_norm_and_every_activation(hidden_act: str, tokenizers: dict[str, Tokenizer], tmp_path: Path):
    tokenizer = tokenizers["bert"]
    config = config_of("bert", tokenizer, pre_norm=True, hidden_act=hidden_act)
    save_model(tmp_path / "model", Bert(config).eval(), tokenizer)
    done = export(ModelFolder(tmp_path / "model"), tmp_path / "fast")
    assert done.check.texts == TEXTS_AT_EXPORT
    assert done.check.largest_difference < 1e-4
    exact, there = load_encoder(tmp_path / "fast"), load_encoder(tmp_path / "fast", runtime="onnx")
    (guessed,), (known,) = (each.fill_mask("The [MASK] binds names.", k=3) for each in (there, exact))
    assert [guess.token for guess in guessed] == [guess.token for guess in known]
    assert [guess.probability for guess in guessed] == pytest.approx([guess.probability for guess in known], abs=1e-5)
    (near,), (right,) = there.embed_words([LONG]), exact.embed_words([LONG])
    assert near.words == right.words
    np.testing.assert_allclose(near.vectors, right.vectors, atol=1e-4)
    np.testing.assert_allclose(there.embed("a text", layers=1), exact.embed("a text", layers=1), atol=1e-5)


def test_in_8_bits_an_answer_does_not_depend_on_what_is_computed_with_it(
    tokenizers: dict[str, Tokenizer], tmp_path: Path
):
    task, inputs = TASKS["classify"]
    folder = saved(tmp_path / "model", "bert", task, tokenizers["bert"])
    export(ModelFolder(folder), tmp_path / "fast", int8=True, texts=["a text"])
    predictor = opened(tmp_path / "fast", "onnx-int8")
    together = scores_of(predictor, inputs)
    for value, right in zip(inputs, together, strict=True):
        torch.testing.assert_close(scores_of(predictor, [value])[0], right, atol=1e-5, rtol=1e-5)


def test_real_vectors_in_8_bits_stay_near(minilm: Path, english: list[str], tmp_path: Path):
    done = export(ModelFolder(minilm), tmp_path / "fast", int8=True, texts=english[:16])
    assert done.check.agreement > 0.99
    exact, there = load_encoder(minilm), load_encoder(tmp_path / "fast", runtime="onnx-int8")
    cosines = (exact.embed(english[48:64]) * there.embed(english[48:64])).sum(1)
    assert cosines.mean() > 0.99
    assert (
        (tmp_path / "fast" / done.file).stat().st_size
        == done.bytes
        < 0.7 * (minilm / "model.safetensors").stat().st_size
    )
