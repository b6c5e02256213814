"""ELMo's network: two ways through a text, with one input and one output for both."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bertkit.families.elmo import CHARACTERS, LONGEST_WORD, ElmoConfig
from bertkit.nn.inputs import Inputs, in_a_row
from bertkit.nn.layers import Dropout
from bertkit.nn.network import Network
from bertkit.nn.recurrent import LEFT, RIGHT, CharacterCnn, ClippedLstm, Lstm, ReadsFromLeft, ReadsFromRight, Rows, Way
from bertkit.text.tokenizer import Tokenizer

EDGES = {"cls": 256, "sep": 257}
BEGINS, ENDS, FILLS = 258, 259, 260
"""A word's first and last sign, and what stands behind it; all one more where it is spelt, 0 being no sign."""


class BiLm(Network):
    """
    model = BiLm(ElmoConfig(...))
    model.meet(tokenizer)                       # how its tokens are spelt
    model.layers(inputs)                        # T x 1024 for the words alone, then for each layer
    x_BLD, after = model.onwards(ids_BL, LEFT, before)
    """

    longest, causal = None, False

    def __init__(self, config: ElmoConfig, **_: Any) -> None:
        super().__init__()
        self.config, self.width, self.depth = config, config.hidden_size, config.num_hidden_layers
        way = self.width // 2
        self.spells = config.characters
        self.signs: Tensor | None = None
        self.begins: Tensor | None = None
        self.spelling: Tensor | None = None
        """V x characters, once it has met its tokenizer."""
        if config.characters:
            self.pieces: Any = CharacterCnn(CHARACTERS, config.character_size, config.filters, config.highways, way)
        else:
            self.pieces = nn.Embedding(config.vocab_size, way)
            nn.init.normal_(self.pieces.weight, std=way**-0.5)
        self.ways = nn.ModuleList(
            Way(
                [self._layer(way) for _ in range(self.depth)],
                [Dropout(config.hidden_dropout_prob) for _ in range(self.depth)],
                skip=True,
            )
            for _ in range(2)
        )
        self.leaves = Dropout(config.hidden_dropout_prob)
        if config.says_words:
            self.bias = nn.Parameter(torch.zeros(config.vocab_size))
            if config.characters:
                self.matrix = nn.Parameter(torch.empty(config.vocab_size, way))
                nn.init.normal_(self.matrix, std=way**-0.5)

    def _layer(self, way: int) -> nn.Module:
        config = self.config
        if config.projects:
            return ClippedLstm(way, config.cell_size, way, config.clip)
        return Lstm(way, config.cell_size)

    reader = property(lambda self: self)

    @property
    def abilities(self) -> frozenset[type]:
        return frozenset((ReadsFromLeft, ReadsFromRight)) if self.config.says_words else frozenset()

    @property
    def rows_by_token(self) -> tuple[str, ...]:  # type: ignore[override]
        spelt = "matrix" if self.config.characters else "pieces.weight"
        return (spelt, "bias") if self.config.says_words else ()

    def meet(self, tokenizer: Tokenizer) -> None:
        if self.config.by_bytes:
            self.signs, self.begins = signs_of(tokenizer)
        elif self.spells:
            self.spelling = spelling_of(tokenizer)

    # What every reader does.

    def layers(self, inputs: Inputs) -> tuple[Tensor, ...]:
        if self.config.by_bytes:
            words, spelt_WC, word_T = self._spelt(inputs)
            different, which_W = torch.unique(spelt_WC, dim=0, return_inverse=True)
            return tuple(state[word_T] for state in self._layers_of(self.pieces(different)[which_W], words))
        return self._layers_of(self._words(inputs.ids.flatten()), inputs)

    def _layers_of(self, x_TD: Tensor, inputs: Inputs) -> tuple[Tensor, ...]:
        states = [torch.cat([x_TD, x_TD], -1)]
        rows = [Rows.of(inputs, way) for way in (LEFT, RIGHT)]
        said = [way(each.apart(x_TD), None)[0] for way, each in zip(self.ways, rows, strict=True)]
        for left, right in zip(*said, strict=True):
            states.append(torch.cat([rows[LEFT].together(left), rows[RIGHT].together(right)], -1))
        return tuple(states)

    def _spelt(self, inputs: Inputs) -> tuple[Inputs, Tensor, Tensor]:
        """Of bytes: the words that they are of, how each is spelt, and for each place of the batch its word."""
        if self.signs is None or self.begins is None:
            raise RuntimeError("an ELMo must meet its tokenizer before it reads")
        ids = inputs.ids.flatten()
        lengths = inputs.lengths.to(ids.device)
        rows = torch.repeat_interleave(torch.arange(len(lengths), device=ids.device), lengths)
        inside = torch.arange(len(rows), device=ids.device) - (lengths.cumsum(0) - lengths)[rows]
        places = inputs.firsts[rows] + inside
        begins = self.begins.to(ids.device)[ids[places]] | (inside == 0)
        word = begins.cumsum(0) - 1
        first = begins.nonzero().squeeze(1)
        at = torch.arange(len(rows), device=ids.device) - first[word]
        sizes = torch.bincount(word, minlength=len(first)).clamp(max=LONGEST_WORD - 2)
        spelt = torch.full((len(first), LONGEST_WORD), FILLS + 1, dtype=torch.int64, device=ids.device)
        spelt[:, 0] = BEGINS + 1
        fits = at < LONGEST_WORD - 2
        spelt[word[fits], 1 + at[fits]] = self.signs.to(ids.device)[ids[places[fits]]]
        spelt[torch.arange(len(first), device=ids.device), 1 + sizes] = ENDS + 1
        words = in_a_row(spelt[:, 0], torch.bincount(rows[first], minlength=len(lengths)).tolist())
        return words, spelt, torch.zeros_like(ids).index_copy_(0, places, word)

    def read(self, inputs: Inputs, only: Tensor | None = None) -> Tensor:
        x_TD = self.layers(inputs)[-1]
        return x_TD if only is None else x_TD[only]

    def depth_of(self, parameter: str) -> int:
        part, *inside = parameter.split(".")
        if part == "ways":
            return self.depth - int(inside[2])
        return self.depth + 1 if part == "pieces" else 0

    def units(self) -> Iterator[nn.Module]:
        left, right = self._layers
        for pair in zip(left, right, strict=True):
            yield from pair

    @property
    def _layers(self) -> list[list[Any]]:
        return [list(way.layers) for way in self.ways]  # type: ignore[arg-type]

    def matrices(self) -> Iterator[tuple[Tensor, int]]:
        for unit in self.units():
            yield from (
                (each, 1 if name == "projection" else 4) for name, each in unit.named_parameters() if each.ndim == 2
            )

    def words(self) -> nn.Module | None:
        return None if self.spells else self.pieces

    # What reads on.

    def onwards(self, ids_BL: Tensor, way: int, state_BS: Tensor | None) -> tuple[Tensor, Tensor]:
        x_BLD = self._words(ids_BL.flatten()).view(*ids_BL.shape, -1)
        said, after_BS = self.ways[way](x_BLD, state_BS)
        return self.leaves(said[-1]), after_BS

    def nothing_read(self) -> Tensor:
        return self.bias.new_zeros(sum(each.cell + each.projected for each in self._layers[LEFT]))

    def parameters_of(self, way: int) -> Iterator[nn.Parameter]:
        return self.ways[way].parameters()

    def word_parts(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return x, self.matrix if self.spells else self.pieces.weight, self.bias

    def word_scores(self, x: Tensor) -> Tensor:
        return F.linear(*self.word_parts(x))

    def _words(self, ids_T: Tensor) -> Tensor:
        if not self.spells:
            table: Tensor = self.pieces(ids_T)
            return table
        if self.spelling is None:
            raise RuntimeError("an ELMo must meet its tokenizer before it reads")
        different, which_T = torch.unique(ids_T, return_inverse=True)  # each word's characters are read once
        if self.spelling.device != ids_T.device:
            self.spelling = self.spelling.to(ids_T.device)
        spelt: Tensor = self.pieces(self.spelling[different])
        return spelt[which_T]


def spelling_of(tokenizer: Tokenizer) -> Tensor:
    """How each token is spelt: its bytes between two signs, filled up. What texts begin and end with have signs of
    their own."""
    edges = {tokenizer.specials.get(role): sign for role, sign in EDGES.items()}
    rows = torch.full((tokenizer.vocab_size, LONGEST_WORD), FILLS + 1, dtype=torch.int64)
    for number in range(tokenizer.vocab_size):
        token = tokenizer.token(number)
        spelt = [edges[token]] if token in edges else [*token.encode()][: LONGEST_WORD - 2]
        signs = torch.tensor([BEGINS, *spelt, ENDS]) + 1
        rows[number, : len(signs)] = signs
    return rows


def signs_of(tokenizer: Tokenizer) -> tuple[Tensor, Tensor]:
    """Of tokens that are bytes: which each of them is, and whether it begins a word."""
    byte_of = {sign: number for number, sign in _bytes_as_signs().items()}
    edges = {tokenizer.specials.get(role): sign for role, sign in EDGES.items()}
    tokens = [tokenizer.token(number) for number in range(tokenizer.vocab_size)]
    signs = [edges.get(token, byte_of.get(token.removeprefix("##"), FILLS)) + 1 for token in tokens]
    begins = [not (token.startswith("##") and len(token) > 2) for token in tokens]
    return torch.tensor(signs), torch.tensor(begins)


def _bytes_as_signs() -> dict[int, str]:
    """How byte-level tokenizers write each byte: itself where it can be seen, else a letter from behind the others."""
    seen = [*range(ord("!"), ord("~") + 1), *range(ord("\u00a1"), ord("\u00ac") + 1), *range(ord("\u00ae"), 256)]
    hidden = [number for number in range(256) if number not in seen]
    return {number: chr(number) for number in seen} | {number: chr(256 + at) for at, number in enumerate(hidden)}
