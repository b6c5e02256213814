"""What `bertkit words train` can be told. Nothing here computes, or opens a library, so that help need not wait."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bertkit.errors import UsageError
from bertkit.settings import Settings, argument, defaults_of, option

if TYPE_CHECKING:
    from bertkit.words.stream import Reading

ONE_HOT = "one-hot"
LEARNED = ("skip-gram", "cbow", "glove", "nnlm", ONE_HOT)
TEXT, LEARNING, WINDOWS, GLOVE, NNLM, MACHINE = (
    *("the text", "learning", "skip-gram and cbow", "glove", "nnlm"),
    "the machine",
)
EPOCHS = {"skip-gram": 5, "cbow": 5, "glove": 15, "nnlm": 5, ONE_HOT: 0}
RATES = {"skip-gram": 0.025, "cbow": 0.05, "glove": 0.05, "nnlm": 1e-3, ONE_HOT: 0.0}
MOST_WORDS = {"nnlm": 10_000, ONE_HOT: 20_000}
OWN = {
    **dict.fromkeys(("negative", "hierarchical", "shared", "sample", "subwords"), ("skip-gram", "cbow")),
    **dict.fromkeys(("shortest_ngram", "longest_ngram", "buckets"), ("skip-gram", "cbow")),
    **dict.fromkeys(("x_max", "alpha", "memory_mb"), ("glove",)),
    **dict.fromkeys(("order", "hidden", "direct"), ("nnlm",)),
    "window": ("skip-gram", "cbow", "glove"),
}
"""Which methods have a setting; the others refuse it."""


@dataclass(frozen=True, kw_only=True)
class TrainingWords(Settings):
    inputs: tuple[str, ...] = argument(
        ..., "Files, folders, globs, or - for stdin, of all kinds that `bertkit prepare` reads.", metavar="TEXT..."
    )
    out: Path = option(..., "The folder for the vectors.", flags="-o", metavar="VECTORS")
    method: str = option("skip-gram", "skip-gram, cbow, glove, nnlm or one-hot.", choices=LEARNED)
    overwrite: bool = option(False, "Replace what is already there.")
    dimension: int = option(100, "Numbers of a vector.", least=1, most=65_536, group=LEARNING)
    window: int | None = option(
        None,
        "Words on either side, of which each window takes some; GloVe all.",
        least=1,
        most=500,
        usual="5; glove 10",
        group=LEARNING,
    )
    epochs: int | None = option(None, "Passes over the text.", least=1, usual="5; glove 15", group=LEARNING)
    learning_rate: float | None = option(
        None,
        "The first; it goes down to nothing.",
        above=0,
        usual="0.025; cbow, glove 0.05; nnlm 0.001",
        group=LEARNING,
    )
    seed: int = option(0, "With one thread the result is the same to the bit.", least=0, group=LEARNING)
    min_count: int = option(5, "Rarer words are left out.", least=1, group=TEXT)
    max_words: int | None = option(
        None, "Only so many, the commonest.", least=2, usual="all; nnlm 10,000, one-hot 20,000", group=TEXT
    )
    cased: bool = option(False, "Keep case.", group=TEXT)
    phrases: int = option(
        0, "Join pairs of words that belong together, so many times: new york.", least=0, most=5, group=TEXT
    )
    phrase_threshold: float = option(100.0, "How much more often together than by chance.", above=0, group=TEXT)
    field: str = option("text", "The field or column that holds the text.", group=TEXT)
    file_format: str | None = option(
        None, "text, jsonl, csv, tsv or parquet.", flags="--format", usual="by the file's name", group=TEXT
    )
    documents: str = option(
        "auto", "In plain text a document is a: file, line or blank-line. auto decides.", group=TEXT
    )
    encoding: str = option("utf-8", "Of text without a byte-order mark: gb18030, windows-1252, ...", group=TEXT)
    min_chars: int = option(0, "Shorter documents are left out.", least=0, group=TEXT)
    negative: int = option(5, "Words drawn by chance for each that is there.", least=1, most=1000, group=WINDOWS)
    hierarchical: bool = option(False, "A Huffman tree in place of words drawn.", group=WINDOWS)
    shared: bool = option(
        True, "Draw once for a window (CBOW: for four); else for each pair, as word2vec.", group=WINDOWS
    )
    sample: float = option(
        1e-3,
        "Words that are more than this share of all are left out now and then; 0: none.",
        least=0,
        most=1,
        group=WINDOWS,
    )
    subwords: bool = option(False, "Learn character n-grams too: vectors for words never seen.", group=WINDOWS)
    shortest_ngram: int = option(3, "Characters.", least=1, most=20, group=WINDOWS)
    longest_ngram: int = option(6, "Characters.", least=1, most=20, group=WINDOWS)
    buckets: int = option(
        200_000, "Rows that all n-grams share; fastText has 2,000,000.", least=1, most=50_000_000, group=WINDOWS
    )
    x_max: float | None = option(
        None,
        "Pairs that come more often count no more.",
        above=0,
        usual="100; of fewer than 100 million words 10",
        group=GLOVE,
    )
    alpha: float = option(0.75, "How fast rarer pairs count less.", least=0, most=10, group=GLOVE)
    memory_mb: int = option(512, "For counting pairs; what is more lies on disk.", least=16, group=GLOVE)
    order: int = option(5, "A word and those before it that it is guessed from.", least=2, most=20, group=NNLM)
    hidden: int = option(64, "Units of the hidden layer.", least=1, most=65_536, group=NNLM)
    direct: bool = option(False, "Connections from the words to the output beside it.", group=NNLM)
    threads: int | None = option(
        None, "How many; more than one: not the same to the bit.", least=1, usual="all cores", group=MACHINE
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        usual = defaults_of(type(self))
        for name, methods in OWN.items():
            if self.method not in methods and getattr(self, name) != usual[name]:
                raise UsageError(f"`{name}` with {self.method}", f"It is for {' and '.join(methods)}.")
        if self.method == ONE_HOT and (self.epochs or self.learning_rate or self.dimension != usual["dimension"]):
            raise UsageError(
                "`epochs`, `learning_rate` or `dimension` with one-hot",
                "Nothing is learned there, and a vector has a number for each word: leave them out.",
            )
        if self.shortest_ngram > self.longest_ngram:
            raise UsageError(
                f"n-grams of {self.shortest_ngram} to {self.longest_ngram} characters", "Give the shorter one first."
            )

    @property
    def reach(self) -> int:
        return self.window or (10 if self.method == "glove" else 5)

    @property
    def passes(self) -> int:
        return self.epochs or EPOCHS[self.method]

    @property
    def rate(self) -> float:
        return self.learning_rate or RATES[self.method]

    def reading(self) -> Reading:
        from bertkit.corpus.cleaning import Cleaning
        from bertkit.corpus.reading.readers import ReadOptions
        from bertkit.words.stream import Reading

        return Reading(
            read=ReadOptions(field=self.field, documents=self.documents, encoding=self.encoding),
            cleaning=Cleaning(min_chars=self.min_chars),
            file_format=self.file_format,
            lowercase=not self.cased,
            min_count=self.min_count,
            max_words=self.max_words or MOST_WORDS.get(self.method),
            phrases=self.phrases,
            phrase_threshold=self.phrase_threshold,
        )

    def facts(self) -> dict[str, Any]:
        """What the method was told, for people and for going on."""
        text = ("inputs", "out", "overwrite", "threads", "field", "file_format", "documents", "encoding", "min_chars")
        named = {each.name: getattr(self, each.name) for each in fields(self) if each.name not in text}
        mine = {name: value for name, value in named.items() if self.method in OWN.get(name, (self.method,))}
        if "window" in mine:
            mine["window"] = self.reach
        return {**mine, "epochs": self.passes, "learning_rate": self.rate}
