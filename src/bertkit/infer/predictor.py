"""`bertkit.load(folder)`: something to call with one input, or a list of them, whatever the folder is for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

from bertkit import device as devices
from bertkit.errors import UsageError
from bertkit.hub.fetch import find_folder
from bertkit.hub.folder import ModelFolder
from bertkit.infer.encoder import TextEncoder, load_encoder, machine_for

PRETRAINED = ("fill-mask", "embed", "generate")


class Predictor:
    """Call it with one input or a list. `encoder` is the model inside, for everything else."""

    def __init__(self, task: str, encoder: TextEncoder) -> None:
        self.task, self.encoder = task, encoder

    def __call__(self, inputs: Any, /, **options: Any) -> Any:
        """A model that is not fine-tuned fills masks, or gives vectors if it cannot."""
        answer: Callable[..., Any] = self.encoder.fill_mask if self.task == "fill-mask" else self.encoder.embed
        return answer(inputs, **options)


class TaskPredictor(Predictor):
    """A fine-tuned model. An input is a text, two texts as a tuple, or what its task reads: see docs/finetuning.md.

    predictor = bertkit.load("reviews-model")
    predictor("good value")                    # {"label": "positive", "probabilities": {...}}
    predictor(["good value", "fell apart"])    # a list of them
    """

    def __init__(self, scorer: Any) -> None:
        super().__init__(scorer.task.name, scorer.encoder)
        self.scorer = scorer

    def stream(self, inputs: Iterable[Any]) -> Iterator[dict[str, Any]]:
        """Answers in the order of the inputs, for any number of them in constant memory. They come in portions, each
        when some 2,000 inputs are there, or no more."""
        kind = type(self.scorer.task)
        examples = (kind.read(value, f"input {number}") for number, value in enumerate(inputs, 1))
        return (answered.answer for answered in self.scorer.stream(examples))

    def __call__(self, inputs: Any, /) -> Any:  # type: ignore[override]  # a task has no options
        return list(self.stream(inputs)) if isinstance(inputs, list) else next(self.stream([inputs]))


def load(
    folder_or_name: str | Path,
    *,
    device: str = "auto",
    precision: str = "float32",
    threads: int | None = None,
    ignore_config_keys: Collection[str] = (),
    long: str | None = None,
    no_answer: bool | None = None,
    threshold: float | None = None,
    first_ending: int | None = None,
    runtime: str = "torch",
) -> Predictor:
    """A predictor for the folder's task; the first options, and `runtime`, are those of `load_encoder`.

    `long` (classify, regress) is what to do with a text longer than the model: head-tail, windows, head or error.
    `no_answer` (qa) is whether there may be no answer in a passage, and `threshold` by how much the score of that must
    be higher than the best answer's to be said. `first_ending` (choice) is the number of the first ending, 0 or 1.
    Unless given, they are as in training; a folder of transformers does not tell them, and has head-tail, False, 0 and
    0.

    A pretrained model fills masks, a bare encoder gives vectors, a language model writes on (`Generator`), a fine-tuned
    model does what it was trained for.
    """
    folder = ModelFolder(find_folder(folder_or_name), ignore_config_keys=ignore_config_keys)
    if folder.task in PRETRAINED and not folder.gives_sentence_cosines:
        if any(said is not None for said in (long, no_answer, threshold, first_ending)):
            raise UsageError(
                f"long, no_answer, threshold or first_ending with {folder.path}, which is not fine-tuned",
                "Leave them out.",
            )
        encoder = load_encoder(
            folder_or_name,
            device=device,
            precision=precision,
            threads=threads,
            ignore_config_keys=ignore_config_keys,
            runtime=runtime,
        )
        if folder.task == "generate":
            from bertkit.infer.generation import Generator

            return Generator(encoder)
        return Predictor(folder.task, encoder)
    machine = machine_for(runtime, device, precision, threads)
    torch_device = devices.apply(machine)

    from bertkit.hub.fine_tuned import load_fine_tuned
    from bertkit.infer.runtime import open_runtime
    from bertkit.infer.scoring import Scorer
    from bertkit.tasks.task import told

    tokenizer = folder.tokenizer()
    model, task = load_fine_tuned(folder)
    name = folder.path.resolve().name
    task = told(task, long=long, no_answer=no_answer, threshold=threshold, first_ending=first_ending)
    scorer = Scorer(model.to(torch_device), task, tokenizer, precision=machine.precision, name=name)
    scorer.encoder.runtime = open_runtime(runtime, folder)
    scorer.encoder.pool_as(folder.sentence_settings)
    return TaskPredictor(scorer)
