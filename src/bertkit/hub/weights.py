"""A model folder's weights into a network, and back, without losing or inventing a number."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

import bertkit
from bertkit.errors import ModelFolderError, UsageError
from bertkit.families import class_for, classes, family_of, suffix_of
from bertkit.families.names import join
from bertkit.files import AGAIN, atomic_folder, to_json, write_hashes
from bertkit.hub import safetensors_files
from bertkit.hub.folder import PARTS, ModelFolder, Source, task_for
from bertkit.hub.huggingface import config_to_huggingface
from bertkit.hub.manifest import FORMAT, MANIFEST
from bertkit.hub.safetensors_files import FLOATS
from bertkit.hub.sentence_transformers import SentenceSettings
from bertkit.nn.network import Network
from bertkit.nn.protocols import SaysWords
from bertkit.tensors import save_tensors
from bertkit.text.tokenizer import Tokenizer


class SavedHead(NamedTuple):
    """The head of a fine-tuned model, as it is written beside its BERT."""

    architecture: str
    """Nothing: the network itself is what is wanted of it."""
    pooler: bool
    tensors: Mapping[str, Tensor]
    """Under the names of transformers."""
    config: Mapping[str, Any]
    """More keys for config.json."""
    facts: Mapping[str, Any]
    """For bertkit.json."""


class Loaded(NamedTuple):
    model: Network
    notes: list[str]
    """What a careful reader would want to be told: parts dropped, numbers filled in."""


def load_model(folder: ModelFolder) -> Loaded:
    """The folder's network, in float32 and evaluation mode, with exactly the parts its weights have."""
    folder.verify()
    folder.check_names()
    sources, parts, names = folder.sources, folder.parts, folder.files
    model = folder.family.without_weights(folder.config, **parts, tied=names.decoder not in sources)
    _check_shapes(folder, sources, model)
    notes: list[str] = []
    if folder.other_heads:
        notes.append(f"the head of a fine-tuned model was left out: {', '.join(folder.other_heads)}")
    theirs = _read(sources, names.bias, notes)
    if parts["mlm"] and names.bias is not None and names.bias not in theirs:
        theirs[names.bias] = torch.zeros(folder.config.vocab_size)
        notes.append("the masked-word head has no bias; zeros are used")
    if names.decoder in theirs:
        if torch.equal(theirs[names.decoder], theirs[names.embedding]):
            model = folder.family.without_weights(folder.config, **parts)
        else:
            notes.append("the masked-word head has an output matrix of its own, not tied to the word embedding")
    ours = model.state_dict()
    for row in names.table(folder.config):
        if row.ours in ours:
            # ModernBERT's masked-word head begins with the same tensors as its pooler
            shared = row.ours.startswith("pooler.")
            its = (theirs[name].clone() if shared else theirs.pop(name) for name in row.theirs)
            ours[row.ours] = join(its, transposed=row.transposed)
    model.load_state_dict(ours, assign=True)
    if model.spells:
        model.meet(folder.tokenizer())
    return Loaded(model.eval(), notes)


def architecture_of(model: Network) -> str:
    """The class of transformers that has the parts this model has; for the pooler alone no class is chosen."""
    files = family_of(model.config).files_for(model.config)
    if files.whole:
        fills = SaysWords in model.abilities and not model.reader.causal
        return class_for(model.config, "ForMaskedLM" if fills else "Model")
    there = {part for part in PARTS if part != "pooler" and getattr(model, part) is not None}
    for suffix, parts in files.classes.items():
        if there == set(parts) - {"pooler"}:
            return class_for(model.config, suffix)
    raise UsageError(
        f"transformers has no class for {model.config.family} with {' and '.join(sorted(there))}",
        "Name one with fewer parts, such as BertModel.",
    )


def save_model(
    path: Path,
    model: Network,
    tokenizer: Tokenizer,
    *,
    provenance: Mapping[str, Any] | None = None,
    metrics: Mapping[str, float] | None = None,
    sentence_settings: SentenceSettings | None = None,
    files: Mapping[str, str | bytes] | None = None,
    architecture: str | None = None,
    head: SavedHead | None = None,
    shard_bytes: int | None = None,
    manifest: bool = True,
    overwrite: bool = False,
) -> None:
    """Write a model folder, all of it or nothing.

    `architecture`, one of families.classes(), picks the Hugging Face class to write for, and with it the parts (for a
    pre-norm model, BertForMaskedLM means MegatronBertForMaskedLM); `shard_bytes` splits the weights into files of at
    most that size; without `manifest` the folder is plain Hugging Face.
    """
    parts = None
    if architecture is not None:
        architecture = class_for(model.config, architecture)
        parts = _parts_of(model, architecture)
    if head is not None:
        parts = ("pooler",) if head.pooler else ()
        if head.architecture:
            architecture = class_for(model.config, head.architecture)
        else:  # of those that the network has
            parts, architecture = None, architecture_of(model)
    architecture = architecture or architecture_of(model)
    tensors = _named_for(model, architecture, parts)
    if head is not None:
        beside = {name: tensor.detach().to("cpu").contiguous() for name, tensor in head.tensors.items()}
        names, suffix = family_of(model.config).files_for(model.config), suffix_of(architecture)
        tensors.update({names.as_written(name, suffix): tensor for name, tensor in beside.items()})
    with atomic_folder(path, overwrite=overwrite) as folder:
        config = config_to_huggingface(model.config, architecture, tied=getattr(model, "tied", True))
        if model.config.heads.sequence == "last":  # transformers has its own unless they are said
            ids = {role: tokenizer.backend.token_to_id(tokenizer.specials.get(role, "")) for role in ("bos", "eos")}
            config |= {f"{role}_token_id": number for role, number in ids.items()}
        if head is not None:
            config.update(head.config)
        for name, content in (files or {}).items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
        (folder / "config.json").write_text(to_json(config), encoding="utf-8")
        tokenizer.save(folder)
        _write_tensors(folder, tensors, shard_bytes)
        if manifest:
            encoding = (sentence_settings or SentenceSettings())._asdict()
            facts = {
                **_facts_of(model, architecture),
                "encoding": {"max_length": model.config.max_length, "lowercase": tokenizer.lowercase, **encoding},
                "metrics": dict(metrics or {}),
                "provenance": {"bertkit": bertkit.__version__, "torch": str(torch.__version__), **(provenance or {})},
                **(head.facts if head is not None else {}),
            }
            write_hashes(folder, facts, MANIFEST, seal=True)


def _facts_of(model: Network, architecture: str) -> dict[str, Any]:
    task = task_for(model.config, architecture)
    return {"format": FORMAT, "family": model.config.family, "task": task, "labels": None}


def _parts_of(model: Network, architecture: str) -> tuple[str, ...]:
    """Those that a class of transformers has, if the model has them."""
    if family_of(model.config).files_for(model.config).whole and architecture not in classes():
        raise UsageError(f"transformers has no class for this {family_of(model.config).title}", "Leave `to` out.")
    if architecture not in (known := classes()):
        raise UsageError(f"there is no {architecture}", f"It can be saved as {architecture_of(model)}.")
    if lacking := [part for part in known[architecture] if getattr(model, part) is None]:
        raise UsageError(
            f"this model has no {' and no '.join(PARTS[part] for part in lacking)}, and {architecture} does",
            f"It can be saved as {architecture_of(model)}.",
        )
    return known[architecture]


def _check_shapes(folder: ModelFolder, sources: Mapping[str, list[Source]], model: Network) -> None:
    shapes = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    for row in folder.files.table(folder.config):
        if row.ours not in shapes:
            continue
        first, *rest = reversed(shapes[row.ours]) if row.transposed else shapes[row.ours]
        expected = (first // len(row.theirs), *rest)
        for canonical in row.theirs:
            for name, entry in sources.get(canonical, []):
                if entry.dtype not in FLOATS:
                    raise ModelFolderError(f"{entry.file}: {name!r} is of type {entry.dtype}, not a float type", AGAIN)
                if entry.shape != expected:
                    raise ModelFolderError(
                        f"{entry.file}: {name!r} is {_times(entry.shape)}, and by config.json it is {_times(expected)}",
                        "Config and weights do not belong together: bring the files that do.",
                    )


def _read(sources: Mapping[str, list[Source]], bias: str | None, notes: list[str]) -> dict[str, Tensor]:
    """Read every tensor once, file by file. Two that claim one name must be equal; but of the masked-word head's bias
    that of the output layer counts, as in transformers, which computes with it."""
    theirs: dict[str, Tensor] = {}
    by_file: dict[Path, list[tuple[str, str]]] = {}
    for canonical, claims in sources.items():
        for name, entry in claims:
            by_file.setdefault(entry.file, []).append((canonical, name))
    for file, names in by_file.items():
        with safetensors_files.opened(file) as tensors:
            for canonical, name in names:
                tensor = safetensors_files.read_tensor(tensors, name, file)
                if canonical in theirs and not torch.equal(theirs[canonical], tensor):
                    both = " and ".join(repr(claim) for claim, _ in sources[canonical])
                    if canonical != bias:
                        raise ModelFolderError(f"{file}: {both} should be one tensor and differ", AGAIN)
                    notes.append(f"{both} should be one tensor and differ; that of the decoder is used")
                    if not name.endswith("decoder.bias"):
                        continue
                theirs[canonical] = tensor
    return theirs


def _named_for(model: Network, architecture: str, parts: tuple[str, ...] | None) -> dict[str, Tensor]:
    """The model's tensors (of `parts` only, if given) under the keys that the Hugging Face class has."""
    names = family_of(model.config).files_for(model.config)
    if parts is None:  # all that the family has a place for
        parts = tuple({part for its in names.classes.values() for part in its})
    ours = {
        name: tensor.detach().to("cpu")
        for name, tensor in model.state_dict().items()
        if names.whole or name.startswith(("encoder.", *(f"{part}." for part in parts)))
    }
    theirs = names.to_theirs(ours, model.config)
    if names.decoder in theirs and names.bias is not None:
        # an untied decoder is a whole linear layer there, with the bias a second time
        theirs[names.decoder.replace("weight", "bias")] = theirs[names.bias].clone()
    return {names.as_written(name, suffix_of(architecture)): tensor for name, tensor in theirs.items()}


def _write_tensors(folder: Path, tensors: dict[str, Tensor], shard_bytes: int | None) -> None:
    shards: list[dict[str, Tensor]] = [{}]
    filled = 0
    for name, tensor in tensors.items():
        size = tensor.numel() * tensor.element_size()
        if shard_bytes is not None and shards[-1] and filled + size > shard_bytes:
            shards.append({})
            filled = 0
        shards[-1][name] = tensor
        filled += size
    if len(shards) == 1:
        save_tensors(tensors, folder / safetensors_files.SINGLE)
        return
    weight_map = {}
    for number, shard in enumerate(shards, 1):
        file = f"model-{number:05d}-of-{len(shards):05d}.safetensors"
        save_tensors(shard, folder / file)
        weight_map.update(dict.fromkeys(shard, file))
    total = sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    (folder / safetensors_files.INDEX).write_text(to_json(index), encoding="utf-8")


def _times(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape)) or "a single number"
