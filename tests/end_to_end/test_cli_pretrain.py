"""`bertkit pretrain` as a user gives it: what it makes, what it says, and what it refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from bertkit import CorpusFolder, load_encoder
from bertkit.families import bert_tiny
from bertkit.hub import save_model
from bertkit.nn import Bert
from bertkit.text import draw_sample, extend_vocabulary
from commands import bertkit_command
from corpora import RECIPE, lines_of
from pretraining import Pretraining

TINY = ("--model", "bert-tiny", "--batch", 8, "--length", 32, "--validation-samples", 16)


@pytest.fixture
def pretrained(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., tuple[dict[str, float], str]]:
    """The command, to its good end: what it prints, and what it says on the way."""

    def run(*arguments: object) -> tuple[dict[str, float], str]:
        done = Pretraining(tmp_path_factory.mktemp("said"), *arguments).end()
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout), done.stderr

    return run


@pytest.fixture
def refused(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    """The command, which ends with the code given: what it says."""

    def run(code: int, *arguments: object) -> str:
        done = Pretraining(tmp_path_factory.mktemp("said"), *arguments).end()
        assert done.returncode == code, done.stderr
        assert "Traceback" not in done.stderr
        assert done.stdout == ""
        return done.stderr

    return run


def test_a_run_makes_all_that_its_folder_shall_have(shards: Path, tmp_path: Path, pretrained):
    run = tmp_path / "run"
    result, said = pretrained(shards, "--steps", 6, "--save-every", 2, "--out", run, *TINY)
    assert {"run.json", "log.jsonl", "times.jsonl", "checkpoints", "model", "curves.png", "report.html"} <= {
        path.name for path in run.iterdir()
    }
    assert "plan: bert-tiny" in said
    assert result["mlm_loss"] > 0
    assert 0 <= result["nsp_accuracy"] <= 1
    assert json.loads((run / "run.json").read_text())["settings"]["recipe"]["name"] == "fast"
    assert len(list((run / "checkpoints").iterdir())) <= 3
    assert load_encoder(run / "model").fill_mask("the [MASK] is closed .")[0]


def test_hours_are_planned_for_and_kept(shards: Path, tmp_path: Path, pretrained):
    _, said = pretrained(shards, "--hours", 0.004, "--out", tmp_path / "run", *TINY)
    facts = json.loads((tmp_path / "run" / "run.json").read_text())
    assert facts["plan"]["steps"] >= 1
    assert "to be done in 0:14" in said
    steps = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    last = [record for record in steps if record["kind"] == "step"][-1]
    assert last["learning_rate"] < 0.2 * facts["settings"]["recipe"]["optimizer"]["learning_rate"], "the schedule ends"


def test_the_ablations_of_the_paper(shards: Path, tmp_path: Path, pretrained):
    options = ("--steps", 3, "--no-nsp", *TINY)
    both_ways, _ = pretrained(shards, *options, "--out", tmp_path / "both")
    one_way, _ = pretrained(shards, *options, "--left-to-right", "--out", tmp_path / "one")
    assert "nsp_accuracy" not in both_ways
    assert "nsp_accuracy" not in one_way
    assert "mlm_accuracy" in both_ways
    assert "clm_accuracy" in one_way, "it is asked for next words"
    configs = [json.loads((tmp_path / name / "model" / "config.json").read_text()) for name in ("both", "one")]
    assert [config["is_decoder"] for config in configs] == [False, True]


def test_the_recipe_of_the_paper_is_its_model(shards: Path, tmp_path: Path, pretrained):
    steps = ("--steps", 20, "--log-every", 1, "--long-length", 64)
    pretrained(shards, "--recipe", "bert", *steps, "--out", tmp_path / "run", *TINY)
    config = json.loads((tmp_path / "run" / "model" / "config.json").read_text())
    assert config["model_type"] == "bert"
    assert config["hidden_dropout_prob"] == 0.1
    log = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    assert [record["length"] for record in log if record["kind"] == "step"] == 18 * [32] + 2 * [64]


@pytest.mark.parametrize(
    "option", [("--optimizer", "lamb"), ("--mask", "word"), ("--mask", "span"), ("--gradient-checkpointing",)]
)
def test_options_that_change_how(shards: Path, tmp_path: Path, option: tuple[str, ...], pretrained):
    result, _ = pretrained(shards, "--steps", 2, *option, "--out", tmp_path / "run", *TINY)
    assert result["mlm_loss"] > 0


def test_masks_may_be_drawn_a_few_times_only(shards: Path, tmp_path: Path, pretrained):
    masks = ("--masks", "static", "--mask-copies", 10)
    pretrained(shards, "--steps", 2, *masks, "--out", tmp_path / "run", *TINY)
    words, _ = json.loads((tmp_path / "run" / "run.json").read_text())["settings"]["recipe"]["objectives"]
    assert words["options"]["copies"] == 10


def test_a_model_goes_on_with_what_it_knows(shards: Path, tmp_path: Path, pretrained):
    pretrained(shards, "--steps", 30, "--out", tmp_path / "first", *TINY)
    options = [option for option in TINY if option not in ("--model", "bert-tiny")]
    pretrained(shards, "--from", tmp_path / "first" / "model", "--steps", 20, "--out", tmp_path / "second", *options)
    first, second = (validations(tmp_path / name) for name in ("first", "second"))
    assert second[0] == pytest.approx(first[-2], abs=1e-5), "the first loss is the last one of the model before"
    assert first[0] - first[-2] > 0.5
    assert second[-2] < second[0] + 0.05, "and nothing of it is lost"


def test_a_model_that_learned_from_left_to_right_goes_on_with_both_sides(shards: Path, tmp_path: Path, pretrained):
    pretrained(shards, "--steps", 3, "--no-nsp", "--left-to-right", "--out", tmp_path / "one", *TINY)
    options = [option for option in TINY if option not in ("--model", "bert-tiny")]
    start = ("--from", tmp_path / "one" / "model")
    _, said = pretrained(shards, *start, "--steps", 2, "--out", tmp_path / "both", *options)
    assert "has learned from left to right; from now on each token sees both sides" in said
    assert json.loads((tmp_path / "both" / "model" / "config.json").read_text())["is_decoder"] is False
    texts = ["The first of them.", "Another value is returned."]
    for name, sees in (("one", False), ("both", True)):
        first, second = load_encoder(tmp_path / name / "model").embed(texts, pooling="cls")
        assert bool(abs(first - second).max() > 1e-4) is sees, "[CLS] comes first"


def validations(run: Path) -> list[float]:
    """The last but one has as many samples as those before, the last has more."""
    records = map(json.loads, (run / "log.jsonl").read_text().splitlines())
    return [record["mlm_loss"] for record in records if record["kind"] == "validation"]


def test_a_model_goes_on_in_a_new_domain_with_new_words(
    tmp_path: Path, english: list[str], tokenizer, pretrained, refused
):
    from bertkit.corpus import prepare

    old = tmp_path / "old"
    save_model(old, Bert(bert_tiny(vocab_size=tokenizer.vocab_size)).eval(), tokenizer)
    texts = [line + " zyxopathy of the quuxiform blorbit" for line in english[:400]]
    documents = ["\n".join(texts[start : start + 8]) for start in range(0, 400, 8)]
    extended = extend_vocabulary(tokenizer, draw_sample(texts), add=3)
    assert extended.added
    prepare([lines_of(documents, tmp_path / "t.jsonl")], extended.tokenizer, tmp_path / "shards", recipe=RECIPE)
    options = ("--steps", 2, "--batch", 8, "--length", 32, "--validation-samples", 8)
    said = refused(3, tmp_path / "shards", "--from", old, "--out", tmp_path / "no", *options)
    assert "--extend-vocabulary" in said
    _, said = pretrained(tmp_path / "shards", "--from", old, "--extend-vocabulary", "--out", tmp_path / "run", *options)
    assert "new ones begin as the mean of their pieces" in said
    trained = load_encoder(tmp_path / "run" / "model")
    assert trained.model.config.vocab_size == CorpusFolder(tmp_path / "shards").tokenizer.vocab_size
    assert extended.added[0] in {trained.tokenizer.token(number) for number in range(trained.tokenizer.vocab_size)}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--steps", 2, "--model", "bert-mimi"), "Did you mean 'bert-mini'?"),
        ((), "Give --hours H or --steps N"),
        (("--steps", 2, "--hours", 1), "both --hours and --steps are given"),
        (("--steps", 2, "--from", "x", "--pre-norm"), "keeps the norm it was trained with"),
        (("--steps", 2, "--left-to-right"), "Add --no-nsp"),
        (("--steps", 2, "--recipe", "fats"), "Did you mean 'fast'?"),
        (("--steps", 2, "--mask", "words"), "Did you mean 'word'?"),
        (("--steps", 2, "--learning-rate", 0), "--learning-rate is 0.0. It must be a number above 0"),
        (("--steps", 2, "--optimizer", "adam"), "Did you mean 'adamw'?"),
        (("--steps", 2, "--mask-rate", 1.5), "--mask-rate is 1.5. It must be a number above 0 and at most 1"),
        (("--steps", 2, "--mask-shares", "80/20"), "mask shares of '80/20'"),
        (("--steps", 2, "--masks", "statik"), "Did you mean 'static'?"),
        (("--steps", 2, "--mask-copies", 10), "Add --masks static"),
        (("--steps", 2, "--length", 4096), "the model has 512 positions"),
        (("--steps", 2, "--extend-vocabulary"), "Give one with --from"),
        (("--steps", 2, "--from", "x", "--model", "bert-tiny"), "--model and --from are both given"),
        (("--steps", 2, "--groups", 2), "--groups with the family bert. It is for albert."),
        (("--hours", -1), "--hours is -1.0. It must be a number above 0"),
        (("--steps", 2, "--parallel", "dp"), "It can be ddp or fsdp"),
    ],
)
def test_wrong_usage_is_refused_before_anything_is_made(
    shards: Path, tmp_path: Path, arguments: tuple[object, ...], says: str, refused
):
    said = refused(2, shards, "--out", tmp_path / "run", *arguments)
    assert says in said
    assert not (tmp_path / "run").exists()


def test_a_folder_that_is_no_corpus_is_refused(tmp_path: Path, refused):
    assert "no prepared corpus" in refused(3, tmp_path, "--steps", 2, "--out", tmp_path / "run")
    assert "no corpus is named" in refused(2, "--steps", 2, "--out", tmp_path / "run")
    assert "Add --out RUN" in refused(2, tmp_path, "--steps", 2)
    assert "and --steps is given" in refused(2, "--steps", 3, "--resume", tmp_path / "run")
    assert "is no run" in refused(2, "--resume", tmp_path / "run")


def test_one_document_to_measure_on_is_told_before_anything_is_measured(
    shards: Path, english: list[str], tmp_path: Path, refused
):
    """As of 35 books, of which one in a hundred is held out."""
    books = lines_of(
        ["\n".join(english[9 * number : 9 * number + 9]) for number in range(35)], tmp_path / "books.jsonl"
    )
    plain = ("--tokenizer", shards / "tokenizer", "--near-duplicates", 0, "--boilerplate", 0, "--workers", 1)
    for held_out in range(1, 40):  # which documents they are is drawn from their text
        share = ("--validation", held_out / 200, "--out", tmp_path / "few", "--overwrite")
        made = bertkit_command("prepare", books, *plain, *share)
        assert made.returncode == 0, made.stderr
        if CorpusFolder(tmp_path / "few").report["kept"].get("validation", {}).get("documents") == 1:
            break
    said = refused(3, tmp_path / "few", "--hours", 1, "--out", tmp_path / "run")
    assert "has 1 in its validation split" in said
    assert "--validation" in said
    assert "measuring" not in said
