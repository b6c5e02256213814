"""A fine-tuned model in a model folder: the head's tensors under the names transformers has for them, the labels in
config.json, and in bertkit.json all that the task has to know.

What transformers has no place for (a CRF, an LSTM, a mix of layers) is kept under names of our own. A model with a CRF
or a mix opens there, but without it; one with an LSTM does not, for its head is as wide as the LSTM. A left-to-right
BERT for whole texts opens, and there its head would read [CLS].
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from bertkit.config import GPTS
from bertkit.errors import ModelFolderError, shortened
from bertkit.interop import safetensors_files
from bertkit.interop.families import class_for
from bertkit.interop.folder import ModelFolder
from bertkit.interop.sentence_transformers import SentenceSettings, sentence_files
from bertkit.interop.weights import SavedHead, load_model, save_model
from bertkit.model.fine_tuned import FineTuned, HeadShape, needs_pooler
from bertkit.tasks import task_called
from bertkit.tasks.task import Task
from bertkit.text.tokenizer import Tokenizer

MATRICES = ("classifier", "qa_outputs")


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
    overwrite: bool = False,
) -> None:
    """`columns` are those of the training data; `files` are put beside: a report, a picture."""
    tensors = {name.replace("dense.", f"{task.head_name}."): tensor for name, tensor in model.head_tensors().items()}
    config: dict[str, Any] = {}
    if task.labels:
        config["id2label"] = {str(number): label for number, label in enumerate(task.labels)}
        config["label2id"] = {label: number for number, label in enumerate(task.labels)}
    elif class_for(model.bert.config, task.architecture).endswith("ForSequenceClassification"):
        config["num_labels"] = model.shape.outputs
    if task.problem_type is not None:
        config["problem_type"] = task.problem_type
    sentence_settings, beside = None, dict(files or {})
    if model.shape.reads == "mean":
        sentence_settings = SentenceSettings("mean", normalize=True)
        beside.update(sentence_files(model.bert.config.hidden_size, task.max_length))
    head = SavedHead(
        architecture=task.architecture,
        pooler=needs_pooler(model.bert.config, model.shape.reads),
        tensors=tensors,
        config=config,
        facts={
            "task": task.name,
            "labels": list(task.labels) or None,
            "task_facts": task.facts(),
            "head": model.shape.to_json(),
            "columns": dict(columns or {}),
        },
        files=beside,
    )
    save_model(
        path,
        model.bert,
        tokenizer,
        head=head,
        metrics=metrics,
        provenance=provenance,
        sentence_settings=sentence_settings,
        overwrite=overwrite,
    )


def load_fine_tuned(folder: ModelFolder) -> LoadedTask:
    """The model of a folder that was fine-tuned, by bertkit or others, in evaluation mode."""
    bert, _ = load_model(folder)
    tensors = _head_tensors(folder)
    shape = _shape(folder, tensors)
    task = _task(folder, shape)
    bert.mlm = bert.nsp = bert.rtd = None
    if not needs_pooler(bert.config, shape.reads):
        bert.pooler = None
    model = FineTuned(bert, shape)
    expected = model.head_tensors()
    for name in expected.keys() | tensors.keys():
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
    model.load_state_dict({**{f"bert.{k}": v for k, v in bert.state_dict().items()}, **tensors}, assign=True)
    return LoadedTask(model.eval(), task)


def columns_of(folder: ModelFolder) -> dict[str, str]:
    """In which columns the training data had the parts of an example; older folders and those of others do not say."""
    kept = folder.manifest.get("columns")
    return {str(part): str(name) for part, name in kept.items()} if isinstance(kept, dict) else {}


def _head_tensors(folder: ModelFolder) -> dict[str, Tensor]:
    """Under our names."""
    found: dict[str, Tensor] = {}
    for name, entry in folder.tensors.items():
        known = folder.family.canonical(name)
        if known is None or known in folder.sources:
            continue
        owner, _, rest = known.partition(".")
        with safetensors_files.opened(entry.file) as tensors:
            found[f"dense.{rest}" if owner in MATRICES else known] = safetensors_files.read_tensor(
                tensors, name, entry.file
            )
    if "dense.weight" not in found and not folder.gives_sentence_cosines:
        raise ModelFolderError(
            f"{folder.path} has no head of a fine-tuned model", "Fine-tune it first: bertkit finetune."
        )
    return found


def _shape(folder: ModelFolder, tensors: Mapping[str, Tensor]) -> HeadShape:
    if head := folder.manifest.get("head"):
        return HeadShape.from_json(head)
    of_text = "last" if folder.config.family in GPTS else "text"
    reads = "tokens" if folder.task in ("tag", "qa") else of_text
    return HeadShape(reads=reads, outputs=len(tensors["dense.weight"]))


def _require_different(folder: ModelFolder, labels: Sequence[str]) -> None:
    first: dict[str, int] = {}
    for number, label in enumerate(labels):
        if (before := first.setdefault(label, number)) != number:
            raise ModelFolderError(
                f"{folder.path / 'config.json'}: the labels {before} and {number} are both called {label!r}",
                "Give each a name of its own in id2label.",
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
        return task_called(folder.task).from_facts(folder.manifest["task_facts"])
    config, length = folder.raw_config, folder.config.max_length
    labels = _labels(folder, shape.outputs)
    several = config.get("problem_type") == "multi_label_classification"
    if folder.task == "classify" and (config.get("problem_type") == "regression" or shape.outputs == 1) and not several:
        if shape.outputs > 1:
            raise ModelFolderError(
                f"{folder.path} gives {shape.outputs} numbers for a text", "Only models that give one can be used."
            )
        return task_called("regress").from_facts({"max_length": length})
    if folder.task in ("classify", "tag"):
        _require_different(folder, labels)
    if folder.task == "classify":
        return task_called("classify").from_facts({"classes": labels, "max_length": length, "multi_label": several})
    if folder.task == "tag":
        return task_called("tag").from_facts({"tags": labels, "max_length": length})
    if folder.task in ("qa", "choice"):
        return task_called(folder.task).from_facts({"max_length": length})
    raise ModelFolderError(f"{folder.path} is for {folder.task!r}, not a fine-tuned model")
