"""What a run has learned: its last validation, and guesses for ten sentences before and after, as Markdown.

bertkit prepare enwiki.jsonl -o SHARDS
bertkit pretrain SHARDS --hours 0.5 --out RUN
python benchmarks/learned.py RUN
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from bertkit import TextEncoder, load_encoder
from bertkit.hub import save_model
from bertkit.train import Settings, read_log, read_times
from bertkit.train.starting import new_model

SENTENCES = (
    "He was born in 1950 in New [MASK].",
    "The city is the capital of the [MASK] of France.",
    "The film was directed [MASK] John Ford.",
    "She was the first [MASK] to win the prize.",
    "The war ended in [MASK].",
    "It is one of the largest [MASK] in the world.",
    "The album was [MASK] in the United States.",
    "During the Second World [MASK] the bridge was destroyed.",
    "The population of the [MASK] is two million.",
    "According to the [MASK], the theory is wrong.",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    run = parser.parse_args().run
    settings = Settings.from_json(json.loads((run / "run.json").read_text(encoding="utf-8"))["settings"])
    after = load_encoder(run / "model")
    with tempfile.TemporaryDirectory() as place:
        save_model(Path(place) / "model", new_model(settings).eval(), after.tokenizer)
        before = load_encoder(Path(place) / "model")
        validations = [record for record in read_log(run) if record["kind"] == "validation"]
        print("| step | held-out loss | perplexity | words right | next sentences right |\n|---|---|---|---|---|")
        for record in (validations[0], validations[-1]):
            print(
                f"| {record['step']:,} | {record['mlm_loss']:.3f} | {record['perplexity']:,.1f} |"
                f" {record['mlm_accuracy']:.1%} | {record.get('nsp_accuracy', 0):.1%} |"
            )
        ended = [record for record in read_times(run) if record.get("event") == "finished"][-1]
        print(f"\n{ended['seconds'] / 60:.1f} minutes of {60 * (settings.hours or 0):.1f} asked for\n")
        print("| sentence | before | after |\n|---|---|---|")
        for sentence in SENTENCES:
            print(f"| {sentence} | {guesses(before, sentence)} | {guesses(after, sentence)} |")


def guesses(encoder: TextEncoder, sentence: str) -> str:
    return ", ".join(f"{guess.token} {guess.probability:.0%}" for guess in encoder.fill_mask(sentence, k=3)[0])


if __name__ == "__main__":
    main()
