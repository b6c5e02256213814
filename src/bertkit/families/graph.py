"""A BERT and its head as an ONNX graph, written directly with the operators that onnxruntime has fused for it.

From outside it is as others make it: `input_ids`, `attention_mask` and `token_type_ids`, filled up to one length at the
end. Inside, tokens lie one after another without filling, as in nn/packing.py, and are spread out for attention
alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor, nn

from bertkit.errors import UsageError, with_article
from bertkit.families import family_of
from bertkit.nn.fine_tuned import FineTuned
from bertkit.nn.layers import PostNormBlock
from bertkit.nn.network import Network

OPSET, MICROSOFT, IR_VERSION = 17, "com.microsoft", 9
VECTORS, SCORES = "last_hidden_state", "logits"
MOST_BYTES = 2**31 - 2**20
"""A file of this kind cannot be larger."""
LARGEST_WEIGHT = 63
"""Weights in 8 bits use 7 of them: two products of 8 bits summed in 16 would overflow on processors without VNNI."""


def require_exportable(model: Network | FineTuned) -> None:
    config = model.network.config
    if config.causal:
        raise UsageError("a model that reads from left to right cannot be exported", "Use it as it is.")
    if family_of(config).graph is None:
        raise UsageError(f"{with_article(config.family)} model cannot be exported", "Use it as it is.")
    for part in ("mix", "lstm", "cnn"):
        if getattr(model, part, None) is not None:
            what = {"mix": "a mix of layers", "lstm": "an LSTM", "cnn": "a CNN"}[part]
            raise UsageError(f"a head that reads {what} cannot be exported", "Use it as it is, or fit it without.")
    size = 4 * sum(each.numel() for each in model.parameters())
    if size > MOST_BYTES:
        raise UsageError(f"{size:,} bytes of weights are more than an ONNX file holds", "Use the model as it is.")


def graph_of(model: Network | FineTuned, *, int8: bool, facts: dict[str, str]) -> onnx.ModelProto:
    """`facts` are kept in the file."""
    require_exportable(model)
    return _Builder(model, int8).finish(facts)


class _Builder:
    def __init__(self, model: Network | FineTuned, int8: bool) -> None:
        self.int8 = int8
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, onnx.TensorProto] = {}
        bert: Any = model.network
        self.config = bert.config
        self.width = self.config.hidden_size
        self._layout()
        reads = model.shape.reads if isinstance(model, FineTuned) else "mean"
        x = self._embedded(bert)
        x = self._through_blocks(bert, x, only_first=reads == "text")
        if not isinstance(model, FineTuned) or reads == "mean":
            self.node("Gather", [x, "token_at"], VECTORS)
            self.output = helper.make_tensor_value_info(VECTORS, TensorProto.FLOAT, ["batch", "length", self.width])
            return
        shape: list[Any] = ["batch", model.shape.outputs]
        if reads == "text":
            if bert.pooler is not None:
                x = self.linear(x, bert.pooler.dense, "pooler", exact=True)
                x = self.activated(x, self.config.pooled_by)
            scores = self.linear(x, model.dense, "head", exact=True)
            self.node("Identity", [scores], SCORES)
        else:
            scores = self.linear(x, model.dense, "head", exact=True)
            self.node("Gather", [scores, "token_at"], SCORES)
            shape.insert(1, "length")
        self.output = helper.make_tensor_value_info(SCORES, TensorProto.FLOAT, shape)

    def finish(self, facts: dict[str, str]) -> onnx.ModelProto:
        names = ["input_ids", "attention_mask", *(["token_type_ids"] if self.config.type_vocab_size else [])]
        inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "length"]) for name in names]
        graph = helper.make_graph(self.nodes, "bertkit", inputs, [self.output], list(self.constants.values()))
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(MICROSOFT, 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="bertkit")
        helper.set_model_props(model, facts)
        return model

    def node(self, kind: str, inputs: Sequence[str], *outputs: str, domain: str = "", **attributes: Any) -> str:
        """The name of its (first) output, made up if none is given."""
        named = outputs or (f"{kind}_{len(self.nodes)}",)
        self.nodes.append(helper.make_node(kind, list(inputs), list(named), domain=domain, **attributes))
        return named[0]

    def fused(self, kind: str, inputs: Sequence[str], **attributes: Any) -> str:
        return self.node(kind, inputs, domain=MICROSOFT, **attributes)

    def constant(self, name: str, value: Tensor | npt.NDArray[Any] | list[int]) -> str:
        """Once, however often it is asked for: layers may share weights."""
        if name not in self.constants:
            array = value.detach().cpu().numpy() if isinstance(value, Tensor) else np.asarray(value)
            self.constants[name] = numpy_helper.from_array(np.asarray(array, order="C"), name)
        return name

    def linear(self, x: str, layer: nn.Linear, name: str, *, bias: bool = True, exact: bool = False) -> str:
        """`exact`: never in 8 bits, for layers that cost nothing and decide much."""
        if self.int8 and not exact:
            product = self._product_in_8_bits(x, layer, name)
        else:
            product = self.node("MatMul", [x, self.constant(f"{name}.weight", layer.weight.T)])
        return self.node("Add", [product, self.constant(f"{name}.bias", layer.bias)]) if bias else product

    def _product_in_8_bits(self, x: str, layer: nn.Linear, name: str) -> str:
        """Each row of `x` has a scale of its own. With one for all of them, as onnxruntime's own tools have it, the
        answer for a text would depend on the texts beside it, and be less exact."""
        number = {
            each: self.constant(each, np.array(value, np.float32))
            for each, value in (("1.0", 1), ("1/127", 1 / 127), ("smallest", 1e-30))
        }
        middle = self.constant("128", np.array(128, np.uint8))
        largest = self.node("ReduceMax", [self.node("Abs", [x])], axes=[-1], keepdims=1)
        scale = self.node("Mul", [self.node("Max", [largest, number["smallest"]]), number["1/127"]])
        whole = self.node("QuantizeLinear", [self.node("Div", [x, scale]), number["1.0"], middle])
        weight, scales, zeros = self._in_8_bits(layer, name)
        product = self.fused("MatMulIntegerToFloat", [whole, weight, number["1.0"], scales, middle, zeros])
        return self.node("Mul", [product, scale])

    def _in_8_bits(self, layer: nn.Linear, name: str) -> list[str]:
        """Weights as whole numbers, with a scale for each output of the layer."""
        weight = layer.weight.detach().cpu().numpy().T
        scales = np.maximum(np.abs(weight).max(0), np.finfo(np.float32).tiny) / np.float32(LARGEST_WEIGHT)
        return [
            self.constant(f"{name}.weight", np.round(weight / scales).astype(np.int8)),
            self.constant(f"{name}.scales", scales.astype(np.float32)),
            self.constant(f"{name}.zeros", np.zeros(len(scales), np.int8)),
        ]

    def activated(self, x: str, kind: str, bias: str | None = None) -> str:
        match kind:
            case "gelu":
                return self.fused("Gelu", [x]) if bias is None else self.fused("BiasGelu", [x, bias])
            case "gelu_new" | "gelu_pytorch_tanh":
                return self.fused("FastGelu", [x] if bias is None else [x, bias])
        x = x if bias is None else self.node("Add", [x, bias])
        match kind:
            case "relu":
                return self.node("Relu", [x])
            case "silu" | "swish":
                return self.node("Mul", [x, self.node("Sigmoid", [x])])
            case "tanh":
                return self.node("Tanh", [x])
        raise AssertionError(kind)

    def normed(self, x: str, norm: Any, name: str, added: str | None = None, bias: str | None = None) -> str:
        """Of a sum, if there is something to add."""
        weights = [self.constant(f"{name}.weight", norm.weight), self.constant(f"{name}.bias", norm.bias)]
        if added is None:
            return self.node("LayerNormalization", [x, *weights], axis=-1, epsilon=norm.eps)
        biases = [] if bias is None else [bias]
        return self.fused("SkipLayerNormalization", [x, added, *weights, *biases], epsilon=norm.eps)

    def _layout(self) -> None:
        """`places`: where among all places of the filled batch each token is; `token_at`: the other way, batch x
        length, where a place that is filled up has any token."""
        flat = self.node("Reshape", ["attention_mask", self.constant("in_a_row", [-1])])
        self.node("Squeeze", [self.node("NonZero", [flat]), self.constant("axis_0", [0])], "places")
        counted = self.node("CumSum", [flat, self.constant("zero", np.array(0, np.int64))])
        before = self.node("Sub", [counted, self.constant("one", np.array(1, np.int64))])
        token = self.node("Max", [before, self.constant("zero", [0])])
        self.node("Reshape", [token, self.node("Shape", ["attention_mask"])], "token_at")
        self.node("Cast", ["attention_mask"], "seen", to=TensorProto.INT32)

    def _of_tokens(self, name: str) -> str:
        return self.node("Gather", [self.node("Reshape", [name, "in_a_row"]), "places"])

    def _embedded(self, bert: Any) -> str:
        embeddings = bert.encoder.embeddings
        if embeddings.position is None:
            raise ValueError("this model's positions are turned into its attention")
        words = self.node("Gather", [self.constant("words", embeddings.word.weight), self._of_tokens("input_ids")])
        shape = self.node("Shape", ["input_ids"])
        length = self.node("Gather", [shape, self.constant("one", np.array(1, np.int64))])
        positions = self.constant("positions", embeddings.position.weight[embeddings.first_position :])
        x = self.node("Add", [words, self.node("Gather", [positions, self.node("Mod", ["places", length])])])
        if embeddings.segment is not None:
            segments = self.constant("segments", embeddings.segment.weight)
            x = self.node("Add", [x, self.node("Gather", [segments, self._of_tokens("token_type_ids")])])
        if not self.config.pre_norm:
            x = self.normed(x, embeddings.norm, "embeddings.norm")
        if isinstance(embeddings.widen, nn.Linear):
            x = self.linear(x, embeddings.widen, "widen")
        return x

    def _through_blocks(self, bert: Any, x: str, *, only_first: bool) -> str:
        """With `only_first`, the last block gives the first tokens' vectors alone."""
        encoder = bert.encoder
        for number in range(encoder.depth):
            which = encoder.block_of(number)
            block: Any = encoder.blocks[which]
            x = self._block(x, block, f"block{which}", only_first=only_first and number == encoder.depth - 1)
        return self.normed(x, encoder.norm, "norm") if self.config.pre_norm else x

    def _block(self, x: str, block: PostNormBlock, name: str, *, only_first: bool) -> str:
        pre, attention, wide = self.config.pre_norm, block.attention, block.feed_forward
        given = self.normed(x, block.attention_norm, f"{name}.attention_norm") if pre else x
        qkv = self.linear(given, attention.qkv, f"{name}.qkv", bias=False)
        mixed = self._mixed(qkv, self.constant(f"{name}.qkv.bias", attention.qkv.bias))
        if only_first:
            mixed = self.node("Gather", [mixed, self.constant("zero", np.array(0, np.int64))], axis=1)
            firsts = self.node("Gather", ["token_at", self.constant("zero", np.array(0, np.int64))], axis=1)
            x = self.node("Gather", [x, firsts])
        else:
            mixed = self.node("Reshape", [mixed, self.constant("in_rows", [-1, self.width])])
            mixed = self.node("Gather", [mixed, "places"])
        attended = self.linear(mixed, attention.output, f"{name}.output", bias=False)
        x = self._added(x, attended, block.attention_norm, f"{name}.attention_norm", attention.output, f"{name}.output")
        given = self.normed(x, block.feed_forward_norm, f"{name}.norm") if pre else x
        widened = self.linear(given, wide.widen, f"{name}.widen", bias=False)
        bent = self.activated(widened, self.config.hidden_act, self.constant(f"{name}.widen.bias", wide.widen.bias))
        narrowed = self.linear(bent, wide.narrow, f"{name}.narrow", bias=False)
        return self._added(x, narrowed, block.feed_forward_norm, f"{name}.norm", wide.narrow, f"{name}.narrow")

    def _mixed(self, qkv: str, bias: str) -> str:
        """Tokens x 3D to batch x length x D."""
        spread = self.node("Gather", [qkv, "token_at"])
        number = len(self.nodes)
        parts = [f"{part}_{number}" for part in ("query", "key", "value")]
        self.node("Split", [spread, self.constant("thirds", [self.width] * 3)], *parts, axis=2)
        return self.fused("MultiHeadAttention", [*parts, bias, "seen"], num_heads=self.config.num_attention_heads)

    def _added(self, x: str, part: str, norm: nn.Module, name: str, layer: nn.Linear, layer_name: str) -> str:
        """What a part of a block gives, with the bias of its last layer, added to what it was given."""
        bias = self.constant(f"{layer_name}.bias", layer.bias)
        if self.config.pre_norm:
            return self.node("Add", [x, self.node("Add", [part, bias])])
        return self.normed(part, norm, name, added=x, bias=bias)
