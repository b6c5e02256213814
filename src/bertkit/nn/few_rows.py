"""Matrix products with one row or a few: what writing token by token consists of, and a request that comes alone.

Such a product takes as long as its weights take to come from memory, and that hangs on how they lie there. For one row
a matrix with more outputs than inputs is best read input by input. For some rows oneDNN has an order of its own, which
costs a second copy of the weights; it is made when it is first needed. All products of GPT-2 together, measured on one
core without AVX-512: for one row a fifth less time than with weights as they come, for eight rows a third less. Those
of MiniLM on two such cores: for 25 rows, a sentence, a third less; for 128 a fifth less; for 256 still a little.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bertkit.nn.network import Network

MOST_ROWS = 256
"""With more, the order of the weights no longer matters, or theirs is the worse."""


def lay_out_for_few_rows(model: Network) -> None:
    """For a network on the CPU, in float32, that does not learn any more."""
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return
    for parent in list(model.reader.modules()):
        for name, child in parent.named_children():
            if type(child) is nn.Linear:
                _read_input_by_input(child.weight)
                setattr(parent, name, FewRowsLinear(child))
    if (head := getattr(model, "mlm", None)) is not None:
        _read_input_by_input(head.output_matrix(model.reader.words().weight))
        head.product = Product()


def copied_bytes(model: nn.Module) -> int:
    """What the second copies take, once each is made."""
    return sum(4 * each.weight.numel() for each in model.modules() if isinstance(each, FewRowsLinear))


class Product:
    """x times the weights, plus the bias. It is always called with the same weights."""

    def __init__(self) -> None:
        self._packed: Tensor | None = None

    def __call__(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        rows = x.numel() // x.shape[-1]
        # oneDNN's product has no way back, and says nothing of it
        if not 1 < rows <= MOST_ROWS or (torch.is_grad_enabled() and x.requires_grad):
            return F.linear(x, weight, bias)
        if self._packed is None:
            self._packed = torch.ops.mkldnn._reorder_linear_weight(weight.detach().contiguous(), rows)
        product: Tensor = torch.ops.mkldnn._linear_pointwise(x, self._packed, bias, "none", [], "")
        return product


class FewRowsLinear(nn.Linear):
    def __init__(self, linear: nn.Linear) -> None:
        nn.Module.__init__(self)
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.weight, self.bias = linear.weight, linear.bias
        self.product = Product()

    def forward(self, x: Tensor) -> Tensor:
        return self.product(x, self.weight, self.bias)


def _read_input_by_input(weight: Tensor) -> None:
    outputs, inputs = weight.shape
    if outputs > inputs:
        weight.data = weight.data.t().contiguous().t()
