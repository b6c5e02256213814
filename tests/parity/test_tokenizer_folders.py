"""Tokenizer folders of every family open in transformers, and give the same there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import transformers
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_tokenizer import ALPHABETS, strings
from transformers import AutoTokenizer, OpenAIGPTTokenizer

from bertkit.errors import TokenizerError
from bertkit.families import FAMILIES, vocabulary
from bertkit.text import FORMS, WORDPIECE, Tokenizer, bpe, draw_sample
from bertkit.text.train import train

CHINESE = ["我们喜欢学习自然语言处理。", "注意力机制让模型看到整个句子。", "苹果公司发布了新手机，他吃了一个苹果。"]
MARKS = ["<s>", "</s>", "<mask>", "<pad>", "<unk>", "<|endoftext|>", "[ENT]", "[unused0]", "▁", "``", "''", "Ġ"]
KINDS = [
    (name, cased)
    for name, family in FORMS.items()
    for cased in (False, True)
    if family.kind != "words" and not (family.uncased_only if cased else family.cased_only)
]


@pytest.fixture(scope="module", params=KINDS, ids=lambda kind: f"{kind[0]}-{'cased' if kind[1] else 'uncased'}")
def folder(request, tmp_path_factory, english: list[str]) -> Path:
    family, cased = request.param
    extra = [" ".join(ALPHABETS[name]) for name in ALPHABETS if name not in ("control", "private and unassigned")]
    recipe = vocabulary(
        family,
        vocab_size=6000,
        lowercase=False if cased else None,
        special_tokens=["[ENT]", "[unused0]"],
        words=["widget", "gizmo"],
    )
    path = tmp_path_factory.mktemp(family)
    train(draw_sample([*english, *CHINESE * 3, *extra * 3], hold_out=False), recipe).tokenizer.save(path)
    return path


@pytest.fixture(scope="module")
def both(folder: Path) -> tuple[Tokenizer, AutoTokenizer]:
    return Tokenizer.open(folder), AutoTokenizer.from_pretrained(folder)


def assert_equal(ours: Tokenizer, reference: AutoTokenizer, texts: list[str], pairs: list[str] | None = None) -> None:
    expected = reference(texts, pairs, return_offsets_mapping=True)
    for number, text in enumerate(texts):
        found = ours.encode(text, pairs[number] if pairs else None)
        assert found.ids == expected["input_ids"][number], text
        assert found.offsets == expected["offset_mapping"][number], text
        assert found.tokens == expected.tokens(number), text
        if "token_type_ids" in expected:
            assert found.segments == expected["token_type_ids"][number], text


def test_transformers_opens_it_as_its_family(both):
    ours, reference = both
    assert type(reference) is getattr(transformers, ours.form.tokenizer_class)
    assert len(reference) == ours.vocab_size
    for role, token in ours.specials.items():
        assert getattr(reference, f"{role}_token") == token
        assert getattr(reference, f"{role}_token_id") == ours.backend.token_to_id(token)
    assert set(reference.all_special_tokens) == {*ours.specials.values(), "[ENT]", "[unused0]"}
    assert reference.get_vocab() == ours.backend.get_vocab()


def test_three_thousand_strings_equal_the_reference(both, english):
    ours, reference = both
    odd = strings(2000, seed=21)
    marked = [f"{text[:9]}{mark}{text[9:]} {mark}" for text, mark in zip(odd, MARKS * 40, strict=False)]
    assert_equal(ours, reference, [*odd, *marked, *english[:500], *CHINESE, "widget gizmo", "", " ", "  two  spaces "])


def test_pairs_equal_the_reference(both, english):
    ours, reference = both
    odd = [text or "." for text in strings(1000, seed=22)]
    assert_equal(ours, reference, [*odd[::2], *english[:100]], [*odd[1::2], *english[100:200]])


def test_any_text_equals_the_reference(both):
    ours, reference = both

    @settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.text(st.characters(exclude_categories=("Cs",))))
    def equal(text: str) -> None:
        assert ours.encode(text).ids == reference(text)["input_ids"]

    equal()


def test_what_transformers_saves_opens_here_and_is_the_same(both, tmp_path, english):
    ours, reference = both
    reference.save_pretrained(tmp_path)
    opened = Tokenizer.open(tmp_path)
    assert opened.form == ours.form
    texts = [*english[:200], *strings(300, seed=23)]
    assert [opened.encode(text) for text in texts] == [ours.encode(text) for text in texts]


def test_the_family_is_known_without_its_class(folder: Path, tmp_path: Path):
    (tmp_path / "tokenizer.json").write_bytes((folder / "tokenizer.json").read_bytes())
    assert Tokenizer.open(tmp_path).sha256() == Tokenizer.open(folder).sha256()
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}')
    assert Tokenizer.open(tmp_path).form == Tokenizer.open(folder).form


@pytest.mark.parametrize("family", ["roberta", "gpt2", "albert", "gpt"])
def test_other_families_and_other_kinds_are_refused(family, tmp_path: Path, english):
    train(draw_sample(english[:200]), vocabulary(family, vocab_size=400)).tokenizer.save(tmp_path)
    with pytest.raises(TokenizerError, match="tokenizer, and BERT's is WordPiece"):
        Tokenizer.open(tmp_path, kinds=(WORDPIECE.kind,), reader="BERT")
    settings = json.loads((tmp_path / "tokenizer_config.json").read_text())
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings | {"tokenizer_class": "T5TokenizerFast"}))
    with pytest.raises(TokenizerError, match=f"'T5TokenizerFast'.*{FAMILIES[family].form.tokenizer_class}"):
        Tokenizer.open(tmp_path)


def test_the_vocabulary_is_there_as_the_family_has_it(folder: Path):
    ours = Tokenizer.open(folder)
    names = {file.name for file in folder.iterdir()} - {"tokenizer.json", "tokenizer_config.json"}
    assert names == {"wordpiece": {"vocab.txt"}, "bpe": {"vocab.json", "merges.txt"}, "unigram": set()}[ours.kind]
    if ours.kind == "bpe":
        from tokenizers import models

        vocabulary, merges = models.BPE.read_file(str(folder / "vocab.json"), str(folder / "merges.txt"))
        again = bpe(ours.form, vocabulary, merges)
        word = "functions" if ours.form.word_end else "Ġfunctions"
        assert [token.id for token in again.tokenize(word)] == [token.id for token in ours.backend.model.tokenize(word)]
        assert vocabulary == ours.backend.get_vocab()


def test_a_first_release_of_gpt_opens_and_is_the_same(tmp_path: Path, english):
    """A vocabulary and merges, and no special token but the unknown."""
    learned = train(draw_sample(english, hold_out=False), vocabulary("gpt", vocab_size=2000)).tokenizer
    model = json.loads(learned.backend.to_str())["model"]
    pieces = [piece for piece in model["vocab"] if piece not in FORMS["bpe"].learned_with.values()]
    (tmp_path / "vocab.json").write_text(json.dumps({piece: number for number, piece in enumerate(pieces)}))
    (tmp_path / "merges.txt").write_text("\n".join(["#version: 0.2", *map(" ".join, model["merges"])]) + "\n")
    ours = Tokenizer.open(tmp_path)
    reference = OpenAIGPTTokenizer.from_pretrained(tmp_path)
    assert (ours.form.name, ours.specials, ours.vocab_size) == ("bpe", {"unk": "<unk>"}, len(pieces))
    assert_equal(ours, reference, [*strings(300, seed=23), *english[:300], *CHINESE])
    assert ours.decode(ours.encode("The Module is closed.").ids) == reference.decode(
        reference("The Module is closed.")["input_ids"]
    )
