"""A stranger's tokenizer: what it asks for is bounded before any of it runs, and what cannot be read is said."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from bertkit import load_encoder
from bertkit.errors import BertkitError, InputError, TokenizerError
from bertkit.nn import Bert
from bertkit.text import Tokenizer, require_bounded, without_panic


@pytest.fixture
def folder(tiny_folder: Path, tmp_path: Path) -> Path:
    copy = tmp_path / "spoiled"
    shutil.copytree(tiny_folder, copy, ignore=shutil.ignore_patterns("bertkit.json"))
    return copy


def change(folder: Path, how: Callable[[dict[str, Any]], object]) -> None:
    parts = json.loads((folder / "tokenizer.json").read_text())
    how(parts)
    (folder / "tokenizer.json").write_text(json.dumps(parts))


def refused(folder: Path, *fragments: str) -> None:
    with pytest.raises(BertkitError) as caught:
        load_encoder(folder)
    message = str(caught.value)
    assert caught.value.remedy
    assert len(message.replace(str(folder), "")) < 300
    for fragment in fragments:
        assert fragment in message, message


def replace(pattern: dict[str, str], content: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": pattern, "content": content}


def split(regex: str) -> dict[str, Any]:
    return {"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": False}


@pytest.mark.parametrize(
    "regex",
    [
        "(a+)+$",
        "(a|aa)+$",
        "(a|a)*b",
        "(.*)*x",
        r"(\w+)\1+",
        "a*a*a*a*a*b",
        "a{1000}{1000}",
        "(a?){40}a{40}",
        "a?" * 28 + "a" * 28 + "b",
        "(?:a|a)" * 29 + "b",
        "(?x)(a #)\n+)+b",
        r"(?<x>a\g<x>?a?)b",
    ],
)
def test_a_pattern_that_would_try_for_ever_is_refused(folder, regex):
    change(folder, lambda parts: parts.update(pre_tokenizer=split(regex)))
    refused(folder, "pre_tokenizer has a pattern that may take for ever")
    change(folder, lambda parts: parts.update(pre_tokenizer={"type": "Sequence", "pretokenizers": [split(regex)]}))
    refused(folder, "may take for ever")
    change(folder, lambda parts: parts.update(pre_tokenizer=None, normalizer=replace({"Regex": regex}, "")))
    refused(folder, "normalizer has a pattern")


PUBLISHED = [
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)",
    r" ?[^(\s|[.,!?…。，、।۔،])]+",
    " {2,}",
]


@pytest.mark.parametrize("regex", PUBLISHED)
def test_patterns_of_published_tokenizers_are_within_the_bounds(regex):
    require_bounded({"pre_tokenizer": split(regex), "normalizer": replace({"Regex": regex}, " ")}, "here")


def test_replacements_that_multiply_are_refused(folder):
    growing = [replace({"String": "a"}, "a" * 10)] * 10
    change(folder, lambda parts: parts.update(normalizer={"type": "Sequence", "normalizers": growing}))
    refused(folder, "times as long")
    nested: dict[str, Any] = replace({"Regex": ""}, "aa")
    for _ in range(10):
        nested = {"type": "Sequence", "normalizers": [nested, replace({"Regex": ""}, "aa")]}
    change(folder, lambda parts: parts.update(normalizer=nested))
    refused(folder, "times as long")


def test_a_table_of_characters_that_explodes_is_refused(folder):
    import base64

    table = base64.b64encode((0).to_bytes(4, "little") + b"x" * 100_000).decode()
    change(folder, lambda parts: parts.update(normalizer={"type": "Precompiled", "precompiled_charsmap": table}))
    refused(folder, "table of characters")


@pytest.mark.parametrize(
    ("name", "value", "fragment"),
    [
        ("unk_token", "[NOPE]", "unk_token '[NOPE]' is not in its vocabulary"),
        ("max_input_chars_per_word", 10**9, "1,000,000,000 characters"),
        ("vocab", {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "[MASK]": 4_000_000_000}, "4,000,000,000"),
        ("vocab", {"[PAD]": 0, "[UNK]": -1}, "damaged or not a tokenizer"),
        ("vocab", 5, "damaged or not a tokenizer"),
    ],
)
def test_a_model_of_pieces_that_cannot_be_is_refused(folder, name, value, fragment):
    change(folder, lambda parts: parts["model"].update({name: value}))
    refused(folder, "tokenizer.json", fragment)


def test_merges_left_out_by_chance_are_refused():
    with pytest.raises(BertkitError, match="by chance"):
        require_bounded({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": [], "dropout": 0.1}}, "here")


def test_unigrams_without_an_unknown_piece_are_refused():
    with pytest.raises(BertkitError, match="unk_id is None"):
        require_bounded({"model": {"type": "Unigram", "vocab": [["a", -1.0]], "unk_id": None}}, "here")


@pytest.mark.parametrize("segment", [1, 7])
def test_segments_that_a_text_cannot_have_are_refused(folder, segment):
    def with_segment(parts):
        parts["post_processor"]["single"][-1]["SpecialToken"]["type_id"] = segment

    change(folder, with_segment)
    refused(folder, f"segments [0, 1{', 7' * (segment == 7)}]")


def test_a_pair_with_a_segment_beyond_the_model_is_refused(folder):
    def with_segment(parts):
        parts["post_processor"]["pair"][-1]["SpecialToken"]["type_id"] = 7

    change(folder, with_segment)
    refused(folder, "segments [0, 1, 7]")


def test_a_frame_of_a_thousand_texts_is_refused(folder):
    def long(parts):
        parts["post_processor"]["single"] *= 300

    change(folder, long)
    refused(folder, "900 parts around a text")


def only_vocabulary(folder: Path, pieces: list[str]) -> None:
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).unlink()
    (folder / "vocab.txt").write_text("\n".join(pieces) + "\n")


def test_a_vocabulary_without_small_letters_that_would_be_read_as_uncased_is_said(folder):
    pieces = (folder / "vocab.txt").read_text().splitlines()
    upper = [f"UNUSED{n}" if not each.startswith("[") and each.islower() else each for n, each in enumerate(pieces)]
    only_vocabulary(folder, upper)
    refused(folder, "vocab.txt has no small letters", '"do_lower_case": false')
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    assert load_encoder(folder).tokenizer.lowercase is False


def test_a_vocabulary_without_any_letters_of_case_is_read(folder):
    pieces = (folder / "vocab.txt").read_text().splitlines()
    signs = [each if each.startswith("[") else chr(0x4E00 + n) for n, each in enumerate(pieces)]
    only_vocabulary(folder, signs)
    load_encoder(folder)


def test_a_link_to_nothing_is_no_reason_to_read_another_file(folder):
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer.json").symlink_to("nowhere")
    refused(folder, "tokenizer.json does not exist, nor what it links to")


def test_a_pair_for_a_model_with_one_segment_is_refused_by_every_task(tiny: Bert, tokenizer: Tokenizer, tmp_path):
    import copy

    import bertkit
    from bertkit.families import bert_tiny
    from bertkit.hub import save_fine_tuned
    from bertkit.nn import FineTuned
    from bertkit.tasks import Classify, MultipleChoice, Qa

    torch.manual_seed(0)
    one = Bert(bert_tiny(vocab_size=tokenizer.vocab_size, type_vocab_size=1), mlm=False, nsp=False)
    inputs = {"choice": ("a", ["b", "c"]), "classify": ("a", "b"), "qa": ("who?", "you")}
    for task in (Classify(classes=("a", "b")), MultipleChoice(), Qa()):
        model = FineTuned(copy.deepcopy(one), task.head.shape)
        save_fine_tuned(tmp_path / task.name, model, task, tokenizer, metrics={}, provenance={})
        with pytest.raises(InputError, match="one segment only"):
            bertkit.load(tmp_path / task.name)(inputs[task.name])
    assert "label" in bertkit.load(tmp_path / "classify")("a single text")


def test_a_step_that_lengthens_is_there_once(folder):
    steps = [{"type": "ByteLevel"}] * 30
    change(folder, lambda parts: parts.update(normalizer={"type": "Sequence", "normalizers": steps}))
    refused(folder, "the step ByteLevel 30 times")
    step = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    change(
        folder,
        lambda parts: parts.update(normalizer=None, pre_tokenizer={"type": "Sequence", "pretokenizers": [step] * 9}),
    )
    refused(folder, "the step ByteLevel 9 times")


def test_pieces_of_no_length_are_refused(folder):
    change(folder, lambda parts: parts.update(pre_tokenizer={"type": "FixedLength", "length": 0}))
    refused(folder, "pieces of 0 characters")


def test_where_the_library_gives_up_it_is_a_sentence(tokenizer):
    class PanicException(BaseException):
        pass

    with pytest.raises(TokenizerError, match="cannot read this text: 'it broke'"), without_panic("tokenizer.json"):
        raise PanicException("it broke")
    with pytest.raises(KeyboardInterrupt), without_panic("tokenizer.json"):
        raise KeyboardInterrupt
