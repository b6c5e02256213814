"""Planted duplicates are found, different documents stay, and lines that many documents share are told from others."""

from __future__ import annotations

import random
import re
import zlib
from functools import cache

import numpy as np
import pytest

from bertkit.corpus import (
    KEPT,
    REASONS,
    SHINGLE,
    Documents,
    agreement,
    choose,
    choosing,
    line_hash,
    signatures,
    text_hash,
)
from bertkit.corpus.choosing import Choice

DUPLICATE, NEAR = REASONS.index("duplicate"), REASONS.index("near duplicate")


@cache
def number_of(word: str) -> int:
    return zlib.crc32(word.encode()) | 1


def documents(texts: list[str]) -> Documents:
    """Texts as a part: a token for each word, 0 for punctuation; a sentence for each line."""
    lines = [text.split("\n") for text in texts]
    flat = [line for some in lines for line in some]
    words = [word for line in flat for word in line.split()]
    tokens = np.array([number_of(word) if re.search(r"\w", word) else 0 for word in words], np.uint32)
    return Documents(
        tokens=tokens,
        word_starts=np.ones(len(tokens), np.uint8),
        sentence_tokens=np.array([len(line.split()) for line in flat], np.uint32),
        line_sentences=np.ones(len(flat), np.uint32),
        line_characters=np.array([len(line) for line in flat], np.uint32),
        line_hashes=np.array([line_hash(line) for line in flat], np.uint64),
        document_lines=np.array([len(some) for some in lines], np.uint32),
        document_status=np.zeros(len(texts), np.uint8),
        document_hashes=np.array([text_hash(text) for text in texts], np.uint64),
        document_signatures=signatures(tokens, np.array([len(text.split()) for text in texts]), unknown=0),
        document_sources=np.zeros(len(texts), np.uint32),
        document_places=np.arange(len(texts), dtype=np.uint64),
    )


def in_parts(texts: list[str], size: int = 37) -> list[Documents]:
    return [documents(texts[start : start + size]) for start in range(0, len(texts), size)]


def fates(texts: list[str], *, near: float | None = None, boilerplate: int | None = None):
    return choose(in_parts(texts), exact=True, near=near, boilerplate=boilerplate, min_characters=20, unknown=0)


def twins(choice: Choice) -> dict[int, int]:
    return dict(zip(*(column.tolist() for column in choice.twins.pairs()), strict=True))


def paragraphs(english: list[str], count: int, words: int, seed: int) -> list[list[str]]:
    """Different texts: stretches of the reference, and of the reference in made-up dialects, without overlap."""
    words_there = re.findall("[a-z]+", " ".join(english).lower())
    everything = [f"{word}{ending}" for ending in ("", "en", "ish") for word in words_there]
    draw = random.Random(seed)
    starts = draw.sample(range(0, len(everything) - words, words), count)
    return [everything[start : start + words] for start in starts]


def changed(words: list[str], jaccard: float, draw: random.Random) -> list[str]:
    """The words with as many replaced as leave `jaccard` of their sequences, or just above."""
    now = list(words)
    for place in draw.sample(range(len(words)), len(words)):
        next_one = [*now[:place], f"x{draw.randrange(10**9)}", *now[place + 1 :]]
        if shared(words, next_one) < jaccard:
            return now
        now = next_one
    return now


def shared(left: list[str], right: list[str]) -> float:
    return len(shingles(left) & shingles(right)) / len(shingles(left) | shingles(right))


def shingles(words: list[str]) -> set[tuple[str, ...]]:
    return {tuple(words[i : i + SHINGLE]) for i in range(len(words) - SHINGLE + 1)}


def test_every_exact_duplicate_is_found_whatever_its_case_and_spaces(english: list[str]):
    originals = list(dict.fromkeys(english))[:400]
    draw = random.Random(1)
    copies = [(number, draw.choice([str, str.upper, lambda t: t.replace(" ", "  ")])(originals[number])) for number in
              draw.choices(range(400), k=300)]  # fmt: skip
    choice = fates(originals + [text for _, text in copies])
    assert (choice.status[:400] == KEPT).all()
    assert (choice.status[400:] == DUPLICATE).all()
    assert [twins(choice)[400 + i] for i in range(300)] == [number for number, _ in copies]


def test_the_work_done_in_rounds_gives_the_same(english: list[str], monkeypatch):
    texts = [*english[:300], *english[100:200]]
    texts += [f"{text} and more of it, to be sure of that" for text in english[:50]]
    whole = fates(texts, near=0.8, boilerplate=3)
    monkeypatch.setattr(choosing, "AT_ONCE", 60)
    rounds = fates(texts, near=0.8, boilerplate=3)
    assert (whole.status == rounds.status).all()
    assert (whole.boilerplate == rounds.boilerplate).all()
    assert twins(whole) == twins(rounds)


@pytest.mark.parametrize("words", [100, 400])
def test_near_duplicates_at_the_threshold_are_found_and_others_are_not(english: list[str], words: int):
    draw = random.Random(2)
    originals = paragraphs(english, 300, words, seed=3)
    near = [changed(text, 0.8, draw) for text in originals]
    far = [changed(text, 0.6, draw) for text in originals]
    base = [" ".join(text) for text in originals]
    alone = fates(base, near=0.8).status == NEAR  # the reference itself repeats some passages
    with_near = fates(base + [" ".join(text) for text in near], near=0.8)
    found = (with_near.status[300:] == NEAR)[~alone]
    assert found.mean() >= 0.95
    with_far = fates(base + [" ".join(text) for text in far], near=0.8)
    assert (with_far.status[300:] == NEAR)[~alone].mean() <= 0.01
    originals_named = [twins(with_near).get(300 + i) == i for i in np.flatnonzero(~alone).tolist()]
    assert np.mean(originals_named) >= 0.95


def test_unrelated_documents_are_no_near_duplicates(english: list[str]):
    """All pairs among a thousand stretches that share no passage."""
    everything = [f"{word}{number // 60}" for number, word in enumerate(" ".join(english).split())]
    texts = [" ".join(everything[i : i + 50]) for i in range(0, 50_000, 50)]
    assert (fates(texts, near=0.5).status == KEPT).all()


def test_the_estimate_is_the_jaccard_index(english: list[str]):
    draw = random.Random(4)
    for aim in (0.9, 0.7, 0.4):
        originals = paragraphs(english, 60, 300, seed=5)
        others = [changed(text, aim, draw) for text in originals]
        true = [shared(a, b) for a, b in zip(originals, others, strict=True)]
        left = documents([" ".join(text) for text in originals]).document_signatures
        right = documents([" ".join(text) for text in others]).document_signatures
        assert np.mean(agreement(left, right)) == pytest.approx(np.mean(true), abs=0.03)


def test_of_a_chain_of_near_duplicates_only_those_with_a_kept_twin_go(english: list[str]):
    draw = random.Random(6)
    first = paragraphs(english, 1, 400, seed=7)[0]
    chain = [first]
    for _ in range(6):
        chain.append(changed(chain[-1], 0.85, draw))
    choice = fates([" ".join(text) for text in chain], near=0.8)
    for document, twin in twins(choice).items():
        assert choice.status[document] == NEAR
        assert choice.status[twin] == KEPT
    assert choice.status[0] == KEPT


def test_documents_without_words_are_not_alike():
    assert (fates(["!!! ??? ...... !!!!! ......", "----- ----- +++ === ***** ...."], near=0.8).status == KEPT).all()


def test_lines_of_many_documents_go_and_short_rests_with_them(english: list[str]):
    lines = list(dict.fromkeys(english))
    texts = [f"{lines[i]}\nAll rights reserved by the authors.\n{lines[i + 100]}" for i in range(30)]
    texts += ["All rights reserved by the authors.\nAnd so on.", "All rights reserved by the authors."]
    choice = fates(texts, boilerplate=20)
    assert choice.boilerplate.tolist() == [line_hash("All rights reserved by the authors.")]
    assert (choice.status[:30] == KEPT).all()
    assert choice.status[30] == REASONS.index("too short without boilerplate")
    assert choice.status[31] == KEPT  # a document of one line is compared as a document
    kept = choice.lines_kept(documents(texts))
    assert kept.tolist() == [True, False, True] * 30 + [False, True] + [True]
    assert not len(fates(texts, boilerplate=32).boilerplate)


def test_a_footer_under_different_pages_makes_no_duplicates_of_them(english: list[str]):
    footer = "\n".join(
        f"Line {number} of what stands under every page of this site, whatever is on it." for number in range(12)
    )
    pages = [f"{' '.join(words)}\n{footer}" for words in paragraphs(english, 60, 40, seed=8)]
    choice = fates(pages, near=0.8, boilerplate=20)
    assert len(choice.boilerplate) == 12
    assert (choice.status == KEPT).mean() > 0.95


def test_pages_that_are_the_same_under_different_headers_are_duplicates(english: list[str]):
    pages = [" ".join(words) for words in paragraphs(english, 40, 60, seed=9)]
    here, there = (
        [f"This is the {site} site and its pages.\n{page}" for page in pages] for site in ("first", "second")
    )
    choice = fates(here + there, boilerplate=20)
    assert (choice.status[:40] == KEPT).all()
    assert (choice.status[40:] == DUPLICATE).all()
    assert twins(choice) == {40 + number: number for number in range(40)}


def test_nearly_the_same_pages_are_found_behind_their_boilerplate(english: list[str]):
    draw = random.Random(10)
    words = paragraphs(english, 60, 120, seed=11)
    headers = ["\n".join(f"Header {line} of the {site} site, and some more." for line in range(9)) for site in "ab"]
    first = [f"{headers[0]}\n{' '.join(some)}" for some in words]
    second = [f"{headers[1]}\n{' '.join(changed(some, 0.85, draw))}" for some in words]
    choice = fates(first + second, near=0.8, boilerplate=20)
    assert (choice.status[60:] == NEAR).mean() > 0.9


def test_sequences_of_unknown_tokens_do_not_make_documents_alike():
    unknown = np.zeros(100, np.uint16)
    assert (signatures(unknown, np.array([50, 50]), unknown=0) == 0xFFFF).all()
    assert not (signatures(unknown, np.array([50, 50])) == 0xFFFF).all()
