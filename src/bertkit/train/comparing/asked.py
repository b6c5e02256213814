"""What the user of `bertkit compare` asked for, checked as a whole before anything is computed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from bertkit.corpus.folder import MANIFEST
from bertkit.errors import UsageError
from bertkit.families import PRESETS, Family, family_of_size, reader_of
from bertkit.hub.folder import ModelFolder
from bertkit.text.recipe import VocabularyRecipe
from bertkit.train.comparing.contestants import Contestant, require_different
from bertkit.train.comparing.tasks import TaskAsked
from bertkit.train.recipes import Recipe
from bertkit.train.request import Request, make_recipe
from bertkit.train.schemas import Pretraining

FORMAT = "bertkit comparison 1"
OF_TOKENIZERS = {"vocab_size": "vocab_size", "cased": "cased"}
OF_TEXT = {"field_name": "field", "file_format": "file_format", "validation": "validation"}


@dataclass(frozen=True, kw_only=True)
class Asked:
    inputs: tuple[str, ...]
    """Raw text, or corpora that are prepared."""
    contestants: tuple[Contestant, ...]
    tasks: tuple[TaskAsked, ...] = ()
    steps: int | None = None
    hours: float | None = None
    recipe: str = "fast"
    change: Mapping[str, Any] = field(default_factory=dict)
    """What all contestants have different from the recipe."""
    seed: int = 0
    tokenizers: tuple[str, ...] = ()
    """Folders to use instead of tokenizers that are trained."""
    vocab_size: int = 30_000
    cased: bool | None = None
    field_name: str = "text"
    file_format: str | None = None
    validation: float = 0.01
    validate_every: int | None = None
    seeds: int = 3
    epochs: int | None = None
    most_examples: int | None = None
    max_length: int = 128
    with_random: bool = False

    def __post_init__(self) -> None:
        if not self.contestants:
            raise UsageError("nobody to compare", "Name models: `models=bert-mini,roberta-mini`.")
        if "-" in self.inputs:
            raise UsageError("stdin is read once, and each contestant reads the text", "Save it in a file first.")
        if self.hours is not None and not 0 < self.hours < 24 * 366:
            raise UsageError(f"{60 * self.hours:g} minutes", "Give more than 0, such as `minutes=10`.")
        for contestant in self.contestants:
            self._require_positions(contestant)
        require_different(self.contestants)
        if self.prepared and self.tokenizers:
            raise UsageError(
                "`tokenizer` with a corpus that is prepared", "Leave it out: each corpus has the one it was made with."
            )
        if not self.prepared and not self.tokenizers:
            for family in self.families:
                self.vocabulary(family)

    @property
    def unread(self) -> dict[str, str]:
        """What changes nothing, since it is of something that is made already; with the settings that say it."""
        if self.prepared:
            return OF_TEXT | OF_TOKENIZERS
        return OF_TOKENIZERS if self.tokenizers else {}

    def require_read(self, said: Iterable[str]) -> None:
        """Nothing was said that changes nothing."""
        what = "a corpus that is prepared" if self.prepared else "`tokenizer`"
        for option in (self.unread[name] for name in said if name in self.unread):
            raise UsageError(f"`{option}` with {what}", "Leave it out: that was decided when it was made.")

    def request(self, contestant: Contestant, shards: Path = Path()) -> Request:
        """Its pretraining, as `bertkit pretrain` would have it asked for."""
        shared = {"recipe": self.recipe, "seed": self.seed, "validate_every": self.validate_every, **self.change}
        return Pretraining.of(
            shards=shards,
            out=Path(),
            model=contestant.model,
            steps=self.steps,
            hours=self.hours,
            **{**shared, **contestant.pretraining},
        ).request()

    def _require_positions(self, contestant: Contestant) -> None:
        if contestant.ready is None:
            longest = max(stage.length for stage in self.recipe_of(contestant).stages)
            positions = PRESETS[contestant.model]().max_length
        else:
            longest, positions = 0, ModelFolder(contestant.ready).config.max_length
        for what, length in (("sequences", longest), ("examples", self.max_length)):
            if length > positions:
                raise UsageError(
                    f"{contestant.name}: {what} of {length} tokens, and the model has {positions} positions",
                    "Give a smaller `length`." if what == "sequences" else "Give a smaller `max_length`.",
                )

    def recipe_of(self, contestant: Contestant) -> Recipe:
        try:
            return make_recipe(self.request(contestant))
        except UsageError as problem:
            raise UsageError(f"{contestant.name}: {problem.problem}", problem.remedy) from None

    @cached_property
    def prepared(self) -> bool:
        """Whether the inputs are corpora already."""
        there = [(Path(name) / MANIFEST).exists() for name in self.inputs]
        if any(there) and not all(there):
            raise UsageError(
                f"{self.inputs[there.index(True)]} is a prepared corpus, and {self.inputs[there.index(False)]} is not",
                "Give raw text alone, or corpora alone.",
            )
        return all(there)

    @property
    def families(self) -> list[Family]:
        """The tokenizers' families, each once."""
        made = [reads(contestant) for contestant in self.contestants if contestant.ready is None]
        return list({family.name: family for family in made}.values())

    @property
    def keeps_case(self) -> bool:
        """All read the same text: if one of them must keep case, all do."""
        return any(family.form.cased_only for family in self.families) if self.cased is None else self.cased

    def vocabulary(self, family: Family) -> VocabularyRecipe:
        """Of the tokenizer that is trained for a family; some of them leave no choice about case."""
        free = not (family.form.cased_only or family.form.uncased_only)
        lowercase = False if free and self.keeps_case else None
        return VocabularyRecipe(family.tokenizer, vocab_size=self.vocab_size, lowercase=lowercase)

    @property
    def runs(self) -> dict[str, Contestant]:
        """For each pretraining one contestant that needs it."""
        runs: dict[str, Contestant] = {}
        for contestant in self.contestants:
            if contestant.ready is None:
                runs.setdefault(contestant.folder, contestant)
        return runs

    def shared(self) -> dict[str, Any]:
        """What all results depend on: a comparison may get more contestants, tasks and seeds, but not another of
        these."""
        own = ("contestants", "tasks", "seeds", "with_random")
        facts = {name: value for name, value in asdict(self).items() if name not in own}
        facts["inputs"] = [str(Path(name).resolve()) for name in self.inputs]
        facts["tokenizers"] = [str(Path(name).resolve()) for name in self.tokenizers]
        facts["cased"] = None if self.prepared or self.tokenizers else self.keeps_case
        return {"format": FORMAT, **facts}


def reads(contestant: Contestant) -> Family:
    """The family of the tokenizer its model reads."""
    if contestant.ready is not None:
        return reader_of(ModelFolder(contestant.ready).family.form)
    return reader_of(family_of_size(contestant.model).form)
