"""The published files of an ELMo, options.json beside one .hdf5 of weights, as a model folder.

They hold the two ways and what reads characters, but not what words are told by: features, and nothing to go on
training with. Words are what white space parts; they are read by their bytes, so none is unknown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
import torch
from tokenizers import pre_tokenizers

from bertkit.errors import ModelFolderError, UsageError, shortened
from bertkit.families.elmo import CHARACTERS, LONGEST_WORD, ElmoConfig
from bertkit.files import AGAIN, read_json, to_json
from bertkit.tensors import save_tensors
from bertkit.text.kinds import WORDPIECE
from bertkit.text.opening import wordpiece
from bertkit.text.tokenizer import Tokenizer

OPTIONS, CONTINUES = "options.json", "##"
Arrays = Mapping[str, Any]


def published(folder: Path) -> list[Path]:
    """The weights of a folder that holds an ELMo as it was published; none if it does not."""
    return sorted(folder.glob("*.hdf5")) if (folder / OPTIONS).is_file() else []


def as_folder(source: Path, place: Path) -> Path:
    """A model folder at `place` out of the published files in `source`."""
    files = published(source)
    if len(files) != 1:
        raise ModelFolderError(
            f"{source} has {len(files)} files that end in .hdf5",
            "Leave the one that belongs to its options.",
        )
    try:
        import h5py
    except ImportError:
        raise UsageError(f"{files[0]} is HDF5, and h5py is not installed", "pip install 'bertkit[elmo]'") from None
    config = _config(read_json(source / OPTIONS, ModelFolderError), source / OPTIONS)
    try:
        with h5py.File(files[0], "r") as held:
            tensors = _tensors(held, config, files[0])
    except OSError as problem:
        raise ModelFolderError(f"{files[0]} is damaged or no HDF5: {problem}", AGAIN) from None
    place.mkdir()
    said = {name: value for name, value in config.to_json().items() if name != "family"}
    (place / "config.json").write_text(to_json({"model_type": "elmo", **said}), encoding="utf-8")
    save_tensors({f"network.{name}": tensor for name, tensor in tensors.items()}, place / "model.safetensors")
    of_bytes().save(place)
    return place


def of_bytes() -> Tokenizer:
    """White space parts words, and each byte is a token, which says whether a word goes on with it."""
    signs = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokens = [*WORDPIECE.specials.values(), *signs, *(f"{CONTINUES}{sign}" for sign in signs)]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    backend = tokenizers.Tokenizer(wordpiece(vocabulary))
    backend.model.max_input_chars_per_word = 1000
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    backend.add_special_tokens([*WORDPIECE.specials.values()])
    return Tokenizer(backend, WORDPIECE)


def _config(options: Mapping[str, Any], file: Path) -> ElmoConfig:
    lstm, spelt = options.get("lstm"), options.get("char_cnn")
    if not isinstance(lstm, dict) or not isinstance(spelt, dict):
        raise ModelFolderError(f"{file} has no lstm or no char_cnn", "Bring the options.json of an ELMo.")
    for part, name, wanted in (
        (lstm, "use_skip_connections", (True,)),
        (lstm, "proj_clip", (lstm.get("cell_clip"),)),
        (spelt, "activation", ("relu",)),
        (spelt, "max_characters_per_token", (LONGEST_WORD,)),
        (spelt, "n_characters", (CHARACTERS - 1, CHARACTERS)),  # that of training, and of use
    ):
        if part.get(name) not in wanted:
            raise ModelFolderError(
                f"{file}: {name} is {shortened(part.get(name))}, and only {' or '.join(map(repr, wanted))} is known",
                "This is no ELMo as it was published.",
            )
    try:
        return ElmoConfig(
            vocab_size=len(of_bytes().backend.get_vocab()),
            hidden_size=2 * lstm["projection_dim"],
            num_hidden_layers=lstm["n_layers"],
            cell_size=lstm["dim"],
            clip=lstm["cell_clip"],
            character_size=spelt["embedding"]["dim"],
            filters=spelt["filters"],
            highways=spelt["n_highway"],
            hidden_dropout_prob=float(options.get("dropout", 0.1)),
            by_bytes=True,
            says_words=False,
        )
    except (KeyError, TypeError, ValueError) as problem:
        raise ModelFolderError(f"{file}: {problem}", "Bring the options.json of an ELMo.") from None


def _tensors(held: Arrays, config: ElmoConfig, file: Path) -> dict[str, torch.Tensor]:
    way, cell, wide = config.hidden_size // 2, config.cell_size, config.character_size
    found = sum(many for _, many in config.filters)

    def read(name: str, *shape: int) -> Any:
        if name not in held:
            raise ModelFolderError(f"{file} has no {name}", "Bring the weights that belong to the options.")
        array = np.asarray(held[name], np.float32)
        if array.shape != shape:
            raise ModelFolderError(
                f"{file}: {name} is {array.shape}, and by the options it is {shape}",
                "Bring the weights that belong to the options.",
            )
        return array

    characters = read("char_embed", CHARACTERS - 1, wide)
    arrays: dict[str, Any] = {"pieces.characters.weight": np.concatenate([np.zeros((1, wide)), characters])}
    for number, (width, many) in enumerate(config.filters):
        kernel = read(f"CNN/W_cnn_{number}", 1, width, wide, many)
        arrays[f"pieces.filters.{number}.weight"] = kernel[0].transpose(2, 1, 0)
        arrays[f"pieces.filters.{number}.bias"] = read(f"CNN/b_cnn_{number}", many)
    for number in range(config.highways):
        new, old = (f"CNN_high_{number}/{{}}_{part}" for part in ("transform", "carry"))
        # there, the gate says how much is new
        weight = np.concatenate([read(new.format("W"), found, found).T, -read(old.format("W"), found, found).T])
        arrays[f"pieces.highways.{number}.weight"] = weight
        bias = np.concatenate([read(new.format("b"), found), -read(old.format("b"), found)])
        arrays[f"pieces.highways.{number}.bias"] = bias
    arrays["pieces.project.weight"] = read("CNN_proj/W_proj", found, way).T
    arrays["pieces.project.bias"] = read("CNN_proj/b_proj", way)
    for side in range(2):
        for number in range(config.num_hidden_layers):
            there = f"RNN_{side}/RNN/MultiRNNCell/Cell{number}/LSTMCell"
            ours = f"ways.{side}.layers.{number}"
            both = _in_our_order(read(f"{there}/W_0", 2 * way, 4 * cell).T)
            arrays[f"{ours}.weight_ih"], arrays[f"{ours}.weight_hh"] = both[:, :way], both[:, way:]
            bias = _in_our_order(read(f"{there}/B", 4 * cell))
            bias[cell : 2 * cell] += 1  # what TensorFlow adds to what is kept of a cell
            arrays[f"{ours}.bias"] = bias
            arrays[f"{ours}.projection"] = read(f"{there}/W_P_0", cell, way).T
    return {name: torch.from_numpy(np.ascontiguousarray(array, np.float32)) for name, array in arrays.items()}


def _in_our_order(gates: Any) -> Any:
    """Of input, new, kept, output, as TensorFlow has them: input, kept, new, output."""
    enters, new, keeps, leaves = np.split(gates, 4)
    in_order: Sequence[Any] = (enters, keeps, new, leaves)
    return np.concatenate(in_order)
