"""`bertkit tokenizer`: learn a vocabulary from text, see how it cuts a text, and measure how well it fits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from bertkit.cli.options import Encoding, Format, Overwrite, emit, for_people, given_texts, note
from bertkit.cli.tokenizer_extend import extend
from bertkit.cli.tokenizer_shared import (
    Documents,
    Field,
    Folder,
    Inputs,
    files_of,
    open_tokenizer,
    print_quality,
    status,
    texts_of,
)


def train(
    inputs: Inputs,
    out: Annotated[Path, typer.Option("--out", "-o", help="The tokenizer folder to write.")],
    family: Annotated[
        str,
        typer.Option(
            help="bert (WordPiece), roberta, gpt2 or modernbert (byte-level BPE), albert (Unigram), or gpt (BPE)."
        ),
    ] = "bert",
    vocab_size: Annotated[
        int | None, typer.Option(min=1, help="Pieces in the vocabulary. [about what the family's models have]")
    ] = None,
    min_frequency: Annotated[int, typer.Option(min=1, help="How often a piece must occur to become one.")] = 2,
    cased: Annotated[
        bool, typer.Option("--cased", help="Keep case and accents; byte-level BPE always does, gpt never.")
    ] = False,
    special: Annotated[
        list[str] | None, typer.Option(metavar="TOKEN", help="One more special token, such as [ENT]. Repeatable.")
    ] = None,
    word: Annotated[
        list[str] | None, typer.Option(metavar="WORD", help="A word that is to be one piece. Repeatable.")
    ] = None,
    words_file: Annotated[Path | None, typer.Option(help="A file of such words, one a line.")] = None,
    max_alphabet: Annotated[
        int, typer.Option(min=1, help="The most different characters; rarer ones are unknown. Not for bytes.")
    ] = 6000,
    sample_mb: Annotated[int, typer.Option(min=1, help="Learn from no more text than this, drawn from all.")] = 128,
    field: Field = None,
    documents: Documents = "line",
    file_format: Format = None,
    encoding: Encoding = "utf-8",
    overwrite: Overwrite = False,
) -> None:
    """Learn a vocabulary from text and write a tokenizer folder, which transformers opens too.

    The same text gives the same vocabulary, whatever the order of the files or the number of cores. Some of the text
    is held out, and the vocabulary is measured on it (report.json in the folder).

    \b
    bertkit tokenizer train texts.txt -o tokenizer
    bertkit tokenizer train a.jsonl b.csv --family roberta --vocab-size 32000 -o tokenizer
    bertkit tokenizer train notes.txt --cased --special [ENT] --word electroencephalography -o tokenizer
    """
    from bertkit.files import atomic_folder, to_json
    from bertkit.interop.folder import require_place
    from bertkit.text.quality import measure
    from bertkit.text.recipe import VocabularyRecipe
    from bertkit.text.sample import draw_sample
    from bertkit.text.train import train as learn

    given_texts([*(special or []), *(word or [])])
    read = [*files_of(inputs, file_format, encoding), *([] if words_file is None else [str(words_file)])]
    require_place(out, overwrite=overwrite, read=read)
    recipe = VocabularyRecipe(
        family,
        vocab_size=vocab_size,
        min_frequency=min_frequency,
        lowercase=False if cased else None,
        special_tokens=special or [],
        words=[*(word or []), *(_lines(words_file) if words_file else [])],
        max_alphabet=max_alphabet,
    )
    sample = draw_sample(
        texts_of(inputs, field, documents, file_format, encoding, "reading"), limit_bytes=sample_mb * 2**20
    )
    with status(f"learning from {sample.characters:,} characters"):
        tokenizer, notes = learn(sample, recipe)
    quality = measure(tokenizer, (text for text, _ in sample.held_out)) if sample.held_out else None
    report: dict[str, Any] = {
        "family": family,
        "kind": tokenizer.kind,
        "vocabulary": tokenizer.vocab_size,
        "sha256": tokenizer.sha256(),
        "texts_read": sample.read,
        "characters_read": sample.read_characters,
        "characters_in_sample": sample.characters,
        "notes": notes,
        "held_out": quality.as_json() if quality else None,
    }
    with atomic_folder(out, overwrite=overwrite) as folder:
        tokenizer.save(folder)
        (folder / "report.json").write_text(to_json(report), encoding="utf-8")
    for message in notes:
        note(message)
    if not for_people():
        emit({"folder": str(out), **report})
        return
    learned = f"learned from {sample.characters:,} of {sample.read_characters:,} characters"
    typer.echo(f"{out}: {tokenizer.vocab_size:,} pieces, {learned}")
    if quality:
        typer.echo("on text that was held out:")
        print_quality(quality)
    else:
        note("there were too few texts to hold some out and measure on them")


def show(
    folder: Folder,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The text to cut.")],
    pair: Annotated[str | None, typer.Option(help="A second text, as pairs are given to the model.")] = None,
) -> None:
    """Show the pieces of a text, with their ids and where in the text each comes from.

    \b
    bertkit tokenizer show tokenizer "Tokenization, piece by piece."
    bertkit tokenizer show MODEL "A text" --pair "and another"
    """
    given_texts([text, pair])
    tokenizer = open_tokenizer(folder)
    encoding = tokenizer.backend.encode(text, pair)
    rows: list[dict[str, Any]] = []
    for token_id, (start, end), origin in zip(encoding.ids, encoding.offsets, encoding.sequence_ids, strict=True):
        row: dict[str, Any] = {"piece": tokenizer.token(token_id), "id": token_id}
        if origin is not None:  # all but the tokens of the frame come from a text
            source = text if origin == 0 else pair or ""
            row |= {"text": origin + 1, "start": start, "end": end, "characters": source[start:end]}
        rows.append(row)
    if not for_people():
        for row in rows:
            emit(row)
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("piece", "id", "start", "end", "characters"):
        table.add_column(name, justify="right" if name in ("id", "start", "end") else "left", no_wrap=True)
    for row in rows:
        cells = [str(row.get(name, "")) for name in ("id", "start", "end")]
        table.add_row(Text(row["piece"], style="bold"), *cells, Text(row.get("characters", "")))
    Console().print(table)


def report(
    folder: Folder,
    inputs: Inputs,
    field: Field = None,
    documents: Documents = "line",
    file_format: Format = None,
    encoding: Encoding = "utf-8",
) -> None:
    """Measure a tokenizer on texts: pieces a word, what is unknown, which pieces are never used.

    A word is counted in the same way for every tokenizer, so that their figures can be compared: punctuation marks and
    Chinese characters count as words of their own.

    \b
    bertkit tokenizer report tokenizer texts.txt
    bertkit tokenizer report MODEL texts.jsonl --field body
    """
    from bertkit.text.quality import measure

    quality = measure(open_tokenizer(folder), texts_of(inputs, field, documents, file_format, encoding, "measuring"))
    if for_people():
        print_quality(quality)
    else:
        emit(quality.as_json())


COMMANDS: dict[str, Callable[..., None]] = {"train": train, "extend": extend, "show": show, "report": report}
HELP = "Learn a vocabulary, add words to one, see how it cuts a text, measure how well it fits."


def _lines(path: Path) -> list[str]:
    from bertkit.corpus.reading.readers import read_texts

    return [line.strip() for line in read_texts(str(path), allow_empty=True) if line.strip()]
