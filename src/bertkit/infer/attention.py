"""Attention maps, and one self-contained page to look at them.

Where a head looks is what it computes with, not why the model answers as it does; the page says so.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from bertkit.errors import InputError, UsageError, shortened
from bertkit.files import atomic_file
from bertkit.tensors import require_finite
from bertkit.text.tokenizer import Encoded, without_surrogates

if TYPE_CHECKING:
    from bertkit.infer.embedding import Floats
    from bertkit.infer.encoder import TextEncoder

PAGE_LIMIT = 100 * 2**20
"""A page larger than this is no longer pleasant in a browser."""


@dataclass(frozen=True, kw_only=True)
class AttentionMaps:
    """`maps[layer, head, i, j]`: how much token i looks at token j; each row sums to 1."""

    tokens: list[str]
    surfaces: list[str]
    """What each token is in the text; the token itself where it is a special one."""
    gaps: list[str]
    """What stands in the text before each token: mostly a space, nothing between Chinese characters."""
    words: list[int]
    """Which word each token belongs to, counted through; the pieces of a word have the same number."""
    segments: list[int]
    maps: Floats
    model: str
    tokens_in_text: int
    """More than `tokens` if the text was cut to fit."""

    def about_tokens(self) -> dict[str, Any]:
        """Everything but the maps, a list each."""
        return {name: getattr(self, name) for name in ("tokens", "surfaces", "gaps", "words", "segments")}

    def page(self) -> str:
        """The HTML page: data and code in one file, nothing loaded from elsewhere."""
        size = self.maps.size * 2 * 4 // 3
        if size > PAGE_LIMIT:
            layers, heads, length, _ = self.maps.shape
            raise InputError(
                f"a page of {layers} layers x {heads} heads x {length} x {length} tokens would have {size // 2**20} MB",
                "Use a shorter text.",
            )
        scaled = np.round(self.maps * 65535).astype("<u2")
        data = {
            "model": self.model,
            **self.about_tokens(),
            "layers": self.maps.shape[0],
            "heads": self.maps.shape[1],
            "maps": base64.b64encode(scaled.tobytes()).decode("ascii"),
        }
        template = resources.files("bertkit.infer").joinpath("attention.html").read_text(encoding="utf-8")
        # Inside a script element only "<" can end it early, so it is written in a way JSON reads alike.
        return template.replace("{{DATA}}", json.dumps(data, ensure_ascii=False).replace("<", "\\u003c"))

    def save_page(self, path: str | Path) -> None:
        page = self.page().encode("utf-8")
        with atomic_file(Path(path)) as file:
            file.write(page)


def attention_maps(
    encoder: TextEncoder, text: str, pair: str | None = None, *, truncate: bool = False
) -> AttentionMaps:
    """One text, or two with a segment each. A text longer than the model is refused, or cut if `truncate`."""
    if not isinstance(text, str) or not isinstance(pair, str | None):
        raise InputError(f"{shortened(pair if isinstance(text, str) else text)} is not text", "Pass str.")
    if pair is not None and 0 < encoder.config.type_vocab_size <= encoder.tokenizer.form.second_segment:
        raise InputError("this model knows one segment only, so it reads no pairs", "Give a single text.")
    text, pair = without_surrogates(text), None if pair is None else without_surrogates(pair)
    encoding = encoder.tokenizer.encode(text, pair)
    whole = len(encoding.ids)
    if whole <= encoder.tokenizer.frame.size(pair=pair is not None):
        raise InputError("the text is empty", "Give a text to look at.")
    if whole > encoder.max_length:
        if not truncate:
            raise InputError(
                f"the text has {whole} tokens, and the model reads {encoder.max_length}",
                "Shorten it, or look at its beginning only (`truncate=True`).",
            )
        encoding = _cut(encoding, encoder.max_length)
    maps_of = getattr(encoder.model.reader, "maps", None)
    if maps_of is None:
        raise UsageError(f"attention maps of {encoder.name}", "Its network has no attention.")
    ids = torch.tensor([encoding.ids], device=encoder.device)
    segments = torch.tensor([encoding.segments], device=encoder.device)
    with encoder.computing():
        seen = torch.cat(maps_of(ids, segments)).to("cpu", torch.float32)
    maps = require_finite(seen, encoder.name, "attention maps").numpy()
    surfaces, gaps, words = [], [], []
    texts, word, before, end, source = (text, pair or ""), -1, None, 0, 0
    for number in range(len(encoding.ids)):
        (start, stop), own, origin = encoding.offsets[number], encoding.words[number], encoding.texts[number]
        if own is None or (own, origin) != before:
            word += 1
        before = None if own is None else (own, origin)
        if own is None or origin is None:  # [CLS], [SEP]
            surfaces.append(encoding.tokens[number])
            gaps.append(" ")
        else:
            if origin != source:
                source, end = origin, 0
            surfaces.append(texts[origin][start:stop] or encoding.tokens[number])
            gaps.append(" " if end == 0 else texts[origin][end:start])
            end = stop
        words.append(word)
    return AttentionMaps(
        tokens=encoding.tokens,
        surfaces=surfaces,
        gaps=gaps,
        words=words,
        segments=encoding.segments,
        maps=maps,
        model=encoder.name,
        tokens_in_text=whole,
    )


def _cut(encoding: Encoded, size: int) -> Encoded:
    """The encoding with tokens taken from the end of its longer text until it fits; [CLS] and [SEP] stay."""
    kept = list(range(len(encoding.ids)))
    while len(kept) > size:
        texts = [[at for at in kept if encoding.texts[at] == number] for number in (0, 1)]
        longer = max(texts, key=len)
        drop = set(longer[-min(len(kept) - size, max(1, len(longer) - min(map(len, texts)))) :])
        kept = [at for at in kept if at not in drop]
    return Encoded._make([column[at] for at in kept] for column in encoding)
