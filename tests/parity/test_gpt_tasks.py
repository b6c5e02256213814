"""GPT and GPT-2 fine-tuned as their paper draws it: start, delimiter and extract tokens around texts, the answer read
where all has been seen. Scores equal those of transformers' classes, both ways."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from test_family_tasks import TASKS
from transformers import AutoConfig, AutoTokenizer

import bertkit
from bertkit.errors import InputError, UsageError
from bertkit.families import PRESETS, vocabulary
from bertkit.hub import ModelFolder, load_fine_tuned, load_model, save_fine_tuned, save_model
from bertkit.infer import Scorer, prompt_ids
from bertkit.infer.explain import explain
from bertkit.nn import Bert, FineTuned
from bertkit.tables import TextExample
from bertkit.tasks import Task
from bertkit.text import Tokenizer, draw_sample
from bertkit.text.train import train
from bertkit.train import FinetuneRequest, Transfer
from bertkit.train.finetune import finetune
from bertkit.train.fit_job import new_model

PREFIXES = {"gpt2": "GPT2", "gpt": "OpenAIGPT"}
SUFFIXES = {"choice": "ForSequenceClassification"}
"""A score for each choice is what a classifier with one class gives."""
PAIRS = [("gpt2", task) for task in TASKS] + [("gpt", task) for task in ("classify", "regress", "choice")]
EVERY_PAIR = pytest.mark.parametrize(("family", "name"), PAIRS)


@pytest.fixture(scope="module")
def tokenizers(english: list[str]) -> dict[str, Tokenizer]:
    sample = draw_sample(english, hold_out=False)
    return {name: train(sample, vocabulary(name, vocab_size=500)).tokenizer for name in PREFIXES}


def pretrained(family: str, tokenizer: Tokenizer, **changes: Any) -> Bert:
    torch.manual_seed(1)
    sizes = {"vocab_size": tokenizer.vocab_size, "max_position_embeddings": 64, **changes}
    return Bert(PRESETS[f"{family}-tiny"](**sizes), pooler=False, nsp=False)


@pytest.fixture
def folders(tokenizers: dict[str, Tokenizer], tmp_path: Path) -> dict[str, Path]:
    for family, tokenizer in tokenizers.items():
        model = pretrained(family, tokenizer, initializer_range=0.2)
        save_model(tmp_path / family, model, tokenizer, provenance={})
    return {family: tmp_path / family for family in tokenizers}


def scores_agree(model: FineTuned, task: Task[Any], tokenizer: Tokenizer, theirs: Any, inputs: list[Any]) -> None:
    examples = [task.read(value, "here") for value in inputs]
    units = task.encode(examples, tokenizer)
    for unit in units:
        for each, found in zip(unit, Scorer(model, task, tokenizer).scores(unit), strict=True):
            with torch.no_grad():
                out = theirs(torch.tensor([each.ids]))
            expected = torch.stack([out.start_logits[0], out.end_logits[0]], -1) if task.name == "qa" else out.logits[0]
            torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)
    assert len(units) == len(inputs)


@EVERY_PAIR
def test_ours_opens_there_and_again_here(family, name, folders, tokenizers, tmp_path):
    task, suffix, inputs = TASKS[name]
    model = new_model(ModelFolder(folders[family]), task, FinetuneRequest(task=name, train="", start=""), 0).eval()
    model.network.mlm = None
    tokenizer = tokenizers[family].for_tasks()
    save_fine_tuned(tmp_path / "ours", model, task, tokenizer, metrics={}, provenance={})
    their_class = getattr(transformers, PREFIXES[family] + SUFFIXES.get(name, suffix))
    theirs, info = their_class.from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    scores_agree(model, task, tokenizer, theirs.eval(), inputs)
    folder = ModelFolder(tmp_path / "ours")
    loaded = load_fine_tuned(folder)
    assert loaded.task == task
    assert all(torch.equal(a, b) for a, b in zip(loaded.model.parameters(), model.parameters(), strict=True))
    assert folder.tokenizer().frame == tokenizer.frame
    text, pair = "The import statement", "binds names"
    there = AutoTokenizer.from_pretrained(tmp_path / "ours")
    assert there(text, pair)["input_ids"] == tokenizer.encode(text, pair).ids
    assert there(text)["input_ids"] == tokenizer.encode(text).ids


@pytest.mark.parametrize("name", ["tag", "qa"])
def test_of_a_task_that_has_no_class_there_the_model_opens_and_here_the_head_too(name, folders, tokenizers, tmp_path):
    task, _, inputs = TASKS[name]
    model = new_model(ModelFolder(folders["gpt"]), task, FinetuneRequest(task=name, train="", start=""), 0).eval()
    model.network.mlm = None
    tokenizer = tokenizers["gpt"].for_tasks()
    save_fine_tuned(tmp_path / "ours", model, task, tokenizer, metrics={}, provenance={})
    folder = ModelFolder(tmp_path / "ours")
    assert (folder.architecture, folder.task) == ("OpenAIGPTModel", name)
    theirs, info = transformers.AutoModel.from_pretrained(folder.path, output_loading_info=True)
    assert type(theirs) is transformers.OpenAIGPTModel
    assert not info["missing_keys"]
    ids = torch.tensor([tokenizer.encode("The import statement").ids])
    with torch.no_grad():
        expected = theirs.eval()(ids).last_hidden_state
        torch.testing.assert_close(model.network.encoder(ids).last, expected, rtol=0, atol=1e-5)
    loaded = load_fine_tuned(folder)
    assert loaded.task == task
    assert all(torch.equal(a, b) for a, b in zip(loaded.model.parameters(), model.parameters(), strict=True))
    assert len(bertkit.load(folder.path)(inputs)) == len(inputs)


@pytest.mark.parametrize(("family", "name"), [pair for pair in PAIRS if pair[1] != "choice"])
def test_theirs_opens_here(family, name, folders, tokenizers, tmp_path):
    task, suffix, inputs = TASKS[name]
    config = AutoConfig.from_pretrained(folders[family])
    if task.head.labels:
        config.id2label = dict(enumerate(task.head.labels))
    else:
        config.num_labels = task.head.shape.outputs
    torch.manual_seed(7)
    theirs = getattr(transformers, PREFIXES[family] + suffix)(config).eval()
    theirs.save_pretrained(tmp_path / "theirs")
    tokenizers[family].save(tmp_path / "theirs")
    model, found = load_fine_tuned(ModelFolder(tmp_path / "theirs"))
    assert type(found) is type(task)
    assert found.head.labels == task.head.labels
    scores_agree(model, found, tokenizers[family], theirs, inputs)
    assert len(bertkit.load(tmp_path / "theirs")(inputs)) == len(inputs)


@pytest.mark.parametrize("family", PREFIXES)
def test_texts_have_a_start_a_delimiter_and_an_end_where_the_answer_is_read(family, tokenizers):
    bare = tokenizers[family]
    framed = bare.for_tasks()
    first, second = bare.encode("binds").ids, bare.encode("names").ids
    start, between, end = framed.bos_id, framed.sep_id, framed.cls_id
    assert len({start, between, end}) == 3
    assert framed.encode("binds").ids == [start, *first, end]
    assert framed.encode("binds", "names").ids == [start, *first, between, *second, end]
    assert bare.encode("binds").ids == first
    assert framed.for_tasks() is framed
    assert framed.frame.size(pair=True) == 3


def test_what_was_known_stays_and_new_tokens_are_random_and_different(folders, tokenizers):
    task, _, _ = TASKS["classify"]
    request = FinetuneRequest(task="classify", train="", start="")
    before = load_model(ModelFolder(folders["gpt2"])).model.encoder.embeddings.word.weight
    after = new_model(ModelFolder(folders["gpt2"]), task, request, 0).network.encoder.embeddings.word.weight
    assert torch.equal(after[: len(before)], before)
    fresh = after[len(before) :]
    assert len(fresh) == tokenizers["gpt2"].for_tasks().vocab_size - len(before) == 2
    assert not torch.allclose(fresh[0], fresh[1])
    again = new_model(ModelFolder(folders["gpt2"]), task, request, 1).network.encoder.embeddings.word.weight
    assert not torch.equal(again[len(before) :], fresh)


ROWS = "text,label\n" + "".join(f"import {'names' if n % 2 else 'value'},{n % 2}\n" for n in range(60))


@pytest.mark.parametrize("family", PREFIXES)
def test_a_gpt_learns_a_task_and_its_folder_answers(family, tokenizers, tmp_path):
    save_model(tmp_path / "pretrained", pretrained(family, tokenizers[family]), tokenizers[family], provenance={})
    (tmp_path / "rows.csv").write_text(ROWS)
    request = FinetuneRequest(
        task="classify", train=str(tmp_path / "rows.csv"), start=str(tmp_path / "pretrained"), change={"epochs": 6}
    )
    result = finetune(request, tmp_path / "model", bertkit.device.choose("cpu", threads=1))
    assert result.metrics["accuracy"] == 1.0
    assert result.facts.settings["fit"]["language_weight"] == 0.5
    model = bertkit.load(tmp_path / "model", threads=1)
    answers = model(["import names", "import value"])
    assert [answer["label"] for answer in answers] == ["1", "0"]
    explained = explain(model.scorer, "import names")
    assert (explained.label, max(explained.words, key=lambda word: word.score).word) == ("1", "names")


def test_a_gpt_that_learned_a_task_writes_on_from_the_prompt_alone(folders, tokenizers, tmp_path):
    task, _, _ = TASKS["classify"]
    model = new_model(
        ModelFolder(folders["gpt2"]), task, FinetuneRequest(task="classify", train="", start=""), 0
    ).eval()
    model.network.mlm = None
    save_fine_tuned(tmp_path / "m", model, task, tokenizers["gpt2"].for_tasks(), metrics={}, provenance={})
    encoder = bertkit.load_encoder(tmp_path / "m", threads=1)
    assert prompt_ids(encoder, ["The import"]) == [tokenizers["gpt2"].encode("The import").ids]
    with pytest.raises(InputError, match="prompt 1 is empty"):
        prompt_ids(encoder, [""])


def test_next_words_teach_a_frozen_model_nothing_and_that_is_told(folders, tmp_path):
    (tmp_path / "rows.csv").write_text(ROWS)
    change = {"language_weight": 0.5, "transfer": Transfer(frozen=True)}
    request = FinetuneRequest(
        task="classify", train=str(tmp_path / "rows.csv"), start=str(folders["gpt2"]), change=change
    )
    with pytest.raises(UsageError, match="next words beside the task for a frozen model"):
        finetune(request, tmp_path / "model", bertkit.device.choose("cpu", threads=1))


def test_only_a_gpt_guesses_next_words_beside_a_task(tiny_folder, tmp_path):
    (tmp_path / "rows.csv").write_text(ROWS)
    request = FinetuneRequest(
        task="classify", train=str(tmp_path / "rows.csv"), start=str(tiny_folder), change={"language_weight": 0.5}
    )
    with pytest.raises(UsageError, match="next words beside the task for a bert model"):
        finetune(request, tmp_path / "model", bertkit.device.choose("cpu", threads=1))
    assert not (tmp_path / "model").exists()


def test_two_orders_added_up_are_the_head_on_the_sum_of_their_vectors(folders, tokenizers):
    """As GPT has it: the two vectors are added before the head, which has no bias, so their scores may be added too."""
    task, _, _ = TASKS["classify"]
    model = new_model(
        ModelFolder(folders["gpt2"]), task, FinetuneRequest(task="classify", train="", start=""), 0
    ).eval()
    tokenizer = tokenizers["gpt2"].for_tasks()
    orders = [TextExample("1", "binds", "names"), TextExample("2", "names", "binds")]
    units = [unit[0] for unit in task.encode(orders, tokenizer)]
    scores = sum(Scorer(model, task, tokenizer).scores(units))
    with torch.no_grad():
        lasts = [model.network.encoder(torch.tensor([each.ids])).last[0, -1] for each in units]
        torch.testing.assert_close(scores, model.dense(lasts[0] + lasts[1]), rtol=0, atol=1e-5)
