"""Sentences of English and Chinese text, found at tens of megabytes a second.

One regular expression finds the places where a sentence may end; only there does Python look at the words around.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from math import ceil
from typing import NamedTuple

MARK = "\x1e"

_WESTERN_END = re.compile(
    r"""
    [.!?…．] (?<! [.!?…．][.!?…．] )       # a stop, the first of a run (no second look at long runs)
    [.!?…．]*+
    (?: ["'”’»)\]] | \[\d{1,3}\] )*+      # what closes after it: quotes, brackets, a reference such as [12]
    [^\S\n]++                             # white space, but no line break
    (?! \(\d )                            # "Help! (1965)" goes on
    (?= (["'“‘«(\[¿¡$£€¥#•*「『（]*)       # what may open before the next word
        [^\W_a-zß-öø-ÿα-ωа-я] )           # a next word in lower case is no new sentence
    """,
    re.VERBOSE,
)
_CHINESE_END = re.compile(
    r"""
    ( [。！？｡!?] (?<! [。！？｡!?][。！？｡!?] )
      (?: (?<= [。！？｡] ) [。！？｡!?]*+ …*+
          (?: [”’」』）】〕"')\]]++
              (?! [\u4e00-\u9fff]{0,3}[说說问問道喊叫答]   # “你好吗？”他问。
                | [的地得之而和与與及并並或等是为為]
                | 后(?!来) | 後(?!來) )                     # “加油！”的口号
          | (?! [”’」』）】〕"')\]] ) )
      | (?<= [\u4e00-\u9fff][!?] ) [。！？｡!?]*+ (?= [\u4e00-\u9fff] ) )
    )
    [^\S\n]*+
    (?! [^《》〈〉。\n]{0,30}[》〉] )       # 《你好！李焕英》
    (?= [^\s，、；：,;:.·…—～~/％%>\-] )
    """,
    re.VERBOSE,
)

_OPENERS = (
    "The A An This That These Those There Here He She It They We You I His Her Its Their Our My Your In On At By For "
    "From With Without To Of Under Over During After Before Since Until Upon As If When While Where Who What Why How "
    "Which But And Or Nor So Yet Although Though Because However Then Thus Also Both Each Every Some Many Most "
    "Several All Not One Such Another Other Others Between Among Despite Later Today Now Once Only Even Instead "
    "Meanwhile Moreover Furthermore Therefore Nevertheless According Following Additionally Finally Unlike"
)
_OPENER = re.compile(rf"(?:{'|'.join(_OPENERS.split())})\b(?!\.)")

_NAME_FOLLOWS, _NUMBER_FOLLOWS, _MAY_END = "a name follows", "a number follows", "may end a sentence"
_ABBREVIATIONS = {
    **dict.fromkeys(
        "Mr Mrs Ms Messrs Mme Mlle Dr Drs Prof Rev Fr Hon Gov Sen Rep Pres Gen Maj Col Lt Cpl Capt Cdr Cmdr Adm Sgt "
        "Pvt Brig Supt Insp Mt Ft Dom Msgr vs v cf viz ca approx resp incl esp e.g i.e E.g I.e eg ie".split(),
        _NAME_FOLLOWS,
    ),
    **dict.fromkeys(
        "No Nos no nos Nr nr Fig Figs fig figs Eq Eqs eq eqs pp Vol Vols vol vols Ch ch Chap chap Sec sec Sect sect "
        "Art art Ref ref Op op par para nn fl Ex Pt pt Ver ver Rs Tab tab Tel tel est".split(),
        _NUMBER_FOLLOWS,
    ),
    **dict.fromkeys(
        "Jan Feb Mar Apr Jun Jul Aug Sep Sept Oct Nov Dec St Ste Jr Sr Inc Ltd Co Corp Bros Ave Blvd Rd Dept Univ "
        "Assn Bldg al ed eds trans Esq".split(),
        _MAY_END,
    ),
}
_LETTERS_WITH_DOTS = re.compile(r"(?:[^\W\d_]{1,2}\.)+[^\W\d_]{1,3}")
_UP_TO_LATIN = re.compile(r".*[^A-Za-zÀ-ɏ.]")
_LIST_MARKER = re.compile(r"\d{1,3}(?:\.\d{1,3})*|[a-zA-Z]|[ivxlc]+|[IVXLC]+")
_NUMBER = re.compile(r"\d|[IVXLC]+\b(?![.'’])|[A-Z]\b")
_COMPANY = re.compile(r"(?:Inc|Ltd|Corp|LLC)\b")
_FIRST_PERSON = re.compile(r"I\b")
_LONGEST_WORD = 12


def mark_sentences(text: str, mark: str = MARK) -> str:
    """The same text with `mark` between the sentences of a line, in place of the white space there.

    A line break always ends a sentence, and stays: headings and list items need no punctuation.

        mark_sentences("He met Dr. Wu. She left.", "|")  is  "He met Dr. Wu.|She left."
        mark_sentences("他来了。“走吗？”她问。", "|")      is  "他来了。|“走吗？”她问。"

    It works from the words around a stop and knows no grammar. Not tried: sentences that begin in lower case, English
    sentences with no space between, Chinese sentences that end in "……", full stops written as "." or "．" between
    Chinese characters, and a name after an abbreviation that also ends the sentence ("in the U.S. Smith left").
    """
    text = _WESTERN_END.sub(_decide_western(text, mark), text)
    if not text.isascii():
        text = _CHINESE_END.sub(lambda end: end[1] + mark, text)
    return text


def split_sentences(text: str) -> list[str]:
    """The sentences of a line or of a whole text, without the white space around them.

    split_sentences("It was 3.14. Why?\\nA heading") is ["It was 3.14.", "Why?", "A heading"].
    """
    pieces = mark_sentences(text).replace("\n", MARK).split(MARK)
    return [sentence for piece in pieces if (sentence := piece.strip())]


def _decide_western(text: str, mark: str) -> Callable[[re.Match[str]], str]:
    """What to put in place of each candidate: its stop and the mark, or the candidate as it was."""

    def decide(end: re.Match[str]) -> str:
        candidate = end[0]
        goes_on = _goes_on_after_full_stop if candidate[0] == "." and candidate[1] not in ".!?" else _goes_on_after_run
        return candidate if goes_on(text, end.start(), end.end(1)) else candidate.rstrip() + mark

    return decide


def _goes_on_after_full_stop(text: str, stop: int, following: int) -> bool:
    """Whether the full stop at `stop` belongs to an abbreviation or a list marker inside a sentence."""
    words = text[max(0, stop - _LONGEST_WORD) : stop].split()
    if not words:
        return False
    word = words[-1]
    before = stop - len(word) - 1
    if (before < 0 or text[before] == "\n") and _LIST_MARKER.fullmatch(word):
        return True
    word = word.lstrip("([{\"'“‘«—–-/") if word.isascii() else _UP_TO_LATIN.sub("", word)
    kind = _ABBREVIATIONS.get(word)
    if kind is None:
        if len(word) == 1 and word.isalpha() and word.isascii():
            kind = _MAY_END if word.isupper() else _NUMBER_FOLLOWS
        elif "." in word and _LETTERS_WITH_DOTS.fullmatch(word):
            kind = _MAY_END
        else:
            return False
    if kind is _NAME_FOLLOWS:
        return True
    if kind is _NUMBER_FOLLOWS:
        return _NUMBER.match(text, following) is not None
    return _OPENER.match(text, following) is None


def _goes_on_after_run(text: str, stop: int, following: int) -> bool:
    """Whether a sentence goes on after "!", "?" or an ellipsis: "Yahoo! Inc.", "Well... I think"."""
    if text[stop] == "!":
        return _COMPANY.match(text, following) is not None
    return text[stop] in ".…" and _FIRST_PERSON.match(text, following) is not None


class Window(NamedTuple):
    """Tokens `start` to `stop` are read together; those from `core_start` to `core_stop` are its own, the others are
    there as context. Every token is in one core."""

    start: int
    stop: int
    core_start: int
    core_stop: int


def windows(length: int, size: int, context: int = 0) -> list[Window]:
    """Windows of at most `size` over `length` tokens, with about `context` tokens on either side of each core.

    The cores are equally long, because a last window of three words would be read without the rest.

    >>> windows(10, size=4)
    [Window(0, 3, 0, 3), Window(3, 7, 3, 7), Window(7, 10, 7, 10)]
    """
    if length <= size:
        return [Window(0, length, 0, length)]
    count = ceil(length / (size - 2 * context))
    edges = [i * length // count for i in range(count + 1)]
    found = []
    for core_start, core_stop in pairwise(edges):
        spare = min(2 * context, size - (core_stop - core_start))
        # At either end of the text the context that cannot be before goes after, and the other way round.
        start = max(0, min(core_start - spare // 2, length - (core_stop - core_start) - spare))
        found.append(Window(start, min(length, start + core_stop - core_start + spare), core_start, core_stop))
    return found
