"""`bertkit.load(folder)`: something to call with a text, or a list of texts, whatever the folder is for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bertkit.errors import UsageError
from bertkit.inference.encoder import TextEncoder, load_encoder
from bertkit.interop.folder import ModelFolder
from bertkit.interop.hub import find_folder


class Predictor:
    """Call it with one input or a list. `encoder` is the model inside, for everything else."""

    def __init__(self, task: str, encoder: TextEncoder, answer: Callable[..., Any]) -> None:
        self.task = task
        self.encoder = encoder
        self._answer = answer

    def __call__(self, inputs: str | Sequence[str], **options: Any) -> Any:
        return self._answer(inputs, **options)


def load(folder_or_name: str | Path, **options: Any) -> Predictor:
    """A predictor for the folder's task; the options are those of `load_encoder`.

    A pretrained model fills masks, a bare encoder gives vectors.
    """
    folder = find_folder(folder_or_name)
    task = ModelFolder(folder, ignore_config_keys=options.get("ignore_config_keys", ())).task
    if task not in ("fill-mask", "embed"):
        raise UsageError(
            f"{folder} is for the task {task!r}, which this version cannot predict",
            "bertkit.load_encoder opens its encoder.",
        )
    encoder = load_encoder(folder, **options)
    return Predictor(task, encoder, encoder.fill_mask if task == "fill-mask" else encoder.embed)
