"""The demo's writer: the first line of a docstring, written from what comes after it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

SECONDS = 40
LEARNED, MEASURED, SHOWN = 4000, 100, 3
LINE, BODY, MOST_OF_BODY = (3, 12), 8, 60
"""Words of a first line, at least and at most; of what follows, at least and at most."""


def summaries(out: Path, documents: Iterable[tuple[str, str]], minutes: float) -> dict[str, Any]:
    """Learned in less than one minute, and in a third of the time that the model was pretrained in. Scores beside those
    of what needs no learning, and some of what it wrote."""
    from bertkit.cli.finetune import facts_of, finetuned
    from bertkit.cli.options import quietly
    from bertkit.files import atomic_file
    from bertkit.infer.predictor import load
    from bertkit.train.schemas import FineTuning

    pairs = list(_pairs(documents))
    held_out = pairs[:: max(1, len(pairs) // MEASURED)][:MEASURED]
    known = {body for body, _ in held_out}
    learned = [pair for pair in pairs if pair[0] not in known][:LEARNED]
    files = {"lines-learned.jsonl": learned, "lines-measured.jsonl": held_out}
    for name, rows in files.items():
        with atomic_file(out / name) as file:
            file.writelines((json.dumps({"text": a, "target": b}) + "\n").encode() for a, b in rows)
    train, dev = (out / name for name in files)
    how: dict[str, Any] = {"hours": min(SECONDS, 20 * minutes) / 3600, "overwrite": True, "max_length": 96}
    where = {"train": str(train), "dev": str(dev), "start": str(out / "model"), "out": out / "writer"}
    with quietly(True):
        done = facts_of(finetuned(FineTuning.of(task="generate", **where, **how)))
    shown = held_out[:: max(1, len(held_out) // SHOWN)][:SHOWN]
    answers = load(out / "writer")([body for body, _ in shown])
    examples = [
        {"text": body, "written": answer["text"], "right": line}
        for (body, line), answer in zip(shown, answers, strict=True)
    ]
    (main,) = done["interval"]
    return {"score": done["metrics"][main], "metric": main, "baselines": done["baselines"], "examples": examples}


def _pairs(documents: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """What follows a line that stands alone, and the line."""
    seen = set()
    for _, document in documents:
        paragraphs = [part.strip() for part in document.split("\n\n")]
        for line, body in pairwise(paragraphs):
            words = " ".join(body.split()).split()
            plain = "\n" not in line and line.endswith(".") and line[:1].isupper() and body[:1].isupper()
            plain = plain and not any(sign in body for sign in ("--", "::", ">>>", "==="))
            if not (plain and LINE[0] <= len(line.split()) <= LINE[1] and len(words) >= BODY and body.endswith(".")):
                continue
            if line not in seen:
                seen.add(line)
                yield " ".join(words[:MOST_OF_BODY]), line
