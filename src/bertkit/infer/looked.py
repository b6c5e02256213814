"""Where in a text each word that was written from it looked: the decoder's look at what was read, of all its layers and
heads together."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

from bertkit.errors import UsageError
from bertkit.infer.generation import write
from bertkit.infer.sampling import Sampling
from bertkit.nn.inputs import lay_out
from bertkit.nn.protocols import WritesFrom

if TYPE_CHECKING:
    from bertkit.infer.written import TextWriter


@dataclass(frozen=True)
class Looked:
    read: list[str]
    """The tokens of the text."""
    written: list[str]
    map: npt.NDArray[np.float32]
    """For each that was written, a row: how much it looked at each that was read. Rows sum to 1."""
    text: str
    """What was written."""


def looked(writer: TextWriter, text: str) -> Looked:
    network: Any = writer.encoder.model
    if WritesFrom not in network.abilities:
        raise UsageError(
            f"{writer.encoder.name} has no decoder that looks at what was read",
            "Only an encoder with a decoder has: finetune generate with `way=two`.",
        )
    its = writer.writer
    (source,) = its.read([text])
    usual = {name: value for name, value in its.usual.items() if name != "samples"}
    (best, *_), *_ = write(its, [text], Sampling(**usual))  # type: ignore[arg-type]
    shown = [int(its.start or 0), *best.ids[:-1]]
    inputs = lay_out([([*source, *shown], [0] * (len(source) + len(shown)))], packed=True, pad_id=0)
    inputs = replace(inputs, given=(len(source),)).to(writer.encoder.device)
    looks = [block.crossing for block in network.decoder.blocks]
    maps: list[torch.Tensor] = []
    try:
        for each in looks:
            each.looked = maps
        with writer.encoder.computing():
            network.written(inputs)
    finally:
        for each in looks:
            each.looked = None
    mean = torch.stack([each[0].float().mean(0) for each in maps]).mean(0).cpu().numpy()
    reads, writes = writer.encoder.tokenizer, its.tokenizer
    return Looked([reads.shown(each) for each in source], [writes.shown(each) for each in best.ids], mean, best.text)
