"""A network ready for use: `load_encoder(folder)` gives vectors, guesses for masked words, and attention maps."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Unpack, overload

import numpy as np

from bertkit import device as devices
from bertkit.errors import InputError
from bertkit.hub.fetch import find_folder
from bertkit.hub.folder import ModelFolder

if TYPE_CHECKING:
    import torch

    from bertkit.hub.sentence_transformers import SentenceSettings
    from bertkit.infer.attention import AttentionMaps
    from bertkit.infer.embedding import EmbedSettings, Floats, Plan, Vectors, WordVectors
    from bertkit.infer.fill_mask import Guess
    from bertkit.infer.runtime import OnnxRuntime
    from bertkit.nn.network import Network
    from bertkit.text.tokenizer import Tokenizer


def load_encoder(
    folder_or_name: str | Path,
    *,
    device: str = "auto",
    precision: str = "float32",
    threads: int | None = None,
    runtime: str = "torch",
) -> TextEncoder:
    """Open a model folder, or a model of the Hugging Face hub by its name.

    `device` and `precision` are those of `bertkit.device`. `runtime` is torch, or what `bertkit export` made the folder
    for: onnx or onnx-int8, which compute on the CPU.
    """
    folder = ModelFolder(find_folder(folder_or_name))
    tokenizer = folder.tokenizer()
    machine = machine_for(runtime, device, precision, threads)
    torch_device = devices.apply(machine)

    from bertkit.hub.weights import load_model
    from bertkit.infer.runtime import open_runtime

    model, notes = load_model(folder)
    encoder = TextEncoder(model.to(torch_device), tokenizer, precision=machine.precision, name=_name(folder_or_name))
    encoder.notes = notes
    encoder.runtime = open_runtime(runtime, folder)
    encoder.pool_as(folder.sentence_settings)
    lay_out(encoder)
    return encoder


def lay_out(encoder: TextEncoder) -> None:
    """A text that comes alone is a few rows: on a CPU its products take a half of the time, and a second copy of the
    weights, made with the first such text."""
    if encoder.runtime is None and encoder.device.type == "cpu" and encoder.precision == "float32":
        from bertkit.nn.few_rows import lay_out_for_few_rows

        lay_out_for_few_rows(encoder.model)


def machine_for(runtime: str, device: str, precision: str, threads: int | None) -> devices.Machine:
    if runtime == "torch":
        return devices.choose(device, precision, threads)
    from bertkit.infer.runtime import check_runtime

    check_runtime(runtime, device, precision)
    return devices.choose("cpu", "float32", threads)


def _name(folder_or_name: str | Path) -> str:
    """A hub name as it is; of a path only the end, since it is shown on pages that people pass on."""
    path = Path(folder_or_name)
    return path.resolve().name if path.is_dir() else str(folder_or_name)


class TextEncoder:
    """A model and its tokenizer. Every method takes one text or a list of them."""

    def __init__(
        self, model: Network, tokenizer: Tokenizer, *, precision: str = "float32", name: str = "model"
    ) -> None:
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.config = model.config
        self.precision = precision
        self.name = name
        self.notes: list[str] = []
        self.runtime: OnnxRuntime | None = None
        """What computes in place of torch."""
        self.default_pooling = "mean"
        self.default_normalize = False
        self.raw = False
        """Whether nobody trained it for sentence vectors: who asks for cosines is then warned, once."""

    def pool_as(self, settings: SentenceSettings) -> None:
        """Give vectors as a folder wants them, unless the caller says otherwise."""
        self.default_pooling = settings.pooling or "mean"
        self.default_normalize = settings.normalize
        self.raw = settings.pooling is None

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    @property
    def max_length(self) -> int:
        """How many tokens, [CLS] and [SEP] included, the model can read at once."""
        longest: int = self.config.max_length
        return longest

    def embed(self, texts: str | Sequence[str], **settings: Unpack[EmbedSettings]) -> Floats:
        """A vector for each text: n x D float32, or D for a single text. `EmbedSettings` says what can be chosen:
        pooling, layers, normalize, long, allow_empty."""
        if isinstance(texts, str):
            single: Floats = self.embed([texts], **settings)[0]
            return single
        from bertkit.infer.embedding import embed_stream

        plan = self._plan(settings)
        none = np.zeros((0, plan.layers.width(self.config.hidden_size)), np.float32)
        return np.concatenate([none, *(part.vectors for part in embed_stream(self, texts, plan))])

    def embed_stream(self, texts: Iterable[str], **settings: Unpack[EmbedSettings]) -> Iterator[Vectors]:
        """The same for any number of texts in constant memory: vectors in the order of the texts, as they come."""
        from bertkit.infer.embedding import embed_stream

        return embed_stream(self, texts, self._plan(settings))

    def _plan(self, settings: EmbedSettings) -> Plan:
        from bertkit.infer.embedding import RAW_COSINES, Plan

        plan = Plan.of(self, settings)
        if self.raw and plan.normalize:
            self.raw = False
            warnings.warn(RAW_COSINES, stacklevel=3)
        return plan

    def embed_words(
        self, texts: str | Sequence[str], *, layers: str | int = "last", split: str = "tokenizer"
    ) -> list[WordVectors]:
        """For each text its whole words and a vector for each: the mean over the word's pieces."""
        from bertkit.infer.embedding import embed_words

        return list(embed_words(self, [texts] if isinstance(texts, str) else texts, layers=layers, split=split))

    @overload
    def fill_mask(self, text: str, k: int = 5) -> list[list[Guess]]: ...  # type: ignore[overload-overlap]
    @overload
    def fill_mask(self, text: Sequence[str], k: int = 5) -> list[list[list[Guess]]]: ...
    def fill_mask(self, text: str | Sequence[str], k: int = 5) -> list[list[Guess]] | list[list[list[Guess]]]:
        """The k likeliest words for each [MASK]: a list of guesses for each mask of the text (for each text)."""
        from bertkit.infer.fill_mask import fill_masks

        return fill_masks(self, [text], k)[0] if isinstance(text, str) else fill_masks(self, list(text), k)

    def attention(self, text: str, pair: str | None = None, *, truncate: bool = False) -> AttentionMaps:
        """How much every token looks at every other, in every layer and head; `.save_page(path)` draws it."""
        from bertkit.infer.attention import attention_maps

        return attention_maps(self, text, pair, truncate=truncate)

    @contextmanager
    def computing(self) -> Iterator[None]:
        """What every computation runs in: no gradients, and the chosen precision."""
        import torch

        torch.set_flush_denormal(True)  # a setting of each thread
        reduced = self.precision != "float32"
        dtype = getattr(torch, self.precision)
        with torch.inference_mode(), torch.autocast(self.device.type, dtype=dtype) if reduced else nullcontext():
            yield

    def refuse_what_is_not_text(self, texts: Sequence[str], first: int) -> None:
        for number, text in enumerate(texts, first + 1):
            if not isinstance(text, str):
                raise InputError(f"text {number} is {type(text).__name__}, not text", "Pass str.")

    def encode_checked(self, texts: Sequence[str], first: int, *, allow_empty: bool) -> list[list[int]]:
        """The ids of each text. What is not text, or has nothing in it to read, is refused with its number, which
        counts from `first`."""
        self.refuse_what_is_not_text(texts, first)
        encoded = self.tokenizer.encode_ids(texts)
        frame = self.tokenizer.frame.size(pair=False)
        for number, ids in enumerate(encoded, first + 1):
            if len(ids) <= frame:
                if not allow_empty:
                    raise InputError(f"text {number} is empty", "Remove it, or allow empty texts (`allow_empty=True`).")
                if not ids:  # without a frame there would be nothing to read
                    ids.append(self.tokenizer.eos_id if "eos" in self.tokenizer.specials else self.tokenizer.filling_id)
        return encoded
