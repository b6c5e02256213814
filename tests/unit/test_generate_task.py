"""Learning to write one text from another: what is read, what is refused, and that it learns."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch

import bertkit
from bertkit.errors import BertkitError, InputError, UsageError
from bertkit.families import PRESETS, vocabulary
from bertkit.hub import ModelFolder, save_model
from bertkit.nn import Bert
from bertkit.tasks import Generate, PairToWrite, corpus_scores
from bertkit.text import draw_sample
from bertkit.text.train import train

COLOURS, BEASTS, DEEDS = (
    "red green blue grey".split(),
    "dog cat cow bird fish".split(),
    "runs sleeps eats sings".split(),
)
ROWS = [
    {"text": f"The {a} {b} {c} in the garden.", "target": f"{b} {c}, {a}"}
    for a, b, c in product(COLOURS, BEASTS, DEEDS)
]
DEV = ROWS[::7]
TRAIN = [row for row in ROWS if row not in DEV]


def lines(path: Path, rows: Any) -> Path:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> tuple[Path, Path]:
    place = tmp_path_factory.mktemp("rows")
    return lines(place / "train.jsonl", TRAIN), lines(place / "dev.jsonl", DEV)


@pytest.fixture(scope="module")
def learned(files, tmp_path_factory) -> dict[str, Any]:
    """A Transformer from nothing, with vocabularies of its own."""
    train_file, dev_file = files
    out = tmp_path_factory.mktemp("learned") / "writer"
    how = {"from_scratch": True, "model": "transformer-tiny", "vocab_size": 400, "epochs": 25, "threads": 1}
    return bertkit.finetune("generate", train_file, dev=str(dev_file), out=out, quiet=True, batch=16, **how)


def test_it_learns_what_it_has_not_seen(learned):
    assert learned["metrics"]["rougeL"] > 0.9
    assert learned["metrics"]["perplexity"] < 1.5
    assert max(learned["baselines"].values()) < learned["metrics"]["rougeL"]
    low, high = learned["interval"]["rougeL"]
    assert 0 <= low <= high <= 1


def test_it_is_asked_in_python_alone_or_together(learned):
    writer = bertkit.load(learned["model"], threads=1)
    answers = writer([row["text"] for row in DEV])
    assert sum(each["text"] == row["target"] for each, row in zip(answers, DEV, strict=True)) > 0.8 * len(DEV)
    assert writer(DEV[0]["text"]) == answers[0]
    assert len({each["text"] for each in answers}) > 10
    assert "".join(piece.text for piece in writer.pieces(DEV[0]["text"])) == answers[0]["text"]


def test_how_it_writes_can_be_said(learned):
    several = bertkit.load(learned["model"], threads=1, beams=3, best=3)(DEV[0]["text"])
    scores = [each["score"] for each in several["texts"]]
    assert several["text"] == several["texts"][0]["text"]
    assert scores == sorted(scores, reverse=True)
    short = bertkit.load(learned["model"], threads=1, most=2)(DEV[0]["text"])
    assert short["ended"] == "length"
    with pytest.raises(BertkitError, match="tells at most as many texts as beams"):
        bertkit.load(learned["model"], best=2)


def test_the_picture_of_where_it_looked_has_a_row_for_each_word(learned):
    found = bertkit.load(learned["model"], threads=1).looked(DEV[0]["text"])
    assert found.map.shape == (len(found.written), len(found.read))
    torch.testing.assert_close(torch.tensor(found.map).sum(1), torch.ones(len(found.written)))
    assert found.text == bertkit.load(learned["model"], threads=1)(DEV[0]["text"])["text"]


def test_measured_again_it_is_as_good(learned, files):
    again = bertkit.evaluate(learned["model"], files[1], quiet=True, threads=1)["metrics"]
    assert again == pytest.approx(learned["metrics"])


@pytest.fixture(scope="module")
def starts(tiny, tokenizer, english, tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("starts")
    save_model(place / "bert", tiny, tokenizer)
    pieces = train(draw_sample(english, hold_out=False), vocabulary("gpt2", vocab_size=400)).tokenizer
    sizes = {"vocab_size": pieces.vocab_size, "max_position_embeddings": 128}
    save_model(place / "gpt", Bert(PRESETS["gpt2-tiny"](**sizes), pooler=False, nsp=False), pieces)
    return place


WAYS = {
    "two": ("bert", {}, "EncoderDecoderModel"),
    "shared": ("bert", {"share": True}, "EncoderDecoderModel"),
    "one, hidden words": ("bert", {"way": "one"}, "BertForMaskedLM"),
    "one, next words": ("bert", {"way": "one", "asks": "next"}, "BertForMaskedLM"),
    "on": ("gpt", {}, "GPT2LMHeadModel"),
}


@pytest.mark.parametrize("way", WAYS)
def test_every_way_learns_is_kept_and_goes_on_from_there(way, starts, files, tmp_path):
    """Its loss falls; the folder opens for the same texts, is of a class of transformers, and can be trained on."""
    start, more, architecture = WAYS[way]
    how = {"dev": str(files[1]), "quiet": True, "threads": 1, "batch": 16, "epochs": 3, "learning_rate": 1e-3}
    if start == "gpt":
        how["language_weight"] = 0.0
    done = bertkit.finetune("generate", files[0], start=starts / start, out=tmp_path / "w", **how, **more)
    report = (tmp_path / "w" / "report.html").read_text(encoding="utf-8")
    assert "the most similar example" in report
    folder = ModelFolder(tmp_path / "w")
    assert folder.architecture == architecture
    writer = bertkit.load(tmp_path / "w", threads=1)
    assert writer.scorer.task.metrics(
        [PairToWrite(str(n), row["text"], (row["target"],)) for n, row in enumerate(DEV)],
        writer([row["text"] for row in DEV]),
    )["chrf"] == pytest.approx(done["metrics"]["chrf"])
    if way == "two":
        again = bertkit.finetune("generate", files[0], start=tmp_path / "w", out=tmp_path / "w2", **how)
        assert again["metrics"]["loss"] < done["metrics"]["loss"]


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        ([{"text": "a b", "target": ""}], "line 1: the target is empty"),
        ([{"text": " ", "target": "a"}], "line 1: the text is empty"),
        ([{"text": "a", "target": "b"}, {"text": "a", "target": None}], "line 2"),
        ([{"text": "a", "target": 3}], "line 1: the target is 3, not text"),
        ([{"text": "a", "target": "a"}] * 3, "both texts are the same, and so in every row"),
        ([{"one": "a", "two": "b"}], "no column is plainly the text"),
    ],
)
def test_rows_that_are_wrong_are_refused_with_their_place(rows, problem, starts, tmp_path):
    path = lines(tmp_path / "rows.jsonl", rows)
    with pytest.raises(InputError, match=problem):
        bertkit.finetune("generate", path, start=starts / "bert", out=tmp_path / "w", quiet=True)
    assert not (tmp_path / "w").exists()


def test_a_target_that_is_too_long_to_write_is_refused(starts, tmp_path):
    rows = [*TRAIN[:20], {"text": "a", "target": "word " * 700}]
    with pytest.raises(InputError, match=r"line 21: the target has 7.. tokens, and .* can be written"):
        bertkit.finetune(
            "generate", lines(tmp_path / "r.jsonl", rows), start=starts / "bert", out=tmp_path / "w", quiet=True
        )


def begun(rows, **options):
    examples = [Generate.read(row, f"line {n}") for n, row in enumerate(rows, 1)]
    return Generate.begin(examples, Generate.options(**options), 64)


def test_what_is_odd_is_told():
    swapped = [{"text": row["target"], "target": row["text"] + " And so on, and so on."} for row in TRAIN]
    assert any("the columns are swapped" in note for note in begun(swapped).notes)
    assert not begun(TRAIN).notes
    same = [{"text": "a", "target": "a"}, *TRAIN]
    assert any("in 1 of" in note and "both texts are the same, first in line 1" in note for note in begun(same).notes)


def test_the_metric_is_by_what_is_written():
    assert begun([{"text": "一 二 三", "target": "很长的一句话"}] * 2).task.measure.main == "bleu"
    assert begun([{"text": "a long text " * 9, "target": "short"}] * 2).task.measure.main == "rougeL"
    assert begun(TRAIN, metric="chrf").task.measure.main == "chrf"


def test_several_references_are_learned_from_and_the_best_counts():
    row = {"text": ["First sentence.", "Second one."], "target": ["one way", "another way"]}
    example = Generate.read(row, "here")
    assert example.text == "First sentence. Second one."
    assert example.targets == ("one way", "another way")
    scores = corpus_scores(["another way", "x"], [("one way", "another way"), ("y",)])
    assert scores["rougeL"] == 0.5
    assert corpus_scores(["我喜欢茶"], [("我喜欢茶", "我爱茶")])["rougeL"] == 1
    assert corpus_scores(["我喜欢喝茶"], [("我喜欢喝茶",)])["bleu"] == 1


@pytest.mark.parametrize(
    ("start", "options", "problem"),
    [
        ("gpt", {"way": "one"}, "It writes as it is"),
        ("gpt", {"share": True}, "It writes as it is"),
        ("bert", {"way": "one", "share": True}, "`share` or `decoder` for one model"),
        ("bert", {"decoder": "gpt"}, "cannot be a decoder here"),
        ("bert", {"model": "transformer-tiny"}, "It is for `from_scratch=True` without `start`"),
        ("bert", {"way": "three"}, "way"),
    ],
)
def test_what_does_not_go_together_is_refused(start, options, problem, starts, files, tmp_path):
    if "decoder" in options:
        options = {"decoder": str(starts / options["decoder"])}
    with pytest.raises(UsageError, match=problem):
        bertkit.finetune("generate", files[0], start=starts / start, out=tmp_path / "w", quiet=True, **options)


def test_long_texts_are_read_by_their_beginning_or_in_windows(learned):
    text = " ".join(row["text"] for row in TRAIN[:60])
    head = bertkit.load(learned["model"], threads=1)(text)
    assert head["cut"]
    parts = bertkit.load(learned["model"], threads=1, long="windows")(text)
    assert "cut" not in parts
    assert len(parts["text"]) > len(head["text"])
    with pytest.raises(InputError, match="Choose what to do with long texts"):
        bertkit.load(learned["model"], threads=1, long="error")(text)


def test_a_decoder_may_have_another_vocabulary(starts, files, english, tmp_path):
    """What is written is then of its tokenizer, which the folder has beside the other, and which learning on keeps."""
    pieces = train(draw_sample(english, hold_out=False), vocabulary("roberta", vocab_size=500)).tokenizer
    sizes = {"vocab_size": pieces.vocab_size, "hidden_size": 64, "num_attention_heads": 2, "intermediate_size": 128}
    save_model(tmp_path / "roberta", Bert(PRESETS["roberta-tiny"](**sizes), pooler=False, nsp=False), pieces)
    how = {"dev": str(files[1]), "quiet": True, "threads": 1, "epochs": 2, "learning_rate": 1e-3}
    start, decoder = starts / "bert", str(tmp_path / "roberta")
    done = bertkit.finetune("generate", files[0], start=start, decoder=decoder, out=tmp_path / "w", **how)
    writer = bertkit.load(tmp_path / "w", threads=1)
    assert writer.writer.tokenizer.kind == "bpe"
    assert writer.encoder.tokenizer.kind == "wordpiece"
    again = bertkit.finetune("generate", files[0], start=tmp_path / "w", out=tmp_path / "w2", **how)
    assert again["metrics"]["loss"] < done["metrics"]["loss"]
    assert (tmp_path / "w2" / "decoder" / "vocab.json").exists()
