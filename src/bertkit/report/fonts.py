"""Fonts for labels in any script: the one that matplotlib brings has no Chinese, and would draw boxes.

What is installed is looked through for fonts that have the signs that are missing.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache

from matplotlib import font_manager

USUAL = "DejaVu Sans"
OTHERS = (
    *(f"Noto Sans CJK {region}" for region in ("SC", "TC", "HK", "JP", "KR")),
    *(f"Source Han Sans {region}" for region in ("SC", "CN", "TC", "TW")),
    *"WenQuanYi Zen Hei, WenQuanYi Micro Hei, PingFang SC, PingFang HK, Hiragino Sans GB, Heiti SC".split(", "),
    *"Heiti TC, STHeiti, Microsoft YaHei, Microsoft JhengHei, SimHei, SimSun, Noto Serif CJK SC".split(", "),
    *("Droid Sans Fallback", "Arial Unicode MS", "Noto Sans"),
    *(f"Noto Sans {script}" for script in "Devanagari Thai Bengali Tamil Georgian Ethiopic Symbols".split()),
)
"""Of Linux, macOS and Windows; those of good shape first."""


def fonts_for(texts: Iterable[str]) -> list[str]:
    """The usual font, and of the installed ones those that have what it has not."""
    chosen, missing = [USUAL], _visible(texts) - _signs_of(USUAL)
    for family in OTHERS:
        if missing & _signs_of(family):
            chosen.append(family)
            missing -= _signs_of(family)
    return chosen


def can_be_drawn(texts: Iterable[str]) -> bool:
    """Whether each sign is in a font that is there."""
    signs = _visible(texts)
    return not signs.difference(*map(_signs_of, fonts_for(signs)))


@contextmanager
def without_glyph_warnings() -> Iterator[None]:
    """Who draws what cannot be drawn has been told of it elsewhere, or can see it."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing", category=UserWarning)
        yield


def _visible(texts: Iterable[str]) -> set[str]:
    return {sign for text in texts for sign in text if not sign.isspace()}


@lru_cache
def _signs_of(family: str) -> frozenset[str]:
    """Empty if it is not installed."""
    if family not in font_manager.get_font_names():
        return frozenset()
    path = font_manager.findfont(family, fallback_to_default=False)
    return frozenset(map(chr, font_manager.get_font(path).get_charmap()))
