"""Tokenization equals the reference's BertTokenizerFast, offsets included."""

from __future__ import annotations

import random
import unicodedata
from pathlib import Path

import pytest
from transformers import BertTokenizerFast

from bertkit.text import Tokenizer

# From each stretch of Unicode that has ways of its own to go wrong.
ALPHABETS = {
    "ascii": [chr(c) for c in range(32, 127)],
    "control": [chr(c) for c in [*range(32), *range(127, 160), 0xAD, 0x200B, 0x200E, 0x2028, 0x2029, 0x2060, 0xFEFF]],
    "spaces": list(" \t\n\r\u00a0\u1680\u2003\u202f\u3000"),
    "latin": [chr(c) for c in range(0xC0, 0x250)],
    "combining": [chr(c) for c in range(0x300, 0x370)],
    "greek and cyrillic": [chr(c) for c in range(0x370, 0x530) if unicodedata.category(chr(c)) != "Cn"],
    "hebrew and arabic": [chr(c) for c in range(0x590, 0x700) if unicodedata.category(chr(c)) != "Cn"],
    "indic and thai": [chr(c) for c in range(0x900, 0xE80) if unicodedata.category(chr(c)) != "Cn"],
    "cjk": [chr(c) for c in [*range(0x4E00, 0x4E80), *range(0x9F00, 0x9FD0), *range(0x3400, 0x3440), 0x20000, 0x2A6D0]],
    "kana and hangul": [chr(c) for c in [*range(0x3040, 0x3100), *range(0xAC00, 0xAC80), *range(0x1100, 0x1120)]],
    "fullwidth": [chr(c) for c in [*range(0x3000, 0x3020), *range(0xFF00, 0xFF60)]],
    "emoji": ["😀", "👩‍👩‍👧‍👦", "🏳️‍🌈", "👍🏽", "🇨🇭", "❤️", "1️⃣", "🧑🏿‍🚀"],
    "private and unassigned": ["\ue000", "\uf8ff", "\U000f0000", "\u0378", "\U0001fbff", "\ufffd", "\uffff"],
    "words": ["the", "Tokenization", "running", "don't", "naïve", "CAFÉ", "ǅ", "İstanbul", "straße", "ﬁ", "你好",
              "東京", "[MASK]", "[SEP]", "[cls]", "##ing", "3.14", "e.g.", "http://x.y/z?q=1", "a" * 120],
}  # fmt: skip


def strings(count: int, seed: int) -> list[str]:
    draw = random.Random(seed)
    names = list(ALPHABETS)
    found = []
    for _ in range(count):
        chosen = draw.sample(names, draw.randint(1, 4))
        pieces = [draw.choice(ALPHABETS[draw.choice(chosen)]) for _ in range(draw.randint(0, 24))]
        found.append(draw.choice(["", " "]).join(pieces))
    return found


def as_compared(tokenizer: Tokenizer, reference: BertTokenizerFast, texts: list[str]) -> None:
    expected = reference(texts, return_offsets_mapping=True)
    fast = tokenizer.encode_ids(texts)
    for number, text in enumerate(texts):
        ours = tokenizer.encode(text)
        assert ours.ids == expected["input_ids"][number], text
        assert ours.offsets == expected["offset_mapping"][number], text
        assert ours.segments == expected["token_type_ids"][number], text
        assert ours.words == expected.word_ids(number), text
        assert ours.tokens == expected.tokens(number), text
        assert fast[number] == ours.ids, text


@pytest.fixture(scope="module", params=["uncased", "cased"])
def folder(request, tmp_path_factory, tokenizer: Tokenizer, english: list[str]) -> Path:
    """A folder as older checkpoints are: vocab.txt, and the casing in tokenizer_config.json."""
    from bertkit.text import train_wordpiece

    lowercase = request.param == "uncased"
    extra = [" ".join(ALPHABETS[name]) for name in ALPHABETS if name not in ("control", "private and unassigned")]
    trained = train_wordpiece([*english, *extra * 3], vocab_size=9000, lowercase=lowercase)
    path = tmp_path_factory.mktemp(request.param)
    trained.save(path)
    (path / "tokenizer.json").unlink()
    return path


def test_twenty_thousand_strings_equal_the_reference(folder: Path):
    reference = BertTokenizerFast.from_pretrained(folder)
    as_compared(Tokenizer.open(folder), reference, strings(20_000, seed=1 if reference.do_lower_case else 11))


def test_published_vocabulary_equals_the_reference(minilm: Path):
    reference = BertTokenizerFast.from_pretrained(minilm)
    as_compared(Tokenizer.open(minilm), reference, strings(10_000, seed=2))


def test_pairs_equal_the_reference(folder: Path):
    reference, tokenizer = BertTokenizerFast.from_pretrained(folder), Tokenizer.open(folder)
    texts = strings(400, seed=3)
    for first, second in zip(texts[::2], texts[1::2], strict=True):
        second = second or "."  # the reference takes an empty second text for none; for us it is an empty one
        expected = reference(first, second, return_offsets_mapping=True)
        ours = tokenizer.encode(first, second)
        assert (ours.ids, ours.segments) == (expected["input_ids"], expected["token_type_ids"])
        assert ours.offsets == expected["offset_mapping"]


def test_saved_and_opened_again_is_the_same(folder: Path, tmp_path: Path):
    before = Tokenizer.open(folder)
    before.save(tmp_path)
    after, reference = Tokenizer.open(tmp_path), BertTokenizerFast.from_pretrained(tmp_path)
    assert after.lowercase == before.lowercase
    texts = strings(500, seed=4)
    assert [after.encode(text) for text in texts] == [before.encode(text) for text in texts]
    as_compared(after, reference, texts)


def test_casing_in_tokenizer_config_holds_against_tokenizer_json(tokenizer: Tokenizer, tmp_path: Path):
    tokenizer.save(tmp_path)
    settings = tmp_path / "tokenizer_config.json"
    settings.write_text(settings.read_text().replace('"do_lower_case": true', '"do_lower_case": false'))
    reference, ours = BertTokenizerFast.from_pretrained(tmp_path), Tokenizer.open(tmp_path)
    assert ours.lowercase is False
    as_compared(ours, reference, ["The Quick BROWN fox", "Été à la Mer"])


def test_accents_that_tokenizer_config_leaves_to_casing(tokenizer: Tokenizer, tmp_path: Path):
    tokenizer.save(tmp_path)
    stored = (tmp_path / "tokenizer.json").read_text()
    assert '"strip_accents": null' in stored
    (tmp_path / "tokenizer.json").write_text(stored.replace('"strip_accents": null', '"strip_accents": false'))
    as_compared(Tokenizer.open(tmp_path), BertTokenizerFast.from_pretrained(tmp_path), ["café", "Übung"])


def test_lone_surrogates_are_read_as_the_replacement_character(tokenizer: Tokenizer):
    text = "the \ud83d value \udc00 of"
    assert tokenizer.encode(text) == tokenizer.encode("the \ufffd value \ufffd of")
    assert tokenizer.encode_ids([text]) == [tokenizer.encode(text).ids]


def test_a_word_of_a_megabyte_is_one_unknown(tokenizer: Tokenizer):
    assert tokenizer.encode("x" * 1_000_000).ids == [tokenizer.cls_id, tokenizer.unk_id, tokenizer.sep_id]
