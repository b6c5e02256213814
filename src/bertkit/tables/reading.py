"""How a labelled file is to be read, as the user says it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bertkit.settings import Settings, option, options_of

if TYPE_CHECKING:
    from bertkit.tables.table import Row

FILE = "the file"


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How a file is read, as the user says it."""

    file_format: str | None = None
    delimiter: str | None = None
    columns: tuple[str, ...] | None = None
    encoding: str | None = None
    bad_rows: str = "stop"
    repair_tags: bool = False
    fold_labels: bool = False
    several: bool = False
    """Whether a text may have several labels, or none."""
    names: Mapping[str, str] | None = None
    """Which column a part of an example is in: {"text": "review", "label": "stars"}."""
    labelled: bool = True
    """Whether what is right is there too: not when predicting."""
    remembered: Mapping[str, str] | None = None
    """The columns that a model was trained with: they count where a file has them and the user names no others."""
    labels: tuple[str, ...] = ()
    """Those of the model, if there is one."""
    beside: str | None = None
    """What bad rows that are skipped are written beside."""
    on_read: Callable[[int], None] = lambda _: None
    """Told the bytes as they leave the disk."""
    on_columns: Callable[[Mapping[str, str]], None] = lambda _: None
    """Told which column each part was found in."""
    on_row: Callable[[Row], None] = lambda _: None
    """Told of each row, just before its example is given."""


@dataclass(frozen=True, kw_only=True)
class TableSettings(Settings):
    """How a file of examples is read."""

    text_column: str | None = option(
        None, "The column with the text; choice: or two, as a,b; qa: the passage; CoNLL: its number.", group=FILE
    )
    delimiter: str | None = option(
        None,
        "Between columns: comma, tab, semicolon, pipe or a character.",
        usual="as the first line has it",
        group=FILE,
    )
    columns: str | None = option(None, "Names for the columns of a table without a header, as a,b,c.", group=FILE)
    file_format: str | None = option(
        None,
        "csv (quotes quote), tsv (they do not), jsonl, json (also SQuAD's), xlsx, parquet, conll or text.",
        flags="--format",
        usual="by the file's name",
        group=FILE,
    )
    encoding: str | None = option(
        None, "Of text: gb18030, windows-1252, ...", usual="utf-8, or by its mark", group=FILE
    )
    bad_rows: str = option(
        "stop", "What to do with rows that cannot be used: stop, or skip them.", choices=("stop", "skip"), group=FILE
    )

    def reading(self, *, labelled: bool, also: Settings | None = None) -> Reading:
        """With the columns that were named, here or in `also`."""
        return Reading(
            file_format=self.file_format,
            delimiter=self.delimiter,
            columns=tuple(self.columns.split(",")) if self.columns else None,
            encoding=self.encoding,
            bad_rows=self.bad_rows,
            names={**columns_named(self), **(columns_named(also) if also else {})},
            labelled=labelled,
        )


@dataclass(frozen=True, kw_only=True)
class LabelledSettings(TableSettings):
    """The same where what is right is in it too."""

    label_column: str | None = option(None, "The column with the label; qa: the answers.", old="--label", group=FILE)
    repair_tags: bool = option(False, "tag: what continues a span that nothing began, begins one.", group=FILE)
    fold_labels: bool = option(False, "Labels that differ in case or space only are one.", group=FILE)

    def reading(self, *, labelled: bool, also: Settings | None = None) -> Reading:
        from dataclasses import replace

        read = super().reading(labelled=labelled, also=also)
        return replace(read, repair_tags=self.repair_tags, fold_labels=self.fold_labels)


def columns_named(asked: Any) -> dict[str, str]:
    """By the parts of an example: {"text": "review"} of text_column="review"."""
    parts = {name: name.removesuffix("_column") for name in options_of(type(asked))}
    return {
        part: value
        for name, part in parts.items()
        if (part != name or name == "endings") and (value := getattr(asked, name)) is not None
    }
