"""Where a model folder has no tokenizer: texts are the ids themselves, written out, "464 3290". So a model whose
vocabulary is elsewhere can be opened, looked into and written on with, by every command."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import tokenizers
from tokenizers import models, pre_tokenizers

from bertkit.errors import InputError, TokenizerError, shortened
from bertkit.files import present
from bertkit.text.kinds import Form
from bertkit.text.tokenizer import Encoded, Tokenizer

FILES = ("tokenizer.json", "vocab.txt", "vocab.json", "merges.txt")
IDS = Form("ids", "ids", "ids", "PreTrainedTokenizerFast", {}, vocab_size=0, cased_only=True, framed=False)


def has_tokenizer(folder: Path) -> bool:
    return any(present(folder / name) for name in FILES)


class IdTokenizer(Tokenizer):
    def __init__(self, size: int, ids: Mapping[str, int]) -> None:
        """`ids` has those of special tokens by their role."""
        pieces = {str(number): number for number in range(size)}
        backend = tokenizers.Tokenizer(models.WordLevel(pieces, unk_token="0"))  # noqa: S106  # never met
        backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        super().__init__(backend, IDS, {role: str(number) for role, number in ids.items()})

    def encode(self, text: str, pair: str | None = None) -> Encoded:
        self._check([text, pair or ""])
        return super().encode(text, pair)

    def encode_ids(self, texts: Sequence[str]) -> list[list[int]]:
        self._check(texts)
        return super().encode_ids(texts)

    def _check(self, texts: Sequence[str]) -> None:
        for text in texts:
            for word in text.split():
                if self.backend.token_to_id(word) is None:
                    raise InputError(
                        f"{shortened(word)} is no id from 0 to {self.vocab_size - 1}, and the model has no tokenizer",
                        "Put the tokenizer.json that belongs to it into its folder, or write ids: 464 3290.",
                    )

    def for_tasks(self) -> Tokenizer:
        self.require_texts()
        return self

    def require_texts(self) -> None:
        raise TokenizerError(
            "the model has no tokenizer, so it learns nothing from texts",
            "Put the tokenizer.json that belongs to it into its folder.",
        )

    def save(self, folder: Path) -> None:
        """There is none to save."""
