"""Vectors of other programs as a folder of ours, and ours for other programs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers

from bertkit.errors import InputError, ModelFolderError, UsageError, shortened
from bertkit.families.vectors import VectorsConfig
from bertkit.files import AGAIN, atomic_folder, read_json, read_json_value, refuse_to_replace, sha256_of, to_json
from bertkit.hub.folder import require_place
from bertkit.text import FORMS, WORDPIECE, Tokenizer, frame, require_bounded
from bertkit.words.folder import Opened, save_words
from bertkit.words.formats import FORMATS, read_vectors, write_vectors
from bertkit.words.splitting import cutter

Array = np.ndarray[Any, Any]
TENSORS = ("embeddings", "embedding.weight")
"""As model2vec and as StaticEmbedding call the table."""


def import_words(
    source: Path, out: Path, *, limit: int | None = None, cased: bool | None = None, half: bool = False, overwrite: bool
) -> dict[str, Any]:
    """A folder of vectors from a file of word2vec, GloVe, fastText or gensim, or from a folder of model2vec or
    sentence-transformers' StaticEmbedding; what there is to tell of it."""
    require_place(out, overwrite=overwrite, read=[source])
    if source.is_dir():
        return _import_static(source, out, overwrite=overwrite)
    words, vectors = read_vectors(source, limit=limit)
    if not words:
        raise InputError(f"{source} holds no words", "Name a file with vectors.")
    special = {*FORMS["words"].specials.values()} & {*words}
    if special:
        keep = [row for row, word in enumerate(words) if word not in special]
        words, vectors = [words[row] for row in keep], vectors[keep]
    if cased is None:
        cased = any(word != word.lower() for word in words)
    table = np.concatenate([np.zeros((len(FORMS["words"].specials), vectors.shape[1]), np.float32), vectors])
    provenance = {"imported_from": source.name, "sha256": sha256_of(source)}
    save_words(
        out, words, table, method="imported", lowercase=not cased, provenance=provenance, half=half, overwrite=overwrite
    )
    return {
        "words": len(words),
        "dimension": vectors.shape[1],
        "cased": cased,
        "never_found": never_found(words, lowercase=not cased),
    }


def never_found(words: Sequence[str], *, lowercase: bool) -> int:
    """How many words hold something at which texts are cut, so that tasks never come to them."""
    backend = cutter(lowercase=lowercase)
    cut = backend.pre_tokenizer.pre_tokenize_str
    return sum(not word.isalnum() and " " not in word and len(cut(word)) != 1 for word in words)


def _import_static(source: Path, out: Path, *, overwrite: bool) -> dict[str, Any]:
    import torch
    from safetensors import SafetensorError, safe_open

    from bertkit.families import family_called
    from bertkit.hub.weights import save_model

    home = _home_of(source)
    try:
        with safe_open(home / "model.safetensors", "numpy") as file:
            name = next((name for name in TENSORS if name in file.keys()), None)  # noqa: SIM118 it is no mapping
            if name is None:
                raise ModelFolderError(f"{home / 'model.safetensors'} has neither {' nor '.join(TENSORS)}", AGAIN)
            vectors = file.get_tensor(name).astype(np.float32)
            if "weights" in file.keys():  # noqa: SIM118
                vectors = vectors * file.get_tensor("weights").astype(np.float32)[:, None]
            if "mapping" in file.keys():  # noqa: SIM118
                vectors = vectors[file.get_tensor("mapping")]
    except (OSError, SafetensorError) as problem:
        raise ModelFolderError(f"{home / 'model.safetensors'}: {problem}", AGAIN) from None
    backend, order = _renumbered(home / "tokenizer.json", len(vectors))
    rows = np.zeros((len(order), vectors.shape[1]), np.float32)
    known: dict[int, int] = {place: old for place, old in enumerate(order) if old is not None}
    rows[np.array(list(known))] = vectors[np.array(list(known.values()))]
    tokenizer = Tokenizer(backend, _form(backend), source=home)
    specials = [backend.token_to_id(token) for token in tokenizer.specials.values()]
    rows[np.array(specials)] = 0
    if not np.isfinite(rows).all():
        raise ModelFolderError(f"{home / 'model.safetensors'} has numbers that are not finite", AGAIN)
    config = VectorsConfig(vocab_size=len(rows), hidden_size=rows.shape[1], method="imported")
    network = family_called("vectors").without_weights(config)
    network.load_state_dict({"table.weight": torch.from_numpy(rows)}, assign=True)
    provenance = {"imported_from": source.name, "sha256": sha256_of(home / "model.safetensors")}
    save_model(out, network, tokenizer, provenance=provenance, overwrite=overwrite)
    cased = not tokenizer.lowercase
    return {"words": len(rows) - len(specials), "dimension": rows.shape[1], "cased": cased, "never_found": 0}


def _home_of(source: Path) -> Path:
    """Where the table and the tokenizer lie."""
    if (source / "modules.json").exists():
        modules = read_json_value(source / "modules.json", ModelFolderError)
        kinds = (
            [str(each.get("type", "")) for each in modules if isinstance(each, dict)]
            if isinstance(modules, list)
            else []
        )
        if not kinds or not kinds[0].endswith("StaticEmbedding"):
            raise ModelFolderError(
                f"{source} is made of {', '.join(kind.rpartition('.')[2] for kind in kinds) or 'nothing'}",
                "A table of words is a StaticEmbedding; other models need no import.",
            )
        home = (source / str(modules[0].get("path", ""))).resolve()
        if not home.is_relative_to(source.resolve()):
            raise ModelFolderError(f"{source / 'modules.json'} names {shortened(modules[0]['path'])}", AGAIN)
        return home
    if not (source / "tokenizer.json").exists() or not (source / "model.safetensors").exists():
        raise ModelFolderError(
            f"{source} has no tokenizer.json with model.safetensors",
            "Name a file of vectors, or a folder of model2vec or StaticEmbedding.",
        )
    return source


def _form(backend: tokenizers.Tokenizer) -> Any:
    return WORDPIECE if type(backend.model).__name__ == "WordPiece" else FORMS["words"]


def _renumbered(file: Path, rows: int) -> tuple[tokenizers.Tokenizer, list[int | None]]:
    """The tokenizer with its special tokens first, and of each row of its table the one that it was before."""
    content = read_json(file, ModelFolderError)
    model: Any = content.get("model")
    model = model if isinstance(model, dict) else {}
    vocabulary = model.get("vocab")
    if model.get("type") not in ("WordPiece", "WordLevel") or not isinstance(vocabulary, dict):
        raise ModelFolderError(
            f"{file} is a {model.get('type')} tokenizer", "Of tables of words WordPiece and WordLevel are read."
        )
    if max(vocabulary.values(), default=0) >= rows:
        raise ModelFolderError(f"{file} has the number {max(vocabulary.values())}, and the table {rows} rows", AGAIN)
    form = WORDPIECE if model["type"] == "WordPiece" else FORMS["words"]
    specials = list(dict.fromkeys(form.specials.values()))
    words = [word for word in sorted(vocabulary, key=vocabulary.__getitem__) if word not in specials]
    order = [*specials, *words]
    model["vocab"] = {word: place for place, word in enumerate(order)}
    model["unk_token"] = form.specials["unk"]
    content["added_tokens"] = [
        {"id": place, "content": token, "special": True, "normalized": False}
        | dict.fromkeys(("single_word", "lstrip", "rstrip"), False)
        for place, token in enumerate(specials)
    ]
    content["post_processor"] = content["truncation"] = content["padding"] = None
    require_bounded(content, file)
    try:
        backend = tokenizers.Tokenizer.from_str(json.dumps(content))
    except Exception as problem:  # the library raises bare Exceptions
        raise ModelFolderError(f"{file} is damaged: {problem}", AGAIN) from None
    frame(backend, form, form.specials)
    return backend, [vocabulary.get(word) for word in order]


def export_words(folder: Path, out: Path, kind: str, *, overwrite: bool) -> dict[str, Any]:
    """Ours as a file of another program; or, `static`, as a folder that model2vec and sentence-transformers open."""
    if kind not in FORMATS:
        raise UsageError(f"no format is called {shortened(kind)}", f"There are: {', '.join(FORMATS)}.")
    opened = Opened(folder)
    table = opened.table()
    if kind != "static":
        refuse_to_replace(out, overwrite=overwrite)
        write_vectors(out, opened.words, table, kind)
    else:
        _export_static(opened, table, out, overwrite=overwrite)
    return {"words": len(opened.words), "dimension": table.shape[1], "format": kind, "out": str(out)}


def _export_static(opened: Opened, table: Array, out: Path, *, overwrite: bool) -> None:
    from safetensors.numpy import save_file

    tokenizer = opened.folder.tokenizer()
    backend = tokenizers.Tokenizer.from_str(tokenizer.backend.to_str())
    rows = np.concatenate([np.zeros((opened.special, table.shape[1]), np.float32), table])
    with atomic_folder(out, overwrite=overwrite) as place:
        save_file({"embeddings": rows}, place / "model.safetensors")
        backend.save(str(place / "tokenizer.json"))
        for name, content in _beside(table.shape[1]):
            (place / name).write_text(to_json(content), encoding="utf-8")


def _beside(dimension: int) -> Iterator[tuple[str, Any]]:
    yield (
        "config.json",
        {
            "model_type": "model2vec",
            "architectures": ["StaticModel"],
            "hidden_dim": dimension,
            "normalize": False,
        },
    )
    yield "modules.json", [{"idx": 0, "name": "0", "path": ".", "type": "sentence_transformers.models.StaticEmbedding"}]
    yield (
        "config_sentence_transformers.json",
        {"prompts": {}, "default_prompt_name": None, "similarity_fn_name": "cosine"},
    )
