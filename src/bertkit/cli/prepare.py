"""`bertkit prepare`: raw text to verified training shards."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from bertkit.cli.options import ENCODING, FORMAT, OVERWRITE, note, quiet
from bertkit.errors import InterruptionError, UsageError
from bertkit.settings import Settings, argument, option

if TYPE_CHECKING:
    from bertkit.corpus.folder import CorpusFolder
    from bertkit.corpus.preparing import Progress, Recipe
    from bertkit.text.tokenizer import Tokenizer

READ, CLEAN, LEAVE_OUT = "what is read", "cleaning", "what is left out"


@dataclass(frozen=True, kw_only=True)
class Preparing(Settings):
    inputs: tuple[str, ...] = argument(
        (), "Files, folders, globs, or - for stdin. All kinds may be mixed.", metavar="INPUT..."
    )
    out: Path | None = option(None, "The folder for the shards.", flags="-o")
    tokenizer: Path | None = option(None, "A tokenizer or model folder. Without it, one is trained on the text first.")
    vocab_size: int = option(30_000, "Its vocabulary, where one is trained.", least=100)
    verify: Path | None = option(None, "Check every byte of a finished folder instead.", metavar="FOLDER")
    field: str = option("text", "The field or column that holds the text.", group=READ)
    file_format: str | None = option(None, FORMAT, flags="--format", usual="by the file's name", group=READ)
    documents: str = option(
        "auto", "In plain text a document is a: file, line or blank-line. auto decides.", group=READ
    )
    encoding: str = option("utf-8", ENCODING, group=READ)
    max_record_mb: int = option(64, "A record larger than this is set aside.", least=1, group=READ)
    strict: bool = option(False, "Stop at the first record that cannot be read; else set it aside.", group=READ)
    repair: bool = option(True, "Mend text decoded wrongly (â€™ for ’).", group=CLEAN)
    html: bool = option(True, "Take out HTML tags, resolve entities.", group=CLEAN)
    controls: bool = option(True, "Take out control and zero-width characters.", group=CLEAN)
    whitespace: bool = option(True, "One space for any run of spaces.", group=CLEAN)
    unwrap: bool = option(True, "Join lines of text that was wrapped at a width.", group=CLEAN)
    boilerplate: int = option(
        20, "Lines that stand in so many documents, 2 or more; 0: none.", least=0, group=LEAVE_OUT
    )
    min_chars: int = option(20, "Shorter documents.", least=0, group=LEAVE_OUT)
    max_chars: int = option(10_000_000, "Longer documents.", least=1, group=LEAVE_OUT)
    max_repetition: float = option(6.0, "Documents that compress better than so many times.", least=1, group=LEAVE_OUT)
    max_copied_lines: float = option(
        0.5, "Documents with more of their text in repeated lines.", least=0, most=1, group=LEAVE_OUT
    )
    script: str | None = option(None, "Documents not mostly in: latin, han, cyrillic, ... Or several.", group=LEAVE_OUT)
    min_script: float = option(0.5, "The share of letters it must have.", least=0, most=1, group=LEAVE_OUT)
    exact_duplicates: bool = option(True, "Documents with the text of another.", group=LEAVE_OUT)
    near_duplicates: float = option(
        0.8, "Documents that share this much of another, 0.5 to 1; 0: none.", least=0, most=1, group=LEAVE_OUT
    )
    words: str = option(
        "auto", "Chinese words from a segmenter: auto (if installed), yes or no.", choices=("auto", "yes", "no")
    )
    validation: float = option(0.01, "The share of documents held out.", least=0, most=0.5)
    shard_tokens: int = option(2**24, "Tokens in a shard.", least=1)
    workers: int | None = option(None, "Processes.", least=1, usual="one for each core")
    overwrite: bool = option(False, OVERWRITE)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.verify is not None and self.inputs:
            raise UsageError(f"`verify` takes one folder, and {self.inputs[0]} is given as well", "Leave it out.")
        if self.verify is None and (not self.inputs or self.out is None):
            raise UsageError(
                "what to read or where to write is missing", "For instance: bertkit prepare texts/ -o shards"
            )

    def recipe(self) -> Recipe:
        from bertkit.corpus.cleaning import Cleaning
        from bertkit.corpus.digest import DigestSettings
        from bertkit.corpus.preparing import Recipe
        from bertkit.corpus.reading.readers import ReadOptions
        from bertkit.text.chinese import segmenter_installed

        return Recipe(
            digest=DigestSettings(
                read=ReadOptions(
                    field=self.field,
                    documents=self.documents,
                    encoding=self.encoding,
                    max_record_bytes=self.max_record_mb * 2**20,
                ),
                cleaning=Cleaning(**{each.name: getattr(self, each.name) for each in fields(Cleaning)}),
                segment_chinese=self.words == "yes" or (self.words == "auto" and segmenter_installed()),
            ),
            exact_duplicates=self.exact_duplicates,
            near_duplicates=self.near_duplicates or None,
            boilerplate=self.boilerplate or None,
            validation=self.validation,
            shard_tokens=self.shard_tokens,
            strict=self.strict,
        )


def prepare(asked: Preparing) -> None:
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
    corpus = prepared(asked)
    if asked.verify is not None:
        typer.echo(f"{asked.verify}: all {len(corpus.manifest['files'])} files are as they were written")
        return
    from bertkit.cli.corpus_report import show_corpus

    show_corpus(corpus)
    _remarks(corpus)


def prepared(asked: Preparing) -> CorpusFolder:
    """The corpus, made or gone on with; or checked, if that is what is asked."""
    from bertkit.corpus.folder import CorpusFolder

    if asked.verify is not None or asked.out is None:
        return CorpusFolder(asked.verify or Path())
    from bertkit.cli.corpus_bars import CorpusBars
    from bertkit.corpus.preparing import Progress
    from bertkit.corpus.preparing import prepare as run
    from bertkit.device import usable_threads

    bars, recipe = Progress() if quiet() else CorpusBars(), asked.recipe()
    try:
        return run(
            asked.inputs,
            _tokenizer(asked, asked.out, recipe, bars),
            asked.out,
            recipe,
            file_format=asked.file_format,
            workers=asked.workers or usable_threads(),
            overwrite=asked.overwrite,
            progress=bars,
        )
    except KeyboardInterrupt:
        raise InterruptionError(
            "interrupted; what was finished is kept", "Give the same command again to go on."
        ) from None


def _tokenizer(asked: Preparing, out: Path, recipe: Recipe, bars: Progress) -> Tokenizer:
    """The tokenizer asked for; or, where an earlier call with the same arguments trained one, that; or a new one."""
    from bertkit.corpus.resume import require_ours
    from bertkit.text.tokenizer import Tokenizer

    require_ours(out)  # told now, and not after the training
    if asked.tokenizer is not None:
        if not asked.tokenizer.is_dir():
            raise UsageError(
                f"`tokenizer={asked.tokenizer}` is no folder", "Make one: bertkit tokenizer train INPUT -o FOLDER"
            )
        return Tokenizer.open(asked.tokenizer)
    earlier = [out / "work" / "tokenizer"] + ([] if asked.overwrite else [out / "tokenizer"])
    for folder in earlier:
        if folder.is_dir():
            tokenizer = Tokenizer.open(folder)
            note(f"going on with the tokenizer learned before, of {tokenizer.vocab_size:,} pieces")
            return tokenizer
    if "-" in asked.inputs:
        raise UsageError("stdin is read once, and a tokenizer has to be there by then", "Name one with `tokenizer`.")
    from bertkit.corpus.preparing import cleaned_sample
    from bertkit.text.recipe import VocabularyRecipe
    from bertkit.text.train import train

    vocabulary = VocabularyRecipe(vocab_size=asked.vocab_size)
    sample = cleaned_sample(asked.inputs, recipe, file_format=asked.file_format, leave_out=out, progress=bars)
    with bars.working("learning a vocabulary"):
        tokenizer, notes = train(sample, vocabulary)
    for message in notes:
        note(message)
    note(f"no `tokenizer` was named: {tokenizer.vocab_size:,} pieces were learned from the text (WordPiece, uncased)")
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
        note("no document fell into the validation share; raise `validation` to hold some out")
    unknown, tokens = (sum(split[unit] for split in report["kept"].values()) for unit in ("unknown", "tokens"))
    if unknown > tokens / 100:
        note(f"{unknown / tokens:.1%} of the tokens are unknown: the tokenizer was made for other text")
    if report["chinese_documents"] and report["chinese_words"] != "segmented":
        note("Chinese characters count as words of their own; for whole words: pip install 'bertkit[zh]'")
