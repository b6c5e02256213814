"""How a labelled file is to be read, as the user says it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from bertkit.settings import Settings, option, options_of

FILE = "the file"


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How a file is read, as the user says it. None is: guess, and say so."""

    file_format: str | None = None
    delimiter: str | None = None
    columns: tuple[str, ...] | None = None
    encoding: str = "utf-8"
    names: Mapping[str, str] | None = None
    """Which column a part of an example is in: {"text": "review", "label": "stars"}."""
    labelled: bool = True
    """Whether what is right is there too: not when predicting."""
    remembered: Mapping[str, str] | None = None
    """The columns that a model was trained with: they count where a file has them and the user names no others."""
    labels: tuple[str, ...] = ()
    """Those of the model, if there is one: they tell whether it knows the classes of a file by number or by name."""
    on_read: Callable[[int], None] = lambda _: None
    """Told the bytes as they leave the disk."""
    on_columns: Callable[[Mapping[str, str]], None] = lambda _: None
    """Told which column each part was found in."""

    @property
    def column_names(self) -> list[str]:
        """Those that the user names, and those that are remembered."""
        said = [*(self.names or {}).items(), *(self.remembered or {}).items()]
        several = [name for part, names in said if part in ("endings", "text") for name in names.split(",")]
        return [*several, *(name for part, name in said if part != "endings")]


@dataclass(frozen=True, kw_only=True)
class TableSettings(Settings):
    """How a file of examples is read."""

    text_column: str | None = option(None, "The column with the text.", group=FILE)
    delimiter: str | None = option(
        None, "Between columns: comma, tab, semicolon, pipe or a character.", usual="by the file's name", group=FILE
    )
    columns: str | None = option(None, "Names for the columns of a table without a header, as a,b,c.", group=FILE)
    file_format: str | None = option(
        None,
        "csv (quotes are quoting), tsv (quotes are text), jsonl (also SQuAD's JSON), parquet, conll or text.",
        flags="--format",
        usual="by the file's name; of a table with tabs, what quotes are is known by its content",
        group=FILE,
    )
    encoding: str = option("utf-8", "Of text without a byte-order mark: gb18030, windows-1252, ...", group=FILE)

    def reading(self, *, labelled: bool, also: Settings | None = None) -> Reading:
        """With the columns that were named, here or in `also`."""
        return Reading(
            file_format=self.file_format,
            delimiter=self.delimiter,
            columns=tuple(self.columns.split(",")) if self.columns else None,
            encoding=self.encoding,
            names={**columns_named(self), **(columns_named(also) if also else {})},
            labelled=labelled,
        )


def columns_named(asked: Any) -> dict[str, str]:
    """By the parts of an example: {"text": "review"} of text_column="review"."""
    parts = {name: name.removesuffix("_column") for name in options_of(type(asked))}
    return {
        part: value
        for name, part in parts.items()
        if (part != name or name == "endings") and (value := getattr(asked, name)) is not None
    }
