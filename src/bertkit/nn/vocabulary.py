"""A model for another vocabulary than it was trained with: what it knows of a token is kept, and a new token begins as
the mean of the pieces that stood for it before."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import accumulate
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from bertkit.errors import ModelFolderError, UsageError, with_article
from bertkit.nn.network import Network
from bertkit.text.extend import Origins, trace
from bertkit.text.tokenizer import Tokenizer, ordinary_ids

_PLACEHOLDER = re.compile(r"\[unused\d+\]")


class Fitted(NamedTuple):
    model: Network
    kept: int
    """Tokens that the model had before."""
    from_pieces: int
    """New ones that begin as the mean of their old pieces."""
    unknown: int
    """New ones of which nothing was known; they begin as the mean of all ordinary tokens."""


def fit_vocabulary(model: Network, old: Tokenizer, new: Tokenizer) -> Fitted:
    """A copy of the model, trained with `old`, for the tokens of `new`, and exactly as many; `model` stays as it is.

    On texts that both tokenizers cut alike, the hidden states are the same to the bit.
    """
    if old.vocab_size > model.config.vocab_size:
        raise ModelFolderError(
            f"the tokenizer has {old.vocab_size} pieces, and the model's vocab_size is {model.config.vocab_size}",
            "Tokenizer and model do not belong together: bring the files that do.",
        )
    origins = trace(old, new)
    pad_id = new.pad_id if "pad" in new.specials else None
    fitted = model.bare(replace(model.config, vocab_size=new.vocab_size, pad_token_id=pad_id))
    ordinary = [number for number in ordinary_ids(old) if not _PLACEHOLDER.fullmatch(old.token(number))]
    tensors = {
        name: _rows(tensor, origins, ordinary, new.vocab_size) if name in _rows_by_token(model) else tensor.clone()
        for name, tensor in model.state_dict().items()
    }
    fitted.load_state_dict(tensors, assign=True)
    fitted.train(model.training)
    fitted.reader.gradient_checkpointing = getattr(model.reader, "gradient_checkpointing", False)
    return Fitted(fitted, len(origins.kept), len(origins.pieces), len(origins.unknown))


def with_task_tokens(model: Network, old: Tokenizer, new: Tokenizer) -> Network:
    """The model for a tokenizer that has got tokens to stand around texts. What these mean is not known yet, so they
    begin as random vectors, different from each other."""
    size = max(model.config.vocab_size, new.vocab_size)
    fresh = sorted(set(new.backend.get_vocab().values()) - set(old.backend.get_vocab().values()))
    tensors = dict(model.state_dict())
    for name in tensors.keys() & set(_rows_by_token(model)):
        known = tensors[name]
        tensors[name] = known.new_zeros(size, *known.shape[1:])
        tensors[name][: len(known)] = known
        tensors[name][fresh] = torch.randn(len(fresh), *known.shape[1:]) * model.config.initializer_range
    fitted = model.bare(replace(model.config, vocab_size=size, pad_token_id=new.pad_id))
    fitted.load_state_dict(tensors, assign=True)
    return fitted.train(model.training)


def _rows_by_token(model: Network) -> tuple[str, ...]:
    if not model.rows_by_token:
        raise UsageError(
            f"{with_article(model.config.family)} model for another vocabulary", "It has none that could be changed."
        )
    return model.rows_by_token


def _rows(table: Tensor, origins: Origins, ordinary: list[int], size: int) -> Tensor:
    """One of the model's tensors, V or V x D, for the new tokens. Ids that no token has get what unknown ones get."""
    old_VD = table.detach().reshape(len(table), -1)

    def indices(ids: list[int]) -> Tensor:
        return torch.tensor(ids, dtype=torch.int64, device=table.device)

    new_VD = old_VD[indices(ordinary)].mean(0).expand(size, -1).clone()
    new_VD[indices(list(origins.kept))] = old_VD[indices(list(origins.kept.values()))]
    if origins.pieces:
        pieces = list(origins.pieces.values())
        starts = [0, *accumulate(map(len, pieces[:-1]))]
        flat = [number for some in pieces for number in some]
        new_VD[indices(list(origins.pieces))] = F.embedding_bag(indices(flat), old_VD, indices(starts), mode="mean")
    return new_VD.reshape(size, *table.shape[1:])
