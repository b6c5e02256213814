"""A model folder with an ONNX graph beside its weights, checked against them on real texts before it is written."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

import bertkit
from bertkit.corpus.documentation import documentation
from bertkit.errors import NumbersError, UsageError
from bertkit.files import atomic_folder, write_hashes
from bertkit.hub.folder import ModelFolder, require_place
from bertkit.hub.manifest import FORMAT, MANIFEST
from bertkit.infer.batching import batches
from bertkit.infer.runtime import FILES, WEIGHTS, OnnxRuntime, require_onnxruntime, weights_hash
from bertkit.nn.fine_tuned import FineTuned
from bertkit.nn.inputs import Inputs, lay_out
from bertkit.nn.network import Network
from bertkit.tables.values import TextExample
from bertkit.tasks import is_task, task_called
from bertkit.tasks.texts import encode_texts
from bertkit.text.tokenizer import Tokenizer

TEXTS = 192
"""So many are computed twice, once with torch."""
FEWEST = 16
"""Texts of the user's own are checked on alone if there are so many."""
TOKENS_AT_ONCE = 1024
LARGEST_DIFFERENCE = 1e-3
"""Between float32 here and there: more is a fault."""
WARN_BELOW, REFUSE_BELOW = 0.98, 0.8
"""Of `Check.agreement` in 8 bits."""
PARTS_OF_A_FOLDER = ("*.json", "*.safetensors", "*.txt", "*.model", "[0-9]_*/*.json")
CHINESE = (
    "我们喜欢学习自然语言处理。",
    "注意力机制让模型看到整个句子，而不只是左边或者右边的词。",
    "苹果公司发布了新手机，他一边吃苹果，一边看新闻。",
)


class Check(NamedTuple):
    """How far a graph is from the model it was made from."""

    texts: int
    largest_difference: float
    """Of any number."""
    agreement: float
    """Of vectors the mean cosine; of scores for classes, tags or places the share whose highest stays the highest; of a
    single score the correlation."""


class Exported(NamedTuple):
    file: str
    bytes: int
    check: Check


def export(
    folder: ModelFolder, out: Path, *, int8: bool = False, texts: Sequence[str] | None = None, overwrite: bool = False
) -> Exported:
    """Write `out`: the folder as it is, and a graph. A graph of the other kind that the folder has is kept.

    `texts` are what the graph is checked on, else sentences of Python's documentation and some in Chinese.
    """
    require_onnx()
    require_place(out, overwrite=overwrite, read=[folder.path])
    tokenizer = folder.tokenizer()
    model = _model_of(folder)
    from bertkit.families.graph import require_exportable

    require_exportable(model)
    sources = _files_of(folder)
    graph = folder.family.graph(  # type: ignore[misc]  # there is one
        model, int8=int8, facts={WEIGHTS: weights_hash(folder), "bertkit": bertkit.__version__}
    ).SerializeToString()
    check = compare(model, OnnxRuntime(graph), tokenizer, _enough(texts or ()))
    _judge(check, folder, int8=int8)
    file = FILES["onnx-int8" if int8 else "onnx"]
    with atomic_folder(out, overwrite=overwrite) as written:
        for name in sources:
            (written / name).parent.mkdir(exist_ok=True)
            shutil.copyfile(folder.path / name, written / name)
        (written / file).write_bytes(graph)
        facts = {**(folder.manifest or _facts(folder))}
        facts["exported"] = {**facts.get("exported", {}), file: check._asdict()}
        write_hashes(written, facts, MANIFEST, seal=True)
    return Exported(file, len(graph), check)


def require_onnx() -> None:
    require_onnxruntime()
    try:
        import onnx  # noqa: F401
    except ImportError:
        raise UsageError("exporting needs onnx", "pip install 'bertkit[onnx]'") from None


def compare(model: Network | FineTuned, runtime: OnnxRuntime, tokenizer: Tokenizer, texts: Sequence[str]) -> Check:
    """Of neighbouring texts every third is read with the next as a pair. Batches are those of use: in 8 bits it
    matters what is computed together."""
    examples = [
        TextExample("", text, texts[(number + 1) % len(texts)] if number % 3 == 0 else None)
        for number, text in enumerate(texts)
    ]
    longest = model.network.config.max_length
    encoded = encode_texts(examples, tokenizer, max_length=longest, long="head")
    found = [each for (each, *_) in encoded]
    exact, other = [], []
    largest = 0.0
    with torch.inference_mode():
        for numbers in batches([len(each.ids) for each in found], TOKENS_AT_ONCE):
            sequences = [(found[number].ids, found[number].segments) for number in numbers]
            inputs = lay_out(sequences, packed=True, pad_id=tokenizer.filling_id)
            right, computed = _exact(model, inputs), runtime(inputs)
            largest = max(largest, float((right - computed).abs().max()))
            exact.append(inputs.means(right) if runtime.gives_vectors else right)
            other.append(inputs.means(computed) if runtime.gives_vectors else computed)
    agreement = _agreement(torch.cat(exact), torch.cat(other), vectors=runtime.gives_vectors)
    return Check(len(texts), largest, agreement)


def example_texts() -> list[str]:
    lines = (line.strip() for _, document in documentation(()) for line in document.splitlines())
    return [*islice((line for line in lines if len(line.split()) > 5), TEXTS - len(CHINESE)), *CHINESE]


def _enough(texts: Sequence[str]) -> list[str]:
    if not texts:
        return example_texts()
    return [*texts, *(example_texts()[: FEWEST - len(texts)] if len(texts) < FEWEST else ())]


def _exact(model: Network | FineTuned, inputs: Inputs) -> Tensor:
    if model.has_head:
        scores: Tensor = model(inputs)
        return scores
    read: Tensor = model.network.reader.read(inputs)
    return read


def _agreement(exact: Tensor, other: Tensor, *, vectors: bool) -> float:
    if vectors:
        return float(F.cosine_similarity(exact, other).mean())
    if exact.shape[1] > 1:
        return float((exact.argmax(1) == other.argmax(1)).float().mean())
    together = torch.corrcoef(torch.stack([exact[:, 0], other[:, 0]]))[0, 1]
    return float(together.nan_to_num(1.0))  # all texts may have one score


def _judge(check: Check, folder: ModelFolder, *, int8: bool) -> None:
    if not int8 and not check.largest_difference <= LARGEST_DIFFERENCE:
        raise NumbersError(
            f"{folder.path}: the graph's numbers differ from the model's by {check.largest_difference:.2g}",
            "Nothing was written; use the model as it is.",
        )
    if int8 and not check.agreement >= REFUSE_BELOW:
        raise NumbersError(
            f"{folder.path}: in 8 bits the model is another one, its answers agree to {check.agreement:.3f} only",
            "Nothing was written; export without `int8=True`.",
        )


def _model_of(folder: ModelFolder) -> Network | FineTuned:
    from bertkit.hub.fine_tuned import load_fine_tuned
    from bertkit.hub.weights import load_model
    from bertkit.infer.predictor import PRETRAINED

    if is_task(folder.task) and folder.is_for_a_task and task_called(folder.task).writes:
        raise UsageError(f"{folder.path} writes texts word by word, which a graph does not", "Use it as it is.")
    if folder.task in PRETRAINED:
        return load_model(folder).model
    return load_fine_tuned(folder).model


def _files_of(folder: ModelFolder) -> Collection[str]:
    """What the manifest lists; of a folder of others, what belongs to such folders, and no old formats of weights."""
    if folder.manifest:
        return list(folder.manifest["files"])
    found = {file for pattern in PARTS_OF_A_FOLDER for file in folder.path.glob(pattern) if file.is_file()}
    return sorted(file.relative_to(folder.path).as_posix() for file in found)


def _facts(folder: ModelFolder) -> dict[str, Any]:
    return {"format": FORMAT, "family": folder.config.family, "task": folder.task}
