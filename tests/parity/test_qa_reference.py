"""Question answering equals the reference, transformers' BertForQuestionAnswering: folders, scores and loss."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from transformers import BertConfig as TheirConfig
from transformers import BertForQuestionAnswering
from typer.testing import CliRunner

import bertkit
from bertkit.cli import app
from bertkit.errors import UsageError
from bertkit.hub import ModelFolder, load_fine_tuned, save_fine_tuned
from bertkit.infer import Scorer
from bertkit.nn import Bert, FineTuned
from bertkit.tasks import Answer, Qa, QaExample, batch_of
from bertkit.text import Tokenizer
from fitting import term_of

TEXTS = [
    "a class is a statement that has a name",
    "我们喜欢学习自然语言处理。",
    "the value of the name  is found " * 30,
]
EXAMPLES = [
    QaExample(f"place {number}", str(number), "what is the name?", text, (Answer(text[2:7], 2),))
    for number, text in enumerate(TEXTS)
]


@pytest.fixture
def theirs(tmp_path: Path, tokenizer: Tokenizer) -> tuple[BertForQuestionAnswering, Path]:
    torch.manual_seed(7)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    model = BertForQuestionAnswering(TheirConfig(vocab_size=tokenizer.vocab_size, **sizes)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    folder = tmp_path / "theirs"
    model.save_pretrained(folder)
    tokenizer.save(folder)
    return model, folder


def assert_equal(model: FineTuned, task: Qa, tokenizer: Tokenizer, reference: BertForQuestionAnswering) -> None:
    features = [each for unit in task.encode(EXAMPLES, tokenizer) for each in unit]
    assert len(features) > len(EXAMPLES), "one passage should need several windows"
    assert {each.about.target == (0, 0) for each in features} == {True, False}
    for each, scores in zip(features, Scorer(model, task, tokenizer).scores(features), strict=True):
        start, end = each.about.target
        with torch.no_grad():
            expected = reference(
                torch.tensor([each.ids]),
                token_type_ids=torch.tensor([each.segments]),
                start_positions=torch.tensor([start]),
                end_positions=torch.tensor([end]),
            )
            term = term_of(task, model, batch_of(task, [[each]], packed=True, pad_id=tokenizer.pad_id))
        both = torch.stack([expected.start_logits[0], expected.end_logits[0]], 1)
        torch.testing.assert_close(scores, both, rtol=0, atol=1e-5)
        torch.testing.assert_close(term.total / term.count, expected.loss, rtol=0, atol=1e-5)


def test_their_model_opens_here(theirs, tokenizer: Tokenizer) -> None:
    reference, folder = theirs
    model, task = load_fine_tuned(ModelFolder(folder))
    assert isinstance(task, Qa)
    assert task == Qa()
    assert_equal(model, Qa(max_length=64, stride=16), tokenizer, reference)


def test_our_model_opens_there(tmp_path: Path, tiny: Bert, tokenizer: Tokenizer) -> None:
    torch.manual_seed(3)
    task = Qa(max_length=64, stride=16, no_answer=True)
    bert = Bert(tiny.config, pooler=False, mlm=False, nsp=False)
    model = FineTuned(bert, task.head.shape).eval()
    folder = tmp_path / "ours"
    save_fine_tuned(folder, model, task, tokenizer, metrics={"f1": 0.5}, provenance={"made_by": "a test"})
    reference, report = BertForQuestionAnswering.from_pretrained(folder, output_loading_info=True)
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    assert_equal(model, task, tokenizer, reference.eval())
    again, same_task = load_fine_tuned(ModelFolder(folder))
    assert same_task == task
    assert_equal(again, task, tokenizer, reference)


def test_a_batch_of_windows_has_the_sum_of_their_losses(theirs, tokenizer: Tokenizer) -> None:
    reference, folder = theirs
    model = load_fine_tuned(ModelFolder(folder)).model
    task = Qa(max_length=64, stride=16)
    units = task.encode(EXAMPLES, tokenizer).to_learn()
    expected = torch.zeros(())
    for [each] in units:
        start, end = (torch.tensor([place]) for place in each.about.target)
        ids, segments = torch.tensor([each.ids]), torch.tensor([each.segments])
        expected = expected + reference(ids, token_type_ids=segments, start_positions=start, end_positions=end).loss
    for packed in (True, False):
        term = term_of(task, model, batch_of(task, units, packed=packed, pad_id=tokenizer.pad_id))
        assert term.count == len(units)
        torch.testing.assert_close(term.total, expected, rtol=1e-5, atol=1e-5)


def test_a_model_of_theirs_that_finds_no_answer_is_scored_as_ours_is(
    theirs, tmp_path: Path, tokenizer: Tokenizer
) -> None:
    """SQuAD 2.0: their folder does not tell that there may be no answer; the questions do."""
    reference, folder = theirs
    text = "a class is a statement that has a name"
    with torch.no_grad():  # a head to which [CLS] is the best of all places
        encoded = torch.tensor(tokenizer.encode_ids([text]))
        states_LD = reference.bert(encoded).last_hidden_state[0]
        reference.qa_outputs.weight.copy_((states_LD[0] - states_LD[1:].mean(0)).expand(2, -1))
    reference.save_pretrained(folder)
    questions = tmp_path / "questions.jsonl"
    rows = [{"question": "what is it?", "context": text, "answers": answers} for answers in (["class"], [], [])]
    questions.write_text("".join(json.dumps(row) + "\n" for row in rows))
    task = Qa(no_answer=True)
    model = load_fine_tuned(ModelFolder(folder)).model
    save_fine_tuned(tmp_path / "ours", model, task, tokenizer, metrics={}, provenance={})

    def evaluated(model: Path, *options: str) -> tuple[dict[str, float], str]:
        done = CliRunner().invoke(app, ["evaluate", str(model), str(questions), "--threads", "1", *options])
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)["metrics"], done.stderr

    metrics, said = evaluated(folder)
    assert metrics["accuracy_unanswerable"] == 1.0
    assert "some questions have no answer in their passage: the model may say so" in said
    ours, said = evaluated(tmp_path / "ours")
    assert metrics == ours
    assert "some questions" not in said
    assert evaluated(folder, "--always-answer")[0]["accuracy_unanswerable"] == 0.0
    asked = ("what is it?", text)
    assert bertkit.load(folder, threads=1)(asked)["answer"] != ""
    silent = bertkit.load(folder, threads=1, no_answer=True)(asked)
    assert silent["answer"] == ""
    done = CliRunner().invoke(
        app, ["predict", str(folder), "--question", asked[0], "-t", text, "--no-answer", "--threads", "1"]
    )
    assert json.loads(done.stdout) == silent
    assert evaluated(folder, "--no-answer", "--threshold", "1e6")[0]["accuracy_unanswerable"] == 0.0
    assert bertkit.load(folder, threads=1, no_answer=True, threshold=1e6)(asked)["answer"] != ""
    with pytest.raises(UsageError, match=r"`threshold` with a model that always answers\. Give `no_answer=True` too"):
        bertkit.load(folder, threads=1, threshold=1.0)
