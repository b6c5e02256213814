"""Language models of LSTMs through the commands: the task's own text first, features and a context beside a tagger,
senses side by side, and the line of all models."""

from __future__ import annotations

import json
from pathlib import Path
from pydoc_data.topics import topics

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import bertkit
from bertkit.errors import InputError, UsageError, WriteError
from bertkit.infer import Pair, Place, places_of, read_pairs, senses_told, vectors_of
from bertkit.train import Comparing, FineTuning, line
from commands import bertkit_command

SHORT = {"steps": 6, "batch": 8, "length": 16, "validate_every": 3, "validation_samples": 16, "threads": 1}


@pytest.fixture(scope="module")
def elmo(tmp_path_factory, shards):
    run = tmp_path_factory.mktemp("elmo") / "run"
    bertkit.pretrain(shards, model="elmo-tiny", out=run, quiet=True, **SHORT)
    return run / "model"


@pytest.fixture(scope="module")
def backwards(tmp_path_factory, shards):
    run = tmp_path_factory.mktemp("lstm") / "run"
    bertkit.pretrain(shards, model="awd-lstm-tiny", from_the_right=True, out=run, quiet=True, **SHORT)
    return run / "model"


@pytest.fixture(scope="module")
def rows(tmp_path_factory, english):
    path = tmp_path_factory.mktemp("rows") / "rows.csv"
    lines = [each.replace('"', "'") for each in english[:120]]
    path.write_text("text,label\n" + "".join(f'"{each}",{"yes" if "e a" in each else "no"}\n' for each in lines))
    return path


@pytest.fixture(scope="module")
def tagged(tmp_path_factory, english):
    path = tmp_path_factory.mktemp("tagged") / "tags.txt"
    words = [each.split()[:8] for each in english[:60]]
    path.write_text("\n\n".join("\n".join(f"{w} {'B-X' if w[0].isupper() else 'O'}" for w in s) for s in words))
    return path


def test_the_own_text_comes_first_and_is_kept(tmp_path, rows, backwards, english):
    more = tmp_path / "more.txt"
    more.write_text("\n".join(english[200:500]))
    out = tmp_path / "out"
    words = ("finetune", "classify", rows, "--from", backwards, "--also-on", more, "--gradual", "--epochs", 1)
    ended = bertkit_command(*words, "--threads", 1, "--out", out)
    assert ended.returncode == 0, ended.stderr
    place = tmp_path / "out.text"
    learned = [json.loads(each)["text"] for each in (place / "texts.jsonl").read_text().splitlines()]
    assert 90 < len(learned) < 120, "what is measured on is not among them"
    run = json.loads((place / "run" / "run.json").read_text())
    assert [each["name"] for each in run["objectives"]] == ["lm-right"]
    assert run["settings"]["model"]["backwards"] is True
    predicted = bertkit.load(out)("a text")
    assert set(predicted["probabilities"]) == {"yes", "no"}
    again = bertkit_command(*words, "--threads", 1, "--out", out)
    assert again.returncode == 3, "the model is there"
    assert "--overwrite" in again.stderr


def test_own_text_of_other_examples_is_not_taken(tmp_path, rows, tagged, backwards, english):
    more = tmp_path / "more.txt"
    more.write_text("\n".join(english[200:900]))
    (tmp_path / "out.text").mkdir()
    (tmp_path / "out.text" / "texts.jsonl").write_text('{"text": "another"}\n')
    with pytest.raises(WriteError, match="is that of other examples"):
        bertkit.finetune("classify", rows, start=backwards, also_on=(str(more),), out=tmp_path / "out", quiet=True)
    with pytest.raises(UsageError, match="random weights"):
        FineTuning.of(
            task="classify", train="a", start="b", out=tmp_path / "c", also_on=("d",), from_scratch=True
        ).request()


@pytest.mark.parametrize("at", ["below", "both"])
def test_features_say_which_layers_are_read(tmp_path, tagged, elmo, at):
    out = tmp_path / "out"
    scratch = {"from_scratch": at == "both"}
    how = {"freeze": True, "mix_layers": True, "mix_at": at, "mix_norm": True, "lstm": 8, "epochs": 1}
    bertkit.finetune("tag", tagged, start=elmo, out=out, quiet=True, crf=True, threads=1, **how, **scratch)
    assert "layers read: 0 " in (out / "report.html").read_text()
    kept, start = load_file(out / "model.safetensors"), load_file(elmo / "model.safetensors")
    same = all(torch.equal(kept[name], tensor) for name, tensor in start.items())
    assert same == (at == "below"), "what is frozen stays; or begins anew"
    assert ("mix_above.weights" in kept) == (at == "both")
    assert len(bertkit.load(out)("A word")["tags"]) == 2


def test_a_context_stands_beside_a_tagger_and_stays(tmp_path, tagged, elmo, backwards):
    """TagLM, with the same tokens on both sides."""
    out = tmp_path / "out"
    how = {"context_model": str(elmo), "lstm": 8, "crf": True, "epochs": 2, "threads": 1}
    bertkit.finetune("tag", tagged, start=backwards, out=out, quiet=True, **how)
    kept, its = load_file(out / "model.safetensors"), load_file(elmo / "model.safetensors")
    for name, tensor in its.items():
        assert torch.equal(kept[f"context.{name}"], tensor)
    said = bertkit.load(out)("What is said of it")
    moved = tmp_path / "moved"
    ended = bertkit_command("convert", out, moved)
    assert ended.returncode == 0, ended.stderr
    assert bertkit.load(moved)("What is said of it") == said
    with pytest.raises(UsageError, match="between the two layers"):
        bertkit.finetune("tag", tagged, start=backwards, out=tmp_path / "c", quiet=True, context_model=str(elmo))


def test_places_of_a_word():
    texts = ["He plays. A play by her.\nPlay it, and play on!", "我吃苹果。苹果公司很大。", "nothing"]
    assert [place.shown() for place in places_of("play", texts)] == ["A «play» by her.", "«Play» it, and play on!"]
    assert [place.shown() for place in places_of("苹果", texts)] == ["我吃«苹果»。", "«苹果»公司很大。"]
    assert places_of("absent", texts) == []


def test_a_vector_of_a_place_is_that_of_its_words(elmo):
    encoder = bertkit.load_encoder(elmo)
    text = "The module is closed."
    layers = vectors_of(encoder, [Place(text, 4, 10), Place(text, 14, 20)])
    assert len(layers) == 3
    (words,) = encoder.embed_words([text], layers="last")
    np.testing.assert_allclose(layers[-1], words.vectors[[1, 3]], atol=1e-6)


def test_senses_are_told_by_what_other_pairs_have_chosen(elmo):
    encoder = bertkit.load_encoder(elmo)
    same = Pair(Place("to close it", 3, 8), Place("to close it", 3, 8), same=True)
    other = Pair(Place("to close it", 3, 8), Place("it is near and close", 15, 20), same=False)
    facts = senses_told(encoder, [same, other], [same, other, other])
    assert facts["accuracy"] == facts["accuracy_where_chosen"] == 1.0
    assert facts["commonest"] == pytest.approx(2 / 3)
    with pytest.raises(InputError, match="line 3 is no pair of WiC"):
        read_pairs([("pairs.jsonl, line 3", {"sentence1": "a"})])


def test_senses_at_the_command_line(tmp_path, elmo, backwards, english):
    text = tmp_path / "text.txt"
    text.write_text("\n".join(english[:400]))
    page = tmp_path / "page.html"
    ended = bertkit_command("senses", f"{elmo},{backwards}", text, "class", "--shown", 2, "--near", 2, "-o", page)
    assert ended.returncode == 0, ended.stderr
    entries = [json.loads(line) for line in ended.stdout.splitlines()]
    assert len(entries) == 2
    for entry in entries:
        assert "«class»" in entry["text"].lower()
        assert [len(its) for its in entry["nearest"].values()] == [2, 2]
    assert "<script" not in page.read_text()
    for words, problem in ((("xyzzy",), "stands nowhere"), ((), "bertkit senses MODEL TEXTFILE WORD")):
        ended = bertkit_command("senses", elmo, text, *words)
        assert ended.returncode in (2, 3)
        assert problem in ended.stderr


def test_the_line_names_who_is_missing():
    found, said = line("bert-tiny")
    assert [each.title for each in found][-5:] == ["GPT", "BERT", "RoBERTa", "ALBERT", "ELECTRA"]
    assert [each.model for each in found if each.title in ("ELMo", "ULMFiT")] == ["elmo-tiny", "awd-lstm-tiny"]
    assert all("not among them" in each for each in said)
    with pytest.raises(UsageError, match="a lineage as large as bert-base"):
        line("bert-base")
    asked = Comparing.of(inputs=("lineage", "text.jsonl"), out=Path("out"), hours=7.0).asked()
    assert asked.inputs == ("text.jsonl",)
    assert asked.hours == pytest.approx(7.0 / len(asked.contestants))
    with pytest.raises(UsageError, match="bertkit compare lineage TEXT"):
        Comparing.of(inputs=("lineage",), out=Path("out"), hours=7.0)


def test_models_that_are_there_are_compared_as_they_are(tmp_path, shards, rows, elmo, backwards):
    names, tasks = f"{elmo},{backwards}:lstm=4", (f"own=classify:{rows}",)
    how = {"steps": 1, "seeds": 1, "epochs": 1, "task": tasks, "threads": 1, "quiet": True}
    facts = bertkit.compare(shards, models=names, out=tmp_path / "out", **how)
    assert [row["title"] for row in facts["contestants"]] == ["model", "model"]
    assert all(len(row["scores"]["own"]["scores"]) == 1 for row in facts["contestants"])
    assert not [row for row in facts["contestants"] if "pretraining" in row]
    with pytest.raises(UsageError, match="of a model that is there"):
        bertkit.compare(shards, models=f"{elmo}:no-nsp", out=tmp_path / "other", **how)
    with pytest.raises(InputError, match="holds no word vectors of the line"):
        line("bert-tiny", [str(elmo)])


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_line_as_a_page(tmp_path, rows):
    text, out = tmp_path / "text.jsonl", tmp_path / "out"
    text.write_text("".join(json.dumps({"text": each}) + "\n" for each in topics.values()))
    small = {"steps": 4, "batch": 8, "length": 32, "vocab_size": 2000, "validation": 0.1, "seeds": 1, "epochs": 1}
    tasks = (f"classify:{rows}",)
    bertkit.compare("lineage", text, model="bert-tiny", out=out, task=tasks, quiet=True, threads=1, **small)
    for name in ("lineage.html", "lineage.md", "lineage.png", "comparison.html"):
        assert (out / name).stat().st_size > 1000
    assert "## ELMo (2018)" in (out / "lineage.md").read_text()
