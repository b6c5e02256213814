"""A left-to-right model writes on: `bertkit.load(folder)` of one, or `generate` for pieces of text as they come."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from itertools import islice
from typing import Any, NamedTuple, Self

from tokenizers.decoders import DecodeStream

from bertkit.errors import InputError, UsageError
from bertkit.infer.decoding import Row, Sampler, beam_search
from bertkit.infer.encoder import TextEncoder
from bertkit.infer.predictor import Predictor
from bertkit.infer.sampling import Sampling
from bertkit.infer.writer import Writer
from bertkit.nn.few_rows import lay_out_for_few_rows
from bertkit.nn.protocols import SaysWords, WritesFrom
from bertkit.text.tokenizer import Tokenizer

TEXTS_AT_ONCE, ROWS_AT_ONCE = 32, 128
"""So many are written side by side: reading the weights for one is most of the work, and is then done for all. Of a
search, so many beams."""


class Written(NamedTuple):
    text: str
    """What follows the prompt."""
    ended: str
    """`end`: the model ended it. `stop`: a stop string came. `length`: it has as many tokens as were wanted. `full`: as
    many as the model can read."""
    ids: list[int]
    """Its tokens. They may have more than the text: the one that ended it, or half of a character."""
    score: float | None = None
    """Of beams: its log-probability, divided by its length to the power of `length_penalty`."""
    loss: tuple[float, int] | None = None
    """Of what would have been right, where that is known: the sum over its tokens, and how many they are."""


class Piece(NamedTuple):
    """Some more of a text."""

    prompt: int
    """Which prompt it follows, counted from 0."""
    sample: int
    text: str
    whole: Written | None = None
    """With the last piece: all of it."""


class Generator(Predictor):
    """A language model. The settings are those of `Sampling`, as names.

    generator = bertkit.load("gpt2-folder")
    generator("Once upon a time", max_new_tokens=20)[0].text
    generator(["One", "Two"], temperature=0.8, top_p=0.9, samples=3)     # for each prompt a list of 3
    for piece in generator.stream("Once upon a time"):
        print(piece.text, end="", flush=True)
    """

    def __init__(self, encoder: TextEncoder) -> None:
        self.writer = writer_of(encoder)
        if encoder.device.type == "cpu" and encoder.precision == "float32":
            lay_out_for_few_rows(encoder.model)
        super().__init__("generate", encoder)

    def stream(self, prompts: str | Sequence[str], **settings: Any) -> Iterator[Piece]:
        """Pieces of text as they come; the texts of several prompts, or several samples of one, come side by side."""
        return generate(self.writer, [prompts] if isinstance(prompts, str) else prompts, Sampling(**settings))

    def __call__(self, prompts: str | list[str], /, **settings: Any) -> Any:
        written = write(self.writer, [prompts] if isinstance(prompts, str) else prompts, Sampling(**settings))
        return written[0] if isinstance(prompts, str) else written


def write(who: Writer | TextEncoder, prompts: Sequence[str], sampling: Sampling) -> list[list[Written]]:
    """For each prompt the texts that follow it, as many as `samples`."""
    writer = writer_of(who)
    texts: list[list[Written]] = [[] for _ in prompts]
    whole = {(piece.prompt, piece.sample): piece.whole for piece in generate(writer, prompts, sampling) if piece.whole}
    for prompt, sample in sorted(whole):
        texts[prompt].append(whole[prompt, sample])
    return texts


def generate(
    who: Writer | TextEncoder, prompts: Sequence[str], sampling: Sampling, stop: Callable[[], bool] = lambda: False
) -> Iterator[Piece]:
    """Pieces of the texts that follow the prompts, as they come. A prompt that cannot be read is refused before
    anything is computed; where the model will be full before `max_new_tokens`, a warning says so. `stop` is asked
    before every token whether to end here, with whatever there is."""
    writer = writer_of(who)
    encoded = writer.read(prompts)
    if writer.goes_on and (message := short_of_room(writer, encoded, sampling)):
        warnings.warn(message, stacklevel=2)
    return written_after(writer, encoded, sampling, stop)


def written_after(
    writer: Writer, encoded: Sequence[Sequence[int]], sampling: Sampling, stop: Callable[[], bool] = lambda: False
) -> Iterator[Piece]:
    """The same for prompts that are tokens."""
    return (_searched if sampling.beams > 1 else _sampled)(writer, encoded, sampling, stop)


def writer_of(encoder: Writer | TextEncoder) -> Writer:
    """That of a language model; a model for a task brings its own."""
    if isinstance(encoder, Writer):
        return encoder
    require_writer(encoder)
    return Writer(
        encoder=encoder,
        tokenizer=encoder.tokenizer,
        end=end_of_text(encoder.tokenizer),
        read=lambda prompts: prompt_ids(encoder, prompts),
        room=lambda prompt: encoder.max_length - len(prompt),
        goes_on=True,
    )


def require_writer(encoder: TextEncoder) -> None:
    if WritesFrom in encoder.model.abilities:
        raise UsageError(f"{encoder.name} writes one text from another, and goes on with none", "Use predict for that.")
    if not encoder.config.causal:
        raise UsageError(
            f"{encoder.name} reads in both directions; it cannot write on",
            "Use fill-mask to have it guess words, or a left-to-right model such as GPT-2.",
        )
    if SaysWords not in encoder.model.abilities or not hasattr(encoder.model.reader, "continued"):
        raise UsageError(
            f"{encoder.name} has no head that scores words, so it cannot write", "Use a checkpoint that has."
        )


def end_of_text(tokenizer: Tokenizer) -> int | None:
    """The token by which a model says that its text is complete."""
    token = tokenizer.specials.get("eos") or tokenizer.specials.get("sep")
    return None if token is None else tokenizer.backend.token_to_id(token)


def prompt_ids(encoder: TextEncoder, prompts: Sequence[str]) -> list[list[int]]:
    """As the model reads them: where texts are framed, without the [SEP] that would end them; and without the frame
    that a GPT has got for a task."""
    encoder.refuse_what_is_not_text(prompts, 0)
    tokenizer = encoder.tokenizer
    framed = tokenizer.form.framed
    found = [ids[:-1] if framed else list(tokenizer.frame.inside(ids)) for ids in tokenizer.encode_ids(prompts)]
    for number, ids in enumerate(found, 1):
        if len(ids) <= framed:
            raise InputError(f"prompt {number} is empty", "Give a beginning to go on from.")
        if len(ids) >= encoder.max_length:
            raise InputError(
                f"prompt {number} has {len(ids):,} tokens, and {encoder.name} reads {encoder.max_length:,}, what it "
                "writes among them",
                "Give a shorter one.",
            )
    return found


def short_of_room(writer: Writer, encoded: Sequence[Sequence[int]], sampling: Sampling) -> str | None:
    """What to say before writing, if the model will be full too early."""
    encoder = writer.encoder
    rooms = [writer.room(ids) for ids in encoded]
    least, wanted = min(rooms, default=sampling.max_new_tokens), sampling.max_new_tokens
    if least >= wanted:
        return None
    most = f"{encoder.name} reads {encoder.max_length:,} tokens at once"
    return f"{most}: after prompt {rooms.index(least) + 1} there is room for {least:,}, not for {wanted:,}"


def _sampled(
    writer: Writer, encoded: Sequence[Sequence[int]], sampling: Sampling, stop: Callable[[], bool]
) -> Iterator[Piece]:
    every = (Row(prompt, sample) for prompt in range(len(encoded)) for sample in range(sampling.samples))
    while rows := list(islice(every, TEXTS_AT_ONCE)):
        sampler = Sampler(writer, encoded, rows, sampling)
        texts = {row: _nothing_yet(writer, encoded[row.prompt], sampling) for row in rows}
        while sampler.rows:
            if stop():
                return
            unfinished = []
            for place, (row, token) in enumerate(zip(sampler.rows, sampler.step(), strict=True)):
                text = texts[row]
                shown = text.add(token)
                if text.ended is None:
                    unfinished.append(place)
                if shown or text.ended is not None:
                    yield Piece(*row, shown, _whole(text))
            if len(unfinished) < len(sampler.rows):
                sampler.keep(unfinished)


def _searched(
    writer: Writer, encoded: Sequence[Sequence[int]], sampling: Sampling, stop: Callable[[], bool]
) -> Iterator[Piece]:
    """What the beams come to is known when they are all at their end, so there is one piece for each text."""
    at_once = max(1, ROWS_AT_ONCE // sampling.beams)
    for first in range(0, len(encoded), at_once):
        prompts = encoded[first : first + at_once]
        texts = [_nothing_yet(writer, ids, sampling) for ids in prompts]
        unseen = [text.unseen() for text in texts]
        for number, best in enumerate(beam_search(writer, prompts, unseen, sampling, stop)):
            for sample, (score, found) in enumerate(best):
                text = found.seen(texts[number])
                yield Piece(first + number, sample, text.text, _whole(text, score))


def _nothing_yet(writer: Writer, prompt: Sequence[int], sampling: Sampling) -> Text:
    return Text(
        writer.tokenizer,
        prompt if writer.goes_on else (),
        end=writer.end,
        stop=sampling.stop,
        most=sampling.max_new_tokens,
        full=writer.room(prompt),
    )


def _whole(text: Text, score: float | None = None) -> Written | None:
    return (
        None
        if text.ended is None
        else Written(text.text, text.ended, text.ids, None if score is None else round(score, DIGITS))
    )


DIGITS = 4
"""Of a score; further ones are a matter of what else is computed with it."""
_HAN_SIDE = re.compile(r"[\u3000-\u303f\u3400-\u9fff\uf900-\ufaff\uff00-\uffef]")
BROKEN = "\ufffd"
"""What bytes that are no character are decoded to: the beginning of one, until the rest of it comes."""


class Text:
    """What follows a prompt. Held back are bytes that are not yet a character, and characters that may be the beginning
    of a stop string; what of a character is still missing at the end is left out."""

    def __init__(
        self, tokenizer: Tokenizer, prompt: Sequence[int], *, end: int | None, stop: Sequence[str], most: int, full: int
    ) -> None:
        """`end`: the token that ends it. `most`: how many tokens it may have, and `full`: how many the model has room
        for."""
        self.ids: list[int] = []
        """All of its tokens, the one that ended it included."""
        self.text = ""
        self.ended: str | None = None
        """`end`: the model ended it. `stop`: a stop string came. `length`: it has as many tokens as were wanted.
        `full`: as many as the model can read."""
        self._backend, self._end, self._stop = tokenizer.backend, end, tuple(stop)
        self._most, self._full = most, full
        # The prompt decides whether the first word begins with a space.
        seen = [] if tokenizer.decode(prompt).endswith(BROKEN) else list(prompt)
        self._stream: DecodeStream | None = DecodeStream(ids=seen, skip_special_tokens=True)
        self._held = ""

    def copy(self) -> Self:
        twin = copy(self)
        twin.ids = list(self.ids)
        if self._stream is not None:
            twin._stream = copy(self._stream)
        return twin

    def unseen(self) -> Self:
        """The same of tokens alone, where nobody looks at the text on the way: of beams most are given up."""
        twin = self.copy()
        if not self._stop:
            twin._stream = None
        return twin

    def seen(self, nothing: Self) -> Self:
        """With its text, from the one that it began as."""
        if self._stream is not None:
            return self
        text = nothing.copy()
        for token in self.ids:
            text.add(token)
        return text

    def add(self, token: int) -> str:
        """What can be shown of it now, beyond what was."""
        self.ids.append(token)
        text, self._held = self._held, ""
        last, full = token == self._end, len(self.ids) >= min(self._most, self._full)
        if self._stream is not None and not last:
            text += self._joined(self._stream.step(self._backend, token) or "")
        at, held = self._stopped_at(text), self._beginning_of_a_stop(text)
        if at is not None and (last or full or len(text) - held >= at):  # none that begins before it may still come
            self.ended, text = "stop", text[:at]
        elif last:
            self.ended = "end"
        elif full:
            self.ended = "length" if self._most <= self._full else "full"
        elif held:
            text, self._held = text[:-held], text[-held:]
        self.text += text
        return text

    def _joined(self, new: str) -> str:
        """WordPiece puts a space before every word; between Chinese characters there is none."""
        before = (self.text + self._held)[-1:]
        return new[1:] if new[:1] == " " and _HAN_SIDE.match(new[1:2]) and _HAN_SIDE.match(before) else new

    def _stopped_at(self, text: str) -> int | None:
        places = [at for stop in self._stop if (at := text.find(stop)) >= 0]
        return min(places, default=None)

    def _beginning_of_a_stop(self, text: str) -> int:
        """How many characters at the end of `text` some stop string begins with."""
        longest = max(map(len, self._stop), default=1) - 1
        for count in range(min(longest, len(text)), 0, -1):
            if any(stop.startswith(text[-count:]) for stop in self._stop):
                return count
        return 0
