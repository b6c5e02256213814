"""Pretraining from left to right: sequences that fill their length over the ends of documents, the next word at every
place, and runs of GPT and GPT-2 from a corpus to a folder."""

from __future__ import annotations

import json
import math
import os
import signal
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers

from bertkit import device
from bertkit.corpus import CorpusFolder, Sequences, Shard, Stream, prepare
from bertkit.corpus import Recipe as Preparation
from bertkit.corpus.keyed import Choice
from bertkit.errors import CorpusError, InterruptionError, UsageError
from bertkit.families import PRESETS, vocabulary
from bertkit.hub import ModelFolder, load_model, save_model
from bertkit.nn import Bert
from bertkit.objectives import NextWords, PretrainingData, Together
from bertkit.report import write_report
from bertkit.text import draw_sample
from bertkit.text.train import train
from bertkit.train import Request, Watcher, make_recipe, resume
from bertkit.train.pretrain import pretrain
from corpora import lines_of

FEW_STEPS = {"batch": 8, "length": 32}
ONE_WAY = {"left_to_right": True, "nsp": False}
ONE_CORE = device.choose("cpu", "float32", 1)
CLASSES = {"gpt": transformers.OpenAIGPTLMHeadModel, "gpt2": transformers.GPT2LMHeadModel}
EVERY_GPT = pytest.mark.parametrize("family", CLASSES)


@pytest.fixture(scope="module")
def corpora(tmp_path_factory: pytest.TempPathFactory, english: list[str], shards: Path) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("gpts")
    text = lines_of(["\n".join(english[i : i + 8]) for i in range(0, 1600, 8)], folder / "text.jsonl")
    sample = draw_sample(english[:1600], hold_out=False)
    made = {"bert": shards}
    for family in ("roberta", *CLASSES):
        tokenizer = train(sample, vocabulary(family, vocab_size=600)).tokenizer
        recipe = Preparation(validation=0.1, near_duplicates=None, boilerplate=None)
        made[family] = prepare([text], tokenizer, folder / family, recipe).path
    return made


def trained(corpora: dict[str, Path], model: str, out: Path, **change: object) -> dict[str, float]:
    return pretrain(requested(corpora, model, **change), out, ONE_CORE, Watcher(), report=write_report)


def requested(corpora: dict[str, Path], model: str, corpus: str = "", **change: object) -> Request:
    shards = corpora[corpus or model.partition("-")[0]]
    return Request(
        shards=shards,
        model=model,
        steps=12,
        change={**FEW_STEPS, **change},
        log_every=1,
        validate_every=6,
        save_every=6,
        validation_samples=16,
    )


@pytest.fixture(scope="module")
def runs(corpora: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A whole run of each."""
    made = {}
    for family in CLASSES:
        made[family] = tmp_path_factory.mktemp("runs") / family
        trained(corpora, f"{family}-tiny", made[family], dropout=0.1)
    return made


def shard_of(*documents: list[list[int]]) -> Shard:
    """Sentences of tokens."""
    sentences = [sentence for document in documents for sentence in document]
    tokens = np.array([token for sentence in sentences for token in sentence], np.uint16)
    flags = np.packbits(np.ones(len(tokens), bool), bitorder="little")
    ends = np.cumsum([len(sentence) for sentence in sentences]).astype(np.uint32)
    return Shard(tokens, flags, ends, np.cumsum([len(document) for document in documents]).astype(np.uint32))


SHARD = shard_of([[11, 12, 13], [14, 15]], [[21, 22]], [[31, 32, 33, 34, 35, 36, 37], [38]])


@pytest.mark.parametrize("length", [2, 3, 4, 7, 18, 100])
def test_a_stream_is_the_whole_text_with_an_end_after_each_document(length):
    stream = Stream([SHARD, SHARD], max_length=length, end_id=1)
    whole = [11, 12, 13, 14, 15, 1, 21, 22, 1, 31, 32, 33, 34, 35, 36, 37, 38, 1]
    read = [stream[number] for number in range(len(stream))]
    pieces = [whole[at : at + length] for at in range(0, len(whole), length)]
    assert [sample.ids.tolist() for sample in read] == 2 * [piece for piece in pieces if len(piece) > 1]
    for sample in read:
        assert (sample.special == (sample.ids == 1)).all()
        assert (sample.word_starts == ~sample.special).all()
        assert not sample.segments.any()


def test_without_such_a_token_documents_follow_one_another():
    stream = Stream([SHARD], max_length=6, end_id=None)
    assert [stream[number].ids.tolist() for number in range(len(stream))] == [
        [11, 12, 13, 14, 15, 21],
        [22, 31, 32, 33, 34, 35],
        [36, 37, 38],
    ]


def test_whole_sentences_across_documents_have_a_separator_between_documents():
    sequences = Sequences([SHARD], max_length=10, cls_id=2, sep_id=3, across=True)
    read = [sequences[number] for number in range(len(sequences))]
    assert [sample.ids.tolist() for sample in read] == [
        [2, 11, 12, 13, 14, 15, 3, 21, 22, 3],
        [2, 31, 32, 33, 34, 35, 36, 37, 38, 3],
    ]
    assert read[0].special.tolist() == [True, *[False] * 5, True, False, False, True]
    assert not any(sample.segments.any() for sample in read)


@pytest.mark.parametrize("length", [5, 8, 30, 128])
def test_across_documents_every_token_is_there_once_and_sequences_are_as_full_as_can_be(length, corpora):
    corpus = CorpusFolder(corpora["roberta"])
    tokenizer, (shard,) = corpus.tokenizer, corpus.shards("train")
    sequences = corpus.sequences(max_length=length, across=True)
    read = [sequences[number] for number in range(len(sequences))]
    assert np.array_equal(np.concatenate([sample.ids[~sample.special] for sample in read]), shard.tokens)
    assert max(map(len, read)) <= length
    assert len(sequences) <= len(corpus.sequences(max_length=length))
    ends, sentences = set(shard.sentence_ends[shard.document_ends - 1].tolist()), shard.sentence_ends.tolist()
    for sample, after in pairwise(read):
        assert {part.stop for part in sample.parts[:-1]} <= ends
        assert (sample.ids == tokenizer.sep_id).sum() == len(sample.parts)
        first = after.parts[0].start
        next_end = sentences[np.searchsorted(sentences, first, side="right")]
        crosses = first in ends
        assert len(sample) + crosses + min(next_end - first, length - 2) > length


@EVERY_GPT
def test_the_loss_of_a_batch_is_that_of_the_reference(family, corpora, tmp_path):
    corpus = CorpusFolder(corpora[family])
    config = PRESETS[f"{family}-tiny"](
        vocab_size=corpus.tokenizer.vocab_size, hidden_dropout_prob=0, attention_probs_dropout_prob=0
    )
    torch.manual_seed(0)
    model = Bert(config, pooler=False, nsp=False).eval()
    save_model(tmp_path / "model", model, corpus.tokenizer)
    theirs = CLASSES[family].from_pretrained(tmp_path / "model").eval()
    for packed in (True, False):
        data = PretrainingData(corpus, objectives=Together([NextWords(corpus.tokenizer)]), seed=0, packed=packed)
        last = data.size(0, 32) - 1  # the shorter one
        choices = [Choice(0, number) for number in (0, 5, last)]
        batch = data.batch(choices, 32)
        with torch.no_grad():
            (name, term), *more = data.objectives.terms(model, batch).items()
            ids = [torch.from_numpy(data.sample(choice, 32)[0].ids)[None] for choice in choices]
            expected = sum(theirs(each, labels=each).loss.item() * (each.shape[1] - 1) for each in ids)
        assert (name, more) == ("clm", [])
        assert term.count == batch.counts["clm"] == sum(each.shape[1] - 1 for each in ids)
        assert term.total.item() == pytest.approx(expected, rel=1e-5)


@EVERY_GPT
def test_a_run_ends_in_a_folder_that_transformers_opens(family, runs):
    run = runs[family]
    theirs, report = CLASSES[family].from_pretrained(run / "model", output_loading_info=True)
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    records = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    validations = [record for record in records if record["kind"] == "validation"]
    assert validations[-1]["clm_loss"] < validations[0]["clm_loss"]
    assert validations[-1]["perplexity"] == pytest.approx(math.exp(validations[-1]["clm_loss"]))
    guesses = next(record for record in records if record["kind"] == "guesses")
    assert all(sentence["text"].endswith("[MASK]") for sentence in guesses["sentences"])
    assert "Loss of next words" in (run / "report.html").read_text()
    folder = ModelFolder(run / "model")
    assert (folder.task, theirs.config.eos_token_id) == ("generate", folder.tokenizer().eos_id)
    assert load_model(folder).model.config.pre_norm == (family == "gpt2")


@EVERY_GPT
def test_a_run_gone_on_with_is_the_same_to_the_bit(family, corpora, runs, tmp_path):
    class Stopping(Watcher):
        def stepped(self, facts: dict[str, float]) -> None:
            if facts["step"] == 6:
                os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(InterruptionError):
        pretrain(requested(corpora, f"{family}-tiny", dropout=0.1), tmp_path / "cut", ONE_CORE, Stopping())
    resume(tmp_path / "cut", ONE_CORE, Watcher())
    for file in ("model/model.safetensors", "log.jsonl"):
        assert (runs[family] / file).read_bytes() == (tmp_path / "cut" / file).read_bytes(), file


def test_a_gpt_is_gone_on_with_from_its_folder(corpora, runs, tmp_path):
    before = ModelFolder(runs["gpt2"] / "model").manifest["metrics"]["clm_loss"]
    request = Request(
        shards=corpora["gpt2"], start_from=str(runs["gpt2"] / "model"), steps=6, validate_every=6, change=FEW_STEPS
    )
    assert pretrain(request, tmp_path / "run", ONE_CORE, Watcher())["clm_loss"] < before + 0.02


def test_masked_words_are_learned_across_documents_too(corpora, tmp_path):
    facts = trained(corpora, "bert-tiny", tmp_path / "run", across=True, nsp=False)
    assert {name for name in facts if name.endswith("_accuracy")} == {"mlm_accuracy"}
    settings = json.loads((tmp_path / "run" / "run.json").read_text())["settings"]
    assert (settings["recipe"]["across"], settings["model"]["causal"]) == (True, False)


@pytest.mark.parametrize(
    ("model", "corpus", "change", "message"),
    [
        ("gpt2-tiny", "bert", {}, r"for BERT .wordpiece., and gpt2-tiny reads GPT-2's .bpe.*--family gpt2"),
        ("bert-tiny", "gpt2", {}, r"for GPT-2 .bpe., and bert-tiny reads BERT's"),
        ("gpt-tiny", "gpt2", {}, r"for GPT-2 .bpe., and gpt-tiny reads OpenAI GPT's"),
        ("gpt2-tiny", "gpt2", {"nsp": True}, "next sentences for a gpt2 model, which reads from left to right"),
        ("gpt2-tiny", "gpt2", {"masks": 1}, "`masks` for a gpt2 model"),
        ("gpt2-tiny", "gpt2", {"mask": "word"}, "`mask` for a gpt2 model"),
        ("bert-tiny", "bert", {**ONE_WAY, "mask_rate": 0.2}, "`mask_rate` for a left-to-right bert model"),
        ("bert-tiny", "bert", {**ONE_WAY, "mask_shares": "50/10/40"}, "Leave out `mask_shares`"),
        ("gpt2-tiny", "gpt2", {"pre_norm": False}, "a gpt2 with its norms last"),
        ("gpt-tiny", "gpt", {"pre_norm": True}, "a gpt with its norms first"),
        ("bert-tiny", "bert", {"across": True}, "across documents, and pairs of sentences.*nsp=False"),
        ("gpt2-tiny", "gpt2", {"length": 2000}, "sequences of 2000 tokens, and the model has 1024 positions"),
    ],
)
def test_what_does_not_go_together_is_told_and_nothing_is_left(model, corpus, change, message, corpora, tmp_path):
    with pytest.raises(UsageError, match=message):
        pretrain(requested(corpora, model, corpus, **change), tmp_path / "run", ONE_CORE, Watcher())
    assert not (tmp_path / "run").exists()


def test_a_gpt_may_be_told_that_it_reads_from_left_to_right(corpora):
    asked = make_recipe(requested(corpora, "gpt2-tiny", left_to_right=True))
    assert asked == make_recipe(requested(corpora, "gpt2-tiny"))
    for model in ("roberta-tiny", "albert-tiny"):
        with pytest.raises(UsageError, match=r"left to right. Only bert models can be so"):
            make_recipe(requested(corpora, model, "roberta", left_to_right=True))


@pytest.mark.parametrize("extend", [False, True])
@pytest.mark.parametrize(
    ("family", "corpus", "message"),
    [
        ("gpt2", "bert", r"for BERT .wordpiece., and .*start reads GPT-2's .bpe.. Prepare it with `tokenizer"),
        ("roberta", "bert", r"for BERT .wordpiece., and .*start reads RoBERTa's .bpe.. Prepare it with `tokenizer"),
        ("roberta", "gpt2", r"for GPT-2 .bpe., and .*start reads RoBERTa's .bpe.. Prepare it with `tokenizer"),
        ("gpt2", "other gpt2", r"prepared with another tokenizer .sha256 .*start`\.$"),
    ],
)
def test_shards_for_another_model_than_the_one_to_go_on_from_are_told(
    family, corpus, message, extend, corpora, tmp_path, english
):
    tokenizer = CorpusFolder(corpora[family]).tokenizer
    if corpus == "other gpt2":
        corpus = "gpt2"
        tokenizer = train(draw_sample(english[:400], hold_out=False), vocabulary("gpt2", vocab_size=500)).tokenizer
    config = PRESETS[f"{family}-tiny"](vocab_size=tokenizer.vocab_size)
    save_model(tmp_path / "start", Bert(config, pooler=False, nsp=False), tokenizer)
    request = Request(
        shards=corpora[corpus], start_from=str(tmp_path / "start"), extend_vocabulary=extend, steps=2, change=FEW_STEPS
    )
    with pytest.raises(CorpusError, match=message) as refused:
        pretrain(request, tmp_path / "run", ONE_CORE, Watcher())
    assert "extend_vocabulary" not in str(refused.value)
    assert not (tmp_path / "run").exists()
