"""What computes: torch, or onnxruntime with a graph that `bertkit export` put into the model folder.

Only answers and vectors of the last layer come from the graph. Whoever looks inside (layers, attention maps, masked
words) is answered by torch, whose weights stay at hand.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bertkit.errors import ModelFolderError, UsageError
from bertkit.hub.folder import ModelFolder
from bertkit.hub.manifest import MANIFEST
from bertkit.nn.inputs import Inputs

FILES = {"onnx": "model.onnx", "onnx-int8": "model.int8.onnx"}
RUNTIMES = ("torch", *FILES)
WEIGHTS = "weights"
"""The fact in a graph's file that says which weights it was made from."""
VECTORS = "last_hidden_state"
MOST_STRETCH = 2
"""In one run of the graph, the longest sequence is at most so many times as long as the shortest: attention is
computed as if all were of one length."""


def check_runtime(name: str, device: str = "cpu", precision: str = "float32") -> None:
    """What can be told before a model is loaded."""
    if name not in RUNTIMES:
        raise UsageError(f"runtime is {name!r}", f"It can be one of: {', '.join(RUNTIMES)}.")
    if name == "torch":
        return
    if device not in ("auto", "cpu") or precision not in ("auto", "float32"):
        raise UsageError(
            f"the runtime {name} on {device} in {precision}",
            "It computes on the CPU, as it was exported: leave both out.",
        )
    require_onnxruntime()


def require_onnxruntime() -> None:
    try:
        import onnxruntime  # noqa: F401
    except ImportError:
        raise UsageError("this runtime needs onnxruntime", "pip install 'bertkit[onnx]'") from None


class OnnxRuntime:
    """A graph, ready to compute batches; each batch on one core, several batches at a time."""

    def __init__(self, graph: Path | bytes, *, threads: int = 1) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.enable_mem_pattern = False  # which is for batches that all have one shape
        options.log_severity_level = 3
        options.add_session_config_entry("session.set_denormal_as_zero", "1")
        try:
            self.session: Any = onnxruntime.InferenceSession(
                graph if isinstance(graph, bytes) else str(graph), options, providers=["CPUExecutionProvider"]
            )
        except Exception as problem:  # onnxruntime has no class for them
            where = "the graph" if isinstance(graph, bytes) else graph
            raise ModelFolderError(f"{where} cannot be opened by onnxruntime: {problem}", "Export it again.") from None
        self.inputs = {each.name for each in self.session.get_inputs()}
        (output,) = self.session.get_outputs()
        self.gives_vectors = output.name == VECTORS
        self.for_each_token = len(output.shape) == 3

    @property
    def facts(self) -> dict[str, str]:
        return dict(self.session.get_modelmeta().custom_metadata_map)

    def __call__(self, inputs: Inputs) -> Tensor:
        """Of a packed batch, as FineTuned gives it: a row for each sequence, or for each token."""
        if inputs.runs is None:
            raise ValueError("a graph is given packed batches")
        lengths = [length for count, length in inputs.runs for _ in range(count)]
        ids = inputs.ids.numpy()
        segments = np.zeros_like(ids) if inputs.segments is None else inputs.segments.numpy()
        starts = list(accumulate(lengths, initial=0))
        found = []
        for first, last in _alike(lengths):
            its = np.array(lengths[first:last])
            real = np.arange(its.max()) < its[:, None]
            span = slice(starts[first], starts[last])
            given = {"attention_mask": real.astype(np.int64)}
            for name, flat in (("input_ids", ids), ("token_type_ids", segments)):
                if name in self.inputs:
                    given[name] = np.zeros(real.shape, np.int64)
                    given[name][real] = flat[span]
            (output,) = self.session.run(None, given)
            if self.for_each_token:
                output = output.reshape(-1, output.shape[-1]) if real.all() else output[real]
            found.append(torch.from_numpy(output))
        return found[0] if len(found) == 1 else torch.cat(found)

    def vectors(self, flat_ids: Tensor, runs: Sequence[tuple[int, int]]) -> Tensor:
        """T x D of a packed batch in one segment."""
        firsts = torch.empty(0)
        return self(Inputs(flat_ids, torch.zeros_like(flat_ids), tuple(runs), None, firsts, len(flat_ids)))


def open_runtime(name: str, folder: ModelFolder) -> OnnxRuntime | None:
    """None for torch. The folder's files have been compared with their hashes; here the graph is refused if it was not
    made from the folder's weights."""
    check_runtime(name)
    if name == "torch":
        return None
    file = FILES[name]
    if not (folder.path / file).is_file():
        how = " --int8" if name == "onnx-int8" else ""
        raise UsageError(f"{folder.path} has no {file}", f"Make a folder that has: bertkit export MODEL OUT{how}.")
    if file not in folder.manifest.get("files", {}):
        raise ModelFolderError(
            f"{folder.path / file} is not listed in {MANIFEST}, so it may belong to another model",
            "Export the model again.",
        )
    runtime = OnnxRuntime(folder.path / file)
    if runtime.facts.get(WEIGHTS) != weights_hash(folder):
        raise ModelFolderError(
            f"{folder.path / file} was made from other weights than the folder has", "Export the model again."
        )
    return runtime


def weights_hash(folder: ModelFolder) -> str:
    """Of a folder's weights, by the hashes of its files; computed where it has none."""
    from hashlib import sha256

    from bertkit.files import sha256_of
    from bertkit.hub.safetensors_files import weight_files

    known = folder.manifest.get("files", {})
    hashes = sorted(known.get(file.name) or sha256_of(file) for file in weight_files(folder.path))
    return sha256("\n".join(hashes).encode()).hexdigest()


def _alike(lengths: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Neighbours that are of like length, as (first, after the last).

    >>> list(_alike([5, 7, 10, 11, 40]))
    [(0, 3), (3, 4), (4, 5)]
    """
    first, shortest, longest = 0, lengths[0], lengths[0]
    for number, length in enumerate(lengths):
        shortest, longest = min(shortest, length), max(longest, length)
        if longest > MOST_STRETCH * shortest:
            yield first, number
            first, shortest, longest = number, length, length
    yield first, len(lengths)


def graph_bytes(name: str, folder: Path) -> int:
    """What a runtime needs in memory besides the model's own weights, about; 0 if there is no graph."""
    file = folder / FILES[name] if name in FILES else None
    return file.stat().st_size if file is not None and file.is_file() else 0
