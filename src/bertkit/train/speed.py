"""How fast this machine is, and how fast it could be: the rate of its matrix products, and what share of it a model's
own products use."""

from __future__ import annotations

import time
from typing import Any

import torch

from bertkit.families import family_of
from bertkit.nn.config import Config

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


def flops_per_token(config: Config, length: int, mask_rate: float, **options: Any) -> float:
    """The operations of the matrix products in a training step for one token, as the model's family counts them."""
    return family_of(config).flops(config, length, mask_rate, **options)
