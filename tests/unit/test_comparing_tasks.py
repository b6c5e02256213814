"""What a comparison makes of its tasks: pretrainings are already there, fine-tuning is real."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from bertkit import device
from bertkit.cli.compare import compare as compare_command
from bertkit.corpus import CorpusFolder, prepare
from bertkit.errors import BertkitError, UsageError
from bertkit.families import bert_tiny
from bertkit.hub import save_model
from bertkit.nn import Bert
from bertkit.text import Tokenizer
from bertkit.train import Asked, CompareWatcher, Comparing, Comparison, contestants_of, tasks_of
from corpora import RECIPE, lines_of
from runs import OF_A_RUN, make_run


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory, english: list[str], tokenizer: Tokenizer) -> CorpusFolder:
    place = tmp_path_factory.mktemp("comparing_tasks")
    text = lines_of(["\n".join(english[i : i + 9]) for i in range(0, 900, 9)], place / "text.jsonl")
    return prepare([text], tokenizer, place / "shards", RECIPE)


class Said(CompareWatcher):
    def __init__(self) -> None:
        self.scores: list[tuple[str, int]] = []

    def scored(self, entry: str, task: str, seed: int, metric: str, score: float) -> None:
        self.scores.append((task, seed))


def comparison(corpus: CorpusFolder, place: Path, models: str, *tasks: str, **more: Any) -> tuple[Comparison, Said]:
    """With the pretraining of each done, as far as anybody can see: its weights are random."""
    asked = Asked(
        inputs=(str(corpus.path),),
        contestants=tuple(contestants_of(models)),
        tasks=tuple(tasks_of(tasks)),
        steps=5,
        epochs=1,
        max_length=16,
        **more,
    )
    out, said = place / "out", Said()
    if not out.exists():
        out.mkdir()
        (out / "asked.json").write_text(json.dumps(asked.shared()))
    for contestant in asked.runs.values():
        if (run := out / "runs" / contestant.folder).exists():
            continue
        make_run(run, nsp=False)
        (run.parent / f"{run.name}.json").write_text(json.dumps(OF_A_RUN))
        config = bert_tiny(vocab_size=corpus.tokenizer.vocab_size, causal="left-to-right" in contestant.options)
        save_model(run / "model", Bert(config, nsp=False), corpus.tokenizer, provenance={})
    return Comparison(asked, out, device.choose("cpu", threads=1), said), said


def rows_in(file: Path, count: int, labels: str = "ab") -> Path:
    file.write_text("text\tlabel\n" + "".join(f"words {n}\t{labels[n % 2]}\n" for n in range(count)))
    return file


def test_scores_of_files_that_changed_are_not_mixed_with_those_of_others(corpus: CorpusFolder, tmp_path: Path):
    train, dev = rows_in(tmp_path / "train.tsv", 16), rows_in(tmp_path / "dev.tsv", 8)
    toy, other = f"toy=classify:{train}:{dev}", f"other=classify:{train}"
    first, said = comparison(corpus, tmp_path, "bert-tiny", toy, other, seeds=1)
    first.run()
    assert said.scores == [("toy", 0), ("other", 0)]
    rows_in(dev, 8, labels="ba")
    second, said = comparison(corpus, tmp_path, "bert-tiny", toy, other, seeds=2)
    changed = "toy: its files have changed since it was scored, so it is fine-tuned for anew"
    assert [note for note in second.notes if "changed" in note] == [changed]
    facts = second.run()
    assert said.scores == [("toy", 0), ("toy", 1), ("other", 1)]
    assert changed in facts["notes"]
    kept = facts["contestants"][0]["scores"]["toy"]
    assert kept["sha256"]["dev"] == facts["tasks"][0]["files"]["dev"]["sha256"]
    third, _ = comparison(corpus, tmp_path, "bert-tiny", toy, other, seeds=2)
    assert not [note for note in third.notes if "changed" in note]
    assert third.left() == ([], 0)


def test_scores_that_were_stored_without_hashes_stay_and_get_them(corpus: CorpusFolder, tmp_path: Path):
    task = f"toy=classify:{rows_in(tmp_path / 'train.tsv', 16)}:{rows_in(tmp_path / 'dev.tsv', 8)}"
    before, _ = comparison(corpus, tmp_path, "bert-tiny", task, seeds=1)
    assert before.left() == ([], 1)
    (tmp_path / "out" / "scores").mkdir()
    stored = tmp_path / "out" / "scores" / "bert-tiny.json"
    stored.write_text(json.dumps({before.trials.key(before.asked.tasks[0]): {"scores": {"0": 0.5}}}))
    assert before.left() == ([], 0)
    before.trials.remember_files(before.entries[0])
    rows_in(tmp_path / "dev.tsv", 8, labels="ba")
    after, _ = comparison(corpus, tmp_path, "bert-tiny", task, seeds=1)
    assert after.left() == ([], 1)


def test_a_task_without_scores_is_in_the_row_and_the_command_fails(
    corpus: CorpusFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    task = f"toy=classify:{rows_in(tmp_path / 'train.tsv', 16)}:{rows_in(tmp_path / 'dev.tsv', 8)}"
    models = "bert-tiny,bert-tiny:length=64:no-nsp"
    comparison(corpus, tmp_path, models, task)
    (tmp_path / "out" / "runs" / "bert-tiny.length=64.no-nsp" / "model" / "model.safetensors").unlink()
    with pytest.raises(
        BertkitError, match="1 of 2 could not be fine-tuned for all tasks; bert-tiny:length=64:no-nsp, toy: "
    ):
        compare_command(
            Comparing.of(
                inputs=[str(corpus.path)],
                out=tmp_path / "out",
                models=models,
                task=[task],
                steps=5,
                seeds=1,
                epochs=1,
                max_length=16,
                device="cpu",
                threads=1,
            )
        )
    there, failed = map(json.loads, capsys.readouterr().out.splitlines())
    assert (there["held_out_length"], failed["held_out_length"]) == (128, 64)
    assert "failed_tasks" not in there
    assert there["toy"]["mean"] >= 0
    assert "model.safetensors" in failed["failed_tasks"]["toy"]
    rows = json.loads((tmp_path / "out" / "comparison.json").read_text())["contestants"]
    assert rows[1]["failed_tasks"] == failed["failed_tasks"]


def test_an_lstm_under_sentence_vectors_is_refused_before_anything_is_pretrained(corpus: CorpusFolder, tmp_path: Path):
    file = tmp_path / "p.tsv"
    file.write_text("text\tpair\tscore\n" + "".join(f"one {n}\ttwo {n}\t{n % 5}\n" for n in range(16)))
    models, task = "bert-tiny:no-nsp:left-to-right:lstm=16", f"e=embed:{file}:{file}:score=score"
    with pytest.raises(UsageError, match=r"lstm=16:.*no-nsp cannot be fine-tuned for e: .* Leave out the task"):
        comparison(corpus, tmp_path, models, task)


def test_one_whose_process_breaks_is_left_out_and_the_others_are_compared(
    corpus: CorpusFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    comparing, _ = comparison(corpus, tmp_path, "bert-tiny,bert-tiny:no-nsp")
    (tmp_path / "out" / "runs" / "bert-tiny.no-nsp.json").unlink()
    monkeypatch.setattr("bertkit.train.comparing.children.COMMAND", (sys.executable, "-c", "1 / 0"))
    there, broken = comparing.run()["contestants"]
    assert "problem" not in there
    assert broken["problem"] == "its process ended with 1, for a reason that it printed above"


def test_what_writes_is_not_compared(tmp_path):
    rows = lines_of(["one", "two"], tmp_path / "rows.jsonl")
    with pytest.raises(UsageError, match="what writes is put together for each model"):
        tasks_of([f"generate:{rows}"])
