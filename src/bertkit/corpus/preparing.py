"""Raw text to shards, in three stages, each of which an interruption may end at any moment:

    read     blocks of the input go to workers, what comes back is kept in parts of some megabytes (work/part-N)
    choose   duplicates and boilerplate are found by sorting hashes over all parts
    write    the documents that stay are copied into shards (work/finished); all of it is moved to its place at the end

Every file appears whole or not at all, and each is a function of the input and the recipe alone. So the same command,
given again, finds what is there, goes on behind it, and ends with the same bytes as if nothing had happened.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import bertkit
from bertkit.corpus.assemble import write_shards
from bertkit.corpus.choosing import Choice, choose
from bertkit.corpus.cleaning import clean
from bertkit.corpus.digest import Digester, DigestSettings, unknown_token
from bertkit.corpus.folder import FORMAT, MANIFEST, CorpusFolder
from bertkit.corpus.parts import Cursor, Digest, Parts, check_part, open_part, part_paths, save_part
from bertkit.corpus.reading.readers import STDIN, texts_of
from bertkit.corpus.reading.sources import NotText, Source, find_sources, shown
from bertkit.corpus.report import drops, make_report, write_dropped, write_quarantine, write_sources
from bertkit.corpus.resume import FINISHED, begin, blocks_from, claim, install, source_facts
from bertkit.corpus.workers import digest_blocks
from bertkit.errors import InputError, UsageError, WriteError
from bertkit.files import atomic_folder, sha256_of, write_sealed
from bertkit.text.chinese import require_segmenter
from bertkit.text.sample import Sample, draw_sample
from bertkit.text.tokenizer import Tokenizer

PART_BYTES = 32 * 2**20
"""Text read for one part: what an interruption may cost. Of very short documents less, as a part holds more of them."""

LIBRARIES = ("ftfy", "rensa", "rjieba", "tokenizers", "zstandard")
"""What has a say in the result, so that a run is not finished with other versions than it was begun with."""


@dataclass(frozen=True)
class Recipe:
    """All that decides what the shards will hold, apart from the text and the tokenizer."""

    digest: DigestSettings = field(default_factory=DigestSettings)
    exact_duplicates: bool = True
    near_duplicates: float | None = 0.8
    """The Jaccard index of word sequences from which on two documents are nearly the same; None: they all stay."""
    boilerplate: int | None = 20
    """A line in so many documents is boilerplate; None: all lines stay."""
    validation: float = 0.01
    shard_tokens: int = 2**24
    strict: bool = False

    def __post_init__(self) -> None:
        if self.near_duplicates is not None and not 0.5 <= self.near_duplicates <= 1:
            raise UsageError(f"near duplicates are asked for from {self.near_duplicates} on", "Choose 0.5 to 1.")
        if self.boilerplate is not None and self.boilerplate < 2:
            raise UsageError(f"boilerplate is a line in {self.boilerplate} documents", "Choose 2 or more.")
        if not 0 <= self.validation < 1:
            raise UsageError(f"the validation share is {self.validation}", "Choose 0 or more, and less than 1.")
        if not 1 <= self.shard_tokens <= 2**28:
            raise UsageError(f"a shard of {self.shard_tokens} tokens", "Choose 1 or more, and at most 2 to the 28th.")
        if self.digest.segment_chinese:
            require_segmenter()


class ReadingProgress:
    def read(self, count: int) -> None:
        """So many more bytes of the files on disk were read."""

    def digested(self, count: int, documents: int) -> None:
        """So many more bytes of text, and documents, are done."""


class Progress:
    """What a long preparation tells while it works. Here it tells nobody; the command line draws bars."""

    @contextmanager
    def reading(
        self,
        total: int | None,  # noqa: ARG002
        title: str = "reading and encoding",  # noqa: ARG002
    ) -> Iterator[ReadingProgress]:
        """The stage that takes nearly all the time; `total` bytes are to be read, if that is known."""
        yield ReadingProgress()

    @contextmanager
    def working(self, title: str) -> Iterator[None]:  # noqa: ARG002
        """A stage that takes little time."""
        yield


def prepare(
    inputs: Sequence[str],
    tokenizer: Tokenizer,
    out: Path,
    recipe: Recipe | None = None,
    *,
    file_format: str | None = None,
    workers: int = 1,
    part_bytes: int = PART_BYTES,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> CorpusFolder:
    """Turn texts into a folder of shards, or finish what an interrupted call with the same arguments began."""
    recipe = recipe or Recipe()
    recipe = replace(recipe, digest=replace(recipe.digest, near_duplicates=recipe.near_duplicates is not None))
    progress, out = progress or Progress(), Path(out)
    sources, not_text = find_sources(inputs, format=file_format, encoding=recipe.digest.read.encoding, leave_out=out)
    if recipe.strict and not_text:
        raise InputError(f"{not_text[0].path}: {not_text[0].reason}", "Leave it out, or do without `strict=True`.")
    if not sources:
        first = f": {not_text[0].path}: {not_text[0].reason}" if not_text else ""
        raise InputError(f"no text in {', '.join(inputs)}{first}", "Name files or folders that hold text.")
    plan = _plan(recipe, tokenizer, sources, not_text)
    with claim(out) as work:
        if (work / FINISHED / MANIFEST).exists():  # only the move was interrupted
            install(work, out)
        if (out / MANIFEST).exists() and not overwrite:
            return _already_there(out, plan, sources, recipe)
        begin(work, plan, overwrite=overwrite)
        with atomic_folder(work / "tokenizer", overwrite=True) as folder:
            tokenizer.save(folder)
        cursor = _read(work, sources, recipe, workers, part_bytes, progress)
        parts, finished = Parts(work), work / FINISHED
        finished.mkdir(exist_ok=True)
        choice = _choose(parts, recipe, tokenizer, work / "signatures", progress)
        with progress.working("writing shards"):
            shards = write_shards(
                finished,
                parts,
                choice,
                validation=recipe.validation,
                shard_tokens=recipe.shard_tokens,
                tokenizer_hash=plan["tokenizer"],
            )
        if not shards:
            raise _nothing_left(choice, parts, not_text)
        _finish(finished, tokenizer, {**plan, "cursor": asdict(cursor)}, shards, parts, choice, sources, not_text)
        install(work, out)
    return CorpusFolder(out, verify=False)


def _plan(
    recipe: Recipe, tokenizer: Tokenizer, sources: Sequence[Source], not_text: Sequence[NotText]
) -> dict[str, Any]:
    """What decides the result, and is the same when a run goes on."""
    facts = [source_facts(source) for source in sources] + [
        {"path": shown(entry.path), "reason": entry.reason} for entry in not_text
    ]
    versions = {"bertkit": bertkit.__version__}
    for name in LIBRARIES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {
        "format": FORMAT,
        "recipe": asdict(recipe),
        "tokenizer": tokenizer.sha256(),
        "sources": {"files": len(facts), "sha256": hashlib.sha256(json.dumps(facts).encode()).hexdigest()},
        "versions": versions,
    }


def _already_there(out: Path, plan: dict[str, Any], sources: Sequence[Source], recipe: Recipe) -> CorpusFolder:
    corpus = CorpusFolder(out)
    other = WriteError(
        f"{out} holds a corpus made from other text or with other settings",
        "Choose another place or add `overwrite=True`.",
    )
    if any(corpus.manifest.get(key) != plan[key] for key in ("recipe", "tokenizer", "sources")):
        raise other
    if any(source.path == STDIN for source in sources):  # only its content tells whether it is the same
        for _ in blocks_from(Cursor(**corpus.manifest["cursor"]), sources, recipe.digest.read, lambda _: None):
            raise other
    return corpus


def _read(
    work: Path, sources: Sequence[Source], recipe: Recipe, workers: int, part_bytes: int, progress: Progress
) -> Cursor:
    """Stage one: parts, from the first that is missing on. Gives the place behind the last block."""
    parts = part_paths(work)
    for part in parts:
        check_part(part)
    cursor = open_part(parts[-1]).cursor if parts else Cursor()
    if cursor.finished:
        return cursor
    number = len(parts)
    total = sum(source.size for source in sources if source.size is not None)
    with progress.reading(total if all(source.size is not None for source in sources) else None) as bar:
        blocks = blocks_from(cursor, sources, recipe.digest.read, bar.read)
        gathered: list[Digest] = []
        text = memory = 0
        with closing(digest_blocks(blocks, work / "tokenizer", sources, recipe.digest, workers)) as digests:
            for digest, position in digests:
                if recipe.strict and digest.problems:
                    raise _first_problem(json.loads(digest.problems.split(b"\n", 1)[0]))
                gathered.append(digest)
                cursor, text, memory = position, text + digest.bytes_read, memory + digest.size
                bar.digested(digest.bytes_read, len(digest.documents))
                if text >= part_bytes or memory >= 2 * part_bytes:
                    save_part(work, number, Digest.join(gathered), cursor)
                    number, gathered, text, memory = number + 1, [], 0, 0
        empty = Digester(sources, Tokenizer.open(work / "tokenizer"), recipe.digest).nothing()
        cursor = replace(cursor, finished=True)
        save_part(work, number, Digest.join([empty, *gathered]), cursor)
    return cursor


def _first_problem(problem: dict[str, Any]) -> InputError:
    unit = "row" if problem["file"].endswith(".parquet") else "line"
    place = f"{problem['file']}, {unit} {problem['line']}" if problem["line"] else problem["file"]
    remedy = problem["remedy"] or "Mend it, or do without `strict=True`: it is then set aside."
    return InputError(f"{place}: {problem['reason']}", remedy)


def _choose(parts: Parts, recipe: Recipe, tokenizer: Tokenizer, scratch: Path, progress: Progress) -> Choice:
    with progress.working("finding duplicates and repeated lines"):
        return choose(
            parts,
            exact=recipe.exact_duplicates,
            near=recipe.near_duplicates,
            boilerplate=recipe.boilerplate,
            min_characters=recipe.digest.cleaning.min_chars,
            unknown=unknown_token(tokenizer),
            scratch=scratch,
        )


def _finish(
    finished: Path,
    tokenizer: Tokenizer,
    plan: dict[str, Any],
    shards: Sequence[tuple[str, str]],
    parts: Parts,
    choice: Choice,
    sources: Sequence[Source],
    not_text: Sequence[NotText],
) -> None:
    """Everything beside the shards; the manifest last."""
    shutil.rmtree(finished / "tokenizer", ignore_errors=True)
    with atomic_folder(finished / "tokenizer") as folder:
        tokenizer.save(folder)
    write_sources(finished / "sources.jsonl", sources)
    write_quarantine(finished / "quarantine.jsonl", not_text, parts)
    write_dropped(finished / "dropped.jsonl", parts, choice, sources)
    segmented = plan["recipe"]["digest"]["segment_chinese"]
    report, entries = make_report(finished, shards, parts, choice, tokenizer, segmented, len(not_text))
    files = [name for _, name in shards] + ["sources.jsonl", "quarantine.jsonl", "dropped.jsonl"]
    files += [f"tokenizer/{file.name}" for file in sorted((finished / "tokenizer").iterdir())]
    hashes = {name: sha256_of(finished / name) for name in files}
    write_sealed(finished / MANIFEST, {**plan, "report": report, "shards": entries, "files": hashes})


def _nothing_left(choice: Choice, parts: Parts, not_text: Sequence[NotText]) -> InputError:
    """Why there is not one document to write."""
    counts = parts.counts()
    if counts["documents"] == 0:
        first = next((json.loads(one.problems.split(b"\n", 1)[0]) for one in parts.digests() if one.problems), None)
        reason = _first_problem(first) if first else InputError(f"{not_text[0].path}: {not_text[0].reason}")
        problem = f"none of {counts['quarantined']} records could be read; the first: {reason.problem}"
        return InputError(problem, reason.remedy)
    reasons = ", ".join(f"{count} {reason}" for reason, count in drops(choice).items() if count)
    problem = f"all {counts['documents']} documents were left out: {reasons}"
    return InputError(problem, "Loosen the cleaning that took them.")


def cleaned_sample(
    inputs: Sequence[str], recipe: Recipe, *, file_format: str | None, leave_out: Path, progress: Progress
) -> Sample:
    """The text a vocabulary is learned from, read and cleaned as it will be for the shards. Records that cannot be read
    are passed over: they are told when the shards are made, in their places."""
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
