"""The report on a prepared corpus, for people as tables and pictures of letters, for programs as JSON."""

from __future__ import annotations

from itertools import dropwhile
from typing import Any

from bertkit.cli.options import emit, for_people
from bertkit.corpus.folder import SPLITS, CorpusFolder

SAMPLES = 3
SAMPLE_TOKENS = 60
BAR = 40


def show_corpus(corpus: CorpusFolder) -> None:
    samples = decoded_samples(corpus)
    if for_people():
        _show(corpus, samples)
    else:
        emit({"folder": str(corpus.path), **corpus.report, "samples": samples})


def decoded_samples(corpus: CorpusFolder, seed: int = 0) -> list[str]:
    """The beginnings of a few documents, drawn at random, decoded back from their tokens."""
    import random

    shards = [shard for split in SPLITS for shard in corpus.shards(split)]
    draw = random.Random(seed)  # noqa: S311 - a choice of samples, not a secret
    texts = []
    for shard in draw.choices(shards, weights=[len(shard) for shard in shards], k=SAMPLES):
        first, last = shard.sentences_of(draw.randrange(len(shard)))
        start, stop = shard.tokens_of(first)[0], shard.tokens_of(last - 1)[1]
        text = corpus.tokenizer.decode(shard.tokens[start : min(stop, start + SAMPLE_TOKENS)].tolist())
        texts.append(text + (" …" if stop - start > SAMPLE_TOKENS else ""))
    return texts


def _show(corpus: CorpusFolder, samples: list[str]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console, report = Console(), corpus.report
    console.print(Text(f"{corpus.path}: a prepared corpus", style="bold"))

    kept = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    kept.add_column("")
    for column in ("documents", "sentences", "words", "tokens", "unknown tokens"):
        kept.add_column(column, justify="right")
    for split, held in report["kept"].items():
        values = [held[unit] for unit in ("documents", "sentences", "words", "tokens", "unknown")]
        kept.add_row(split, *(f"{value:,}" for value in values))
    console.print(kept)

    facts = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    facts.add_column(style="dim", no_wrap=True)
    facts.add_column(overflow="fold")
    for name, value in _facts(corpus, report):
        facts.add_row(name, Text(value))
    console.print(facts)
    for title, key in (("tokens in a document", "document_tokens"), ("tokens in a sentence", "sentence_tokens")):
        console.print(_histogram(title, report[key]))
    console.print(Text("samples, decoded back", style="dim"))
    for sample in samples:
        console.print(Text(f"  {sample}"))


def _facts(corpus: CorpusFolder, report: dict[str, Any]) -> list[tuple[str, str]]:
    read, boilerplate, tokenizer = report["read"], report["boilerplate"], corpus.tokenizer
    cleaned = [
        f"{step} {counts['characters']:,} characters in {counts['documents']:,} documents"
        for step, counts in report["cleaned"].items()
        if counts["documents"]
    ]
    dropped = [f"{count:,} {reason}" for reason, count in report["dropped"].items() if count]
    return [
        ("read", f"{read['documents']:,} documents, {read['bytes'] / 1e6:,.1f} MB, {read['characters']:,} characters"),
        (
            "set aside",
            f"{read['quarantined']:,} records that could not be read, {read['files_left_out']:,} files without text",
        ),
        ("cleaned", "\n".join(cleaned) or "nothing had to be"),
        ("repeated lines", f"{boilerplate['lines']:,} lines left out, {boilerplate['different lines']:,} different"),
        ("left out", "\n".join(dropped) + " (dropped.jsonl)" if dropped else "no document"),
        ("Chinese words", report["chinese_words"]),
        ("on disk", f"{report['bytes_per_token']:.2f} bytes a token in {len(corpus.manifest['shards'])} shards"),
        ("tokenizer", f"{tokenizer.kind}, {tokenizer.vocab_size:,} pieces, {corpus.manifest['tokenizer']}"),
    ]


def _histogram(title: str, counts: dict[str, int]) -> Any:
    from rich.table import Table

    table = Table(box=None, padding=(0, 1, 0, 0), header_style="dim", title_justify="left")
    table.add_column(title, justify="right", no_wrap=True)
    table.add_column("")
    table.add_column("", justify="right")
    highest = max(counts.values())
    for span, count in dropwhile(lambda entry: entry[1] == 0, counts.items()):
        table.add_row(span, "█" * round(BAR * count / highest) or ("▏" if count else ""), f"{count:,}")
    return table
