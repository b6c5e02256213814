"""Folders that are incomplete, damaged, contradictory or hostile: one line that says what, where and what to do."""

from __future__ import annotations

import json
import os
import random
import shutil
import struct
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from bertkit import load_encoder
from bertkit.errors import BertkitError, Notice
from commands import bertkit_command
from manifests import manifest_of, write_manifest


@pytest.fixture
def folder(tiny_folder: Path, tmp_path: Path) -> Path:
    """A good folder to spoil, without the hashes that would notice at once."""
    copy = tmp_path / "spoiled"
    shutil.copytree(tiny_folder, copy)
    (copy / "bertkit.json").unlink()
    return copy


def refused(folder: Path, *fragments: str) -> str:
    with pytest.raises(BertkitError) as caught:
        load_encoder(folder)
    message = str(caught.value)
    assert "\n" not in message
    for fragment in fragments:
        assert fragment in message, message
    return message


def set_config(folder: Path, **changes: object) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | changes))


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_missing_file_is_named(folder, name):
    (folder / name).unlink()
    if name == "tokenizer.json":
        (folder / "vocab.txt").unlink()
    refused(folder, str(folder), name)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.99])
def test_a_truncated_file_is_named(folder, name, share):
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content[: int(len(content) * share)])
    refused(folder, str(folder / name))


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_pipe_or_a_folder_in_place_of_a_file_is_not_opened(folder, name):
    (folder / name).unlink()
    os.mkfifo(folder / name)
    refused(folder, "not a regular file")
    (folder / name).unlink()
    (folder / name).mkdir()
    refused(folder, "not a regular file")


HEADERS = {
    "length of zero": struct.pack("<Q", 0),
    "length beyond the file": struct.pack("<Q", 10_000) + b"{}",
    "length of 2**63": struct.pack("<Q", 2**63) + b"{}",
    "only four bytes": b"\x01\x00\x00\x00",
    "not JSON": struct.pack("<Q", 4) + b"oops",
    "not UTF-8": struct.pack("<Q", 2) + b"\xff\xfe",
    "a list": struct.pack("<Q", 2) + b"[]",
    "deep nesting": struct.pack("<Q", 40_000) + b'{"a":' * 8_000,
}
for _name, _entry in {
    "offsets beyond the data": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]},
    "negative shape": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]},
    "shape that overflows": {"dtype": "F32", "shape": [2**40, 2**40], "data_offsets": [0, 4]},
    "shape and size disagree": {"dtype": "F32", "shape": [3], "data_offsets": [0, 4]},
    "unknown type": {"dtype": "F33", "shape": [1], "data_offsets": [0, 4]},
    "offsets the wrong way": {"dtype": "F32", "shape": [1], "data_offsets": [4, 0]},
    "no shape": {"dtype": "F32", "data_offsets": [0, 4]},
    "a hole": {"dtype": "F32", "shape": [0], "data_offsets": [4, 4]},
}.items():
    _text = json.dumps({"bert.pooler.dense.bias": _entry}).encode()
    HEADERS[_name] = struct.pack("<Q", len(_text)) + _text + b"\0\0\0\0"


@pytest.mark.parametrize("name", HEADERS)
def test_a_header_that_lies_is_refused(folder, name):
    (folder / "model.safetensors").write_bytes(HEADERS[name])
    refused(folder, "model.safetensors")


def test_two_thousand_mutated_files_never_crash(folder):
    """Bytes changed in the header, where everything that is believed stands."""
    draw = random.Random(5)
    file = folder / "model.safetensors"
    content = bytearray(file.read_bytes())
    header = 8 + struct.unpack("<Q", content[:8])[0]
    from bertkit.hub import read_headers

    outcomes = {"read": 0, "refused": 0}
    for _ in range(2000):
        mutated = bytearray(content[:header])
        for _ in range(draw.randint(1, 4)):
            mutated[draw.randrange(8, header) if draw.random() < 0.9 else draw.randrange(8)] = draw.randrange(256)
        with file.open("r+b") as raw:
            raw.write(mutated)
        try:
            read_headers(folder)
            outcomes["read"] += 1
        except BertkitError:
            outcomes["refused"] += 1
    assert outcomes["refused"] > 500
    assert outcomes["read"] > 0, "a changed name is no lie by itself"


def test_segments_in_the_weights_that_the_config_denies_are_refused(folder):
    """Left out, they would make all vectors others, and a copy without them could not be mended."""
    set_config(folder, type_vocab_size=0)
    refused(folder, "1 tensors in the weights are no part of this BERT", "token_type_embeddings")


def test_answers_that_are_no_numbers_are_refused_by_every_command(folder, tmp_path):
    """All weights are finite, and what is computed from them is not."""
    tensors = load_file(folder / "model.safetensors")
    for name in tensors:
        if "LayerNorm.weight" in name or "query" in name:
            tensors[name] *= 1e30
    save_file(tensors, folder / "model.safetensors")
    commands: dict[str, tuple[object, ...]] = {
        "embed": ("-t", "a text", "-o", tmp_path / "out.jsonl"),
        "fill-mask": ("a [MASK]",),
        "attention": ("a text", "-o", tmp_path / "out.html"),
        "info": (),
        "embed --level word": ("-t", "a text", "-o", tmp_path / "out.words.jsonl"),
    }
    for command, arguments in commands.items():
        name, *options = command.split()
        done = bertkit_command(name, folder, *arguments, *options)
        assert (done.returncode, done.stdout) == (3, ""), command
        assert "are not finite numbers" in done.stderr
        assert done.stderr.count("\n") == 1
    assert not list(tmp_path.glob("out.*"))


def test_numbers_that_are_not_finite_are_refused(folder):
    tensors = load_file(folder / "model.safetensors")
    name = "bert.encoder.layer.1.output.dense.weight"
    for value in (float("nan"), float("inf")):
        tensors[name][3, 4] = value
        save_file(tensors, folder / "model.safetensors")
        refused(folder, name, "1 of the 65536 numbers", "not finite")


def test_shapes_that_disagree_with_the_config_are_given_both(folder):
    set_config(folder, intermediate_size=256)
    refused(folder, "intermediate.dense.weight", "512 x 128", "256 x 128")


def test_more_layers_than_weights_and_fewer(folder):
    set_config(folder, num_hidden_layers=3)
    refused(folder, "16 tensors that config.json asks for are not in the weights", "layer.2.")
    set_config(folder, num_hidden_layers=1)
    refused(folder, "16 tensors in the weights are no part of this BERT", "layer.1.")


def test_half_a_head_is_refused(folder):
    tensors = load_file(folder / "model.safetensors")
    del tensors["bert.pooler.dense.bias"]
    save_file(tensors, folder / "model.safetensors")
    refused(folder, "1 tensors that config.json asks for", "bert.pooler.dense.bias")


def test_two_names_for_one_tensor_that_differ_are_refused(folder):
    tensors = load_file(folder / "model.safetensors")
    tensors["cls.predictions.transform.dense.beta"] = tensors["cls.predictions.transform.dense.bias"] + 1
    save_file(tensors, folder / "model.safetensors")
    refused(folder, "'cls.predictions.transform.dense.bias'", "'cls.predictions.transform.dense.beta'", "differ")


def test_weights_of_whole_numbers_are_refused(folder):
    tensors = load_file(folder / "model.safetensors")
    tensors["bert.pooler.dense.bias"] = tensors["bert.pooler.dense.bias"].to(torch.int64)
    save_file(tensors, folder / "model.safetensors")
    refused(folder, "type I64, not a float type")


def test_a_vocabulary_of_another_size_is_given_both_values(folder, tokenizer):
    pieces = tokenizer.vocab_size
    (folder / "tokenizer.json").unlink()
    lines = (folder / "vocab.txt").read_text().splitlines()
    (folder / "vocab.txt").write_text("\n".join([*lines, "one", "more"]) + "\n")
    refused(folder, f"{pieces + 2} pieces", f"vocab_size {pieces}")
    (folder / "vocab.txt").write_text("\n".join(lines[:300]) + "\n")
    refused(folder, "300 pieces", f"vocab_size {pieces}")


def test_a_vocabulary_without_a_special_token_is_refused(folder):
    (folder / "tokenizer.json").unlink()
    text = (folder / "vocab.txt").read_text()
    (folder / "vocab.txt").write_text(text.replace("[MASK]\n", "[HIDE]\n"))
    refused(folder, "no '[MASK]'", "mask_token")


def test_a_vocabulary_that_is_not_utf8_is_refused_with_its_line(folder):
    (folder / "tokenizer.json").unlink()
    (folder / "vocab.txt").write_bytes(b"[PAD]\n\xff\n")
    refused(folder, "vocab.txt, line 2: byte 0xff")


def test_a_tokenizer_of_another_kind_is_refused(folder):
    from tokenizers import Tokenizer, models

    Tokenizer(models.BPE()).save(str(folder / "tokenizer.json"))
    refused(folder, "has a BPE tokenizer, and BERT's is WordPiece")


@pytest.mark.parametrize(
    ("changes", "fragment"),
    [
        ({"model_type": "t5"}, "model_type is 't5'"),
        ({"num_hidden_layers": 10**12}, "num_hidden_layers is 1000000000000"),
        ({"hidden_size": -128}, "hidden_size is -128"),
        ({"hidden_size": "128"}, "hidden_size is '128'"),
        ({"vocab_size": 10**9}, "vocab_size is 1000000000"),
    ],
)
def test_a_config_that_cannot_be_is_refused(folder, changes, fragment):
    set_config(folder, **changes)
    refused(folder, str(folder / "config.json"), fragment)


def test_a_bare_bert_that_is_called_a_roberta_is_refused(folder, tmp_path):
    """Names and shapes of its tensors are the same, and its positions would begin elsewhere."""
    from bertkit.hub import ModelFolder, load_model, save_model

    model, tokenizer = load_model(ModelFolder(folder)).model, ModelFolder(folder).tokenizer()
    save_model(tmp_path / "bare", model, tokenizer, architecture="BertModel", manifest=False)
    set_config(tmp_path / "bare", model_type="roberta", pad_token_id=1)
    refused(tmp_path / "bare", "config.json: architectures names BertModel, and model_type is 'roberta'")


def test_keys_that_name_code_run_none(folder):
    set_config(folder, auto_map={"AutoModel": "evil.Model"}, trust_remote_code=True)
    with pytest.warns(Notice, match="passed over: 'trust_remote_code'"):
        load_encoder(folder)
    (folder / "evil.py").write_text("raise SystemExit('ran')")
    config = json.loads((folder / "config.json").read_text())
    del config["trust_remote_code"]
    (folder / "config.json").write_text(json.dumps(config))
    load_encoder(folder)
    assert "evil" not in sys.modules


def test_an_index_that_points_elsewhere_is_refused(folder, tiny, tokenizer):
    from bertkit.hub import save_model

    save_model(folder, tiny, tokenizer, shard_bytes=1_000_000, manifest=False, overwrite=True)
    index = folder / "model.safetensors.index.json"
    good = json.loads(index.read_text())
    shard = sorted(set(good["weight_map"].values()))[0]
    load_encoder(folder)

    for name in ("../secret.safetensors", "/etc/passwd", "sub/x.safetensors", "x.bin"):
        index.write_text(json.dumps({"weight_map": good["weight_map"] | {"bert.pooler.dense.bias": name}}))
        refused(folder, "not a file of that folder")
    index.write_text(json.dumps({"weight_map": good["weight_map"] | {"nothing": shard}}))
    refused(folder, "'nothing'", "not there")
    index.write_text(json.dumps({}))
    refused(folder, "no weight_map")
    index.write_text(json.dumps(good))
    (folder / shard).rename(folder / "elsewhere")
    refused(folder, shard, "named in model.safetensors.index.json")


def test_one_flipped_bit_anywhere_is_found_and_named(tiny_folder, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(tiny_folder, copy)
    draw = random.Random(9)
    for file in sorted(tiny_folder.iterdir()):
        if file.name == "bertkit.json":
            continue
        content = bytearray(file.read_bytes())
        for _ in range(10):
            at, bit = draw.randrange(len(content)), 1 << draw.randrange(8)
            content[at] ^= bit
            (copy / file.name).write_bytes(content)
            message = refused(copy)
            assert file.name in message
            content[at] ^= bit
        shutil.copy(file, copy / file.name)
    load_encoder(copy)


def test_a_manifest_of_the_future_or_with_a_path_is_refused(tiny_folder, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(tiny_folder, copy)
    manifest = manifest_of(copy)
    write_manifest(copy, manifest | {"format": 99})
    refused(copy, "format 99", "reads format 1")
    write_manifest(copy, manifest | {"files": {"../x": "0"}})
    refused(copy, "not in its folder")
    write_manifest(copy, manifest | {"files": None})
    refused(copy, "files is None")


@pytest.mark.parametrize(
    "name", ["no/such/folder", "./nothing", "../x", "/nowhere/at/all", "a b", "x/../y", "", "a\0b"]
)
def test_a_path_that_is_none_is_not_looked_up_on_the_hub(name, tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with pytest.raises(BertkitError, match="no folder"):
        load_encoder(name)


def test_a_file_in_place_of_a_folder_is_named(tiny_folder):
    with pytest.raises(BertkitError, match="is a file"):
        load_encoder(tiny_folder / "config.json")


def test_a_tokenizer_without_its_frame_is_given_one(folder, encoder):
    settings = json.loads((folder / "tokenizer.json").read_text())
    (folder / "tokenizer.json").write_text(json.dumps(settings | {"post_processor": None}))
    assert load_encoder(folder).tokenizer.encode("a text", "pair") == encoder.tokenizer.encode("a text", "pair")


@pytest.mark.parametrize("named", [{"a": 1}, [], None, "BertModel", 3])
def test_architectures_that_are_no_list_do_no_harm(folder, named):
    from bertkit.hub import ModelFolder

    set_config(folder, architectures=named)
    assert ModelFolder(folder).task == "embed"


def test_a_size_that_is_null_is_named(folder):
    set_config(folder, hidden_size=None)
    refused(folder, "hidden_size is None")


def test_pairs_need_two_segments(folder, tokenizer):
    from bertkit.families import bert_tiny
    from bertkit.infer import TextEncoder
    from bertkit.nn import Bert

    one = TextEncoder(Bert(bert_tiny(vocab_size=tokenizer.vocab_size, type_vocab_size=1)), tokenizer)
    with pytest.raises(BertkitError, match="one segment only"):
        one.attention("a", "b")
    with pytest.raises(BertkitError, match="not text"):
        one.attention(5)


def test_a_cut_pair_keeps_its_frame_and_both_texts(encoder):
    maps = encoder.attention("the value " * 300, "an object", truncate=True)
    assert len(maps.tokens) == 512
    assert (maps.tokens[0], maps.tokens[-1], maps.tokens.count("[SEP]")) == ("[CLS]", "[SEP]", 2)
    assert "object" in maps.tokens
    assert encoder.attention("the value " * 300, truncate=True).tokens[-1] == "[SEP]"
