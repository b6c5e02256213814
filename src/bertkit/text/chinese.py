"""Chinese words. BERT reads Chinese a character at a time; which characters make a word together has to come from a
segmenter, so that whole words can be masked. jieba's algorithm and dictionary are used, in their fast form (rjieba)."""

from __future__ import annotations

import importlib.util
import re
from typing import Any

import numpy as np

from bertkit.errors import UsageError

HAN_RANGES = (
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B81F),
    (0x2B920, 0x2CEAF),
    (0x2F800, 0x2FA1F),
)
"""The characters that BERT's tokenizer sets apart, each a token of its own."""

HAN = "".join(f"{chr(first)}-{chr(last)}" for first, last in HAN_RANGES)
"""The same for a regular expression's character class."""

_ONE_HAN = re.compile(f"[{HAN}]")
_BORDERS = re.compile("[\n\x1d\x1e]")


def segmenter_installed() -> bool:
    return importlib.util.find_spec("rjieba") is not None


def require_segmenter() -> None:
    if not segmenter_installed():
        raise UsageError("Chinese words need a segmenter, which is not installed", "pip install 'bertkit[zh]'")


def has_han(text: str) -> bool:
    return not text.isascii() and bool(han_mask(text).any())


def han_mask(text: str) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """For each character whether it is Chinese."""
    points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    mask = np.zeros(len(points), bool)
    if not len(points) or points.max() < HAN_RANGES[0][0]:
        return mask
    for first, last in HAN_RANGES:
        mask |= (points >= first) & (points <= last)
    return mask


def han_word_starts(text: str) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """For each Chinese character of the text, in order, whether a word starts there.

    我们学习语言 is 我们 学习 语言, so the answer is yes, no, yes, no, yes, no. The rest of the text counts as context
    only: in T恤 the second character does not start a word.
    """
    if not has_han(text):
        return np.zeros(0, bool)
    import rjieba

    sentences = [sentence for sentence in _BORDERS.split(text) if not sentence.isascii() and _ONE_HAN.search(sentence)]

    text = "\n".join(sentences)
    mask = han_mask(text)
    words = rjieba.cut(text)
    lengths = np.fromiter(map(len, words), np.int64, len(words))
    starts = np.zeros(len(mask), bool)
    starts[np.cumsum(lengths) - lengths] = True
    at_han: np.ndarray[Any, np.dtype[np.bool_]] = starts[mask]
    return at_han


_RUN = re.compile(rf"\w*[{HAN}]\w*")


def with_words_apart(text: str) -> str:
    """The text with a space between Chinese words, where nothing parts them.

    我们学习语言。 is 我们 学习 语言。 afterwards.
    """
    if not has_han(text):
        return text
    require_segmenter()
    import rjieba

    return _RUN.sub(lambda run: " ".join(rjieba.cut(run[0])), text)


def places_before(text: str, apart: str) -> list[int]:
    """For each place in a text whose words were set apart, and for its end, that in the text as it was.

    >>> places_before("ab", "a b")
    [0, 1, 1, 2]
    """
    found, place = [], 0
    for character in apart:
        found.append(place)
        place += place < len(text) and text[place] == character
    return [*found, place]
