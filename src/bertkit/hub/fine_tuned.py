"""A fine-tuned model in a model folder: the head's tensors under the names transformers has for them, the labels in
config.json, and in bertkit.json all that the task has to know.

What transformers has no place for (a CRF, an LSTM, a mix of layers) is kept under names of our own. A model with a CRF
or a mix opens there, but without it; one with an LSTM does not, for its head is as wide as the LSTM. A left-to-right
BERT for whole texts opens, and there its head would read [CLS].
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from bertkit.errors import BertkitError, ModelFolderError, shortened
from bertkit.families import class_for
from bertkit.families.names import OTHER_HEADS
from bertkit.files import to_json
from bertkit.hub import safetensors_files
from bertkit.hub.folder import SHORTEST, ModelFolder
from bertkit.hub.huggingface import config_to_huggingface
from bertkit.hub.manifest import AGAIN, MANIFEST
from bertkit.hub.sentence_transformers import POOLINGS, SentenceSettings, files_there, sentence_files
from bertkit.hub.weights import SavedHead, architecture_of, load_model, save_model
from bertkit.nn.context import Context
from bertkit.nn.fine_tuned import FineTuned, HeadShape, needs_pooler
from bertkit.tasks import is_task, task_called
from bertkit.tasks.task import Task, facts_of, task_from
from bertkit.text.tokenizer import Tokenizer

HEADLESS_TASKS = ("embed", "generate")
"""Whose models are pretrained ones to look at: only bertkit.json, or the family, tells that they were fine-tuned."""
MATRICES = ("classifier", "qa_outputs")
CONTEXT = "context"
"""The folder inside a model folder, of another network that stands beside this one."""


class LoadedTask(NamedTuple):
    model: FineTuned
    task: Task[Any]


def save_fine_tuned(
    path: Path,
    model: FineTuned,
    task: Task[Any],
    tokenizer: Tokenizer,
    *,
    metrics: Mapping[str, float],
    provenance: Mapping[str, Any],
    columns: Mapping[str, str] | None = None,
    files: Mapping[str, str | bytes] | None = None,
    shard_bytes: int | None = None,
    overwrite: bool = False,
) -> None:
    """`columns` are those of the training data; `files` are put beside: a report, a picture."""
    top = task.head
    tensors = {name.replace("dense.", f"{top.matrix}."): tensor for name, tensor in model.head_tensors().items()}
    config: dict[str, Any] = {}
    if top.labels:
        config["id2label"] = {str(number): label for number, label in enumerate(top.labels)}
        config["label2id"] = {label: number for number, label in enumerate(top.labels)}
    elif top.hugging_face and class_for(model.network.config, top.hugging_face).endswith("ForSequenceClassification"):
        config["num_labels"] = model.shape.outputs
    if top.problem_type is not None:
        config["problem_type"] = top.problem_type
    sentence_settings, beside = None, dict(files or {})
    if model.shape.reads == "mean":
        sentence_settings = SentenceSettings("mean", normalize=True)
        beside |= sentence_files(sentence_settings, model.network.config.hidden_size, task.max_length)
    if model.context is not None:
        beside |= _context_files(model.context)
    head = SavedHead(
        architecture=top.hugging_face,
        pooler=needs_pooler(model.network.config, model.shape.reads),
        tensors=tensors,
        config=config,
        facts={
            "task": task.name,
            "labels": list(top.labels) or None,
            "task_facts": facts_of(task),
            "head": model.shape.to_json(),
            "columns": dict(columns or {}),
        },
    )
    save_model(
        path,
        model.network,
        tokenizer,
        head=head,
        metrics=metrics,
        provenance=provenance,
        sentence_settings=sentence_settings,
        files=beside,
        shard_bytes=shard_bytes,
        overwrite=overwrite,
    )


def load_fine_tuned(folder: ModelFolder) -> LoadedTask:
    """The model of a folder that was fine-tuned, by bertkit or others, in evaluation mode."""
    network, _ = load_model(folder)
    tensors = _head_tensors(folder)
    shape = _shape(folder, tensors)
    task = _task(folder, shape)
    its = ("mlm",) if shape.writes else ("pooler",) if needs_pooler(network.config, shape.reads) else ()
    network.keep(its)
    context = _context(folder) if shape.context else None
    with torch.device("meta"):  # what a file says of sizes is compared with the weights before it takes memory
        model = FineTuned(network, shape, context=context)
    expected = model.head_tensors()
    for name in sorted(expected.keys() | tensors.keys()):
        if name not in tensors or name not in expected:
            raise ModelFolderError(
                f"{folder.path}: the head {'lacks' if name in expected else 'has'} {name!r}",
                "Config and weights do not belong together: bring the files that do.",
            )
        there, wanted = tuple(tensors[name].shape), tuple(expected[name].shape)
        if there != wanted:
            raise ModelFolderError(
                f"{folder.path}: {name!r} of the head is {there}, not {wanted}",
                "Config and weights do not belong together: bring the files that do.",
            )
    model.load_state_dict({**{f"network.{k}": v for k, v in network.state_dict().items()}, **tensors}, assign=True)
    return LoadedTask(model.eval(), task)


def _context_files(context: Context) -> dict[str, bytes]:
    """Its weights are among those of the head; what else it needs to be opened again."""
    config = config_to_huggingface(context.network.config, architecture_of(context.network))
    with tempfile.TemporaryDirectory() as scratch:
        context.tokenizer.save(Path(scratch))
        files = {f"{CONTEXT}/{file.name}": file.read_bytes() for file in Path(scratch).iterdir()}
    return {**files, f"{CONTEXT}/config.json": to_json(config).encode("utf-8")}


def _context(folder: ModelFolder) -> Context:
    its = ModelFolder(folder.path / CONTEXT)
    parts = {part: f"context.network.{part}" for part in ("pooler", "mlm", "nsp", "rtd")}
    there = {part: any(name.startswith(begin) for name in folder.tensors) for part, begin in parts.items()}
    network = its.family.without_weights(its.config, **there)
    return Context(network, its.tokenizer(), folder.tokenizer())


def columns_of(folder: ModelFolder) -> dict[str, str]:
    """In which columns the training data had the parts of an example; older folders and those of others do not say."""
    return {str(part): str(name) for part, name in folder.manifest.get("columns", {}).items()}


def has_head(folder: ModelFolder) -> bool:
    """Whether there is a task that the folder's weights are for."""
    if folder.task in HEADLESS_TASKS:
        return folder.is_for_a_task
    return is_task(folder.task) and bool(folder.other_heads)


def _head_tensors(folder: ModelFolder) -> dict[str, Tensor]:
    """Under our names."""
    found: dict[str, Tensor] = {}
    for name, entry in folder.tensors.items():
        known = folder.canonical(name)
        if known is None or not known.startswith(OTHER_HEADS):
            continue
        owner, _, rest = known.partition(".")
        if entry.dtype not in safetensors_files.FLOATS:
            raise ModelFolderError(f"{entry.file}: {name!r} is of type {entry.dtype}, not a float type", AGAIN)
        with safetensors_files.opened(entry.file) as tensors:
            found[f"dense.{rest}" if owner in MATRICES else known] = safetensors_files.read_tensor(
                tensors, name, entry.file
            )
    if "dense.weight" not in found and not has_head(folder):
        raise ModelFolderError(
            f"{folder.path} has no head of a fine-tuned model", "Fine-tune it first: bertkit finetune."
        )
    return found


def _shape(folder: ModelFolder, tensors: Mapping[str, Tensor]) -> HeadShape:
    if "head" in folder.manifest:
        with _explained(folder):
            return HeadShape.from_json(folder.manifest["head"])
    if folder.family.task:
        return HeadShape(reads="next", outputs=0)
    of_text = "last" if folder.config.heads.sequence == "last" else "text"
    reads = "tokens" if folder.task in ("tag", "qa") else of_text
    return HeadShape(reads=reads, outputs=len(tensors["dense.weight"]))


@contextmanager
def _explained(folder: ModelFolder) -> Iterator[None]:
    """What bertkit.json says wrongly is told with its file."""
    try:
        yield
    except BertkitError as problem:
        raise ModelFolderError(f"{folder.path / MANIFEST}: {problem.problem}", AGAIN) from None


def _require_different(file: Path, labels: Sequence[str]) -> None:
    first: dict[str, int] = {}
    for number, label in enumerate(labels):
        if (before := first.setdefault(label, number)) != number:
            raise ModelFolderError(
                f"{file}: the labels {before} and {number} are both called {shortened(label)}",
                "Give each a name of its own.",
            )


def _labels(folder: ModelFolder, count: int) -> list[str]:
    named = folder.raw_config.get("id2label") or {}
    if isinstance(named, list):  # as people write it by hand
        named = {str(number): label for number, label in enumerate(named)}
    if not isinstance(named, dict):
        raise ModelFolderError(
            f"{folder.path / 'config.json'}: id2label is {shortened(named)}",
            'It must have a name for each number: {"0": "bad", "1": "good"}.',
        )
    return [str(named.get(str(number), f"LABEL_{number}")) for number in range(count)]


def _task(folder: ModelFolder, shape: HeadShape) -> Task[Any]:
    """As bertkit.json says, or as config.json of others lets know."""
    if "task_facts" in folder.manifest:
        return _kept_task(folder, shape)
    config, length = folder.raw_config, folder.config.max_length
    if folder.family.task:
        room = folder.config.decoder.max_length
        return task_from(task_called(folder.family.task), {"max_length": length, "most": min(64, room), "room": room})
    labels = _labels(folder, shape.outputs)
    several = config.get("problem_type") == "multi_label_classification"
    if folder.task == "classify" and (config.get("problem_type") == "regression" or shape.outputs == 1) and not several:
        if shape.outputs > 1:
            raise ModelFolderError(
                f"{folder.path} gives {shape.outputs} numbers for a text", "Only models that give one can be used."
            )
        return task_from(task_called("regress"), {"max_length": length})
    if folder.task in ("classify", "tag"):
        _require_different(folder.path / "config.json", labels)
    if folder.task == "classify":
        return task_from(task_called("classify"), {"classes": labels, "max_length": length, "multi_label": several})
    if folder.task == "tag":
        return task_from(task_called("tag"), {"tags": labels, "max_length": length})
    if folder.task in ("qa", "choice"):
        return task_from(task_called(folder.task), {"max_length": length})
    raise ModelFolderError(
        f"{folder.path} is for {folder.task!r}, not a fine-tuned model", "Fine-tune it first: bertkit finetune."
    )


def _kept_task(folder: ModelFolder, shape: HeadShape) -> Task[Any]:
    """As bertkit.json says, if it agrees with itself and with the model."""
    with _explained(folder):
        task = task_from(task_called(folder.task), folder.manifest["task_facts"])
    file, wanted = folder.path / MANIFEST, task.head.shape
    _require_different(file, task.head.labels)
    if not SHORTEST <= task.max_length <= folder.config.max_length:
        raise ModelFolderError(
            f"{file}: the task reads {task.max_length} tokens, and the model at most {folder.config.max_length}", AGAIN
        )
    if _said(shape) != _said(wanted):
        raise ModelFolderError(
            f"{file}: a head with {_said(shape)} is not that of {task.name} with {_said(wanted)}", AGAIN
        )
    return task


def _said(head: HeadShape) -> str:
    """Of a head what a task decides; mixed layers and an LSTM are the user's."""
    return f"{head.outputs} outputs{' for each token' * (head.reads == 'tokens')}{' and a CRF' * head.crf}"


def rewrite(
    folder: ModelFolder,
    out: Path,
    to: str,
    *,
    provenance: Mapping[str, Any],
    shard_bytes: int | None,
    overwrite: bool,
    tell: Callable[[str], None],
) -> tuple[int, str]:
    """A folder written anew: all that it holds, or the parts that one class of transformers has.

    `to` is bertkit, or a class of transformers. Returns how many parameters were read, and for which class or
    program it is written; `tell` is given what a careful reader would want to know."""
    tokenizer, settings = folder.tokenizer(), folder.sentence_settings
    beside = files_there(folder.path)
    if not beside and settings.pooling in POOLINGS:
        beside = sentence_files(settings, folder.config.hidden_size, folder.config.max_length)
    if to == "bertkit" and has_head(folder):
        model, task = load_fine_tuned(folder)
        save_fine_tuned(
            out,
            model,
            task,
            tokenizer,
            metrics=folder.manifest.get("metrics", {}),
            provenance=provenance,
            columns=columns_of(folder),
            files=beside,
            shard_bytes=shard_bytes,
            overwrite=overwrite,
        )
        return sum(each.numel() for each in model.parameters()), to
    loaded, notes = load_model(folder)
    for message in notes:
        tell(message)
    written = to if to == "bertkit" else class_for(folder.config, to)
    save_model(
        out,
        loaded,
        tokenizer,
        provenance=provenance,
        sentence_settings=settings,
        files=beside,
        architecture=None if to == "bertkit" else written,
        shard_bytes=shard_bytes,
        manifest=to == "bertkit",
        overwrite=overwrite,
    )
    return loaded.parameter_count(), written
