"""HTML that was left in a text: tags, comments, scripts and entities, and nothing that only looks like them.

A tag is a known name with well-formed attributes, so `List<String>`, `a < b > c`, `<http://...>` and `<your name>`
stay. Entities are read however often they were escaped: `&amp;amp;lt;` is `<`.
"""

from __future__ import annotations

import html
import re
from html.entities import html5

_BREAKS = frozenset(
    "address article aside blockquote body br caption center dd details dialog dir div dl dt fieldset figcaption "
    "figure footer form frameset h1 h2 h3 h4 h5 h6 head header hgroup hr html legend li main menu nav noscript ol "
    "optgroup option p pre section summary table tbody tfoot thead title tr ul".split()
)
_SPACES = frozenset("button img label select td textarea th".split())
_INLINE = frozenset(
    "a abbr acronym applet audio b bdi bdo big canvas cite code col colgroup data datalist del dfn em font frame i "
    "iframe ins kbd map mark meter nobr object output picture progress q rp rt ruby s samp script slot small span "
    "strike strong style sub sup svg template time tt u var video wbr".split()
)
_MEANT_BY_ATTRIBUTES = frozenset("area base embed input link meta param source track".split())
_NEED_A_CLOSING_TAG = frozenset("a b i q s u".split())

_ATTRIBUTE = r"""
    \s+ (?: [a-zA-Z_:@][\w:.-]* \s* = \s* (?: "[^"<>]*" | '[^'<>]*' | [^\s"'<>`]+ )
          | (?: async | checked | controls | defer | disabled | hidden | multiple | nowrap | readonly | required
              | selected ) \b )
"""
_NAMES = "|".join(sorted(_BREAKS | _SPACES | _INLINE | _MEANT_BY_ATTRIBUTES, key=len, reverse=True))
_TAG = re.compile(
    rf"< (?: /(?P<closed>{_NAMES})\s* | (?P<opened>{_NAMES})(?P<attributes>(?:{_ATTRIBUTE})*+)\s*/? )>",
    re.VERBOSE | re.IGNORECASE,
)
_INVISIBLE = [
    (re.compile(r"<!--.*?-->", re.DOTALL), re.compile("-->")),
    *(
        (
            re.compile(rf"<{name}\b[^<>]*>.*?</{name}\s*>", re.DOTALL | re.IGNORECASE),
            re.compile(rf"</{name}\s*>", re.IGNORECASE),
        )
        for name in ("script", "style")
    ),
]
_DOCTYPE = re.compile(r"<!doctype\s[^<>]*>", re.IGNORECASE)
_CLOSING_LETTER = re.compile(r"</([a-zA-Z])\s*>")
_ENTITY = re.compile(r"&(?:amp;)*(?:#([0-9]{1,7}|[xX][0-9a-fA-F]{1,6})|([a-zA-Z][a-zA-Z0-9]{1,31}));")


def without_html(text: str) -> str:
    """The text a reader would see: `<p>Fish &amp; <b>chips</b>` is a line break and `Fish & chips`.

    Tags of blocks become line breaks, cells of tables a space, other tags nothing. A tag of one letter, such as
    `<b>`, goes only where the text also closes it: in `a<b>c` it is arithmetic. Entities count with their semicolon
    only, so that `?a=1&copy=2` stays.
    """
    if "<" in text:
        text = _without_tags(text)
    return _ENTITY.sub(_character, text) if "&" in text else text


def _without_tags(text: str) -> str:
    for element, end in _INVISIBLE:
        if ends := [match.end() for match in end.finditer(text)]:
            # What opens behind the last end is never closed, and looking for that end would take long.
            text = element.sub("", text[: ends[-1]]) + text[ends[-1] :]
    text = _DOCTYPE.sub("", text)
    closed_letters = {letter.lower() for letter in _CLOSING_LETTER.findall(text)}

    def seen(tag: re.Match[str]) -> str:
        name = (tag["closed"] or tag["opened"]).lower()
        if tag["opened"] and not tag["attributes"]:
            if name in _MEANT_BY_ATTRIBUTES:
                return tag[0]
            if name in _NEED_A_CLOSING_TAG and name not in closed_letters:
                return tag[0]
        return "\n" if name in _BREAKS else " " if name in _SPACES else ""

    return _TAG.sub(seen, text)


def _character(entity: re.Match[str]) -> str:
    """What an entity stands for, however often it was escaped; an unknown name stays as it is."""
    number, name = entity.groups()
    if number:
        return html.unescape(f"&#{number};")
    return html5.get(f"{name};", f"&{name};")
