"""What a user can get wrong. Each error is one line: what, where, and what to do.

An error's class decides the exit code of the command line; anything that is not a
BertkitError is a bug of ours and keeps its traceback.
"""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Iterable

MOST_CHARACTERS = 2000


class BertkitError(Exception):
    """Something the user can mend. `remedy` says how; the command line prints both on one line."""

    exit_code = 3

    def __init__(self, problem: str, remedy: str = "") -> None:
        self.problem, self.remedy = _one_line(problem), _one_line(remedy)
        super().__init__(f"{self.problem}. {self.remedy}" if self.remedy else self.problem)


def _one_line(text: str) -> str:
    """Not longer than a reader can use, and with nothing in it that a terminal would obey: it may quote a file."""
    text = " ".join(text.split())
    text = (
        text if len(text) <= MOST_CHARACTERS else f"{text[: MOST_CHARACTERS // 2]} ... {text[-MOST_CHARACTERS // 2 :]}"
    )
    return visible(text)


def visible(text: str) -> str:
    """Without anything that a terminal would obey, for what comes out of files.

    >>> print(visible("a\\x1b[2Jb"))
    a\\x1b[2Jb
    """
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


class UsageError(BertkitError):
    """A command or function called with values that cannot work together."""

    exit_code = 2


class ConfigError(BertkitError):
    """A configuration that is malformed, or asks for something that is not supported."""


class ModelFolderError(BertkitError):
    """A model folder that is incomplete, damaged, or contradicts itself."""


class TokenizerError(BertkitError):
    """A vocabulary or tokenizer file that cannot be used."""


class InputError(BertkitError):
    """A text or a table that cannot be processed as asked."""


class CorpusError(BertkitError):
    """A folder of shards that is incomplete, damaged, or does not belong to what it is used with."""


class CheckpointError(BertkitError):
    """A checkpoint that is incomplete or damaged, or a run that has no other."""


class WriteError(BertkitError):
    """An artifact could not be written. Nothing half-written is left behind."""


class TrainingError(BertkitError):
    """A run that cannot go on as it is: the numbers do not stay finite."""


class NumbersError(BertkitError):
    """A model whose answers are not finite numbers."""


class MemoryLimitError(UsageError):
    """A step that does not fit into memory, however it is cut."""


class InterruptionError(BertkitError):
    """Work that was stopped from outside and can go on later."""

    exit_code = 4


class HubError(BertkitError):
    """A model name could not be found or fetched."""


class Notice(UserWarning):
    """Something worth knowing that is no error: the command line says it as a note."""


def tell(message: str) -> None:
    """Once, however often it comes up."""
    warnings.warn(Notice(_one_line(message)), stacklevel=1)


def nearest(name: str, choices: Iterable[str]) -> str:
    """A phrase offering the closest known name, whatever the case, or nothing: nearest("Hiden_size", ["hidden_size"])
    is "Did you mean 'hidden_size'?"."""
    spellings: dict[str, str] = {}
    for choice in choices:
        spellings.setdefault(choice.lower(), choice)
    close = difflib.get_close_matches(name.lower(), list(spellings), n=1, cutoff=0.7)
    return f"Did you mean {spellings[close[0]]!r}?" if close else ""


def shortened(value: object, limit: int = 60) -> str:
    """A value quoted for an error message, cut so that the message stays one readable line."""
    text = repr(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def with_article(name: str) -> str:
    """
    >>> with_article("bert"), with_article("ALBERT")
    ('a bert', 'an ALBERT')
    """
    return f"{'an' if name[:1].lower() in 'aeio' else 'a'} {name}"
