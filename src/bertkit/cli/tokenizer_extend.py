"""`bertkit tokenizer extend`: more words for the vocabulary of a model, so that it can go on in a new domain."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from bertkit.cli.options import OVERWRITE, emit, for_people, note
from bertkit.cli.tokenizer_shared import OfFolder, Texts, files_of, open_tokenizer, status, texts_of, write_tokenizer
from bertkit.settings import option

if TYPE_CHECKING:
    from bertkit.text.quality import Quality

SHOWN = 20


@dataclass(frozen=True, kw_only=True)
class Extending(Texts, OfFolder):
    out: Path = option(..., "The tokenizer folder to write.", flags="-o")
    add: int = option(1000, "The most words to add.", least=1)
    min_count: int = option(5, "How often a word must occur to be added.", least=1)
    sample_mb: int = option(128, "Look at no more text than this, drawn from all.", least=1)
    overwrite: bool = option(False, OVERWRITE)


def extend(asked: Extending) -> None:
    """Add the words of a domain to the WordPiece vocabulary of a model: those that occur often in the text and are cut
    to pieces or unknown now.

    All tokens keep their ids, and a text without the new words is cut as before. Prepare the text with the new
    tokenizer (bertkit prepare --tokenizer), and go on from the model with its vocabulary extended.

    \b
    bertkit tokenizer extend MODEL notes.txt -o tokenizer
    bertkit tokenizer extend MODEL a.jsonl b.csv --add 5000 --min-count 20 -o tokenizer
    """
    from bertkit.errors import UsageError
    from bertkit.hub.folder import require_place
    from bertkit.text.extend import extend_vocabulary, require_extendable
    from bertkit.text.quality import measure
    from bertkit.text.sample import draw_sample

    out = asked.out
    if out.resolve() == Path(asked.folder).resolve():
        raise UsageError(f"{out} is the folder to read, and would be replaced by a tokenizer", "Choose another place.")
    old = open_tokenizer(asked.folder)
    require_extendable(old)
    require_place(out, overwrite=asked.overwrite, read=[asked.folder, *files_of(asked)])
    sample = draw_sample(texts_of(asked, "reading"), limit_bytes=asked.sample_mb * 2**20)
    with status(f"looking for words in {sample.characters:,} characters"):
        new, added, notes = extend_vocabulary(old, sample, add=asked.add, min_count=asked.min_count)
    held_out = [text for text, _ in sample.held_out]
    before, after = (measure(tokenizer, held_out) if held_out else None for tokenizer in (old, new))
    report = {
        "extends": {"folder": asked.folder, "vocabulary": old.vocab_size, "sha256": old.sha256()},
        "added": added,
        "notes": notes,
        "held_out_before": before.as_json() if before else None,
        "held_out": after.as_json() if after else None,
    }
    report = write_tokenizer(new, sample, report, out, overwrite=asked.overwrite)
    for message in notes:
        note(message)
    if not for_people():
        emit({"folder": str(out), **report})
        return
    typer.echo(f"{out}: {new.vocab_size:,} pieces, {len(added):,} of them new: {_some(added)}")
    if before and after:
        typer.echo("on text that was held out, before and after:")
        _print_both(before, after)
    else:
        note("there were too few texts to hold some out and measure on them")


def _some(words: list[str]) -> str:
    return ", ".join(words[:SHOWN]) + (", …" if len(words) > SHOWN else "")


def _print_both(before: Quality, after: Quality) -> None:
    rows = {
        "pieces per word": [f"{quality.pieces_per_word:.3f}" for quality in (before, after)],
        "words in one piece": [f"{quality.whole_word_rate:.2%}" for quality in (before, after)],
        "unknown pieces": [f"{quality.unknown_pieces:,} ({quality.unknown_rate:.4%})" for quality in (before, after)],
    }
    for name, (old, new) in rows.items():
        typer.echo(f"  {name:<21} {old:<18} {new}")
