"""Fine-tuned models of every family open in transformers and theirs open here, for every task: the same scores."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from transformers import AutoConfig, AutoTokenizer

import bertkit
from bertkit.families import config_from_json, vocabulary
from bertkit.hub import ModelFolder, load_fine_tuned, save_fine_tuned
from bertkit.infer import Scorer
from bertkit.nn import Bert, FineTuned, needs_pooler
from bertkit.tasks import Classify, MultipleChoice, Qa, Regress, Tag, Task
from bertkit.text import Tokenizer, draw_sample
from bertkit.text.train import train
from bertkit.train import FinetuneRequest
from bertkit.train.fit_job import new_model

SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
FAMILIES: dict[str, dict[str, Any]] = {
    "roberta": {"type_vocab_size": 1, "pad_token_id": 1},
    "albert": {"embedding_size": 16, "num_hidden_groups": 1},
    "electra": {"embedding_size": 16},
    "distilbert": {"type_vocab_size": 0},
    "modernbert": {"local_attention": 6, "classifier_pooling": "mean"},
}
TOKENIZERS = {
    "roberta": "roberta",
    "albert": "albert",
    "electra": "bert",
    "distilbert": "bert",
    "modernbert": "modernbert",
}
PREFIXES = {
    "roberta": "Roberta",
    "albert": "Albert",
    "electra": "Electra",
    "distilbert": "DistilBert",
    "modernbert": "ModernBert",
}
TEXTS = ["The import statement binds names", ("one text", "and another one"), "no more"]
CHOICES = [("The import statement", ["binds names", "is a loop", "ends"]), ("A class", ["is a type", "is not"])]
SENTENCES = [("The", "import", "statement", "binds", "names"), ("Import",)]
QUESTIONS = [("What binds names?", "The import statement  binds names, and  more."), ("Who?", "Nobody at all.")]
TASKS: dict[str, tuple[Task[Any], str, list[Any]]] = {
    "classify": (Classify(classes=("bad", "good", "so so"), max_length=64), "ForSequenceClassification", TEXTS),
    "regress": (Regress(max_length=64), "ForSequenceClassification", TEXTS),
    "choice": (MultipleChoice(max_length=64), "ForMultipleChoice", CHOICES),
    "tag": (Tag(tags=("O", "B-A", "I-A"), max_length=64), "ForTokenClassification", SENTENCES),
    "qa": (Qa(max_length=64), "ForQuestionAnswering", QUESTIONS),
}
EVERY_PAIR = [(family, task) for family in FAMILIES for task in TASKS]


@pytest.fixture(scope="session")
def tokenizers(english: list[str]) -> dict[str, Tokenizer]:
    sample = draw_sample(english, hold_out=False)
    return {name: train(sample, vocabulary(name, vocab_size=500)).tokenizer for name in set(TOKENIZERS.values())}


def ours(family: str, task: Task[Any], tokenizer: Tokenizer) -> FineTuned:
    torch.manual_seed(1)
    its = {"family": family, **SIZES, **FAMILIES[family], "vocab_size": tokenizer.vocab_size}
    config = config_from_json({**its, "pad_token_id": tokenizer.pad_id, "initializer_range": 0.2})
    bert = Bert(config, pooler=needs_pooler(config, task.head.shape.reads), mlm=False, nsp=False)
    model = FineTuned(bert, task.head.shape).eval()
    torch.nn.init.normal_(model.dense.bias, std=0.5)
    return model


def scores_agree(model: FineTuned, task: Task[Any], tokenizer: Tokenizer, theirs: Any, inputs: list[Any]) -> None:
    examples = [task.read(value, "here") for value in inputs]
    compared = 0
    for unit in task.encode(examples, tokenizer):
        for each, found in zip(unit, Scorer(model, task, tokenizer).scores(unit), strict=True):
            ids = torch.tensor([each.ids])
            with torch.no_grad():
                given = (
                    {"token_type_ids": torch.tensor([each.segments])} if model.network.config.type_vocab_size else {}
                )
                if isinstance(task, MultipleChoice):
                    ids, given = ids[None], {name: tensor[None] for name, tensor in given.items()}
                    given["attention_mask"] = torch.ones_like(ids)
                out = theirs(ids, **given)
            expected = torch.stack([out.start_logits[0], out.end_logits[0]], -1) if task.name == "qa" else out.logits[0]
            torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)
            compared += 1
    assert compared >= len(inputs)


@pytest.mark.parametrize(("family", "name"), EVERY_PAIR)
def test_ours_opens_there_and_again_here(family, name, tokenizers, tmp_path):
    (task, suffix, inputs), tokenizer = TASKS[name], tokenizers[TOKENIZERS[family]]
    model = ours(family, task, tokenizer)
    save_fine_tuned(tmp_path / "ours", model, task, tokenizer, metrics={}, provenance={})
    their_class = getattr(transformers, PREFIXES[family] + suffix)
    theirs, info = their_class.from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    scores_agree(model, task, tokenizer, theirs.eval(), inputs)
    loaded = load_fine_tuned(ModelFolder(tmp_path / "ours"))
    assert loaded.task == task
    assert all(torch.equal(a, b) for a, b in zip(loaded.model.parameters(), model.parameters(), strict=True))
    text, pair = "The import statement", "binds names"
    assert AutoTokenizer.from_pretrained(tmp_path / "ours")(text, pair)["input_ids"] == tokenizer.encode(text, pair).ids


@pytest.mark.parametrize(("family", "name"), EVERY_PAIR)
def test_theirs_opens_here(family, name, tokenizers, tmp_path):
    (task, suffix, inputs), tokenizer = TASKS[name], tokenizers[TOKENIZERS[family]]
    save_fine_tuned(tmp_path / "sizes", ours(family, task, tokenizer), task, tokenizer, metrics={}, provenance={})
    torch.manual_seed(7)
    theirs = getattr(transformers, PREFIXES[family] + suffix)(AutoConfig.from_pretrained(tmp_path / "sizes")).eval()
    theirs.save_pretrained(tmp_path / "theirs")
    tokenizer.save(tmp_path / "theirs")
    model, found = load_fine_tuned(ModelFolder(tmp_path / "theirs"))
    assert type(found) is type(task)
    assert found.head.labels == task.head.labels
    scores_agree(model, found, tokenizer, theirs, inputs)
    assert len(bertkit.load(tmp_path / "theirs")(inputs)) == len(inputs)


HEAD_DROPOUTS: dict[str, dict[str, float]] = {
    "albert": {"classifier_dropout_prob": 0.35},
    "distilbert": {"seq_classif_dropout": 0.35, "qa_dropout": 0.15, "dropout": 0.05},
    "roberta": {"classifier_dropout": 0.35},
    "electra": {"classifier_dropout": 0.35},
    "modernbert": {"classifier_dropout": 0.35},
}


@pytest.mark.parametrize(
    ("family", "name"),
    [*((family, task) for family in HEAD_DROPOUTS for task in ("classify", "tag")), ("distilbert", "qa")],
)
def test_the_dropout_of_a_head_is_the_published_one_both_ways(family, name, tokenizers, tmp_path):
    (task, suffix, _), tokenizer = TASKS[name], tokenizers[TOKENIZERS[family]]
    save_fine_tuned(tmp_path / "sizes", ours(family, task, tokenizer), task, tokenizer, metrics={}, provenance={})
    config = AutoConfig.from_pretrained(tmp_path / "sizes", **HEAD_DROPOUTS[family])
    theirs = getattr(transformers, PREFIXES[family] + suffix)(config)
    theirs.save_pretrained(tmp_path / "theirs")
    request = FinetuneRequest(task=name, train="", start="", from_scratch=True)
    model = new_model(ModelFolder(tmp_path / "theirs"), task, request, 0)
    there = {path: each for path, each in theirs.named_children() if path in ("dropout", "drop", "classifier")}
    expected = float((there.get("dropout") or there.get("drop") or there["classifier"].dropout).p)
    assert model.dropout.p == expected
    save_fine_tuned(tmp_path / "ours", model, task, tokenizer, metrics={}, provenance={})
    written = json.loads((tmp_path / "ours" / "config.json").read_text())
    for key, value in HEAD_DROPOUTS[family].items():
        assert written[key] == value


@pytest.mark.parametrize("family", FAMILIES)
def test_pairs_are_framed_as_the_tokenizer_frames_them(family, tokenizers):
    tokenizer = tokenizers[TOKENIZERS[family]]
    task = Classify(classes=("a", "b"), max_length=64)
    ((features,),) = task.encode([task.read(("one text", "and another"), "here")], tokenizer)
    expected = tokenizer.encode("one text", "and another")
    assert list(features.ids) == expected.ids
    assert list(features.segments) == expected.segments


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("length", [16, 17, 40])
def test_no_sequence_is_longer_than_the_model_reads(family, length, tokenizers):
    tokenizer = tokenizers[TOKENIZERS[family]]
    long = "the import statement binds names " * 30
    for long_texts in ("head", "head-tail", "windows"):
        task = Classify(classes=("a", "b"), max_length=length, long=long_texts)
        for unit in task.encode([task.read(each, "here") for each in (long, (long, "short"), (long, long))], tokenizer):
            assert max(len(each.ids) for each in unit) <= length
    qa = Qa(max_length=length)
    (unit,) = qa.encode([qa.read(("What?", long), "here")], tokenizer)
    assert max(len(each.ids) for each in unit) <= length


def test_answers_of_a_byte_level_model_are_the_exact_characters(tokenizers, tmp_path):
    tokenizer = tokenizers["roberta"]
    task = Qa(max_length=32)
    save_fine_tuned(Path(tmp_path, "m"), ours("roberta", task, tokenizer), task, tokenizer, metrics={}, provenance={})
    passage = "Names  are bound 😀 by 导入语句, and by  nothing else. " * 5
    answer = bertkit.load(tmp_path / "m")(("Who binds?", passage))
    assert answer["answer"] == passage[answer["start"] : answer["end"]]
    assert answer["answer"] == answer["answer"].strip()


def test_a_byte_level_vocabulary_opens_from_its_first_files(tokenizers, tmp_path):
    tokenizer = tokenizers["roberta"]
    tokenizer.save(tmp_path)
    (tmp_path / "tokenizer.json").unlink()
    again = Tokenizer.open(tmp_path)
    for text in ("The import statement", "  two  spaces 😀", "我们 <mask> it"):
        assert again.encode(text, "and more") == tokenizer.encode(text, "and more")


def test_a_model_of_one_segment_reads_pairs_with_berts_tokenizer(tokenizers, tmp_path):
    task = Classify(classes=("a", "b"), max_length=64)
    model = ours("roberta", task, tokenizers["bert"])
    save_fine_tuned(tmp_path / "m", model, task, tokenizers["bert"], metrics={}, provenance={})
    assert bertkit.load(tmp_path / "m")(("one text", "and another"))["label"] in ("a", "b")
    assert bertkit.load_encoder(tmp_path / "m").attention("one text", "and another").segments.count(1) == 0


def test_attention_to_a_pair_shows_each_texts_own_words(tokenizers, tmp_path):
    task = Classify(classes=("a", "b"), max_length=64)
    save_fine_tuned(
        tmp_path / "m",
        ours("roberta", task, tokenizers["roberta"]),
        task,
        tokenizers["roberta"],
        metrics={},
        provenance={},
    )
    maps = bertkit.load_encoder(tmp_path / "m").attention("abc", "xyz")
    shown = [surface for surface in maps.surfaces if not surface.startswith("<")]
    assert "".join(shown) == "abcxyz"
