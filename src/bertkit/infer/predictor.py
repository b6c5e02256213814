"""`bertkit.load(folder)`: something to call with one input, or a list of them, whatever the folder is for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from bertkit import device as devices
from bertkit.errors import UsageError
from bertkit.hub.fetch import find_folder
from bertkit.hub.folder import ModelFolder
from bertkit.infer.encoder import TextEncoder, lay_out, load_encoder, machine_for

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
    runtime: str = "torch",
    **said: Any,
) -> Predictor:
    """A predictor for the folder's task; the first options, and `runtime`, are those of `load_encoder`.

    What else is `said` is for a fine-tuned model. `long` (classify, regress, generate) is what to do with a text longer
    than the model: head-tail, windows, head or error. `no_answer` (qa) is whether there may be no answer in a passage,
    and `threshold` by how much the score of that must be higher than the best answer's to be said. `first_ending`
    (choice) is the number of the first ending, 0 or 1. `most`, `beams`, `length_penalty`, `no_repeat` and `best`
    (generate) are how a text is written: tokens at most, beginnings that are followed at once, a power of the length,
    so many tokens that never stand in a row twice, how many texts are told. Unless said, they are as in training; a
    folder of transformers does not tell them, and has head-tail, False, 0 and 0, and 64 tokens, the likeliest always.

    A pretrained model fills masks, a bare encoder gives vectors, a language model writes on (`Generator`), a fine-tuned
    model does what it was trained for.
    """
    folder = ModelFolder(find_folder(folder_or_name))
    if folder.task in PRETRAINED and not folder.is_for_a_task:
        if there := [name for name, value in said.items() if value is not None]:
            raise UsageError(f"{', '.join(there)} with {folder.path}, which is not fine-tuned", "Leave that out.")
        how: dict[str, Any] = {"device": device, "precision": precision, "threads": threads, "runtime": runtime}
        encoder = load_encoder(folder_or_name, **how)
        if folder.task == "generate":
            from bertkit.infer.generation import Generator

            return Generator(encoder)
        return Predictor(folder.task, encoder)
    machine = machine_for(runtime, device, precision, threads)
    torch_device = devices.apply(machine)

    from bertkit.hub.fine_tuned import load_fine_tuned
    from bertkit.infer.mean_of_words import MeanScorer
    from bertkit.infer.runtime import open_runtime
    from bertkit.infer.scoring import Scorer
    from bertkit.tasks.task import told

    tokenizer = folder.tokenizer()
    model, task = load_fine_tuned(folder)
    name = folder.path.resolve().name
    task = told(task, **said)
    scorer = Scorer(model.to(torch_device), task, tokenizer, precision=machine.precision, name=name)
    scorer = MeanScorer.instead_of(scorer)
    scorer.encoder.runtime = open_runtime(runtime, folder)
    scorer.encoder.pool_as(folder.sentence_settings)
    lay_out(scorer.encoder)
    if task.writes:
        from bertkit.infer.written import TextWriter

        return TextWriter(scorer)
    return TaskPredictor(scorer)
