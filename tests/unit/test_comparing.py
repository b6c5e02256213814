"""Who is compared with whom, on what, and what the numbers then say: all but the training itself."""

from __future__ import annotations

import json
import math
import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from bertkit import device
from bertkit.cli.compare import compare as compare_command
from bertkit.corpus import CorpusFolder, Progress, prepare
from bertkit.errors import BertkitError, CorpusError, InputError, TrainingError, UsageError, WriteError
from bertkit.families import PRESETS, bert_tiny, vocabulary
from bertkit.files import read_sealed, write_sealed
from bertkit.hub import save_model
from bertkit.nn import Bert
from bertkit.objectives import Masking
from bertkit.report import bits_per_byte, cells_of, remarks, results, standing, write_comparison
from bertkit.settings import spellings
from bertkit.text import Tokenizer, draw_sample
from bertkit.text.train import train
from bertkit.train import (
    Asked,
    CompareWatcher,
    Comparing,
    Comparison,
    Corpora,
    FineTuning,
    Job,
    Pretraining,
    Recipe,
    Signals,
    ablation,
    byte_lengths,
    bytes_per_token,
    contestants_of,
    cut,
    do_in_child,
    entries,
    held_out,
    options,
    peak_memory,
    plan_lines,
    task_of,
    tasks_of,
)
from bertkit.train.comparing.plan import plan
from corpora import RECIPE, lines_of
from runs import OF_A_RUN, make_run


def masks(recipe: Recipe) -> Masking:
    (options,) = (each.options for each in recipe.objectives if each.name == "mlm")
    return options


def about_pairs(recipe: Recipe) -> bool:
    return "nsp" in [each.name for each in recipe.objectives]


def asked(models: str = "bert-tiny", **more: Any) -> Asked:
    return Asked(**{"inputs": ("text.jsonl",), "contestants": tuple(contestants_of(models)), "steps": 5, **more})


def test_options_change_the_recipe_as_those_of_pretrain_do():
    (one,) = contestants_of("bert-tiny:mask=word:no-nsp:mask-shares=100/0/0:learning-rate=1e-3:batch=4")
    recipe = asked(one.name).recipe_of(one)
    assert (masks(recipe).unit, masks(recipe).masked, masks(recipe).random) == ("word", 1.0, 0.0)
    assert (about_pairs(recipe), recipe.optimizer.learning_rate, recipe.stages[0].batch) == (False, 1e-3, 4)
    (static,) = contestants_of("bert-tiny:no-nsp:mask-copies=10:across-documents")
    recipe = asked(static.name).recipe_of(static)
    assert (masks(recipe).copies, recipe.across) == (10, True)
    assert asked(one.name, change={"batch": 16}).recipe_of(one).stages[0].batch == 4, "its own option counts"


def test_every_option_is_one_of_pretrain_or_of_finetune():
    assert options().keys() - spellings(Pretraining).keys() == {"lstm"}
    assert "lstm" in spellings(FineTuning)


@pytest.mark.parametrize(
    ("models", "what"),
    [
        ("brt-mini", "Did you mean 'bert-mini'?"),
        ("bert-tiny:no-nps", "Did you mean 'no-nsp'?"),
        ("bert-tiny:no-nsp=1", "It is said as no-nsp"),
        ("bert-tiny:mask", "It is said as mask=VALUE"),
        ("bert-tiny:batch=many", "`batch` is 'many'. It must be a whole number"),
        ("bert-tiny:batch=0", "`batch` is 0"),
        ("bert-tiny:mask=wrd", "bert-tiny:mask=wrd: masking by 'wrd'. Did you mean 'word'?"),
        ("bert-tiny:no-nsp:no-nsp", "no-nsp is there twice"),
        ("bert-tiny,bert-mini,bert-tiny", "bert-tiny takes part twice"),
        ("bert-tiny:no-nsp:mask=word,bert-tiny:mask=word:no-nsp", "takes part twice"),
        ("bert-tiny:dropout=0.1,bert-tiny:dropout=0.10", "dropout=0.10 takes part twice, as bert-tiny:dropout=0.1 too"),
        ("bert-tiny:mask-shares=80/10/10:batch=8,bert-tiny:batch=08:mask-shares=80.0/10/10", "takes part twice"),
        ("bert-tiny:left-to-right", "a left-to-right model cannot tell next sentences"),
        ("roberta-tiny:left-to-right:no-nsp", "It is for bert and gpt and gpt2"),
        ("electra-tiny:mask-shares=100/0/0", "whose generator fills all of it"),
        ("bert-tiny:generator-size=0.5", "It is for electra"),
        ("bert-tiny:length=1024", "sequences of 1024 tokens, and the model has 512 positions"),
        ("bert-tiny:dropout=5", "bert-tiny:dropout=5: `dropout` is 5.0. It must be a number from 0 to 0.9"),
        ("bert-tiny:dropout=nan", "`dropout` is nan"),
        ("bert-tiny:dropout=-0.1", "`dropout` is -0.1"),
        ("bert-tiny:recipe=slow", "no recipe is called 'slow'"),
    ],
)
def test_wrong_contestants_are_refused_at_once(models: str, what: str):
    with pytest.raises(UsageError) as refused:
        asked(models)
    assert what in str(refused.value)


@pytest.mark.parametrize(
    ("more", "what"),
    [
        ({"inputs": ("-",)}, "stdin is read once"),
        ({"steps": None, "hours": 0.0}, "Give more than 0"),
        ({"vocab_size": 3}, "vocab_size is 3"),
        ({"max_length": 1000}, "examples of 1000 tokens"),
    ],
)
def test_what_cannot_be_compared_so_is_refused(more: dict[str, Any], what: str):
    with pytest.raises(UsageError, match=what):
        asked(**more)


def test_the_ablation_is_that_of_the_paper_and_pretrains_four_times_for_five():
    five = ablation("bert-tiny")
    assert [each.title.split(",")[0] for each in five[:2]] == ["full BERT", "no NSP"]
    settings = Asked(inputs=("text",), contestants=tuple(five), steps=5)
    recipes = [settings.recipe_of(each) for each in five]
    assert [about_pairs(recipe) for recipe in recipes] == [True, False, False, False, True]
    assert [recipe.causal for recipe in recipes] == [False, False, True, True, False]
    hidden = [masks(recipe).masked for recipe in recipes if not recipe.causal]
    assert hidden == [0.8, 0.8, 1.0]
    assert [each.lstm for each in five] == [0, 0, 0, PRESETS["bert-tiny"]().hidden_size, 0]
    assert five[2].run == five[3].run
    assert len(settings.runs) == 4


@pytest.mark.parametrize("model", ["albert-tiny", "bert-mini:no-nsp"])
def test_an_ablation_of_another_family_or_with_options_is_refused(model: str):
    with pytest.raises(UsageError, match=f"an ablation of {model}. It is BERT's: `model=bert-mini"):
        ablation(model)


def test_random_weights_take_part_once_for_each_shape():
    rows = entries(asked("bert-tiny,bert-tiny:no-nsp,albert-tiny,bert-tiny:lstm=8", with_random=True))
    assert [row.called for row in rows if row.random] == [
        "bert-tiny, random weights",
        "albert-tiny, random weights",
        "bert-tiny:lstm=8, random weights",
    ]
    assert len({row.file for row in rows}) == len(rows)


def test_case_is_kept_for_all_if_one_of_them_must_keep_it():
    assert not asked("bert-tiny,albert-tiny").keeps_case
    assert asked("bert-tiny,roberta-tiny").keeps_case
    assert asked("bert-tiny", cased=True).keeps_case
    assert [family.name for family in asked("bert-tiny,electra-tiny,roberta-tiny").families] == ["bert", "roberta"]


def test_tasks_are_named_by_their_folder_or_by_the_user(tmp_path: Path):
    for name in ("sst2/train.tsv", "sst2/dev.tsv", "reviews.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("text,label\na,b\n")
    both = task_of(f"classify:{tmp_path}/sst2/train.tsv:{tmp_path}/sst2/dev.tsv")
    assert (both.name, both.task, both.dev) == ("sst2", "classify", f"{tmp_path}/sst2/dev.tsv")
    one = task_of(f"mine=regress:{tmp_path}/reviews.csv:text=review:score=stars")
    assert (one.name, one.dev, dict(one.said)) == ("mine", None, {"text": "review", "score": "stars"})
    assert task_of(f"classify:{tmp_path}/reviews.csv").name == "reviews"
    for text, what in (
        ("clasify:a.tsv", "Did you mean 'classify'?"),
        ("classify", "names 0 files"),
        (f"classify:{tmp_path}/missing.tsv", "there is no file"),
        (f"classify:{tmp_path}/reviews.csv:txt=a", "Did you mean 'text'?"),
        (f"classify:{tmp_path}/reviews.csv:delimiter=colons", "the delimiter is 'colons'"),
        (f"classify:{tmp_path}/reviews.csv:first-ending=1", "It is for choice"),
        (f"choice:{tmp_path}/reviews.csv:first-ending=2", "from 0 to 1"),
    ):
        with pytest.raises((UsageError, InputError)) as refused:
            task_of(text)
        assert what in str(refused.value)
    with pytest.raises(UsageError, match="two tasks are called reviews"):
        tasks_of([f"classify:{tmp_path}/reviews.csv"] * 2)


def test_a_task_may_say_how_its_file_is_read(tmp_path: Path):
    semicolons, endings = tmp_path / "reviews.csv", tmp_path / "endings.csv"
    semicolons.write_text("text;label\n" + "Well, fine, good;yes\nWell, no, bad;no\n" * 10)
    rows = [f"it rains {number},a,b,c,{1 + number % 2}\n" for number in range(20)]
    endings.write_text("premise,ending1,ending2,ending3,label\n" + "".join(rows))
    found = task_of(f"classify:{semicolons}:delimiter=semicolon").examples(32, [])
    assert {example.text for example in found.train} == {"Well, fine, good", "Well, no, bad"}
    assert task_of(f"choice:{endings}:first-ending=1").examples(32, []).task.first == 1
    assert task_of(f"choice:{endings}").examples(32, []).task.first == 0


def test_each_seed_draws_its_own_examples_and_the_same_for_all():
    assert cut(10, None, 0) == list(range(10)) == cut(10, 20, 3)
    assert cut(1000, 50, 0) == cut(1000, 50, 0)
    assert len(set(cut(1000, 50, 0))) == 50
    assert cut(1000, 50, 0) != cut(1000, 50, 1)


def test_tokens_of_all_kinds_stand_for_the_same_bytes(english: list[str]):
    """Known by text that has no unknown characters: the bytes of its tokens are its bytes, spaces left out."""
    text = "The compound statements, naïve or not: 1+1 == 2"
    wanted = len("".join(text.split()).encode())
    for family in ("bert", "roberta", "albert", "gpt", "gpt2"):
        lowercase = False if family in ("bert", "albert") else None
        sample = draw_sample([*english[:400], *[text] * 20], hold_out=False)
        tokenizer = train(sample, vocabulary(family, vocab_size=1500, lowercase=lowercase)).tokenizer
        ids = tokenizer.encode(text).ids
        accent = family == "gpt"  # which folds it away, and its byte with it
        assert byte_lengths(tokenizer)[ids].sum() == wanted - accent, family


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory, english: list[str], tokenizer: Tokenizer) -> CorpusFolder:
    place = tmp_path_factory.mktemp("comparing")
    text = lines_of(["\n".join(english[i : i + 9]) for i in range(0, 900, 9)], place / "text.jsonl")
    return prepare([text], tokenizer, place / "shards", RECIPE)


def test_the_yardstick_is_the_cost_of_hidden_words_for_each_byte(corpus: CorpusFolder, tmp_path: Path):
    config = bert_tiny(vocab_size=corpus.tokenizer.vocab_size)
    model = Bert(config, nsp=False)
    torch.nn.init.zeros_(model.encoder.embeddings.word.weight)  # every word is equally likely then
    save_model(tmp_path / "run" / "model", model, corpus.tokenizer, provenance={})
    found = held_out(tmp_path / "run", corpus, length=64, device=torch.device("cpu"))
    tokens, size = found["tokens"], found["bytes"]
    assert found["bits_per_byte"] == pytest.approx(math.log2(config.vocab_size) * tokens / size, rel=1e-4)
    assert size / tokens == pytest.approx(bytes_per_token(corpus), rel=0.1)
    assert found["asked_for"] == "hidden words"
    one_way = Bert(bert_tiny(vocab_size=corpus.tokenizer.vocab_size, causal=True), nsp=False)
    save_model(tmp_path / "left" / "model", one_way, corpus.tokenizer, provenance={})
    every = held_out(tmp_path / "left", corpus, length=64, device=torch.device("cpu"))
    assert every["asked_for"] == "every next token"
    assert every["tokens"] > 5 * tokens


def test_a_corpus_of_another_tokenizer_and_other_files_in_the_way_are_told(corpus: CorpusFolder, tmp_path: Path):
    machine = device.choose("cpu", threads=1)

    def comparison(out: Path = tmp_path / "out", models: str = "bert-tiny", **more: Any) -> Comparison:
        settings = asked(models, **{"inputs": (str(corpus.path),), **more})
        return Comparison(settings, out, machine, CompareWatcher())

    with pytest.raises(UsageError, match="roberta-tiny reads RoBERTa's bpe tokens, and there is none but for bert"):
        comparison(models="bert-tiny,roberta-tiny")
    with pytest.raises(UsageError, match="are both for BERT"):
        comparison(inputs=(str(corpus.path), str(corpus.path)))
    with pytest.raises(UsageError, match="Leave it out: each corpus has"):
        comparison(tokenizers=(str(corpus.path / "tokenizer"),))
    with pytest.raises(UsageError, match="is a prepared corpus, and"):
        comparison(inputs=(str(corpus.path), __file__))
    with pytest.raises(UsageError, match="albert-tiny reads ALBERT's unigram tokens"):
        comparison(models="albert-tiny", inputs=(__file__,), tokenizers=(str(corpus.path / "tokenizer"),))
    with pytest.raises(UsageError, match=r"there is one for BERT already\. Give one for each kind"):
        comparison(inputs=(__file__,), tokenizers=(str(corpus.path / "tokenizer"),) * 2)
    with pytest.raises(BertkitError, match="nowhere"):
        comparison(inputs=(str(tmp_path / "nowhere.jsonl"),))
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "thesis.txt").write_text("mine")
    with pytest.raises(WriteError, match="holds other files, which are not touched"):
        comparison(out=tmp_path / "taken")
    there = comparison()
    there.out.mkdir()
    before = there.asked.shared() | {"vocab_size": 1000}
    (there.out / "asked.json").write_text(json.dumps(before))  # with an option that changed nothing
    comparison(models="bert-tiny,bert-mini")
    with pytest.raises(WriteError, match="holds another comparison: its steps is 5, and here it is 6"):
        comparison(steps=6)


def test_text_that_was_touched_is_told_with_a_way_out_that_there_is(
    corpus: CorpusFolder, tmp_path: Path, english: list[str]
):
    text = tmp_path / "text.jsonl"
    lines_of(["\n".join(english[i : i + 9]) for i in range(0, 900, 9)], text)
    settings = asked(inputs=(str(text),), tokenizers=(str(corpus.path / "tokenizer"),), validation=0.1)
    corpora = Corpora(settings, tmp_path / "out", lambda _: None)
    corpora.make(Progress())
    corpora.make(Progress())
    os.utime(text, (1, 1))
    with pytest.raises(
        WriteError, match=r"other text or with other settings: .* touched .* Choose another `out`"
    ) as told:
        corpora.make(Progress())
    assert "`overwrite=True`" not in str(told.value)


def test_a_tokenizer_that_no_contestant_reads_is_told(corpus: CorpusFolder, tmp_path: Path, english: list[str]):
    sample = draw_sample(english[:200], hold_out=False)
    (tmp_path / "other").mkdir()
    train(sample, vocabulary("roberta", vocab_size=500)).tokenizer.save(tmp_path / "other")
    folders = (str(corpus.path / "tokenizer"), str(tmp_path / "other"))
    said: list[str] = []
    Corpora(asked(inputs=(__file__,), tokenizers=folders), tmp_path / "out", said.append)
    assert said == [f"no contestant reads tokens of {tmp_path / 'other'}, which is for RoBERTa"]
    said.clear()
    Corpora(asked("bert-tiny,roberta-tiny", inputs=(__file__,), tokenizers=folders), tmp_path / "out", said.append)
    assert said == []


@pytest.mark.parametrize(
    ("name", "value"),
    [("vocab_size", 1000), ("cased", True), ("field", "body"), ("file_format", "csv"), ("validation", 0.1)],
)
def test_options_that_would_change_nothing_are_refused(corpus: CorpusFolder, tmp_path: Path, name: str, value: object):
    def compare(*inputs: str, **more: Any) -> None:
        said = {"out": tmp_path / "out", "models": "bert-tiny", "steps": 5, name: value}
        compare_command(Comparing.of(inputs=inputs, **said, **more))

    with pytest.raises(UsageError, match=f"`{name}` with a corpus that is prepared"):
        compare(str(corpus.path))
    if name in ("vocab_size", "cased"):
        with pytest.raises(UsageError, match=r"with `tokenizer`\. Leave it out"):
            compare(__file__, tokenizer=[str(corpus.path / "tokenizer")])
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("split", ["train", "validation"])
def test_a_corpus_without_text_to_learn_from_or_to_hold_out_is_refused(
    corpus: CorpusFolder, tmp_path: Path, split: str
):
    shutil.copytree(corpus.path, tmp_path / "shards")
    manifest = read_sealed(tmp_path / "shards" / "corpus.json", CorpusError)
    manifest["shards"] = [entry for entry in manifest["shards"] if entry["split"] != split]
    manifest["files"] = {name: sha for name, sha in manifest["files"].items() if not name.startswith(f"{split}-")}
    write_sealed(tmp_path / "shards" / "corpus.json", manifest)
    settings = asked(inputs=(str(tmp_path / "shards"),))
    with pytest.raises(CorpusError, match=f"has no {split} split. Prepare it again"):
        Comparison(settings, tmp_path / "out", device.choose("cpu", threads=1), CompareWatcher())


def test_a_plan_says_what_is_left_and_writes_nothing(corpus: CorpusFolder, tmp_path: Path):
    (tmp_path / "rows.tsv").write_text("text\tlabel\n" + "".join(f"word {n}\t{n % 2}\n" for n in range(40)))
    settings = asked(
        "bert-tiny,bert-tiny:no-nsp:lstm=4",
        inputs=(str(corpus.path),),
        tasks=tuple(tasks_of([f"classify:{tmp_path}/rows.tsv"])),
        seeds=2,
    )
    parts = plan(Comparison(settings, tmp_path / "out", device.choose("cpu", threads=1), CompareWatcher()))
    assert list(parts["pretraining"]) == ["bert-tiny", "bert-tiny:no-nsp"]
    assert list(parts["fine_tuning"]) == ["bert-tiny: rows", "bert-tiny:lstm=4:no-nsp: rows"]
    assert all(seconds > 0 for seconds in [*parts["pretraining"].values(), *parts["fine_tuning"].values()])
    assert plan_lines(parts)[-1].startswith("in all about")
    assert not (tmp_path / "out").exists()


def test_a_job_says_the_same_after_a_way_through_json(tmp_path: Path):
    settings = asked("electra-tiny:generator-size=0.5", change={"batch": 4})
    job = Job(request=settings.request(settings.contestants[0], tmp_path), run=tmp_path / "runs" / "a", length=64)
    again = Job.from_json(json.loads(json.dumps(job.to_json())))
    assert again == job
    assert not again.finished


def test_memory_is_what_this_process_held_at_most():
    before = peak_memory()
    held = np.ones(2**27, np.uint8)  # 128 MB
    assert peak_memory() >= before
    assert peak_memory() >= 2**27
    del held
    assert peak_memory() >= 2**27, "the most, not what it is now"


def test_a_difference_counts_only_beyond_both_spreads():
    assert standing([], [0.5]) is None
    assert standing([0.7], [0.5, 0.6]).beyond is None  # type: ignore[union-attr]
    clear, near = standing([0.80, 0.82], [0.70, 0.72]), standing([0.70, 0.80], [0.70, 0.72])
    assert clear is not None
    assert near is not None
    assert (clear.beyond, near.beyond) == (True, False)
    assert clear.shown() == "0.8100 ± 0.0141 ▲"
    assert near.shown() == "0.7500 ± 0.0707"


def facts_of(out: Path) -> dict[str, Any]:
    """A comparison as it is written down, with runs that were never trained."""
    rows = []
    for title, model, asked_for, scores in (
        ("bert-mini", "bert-mini", "hidden words", [0.80, 0.81, 0.82]),
        ("one | way $x_1$", "bert-mini", "every next token", [0.70, 0.71, 0.69]),
        ("electra-mini", "electra-mini", "hidden words, by its generator", [0.80, 0.84, 0.79]),
        ("silent", "bert-mini", "", [0.9, 0.91]),
    ):
        run = make_run(out / "runs" / str(len(rows)), nsp=False)
        pretraining = {
            **OF_A_RUN,
            "parameters": 11_200_000,
            "steps": 2000,
            "tokens": 7_900_000,
            "seconds": 820.0 + len(rows),
            "held_out": {"bits_per_byte": 1.9, "asked_for": asked_for} if asked_for else {},
        }
        kept = {"scores": scores, "interval": [0.78, 0.84]}
        row = {"name": title, "title": title, "model": model, "options": {}, "random": False, "corpus": "bert"}
        rows.append({**row, "run": f"runs/{run.name}", "pretraining": pretraining, "scores": {"sst2": kept}})
    rows.append({**rows[0], "title": "bert-mini, random weights", "random": True, "scores": {}})
    del rows[-1]["pretraining"]
    failed = {name: rows[0][name] for name in ("name", "model", "options", "random", "run", "corpus")}
    rows.append({**failed, "title": "broken", "problem": "the loss was not finite"})
    kept_text = {"train": {"tokens": 1_000_000}, "validation": {"tokens": 10_000}}
    return {
        "name": "a <b> comparison",
        "asked": asked().shared() | {"cased": True},
        "seeds": 3,
        "machine": {"device": "cpu", "cpu": "a processor", "threads": 2},
        "versions": {"bertkit": "1"},
        "corpora": {"bert": {"kind": "wordpiece", "vocabulary": 30_000, "kept": kept_text, "bytes_per_token": 4.0}},
        "tasks": [
            {"name": "sst2", "task": "classify", "metric": "accuracy", "examples": {"train": 900, "dev": 872}},
        ],
        "contestants": rows,
        "notes": ["sst2: text is 'sentence'"],
    }


def test_the_table_marks_what_does_not_compare(tmp_path: Path):
    facts = facts_of(tmp_path)
    cells = {row[0]: row for row in cells_of(facts)}
    assert cells["bert-mini"][1:] == ["11.2M", "9,600", "700 MB", "2,000 x 32", "7.9M", "1.900", "0.8100 ± 0.0100"]
    assert cells["one | way $x_1$"][6:] == ["1.900 ²", "0.7000 ± 0.0100 ▼"]
    assert cells["electra-mini"][6:] == ["1.900 ¹", "0.8100 ± 0.0265"]
    assert cells["silent"][6:] == ["–", "0.9050 ± 0.0071 ▲"]
    assert cells["broken"][1] == "failed"
    said = "\n".join(remarks(facts))
    for part in ("the generator", "another measure", "not the same time", "872 examples", "± 0.030"):
        assert part in said
    assert bits_per_byte(facts["contestants"][4]) is None
    records = results(facts)
    assert records[1]["sst2"]["difference"] == pytest.approx(-0.11)
    assert records[5]["problem"] == "the loss was not finite"


def test_bits_per_byte_measured_at_another_length_are_marked(tmp_path: Path):
    facts = facts_of(tmp_path)
    for row, length in zip(facts["contestants"], (128, 64, 128), strict=False):
        row["pretraining"]["held_out"]["length"] = length
    assert [cells[6] for cells in cells_of(facts)][:4] == ["1.900", "1.900 ² ³", "1.900 ¹", "–"]
    assert "³ Measured in sequences of 64 tokens, the others in such of 128" in "\n".join(remarks(facts))
    assert [record.get("held_out_length") for record in results(facts)[:4]] == [128, 64, 128, None]
    facts["contestants"][1]["pretraining"]["held_out"]["length"] = 128
    assert "³" not in "\n".join([*remarks(facts), *(cells[6] for cells in cells_of(facts))])


def test_the_pages_are_whole_and_nothing_in_them_is_markup_of_the_user(tmp_path: Path):
    facts = facts_of(tmp_path)
    write_comparison(facts, tmp_path)
    text, page = (tmp_path / "comparison.md").read_text(), (tmp_path / "comparison.html").read_text()
    assert "| one \\| way $x_1$ | 11.2M |" in text
    assert "broken failed: the loss was not finite" in text
    assert "+0.0000" in text
    assert "a &lt;b&gt; comparison" in page
    assert "<b>" not in page
    assert page.count("<svg") == 3, "two curves and a task"
    assert "http" not in page.replace("http://www.w3.org", "").replace("http-equiv", "")
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("what_it_does", "told"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "ended by signal 9"),
        ("1 / 0", "its process ended with 1, for a reason that it printed above"),
        ("print('[]'); raise SystemExit(7)", "its process ended with 7"),
    ],
)
def test_a_pretraining_whose_process_is_killed_or_breaks_is_told_as_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what_it_does: str, told: str
):
    settings = asked()
    job = Job(request=settings.request(settings.contestants[0], tmp_path), run=tmp_path / "runs" / "a", length=64)
    long = {"batch": 8, "of no use": "x" * 2**20}  # more than a pipe holds, and nobody reads it
    job = replace(job, request=replace(job.request, change=long))
    ending = (sys.executable, "-c", what_it_does)
    monkeypatch.setattr("bertkit.train.comparing.children.COMMAND", ending)
    with Signals() as signals, pytest.raises(TrainingError, match=told):
        do_in_child(job, device.choose("cpu", threads=1), signals)
