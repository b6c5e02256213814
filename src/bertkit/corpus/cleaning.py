"""Cleaning of one document: broken encoding, HTML, invisible characters, white space, hard line breaks; then whether
to keep it.

Clean text costs little: each step first asks whether there is anything for it to do, mostly by looking at the few
characters of the document that are neither ASCII nor Chinese. Cleaning what is clean changes nothing.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from threading import get_ident
from typing import NamedTuple

import ftfy
import numpy as np
import zstandard
from numpy.typing import NDArray

from bertkit.corpus.html_remnants import without_html
from bertkit.errors import UsageError, nearest, shortened

SCRIPTS = {
    "latin": [(0x41, 0x2AF), (0x1E00, 0x1EFF), (0xFF21, 0xFF5A)],
    "greek": [(0x370, 0x3FF), (0x1F00, 0x1FFF)],
    "cyrillic": [(0x400, 0x52F), (0x1C80, 0x1C8F), (0xA640, 0xA69F)],
    "hebrew": [(0x590, 0x5FF), (0xFB1D, 0xFB4F)],
    "arabic": [(0x600, 0x6FF), (0x750, 0x77F), (0x870, 0x8FF), (0xFB50, 0xFDFF), (0xFE70, 0xFEFC)],
    "devanagari": [(0x900, 0x97F)],
    "thai": [(0xE00, 0xE7F)],
    "hangul": [(0x1100, 0x11FF), (0x3131, 0x318E), (0xA960, 0xA97F), (0xAC00, 0xD7A3)],
    "kana": [(0x3041, 0x30FF), (0x31F0, 0x31FF), (0xFF66, 0xFF9D)],
    "han": [(0x3005, 0x3007), (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x3347F)],
}
"""The scripts a document can be expected in. Only the letters among these characters count."""

MOST_PASSES = 8
REPETITION_SAMPLE = 2**15
SCRIPT_SAMPLE = 2**13
_PAST_THE_LAST_LETTER = 0x33480

_ORDINARY_ASCII = bytes(range(0x20, 0x7F)) + b"\n"
_ORDINARY_CHINESE = re.compile("[\u4e00-\u9fff\uff01-\uff5e、。《》「」‘’“”…—·]+")
_CONTINUATION = "[\x80-\xbf€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ]"  # bytes 80 to BF, as Latin-1 and Windows-1252 read them
_MISREAD_UTF8 = re.compile(
    "[\xc2-\xf4](?:"
    f"(?<=[\xc2-\xdf]){_CONTINUATION}|(?<=[\xe0-\xef]){_CONTINUATION}{{2}}|(?<=[\xf0-\xf4]){_CONTINUATION}{{3}})"
)
_MAYBE_MISREAD = re.compile(rb"\xc3[\x82-\xb4][\xc2\xc5\xc6\xcb\xe2]")  # the first two of its characters, in UTF-8
_SEPARATORS = re.compile("[\x1c-\x1f\ud800-\udfff]")
_INVISIBLE = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f"  # control characters, line ends apart
    "\xad\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0001-\U000e007f"  # formatting
    "\ufffd\ud800-\udfff\ue000-\uf8ff\U000f0000-\U0010ffff\ufdd0-\ufdef"  # no character, or nobody knows which
    + "".join(chr(plane << 16 | last) for plane in range(0xF) for last in (0xFFFE, 0xFFFF))
    + "]+"
)
_LINE_END = re.compile("\r\n?|[\x0b\x0c\x85\u2028\u2029]")
_ODD_SPACE = re.compile("[\t\xa0\u1680\u2000-\u200a\u202f\u205f\u3000]")

_WIDE = "\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe4f\uff00-\uff60"
_WIDE_CHARACTER = re.compile(f"[{_WIDE}]")
_FIRST_WORD = re.compile(f"[{_WIDE}][，。、；：！？）」』》…”’]*|[^\\s{_WIDE}]*")
_OPENS_A_BLOCK = re.compile(
    r"[-*+•·–—]\s|[>#|=@$]|[-=_~*]{3}|\(?(?:\d{1,3}|[a-zA-Z]|[ivxIVX]{1,5})[.)]\s|[（(]?[一二三四五六七八九十]+[、）)]"
)
_ENDS_A_SENTENCE = re.compile("[.!?:;。！？：；][\"'”’」』)）]*$")
_NARROWEST, _WIDEST, _INDENT, _FEWEST_WRAPS = 40, 100, 4, 4


@dataclass(frozen=True)
class Cleaning:
    """What is done to each document, in this order, and which documents are dropped.

    The limits on repetition were set by reading what lies beyond them in Wikipedia and film reviews. English articles
    compress up to 3.3 times and Chinese lists of names up to 5.2, tables of numbers and songs up to 4; beyond 6 are
    reviews that repeat one phrase. Half the text in copied lines have only tables that lost their content.
    """

    repair: bool = True
    """Text that was read in the wrong encoding (`cafÃ©`, `itâ€™s`) as it was meant. Other lines are not touched."""
    html: bool = True
    """Tags, comments, scripts and entities out: see `bertkit.corpus.html_remnants`."""
    controls: bool = True
    """Control characters, invisible formatting, private use and U+FFFD out. Joiners (U+200C, U+200D) and variation
    selectors stay: they spell Persian, Hindi and emoji."""
    whitespace: bool = True
    """Every kind of space is one ' ', lines have none at their ends, and two paragraphs one empty line between."""
    unwrap: bool = True
    """Paragraphs that were broken into narrow lines (e-mail, old books) are joined to one line each."""
    min_chars: int = 20
    max_chars: int = 10_000_000
    max_repetition: float = 6.0
    """How many times smaller zstandard may make the document (of a long one, two samples)."""
    max_copied_lines: float = 0.5
    """The share of characters that may stand in lines that came before in the document."""
    script: str | None = None
    """The script the letters should be of: a name in `SCRIPTS`, or several with commas ("han,latin")."""
    min_script: float = 0.5
    """The share of letters that must be of that script."""

    def __post_init__(self) -> None:
        for name in _script_names(self.script):
            if name not in SCRIPTS:
                remedy = f"{nearest(name, SCRIPTS)} There are: {', '.join(SCRIPTS)}."
                raise UsageError(f"no script is called {shortened(name)}", remedy)
        if not 0 <= self.min_chars <= self.max_chars:
            raise UsageError(f"no document has {self.min_chars} to {self.max_chars} characters", "Mend the two limits.")


class Cleaned(NamedTuple):
    """A document after cleaning."""

    text: str
    """Empty if the document was dropped."""
    dropped: str | None
    """Why: "empty", "too short", "too long", "too repetitive" or "wrong script"; None if it was kept."""
    counts: dict[str, int]
    """What each step did. `repair`: characters that were wrong; `html`, `controls`, `whitespace`: by how many
    characters the text got shorter; `unwrap`: line breaks that went."""


def clean(text: str, settings: Cleaning) -> Cleaned:
    """Clean a document, and say whether to keep it.

    Whatever is switched off, lines end in '\\n' afterwards, and U+001C to U+001F and lone surrogates are gone.
    One step may uncover work for another (`&lt;br&gt;` is a tag in the end), so steps that found work are repeated.
    """
    counts = dict.fromkeys(("repair", "html", "controls", "whitespace", "unwrap"), 0)
    if len(text) > settings.max_chars:
        return Cleaned("", "too long", counts)
    for _ in range(MOST_PASSES):
        before, done = text, sum(counts.values()) - counts["whitespace"]
        text = _clean_once(text, settings, counts)
        only_spaces = sum(counts.values()) - counts["whitespace"] == done
        if only_spaces and (text == before or not _MAYBE_MISREAD.search(text.encode())):
            break
    dropped = _why_drop(text, settings)
    return Cleaned("" if dropped else text, dropped, counts)


def _clean_once(text: str, settings: Cleaning, counts: dict[str, int]) -> str:
    original, raw = text, text.encode("utf-8", "surrogatepass")
    if settings.repair and _MAYBE_MISREAD.search(raw):
        text, wrong = _repaired(text)
        counts["repair"] += wrong
    if settings.html and ("<" in text or "&" in text):
        text, length = without_html(text), len(text)
        counts["html"] += length - len(text)
    unusual = _unusual_characters(raw if text is original else text.encode("utf-8", "surrogatepass"))
    unwanted = _INVISIBLE if settings.controls else _SEPARATORS
    if unwanted.search(unusual):
        text, length = unwanted.sub("", text), len(text)
        counts["controls"] += length - len(text)
    length = len(text)
    if _LINE_END.search(unusual):
        text = _LINE_END.sub("\n", text)
    if settings.whitespace:
        text = _with_single_spaces(text, set(_ODD_SPACE.findall(unusual)))
    counts["whitespace"] += length - len(text)
    if settings.unwrap:
        text, joined = _unwrapped(text)
        counts["unwrap"] += joined
    return text


def _unusual_characters(raw: bytes) -> str:
    """The characters that are neither ordinary ASCII nor ordinary Chinese: most often a tiny part of the text."""
    beyond_ascii = raw.translate(None, _ORDINARY_ASCII).decode("utf-8", "surrogatepass")
    return _ORDINARY_CHINESE.sub("", beyond_ascii)


def _repaired(text: str) -> tuple[str, int]:
    lines, wrong = text.split("\n"), 0
    for number, line in enumerate(lines):
        if _MISREAD_UTF8.search(line):
            lines[number] = ftfy.fix_encoding(line)
            wrong += (Counter(line) - Counter(lines[number])).total()
    return "\n".join(lines), wrong


def _with_single_spaces(text: str, odd_spaces: set[str]) -> str:
    for space in odd_spaces:
        text = text.replace(space, " ")
    while "  " in text:
        text = text.replace("  ", " ")
    text = "\n".join([line.strip(" ") for line in text.split("\n")])
    while "\n\n\n" in text:
        text = text.replace("\n\n\n", "\n\n")
    return text.strip("\n")


def _unwrapped(text: str) -> tuple[str, int]:
    """Join the lines of hard-wrapped paragraphs; the text and how many line breaks went.

    A break looks like the work of a line wrapper if the first word of the next line had no room left before the right
    margin. The margin is where nine lines of ten end, 4 columns less as some may have been indented, and must lie in
    columns 40 to 100 (a Chinese character takes two). A document counts as wrapped if most of its breaks inside a
    sentence look so, and most of those go on in lower case or in Chinese: not so in verse, lists, tables, code and
    text with a paragraph a line. Then the breaks that look wrapped are joined, except before what opens a list item,
    a quotation, a heading or a table row.
    """
    count = text.count("\n")
    if count < _FEWEST_WRAPS or len(text) > _WIDEST * (count + 1):
        return text, 0
    lines = [line.strip() for line in text.split("\n")]
    margin = 0
    for measure in (len, _width):  # the fast measure settles most documents
        widths = [measure(line) for line in lines]
        filled = sorted(filter(None, widths))
        margin = filled[len(filled) * 9 // 10] if filled else 0
        if margin > _WIDEST:
            return text, 0
    if margin < _NARROWEST:
        return text, 0
    wraps: set[int] = set()
    inside_sentences = wraps_inside = go_on = 0
    for number, (line, following) in enumerate(pairwise(lines), start=1):
        if not line or not following or _OPENS_A_BLOCK.match(following):
            continue
        inside = _ENDS_A_SENTENCE.search(line) is None
        inside_sentences += inside
        if widths[number - 1] + 1 + _width(_FIRST_WORD.findall(following)[0]) > margin - _INDENT:
            wraps.add(number)
            wraps_inside += inside
            go_on += inside and (following[0].islower() or _WIDE_CHARACTER.match(following) is not None)
    if wraps_inside < max(_FEWEST_WRAPS, 0.6 * inside_sentences) or go_on < 0.5 * wraps_inside:
        return text, 0
    pieces = lines[:1]
    for number, line in enumerate(lines[1:], start=1):
        pieces.append(_seam(lines[number - 1], line) if number in wraps else "\n")
        pieces.append(line)
    return "".join(pieces), len(wraps)


def _width(line: str) -> int:
    """Columns of a terminal: a Chinese character takes two."""
    return len(line) if line.isascii() else len(line) + len(_WIDE_CHARACTER.findall(line))


def _seam(line: str, following: str) -> str:
    """What stands between two joined lines: nothing in Chinese, and nothing after the hyphen of a word."""
    if _WIDE_CHARACTER.match(line[-1]) and _WIDE_CHARACTER.match(following):
        return ""
    return "" if line[-1] == "-" and line[-2:-1].isalpha() and following[0].islower() else " "


def _why_drop(text: str, settings: Cleaning) -> str | None:
    if not text.strip():
        return "empty"
    if len(text) < settings.min_chars:
        return "too short"
    if _compression(text) > settings.max_repetition or _copied_lines(text) > settings.max_copied_lines:
        return "too repetitive"
    if settings.script and _script_share(text, settings.script) < settings.min_script:
        return "wrong script"
    return None


def _compression(text: str) -> float:
    if len(text) > REPETITION_SAMPLE:
        half, middle = REPETITION_SAMPLE // 2, len(text) // 2
        text = text[:half] + text[middle : middle + half]
    raw = text.encode()
    return len(raw) / len(_compressor(get_ident()).compress(raw))


@cache
def _compressor(_thread: int) -> zstandard.ZstdCompressor:
    """A compressor costs more to make than to use, and must not serve two threads."""
    return zstandard.ZstdCompressor(level=1)


def _copied_lines(text: str) -> float:
    """The share of characters in lines that are copies of an earlier line."""
    lines = [line for line in text.split("\n") if line]
    return 1 - sum(map(len, set(lines))) / sum(map(len, lines))


def _script_share(text: str, script: str) -> float:
    """The share of letters that belong to the script; of a long text, of a sample spread over all of it."""
    codes = np.frombuffer(text[:: len(text) // SCRIPT_SAMPLE + 1].encode("utf-32-le"), dtype=np.uint32)
    kinds = _kinds_of_characters(script)[np.minimum(codes, _PAST_THE_LAST_LETTER)]
    return int(np.count_nonzero(kinds == 2)) / max(1, int(np.count_nonzero(kinds)))


@cache
def _kinds_of_characters(script: str) -> NDArray[np.uint8]:
    """For each character 2 if it is a letter of the script, 1 if another letter, 0 if none."""
    kinds = np.array([chr(code).isalpha() for code in range(_PAST_THE_LAST_LETTER + 1)], np.uint8)
    for name in _script_names(script):
        for first, last in SCRIPTS[name]:
            kinds[first : last + 1] *= 2
    return kinds


def _script_names(script: str | None) -> set[str]:
    return {name.strip() for name in script.split(",")} if script else set()
