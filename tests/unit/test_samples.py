from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise
from pathlib import Path
from pydoc_data.topics import topics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertkit.corpus import BLOCK, Pairs, Plan, Sequences, Shard, Span, follow, framed, open_shard, write_shard
from bertkit.errors import CorpusError, UsageError
from bertkit.text import Tokenizer

CLS, SEP = 10**6, 10**6 + 1
LENGTHS = st.lists(st.lists(st.integers(1, 12), min_size=1, max_size=8), min_size=1, max_size=8)
"""Documents, as the numbers of tokens of their sentences."""


def shard_of(documents: list[list[list[int]]], word_starts: list[bool] | None = None) -> Shard:
    sentences = [sentence for document in documents for sentence in document]
    tokens = np.array([token for sentence in sentences for token in sentence], np.uint32)
    starts = np.ones(len(tokens), bool) if word_starts is None else np.array(word_starts)
    return Shard(
        tokens=tokens,
        word_starts=np.packbits(starts, bitorder="little"),
        sentence_ends=np.cumsum([len(sentence) for sentence in sentences]).astype(np.uint32),
        document_ends=np.cumsum([len(document) for document in documents]).astype(np.uint32),
    )


def numbered(lengths: list[list[int]]) -> Shard:
    """A shard in which every token is its own number, so that it tells where it stands."""
    place = iter(range(10**6))
    return shard_of([[[next(place) for _ in range(length)] for length in document] for document in lengths])


def pairs_of(shards: list[Shard], max_length: int = 16, *, seed: int = 0, epoch: int = 0, **options) -> Pairs:
    return Pairs(shards, max_length=max_length, cls_id=CLS, sep_id=SEP, seed=seed, epoch=epoch, **options)


def document_of(shards: list[Shard], span: Span) -> tuple[int, int]:
    sentence = int(np.searchsorted(shards[span.shard].sentence_ends, span.start, side="right"))
    return span.shard, int(np.searchsorted(shards[span.shard].document_ends, sentence, side="right"))


@pytest.fixture(scope="module")
def real(tokenizer: Tokenizer) -> list[Shard]:
    """The topics of the language reference as documents, their lines as sentences, in two shards."""
    documents = []
    for _, text in sorted(topics.items()):
        encoded = tokenizer.encode_ids([line for line in text.splitlines() if line.strip()])
        documents.append([ids[1:-1] for ids in encoded if len(ids) > 2])
    halves = documents[:30], documents[30:]
    return [shard_of(half, [not _is_continuation(tokenizer, token) for token in _flat(half)]) for half in halves]


def _flat(documents: list[list[list[int]]]) -> list[int]:
    return [token for document in documents for sentence in document for token in sentence]


def _is_continuation(tokenizer: Tokenizer, token: int) -> bool:
    return tokenizer.token(token).startswith("##")


def test_a_sample_carries_all_that_masking_needs():
    shard = shard_of([[[5, 6, 7], [8, 9]]], [True, True, False, False, True])
    sample = framed([shard], (Span(0, 0, 3), Span(0, 3, 5)), cls_id=1, sep_id=2, is_next=True)
    assert sample.ids.tolist() == [1, 5, 6, 7, 2, 8, 9, 2]
    assert sample.segments.tolist() == [0, 0, 0, 0, 0, 1, 1, 1]
    assert sample.special.tolist() == [True, False, False, False, True, False, False, True]
    # Token 8 goes on with a word that was cut off; as the first of B it counts as the start of one.
    assert sample.word_starts.tolist() == [False, True, True, False, False, True, True, False]
    assert len(sample) == 8


def test_samples_are_found_across_shards_some_of_them_empty():
    plan = Plan([np.array([0, 5]), np.array([], np.int64), np.array([0, 9, 300])])
    assert [plan.locate(number) for number in range(len(plan))] == [(0, 0), (0, 1), (2, 0), (2, 1), (2, 2)]
    assert [starts.itemsize for starts in plan.starts] == [1, 1, 2]
    for outside in (-1, 5):
        with pytest.raises(IndexError, match=f"sample {outside} of 5"):
            plan.locate(outside)


def test_links_are_followed_beyond_a_block():
    def next_of(places):
        return places + 1 + places % 7

    count = 3 * BLOCK + 5
    expected, place = [], 0
    while place < count:
        expected.append(place)
        place += 1 + place % 7
    assert follow(count, next_of).tolist() == expected


@given(st.lists(LENGTHS, min_size=1, max_size=3), st.integers(3, 20))
def test_sequences_lose_no_token_and_are_as_full_as_sentences_allow(shards_of_lengths, max_length):
    shards = [numbered(lengths) for lengths in shards_of_lengths]
    sequences = Sequences(shards, max_length=max_length, cls_id=CLS, sep_id=SEP)
    samples = [sequences[number] for number in range(len(sequences))]
    room = max_length - 2
    assert [int(token) for sample in samples for token in sample.ids[~sample.special]] == [
        int(token) for shard in shards for token in shard.tokens
    ]
    for sample in samples:
        assert sample.ids[[0, -1]].tolist() == [CLS, SEP]
        assert not sample.segments.any()
        assert sample.is_next is None
        (span,) = sample.parts
        shard = shards[span.shard]
        assert 0 < span.length <= room
        assert document_of(shards, span) == document_of(shards, Span(span.shard, span.stop - 1, span.stop))
        ends = shard.sentence_ends.tolist()
        document_ends = [ends[sentence - 1] for sentence in shard.document_ends.tolist()]
        if span.stop not in ends:  # only within a sentence that did not fit, and then the sequence is full
            assert span.length == room
        elif span.stop not in document_ends:
            following = ends[ends.index(span.stop) + 1] - span.stop
            assert following > room - span.length


def test_a_long_sentence_is_cut_and_its_rest_goes_on_with_the_next():
    sequences = Sequences([numbered([[3, 10, 2], [1]])], max_length=6, cls_id=CLS, sep_id=SEP)
    assert [sample.parts[0][1:] for sample in map(sequences.__getitem__, range(len(sequences)))] == [
        (0, 3),
        (3, 7),
        (7, 11),
        (11, 15),
        (15, 16),
    ]


@pytest.mark.parametrize("negatives", ["document", "swap"])
@given(st.lists(LENGTHS, min_size=1, max_size=3), st.integers(5, 20), st.integers(0, 99))
def test_pairs_are_framed_and_fit_whatever_the_documents(negatives, shards_of_lengths, max_length, seed):
    shards = [numbered(lengths) for lengths in shards_of_lengths]
    if negatives == "document" and sum(map(len, shards)) < 2:
        return
    pairs = pairs_of(shards, max_length, seed=seed, negatives=negatives, short_share=0.3)
    for sample in map(pairs.__getitem__, range(len(pairs))):
        a, b = sample.parts
        assert 5 <= len(sample) <= max_length
        assert min(a.length, b.length) > 0
        assert sample.special.nonzero()[0].tolist() == [0, a.length + 1, len(sample) - 1]
        assert sample.ids[sample.special].tolist() == [CLS, SEP, SEP]
        assert sample.segments.tolist() == [0] * (a.length + 2) + [1] * (b.length + 1)
        for span, segment in ((a, 0), (b, 1)):
            inside = ~sample.special & (sample.segments == segment)
            assert sample.ids[inside].tolist() == list(range(span.start, span.stop))
            assert document_of(shards, span) == document_of(shards, Span(span.shard, span.stop - 1, span.stop))
        assert (document_of(shards, a) == document_of(shards, b)) == (sample.is_next or negatives == "swap")
        if sample.is_next:
            assert b.start >= a.stop
        elif negatives == "swap":
            assert a.start >= b.stop


@pytest.mark.parametrize("short_share", [0.0, 0.1, 1.0])
def test_each_pair_starts_where_the_last_one_left_off(short_share):
    """With sentences of one token nothing is ever cut off, so that every step can be followed."""
    shards = [numbered([[1] * 50, [1] * 7, [1], [1] * 200])]
    pairs = pairs_of(shards, 19, short_share=short_share)
    place, starts, stops = 0, [0, 50, 57, 58], [50, 57, 58, 258]
    for sample in map(pairs.__getitem__, range(len(pairs))):
        a, b = sample.parts
        assert a.start == place
        if sample.is_next:
            assert b.start == a.stop
            place = b.stop
        else:
            place = a.stop
        stop = next(stop for stop in stops if stop > a.start)
        assert place <= stop
        if sample.is_next and short_share == 0:
            assert place == min(stop, a.start + 16)
    assert place == 258
    assert {pairs[number].parts[0].start for number in range(len(pairs))} >= set(starts)


def test_a_tenth_of_pairs_is_short_and_short_ones_have_any_length():
    room = 32
    pairs = pairs_of([numbered([[1] * 20_000] * 4)], room + 3)
    lengths = [len(sample) - 3 for sample in map(pairs.__getitem__, range(len(pairs))) if sample.is_next]
    short = [length for length in lengths if length < room]
    assert len(lengths) > 1500
    assert len(short) / len(lengths) == pytest.approx(0.1 * 30 / 31, abs=0.03)
    assert min(short) <= 4
    assert np.mean(short) == pytest.approx((2 + room - 1) / 2, abs=3)


def loop_truncated(a: int, b: int, room: int, rng: random.Random) -> tuple[tuple[int, int], tuple[int, int]]:
    """What is cut at the front and back of A and of B, token by token."""
    cut = {"a": [0, 0], "b": [0, 0]}
    while a + b > room:
        longer = "a" if a > b else "b"
        cut[longer][rng.random() < 0.5] += 1
        a, b = (a - 1, b) if longer == "a" else (a, b - 1)
    return tuple(cut["a"]), tuple(cut["b"])


@pytest.mark.parametrize(("a", "b"), [(40, 3), (3, 40), (25, 25), (26, 11), (11, 26), (10, 10), (12, 11), (300, 10)])
@pytest.mark.parametrize("max_length", [24, 25])
def test_the_longer_side_is_cut_at_both_ends_as_a_loop_would(a, b, max_length):
    rng = random.Random(1)
    shards = [numbered([[a], [b]])]
    fronts = {"ours": [], "loop": []}
    for epoch in range(300):
        first, second = pairs_of(shards, max_length, epoch=epoch)[0].parts
        cut_a, cut_b = loop_truncated(a, b, max_length - 3, rng)
        assert (a - first.length, b - second.length) == (sum(cut_a), sum(cut_b))
        fronts["ours"].append((first.start, second.start - a))
        fronts["loop"].append((cut_a[0], cut_b[0]))
    ours, loop = np.array(fronts["ours"]), np.array(fronts["loop"])
    spread = np.sqrt(np.array([sum(cut_a), sum(cut_b)]) / 4)
    assert (np.abs(ours.mean(0) - loop.mean(0)) <= 5 * spread * (2 / 300) ** 0.5).all()
    assert ours.std(0) == pytest.approx(spread, rel=0.2)


def reference_pairs(documents: list[list[int]], room: int, rng: random.Random) -> list[tuple[int, int, bool]]:
    """BERT's recipe as a plain loop over the lengths of sentences: the lengths of A and B, and whether B is next."""
    drawn = []
    for own, document in enumerate(documents):
        waiting = list(document)
        while waiting:
            target = rng.randint(2, room) if rng.random() < 0.1 else room
            chunk = []
            while waiting and sum(chunk) < target:
                chunk.append(waiting.pop(0))
            split = rng.randint(1, len(chunk) - 1) if len(chunk) > 1 else 1
            a, rest = sum(chunk[:split]), chunk[split:]
            is_next = bool(rest) and rng.random() >= 0.5
            if is_next:
                b = sum(rest)
            else:
                waiting = rest + waiting
                other = documents[rng.choice([number for number in range(len(documents)) if number != own])]
                b = 0
                for length in other[rng.randrange(len(other)) :]:
                    b += length
                    if b >= target - a:
                        break
            cut_a, cut_b = loop_truncated(a, b, room, rng)
            drawn.append((a - sum(cut_a), b - sum(cut_b), is_next))
    return drawn


def assert_drawn_as_by_the_recipe(shards: list[Shard], max_length: int, epochs: int) -> None:
    documents = []
    for shard in shards:
        lengths = np.diff(shard.sentence_ends.astype(int), prepend=0)
        documents += [lengths[slice(*shard.sentences_of(number))].tolist() for number in range(len(shard))]
    rng = random.Random(0)
    loop = [drawn for _ in range(epochs) for drawn in reference_pairs(documents, max_length - 3, rng)]
    ours = []
    for epoch in range(epochs):
        pairs = pairs_of(shards, max_length, epoch=epoch)
        samples = map(pairs.__getitem__, range(len(pairs)))
        ours += [(*(span.length for span in sample.parts), sample.is_next) for sample in samples]
    assert len(ours) == pytest.approx(len(loop), rel=0.03)
    loop_a, loop_b, loop_next = np.array(loop).T
    our_a, our_b, our_next = np.array(ours).T
    noise = 5 * (0.5 / len(loop)) ** 0.5
    assert our_next.mean() == pytest.approx(loop_next.mean(), abs=noise)
    for of_ours, of_loop in [(our_a, loop_a), (our_b, loop_b), (our_a + our_b, loop_a + loop_b)]:
        for length in np.linspace(1, max_length - 3, 12):
            assert (of_ours < length).mean() == pytest.approx((of_loop < length).mean(), abs=noise)


def test_generated_documents_are_paired_as_by_the_recipe():
    rng = random.Random(2)
    lengths = [[rng.randint(1, 40) for _ in range(rng.randint(1, 60))] for _ in range(100)]
    assert_drawn_as_by_the_recipe([numbered(lengths[:40]), numbered(lengths[40:])], max_length=64, epochs=4)


def test_real_text_is_paired_as_by_the_recipe(real):
    assert_drawn_as_by_the_recipe(real, max_length=128, epochs=3)


def test_real_pairs_are_true_about_half_of_the_time_and_mostly_full(real):
    pairs = pairs_of(real, 128)
    samples = [pairs[number] for number in range(len(pairs))]
    assert 0.4 < np.mean([sample.is_next for sample in samples]) < 0.52
    assert np.mean([len(sample) == 128 for sample in samples]) > 0.7
    assert 0.05 < np.mean([len(sample) < 100 for sample in samples]) < 0.25
    foreign = [sample for sample in samples if not sample.is_next]
    assert all(document_of(real, sample.parts[0]) != document_of(real, sample.parts[1]) for sample in foreign)
    assert len({document_of(real, sample.parts[1]) for sample in foreign}) > 60
    assert Counter(sample.parts[0].shard == sample.parts[1].shard for sample in foreign)[False] > 100


def _decoded_documents(shards: list[Shard], tokenizer: Tokenizer) -> dict[tuple[int, int], str]:
    texts = {}
    for number, shard in enumerate(shards):
        for document in range(len(shard)):
            first, stop = shard.sentences_of(document)
            ids = shard.tokens[shard.tokens_of(first)[0] : shard.tokens_of(stop - 1)[1]]
            texts[number, document] = tokenizer.decode(ids.tolist())
    return texts


@pytest.mark.parametrize("negatives", ["document", "swap"])
def test_a_thousand_pairs_decode_to_stretches_of_their_documents(real, tokenizer, negatives):
    pairs = Pairs(
        real, max_length=96, cls_id=tokenizer.cls_id, sep_id=tokenizer.sep_id, seed=4, epoch=0, negatives=negatives
    )
    texts = _decoded_documents(real, tokenizer)
    for number in random.Random(0).sample(range(len(pairs)), 500):
        sample = pairs[number]
        tokens = [tokenizer.token(int(token)) for token in sample.ids]
        first, second = (place for place, token in enumerate(tokens) if token == "[SEP]")
        assert tokens[0] == "[CLS]"
        assert second == len(tokens) - 1 > first + 1 > 2
        assert sample.segments.tolist() == [0] * (first + 1) + [1] * (second - first)
        assert sample.special.nonzero()[0].tolist() == [0, first, second]
        for span, begin, end in zip(sample.parts, (1, first + 1), (first, second), strict=True):
            stretch = tokenizer.decode(sample.ids[begin:end].tolist()).removeprefix("##")
            assert stretch in texts[document_of(real, span)]
            words = [not token.startswith("##") for token in tokens[begin:end]]
            assert sample.word_starts[begin:end].tolist() == [True, *words[1:]]


def test_swapped_pairs_are_neighbours_in_either_order():
    pairs = pairs_of([numbered([[1] * 300, [1] * 200])], negatives="swap")
    samples = [pairs[number] for number in range(len(pairs))]
    for sample in samples:
        a, b = sample.parts
        assert (a.stop == b.start) if sample.is_next else (b.stop == a.start)
    assert 0.3 < np.mean([sample.is_next for sample in samples]) < 0.7
    spans = sorted(Span(0, min(s.parts).start, max(s.parts).stop) for s in samples)
    assert [span.start for span in spans] == [0, *(span.stop for span in spans[:-1])]
    assert spans[-1].stop == 500


def test_a_single_sentence_is_swapped_at_a_word_near_its_middle():
    shard = shard_of([[list(range(10))]], [place in (0, 1, 6, 9) for place in range(10)])
    orders = {pairs_of([shard], 50, epoch=epoch, negatives="swap", short_share=0)[0].parts for epoch in range(20)}
    assert orders == {(Span(0, 0, 6), Span(0, 6, 10)), (Span(0, 6, 10), Span(0, 0, 6))}
    one_word = shard_of([[[1, 2, 3, 4]]], [True, False, False, False])
    assert min(pairs_of([one_word], negatives="swap")[0].parts) == Span(0, 0, 2)


def test_a_single_token_cannot_be_swapped_and_is_left_out():
    pairs = pairs_of([numbered([[1], [4], [1]])], negatives="swap")
    assert [min(pairs[number].parts).start for number in range(len(pairs))] == [1]


def test_a_pair_is_the_same_whoever_asks_and_in_whatever_order():
    rng = random.Random(5)
    shards = [numbered([[rng.randint(1, 9) for _ in range(30)] for _ in range(20)]) for _ in range(2)]
    forwards, other = pairs_of(shards, seed=1), pairs_of(shards, seed=1)
    backwards = {number: other[number].ids.tolist() for number in reversed(range(len(other)))}
    assert all(forwards[number].ids.tolist() == backwards[number] for number in range(len(forwards)))
    assert len(forwards) == len(other)


@pytest.mark.parametrize("other", [{"epoch": 1}, {"seed": 1}])
def test_another_seed_or_epoch_draws_other_pairs(other):
    shards = [numbered([[3] * 40, [4] * 40])]
    ours, others = pairs_of(shards), pairs_of(shards, **other)
    assert [ours[number].parts for number in range(10)] != [others[number].parts for number in range(10)]


def test_shards_from_disk_give_the_same_samples(tmp_path: Path):
    shard = numbered([[5, 6, 7] * 5, [3, 20] * 4, [1]])
    write_shard(tmp_path / "shard.safetensors", shard, {})
    mapped, _ = open_shard(tmp_path / "shard.safetensors")
    for one, other in [
        (pairs_of([shard]), pairs_of([mapped])),
        *[tuple(Sequences([each], max_length=16, cls_id=CLS, sep_id=SEP) for each in (shard, mapped))],
    ]:
        assert len(one) == len(other) > 5
        for number in range(len(one)):
            assert one[number].ids.tolist() == other[number].ids.tolist()
            assert one[number].parts == other[number].parts


def test_a_huge_document_and_many_small_ones_lose_nothing_beyond_a_block():
    lengths = np.random.default_rng(0).integers(1, 5, 100_000)
    ends = np.cumsum(lengths)
    for document_ends in (np.array([100_000]), np.arange(1, 100_001)):
        flags = np.zeros((ends[-1] + 7) // 8, np.uint8)
        shard = Shard(np.zeros(ends[-1], np.uint16), flags, ends, document_ends.astype(np.uint64))
        sequences = Sequences([shard], max_length=34, cls_id=CLS, sep_id=SEP)
        spans = [sequences[number].parts[0] for number in range(len(sequences))]
        assert spans[0].start == 0
        assert spans[-1].stop == ends[-1]
        assert all(one.stop == other.start for one, other in pairwise(spans))
        assert max(span.length for span in spans) <= 32
    assert len(spans) == 100_000


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"max_length": 4}, UsageError, "pairs of 4 tokens. Take at least 5"),
        ({"negatives": "swop"}, UsageError, r"negatives are 'swop'.*Did you mean 'swap'\? There are: document, swap"),
        ({"short_share": 1.5}, UsageError, "share of short pairs is 1.5"),
        ({}, CorpusError, "pairs need two documents, and there are 1"),
    ],
)
def test_pairs_that_cannot_be_made_are_refused(options, error, message):
    with pytest.raises(error, match=message):
        pairs_of([numbered([[3, 4]])], **options)


def test_sequences_without_room_for_a_token_are_refused():
    with pytest.raises(UsageError, match="sequences of 2 tokens"):
        Sequences([numbered([[3]])], max_length=2, cls_id=CLS, sep_id=SEP)
