"""Skip-gram and CBOW (Mikolov et al., 2013), with negative samples or a Huffman tree, and with character n-grams
(Bojanowski et al., 2017): the inner loops, compiled by numba.

A window has inputs, rows of `into`, and outputs, rows of `out`, each with a label: 1 for the word that is there, 0 for
words drawn by chance, or the turns of the word's path down the tree. For an input x and an output y of label t, with
g = rate * (t - sigmoid(x y)), x moves by g y and y by g x. In skip-gram all words around the middle one are inputs, and
share its outputs: so three small matrix products take the place of hundreds of rows looked up (Ji et al., 2016). In
CBOW the one input is the mean of them, and each gets all of its step; a word's n-grams are rows more in a mean.

Threads write into the same tables without locks, as in word2vec: on one thread the result is the same to the bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numba
import numpy as np

jit: Callable[[Any], Any] = numba.njit(nogil=True, fastmath=True, cache=True, error_model="numpy")
Array = np.ndarray[Any, Any]
LINE = 1000
"""Words of a line that windows may reach over; a longer one goes on as another."""
TOGETHER = 4
"""So many windows of CBOW in a row share the words drawn: each is one pair, and to fetch a row takes longer
than to compute with it."""
STEPS, REACH = 4096, 12.0
"""The sigmoid is looked up, from -12 to 12, and on a line between two places; beyond it is 0 or 1."""
SIGMOID = (1 / (1 + np.exp(-(np.arange(STEPS + 2) / STEPS * 2 - 1) * REACH))).astype(np.float32)
END, FIRST = 0, 4
"""In a stream: the end of a line, and the lowest number of a word; what lies between is passed over."""


class How(NamedTuple):
    """What does not change while a table is learned."""

    bag: bool
    """CBOW; or skip-gram whose input is the word in the middle with its n-grams."""
    from_middle: bool
    """The input is the word in the middle, and the outputs are those around it."""
    window: int
    negative: int
    """How many words are drawn; 0: down the tree."""
    shared: bool
    """Once for a window, of CBOW for some in a row, and not for each pair."""


class Tables(NamedTuple):
    into: Array
    out: Array
    keep: Array
    """Of each word with which chance it is read: frequent ones are left out now and then."""
    drawn: Array
    """Words to draw from, each as often as its count to the power of 0.75 has it."""
    paths: Array
    turns: Array
    path_starts: Array
    """Of each word its inner nodes in the tree, and which way the path goes on."""
    parts: Array
    part_starts: Array
    """Of each word the rows that it is the mean of: its own, and those of its n-grams."""


@jit
def chance(state: Any) -> Any:
    """The next of a row of 64 random bits (xorshift)."""
    state ^= state << np.uint64(13)
    state ^= state >> np.uint64(7)
    state ^= state << np.uint64(17)
    return state


@jit
def slope(x: Any, y: Any, label: Any, rate: Any) -> Any:
    total = np.float32(0)
    for d in range(len(x)):
        total += x[d] * y[d]
    if total >= REACH:
        said = np.float32(1)
    elif total <= -REACH:
        said = np.float32(0)
    else:
        place = (total + np.float32(REACH)) * np.float32(STEPS / (2 * REACH))
        k = int(place)
        said = SIGMOID[k] + (SIGMOID[k + 1] - SIGMOID[k]) * (place - np.float32(k))
    return (label - said) * rate


@jit
def step(into: Any, inputs: Any, out: Any, outputs: Any, labels: Any, rate: Any, slopes: Any, before: Any) -> Any:
    """All inputs with all outputs at once: both move by what the other was."""
    size = into.shape[1]
    for j in range(len(outputs)):
        y = out[outputs[j]]
        for i in range(len(inputs)):
            slopes[i, j] = slope(into[inputs[i]], y, labels[j], rate)
        before[j] = y
    for j in range(len(outputs)):
        y = out[outputs[j]]
        i = 0
        while i + 4 <= len(inputs):  # four at a time, so that y is loaded and stored once for them
            a, b, c, e = slopes[i, j], slopes[i + 1, j], slopes[i + 2, j], slopes[i + 3, j]
            p, q, r, s = into[inputs[i]], into[inputs[i + 1]], into[inputs[i + 2]], into[inputs[i + 3]]
            for d in range(size):
                y[d] += a * p[d] + b * q[d] + c * r[d] + e * s[d]
            i += 4
        while i < len(inputs):
            a, p = slopes[i, j], into[inputs[i]]
            for d in range(size):
                y[d] += a * p[d]
            i += 1
    for i in range(len(inputs)):
        x = into[inputs[i]]
        j = 0
        while j + 3 <= len(outputs):
            a, b, c = slopes[i, j], slopes[i, j + 1], slopes[i, j + 2]
            p, q, r = before[j], before[j + 1], before[j + 2]
            for d in range(size):
                x[d] += a * p[d] + b * q[d] + c * r[d]
            j += 3
        while j < len(outputs):
            a, p = slopes[i, j], before[j]
            for d in range(size):
                x[d] += a * p[d]
            j += 1


@jit
def step_of_mean(
    into: Any,
    rows: Any,
    out: Any,
    outputs: Any,
    labels: Any,
    weights: Any,
    rate: Any,
    slopes: Any,
    mean: Any,
    moves: Any,
) -> Any:
    """One input, the mean of some rows, with all outputs at once; each row gets the whole of its step."""
    size, share = into.shape[1], np.float32(1) / np.float32(len(rows))
    mean[:] = into[rows[0]]
    for k in range(1, len(rows)):
        x = into[rows[k]]
        for d in range(size):
            mean[d] += x[d]
    for d in range(size):
        mean[d] *= share
    for j in range(len(outputs)):
        slopes[j] = slope(mean, out[outputs[j]], labels[j], rate) * weights[j]
    moves[:] = 0
    j = 0
    while j + 3 <= len(outputs):
        a, b, c = slopes[j], slopes[j + 1], slopes[j + 2]
        p, q, r = out[outputs[j]], out[outputs[j + 1]], out[outputs[j + 2]]
        for d in range(size):
            moves[d] += a * p[d] + b * q[d] + c * r[d]
        j += 3
    while j < len(outputs):
        a, p = slopes[j], out[outputs[j]]
        for d in range(size):
            moves[d] += a * p[d]
        j += 1
    for j in range(len(outputs)):
        a, y = slopes[j], out[outputs[j]]
        for d in range(size):
            y[d] += a * mean[d]
    for k in range(len(rows)):
        x = into[rows[k]]
        for d in range(size):
            x[d] += moves[d]


@jit
def outputs_of(word: Any, how: Any, tables: Any, places: Any, labels: Any, count: Any, state: Any) -> Any:
    """The word itself and words drawn; or its path down the tree. From place `count` on."""
    if how.negative == 0:
        for k in range(tables.path_starts[word], tables.path_starts[word + 1]):
            places[count], labels[count] = tables.paths[k], tables.turns[k]
            count += 1
        return count, state
    places[count], labels[count] = word, 1
    return drawn(word, how, tables, places, labels, count + 1, state)


@jit
def drawn(word: Any, how: Any, tables: Any, places: Any, labels: Any, count: Any, state: Any) -> Any:
    for _ in range(how.negative):
        state = chance(state)
        other = tables.drawn[(state >> np.uint64(16)) % np.uint64(len(tables.drawn))]
        if other != word:
            places[count], labels[count] = other, 0
            count += 1
    return count, state


@jit
def next_line(stream: Any, place: Any, tables: Any, line: Any, state: Any) -> Any:
    """The next words of the stream up to the end of a sentence, without those left out by chance."""
    words = 0
    while place < len(stream) and words < LINE:
        word = stream[place]
        place += 1
        if word == END:
            break
        if word < FIRST:
            continue
        if tables.keep[word] < 1:
            state = chance(state)
            if np.float32(state >> np.uint64(40)) * np.float32(2.0**-24) >= tables.keep[word]:
                continue
        line[words] = word
        words += 1
    return place, words, state


@jit
def neighbours(line: Any, words: Any, middle: Any, reach: Any, inputs: Any) -> Any:
    """The words around one, into `inputs`; how many there are."""
    around = 0
    for k in range(max(0, middle - reach), min(words, middle + reach + 1)):
        if k != middle:
            inputs[around] = line[k]
            around += 1
    return around


@jit
def with_parts(word: Any, tables: Any, rows: Any, filled: Any) -> Any:
    """The rows that a word is the sum of, behind those that are filled; how many are then."""
    for part in range(tables.part_starts[word], tables.part_starts[word + 1]):
        if filled < len(rows):
            rows[filled] = tables.parts[part]
            filled += 1
    return filled


@jit
def learn(stream: Any, how: Any, tables: Any, rate: Any, seed: Any) -> Any:
    """A part of the stream once; how many words were read, those left out by chance not counted."""
    into, out, window, rate = tables.into, tables.out, how.window, np.float32(rate)
    size, most = into.shape[1], 2 * how.window + how.negative + 64
    line, inputs = np.empty(LINE, np.int64), np.empty(2 * window, np.int64)
    places, labels, weights = np.empty(most, np.int64), np.zeros(most, np.float32), np.ones(most, np.float32)
    slopes, before = np.empty((2 * window, most), np.float32), np.empty((most, size), np.float32)
    mean, moves = np.empty(size, np.float32), np.empty(size, np.float32)
    rows, others, drawn_last = np.empty(4096, np.int64), np.empty(most, np.int64), 0
    state, place, read = np.uint64(seed) | np.uint64(1), 0, 0
    for _ in range(8):  # seeds that are alike part
        state = chance(state)
    while place < len(stream):
        place, words, state = next_line(stream, place, tables, line, state)
        read += words
        for middle in range(words):
            state = chance(state)
            reach = window - np.int64((state >> np.uint64(33)) % np.uint64(window))
            around = neighbours(line, words, middle, reach, inputs)
            if around == 0:
                continue
            word = line[middle]
            if not how.bag:
                if how.shared or how.negative == 0:
                    n, state = outputs_of(word, how, tables, places, labels, 0, state)
                    step(into, inputs[:around], out, places[:n], labels, rate, slopes, before)
                else:
                    for k in range(around):
                        n, state = outputs_of(word, how, tables, places, labels, 0, state)
                        one = inputs[k : k + 1]
                        step_of_mean(into, one, out, places[:n], labels, weights, rate, slopes[0], mean, moves)
                continue
            filled = 0
            for k in range(1 if how.from_middle else around):
                its = word if how.from_middle else inputs[k]
                filled = with_parts(its, tables, rows, filled)
            if not how.from_middle:
                if how.shared and how.negative > 0:
                    if middle % TOGETHER == 0:
                        drawn_last, state = drawn(END, how, tables, others, labels, 0, state)
                    places[0], labels[0], n = word, 1, 1
                    for k in range(drawn_last):
                        if others[k] != word:
                            places[n], labels[n] = others[k], 0
                            n += 1
                else:
                    n, state = outputs_of(word, how, tables, places, labels, 0, state)
                step_of_mean(into, rows[:filled], out, places[:n], labels, weights, rate, slopes[0], mean, moves)
            elif how.shared and how.negative > 0:
                for k in range(around):
                    places[k], labels[k] = inputs[k], 1
                n, state = drawn(word, how, tables, places, labels, around, state)
                weights[around:n] = np.float32(around)
                step_of_mean(into, rows[:filled], out, places[:n], labels, weights, rate, slopes[0], mean, moves)
                weights[around:n] = 1
            else:
                for k in range(around):
                    n, state = outputs_of(inputs[k], how, tables, places, labels, 0, state)
                    step_of_mean(into, rows[:filled], out, places[:n], labels, weights, rate, slopes[0], mean, moves)
    return read
