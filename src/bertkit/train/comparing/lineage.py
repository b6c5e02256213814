"""The line of models, of families/line.py, at one size. What is not there to be trained is told of, and left out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bertkit.errors import InputError, UsageError
from bertkit.families import PRESETS
from bertkit.families.line import CALLED, LINE
from bertkit.files import read_json
from bertkit.train.comparing.contestants import Contestant

NAME = "lineage"
SIZES = ("tiny", "mini")


def line(model: str, words: Sequence[str] = ()) -> tuple[list[Contestant], list[str]]:
    """Those that can be trained here, at the size of a BERT, and `words`, folders of word vectors, in their order; and
    what there is to say of the others."""
    given = {str(read_json(Path(each) / "config.json", InputError).get("method")): each for each in words}
    if strange := sorted(given.keys() - {chapter.model for chapter in LINE}):
        raise InputError(f"{given[strange[0]]} holds no word vectors of the line", "Give what bertkit words has made.")
    size = model.removeprefix("bert-")
    if size not in SIZES:
        known = ", ".join(f"bert-{each}" for each in SIZES)
        raise UsageError(f"a lineage as large as {model}", f"It can be as large as {known}: `model=bert-mini`.")
    found, missing = [], []
    for chapter in LINE:
        name = f"{chapter.model}-{size}"
        name = CALLED.get(name, name)
        if chapter.model in given:
            found.append(Contestant(model=given[chapter.model], title=chapter.title))
        elif name in PRESETS:
            found.append(Contestant(model=name, title=chapter.title))
        else:
            missing.append(chapter.title)
    said = []
    if missing:
        said = [f"not among them, since they are not pretrained: {', '.join(missing)}; `words` takes their folders"]
    return found, said
