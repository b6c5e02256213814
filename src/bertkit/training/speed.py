"""How fast this machine is, and how fast it could be: the rate of its matrix products, and what share of it a model's
own products use."""

from __future__ import annotations

import time

import torch

from bertkit.config import BertConfig
from bertkit.model.presets import electra_generator

SIZE = 2048
"""Of the square matrices whose product is timed: large enough that nothing but arithmetic counts."""


def matmul_rate(device: torch.device, seconds: float = 0.5, dtype: torch.dtype = torch.float32) -> float:
    """Floating-point operations a second of the fastest of some matrix products."""
    a, b = (torch.ones(SIZE, SIZE, device=device, dtype=dtype) for _ in range(2))
    best, end, tried = 0.0, time.perf_counter() + seconds, 0
    while time.perf_counter() < end or tried < 2:
        start = time.perf_counter()
        a @ b
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        elif device.type == "mps":
            torch.mps.synchronize()
        best = max(best, 2 * SIZE**3 / (time.perf_counter() - start))
        tried += 1
    return best


def flops_per_token(config: BertConfig, length: int, mask_rate: float) -> float:
    """The operations of the matrix products in a training step for one token: forward, and twice that backward. What
    comes after the last block's attention, and the masked-word head, count for the hidden places only; whatever is no
    matrix product counts as nothing."""
    hidden, layers = config.hidden_size, config.num_hidden_layers
    keys = 3 * hidden * hidden
    rest = hidden * hidden + (3 if config.gated else 2) * hidden * config.intermediate_size
    attention = 2 * length * hidden
    head = config.embedding_width * (hidden + config.vocab_size)
    return 6 * (layers * (keys + attention) + (layers - 1 + mask_rate) * rest + mask_rate * head)


def flops_of(config: BertConfig, length: int, mask_rate: float, generator_size: float) -> float:
    """The same for a model with its generator, if it has one: the discriminator then reads every place, and has no
    vocabulary to choose from."""
    if not generator_size:
        return flops_per_token(config, length, mask_rate)
    hidden, layers = config.hidden_size, config.num_hidden_layers
    layer = 4 * hidden * hidden + 2 * hidden * config.intermediate_size + 2 * length * hidden
    generator = flops_per_token(electra_generator(config, generator_size), length, mask_rate)
    return generator + 6 * (layers * layer + hidden * hidden)
