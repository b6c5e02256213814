"""The text a vocabulary is learned from when a corpus is prepared: read and cleaned as it will be there."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bertkit.corpus.preparing.cleaning import clean
from bertkit.corpus.preparing.progress import Progress
from bertkit.corpus.reading.readers import find_sources, texts_of
from bertkit.errors import InputError
from bertkit.text.sample import Sample, draw_sample

if TYPE_CHECKING:
    from bertkit.corpus.preparing.prepare import Recipe


def cleaned_sample(
    inputs: Sequence[str], recipe: Recipe, *, file_format: str | None, leave_out: Path, progress: Progress
) -> Sample:
    """Records that cannot be read are passed over: they are told when the shards are made, in their places."""
    read, cleaning = recipe.digest.read, recipe.digest.cleaning
    sources, _ = find_sources(inputs, format=file_format, encoding=read.encoding, leave_out=leave_out)
    problems: list[InputError] = []

    def remember(problem: InputError) -> None:
        if recipe.strict:
            raise problem
        problems.append(problem) if not problems else None

    with progress.reading(sum(source.size or 0 for source in sources), "reading for a vocabulary") as bar:
        texts = texts_of(sources, read, on_read=bar.read, on_problem=remember)
        sample = draw_sample((clean(text, cleaning).text for _, text in texts), hold_out=False)
    if not sample.texts and problems:
        raise problems[0]
    return sample
