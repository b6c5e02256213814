"""`bertkit finetune embed` as a user has it: from a file of pairs to vectors, with right input and wrong."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from bertkit.infer import load_encoder
from commands import bertkit_command

QUICK = ("--epochs", 2, "--batch", 8, "--learning-rate", "1e-3", "--max-length", 32, "--threads", 1)


def pairs(path: Path, english: list[str], count: int, *, scored: bool) -> Path:
    """Lines with their own words again, and, with scores, as many with those of another line."""
    rows = ["sentence1\tsentence2" + "\tscore" * scored]
    for number, line in enumerate(english[:count]):
        words = line.replace("\t", " ").split()[:8]
        other = english[(number + 7) % count].replace("\t", " ").split()[:8]
        rows.append(f"{' '.join(words)}\t{' '.join(words[::-1])}" + "\t4.5" * scored)
        if scored:
            rows.append(f"{' '.join(words)}\t{' '.join(other)}\t{0.5 + number % 3}")
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, english: list[str], tiny_folder: Path) -> Path:
    folder = tmp_path_factory.mktemp("embed")
    train = pairs(folder / "scored.tsv", english, 40, scored=True)
    done = bertkit_command("finetune", "embed", train, "--from", tiny_folder, "--out", folder / "model", *QUICK)
    assert done.returncode == 0, done.stderr
    assert "text is 'sentence1', pair is 'sentence2'" in done.stderr
    assert "of 80 examples are held out, what belongs together on one side" in done.stderr
    assert "the scores 0.5 to 4.5 are taken as 0 to 1, and their order is learned" in done.stderr
    assert "before training: spearman" in done.stderr
    said = json.loads(done.stdout)
    assert said["metrics"].keys() == {"spearman", "pearson"}
    assert said["baselines"].keys() == {"the vectors before training", "bag of words"}
    low, high = said["interval"]["spearman"]
    assert -1 <= low <= said["metrics"]["spearman"] <= high <= 1
    return folder


def test_it_embeds_evaluates_and_predicts_without_being_told_how(trained: Path, english: list[str], tmp_path: Path):
    model, texts = trained / "model", ["one text", "another one"]
    done = bertkit_command("embed", model, "-t", texts[0], "-t", texts[1], "-o", tmp_path / "v.npy")
    assert done.returncode == 0, done.stderr
    assert "was not trained for sentence vectors" not in done.stderr
    vectors = np.load(tmp_path / "v.npy")
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    np.testing.assert_array_equal(vectors, load_encoder(model).embed(texts))
    done = bertkit_command("predict", model, "-t", texts[0], "--pair", texts[1])
    assert json.loads(done.stdout) == {"cosine": pytest.approx(float(vectors[0] @ vectors[1]), abs=1e-5)}
    done = bertkit_command("predict", model, trained / "scored.tsv")
    assert len([json.loads(line)["cosine"] for line in done.stdout.splitlines()]) == 80
    done = bertkit_command("evaluate", model, trained / "scored.tsv")
    assert json.loads(done.stdout)["metrics"].keys() == {"spearman", "pearson"}
    done = bertkit_command("evaluate", model, pairs(tmp_path / "pairs.tsv", english, 30, scored=False))
    assert json.loads(done.stdout)["metrics"].keys() == {"mean_reciprocal_rank", "accuracy_at_1"}
    assert "The worst mistakes" in (model / "report.html").read_text(encoding="utf-8")
    assert json.loads(bertkit_command("info", model).stdout)["verified"]


def test_pairs_without_scores_learn_to_find_each_other(tiny_folder: Path, english: list[str], tmp_path: Path):
    train = pairs(tmp_path / "pairs.tsv", english, 60, scored=False)
    words = ("finetune", "embed", train, "--dev", train, "--from", tiny_folder, "--out", tmp_path / "model")
    done = bertkit_command(*words, *QUICK)
    assert done.returncode == 0, done.stderr
    assert "60 of the 60 dev examples are in the training data too" in done.stderr
    said = json.loads(done.stdout)
    assert said["metrics"]["mean_reciprocal_rank"] >= said["baselines"]["the vectors before training"]


def test_cosines_of_a_raw_model_are_told_of_on_stderr_alone(tiny_folder: Path):
    for options, told in (((), 0), (("--normalize",), 1)):
        done = bertkit_command("embed", tiny_folder, "-t", "one", "-t", "two", *options)
        assert done.returncode == 0
        assert done.stderr.count("bertkit finetune embed PAIRS") == told
        assert len([json.loads(line) for line in done.stdout.splitlines()]) == 2


@pytest.mark.parametrize(
    ("content", "options", "code", "told"),
    [
        ("text1,text2\n" + "a,b\n" * 20, ("--pair", "text3"), 3, "no column 'text3'"),
        ("text\n" + "a b\n" * 20, (), 3, "no column is plainly the pair"),
        ("text1,text2,score\na,b,1\nc,d,NaN\n", (), 3, "line 3: the score is 'NaN'"),
        ("text1,text2,score\n" + "a,b,1\n" * 20, (), 3, "every score in the training data is 1"),
        ("text1,text2\n" + "a,b\n" * 20, ("--freeze",), 2, "--freeze with the task embed"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_written(
    tmp_path: Path, tiny_folder: Path, content: str, options: tuple[object, ...], code: int, told: str
):
    (tmp_path / "pairs.csv").write_text(content)
    done = bertkit_command(
        "finetune", "embed", tmp_path / "pairs.csv", "--from", tiny_folder, "--out", tmp_path / "m", *options
    )
    assert done.returncode == code, done.stderr
    assert told in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "m").exists()


def test_predictions_need_two_texts(trained: Path):
    done = bertkit_command("predict", trained / "model", "-t", "one text")
    assert done.returncode == 3
    assert "Pass two texts for their cosine" in done.stderr
