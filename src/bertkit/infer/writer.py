"""A model that writes, whatever it writes after: how prompts are read, where a text begins and what ends it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bertkit.nn.writing import Mask, Writing, begin

if TYPE_CHECKING:
    from bertkit.infer.encoder import TextEncoder
    from bertkit.text.tokenizer import Tokenizer


@dataclass(frozen=True, kw_only=True)
class Writer:
    encoder: TextEncoder
    tokenizer: Tokenizer
    """Of what is written."""
    end: int | None
    """The token that ends a text."""
    read: Callable[[Sequence[str]], list[list[int]]]
    """Prompts, as the model reads them; what cannot be read is refused."""
    room: Callable[[Sequence[int]], int]
    """How many tokens may be written after one."""
    goes_on: bool = False
    """Whether what is written is the prompt's own text, continued."""
    start: int | None = None
    """What a decoder begins with."""
    mask: Mask | None = None
    usual: dict[str, object] = field(default_factory=dict)
    """Settings of Sampling as its task has them."""

    def already(self, prompt: Sequence[int]) -> list[int]:
        """What counts as written before there is anything."""
        return list(prompt) if self.goes_on else [] if self.start is None else [self.start]

    def begun(self, prompts: Sequence[Sequence[int]], most: int) -> Writing:
        filling = self.encoder.config.pad_token_id or 0
        return begin(self.encoder.model, prompts, most=most, filling=filling, start=self.start, mask=self.mask)
