"""Raw text to shards, in three stages, each of which an interruption may end at any moment:

    read     blocks of the input go to workers, what comes back is kept in parts of some megabytes (work/part-N)
    choose   duplicates and boilerplate are found by sorting hashes over all parts
    write    the documents that stay are copied into shards; then the manifest; then the parts are deleted

Every file appears whole or not at all, and each is a function of the input and the recipe alone. So the same command,
given again, finds what is there, goes on behind it, and ends with the same bytes as if nothing had happened.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from bertkit.corpus.folder import FORMAT, MANIFEST, SPLITS, CorpusFolder
from bertkit.corpus.preparing.assemble import Choice, choose, write_shards
from bertkit.corpus.preparing.digest import Digester, DigestSettings
from bertkit.corpus.preparing.documents import Cursor, Digest, PartFiles, open_part, part_paths, save_part
from bertkit.corpus.preparing.progress import Progress
from bertkit.corpus.preparing.report import drops, make_report, write_dropped, write_quarantine
from bertkit.corpus.preparing.resume import blocks_from, claim, require_same_plan, source_facts
from bertkit.corpus.preparing.workers import digest_blocks
from bertkit.corpus.reading.sources import NotText, Source, find_sources
from bertkit.errors import InputError, UsageError, WriteError
from bertkit.files import atomic_file, atomic_folder, sha256_of, to_json
from bertkit.text.chinese import require_segmenter
from bertkit.text.tokenizer import Tokenizer

PART_BYTES = 32 * 2**20
"""Text read for one part: what an interruption may cost."""


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
        if self.shard_tokens < 1:
            raise UsageError(f"a shard of {self.shard_tokens} tokens", "Choose 1 or more.")
        if self.digest.segment_chinese:
            require_segmenter()


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
    progress = progress or Progress()
    sources, not_text = find_sources(inputs, format=file_format, encoding=recipe.digest.read.encoding)
    if recipe.strict and not_text:
        raise InputError(f"{not_text[0].path}: {not_text[0].reason}", "Leave it out, or do without --strict.")
    if not sources:
        raise InputError(f"no text in {', '.join(inputs)}: {not_text[0].path}: {not_text[0].reason}")
    plan = {
        "format": FORMAT,
        "recipe": asdict(recipe),
        "tokenizer": tokenizer.sha256(),
        "sources": [source_facts(source) for source in sources],
        "not_text": [entry._asdict() for entry in not_text],
    }
    out = Path(out)
    with claim(out, overwrite=overwrite) as work:
        if (out / MANIFEST).exists():
            return _already_there(out, plan, work)
        require_same_plan(work / "plan.json", plan)
        with atomic_folder(work / "tokenizer", overwrite=True) as folder:
            tokenizer.save(folder)
        _read(work, sources, recipe, workers, part_bytes, progress)
        parts = PartFiles(work)
        choice = _choose(parts, recipe, progress)
        shards = _write(out, parts, choice, recipe, tokenizer.sha256(), progress)
        _finish(out, tokenizer, plan, shards, parts, choice, sources, not_text, recipe)
        shutil.rmtree(work)
    return CorpusFolder(out, verify=False)


def _already_there(out: Path, plan: dict[str, Any], work: Path) -> CorpusFolder:
    shutil.rmtree(work, ignore_errors=True)
    corpus = CorpusFolder(out)
    if any(corpus.manifest.get(key) != value for key, value in plan.items()):
        raise WriteError(
            f"{out} holds a corpus made from other text or with other settings",
            "Choose another place or add --overwrite.",
        )
    return corpus


def _read(
    work: Path, sources: Sequence[Source], recipe: Recipe, workers: int, part_bytes: int, progress: Progress
) -> None:
    """Stage one: parts, from the first that is missing on."""
    parts = part_paths(work)
    last = open_part(parts[-1]) if parts else None
    cursor = last.cursor if last else Cursor()
    if cursor.finished:
        return
    number = len(parts)
    total = sum(source.size for source in sources if source.size is not None)
    with progress.reading(total if all(source.size is not None for source in sources) else None) as bar:
        blocks = blocks_from(cursor, sources, recipe.digest.read, bar.read)
        gathered: list[Digest] = []
        with closing(digest_blocks(blocks, work / "tokenizer", sources, recipe.digest, workers)) as digests:
            for digest, position in digests:
                if recipe.strict and digest.problems:
                    raise _first_problem(digest.problems[0])
                gathered.append(digest)
                cursor = position
                bar.digested(digest.bytes_read, len(digest.documents))
                if sum(one.bytes_read for one in gathered) >= part_bytes:
                    save_part(work / f"part-{number:06}.safetensors", Digest.join(gathered), cursor)
                    number, gathered = number + 1, []
        empty = Digester(sources, Tokenizer.open(work / "tokenizer"), recipe.digest).nothing()
        save_part(
            work / f"part-{number:06}.safetensors", Digest.join([empty, *gathered]), replace(cursor, finished=True)
        )


def _first_problem(problem: dict[str, Any]) -> InputError:
    place = f"{problem['file']}, line {problem['line']}" if problem["line"] else problem["file"]
    remedy = problem["remedy"] or "Mend it, or do without --strict: it is then set aside."
    return InputError(f"{place}: {problem['reason']}", remedy)


def _choose(parts: PartFiles, recipe: Recipe, progress: Progress) -> Choice:
    with progress.working("finding duplicates and repeated lines"):
        return choose(
            parts.documents,
            exact=recipe.exact_duplicates,
            near=recipe.near_duplicates,
            boilerplate=recipe.boilerplate,
            min_characters=recipe.digest.cleaning.min_chars,
        )


def _write(
    out: Path, parts: PartFiles, choice: Choice, recipe: Recipe, tokenizer_hash: str, progress: Progress
) -> list[tuple[str, str]]:
    def names() -> Iterator[tuple[str, str]]:
        for split in SPLITS:
            for name in write_shards(
                out,
                split,
                parts.documents,
                choice,
                validation=recipe.validation,
                shard_tokens=recipe.shard_tokens,
                tokenizer_hash=tokenizer_hash,
            ):
                yield split, name

    with progress.working("writing shards"):
        return list(names())


def _finish(
    out: Path,
    tokenizer: Tokenizer,
    plan: dict[str, Any],
    shards: Sequence[tuple[str, str]],
    parts: PartFiles,
    choice: Choice,
    sources: Sequence[Source],
    not_text: Sequence[NotText],
    recipe: Recipe,
) -> None:
    """Everything beside the shards; the manifest last."""
    counts: Counter[str] = Counter()
    for part in parts:
        counts.update(part.counts)
    quarantined = write_quarantine(out / "quarantine.jsonl", not_text, parts)
    if not shards:
        raise InputError(*_nothing_left(counts, choice, quarantined, out))
    with atomic_folder(out / "tokenizer", overwrite=True) as folder:
        tokenizer.save(folder)
    write_dropped(out / "dropped.jsonl", parts, choice, sources)
    report, entries = make_report(
        out, shards, parts, choice, counts, tokenizer, recipe.digest.segment_chinese, len(not_text)
    )
    files = [name for _, name in shards] + ["quarantine.jsonl", "dropped.jsonl"]
    files += [f"tokenizer/{file.name}" for file in sorted((out / "tokenizer").iterdir())]
    hashes = {name: sha256_of(out / name) for name in files}
    with atomic_file(out / MANIFEST) as file:
        file.write(to_json({**plan, "report": report, "shards": entries, "files": hashes}).encode())


def _nothing_left(counts: Counter[str], choice: Choice, quarantined: int, out: Path) -> tuple[str, str]:
    """Why there is not one document to write."""
    if counts["documents"] == 0:
        return (
            f"none of {quarantined} records could be read",
            f"{out / 'quarantine.jsonl'} says why for each; often --field or --format is wrong.",
        )
    reasons = ", ".join(f"{count} {reason}" for reason, count in drops(choice).items() if count)
    return f"all {counts['documents']} documents were left out: {reasons}", "Loosen the cleaning that took them."
