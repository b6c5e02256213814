"""What a long preparation tells while it works. Here it tells nobody; the command line draws bars."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class ReadingProgress:
    def read(self, count: int) -> None:
        """So many more bytes of the files on disk were read."""

    def digested(self, count: int, documents: int) -> None:
        """So many more bytes of text, and documents, are done."""


class Progress:
    @contextmanager
    def reading(
        self,
        total: int | None,  # noqa: ARG002
        title: str = "reading and encoding",  # noqa: ARG002
    ) -> Iterator[ReadingProgress]:
        """The stage that takes nearly all the time; `total` bytes are to be read, if that is known."""
        yield ReadingProgress()

    @contextmanager
    def working(self, title: str) -> Iterator[None]:  # noqa: ARG002
        """A stage that takes little time."""
        yield
