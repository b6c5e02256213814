"""`bertkit prepare`: raw text to verified training shards."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bertkit.cli.options import Encoding, Format, Overwrite, note
from bertkit.errors import InterruptionError, UsageError

if TYPE_CHECKING:
    from bertkit.cli.corpus_bars import CorpusBars
    from bertkit.corpus.folder import CorpusFolder
    from bertkit.corpus.preparing.prepare import Recipe
    from bertkit.text.tokenizer import Tokenizer


def prepare(
    inputs: Annotated[
        list[str] | None,
        typer.Argument(metavar="INPUT...", help="Files, folders, globs, or - for stdin. All kinds may be mixed."),
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="The folder for the shards.")] = None,
    tokenizer: Annotated[
        Path | None,
        typer.Option(help="A tokenizer or model folder. Without it, one is trained on the text first."),
    ] = None,
    vocab_size: Annotated[int, typer.Option(min=100, help="Its vocabulary, where one is trained.")] = 30_000,
    verify: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Check every byte of a finished folder instead.")
    ] = None,
    field: Annotated[str, typer.Option(help="The field or column that holds the text.")] = "text",
    file_format: Format = None,
    documents: Annotated[
        str, typer.Option(help="In plain text a document is a: file, line or blank-line. auto decides.")
    ] = "auto",
    encoding: Encoding = "utf-8",
    max_record_mb: Annotated[int, typer.Option(min=1, help="A record larger than this is set aside.")] = 64,
    strict: Annotated[
        bool, typer.Option("--strict", help="Stop at the first record that cannot be read; else set it aside.")
    ] = False,
    repair: Annotated[bool, typer.Option(help="Mend text decoded wrongly (â€™ for ’).")] = True,
    html: Annotated[bool, typer.Option(help="Take out HTML tags, resolve entities.")] = True,
    controls: Annotated[bool, typer.Option(help="Take out control and zero-width characters.")] = True,
    whitespace: Annotated[bool, typer.Option(help="One space for any run of spaces.")] = True,
    unwrap: Annotated[bool, typer.Option(help="Join lines of text that was wrapped at a width.")] = True,
    boilerplate: Annotated[
        int, typer.Option(min=0, help="Leave out lines that stand in so many documents, 2 or more; 0: none.")
    ] = 20,
    min_chars: Annotated[int, typer.Option(min=0, help="Leave out shorter documents.")] = 20,
    max_chars: Annotated[int, typer.Option(min=1, help="Leave out longer documents.")] = 10_000_000,
    max_repetition: Annotated[
        float, typer.Option(min=1, help="Leave out documents that compress better than so many times.")
    ] = 6.0,
    max_copied_lines: Annotated[
        float, typer.Option(min=0, max=1, help="Leave out documents with more of their text in repeated lines.")
    ] = 0.5,
    script: Annotated[
        str | None, typer.Option(help="Leave out documents not mostly in: latin, han, cyrillic, ... Or several.")
    ] = None,
    min_script: Annotated[float, typer.Option(min=0, max=1, help="The share of letters it must have.")] = 0.5,
    exact_duplicates: Annotated[bool, typer.Option(help="Leave out documents with the text of another.")] = True,
    near_duplicates: Annotated[
        float,
        typer.Option(min=0, max=1, help="Leave out documents that share this much of another, 0.5 to 1; 0: none."),
    ] = 0.8,
    words: Annotated[
        str, typer.Option(help="Chinese words from a segmenter: auto (if installed), yes or no.")
    ] = "auto",
    validation: Annotated[float, typer.Option(min=0, max=0.5, help="The share of documents held out.")] = 0.01,
    shard_tokens: Annotated[int, typer.Option(min=1, help="Tokens in a shard.")] = 2**24,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes. [one for each core]")] = None,
    overwrite: Overwrite = False,
) -> None:
    """Turn raw text into verified training shards.

    Reads plain text, JSON lines, CSV, TSV and Parquet, also compressed (gz, bz2, xz, zst); cleans it, leaves out
    duplicates, splits sentences, encodes. Memory stays small whatever the size. If it is interrupted, the same
    command goes on and ends with the same result. `bertkit info FOLDER` shows the report again.

    \b
    bertkit prepare texts/ -o shards
    bertkit prepare wiki.jsonl.xz 'more/*.txt.gz' --tokenizer MODEL -o shards
    zcat dump.gz | bertkit prepare - --format jsonl --field body -o shards
    bertkit prepare --verify shards
    """
    if verify is not None:
        _verify(verify, inputs)
        return
    if not inputs or out is None:
        raise UsageError("what to read or where to write is missing", "For instance: bertkit prepare texts/ -o shards")
    from bertkit.cli.corpus_bars import CorpusBars
    from bertkit.cli.corpus_report import show_corpus
    from bertkit.corpus.preparing.cleaning import Cleaning
    from bertkit.corpus.preparing.digest import DigestSettings
    from bertkit.corpus.preparing.prepare import Recipe
    from bertkit.corpus.preparing.prepare import prepare as run
    from bertkit.corpus.reading.readers import ReadOptions
    from bertkit.device import usable_threads

    recipe = Recipe(
        digest=DigestSettings(
            read=ReadOptions(
                field=field, documents=documents, encoding=encoding, max_record_bytes=max_record_mb * 2**20
            ),
            cleaning=Cleaning(
                repair=repair,
                html=html,
                controls=controls,
                whitespace=whitespace,
                unwrap=unwrap,
                script=script,
                min_script=min_script,
                min_chars=min_chars,
                max_chars=max_chars,
                max_repetition=max_repetition,
                max_copied_lines=max_copied_lines,
            ),
            segment_chinese=_segment(words),
        ),
        exact_duplicates=exact_duplicates,
        near_duplicates=near_duplicates or None,
        boilerplate=boilerplate or None,
        validation=validation,
        shard_tokens=shard_tokens,
        strict=strict,
    )
    bars = CorpusBars()
    try:
        chosen = _tokenizer(tokenizer, inputs, out, recipe, file_format, vocab_size, overwrite, bars)
        corpus = run(
            inputs,
            chosen,
            out,
            recipe,
            file_format=file_format,
            workers=workers or usable_threads(),
            overwrite=overwrite,
            progress=bars,
        )
    except KeyboardInterrupt:
        raise InterruptionError(
            "interrupted; what was finished is kept", "Give the same command again to go on."
        ) from None
    show_corpus(corpus)
    _remarks(corpus)


def _verify(folder: Path, inputs: list[str] | None) -> None:
    if inputs:
        raise UsageError(f"--verify takes one folder, and {inputs[0]} is given as well", "Leave it out.")
    from bertkit.corpus.folder import CorpusFolder

    corpus = CorpusFolder(folder)
    typer.echo(f"{folder}: all {len(corpus.manifest['files'])} files are as they were written")


def _segment(words: str) -> bool:
    from bertkit.text.chinese import segmenter_installed

    if words not in ("auto", "yes", "no"):
        raise UsageError(f"--words is {words!r}", "It can be auto, yes or no.")
    return words == "yes" or (words == "auto" and segmenter_installed())


def _tokenizer(
    given: Path | None,
    inputs: list[str],
    out: Path,
    recipe: Recipe,
    file_format: str | None,
    vocab_size: int,
    overwrite: bool,
    bars: CorpusBars,
) -> Tokenizer:
    """The tokenizer asked for; or, where an earlier call with the same arguments trained one, that; or a new one."""
    from bertkit.corpus.preparing.resume import require_ours
    from bertkit.text.tokenizer import Tokenizer

    require_ours(out)  # told now, and not after the training
    if given is not None:
        if not given.is_dir():
            raise UsageError(f"--tokenizer {given} is no folder", "Make one: bertkit tokenizer train INPUT -o FOLDER")
        return Tokenizer.open(given)
    earlier = [out / "work" / "tokenizer"] + ([] if overwrite else [out / "tokenizer"])
    for folder in earlier:
        if folder.is_dir():
            tokenizer = Tokenizer.open(folder)
            note(f"going on with the tokenizer learned before, of {tokenizer.vocab_size:,} pieces")
            return tokenizer
    if "-" in inputs:
        raise UsageError("stdin is read once, and a tokenizer has to be there by then", "Name one with --tokenizer.")
    return _train(inputs, out, recipe, file_format, vocab_size, bars)


def _train(
    inputs: list[str], out: Path, recipe: Recipe, file_format: str | None, vocab_size: int, bars: CorpusBars
) -> Tokenizer:
    from bertkit.corpus.preparing.vocabulary import cleaned_sample
    from bertkit.text.recipe import VocabularyRecipe
    from bertkit.text.train import train

    vocabulary = VocabularyRecipe(vocab_size=vocab_size)
    sample = cleaned_sample(inputs, recipe, file_format=file_format, leave_out=out, progress=bars)
    with bars.working("learning a vocabulary"):
        tokenizer, notes = train(sample, vocabulary)
    for message in notes:
        note(message)
    note(f"no --tokenizer was named: {tokenizer.vocab_size:,} pieces were learned from the text (WordPiece, uncased)")
    return tokenizer


def _remarks(corpus: CorpusFolder) -> None:
    """What a person would want to be told without asking."""
    report = corpus.report
    read = report["read"]
    if read["quarantined"] or read["files_left_out"]:
        what = f"{read['quarantined']:,} records could not be read, {read['files_left_out']:,} files are no text"
        note(f"{what}: {corpus.path / 'quarantine.jsonl'}")
    if any(report["dropped"].values()):
        note(f"{sum(report['dropped'].values()):,} documents were left out: {corpus.path / 'dropped.jsonl'}")
    if corpus.manifest["recipe"]["validation"] and not report["kept"]["validation"]["documents"]:
        note("no document fell into the validation share; raise --validation to hold some out")
    unknown, tokens = (sum(split[unit] for split in report["kept"].values()) for unit in ("unknown", "tokens"))
    if unknown > tokens / 100:
        note(f"{unknown / tokens:.1%} of the tokens are unknown: the tokenizer was made for other text")
    if report["chinese_documents"] and report["chinese_words"] != "segmented":
        note("Chinese characters count as words of their own; for whole words: pip install 'bertkit[zh]'")
