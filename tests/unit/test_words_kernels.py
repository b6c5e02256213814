"""Every way of learning vectors, against a plain transcription of its formulas in numpy; one thread, every number."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from bertkit.words import (
    FIRST,
    SIGMOID,
    How,
    NextWord,
    Tables,
    chances_to_stay,
    examples,
    hashed,
    huffman,
    learn,
    learn_pairs,
    ngrams_of,
    parts_of,
    table_to_draw,
)

WORDS, SIZE, RATE = 30, 8, 0.05
COUNTS = np.array([0] * FIRST + [max(1, 200 // (n + 1)) for n in range(WORDS)])


def random_stream(length=400, seed=0):
    draw = np.random.default_rng(seed)
    found = draw.choice(np.arange(FIRST, FIRST + WORDS), length, p=COUNTS[FIRST:] / COUNTS.sum()).astype(np.uint32)
    found[draw.random(length) < 0.08] = 0
    found[draw.random(length) < 0.05] = 1
    return found


def random_tables(buckets=0, hierarchical=False, sample=0.01):
    draw = np.random.default_rng(7)
    words = [f"word{number}" for number in range(WORDS)]
    parts, starts = parts_of(words, 3, 4, buckets)
    none = np.zeros(1, np.int64), np.zeros(1, np.float32), np.zeros(1, np.int64)
    paths, turns, path_starts = huffman(COUNTS) if hierarchical else none
    return Tables(
        into=draw.normal(0, 0.3, (len(COUNTS) + buckets, SIZE)).astype(np.float32),
        out=draw.normal(0, 0.3, (len(COUNTS), SIZE)).astype(np.float32),
        keep=chances_to_stay(COUNTS, sample),
        drawn=table_to_draw(COUNTS)[:997].copy(),
        paths=paths, turns=turns, path_starts=path_starts, parts=parts, part_starts=starts,
    )  # fmt: skip


class Chance:
    """The row of bits that the kernel draws from."""

    def __init__(self, seed):
        self.state = seed | 1
        for _ in range(8):
            self.next()

    def next(self):
        mask = 2**64 - 1
        self.state ^= (self.state << 13) & mask
        self.state ^= self.state >> 7
        self.state ^= (self.state << 17) & mask
        return self.state


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def transcription(stream, how, tables, rate, seed):
    """What the kernel does, a word and a pair at a time, in double precision."""
    u, v, chance = tables.into.astype(float), tables.out.astype(float), Chance(seed)

    def outputs(word):
        if not how.negative:
            places = range(tables.path_starts[word], tables.path_starts[word + 1])
            return [(tables.paths[k], float(tables.turns[k])) for k in places]
        return [(word, 1.0), *drawn(word)]

    def drawn(word):
        found = (int(tables.drawn[(chance.next() >> 16) % len(tables.drawn)]) for _ in range(how.negative))
        return [(other, 0.0) for other in found if other != word]

    def together(inputs, pairs):
        old_u, old_v = u.copy(), v.copy()
        for i in inputs:
            for j, label in pairs:
                g = rate * (label - sigmoid(old_u[i] @ old_v[j]))
                u[i] += g * old_v[j]
                v[j] += g * old_u[i]

    def by_mean(rows, pairs, weights=None):
        h, moves, before = u[rows].mean(0), np.zeros(SIZE), v.copy()
        for k, (j, label) in enumerate(pairs):
            g = rate * (label - sigmoid(h @ before[j])) * (weights[k] if weights else 1)
            moves += g * before[j]
            v[j] += g * h
        for row in rows:
            u[row] += moves

    def its_parts(word):
        return tables.parts[tables.part_starts[word] : tables.part_starts[word + 1]].tolist()

    for line in np.split(stream, np.flatnonzero(stream == 0)):
        words = []
        for word in line[line >= FIRST].tolist():
            if tables.keep[word] < 1 and np.float32(chance.next() >> 40) * np.float32(2.0**-24) >= tables.keep[word]:
                continue
            words.append(word)
        for middle, word in enumerate(words):
            reach = how.window - (chance.next() >> 33) % how.window
            around = [
                words[k] for k in range(max(0, middle - reach), min(len(words), middle + reach + 1)) if k != middle
            ]
            if not around:
                continue
            if not how.bag:
                if how.shared or not how.negative:
                    together(around, outputs(word))
                else:
                    for each in around:
                        by_mean([each], outputs(word))
            elif not how.from_middle and how.shared and how.negative:
                if middle % 4 == 0:
                    others = drawn(0)
                pairs = [(word, 1.0), *(each for each in others if each[0] != word)]
                by_mean([part for each in around for part in its_parts(each)], pairs)
            elif not how.from_middle:
                by_mean([part for each in around for part in its_parts(each)], outputs(word))
            elif how.shared and how.negative:
                pairs = [(each, 1.0) for each in around] + drawn(word)
                by_mean(its_parts(word), pairs, [1.0] * len(around) + [float(len(around))] * (len(pairs) - len(around)))
            else:
                for each in around:
                    by_mean(its_parts(word), outputs(each))
    return u, v


@pytest.mark.parametrize("negative", [0, 5], ids=["huffman", "negative"])
@pytest.mark.parametrize("shared", [True, False], ids=["shared", "of-each-pair"])
@pytest.mark.parametrize(
    ("bag", "from_middle", "buckets"),
    [(False, False, 0), (True, False, 0), (True, False, 50), (True, True, 50)],
    ids=["skip-gram", "cbow", "cbow-subwords", "skip-gram-subwords"],
)
def test_updates_are_those_of_the_formulas(bag, from_middle, buckets, shared, negative):
    how = How(bag, from_middle, 4, negative, shared)
    tables = random_tables(buckets, hierarchical=not negative)
    u, v = transcription(random_stream(), how, tables, RATE, 12345)
    before = tables.into.copy()
    read = learn(random_stream(), how, tables, RATE, 12345)
    assert 0 < read < np.count_nonzero(random_stream() >= FIRST)  # some were left out by chance
    assert np.abs(tables.into - before).max() > 0.01
    np.testing.assert_allclose(tables.into, u, atol=1e-5, rtol=1e-5)
    np.testing.assert_allclose(tables.out, v, atol=1e-5, rtol=1e-5)


def test_the_sigmoid_that_is_looked_up_is_one():
    x = np.arange(4098) / 4096 * 24 - 12
    np.testing.assert_allclose(SIGMOID, 1 / (1 + np.exp(-x)), atol=1e-6)


def test_glove_updates_are_those_of_its_formulas():
    draw = np.random.default_rng(0)
    rows, size, rate, x_max, alpha = 12, 6, 0.05, 10.0, 0.75
    words, besides = draw.integers(0, rows, 200), draw.integers(0, rows, 200)
    counts = draw.exponential(8, 200).astype(np.float32) + 0.1
    vectors, biases = draw.normal(0, 0.3, (2 * rows, size)), draw.normal(0, 0.3, 2 * rows)
    squares, bias_squares = np.ones((2 * rows, size)), np.ones(2 * rows)
    state = [each.astype(np.float32) for each in (vectors, biases, squares, bias_squares)]
    given = (words.astype(np.uint32), besides.astype(np.uint32), counts, *state)
    loss = learn_pairs(*given, np.float32(rate), np.float32(x_max), np.float32(alpha))
    wanted = 0.0
    for i, beside, x in zip(words, besides, counts.astype(float), strict=True):
        j = beside + rows
        off = vectors[i] @ vectors[j] + biases[i] + biases[j] - np.log(x)
        weight = min(1.0, (x / x_max) ** alpha)
        wanted += 0.5 * weight * off**2
        slope = weight * off
        moves = slope * vectors[j], slope * vectors[i]
        for row, move in zip((i, j), moves, strict=True):
            vectors[row] -= rate * move / np.sqrt(squares[row])
            squares[row] += move**2
            biases[row] -= rate * slope / np.sqrt(bias_squares[row])
            bias_squares[row] += slope**2
    assert loss == pytest.approx(wanted, rel=1e-5)
    np.testing.assert_allclose(state[0], vectors, atol=1e-5)
    np.testing.assert_allclose(state[1], biases, atol=1e-5)


@pytest.mark.parametrize("direct", [True, False])
def test_nnlm_scores_and_slopes_are_those_of_its_formulas(direct):
    torch.manual_seed(0)
    model = NextWord(9, 4, 3, 5, direct=direct).double()
    block = np.array([5, 6, 7, 0, 8, 5, 0, 6], np.uint32)
    lines = torch.from_numpy(examples(block, 4))
    assert lines[0].tolist() == [0, 0, 0, 5]  # ends stand before a line
    assert lines[3].tolist() == [5, 6, 7, 0]
    assert lines[4].tolist() == [0, 0, 0, 8]  # and nothing of the line before
    F.cross_entropy(model(lines[:, :-1]), lines[:, -1], reduction="sum").backward()
    parts = {name: each.detach().numpy() for name, each in model.named_parameters()}
    slopes = {name: np.zeros_like(each) for name, each in parts.items()}
    for *before, word in lines.tolist():
        x = parts["C.weight"][before].ravel()
        a = np.tanh(parts["H.weight"] @ x + parts["H.bias"])
        y = parts["U.weight"] @ a + parts["U.bias"] + (parts["W.weight"] @ x if direct else 0)
        dy = np.exp(y - y.max()) / np.exp(y - y.max()).sum()
        dy[word] -= 1
        do = (parts["U.weight"].T @ dy) * (1 - a**2)
        dx = parts["H.weight"].T @ do + (parts["W.weight"].T @ dy if direct else 0)
        slopes["U.weight"] += np.outer(dy, a)
        slopes["U.bias"] += dy
        slopes["H.weight"] += np.outer(do, x)
        slopes["H.bias"] += do
        if direct:
            slopes["W.weight"] += np.outer(dy, x)
        np.add.at(slopes["C.weight"], before, dx.reshape(3, 4))
    for name, each in model.named_parameters():
        np.testing.assert_allclose(each.grad.numpy(), slopes[name], atol=1e-9, err_msg=name)


def test_a_huffman_tree_is_a_code():
    paths, turns, starts = huffman(COUNTS)
    codes = {}
    for word in range(FIRST, len(COUNTS)):
        some = slice(starts[word], starts[word + 1])
        codes[word] = "".join(f"{turn:.0f}" for turn in turns[some])
        assert paths[some][0] == WORDS - 2  # each path begins at the root
    assert len({*codes.values()}) == WORDS
    assert not any(a != b and b.startswith(a) for a in codes.values() for b in codes.values())
    lengths = [len(codes[word]) for word in range(FIRST, len(COUNTS))]
    assert lengths[0] <= min(lengths[1:])  # the commonest is as near the root as any


def test_words_are_drawn_by_the_power_of_their_counts():
    table = table_to_draw(COUNTS)
    shares = np.bincount(table, minlength=len(COUNTS)) / len(table)
    wanted = COUNTS**0.75 / (COUNTS**0.75).sum()
    np.testing.assert_allclose(shares, wanted, atol=1e-4)


def test_ngrams_are_those_of_fasttext():
    assert hashed(b"a") == 0xE40C292C  # as published for FNV-1a of 32 bits
    assert hashed("é".encode()) != hashed(b"e")
    assert len(ngrams_of("he", 3, 6, 1000)) == 2  # <he and he>; <he> is the word itself
    assert ngrams_of("语言", 3, 3, 10**9) == [hashed("<语言".encode()) % 10**9, hashed("语言>".encode()) % 10**9]
