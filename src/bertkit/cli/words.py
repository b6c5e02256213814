"""`bertkit words`: learn word vectors from text, and ask them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from bertkit.cli.options import OVERWRITE, emit, for_people, note, quiet
from bertkit.errors import InterruptionError, UsageError
from bertkit.settings import Settings, argument, option
from bertkit.words.schemas import TrainingWords

if TYPE_CHECKING:
    from bertkit.words.train import Saying
    from bertkit.words.vectors import Near, WordVectors

HELP = "Word vectors: learn them from text, ask them, bring them from elsewhere."


@dataclass(frozen=True, kw_only=True)
class OfVectors(Settings):
    vectors: Path = argument(..., "A folder of vectors.", metavar="VECTORS")


@dataclass(frozen=True, kw_only=True)
class NearestWords(OfVectors):
    words: tuple[str, ...] = argument(..., "A word, or several, whose mean is taken.", metavar="WORD...")
    k: int = option(10, "How many.", flags="--top -k", least=1)


def train(asked: TrainingWords) -> None:
    """Learn a vector for each word of a text: skip-gram, CBOW, GloVe, NNLM, or one-hot without learning.

    Reads what `bertkit prepare` reads, in bounded memory. If it is interrupted, the same command goes on.

    \b
    bertkit words train texts/ -o vectors
    bertkit words train wiki.jsonl.xz --method glove --dimension 200 -o vectors
    bertkit words train reviews.csv --field review --subwords --phrases 1 -o vectors
    """
    facts = trained(asked)
    if not for_people():
        emit({"vectors": str(asked.out), **facts})
        return
    typer.echo(f"{asked.out}: {facts['words']:,} words by {asked.method}, {facts['seconds']:.1f} s")
    if facts["words_a_second"]:
        typer.echo(
            f"{facts['words_a_second']:,} words a second ({facts['words_a_second_are']}), {facts['threads']} threads"
        )
    for name in ("perplexity", "ngram_perplexity"):
        if name in facts:
            typer.echo(f"{name.replace('_', ' ')} {facts[name]:.1f}")


def trained(asked: TrainingWords) -> dict[str, Any]:
    from bertkit.words.train import train_words

    with _saying() as saying:
        try:
            return train_words(asked, saying)
        except KeyboardInterrupt:
            raise InterruptionError(
                "interrupted; what was read and learned up to a minute ago is kept",
                "Give the same command again to go on.",
            ) from None


def nearest(asked: NearestWords) -> None:
    """The words whose vectors are most like that of a word.

    \b
    bertkit words nearest VECTORS bank
    bertkit words nearest VECTORS river bank
    """
    vectors = opened(asked.vectors)
    show(vectors.nearest(*asked.words, count=asked.k), " ".join(asked.words))


@dataclass(frozen=True, kw_only=True)
class Analogies(OfVectors):
    a: str = argument(..., "A is to ...", metavar="A")
    b: str = argument(..., "... B as ...", metavar="B")
    c: str = argument(..., "... C is to what?", metavar="C")
    multiply: bool = option(False, "3CosMul in place of 3CosAdd.")
    k: int = option(5, "How many.", flags="--top -k", least=1)


def analogy(asked: Analogies) -> None:
    """What is to C as B is to A.

    \b
    bertkit words analogy VECTORS man king woman
    """
    found = opened(asked.vectors).analogy(asked.a, asked.b, asked.c, count=asked.k, multiply=asked.multiply)
    show(found, f"{asked.a} : {asked.b} = {asked.c} : ?")


@dataclass(frozen=True, kw_only=True)
class Similarities(OfVectors):
    words: tuple[str, ...] = argument(..., "Two words or more; each two are compared.", metavar="WORD...")


def similarity(asked: Similarities) -> None:
    """How alike words are: the cosine of each two."""
    vectors = opened(asked.vectors)
    if len(asked.words) < 2:
        raise UsageError(f"one word, {asked.words[0]!r}, and two are compared", "Give another.")
    for a, b in combinations(asked.words, 2):
        score = vectors.similarity(a, b)
        if for_people():
            typer.echo(f"{score:6.3f}  {a}  {b}")
        else:
            emit({"a": a, "b": b, "score": round(score, 6)})


@dataclass(frozen=True, kw_only=True)
class EvaluatingWords(OfVectors):
    files: tuple[Path, ...] = argument(
        ...,
        "Analogies (four words a line) or pairs with a number: questions-words, CA8, WordSim, SimLex.",
        metavar="FILE...",
    )
    multiply: bool = option(False, "3CosMul in place of 3CosAdd.")
    max_words: int | None = option(None, "Answer among so many of the commonest words.", least=1, usual="all")


def evaluate(asked: EvaluatingWords) -> None:
    """How good vectors are at analogies and at likeness, and how many of the questions could be asked."""
    from bertkit.words.questions import evaluate as ask

    vectors = opened(asked.vectors)
    for file in asked.files:
        facts = ask(vectors, file, multiply=asked.multiply, most_words=asked.max_words)
        if not for_people():
            emit(facts)
            continue
        figure = facts.get("accuracy", facts.get("spearman"))
        said = "-" if figure is None else f"{figure:.4f}"
        measure = "accuracy" if "accuracy" in facts else "Spearman"
        typer.echo(f"{facts['file']}: {measure} {said}, {facts['asked']:,} asked, which are {facts['coverage']:.1%}")
        for name, its in facts.get("sections", {}).items():
            typer.echo(f"  {its['accuracy']:7.2%} of {its['asked']:6,}  {name}")


@dataclass(frozen=True, kw_only=True)
class Importing(Settings):
    source: Path = argument(
        ..., "word2vec (text, binary), GloVe, fastText .vec, also .gz; or a folder of model2vec or StaticEmbedding."
    )
    out: Path = option(..., "The folder for the vectors.", flags="-o", metavar="VECTORS")
    max_words: int | None = option(None, "Only the first so many.", least=1, usual="all")
    cased: bool | None = option(None, "Whether case matters.", usual="if any word has a capital")
    half: bool = option(False, "In float16: half the room.")
    overwrite: bool = option(False, OVERWRITE)


def bring(asked: Importing) -> None:
    """Make a folder of vectors from those of another program."""
    from bertkit.words.bring import import_words

    facts = import_words(
        asked.source, asked.out, limit=asked.max_words, cased=asked.cased, half=asked.half, overwrite=asked.overwrite
    )
    if facts["never_found"]:
        note(f"{facts['never_found']:,} of the words hold signs at which texts are cut: only questions come to them")
    if for_people():
        casing = "cased" if facts["cased"] else "uncased"
        typer.echo(f"{asked.out}: {facts['words']:,} words of {facts['dimension']} numbers, {casing}")
    else:
        emit({"vectors": str(asked.out), **facts})


@dataclass(frozen=True, kw_only=True)
class Exporting(OfVectors):
    out: Path = option(..., "The file, or for static the folder, to write.", flags="-o")
    to: str = option(
        "word2vec",
        "word2vec, word2vec-binary, glove, or static: a folder for model2vec and sentence-transformers.",
        choices=("word2vec", "word2vec-binary", "glove", "static"),
    )
    overwrite: bool = option(False, OVERWRITE)


def export(asked: Exporting) -> None:
    """Write vectors for other programs; gensim's KeyedVectors reads word2vec's formats."""
    from bertkit.words.bring import export_words

    facts = export_words(asked.vectors, asked.out, asked.to, overwrite=asked.overwrite)
    if for_people():
        typer.echo(f"{asked.out}: {facts['words']:,} words of {facts['dimension']} numbers")
    else:
        emit(facts)


@dataclass(frozen=True, kw_only=True)
class Shrinking(OfVectors):
    out: Path = option(..., "The folder to write.", flags="-o")
    max_words: int | None = option(None, "Keep so many of the commonest words.", least=1, usual="all")
    half: bool = option(False, "In float16: half the room.")
    overwrite: bool = option(False, OVERWRITE)


def shrink(asked: Shrinking) -> None:
    """Vectors, or a model for a task on top of them, in less room. What the metrics say was measured before."""
    from bertkit.words.shrink import shrink_words

    facts = shrink_words(
        asked.vectors, asked.out, most_words=asked.max_words, half=asked.half, overwrite=asked.overwrite
    )
    if for_people():
        typer.echo(f"{asked.out}: {facts['words']:,} of {facts['of']:,} words, {facts['bytes'] / 1e6:.1f} MB")
    else:
        emit({"out": str(asked.out), **facts})


@dataclass(frozen=True, kw_only=True)
class Plotting(OfVectors):
    words: tuple[str, ...] = argument((), "Which. None: the commonest 60.", metavar="WORD...")
    out: Path = option(..., "The picture, .png or .svg.", flags="-o")
    near: int = option(0, "So many of the nearest words beside each.", least=0, most=100)
    overwrite: bool = option(False, OVERWRITE)


def plot(asked: Plotting) -> None:
    """A picture of words in two dimensions: the two in which they differ most.

    \b
    bertkit words plot VECTORS king queen man woman paris france rome italy -o map.png
    """
    from bertkit.report.word_map import draw_words

    count = draw_words(opened(asked.vectors), asked.words, asked.out, near=asked.near, overwrite=asked.overwrite)
    if for_people():
        typer.echo(f"{asked.out}: {count} words")
    else:
        emit({"picture": str(asked.out), "words": count})


def opened(folder: Path) -> WordVectors:
    from bertkit.words.vectors import load_words

    return load_words(folder)


def show(found: list[Near], title: str) -> None:
    if not for_people():
        for each in found:
            emit({"word": each.word, "score": round(each.score, 6)})
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console, table = Console(), Table(box=None, show_header=False, padding=(0, 1))
    console.print(Text(title, style="bold"))
    for each in found:
        table.add_row(
            f"{each.score:6.3f}", Text(each.word), Text("█" * max(0, round(30 * min(each.score, 1))), style="cyan")
        )
    console.print(table)


@contextmanager
def _saying() -> Iterator[Saying]:
    """Bars on stderr, if a person is there to see them."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    from bertkit.words.train import Saying

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[said]}"), TimeRemainingColumn())
    hidden = quiet() or not sys.stderr.isatty()
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=hidden) as bar:
        task = bar.add_task("reading", total=None, said="")

        def reading(done: int, total: int | None) -> None:
            bar.update(task, completed=done, total=total, said=f"{done / 1e6:,.0f} MB")

        def learning(said: Any) -> None:
            speed = f"{said.words_a_second:,.0f} words/s before frequent ones are left out"
            bar.update(task, description="learning", completed=said.share, total=1.0, said=speed)

        yield Saying(reading, learning, note)


COMMANDS: dict[str, Callable[..., None]] = {
    "train": train,
    "nearest": nearest,
    "analogy": analogy,
    "similarity": similarity,
    "evaluate": evaluate,
    "plot": plot,
    "import": bring,
    "export": export,
    "shrink": shrink,
}
