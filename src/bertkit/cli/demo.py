"""`bertkit demo`: the main job end to end, offline, on text that every machine has."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from bertkit.cli.demo_task import SIZES, what_pretraining_is_worth
from bertkit.cli.demo_writing import summaries
from bertkit.cli.options import emit, for_people
from bertkit.cli.tokenizer_shared import status
from bertkit.files import refuse_existing
from bertkit.settings import Settings, option

if TYPE_CHECKING:
    from bertkit.infer.encoder import TextEncoder
    from bertkit.text.tokenizer import Tokenizer

PAIR = 1000
SENTENCES = ("Return a new array of the given shape.", "The file is closed when the block ends.")
RIDDLES = (
    "Return the [MASK] of the list.",
    "If the file does not [MASK], an error is raised.",
    "The default [MASK] is None.",
)
CHARACTERS = 6_000_000
MADE = ("model", "run", "shards", "tokenizer", "words", "writer")
NEAREST_TO = ("list", "file", "array", "raise")


@dataclass(frozen=True, kw_only=True)
class Demo(Settings):
    out: Path = option(Path("demo"), "Where to; what an earlier demo made there is replaced.", flags="-o")
    minutes: float = option(2.0, "How long to pretrain.", least=0.05, most=600)


def demo(asked: Demo) -> None:
    """From raw text to a small BERT that has learned from it, offline, to look at.

    Reads the documentation inside this Python environment, learns a vocabulary from it, prepares it as a corpus,
    pretrains a tiny BERT on it for two minutes, and shows what it knows before and after, and what that is worth for
    a task with few examples.
    """
    out = asked.out
    manifest = out / "model" / "bertkit.json"
    if not (manifest.is_file() and b'"bertkit demo"' in manifest.read_bytes()):
        for name in MADE:  # only what an earlier demo made is replaced
            refuse_existing(out / name, overwrite=False)
    facts: dict[str, Any] = {}
    with _step("reading the documentation inside this Python"):
        documents = _some_documentation()
        texts = [text for _, text in documents]
        _write_lines(out / "text.jsonl", texts)
        facts["documents"], facts["characters"] = len(texts), sum(map(len, texts))
    with _step("learning a vocabulary from it"):
        tokenizer = _learn(out / "tokenizer", texts)
        facts["vocabulary"] = tokenizer.vocab_size
    with _step("cleaning and encoding it: a corpus to pretrain on"):
        facts |= _prepare(out, tokenizer)
    with _step("learning word vectors from it (skip-gram)"):
        facts["nearest"] = _word_vectors(out)
    facts |= _pretrain(out, asked.minutes)
    import torch

    from bertkit.hub.weights import save_model
    from bertkit.infer.encoder import load_encoder

    with _step("saving the model, opening it again, comparing every number"):
        trained = load_encoder(out / "run" / "model")
        save_model(out / "model", trained.model, tokenizer, provenance={"made_by": "bertkit demo"}, overwrite=True)
        encoder = load_encoder(out / "model")
        pairs = zip(trained.model.state_dict().items(), encoder.model.state_dict().items(), strict=True)
        same = all(a == b and torch.equal(x, y) for (a, x), (b, y) in pairs)
        facts["parameters"] = encoder.model.parameter_count()
        facts["reloaded"] = "bit for bit the same" if same else "DIFFERENT"
    with _step("using it: vectors, guesses, attention"):
        sentences = [line for text in texts for line in text.splitlines() if len(line.split()) > 5][:2000]
        start = time.perf_counter()
        encoder.embed(sentences)
        facts["texts_per_second"] = round(len(sentences) / (time.perf_counter() - start))
        facts["guesses_before"] = {riddle: _guesses(_as_it_was(out), riddle) for riddle in RIDDLES}
        facts["guesses"] = {riddle: _guesses(encoder, riddle) for riddle in RIDDLES}
        encoder.attention(*SENTENCES).save_page(out / "attention.html")
    with _step("learning a task from it, and from random weights: which library is a line about?"):
        facts["task"] = what_pretraining_is_worth(out, documents)
    if find_spec("sacrebleu") and find_spec("rouge_score"):  # bertkit[generate]
        with _step("learning to write: the first line of a docstring, from what follows it"):
            facts["writing"] = summaries(out, documents, asked.minutes)
    _report(out, facts)


def _pretrain(out: Path, minutes: float) -> dict[str, Any]:
    """The real thing, with a small model and a short time."""
    from bertkit.cli.pretrain import pretrained
    from bertkit.objectives.terms import accuracy_of, loss_of
    from bertkit.train.journal import read_log
    from bertkit.train.schemas import Pretraining

    small = {"model": "bert-tiny", "length": 64, "precision": "float32", "hours": minutes / 60, "overwrite": True}
    ended = pretrained(Pretraining.of(shards=out / "shards", out=out / "run", **small))
    curve = [record[loss_of("mlm")] for record in read_log(out / "run") if record["kind"] == "validation"]
    return {
        "loss_before": curve[0],
        "loss_after": ended[loss_of("mlm")],
        "words_right": ended[accuracy_of("mlm")],
        "curve": curve,
    }


def _word_vectors(out: Path) -> dict[str, str]:
    """The nearest words of some, in vectors of the same text."""
    from bertkit.words.schemas import TrainingWords
    from bertkit.words.train import train_words
    from bertkit.words.vectors import load_words

    train_words(
        TrainingWords(inputs=(str(out / "text.jsonl"),), out=out / "words", dimension=64, epochs=3, overwrite=True)
    )
    vectors = load_words(out / "words")
    return {
        word: ", ".join(each.word for each in vectors.nearest(word, count=5)) for word in NEAREST_TO if word in vectors
    }


def _as_it_was(out: Path) -> TextEncoder:
    """The model before its first step, which its settings and seed tell."""
    from bertkit.files import read_json
    from bertkit.infer.encoder import TextEncoder, load_encoder
    from bertkit.train.settings import Settings
    from bertkit.train.starting import new_model

    settings = Settings.from_json(read_json(out / "run" / "run.json")["settings"])
    network = new_model(settings)
    return TextEncoder(network.folders(network.state_dict())["model"].eval(), load_encoder(out / "model").tokenizer)


def _guesses(encoder: TextEncoder, riddle: str) -> str:
    return ", ".join(guess.token for guess in encoder.fill_mask(riddle, k=4)[0])


def _some_documentation() -> list[tuple[str, str]]:
    from bertkit.corpus.documentation import documentation

    documents: list[tuple[str, str]] = []
    size = 0
    for origin, text in documentation():
        documents.append((origin, text))
        size += len(text)
        if size > CHARACTERS:
            break
    return documents


def _write_lines(path: Path, texts: list[str]) -> None:
    from bertkit.files import atomic_file

    with atomic_file(path) as file:
        file.writelines((json.dumps({"text": text}, ensure_ascii=False) + "\n").encode() for text in texts)


def _learn(folder: Path, texts: list[str]) -> Tokenizer:
    from bertkit.files import atomic_folder
    from bertkit.text.train import train_wordpiece

    tokenizer = train_wordpiece(texts, vocab_size=8192)
    with atomic_folder(folder, overwrite=True) as place:
        tokenizer.save(place)
    return tokenizer


def _prepare(out: Path, tokenizer: Tokenizer) -> dict[str, Any]:
    from bertkit.corpus.preparing import prepare
    from bertkit.device import usable_threads

    corpus = prepare([str(out / "text.jsonl")], tokenizer, out / "shards", workers=usable_threads(), overwrite=True)
    kept = corpus.report["kept"]["train"]
    pairs = corpus.pairs(max_length=32, seed=1)
    pair = pairs[PAIR % len(pairs)]
    return {
        "sentences": kept["sentences"],
        "tokens": kept["tokens"],
        "left_out": sum(corpus.report["dropped"].values()),
        "pairs": len(pairs),
        "pair": " ".join(tokenizer.token(token) for token in pair.ids.tolist()),
        "pair_is_next": pair.is_next,
    }


@contextmanager
def _step(title: str) -> Iterator[None]:
    """A line for each step when it is done, and a sign that it goes on where somebody watches."""
    start = time.perf_counter()
    with status(title):
        yield
    typer.echo(f"  {time.perf_counter() - start:5.1f} s  {title}", err=True)


def _report(out: Path, facts: dict[str, Any]) -> None:
    if not for_people():
        emit({"model": str(out / "model"), "page": str(out / "attention.html"), **facts})
        return
    from bertkit.cli.training_display import sparkline

    lines = ((riddle, facts["guesses_before"][riddle], guess) for riddle, guess in facts["guesses"].items())
    guesses = "\n".join(f"  {riddle}\n    before  {before}\n    after   {after}" for riddle, before, after in lines)
    typer.echo(f"""
Made
  {out / "tokenizer"}       a vocabulary: bertkit and transformers open it
  {out / "shards"}          a corpus to pretrain on
  {out / "words"}           word vectors: bertkit words asks them
  {out / "run"}             the run: curves.png and report.html in it show how it learned
  {out / "model"}           the model: bertkit and transformers open it
  {out / "attention.html"}  a page: open it in a browser

Figures
  {facts["documents"]:,} documents, {facts["characters"]:,} characters of documentation read
  {facts["vocabulary"]:,} pieces in the vocabulary, {facts["parameters"]:,} parameters in the model
  {facts["sentences"]:,} sentences, {facts["tokens"]:,} tokens in the corpus; {facts["left_out"]:,} documents left out
  one of {facts["pairs"]:,} sentence pairs, {"the true next" if facts["pair_is_next"] else "not the next"}:
    {facts["pair"]}
  reloaded: {facts["reloaded"]}
  {facts["texts_per_second"]:,} texts a second to vectors

Learned
  loss on held-out text {facts["loss_before"]:.2f} {sparkline(facts["curve"])} {facts["loss_after"]:.2f}
  hidden words guessed right: {facts["words_right"]:.1%}
  nearest words, in vectors learned before
{_lines(facts["nearest"])}
{guesses}

Worth, for a task: which library is a line of documentation about, python, numpy or torch?
{_worth(facts["task"])}
{_written(facts)}
Next
  open {out / "run" / "report.html"}
  bertkit pretrain {out / "shards"} --hours 0.5 --out my-run
  bertkit info {out / "shards"}
  bertkit tokenizer show {out / "tokenizer"} "Tokenization of any text"
  bertkit info {out / "model"}
  bertkit fill-mask {out / "model"} "The [MASK] is closed."
  bertkit words nearest {out / "words"} string
  bertkit embed {out / "model"} -t "any text" --layers concat:-2..-1
  bertkit attention {out / "model"} "A text of your own." -o my.html
  bertkit finetune classify YOUR.csv --from {out / "model"} --out my-classifier
  bertkit finetune generate PAIRS.csv --from {out / "model"} --out my-writer
  bertkit serve {out / "model"}
      and then open http://127.0.0.1:8000: guess words, compare texts, see where heads look
  (the command is .venv/bin/bertkit, unless .venv is activated)""")


def _written(facts: dict[str, Any]) -> str:
    """What so small a model can write after so short a time is little, and that is said."""
    if "writing" not in facts:
        return ""
    its = facts["writing"]
    best = max(its["baselines"].items(), key=lambda each: each[1])
    shown = "\n".join(f"  wrote  {each['written']}\n  right  {each['right']}" for each in its["examples"])
    return f"""
Written: the first line of a docstring from what follows it, learned in under a minute, so it is mostly the form that it
has learned; {its["metric"]} {its["score"]:.3f}, and {best[1]:.3f} of {best[0]}
{shown}
"""


def _lines(nearest: dict[str, str]) -> str:
    return "\n".join(f"    {word}: {near}" for word, near in nearest.items())


def _worth(scores: dict[str, float]) -> str:
    return "\n".join(
        f"  {size:>5,} examples  right {scores[f'random_{size}']:.1%} from random weights,"
        f" {scores[f'pretrained_{size}']:.1%} from the model"
        for size in SIZES
    )
