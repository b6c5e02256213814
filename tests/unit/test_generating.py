"""A left-to-right model writes on: what is drawn, where it ends, and what of it is shown when."""

from __future__ import annotations

import warnings

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import bertkit
from bertkit.errors import InputError, UsageError
from bertkit.families import PRESETS, config_from_json, vocabulary
from bertkit.hub import save_model
from bertkit.infer import Generator, Sampling, Text, TextEncoder, drawn, fraction, generate, prompt_ids, write
from bertkit.nn import Bert
from bertkit.text import Tokenizer, draw_sample, train_wordpiece
from bertkit.text.train import train

PROMPTS = ["The file", "A class definition is an executable statement that", "Names"]
DRAWN = Sampling(max_new_tokens=12, temperature=1.0, seed=5)


@pytest.fixture(scope="module")
def byte_tokenizer(english: list[str]) -> Tokenizer:
    return train(draw_sample(english, hold_out=False), vocabulary("gpt2", vocab_size=600)).tokenizer


@pytest.fixture(scope="module")
def writer(byte_tokenizer: Tokenizer) -> TextEncoder:
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_attention_heads": 2, "max_position_embeddings": 40}
    config = PRESETS["gpt2-tiny"](vocab_size=byte_tokenizer.vocab_size, initializer_range=0.3, **sizes)
    return TextEncoder(Bert(config, pooler=False, nsp=False), byte_tokenizer, name="writer")


def text_after(tokenizer: Tokenizer, prompt: str = "The", *stop: str, most: int = 10_000) -> Text:
    return Text(tokenizer, tokenizer.encode(prompt).ids, end=None, stop=stop, most=most, full=10_000)


def ids_of(tokenizer: Tokenizer, text: str) -> list[int]:
    return tokenizer.encode(text).ids


def test_greedy_takes_the_likeliest_token_of_the_whole_text_so_far(writer):
    ids = prompt_ids(writer, ["The file"])[0]
    ((text,),) = write(writer, ["The file"], Sampling(max_new_tokens=10))
    for number, token in enumerate(text.ids):
        with torch.no_grad():
            scores = writer.model.word_scores(writer.model.encoder(torch.tensor([ids + text.ids[:number]])).last[0, -1])
        assert token == int(scores.argmax())
    assert text.ended == "length"
    assert len(text.ids) == 10


@pytest.mark.parametrize("sampling", [Sampling(max_new_tokens=12), DRAWN, Sampling(max_new_tokens=12, beams=3)])
def test_a_text_is_the_same_whatever_is_written_beside_it(writer, sampling):
    together = write(writer, PROMPTS * 15, sampling)
    for number, prompt in enumerate(PROMPTS):
        alone = write(writer, [prompt], sampling)[0]
        assert together[number] == together[number + 3] == together[-3 + number] == alone


def test_samples_differ_and_the_seed_decides_them(writer):
    several = Sampling(max_new_tokens=12, temperature=1.0, seed=5, samples=40)
    (texts,) = write(writer, ["The file"], several)
    assert len({text.text for text in texts}) > 30
    assert texts[0] == write(writer, ["The file"], DRAWN)[0][0]
    assert write(writer, ["The file"], several) == [texts]
    (others,) = write(writer, ["The file"], Sampling(max_new_tokens=12, temperature=1.0, seed=6, samples=40))
    assert others != texts


def test_tokens_are_drawn_as_often_as_they_are_likely():
    scores = torch.tensor([0.5, 0.0, 0.3, 0.2]).log().repeat(4000, 1)
    tokens = drawn(scores, [fraction(1, sample, 0) for sample in range(4000)])
    shares = torch.bincount(tokens, minlength=4) / 4000
    assert shares[1] == 0
    torch.testing.assert_close(shares, torch.tensor([0.5, 0.0, 0.3, 0.2]), atol=0.03, rtol=0)


@pytest.mark.parametrize("sampling", [Sampling(max_new_tokens=12), DRAWN, Sampling(max_new_tokens=12, beams=2)])
def test_the_pieces_together_are_the_text(writer, sampling):
    pieces = list(generate(writer, PROMPTS, sampling))
    for number, (text,) in enumerate(write(writer, PROMPTS, sampling)):
        its = [piece for piece in pieces if piece.prompt == number]
        assert "".join(piece.text for piece in its) == text.text
        assert [piece.whole for piece in its] == [None] * (len(its) - 1) + [text]


def test_pieces_come_one_by_one_and_leave_torch_as_it_was(writer):
    pieces = generate(writer, ["The file"], Sampling(max_new_tokens=12))
    assert next(pieces).whole is None
    assert not torch.is_inference_mode_enabled()


def test_a_stop_string_ends_the_text_before_it_also_across_tokens(writer):
    ((text,),) = write(writer, ["The file"], Sampling(max_new_tokens=20))
    words = [writer.tokenizer.decode([token]) for token in text.ids]
    across = words[7][-1] + words[8][0]  # the end of a token and the beginning of the next
    stopped = Sampling(max_new_tokens=20, stop=("never written", across))
    ((cut,),) = write(writer, ["The file"], stopped)
    assert (cut.text, cut.ended) == (text.text[: text.text.index(across)], "stop")
    assert cut.ids == text.ids[: len(cut.ids)]
    assert len(cut.ids) < 20


def test_stop_strings_are_a_tuple_of_texts_or_none(writer):
    assert Sampling(stop=None).stop == Sampling().stop == ()  # type: ignore[arg-type]
    assert Sampling(stop=["a", "b"]).stop == ("a", "b")  # type: ignore[arg-type]
    for wrong in (5, "end", [3], ("a", None), {"a": 1}, object()):
        with pytest.raises(UsageError, match=r"stop is .*Give a tuple of texts, or none"):
            Sampling(stop=wrong)  # type: ignore[arg-type]
    assert list(generate(writer, ["The file"], Sampling(max_new_tokens=2, stop=None)))  # type: ignore[arg-type]


def test_a_beam_with_a_stop_string_has_come_to_its_end(writer):
    short = {"max_new_tokens": 12, "beams": 3, "length_penalty": 0.0}  # which favours those that end early
    ((text,),) = write(writer, ["The file"], Sampling(**short))
    stop = text.text[4:6]
    (found,) = write(writer, ["The file"], Sampling(**short, samples=3, stop=(stop,)))
    assert all(stop not in other.text for other in found)
    assert "stop" in {other.ended for other in found}


@given(text=st.text(max_size=30), stop=st.lists(st.text(min_size=1, max_size=4), max_size=3))
@settings(max_examples=80, deadline=None)
def test_what_is_shown_is_the_text_up_to_the_first_stop_string(byte_tokenizer, text, stop):
    ids = ids_of(byte_tokenizer, text)
    written = text_after(byte_tokenizer, "The", *stop)
    shown = ""
    for token in ids:
        piece = written.add(token)
        shown += piece
        assert shown == written.text
        assert text.startswith(shown)
        if written.ended:
            break
    places = [text.index(each) for each in stop if each in text]
    if written.ended:
        assert written.ended == "stop"
        assert shown == text[: min(places)]
    elif not text.endswith("\ufffd"):
        assert not places
        # what is held back may be the beginning of a stop string
        assert any(each.startswith(text[len(shown) :]) for each in stop) or shown == text


def test_what_was_held_back_for_a_stop_string_that_did_not_come_is_shown_at_the_end(byte_tokenizer):
    ids = ids_of(byte_tokenizer, "one two")
    written = text_after(byte_tokenizer, "The", "two three", most=len(ids))
    assert [written.add(token) for token in ids][-1].endswith("two")
    assert (written.text, written.ended) == ("one two", "length")


def test_a_character_of_several_tokens_is_shown_when_it_is_whole(byte_tokenizer):
    ids = ids_of(byte_tokenizer, "猫 sat 🙂")
    assert len(ids) > 7
    written = text_after(byte_tokenizer)
    pieces = [written.add(token) for token in ids]
    assert "".join(pieces) == "猫 sat 🙂"
    assert all("\ufffd" not in piece for piece in pieces)
    cut = text_after(byte_tokenizer, most=len(ids) - 1)
    for token in ids[:-1]:
        cut.add(token)
    assert (cut.text, cut.ended) == ("猫 sat ", "length")


@pytest.mark.parametrize("prompt", ["The", "half \ufffd", "\ud800", "猫"])
def test_nothing_of_the_prompt_is_shown(byte_tokenizer, prompt):
    written = text_after(byte_tokenizer, prompt)
    assert "".join(written.add(token) for token in ids_of(byte_tokenizer, " cat")) == " cat"


def test_words_are_parted_from_the_prompt_where_the_tokenizer_has_no_spaces(tokenizer):
    written = Text(tokenizer, tokenizer.encode("the").ids[:-1], end=tokenizer.sep_id, stop=(), most=99, full=99)
    pieces = [written.add(token) for token in [*tokenizer.encode("file is closed.").ids[1:]]]
    assert written.text == " file is closed."
    assert (pieces[-1], written.ended) == ("", "end")


def test_a_model_that_is_full_ends_the_text_and_says_so_before(writer):
    ids = prompt_ids(writer, PROMPTS)
    with pytest.warns(
        UserWarning, match=r"writer reads 40 tokens at once: after prompt 2 there is room for \d+, not for 90"
    ):
        found = write(writer, PROMPTS, Sampling(max_new_tokens=90))
    for (text,), prompt in zip(found, ids, strict=True):
        assert (text.ended, len(text.ids)) == ("full", 40 - len(prompt))
    with pytest.warns(UserWarning, match="after prompt 2"):
        searched = write(writer, PROMPTS, Sampling(max_new_tokens=90, beams=2))
    assert [text.ended for (text,) in searched] == ["full"] * 3
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        write(writer, PROMPTS, Sampling(max_new_tokens=5))


def test_prompts_that_cannot_be_read_are_refused_before_anything_is_written(writer):
    with pytest.raises(InputError, match=r"prompt 2 is empty\. Give a beginning"):
        generate(writer, ["The", ""], Sampling())
    with pytest.raises(InputError, match=r"prompt 1 has \d+ tokens, and writer reads 40, what it writes among them"):
        generate(writer, ["The file is closed. " * 20], Sampling())
    with pytest.raises(InputError, match="text 1 is int, not text"):
        generate(writer, [3], Sampling())


def test_an_encoder_cannot_write_and_says_what_it_can_do(encoder):
    with pytest.raises(UsageError, match=r"tiny reads in both directions; it cannot write on\. Use fill-mask"):
        generate(encoder, ["The"], Sampling())
    with pytest.raises(UsageError, match="reads in both directions"):
        Generator(encoder)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"temperature": 1e-45}, "temperature 1e-45. Give 0, or 0.001 and more"),
        ({"beams": 3, "temperature": 0.7}, "temperature 0.7 with 3 beams. Beams search for the likeliest text"),
        ({"top_p": 1.5, "temperature": 1}, "top_p is 1.5. It must be a number from 0 to 1"),
        ({"top_p": 0, "temperature": 1}, "top_p is 0, which leaves no token"),
        ({"top_p": float("nan"), "temperature": 1}, "top_p is nan"),
        ({"top_k": 0, "temperature": 1}, "top_k is 0. It must be a whole number from 1"),
        ({"top_k": 5}, "top_k 5 where nothing is drawn, because temperature is 0. Give a temperature"),
        ({"top_p": 0.9, "beams": 2}, "top_p 0.9 where nothing is drawn"),
        ({"temperature": -1}, "temperature is -1. It must be a number from 0"),
        ({"temperature": True}, "temperature is True"),
        ({"max_new_tokens": 0}, "max_new_tokens is 0. It must be a whole number from 1"),
        ({"samples": 2}, "2 samples where nothing is drawn: they would all be the same"),
        ({"samples": 3, "beams": 2}, "Give a temperature, or at least 3 beams"),
        ({"length_penalty": 2.0}, "length_penalty 2 without beams"),
        ({"stop": "word"}, "stop is 'word'. Give a tuple of texts"),
        ({"stop": ("",)}, "an empty stop string"),
        ({"seed": -1}, "seed is -1"),
    ],
)
def test_settings_that_cannot_work_are_refused_where_they_are_made(settings, message):
    with pytest.raises(UsageError) as caught:
        Sampling(**settings)
    assert message in str(caught.value)


def test_rows_beyond_the_vocabulary_are_never_written(writer):
    changes = {"vocab_size": writer.tokenizer.vocab_size + 40}
    model = Bert(config_from_json({**writer.config.to_json(), **changes}), pooler=False, nsp=False)
    wider = TextEncoder(model, writer.tokenizer)
    with torch.no_grad():
        model.encoder.embeddings.word.weight[-40:] *= 50
    for sampling in (Sampling(max_new_tokens=5), Sampling(max_new_tokens=5, beams=2)):
        ((text,),) = write(wider, ["The file"], sampling)
        assert all(token < writer.tokenizer.vocab_size for token in text.ids)


def test_load_gives_a_generator_for_a_language_model(writer, tmp_path):
    save_model(tmp_path / "writer", writer.model, writer.tokenizer)
    generator = bertkit.load(tmp_path / "writer")
    assert generator.task == "generate"
    (text,) = generator("The file", max_new_tokens=6)
    assert text == write(writer, ["The file"], Sampling(max_new_tokens=6))[0][0]
    assert generator(["The file", "Names"], max_new_tokens=6)[0] == [text]
    assert "".join(piece.text for piece in generator.stream("The file", max_new_tokens=6)) == text.text


@pytest.mark.parametrize("rows", [1, 2, 5, 32, 40])
def test_weights_laid_out_for_writing_give_the_same_scores_and_are_saved_as_ever(writer, tmp_path, rows):
    save_model(tmp_path / "before", writer.model, writer.tokenizer)
    model = bertkit.load(tmp_path / "before").encoder.model
    ids = torch.randint(0, 500, (rows, 1))
    with torch.inference_mode():
        for _ in range(2):
            found = model.word_scores(model.encoder(ids).last)
            torch.testing.assert_close(
                found, writer.model.word_scores(writer.model.encoder(ids).last), atol=1e-5, rtol=1e-5
            )
    save_model(tmp_path / "after", model, writer.tokenizer)
    before, after = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("before", "after"))
    assert before == after


def test_chinese_of_wordpiece_has_no_spaces_between_characters():
    tokenizer = train_wordpiece(["我们喜欢学习。", "use import 和 class"] * 3, vocab_size=100, min_frequency=1)
    text = Text(tokenizer, (), end=None, stop=(), most=99, full=99)
    ids = tokenizer.frame.inside(tokenizer.encode("我们喜欢 import 和 class。").ids)
    assert "".join(text.add(token) for token in ids) == text.text == "我们喜欢 import 和 class 。"
