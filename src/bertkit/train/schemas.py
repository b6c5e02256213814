"""What `finetune` and `pretrain` can be told: on the command line, in Python, in a comparison. Nothing here computes,
so that help need not wait for torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from bertkit.device import OnMachine
from bertkit.errors import UsageError, nearest, shortened
from bertkit.settings import Settings, argument, defaults_of, option, options_of
from bertkit.tables.reading import FILE, LabelledSettings, columns_named
from bertkit.tasks import TASKS as KNOWN
from bertkit.tasks import is_task
from bertkit.tasks.options import OPTIONS, own_options

if TYPE_CHECKING:
    from bertkit.train.comparing.asked import Asked
    from bertkit.train.examples import FinetuneRequest
    from bertkit.train.request import Request

MODEL, SHAPE, FAMILY, LEARNED = "the model", "its shape", "the family", "what is learned"
OPTIMIZER, TRANSFER = "optimizing", "transfer"
WHO, PRETRAINING, TASKS, TEXT = "who takes part", "pretraining", "tasks", "the text"
COMPARED = (SHAPE, FAMILY, LEARNED, OPTIMIZER)
"""In which a comparison's models may differ."""
RUN, MACHINE = "the run", "the machine"
PRECISION = "float32 (exact), bfloat16, or auto: what is fastest on this machine."


@dataclass(frozen=True, kw_only=True)
class _Writes(OnMachine):
    overwrite: bool = option(False, "Replace what is already there.")


@dataclass(frozen=True, kw_only=True)
class FineTuning(LabelledSettings, _Writes):
    task: str = argument("", f"{', '.join(OPTIONS)}.")
    train: str = argument("", "The labelled examples: CSV, TSV, JSON, Excel, Parquet, CoNLL.")
    start: str | None = option(None, "The pretrained model: a folder, or a name on the hub.", flags="--from")
    out: Path | None = option(None, "The model folder to write.", flags="-o")
    resume: Path | None = option(None, "Go on with one that was stopped, exactly: its `out`.", metavar="OUT")
    dev: str | None = option(None, "Examples to measure on.", usual="a tenth of TRAIN")
    text_column: str | None = option(
        None,
        "The column with the text; choice: or two, as a,b; qa: the passage; CoNLL: its number.",
        old="--text",
        group=FILE,
    )
    epochs: int | None = option(
        None, "Passes over the examples.", least=1, usual="3; of few examples up to 20", group=OPTIMIZER
    )
    batch: int = option(32, "Examples of a step.", least=1, group=OPTIMIZER)
    learning_rate: float | None = option(
        None,
        "The highest.",
        above=0,
        warn_above=0.1,
        usual="5e-5 for a width of 768, more for narrower models; frozen and LoRA: 1e-3",
        group=OPTIMIZER,
    )
    language_weight: float | None = option(
        None,
        "GPT: how much guessing next words counts beside the task.",
        least=0,
        usual="0.5; frozen and LoRA: 0",
        group=OPTIMIZER,
    )
    hours: float | None = option(
        None, "How long to learn, instead of `epochs`.", above=0, most=24 * 366, group=OPTIMIZER
    )
    patience: int | None = option(None, "Stop after so many epochs without a better score.", least=1, group=OPTIMIZER)
    seeds: int = option(1, "Fit so many times and keep the best; scores vary by seed.", least=1, group=OPTIMIZER)
    seed: int = option(0, "The first of them.", least=0, group=OPTIMIZER)
    max_length: int | None = option(None, "Tokens the model reads at once.", usual="512, for qa 384, or all it can")
    freeze: bool = option(False, "Only the head learns; BERT gives features.", group=TRANSFER)
    last_layers: int | None = option(None, "Only the last N layers learn.", least=0, group=TRANSFER)
    layer_decay: float | None = option(
        None,
        "Each layer's rate is that of the one above it times this.",
        above=0,
        most=1,
        usual="1; ELECTRA 0.8, large 0.9",
        group=TRANSFER,
    )
    gradual: bool = option(False, "The head first, then a layer more each epoch.", group=TRANSFER)
    mix_layers: bool = option(False, "Read a learned mix of all layers.", group=TRANSFER)
    mix_at: str = option(
        "below", "Below the LSTM, above it, or both.", choices=("below", "above", "both"), group=TRANSFER
    )
    mix_norm: bool = option(False, "Bring all layers to one size before they are mixed.", group=TRANSFER)
    lstm: int = option(0, "A BiLSTM of so many units under the head.", least=0, group=TRANSFER)
    context_model: str | None = option(
        None,
        "A model, such as an ELMo, that stays as it is and whose vectors stand between the layers of `lstm`.",
        flags="--context",
        metavar="MODEL",
        group=TRANSFER,
    )
    cnn: int = option(0, "A CNN of so many filters of each width under the head.", least=0, group=TRANSFER)
    lora: int = option(0, "Learn matrices of this rank beside those of BERT.", least=0, group=TRANSFER)
    also_on: tuple[str, ...] = option(
        (),
        "Unlabelled text to learn first, with the task's own, as the model was pretrained. Repeatable.",
        metavar="TEXT",
        group=TRANSFER,
    )
    from_scratch: bool = option(False, "Random weights, to see what pretraining is worth.", group=TRANSFER)
    save_seconds: float = option(
        300.0, "From checkpoint to checkpoint; what takes less writes none.", least=0, group=RUN
    )
    parallel: str = option(
        "ddp", "Under torchrun: ddp, or fsdp for models that do not fit.", choices=("ddp", "fsdp"), group=RUN
    )
    precision: str = option("float32", PRECISION, group=MACHINE)
    own: Settings = field(default_factory=Settings)
    """What its task has alone."""

    noun: ClassVar[str] = "the task"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.resume is not None:
            return
        for name, what in (("task", "no task"), ("train", "no file"), ("start", "no model"), ("out", "no folder")):
            if name == "start" and self.from_scratch:  # what is its own may be all that is needed
                continue
            if getattr(self, name) is None or (name in ("task", "train") and not getattr(self, name)):
                raise UsageError(f"{what} is named: `{name}` is missing", "Or go on with `resume=OUT`.")
        if not is_task(self.task):
            hint = nearest(self.task, KNOWN)
            raise UsageError(f"no task is called {shortened(self.task)}", f"{hint} There are: {', '.join(KNOWN)}.")
        if self.mix_at != "below" and not (self.mix_layers and self.lstm):
            raise UsageError(
                f"`mix_at={self.mix_at}` without a mix or an LSTM", "Add `mix_layers=True` and `lstm=256`."
            )
        if self.context_model is not None and not self.lstm:
            raise UsageError(
                "`context_model` without `lstm`", "It stands between the two layers of one: give `lstm=256`."
            )
        for name in ("freeze", "mix_layers", "lstm", "cnn"):
            if getattr(self, name) and self.task == "embed":
                raise UsageError(
                    f"`{name}` with the task embed", "It has no head: vectors are the mean over the last layer."
                )

    @classmethod
    def variants(cls) -> Mapping[str, type[Settings]]:
        return own_options()

    @classmethod
    def variant_of(cls, said: Mapping[str, Any]) -> str:
        return str(said.get("task", ""))

    def _head(self) -> dict[str, Any]:
        mix = {"mix_at": self.mix_at, "mix_norm": self.mix_norm}
        usual = {"mix_at": "below", "mix_norm": False}
        parts = {"mix": self.mix_layers, "lstm": self.lstm, "cnn": self.cnn}
        return {**parts, **{name: value for name, value in mix.items() if value != usual[name]}}

    def request(self) -> FinetuneRequest:
        from bertkit.train.examples import FinetuneRequest
        from bertkit.train.transfer import Transfer

        if self.start is None and getattr(self.own, "model", None) is None:
            raise UsageError("no model is named: `start` is missing", "Or go on with `resume=OUT`.")
        chosen = {name: getattr(self, name) for name in ("epochs", "learning_rate", "language_weight", "patience")}
        transfer = Transfer(
            frozen=self.freeze,
            last_layers=self.last_layers,
            layer_decay=self.layer_decay,
            gradual=self.gradual,
            lora=self.lora,
        )
        change = {name: value for name, value in chosen.items() if value is not None}
        named = columns_named(self.own)
        usual = defaults_of(type(self.own))
        options = {name: getattr(self.own, name) for name in options_of(type(self.own))}
        return FinetuneRequest(
            task=self.task,
            train=self.train,
            dev=self.dev,
            start=self.start or "",
            context=self.context_model,
            also_on=self.also_on,
            from_scratch=self.from_scratch,
            reading=replace(self.reading(labelled=True, also=self.own), beside=str(self.out)),
            options={
                name: value
                for name, value in options.items()
                if value != usual[name] and name.removesuffix("_column") not in named
            },
            head=self._head(),
            change={**change, "batch": self.batch, "transfer": transfer},
            seeds=self.seeds,
            seed=self.seed,
            max_length=self.max_length,
            hours=self.hours,
            parallel=self.parallel,
            save_seconds=self.save_seconds,
        )


@dataclass(frozen=True, kw_only=True)
class RunSettings(Settings):
    """What a run of pretraining is told, but for where it is and what is different from its recipe."""

    hours: float | None = option(None, "How long to train; the rest is planned by it.", above=0, most=24 * 366)
    steps: int | None = option(None, "How many steps to train, instead.", least=1)
    model: str | None = option(
        None,
        "bert-tiny, -mini, -small, -medium, -base or -large, or of another family, such as gpt2-mini.",
        usual="what the hours allow, or bert-mini",
        group=MODEL,
    )
    extend_vocabulary: bool = option(False, "Fit the model of `start` to the corpus's own vocabulary.", group=MODEL)
    recipe: str = option("fast", "fast: the most from a budget of time; bert: as in the paper.", group=LEARNED)
    seed: int = option(0, "Decides weights, order, masks and dropout.", least=0, group=RUN)
    micro_batch: int | None = option(
        None, "Sequences at once; gradients of several are added up to a batch.", least=1, group=RUN
    )
    validate_every: int | None = option(None, "Steps.", least=1, usual="a twentieth of the run", group=RUN)
    save_every: int | None = option(
        None, "Steps from checkpoint to checkpoint.", least=1, usual="each validation, and 5 minutes", group=RUN
    )
    keep: int = option(2, "How many checkpoints stay, besides the best.", least=2, group=RUN)
    log_every: int | None = option(None, "Steps from line to line of the log.", least=1, group=RUN)
    validation_samples: int = option(256, "Held-out samples for each validation.", least=1, group=RUN)
    parallel: str = option(
        "ddp", "Under torchrun: ddp, or fsdp for models that do not fit.", choices=("ddp", "fsdp"), group=RUN
    )
    gradient_checkpointing: bool = option(False, "Less memory for a third more time.", group=RUN)
    compiled: bool = option(
        False, "torch.compile the blocks: for GPUs; on CPUs it does not pay.", flags="--compile", group=RUN
    )
    tensorboard: bool = option(False, "Scalars for TensorBoard in RUN/tensorboard.", group=RUN)


@dataclass(frozen=True, kw_only=True)
class Pretraining(RunSettings, _Writes):
    shards: Path | None = argument(None, "A corpus that `bertkit prepare` made.")
    out: Path | None = option(None, "The run's folder, new or empty.", flags="-o", metavar="RUN")
    resume: Path | None = option(None, "Go on with a run that was stopped, exactly.", metavar="RUN")
    start: str | None = option(
        None, "Go on from this model, in your own domain.", flags="--from", metavar="MODEL", group=MODEL
    )
    pre_norm: bool | None = option(
        None, "Where layers normalise.", off="--post-norm", usual="the recipe's", group=SHAPE
    )
    dropout: float | None = option(None, "In all layers.", least=0, most=0.9, usual="the recipe's", group=SHAPE)
    batch: int | None = option(
        None, "Sequences of a step, over all processes.", least=1, usual="the recipe's", group=LEARNED
    )
    length: int | None = option(None, "Tokens of a sequence.", least=8, usual="128", group=LEARNED)
    long_length: int | None = option(
        None, "Of the last 10 % of the steps; 0: as before.", least=0, usual="bert 512, fast 0", group=LEARNED
    )
    mask: str | None = option(
        None, "Hide token, word (whole words), span or ngram.", usual="the recipe's; ALBERT ngram", group=LEARNED
    )
    mask_rate: float | None = option(None, "How much is hidden.", above=0, most=1, usual="0.15", group=LEARNED)
    mask_shares: str | None = option(
        None, "Of 100 hidden tokens: masked/random/as they are.", usual="80/10/10", group=LEARNED
    )
    masks: str | None = option(
        None,
        "dynamic: drawn anew in each epoch; static: drawn once.",
        choices=("dynamic", "static"),
        usual="dynamic",
        group=LEARNED,
    )
    mask_copies: int | None = option(
        None,
        "Static masks: so many for each sample, by turns; the first BERT had 10.",
        least=1,
        usual="1",
        group=LEARNED,
    )
    nsp: bool | None = option(None, "Next-sentence prediction.", usual="where the model can", group=LEARNED)
    objectives: str | None = option(
        None, "What is asked: mlm,nsp, or with weights mlm,nsp=0.5.", usual="the family's", group=LEARNED
    )
    next_words_first: float | None = option(
        None,
        "In this share of the steps next words are asked first, by which attention finds its positions soon.",
        least=0,
        most=0.8,
        usual="fast 0.25, bert 0",
        group=LEARNED,
    )
    across: bool = option(
        False,
        "Fill sequences on into the next document; without pairs.",
        flags="--across-documents",
        usual="GPT: so",
        group=LEARNED,
    )
    learning_rate: float | None = option(
        None, "The highest.", above=0, warn_above=0.1, usual="the recipe's", group=OPTIMIZER
    )
    optimizer: str | None = option(None, "adamw, lamb (large batches) or muon.", usual="the recipe's", group=OPTIMIZER)
    precision: str = option("auto", "float32, bfloat16, or auto: what is fastest here.", group=MACHINE)
    own: Settings = field(default_factory=Settings)
    """What its family has alone."""

    noun: ClassVar[str] = "the family"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.resume is None and self.shards is None:
            raise UsageError("no corpus is named", "Give the folder that bertkit prepare made, or `resume=RUN`.")
        if self.resume is None and self.out is None:
            raise UsageError("no folder for the run is named", "Add `out=RUN`.")
        if self.masks != "static" and self.mask_copies is not None:
            raise UsageError(
                f"`mask_copies={self.mask_copies}` of masks drawn anew in each epoch", "Add `masks=static`."
            )

    @classmethod
    def variants(cls) -> Mapping[str, type[Settings]]:
        from bertkit.families import FAMILIES

        return {name: family.options or Settings for name, family in FAMILIES.items()}

    @classmethod
    def variant_of(cls, said: Mapping[str, Any]) -> str | None:
        from bertkit.families import PRESETS, family_of_size

        if said.get("start") or said.get("resume"):
            return None
        model = said.get("model") or "bert-mini"
        return family_of_size(model).name if model in PRESETS else ""

    def request(self) -> Request:
        from bertkit.train.request import Request

        shape = ("batch", "length", "long_length", "next_words_first", "dropout", "pre_norm", "nsp")
        masks = ("mask", "mask_rate", "mask_shares")
        change = {
            **{name: getattr(self, name) for name in (*shape, *masks)},
            **{name: getattr(self.own, name) or None for name in options_of(type(self.own))},
            "masks": None if self.masks is None else (self.mask_copies or 1) * (self.masks == "static"),
            "objectives": self.objectives and [each.strip() for each in self.objectives.split(",")],
            "across": self.across or None,
            "optimizer.kind": self.optimizer,
            "optimizer.learning_rate": self.learning_rate,
        }
        return Request(
            shards=self.shards or Path(),
            start_from=self.start,
            change={name: value for name, value in change.items() if value is not None},
            **{name: getattr(self, name) for name in options_of(RunSettings)},
        )


@dataclass(frozen=True, kw_only=True)
class Comparing(OnMachine):
    inputs: tuple[str, ...] = argument(
        ..., "Raw text: files, folders, globs. Or corpora of bertkit prepare.", metavar="TEXT..."
    )
    out: Path = option(..., "The folder for all of it.", flags="-o")
    models: str | None = option(
        None,
        "As bert-mini,roberta-mini,bert-mini:no-nsp:mask=word: with options of bertkit pretrain, and lstm=N; or a"
        " model folder, as it is.",
        group=WHO,
    )
    ablation: str | None = option(
        None, "bert: the paper's, without NSP, one way, and so on; of `model`.", choices=("bert",), group=WHO
    )
    model: str = option("bert-mini", "The size for `ablation`, and for a lineage.", group=WHO)
    words: tuple[str, ...] = option(
        (), "Of a lineage: word vectors of the same text. Repeatable.", metavar="FOLDER", group=WHO
    )
    with_random: bool = option(False, "Fine-tune from random weights too: what pretraining is worth.", group=WHO)
    minutes: float | None = option(None, "How long each is pretrained.", above=0, most=60 * 24 * 366, group=PRETRAINING)
    hours: float | None = option(
        None, "How long all together are pretrained, instead.", above=0, most=24 * 366, group=PRETRAINING
    )
    steps: int | None = option(None, "How many steps each takes, instead.", least=1, group=PRETRAINING)
    recipe: str = option("fast", "fast or bert, as for bertkit pretrain.", group=PRETRAINING)
    batch: int | None = option(None, "Sequences of a step.", least=1, usual="the recipe's", group=PRETRAINING)
    length: int | None = option(None, "Tokens of a sequence.", least=8, usual="128", group=PRETRAINING)
    seed: int = option(0, "Of pretraining.", least=0, group=PRETRAINING)
    validate_every: int | None = option(None, "Steps.", least=1, usual="a twentieth of the run", group=PRETRAINING)
    task: tuple[str, ...] = option(
        (),
        "Fine-tune each for it: classify:train.tsv:dev.tsv. Also NAME=TASK:..., and after that columns, as"
        " :text=review, :delimiter=semicolon, and for choice :first-ending=1. Repeatable.",
        metavar="TASK:TRAIN:DEV",
        group=TASKS,
    )
    seeds: int = option(3, "How often each is fine-tuned for each task.", least=1, group=TASKS)
    epochs: int | None = option(None, "Of fine-tuning.", least=1, usual="3; of few examples up to 20", group=TASKS)
    most_examples: int | None = option(
        None, "Fine-tune with so many, which each seed draws.", least=1, usual="all", group=TASKS
    )
    max_length: int = option(128, "Tokens of an example that are read.", least=8, group=TASKS)
    tokenizer: tuple[str, ...] = option(
        (), "Use it instead of training one; one for each kind that is read. Repeatable.", metavar="FOLDER", group=TEXT
    )
    vocab_size: int | None = option(None, "Of the tokenizers that are trained.", least=100, usual="30,000", group=TEXT)
    cased: bool = option(False, "Keep case; done anyway if one of the models needs it.", group=TEXT)
    field: str | None = option(None, "The field or column that holds the text.", usual="text", group=TEXT)
    file_format: str | None = option(
        None, "text, jsonl, csv, tsv or parquet.", flags="--format", usual="by the file's name", group=TEXT
    )
    validation: float | None = option(
        None, "The share of documents held out.", least=0, most=0.5, usual="0.01", group=TEXT
    )
    plan: bool = option(False, "Say what would be done and how long it takes.")
    precision: str = option("auto", "float32, bfloat16, or auto: what is fastest here.", group=MACHINE)

    def __post_init__(self) -> None:
        super().__post_init__()
        if sum(each is not None for each in (self.minutes, self.hours, self.steps)) != 1:
            raise UsageError(
                "how long to pretrain is not said, or twice", "Give `minutes=M`, `hours=H` for all, or `steps=N`."
            )
        if sum((self.models is not None, self.ablation is not None, self.lineage)) != 1:
            raise UsageError("who takes part is not said, or twice", "Give `models=NAME,NAME` or `ablation=bert`.")
        if self.words and not self.lineage:
            raise UsageError("`words` without a lineage", "Name folders among the `models`.")
        if self.lineage and len(self.inputs) < 2:
            raise UsageError("a lineage without text", "bertkit compare lineage TEXT")

    @property
    def lineage(self) -> bool:
        """Whether it is that of all models from ELMo on, one chapter each; said in place of the first text."""
        return self.inputs[0] == "lineage" and not Path("lineage").exists()

    def asked(self) -> Asked:
        from bertkit.train.comparing import contestants
        from bertkit.train.comparing.asked import Asked
        from bertkit.train.comparing.lineage import line
        from bertkit.train.comparing.tasks import tasks_of

        if self.lineage:
            who = line(self.model, self.words)[0]
        else:
            who = contestants.ablation(self.model) if self.models is None else contestants.contestants_of(self.models)
        text: dict[str, Any] = {"vocab_size": self.vocab_size, "cased": self.cased or None, "field_name": self.field}
        text |= {"file_format": self.file_format, "validation": self.validation}
        said: dict[str, Any] = {name: value for name, value in text.items() if value is not None}
        runs = {each.folder for each in who if each.ready is None}
        hours = None if self.hours is None else self.hours / max(len(runs), 1)
        same = ("steps", "recipe", "seed", "validate_every", "seeds", "epochs", "most_examples", "max_length")
        asked = Asked(
            contestants=tuple(who),
            tasks=tuple(tasks_of(self.task)),
            inputs=self.inputs[1:] if self.lineage else self.inputs,
            hours=hours if self.minutes is None else self.minutes / 60,
            change={name: value for name in ("batch", "length") if (value := getattr(self, name)) is not None},
            tokenizers=self.tokenizer,
            with_random=self.with_random,
            **{name: getattr(self, name) for name in same},
            **said,
        )
        asked.require_read(said)
        return asked
