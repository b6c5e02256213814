"""`bertkit info`: what a model folder or a prepared corpus is, or what this machine can do."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bertkit.cli.options import emit, for_people
from bertkit.errors import visible
from bertkit.settings import Settings, argument

MANIFEST, WORK = "corpus.json", "work/bertkit.lock"  # of a prepared corpus, and of one that is not finished


@dataclass(frozen=True, kw_only=True)
class Info(Settings):
    model: str | None = argument(None, "A model folder, hub name or corpus folder. Without it: this machine.")


def info(asked: Info) -> None:
    """Say what a model or corpus folder is, or what this machine can do.

    Of a model: family, sizes, parameters, vocabulary, task, where it came from, hashes. Of a corpus: what was read,
    cleaned, left out and kept, with lengths and samples. Every file is read and, where the folder lists hashes,
    compared with them.
    """
    model = asked.model
    if model is not None and (Path(model, MANIFEST).exists() or Path(model, WORK).exists()):
        from bertkit.cli.corpus_report import show_corpus
        from bertkit.corpus.folder import CorpusFolder

        show_corpus(CorpusFolder(model))
        return
    facts = machine_facts() if model is None else folder_facts(model)
    if for_people():
        _show(facts)
    else:
        emit(facts)


def machine_facts() -> dict[str, Any]:
    import bertkit
    from bertkit import device

    exact, fastest = device.choose(), device.choose(precision="auto")
    facts = {"bertkit": bertkit.__version__, **device.describe(exact)}
    return {**facts, "fastest precision": fastest.precision, "amx": fastest.amx}


def folder_facts(model: str) -> dict[str, Any]:
    """What every command would refuse is refused here too: the folder is opened whole, and reads a text."""
    from bertkit.files import sha256_of
    from bertkit.hub.fetch import find_folder
    from bertkit.hub.folder import ModelFolder
    from bertkit.hub.safetensors_files import FLOATS, weight_files
    from bertkit.infer.encoder import load_encoder
    from bertkit.infer.predictor import load

    folder = ModelFolder(find_folder(model))
    listed = folder.verify()
    folder.check_names()
    tokenizer, config = folder.tokenizer(), folder.config
    # "1" is read as an id too
    if folder.is_for_a_task or folder.other_heads:
        load(model, device="cpu").encoder.embed("1")
    else:
        load_encoder(model, device="cpu").embed("1")
    names = ("config.json", "tokenizer.json", "tokenizer_config.json", "vocab.txt", "vocab.json", "merges.txt")
    files = [file for name in names if (file := folder.path / name).exists()] + weight_files(folder.path)
    return {
        "folder": str(Path(model)),
        "family": config.family,
        "architecture": folder.architecture,
        "task": folder.task,
        "parts": ", ".join(["encoder", *(folder.part_name(part) for part, there in folder.parts.items() if there)]),
        "task_heads": ", ".join(folder.other_heads) or "none",
        "layers": config.num_hidden_layers,
        "hidden_size": config.hidden_size,
        **_of_attention(config),
        "max_length": config.max_length,
        "parameters": folder.parameters,
        "stored_as": ", ".join(sorted({entry.dtype for entry in folder.tensors.values()} & set(FLOATS))),
        "vocabulary": tokenizer.vocab_size,
        "casing": {True: "uncased", False: "cased", None: "not said"}[tokenizer.lowercase],
        "provenance": folder.manifest.get("provenance") or "not made by bertkit",
        "metrics": folder.manifest.get("metrics") or {},
        "verified": bool(listed),
        "sha256": listed or {file.name: sha256_of(file) for file in files},
    }


def _of_attention(config: Any) -> dict[str, Any]:
    if not config.num_attention_heads:
        return {}
    return {
        "heads": config.num_attention_heads,
        "intermediate_size": config.intermediate_size,
        "activation": config.hidden_act,
        "norm": "pre-norm" if config.pre_norm else "post-norm",
        "attention": "left to right" if config.causal else "both ways",
    }


def _show(facts: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts.items():
        if isinstance(value, dict):
            lines = [visible(f"{key}  {inner}") for key, inner in value.items()] or ["none"]
            shown = "\n".join(lines)
        elif isinstance(value, bool):
            shown = "yes: every file is as it was written" if value else "no: the folder lists no hashes"
        else:
            shown = f"{value:,}" if isinstance(value, int) else visible(str(value))
        table.add_row(name.replace("_", " "), Text(shown))
    Console().print(table)
