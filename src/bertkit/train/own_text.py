"""What comes before a task is learned, if text is there for it: the model goes on with what it was pretrained by, on
the task's own texts and others like them (the second of ULMFiT's three stages, Howard and Ruder, 2018).

All of it stays in OUT.text, beside the model folder that is to be: the shards, and a run as any other. So it goes on
after an interruption, and the next fine-tuning can begin with it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from bertkit.corpus.folder import MANIFEST, CorpusFolder
from bertkit.corpus.preparing import Recipe, prepare
from bertkit.device import Machine
from bertkit.errors import InputError, UsageError, WriteError
from bertkit.files import atomic_file, sha256_of
from bertkit.hub.fetch import find_folder
from bertkit.hub.folder import ModelFolder
from bertkit.train.examples import Examples, FinetuneRequest, read_examples
from bertkit.train.pretrain import pretrain
from bertkit.train.request import Request, make_recipe
from bertkit.train.watcher import Watcher

PASSES = 5
"""Over the text, unless there is a budget of time; of that it is half."""
HELD_OUT = 0.05
TEXTS = "texts.jsonl"


def learn_own_text(
    request: FinetuneRequest, out: Path, machine: Machine, watcher: Watcher, *, overwrite: bool
) -> FinetuneRequest:
    """The same request with a model to start from that knows the text. Of the examples only those count that are
    learned from later, without what is right."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise UsageError(
            "`also_on` with several processes", "Prepare that text, pretrain on it with `start`, and fine-tune that."
        )
    place = out.with_name(f"{out.name}.text")
    folder = ModelFolder(find_folder(request.start))
    examples = read_examples(request, folder.config.max_length, [])
    corpus = _corpus(request, folder, examples, place, watcher, overwrite=overwrite)
    change: dict[str, Any] = {"from_the_right": True} if folder.config.backwards else {}
    if folder.family.learning_rates:
        change["optimizer.learning_rate"] = folder.family.learning_rates[0]
    half = None if request.hours is None else request.hours / 2
    asked = Request(
        shards=corpus.path,
        start_from=request.start,
        hours=half,
        steps=None if half else 1,
        seed=request.seed,
        change=change,
    )
    if half is None:
        stage = make_recipe(asked).stages[0]
        tokens = corpus.report["kept"]["train"]["tokens"]
        asked = replace(asked, steps=max(1, round(PASSES * tokens / (stage.batch * stage.length))))
    watcher.said(f"first the text, in {place}: what it learns there another task can begin with, {place / 'run/model'}")
    pretrain(asked, place / "run", machine, watcher, overwrite=overwrite)
    return replace(request, start=str(place / "run" / "model"), also_on=(), hours=half)


def _corpus(
    request: FinetuneRequest,
    folder: ModelFolder,
    examples: Examples,
    place: Path,
    watcher: Watcher,
    *,
    overwrite: bool,
) -> CorpusFolder:
    texts, shards = place / TEXTS, place / "shards"
    lines = "".join(json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in _texts(examples))
    if not lines:
        raise InputError(f"the examples of {request.train} have no text of their own", "Leave `also_on` out.")
    place.mkdir(parents=True, exist_ok=True)
    if texts.exists() and texts.read_text(encoding="utf-8") != lines and not overwrite:
        raise WriteError(f"{place} is that of other examples", "Add `overwrite=True`, or choose another `out`.")
    with atomic_file(texts) as file:
        file.write(lines.encode("utf-8"))
    sources = {str(each): sha256_of(Path(each)) for each in request.also_on if Path(each).is_file()}
    tokenizer, mark = folder.tokenizer(), place / "sources.json"
    said = json.dumps({**sources, "tokenizer": tokenizer.sha256(), "texts": sha256_of(texts)}, indent=1)
    if (shards / MANIFEST).exists() and mark.exists() and mark.read_text(encoding="utf-8") == said:
        return CorpusFolder(shards)
    watcher.doing("preparing the text")
    corpus = prepare(
        [str(texts), *request.also_on], tokenizer, shards, Recipe(validation=HELD_OUT), overwrite=overwrite
    )
    with atomic_file(mark) as file:
        file.write(said.encode("utf-8"))
    return corpus


def _texts(examples: Examples) -> Iterator[str]:
    """All that the examples have to be read, each text once."""
    parts = [part.name for part in type(examples.task).parts if part.kind == "text" and not part.learned]
    seen: set[str] = set()
    for example in examples.train:
        for name in parts:
            found = getattr(example, name, None)
            for text in [found] if isinstance(found, str) else found or ():
                if isinstance(text, str) and text.strip() and text not in seen:
                    seen.add(text)
                    yield text
