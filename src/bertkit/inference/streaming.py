"""Tokens as they come turned into text that can be shown at once, and never has to be taken back."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Self

from tokenizers.decoders import DecodeStream

from bertkit.text.tokenizer import Tokenizer

BROKEN = "\ufffd"
"""What bytes that are no character are decoded to: the beginning of one, until the rest of it comes."""


class Text:
    """What follows a prompt. Held back are bytes that are not yet a character, and characters that may be the beginning
    of a stop string; what of a character is still missing at the end is left out."""

    def __init__(
        self, tokenizer: Tokenizer, prompt: Sequence[int], *, end: int | None, stop: Sequence[str], most: int, full: int
    ) -> None:
        """`end`: the token that ends it. `most`: how many tokens it may have, and `full`: how many the model has room
        for."""
        self.ids: list[int] = []
        """All of its tokens, the one that ended it included."""
        self.text = ""
        self.ended: str | None = None
        """`end`: the model ended it. `stop`: a stop string came. `length`: it has as many tokens as were wanted.
        `full`: as many as the model can read."""
        self._backend, self._end, self._stop = tokenizer.backend, end, tuple(stop)
        self._most, self._full = most, full
        # The prompt decides whether the first word begins with a space.
        seen = [] if tokenizer.decode(prompt).endswith(BROKEN) else list(prompt)
        self._stream = DecodeStream(ids=seen, skip_special_tokens=True)
        self._held = ""

    def copy(self) -> Self:
        twin = copy(self)
        twin.ids, twin._stream = list(self.ids), copy(self._stream)
        return twin

    def add(self, token: int) -> str:
        """What can be shown of it now, beyond what was."""
        self.ids.append(token)
        text, self._held = self._held, ""
        if token == self._end:
            self.ended = "end"
        else:
            text += self._stream.step(self._backend, token) or ""
            if (at := self._stopped_at(text)) is not None:
                self.ended, text = "stop", text[:at]
            elif len(self.ids) >= min(self._most, self._full):
                self.ended = "length" if self._most <= self._full else "full"
            elif held := self._beginning_of_a_stop(text):
                text, self._held = text[:-held], text[-held:]
        self.text += text
        return text

    def _stopped_at(self, text: str) -> int | None:
        places = [at for stop in self._stop if (at := text.find(stop)) >= 0]
        return min(places, default=None)

    def _beginning_of_a_stop(self, text: str) -> int:
        """How many characters at the end of `text` some stop string begins with."""
        longest = max(map(len, self._stop), default=1) - 1
        for count in range(min(longest, len(text)), 0, -1):
            if any(stop.startswith(text[-count:]) for stop in self._stop):
                return count
        return 0
