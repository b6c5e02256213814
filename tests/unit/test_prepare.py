"""Text to shards: nothing lost, everything counted, the same result whatever the number of processes."""

from __future__ import annotations

import json
import re
import string
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bertkit.corpus import Cleaning, CorpusFolder, DigestSettings, Recipe, clean, prepare
from bertkit.errors import CorpusError, InputError, UsageError, WriteError
from bertkit.families import vocabulary
from bertkit.text import Tokenizer, split_sentences, train_wordpiece
from corpora import RECIPE, contents, lines_of

ALPHABET = string.ascii_lowercase + string.digits + string.punctuation + "。，！？“”「」我们学习自然语言处理苹果é"
KEEP_ALL = Recipe(
    digest=DigestSettings(cleaning=Cleaning(min_chars=0, max_repetition=1e9, max_copied_lines=1)),
    exact_duplicates=False,
    near_duplicates=None,
    boilerplate=None,
)


@pytest.fixture(scope="session")
def spelling() -> Tokenizer:
    """A tokenizer that spells: a piece for each character, so that nothing is unknown and ids give the text back."""
    return train_wordpiece([" ".join(ALPHABET), ALPHABET * 2], vocab_size=len(ALPHABET) * 2 + 20, min_frequency=1)


def spelled(corpus: CorpusFolder, split: str) -> list[list[str]]:
    """For each document its sentences, spelled from their pieces, without spaces."""
    found = []
    for shard in corpus.shards(split):
        for document in range(len(shard)):
            spans = [shard.tokens_of(sentence) for sentence in range(*shard.sentences_of(document))]
            pieces = [[corpus.tokenizer.token(token) for token in shard.tokens[a:b].tolist()] for a, b in spans]
            found.append(["".join(piece.removeprefix("##") for piece in some) for some in pieces])
    return found


def normalised(text: str, tokenizer: Tokenizer) -> str:
    return "".join(tokenizer.backend.normalizer.normalize_str(text).split())


TEXTS = st.lists(
    st.text(st.sampled_from(ALPHABET + "  \n..") | st.sampled_from("ABC\u200b\t\x07\u00a0"), max_size=80), max_size=25
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=TEXTS, shard_tokens=st.integers(1, 200), part_bytes=st.integers(1, 2000))
def test_every_character_that_is_not_dropped_is_in_the_shards_once(
    tmp_path_factory, spelling: Tokenizer, texts: list[str], shard_tokens: int, part_bytes: int
):
    place = tmp_path_factory.mktemp("prepare")
    texts = ["abc", *texts]
    recipe = Recipe(**{**vars(KEEP_ALL), "shard_tokens": shard_tokens, "validation": 0.3})
    corpus = prepare([lines_of(texts, place / "a.jsonl")], spelling, place / "out", recipe, part_bytes=part_bytes)
    corpus.verify()
    expected = [
        [normalised(s, spelling) for s in split_sentences(clean(t, recipe.digest.cleaning).text)] for t in texts
    ]
    expected = [[s for s in sentences if s] for sentences in expected]
    kept = spelled(corpus, "train") + spelled(corpus, "validation")
    assert sorted(kept) == sorted(sentences for sentences in expected if sentences)
    report = corpus.report
    assert report["read"]["documents"] == len(texts)
    assert sum(report["dropped"].values()) + sum(held["documents"] for held in report["kept"].values()) == len(texts)
    assert report["dropped"]["empty"] == sum(not sentences for sentences in expected)
    assert sum(held["unknown"] for held in report["kept"].values()) == 0
    assert report["kept"]["train"]["tokens"] == sum(len(shard.tokens) for shard in corpus.shards("train"))


def test_documents_decode_back_to_their_text(tmp_path: Path, english: list[str], tokenizer: Tokenizer):
    documents = [" ".join(english[i : i + 5]) for i in range(0, 200, 5)]
    recipe = Recipe(**{**vars(KEEP_ALL), "validation": 0.0})
    corpus = prepare([lines_of(documents, tmp_path / "a.jsonl")], tokenizer, tmp_path / "out", recipe)
    (shard,) = corpus.shards("train")
    for number, text in enumerate(documents):
        first, last = shard.sentences_of(number)
        ids = shard.tokens[shard.tokens_of(first)[0] : shard.tokens_of(last - 1)[1]].tolist()
        assert corpus.tokenizer.decode(ids) == tokenizer.decode(tokenizer.backend.encode(text).ids)


def test_any_number_of_processes_gives_the_same_bytes(tmp_path: Path, corpus_files: Path, tokenizer: Tokenizer):
    one = prepare([str(corpus_files)], tokenizer, tmp_path / "one", RECIPE, part_bytes=50_000)
    three = prepare([str(corpus_files)], tokenizer, tmp_path / "three", RECIPE, part_bytes=50_000, workers=3)
    assert contents(one.path) == contents(three.path)
    assert len(one.shard_names("train")) > 3
    assert not (one.path / "work").exists()


def test_the_report_and_the_lists_add_up(tmp_path: Path, corpus_files: Path, tokenizer: Tokenizer):
    corpus = prepare([str(corpus_files)], tokenizer, tmp_path / "out", RECIPE)
    report = corpus.report
    kept = sum(held["documents"] for held in report["kept"].values())
    assert report["read"]["documents"] == kept + sum(report["dropped"].values())
    quarantine = [json.loads(line) for line in (corpus.path / "quarantine.jsonl").read_text().splitlines()]
    assert report["read"]["quarantined"] == 3
    assert {Path(entry["file"]).name for entry in quarantine} == {"a.jsonl", "picture.png", "empty.txt"}
    assert [entry["line"] for entry in quarantine if "a.jsonl" in entry["file"]] == [131, 132, 133]
    dropped = [json.loads(line) for line in (corpus.path / "dropped.jsonl").read_text().splitlines()]
    assert len(dropped) == sum(report["dropped"].values())
    copies = [entry for entry in dropped if entry["reason"] == "duplicate"]
    assert [(entry["line"], entry["same_as"]["line"]) for entry in copies[:10]] == [(121 + i, 1 + i) for i in range(10)]
    assert report["dropped"]["duplicate"] == 20
    assert {entry["file"].rsplit("/")[-1] for entry in copies[10:]} == {"d.jsonl.gz"}


def test_a_document_stays_in_its_split_as_the_corpus_grows(tmp_path: Path, english: list[str], spelling: Tokenizer):
    documents = [" ".join(english[i : i + 3]) for i in range(0, 900, 3)]
    recipe = Recipe(**{**vars(KEEP_ALL), "validation": 0.2})
    small = prepare([lines_of(documents[100:200], tmp_path / "a.jsonl")], spelling, tmp_path / "small", recipe)
    large = prepare([lines_of(documents, tmp_path / "b.jsonl")], spelling, tmp_path / "large", recipe)
    in_small, in_large = ({"".join(d) for d in spelled(corpus, "validation")} for corpus in (small, large))
    assert 5 <= len(in_small) <= 40
    assert in_small == in_large & {"".join(d) for split in ("train", "validation") for d in spelled(small, split)}


def test_chinese_words_are_kept_in_the_shards(tmp_path: Path, tokenizer: Tokenizer):
    source = lines_of(["我们喜欢学习自然语言处理。他吃了一个苹果。"], tmp_path / "a.jsonl")
    digest = DigestSettings(cleaning=Cleaning(min_chars=0), segment_chinese=True)
    corpus = prepare([source], tokenizer, tmp_path / "out", Recipe(digest=digest, validation=0))
    (shard,) = corpus.shards("train")
    assert len(shard.sentence_ends) == 2
    flags = shard.word_start_flags(0, 6).tolist()
    assert flags == [True, False, True, False, True, False]
    assert shard.word_start_flags(1, 4).tolist() == flags[1:4]
    assert corpus.report["kept"]["train"]["words"] < len(shard.tokens)


def test_a_second_call_finds_the_corpus_there(tmp_path: Path, corpus_files: Path, tokenizer: Tokenizer):
    first = prepare([str(corpus_files)], tokenizer, tmp_path / "out", RECIPE)
    written = {file: file.stat().st_mtime_ns for file in first.path.iterdir()}
    prepare([str(corpus_files)], tokenizer, tmp_path / "out", RECIPE)
    assert written == {file: file.stat().st_mtime_ns for file in first.path.iterdir()}
    with pytest.raises(WriteError, match="other settings"):
        prepare([str(corpus_files)], tokenizer, tmp_path / "out", KEEP_ALL)
    other = prepare([str(corpus_files)], tokenizer, tmp_path / "out", KEEP_ALL, overwrite=True)
    assert other.report["dropped"]["duplicate"] == 0


def test_strict_stops_at_the_first_record_that_cannot_be_read(tmp_path: Path, corpus_files: Path, tokenizer: Tokenizer):
    recipe = Recipe(**{**vars(RECIPE), "strict": True})
    with pytest.raises(InputError, match=r"a\.jsonl, line 131.*UTF-8"):
        prepare([str(corpus_files / "a.jsonl")], tokenizer, tmp_path / "out", recipe)
    with pytest.raises(InputError, match=r"(empty\.txt.*empty|picture\.png.*PNG)"):
        prepare([str(corpus_files)], tokenizer, tmp_path / "other", recipe)


def test_nothing_readable_is_an_error_that_says_why(tmp_path: Path, tokenizer: Tokenizer):
    (tmp_path / "a.jsonl").write_text('{"body": "a text under another name"}\n' * 3)
    with pytest.raises(InputError, match=r"none of 3 records.*line 1: no field .text.*`field`"):
        prepare([str(tmp_path / "a.jsonl")], tokenizer, tmp_path / "out")
    (tmp_path / "b.jsonl").write_text('{"text": "tiny"}\n' * 3)
    with pytest.raises(InputError, match="all 3 documents were left out: 3 too short"):
        prepare([str(tmp_path / "b.jsonl")], tokenizer, tmp_path / "out2")


def test_a_corpus_of_another_tokenizer_is_refused_with_both_hashes(
    tmp_path: Path, corpus_files: Path, tokenizer: Tokenizer, spelling: Tokenizer
):
    corpus = prepare([str(corpus_files)], tokenizer, tmp_path / "out", RECIPE)
    with pytest.raises(CorpusError) as refused:
        corpus.require_tokenizer(spelling)
    assert tokenizer.sha256() in str(refused.value)
    assert spelling.sha256() in str(refused.value)


@pytest.mark.parametrize("family", ["roberta", "albert"])
def test_other_tokenizers_keep_sentences_words_and_text(tmp_path: Path, english: list[str], family: str):
    from bertkit.text import draw_sample
    from bertkit.text.train import train

    trained = train(draw_sample(english[:1500]), vocabulary(family, vocab_size=1000)).tokenizer
    documents = [" ".join(english[i : i + 4]).lower() for i in range(0, 400, 4)]
    recipe = Recipe(**{**vars(KEEP_ALL), "validation": 0.0})
    corpus = prepare([lines_of(documents, tmp_path / "a.jsonl")], trained, tmp_path / "out", recipe)
    (shard,) = corpus.shards("train")
    for number, text in enumerate(documents):
        first, last = shard.sentences_of(number)
        start, stop = shard.tokens_of(first)[0], shard.tokens_of(last - 1)[1]
        assert last - first == len(split_sentences(text))
        assert corpus.tokenizer.decode(shard.tokens[start:stop].tolist()).split() == text.split()
        flags = shard.word_start_flags(start, stop)
        assert flags[0]
        assert len(text.split()) <= np.count_nonzero(flags) < stop - start


def test_the_disk_holds_little_more_than_the_ids(tmp_path: Path, english: list[str], tokenizer: Tokenizer):
    documents = ["\n".join(english[i : i + 30]) for i in range(0, len(english) - 30, 30)]
    corpus = prepare([lines_of(documents, tmp_path / "a.jsonl")], tokenizer, tmp_path / "out", KEEP_ALL)
    size = sum((corpus.path / entry["file"]).stat().st_size for entry in corpus.manifest["shards"])
    tokens = sum(entry["tokens"] for entry in corpus.manifest["shards"])
    assert size / tokens == pytest.approx(corpus.report["bytes_per_token"], abs=0.001)
    assert size / tokens < 2.6


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"near_duplicates": 0.3}, "0.5 to 1"),
        ({"boilerplate": 1}, "2 or more"),
        ({"validation": 1.0}, "less than 1"),
        ({"shard_tokens": 0}, "1 or more"),
    ],
)
def test_recipes_that_cannot_be_are_refused(wrong: dict[str, float], words: str):
    with pytest.raises(UsageError, match=words):
        Recipe(**wrong)


def test_special_tokens_are_never_in_shards(tmp_path: Path, tokenizer: Tokenizer):
    text = "The [MASK] token and the [SEP] token stand for nothing in a text about [CLS] tokens."
    corpus = prepare([lines_of([text], tmp_path / "a.jsonl")], tokenizer, tmp_path / "out", Recipe(validation=0))
    special = {tokenizer.backend.token_to_id(token) for token in tokenizer.specials.values()} - {tokenizer.unk_id}
    assert not special & set(corpus.shards("train")[0].tokens.tolist())
    assert re.search("mask", corpus.tokenizer.decode(corpus.shards("train")[0].tokens.tolist()))


def test_the_tokenizer_that_is_given_stays_as_it_is(tmp_path: Path, english: list[str], tokenizer: Tokenizer):
    """In a corpus "[MASK]" is text, and elsewhere it is a mask."""
    assert tokenizer.encode("a [MASK]").ids[2] == tokenizer.mask_id
    prepare([lines_of(["\n".join(english[:9])], tmp_path / "t.jsonl")], tokenizer, tmp_path / "out", recipe=RECIPE)
    assert tokenizer.encode("a [MASK]").ids[2] == tokenizer.mask_id
