"""Word vectors from text to an answer, as commands, with what a user gets wrong."""

import json
import random

import numpy as np
import pytest

import bertkit
from bertkit.infer.scoring import Scorer
from commands import bertkit_command

WORDS = [f"{a}{b}" for a in "bcdfgh" for b in ("anu", "elo", "iri")]
GOOD, BAD = WORDS[:9], WORDS[9:]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Text in which good words stand beside good ones, and texts that are good or bad."""
    draw, place = random.Random(0), tmp_path_factory.mktemp("words")
    lines = [" ".join(draw.choices(draw.choice((GOOD, BAD)), k=12)) for _ in range(600)]
    (place / "text.txt").write_text("\n".join(lines))
    rows = [
        (" ".join(draw.choices(its, k=draw.randrange(1, 9))), name) for name, its in (("good", GOOD), ("bad", BAD)) * 60
    ]
    (place / "rows.csv").write_text("text,label\n" + "".join(f"{text},{label}\n" for text, label in rows))
    scores = "".join(f"{text},{float(label == 'good')}\n" for text, label in rows)
    (place / "scores.csv").write_text("text,score\n" + scores)
    tags = "".join("".join(f"{word}\tB-{label}\n" for word in text.split()) + "\n" for text, label in rows)
    (place / "tags.conll").write_text(tags)
    for method in ("skip-gram", "one-hot"):
        size = [] if method == "one-hot" else ["--dimension", 16, "--epochs", 5]
        said(bertkit_command("words", "train", place / "text.txt", "-o", place / method, "--method", method, *size))
    return place


def said(done):
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_words_that_stand_together_are_near(place):
    near = said(bertkit_command("words", "nearest", place / "skip-gram", GOOD[0], "-k", 8))
    assert {each["word"] for each in near} == {*GOOD[1:]}
    vectors = bertkit.load_words(place / "skip-gram")
    assert [each["word"] for each in near] == [each.word for each in vectors.nearest(GOOD[0], count=8)]


def test_one_thread_and_one_seed_give_the_same_bytes(place, tmp_path):
    how = ("--dimension", 8, "--epochs", 2, "--threads", 1, "--method", "cbow")
    for name in "ab":
        bertkit_command("words", "train", place / "text.txt", "-o", tmp_path / name, *how)
    bertkit_command("words", "train", place / "text.txt", "-o", tmp_path / "c", *how, "--seed", 1)
    a, b, c = ((tmp_path / name / "model.safetensors").read_bytes() for name in "abc")
    assert a == b
    assert a != c


@pytest.mark.parametrize(
    ("task", "rows", "vectors", "more", "metric"),
    [
        ("classify", "rows.csv", "skip-gram", [], "accuracy"),
        pytest.param(*("classify", "rows.csv", "skip-gram", ["--freeze"], "accuracy"), marks=pytest.mark.slow),
        ("classify", "rows.csv", "skip-gram", ["--cnn", 8], "accuracy"),
        pytest.param(*("classify", "rows.csv", "skip-gram", ["--lstm", 8], "accuracy"), marks=pytest.mark.slow),
        ("classify", "rows.csv", "one-hot", ["--freeze", "--learning-rate", 0.1], "accuracy"),
        pytest.param(*("regress", "scores.csv", "skip-gram", [], "pearson"), marks=pytest.mark.slow),
        ("tag", "tags.conll", "skip-gram", ["--lstm", 16, "--crf", "--learning-rate", 0.02], "f1"),
        pytest.param(*("tag", "tags.conll", "skip-gram", ["--freeze", "--cnn", 8], "f1"), marks=pytest.mark.slow),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(map(str, value)),
)
def test_vectors_are_the_input_of_any_task(place, tmp_path, task, rows, vectors, more, metric):
    out, dev = tmp_path / "model", place / rows
    how = ("--dev", dev, "--from", place / vectors, "-o", out, "--epochs", 20, *more)
    facts = said(bertkit_command("finetune", task, place / rows, *how))[-1]
    assert facts["metrics"][metric] > 0.9
    again = said(bertkit_command("evaluate", out, dev))[-1]
    assert again["metrics"][metric] == pytest.approx(facts["metrics"][metric], abs=1e-6)


@pytest.fixture(scope="module")
def classifier(place):
    out = place / "classifier"
    bertkit_command("finetune", "classify", place / "rows.csv", "--from", place / "skip-gram", "-o", out, "--epochs", 5)
    return out


def test_the_quick_way_says_what_the_model_says(classifier):
    quick = bertkit.load(classifier)
    slow = Scorer(quick.scorer.model, quick.scorer.task, quick.scorer.tokenizer)
    draw = random.Random(1)
    texts = [" ".join(draw.choices([*WORDS, "unheard", ",", "don't"], k=draw.randrange(1, 30))) for _ in range(300)]
    texts += [
        "我",
        f"{GOOD[0]}\n{BAD[0]}",
        GOOD[0].upper(),
        " ".join(GOOD * 100),
    ]  # the last is longer than is read
    for some in (texts[:-1], texts):
        kind = type(slow.task)
        wanted = [each.answer for each in slow.stream(kind.read(text, "x") for text in some)]
        for found, answer in zip(quick(some), wanted, strict=True):
            assert found.keys() == answer.keys()
            assert found["label"] == answer["label"]
            np.testing.assert_allclose(
                [*found["probabilities"].values()], [*answer["probabilities"].values()], atol=1e-6
            )
    assert "cut" in quick(texts)[-1]


def test_what_is_wrong_is_one_sentence(place, classifier, tmp_path):
    cases = {
        ("words", "nearest", place / "skip-gram", GOOD[0] + "x"): (3, f"Did you mean '{GOOD[0]}'"),
        ("words", "nearest", place / "one-hot", GOOD[0]): (2, "every word is as far from every other"),
        ("words", "train", place / "text.txt", "-o", tmp_path / "v", "--min-count", 10**6): (3, "lower --min-count"),
        ("words", "train", place / "text.txt", "-o", place / "skip-gram"): (3, "exists and is not empty"),
        ("words", "train", tmp_path / "none.txt", "-o", tmp_path / "v"): (3, "does not exist"),
        ("words", "plot", place / "skip-gram", "-o", tmp_path / "map.gif"): (2, "It can end in .png"),
        ("tokenizer", "train", place / "text.txt", "--family", "vectors", "-o", tmp_path / "v"): (
            2,
            "bertkit words train",
        ),
        ("words", "similarity", place / "skip-gram", GOOD[0]): (2, "Give another"),
        ("words", "evaluate", place / "skip-gram", place / "text.txt"): (3, "neither four words nor two and a number"),
    }
    for command, (code, problem) in cases.items():
        done = bertkit_command(*command)
        assert done.returncode == code, done.stderr
        assert "Traceback" not in done.stderr
        assert problem in " ".join(done.stderr.split())
    assert not (tmp_path / "v").exists()


def test_a_map_of_words_is_drawn(place, tmp_path):
    bertkit_command("words", "plot", place / "skip-gram", *WORDS, "-o", tmp_path / "map.png")
    assert (tmp_path / "map.png").read_bytes().startswith(b"\x89PNG")


def test_a_model_in_less_room_says_the_same_of_the_words_it_has(place, classifier, tmp_path):
    said(bertkit_command("words", "shrink", classifier, "-o", tmp_path / "half", "--half"))
    before, after = bertkit.load(classifier), bertkit.load(tmp_path / "half")
    text = " ".join(WORDS)
    assert after(text)["probabilities"]["good"] == pytest.approx(before(text)["probabilities"]["good"], abs=1e-3)
    weights = [(folder / "model.safetensors").stat().st_size for folder in (classifier, tmp_path / "half")]
    assert weights[1] < weights[0]
    (facts,) = said(bertkit_command("words", "shrink", classifier, "-o", tmp_path / "few", "--max-words", 10))
    assert (facts["words"], facts["of"]) == (10, len(WORDS))
    assert bertkit.load(tmp_path / "few")(text)["label"] in ("good", "bad")
    done = bertkit_command("words", "shrink", place / "one-hot", "-o", tmp_path / "v", "--half")
    assert done.returncode == 3
    assert "no table with a row for each whole word" in done.stderr
    assert bertkit_command("words", "shrink", classifier, "-o", tmp_path / "v").returncode == 2
