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

from bertkit.nn.layers import FeedForward
from bertkit.nn.network import Network

MOST_ROWS = 256
"""With more, the order of the weights no longer matters, or theirs is the worse."""


def lay_out_for_few_rows(model: Network) -> None:
    """For a network on the CPU, in float32, that does not learn any more."""
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return
    *_, last = model.readers
    for parent in [part for reader in model.readers for part in reader.modules()]:
        bends = type(parent) is FeedForward and parent.activation is F.gelu
        for name, child in parent.named_children():
            if type(child) is nn.Linear:
                _read_input_by_input(child.weight)
                setattr(parent, name, FewRowsLinear(child, bends=bends and name == "widen"))
        if bends:  # in one go with the product before
            parent.activation = _as_it_is
    if (head := getattr(model, "mlm", None)) is not None:
        _read_input_by_input(head.output_matrix(last.words().weight))
        head.product = Product()


def copied_bytes(model: nn.Module) -> int:
    """What the second copies take, once each is made."""
    return sum(4 * each.weight.numel() for each in model.modules() if isinstance(each, FewRowsLinear))


class Product:
    """x times the weights, plus the bias. Weights that have changed are laid out again."""

    def __init__(self, *, bends: bool = False) -> None:
        """`bends`: GELU of all that."""
        self.bends = bends
        self._packed: Tensor | None = None
        self._of: tuple[int, int] | None = None

    def __deepcopy__(self, _: object) -> Product:
        """A copy has no layout yet."""
        return Product(bends=self.bends)

    def __call__(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        rows = x.numel() // x.shape[-1]
        # oneDNN's product has no way back, and says nothing of it
        if not 1 < rows <= MOST_ROWS or (torch.is_grad_enabled() and x.requires_grad):
            product = F.linear(x, weight, bias)
            return F.gelu(product) if self.bends else product
        now = weight.data_ptr(), weight._version
        if self._packed is None or now != self._of:
            self._of = now
            self._packed = torch.ops.mkldnn._reorder_linear_weight(weight.detach().contiguous(), rows)
        after = "gelu" if self.bends else "none"
        found: Tensor = torch.ops.mkldnn._linear_pointwise(x, self._packed, bias, after, [], "none")
        return found


class FewRowsLinear(nn.Linear):
    def __init__(self, linear: nn.Linear, *, bends: bool = False) -> None:
        nn.Module.__init__(self)
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.weight, self.bias = linear.weight, linear.bias
        self.product = Product(bends=bends)

    def forward(self, x: Tensor) -> Tensor:
        return self.product(x, self.weight, self.bias)


def _as_it_is(x: Tensor) -> Tensor:
    return x


def _read_input_by_input(weight: Tensor) -> None:
    outputs, inputs = weight.shape
    if outputs > inputs:
        weight.data = weight.data.t().contiguous().t()
