"""Vectors to a file as they are computed, in constant memory: .npy, .jsonl or .parquet; or JSON lines to stdout.

A file appears under its name when it is complete.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from bertkit.errors import UsageError
from bertkit.files import atomic_file, json_line
from bertkit.infer.embedding import Floats, WordVectors


class VectorWriter:
    def __init__(self, file: IO[bytes]) -> None:
        self.file = file

    def write(self, texts: Sequence[str], vectors: Floats) -> None:
        raise NotImplementedError

    def write_words(self, texts: Sequence[str], words: Sequence[WordVectors]) -> None:
        raise NotImplementedError

    def finish(self) -> None:
        """Called when all is written."""


@contextmanager
def vector_writer(path: Path | None) -> Iterator[VectorWriter]:
    """The writer for a path's ending; JSON lines on standard output for None."""
    if path is None:
        yield _JsonLines(sys.stdout.buffer)
        return
    check_format(path)
    with atomic_file(path) as file:
        writer = FORMATS[path.suffix](file)
        yield writer
        writer.finish()


def check_format(path: Path, *, words: bool = False) -> None:
    """Called before anything is computed."""
    if path.suffix not in FORMATS:
        raise UsageError(f"{path} ends in {path.suffix!r}", f"Vectors can be written as {', '.join(FORMATS)}.")
    if words and path.suffix == ".npy":
        raise UsageError(".npy cannot hold words beside their vectors", "Write .jsonl or .parquet.")
    if path.suffix == ".parquet":
        try:
            import pyarrow  # noqa: F401
        except ImportError:
            raise UsageError("writing .parquet needs pyarrow", "pip install 'bertkit[parquet]'") from None


class _JsonLines(VectorWriter):
    def write(self, texts: Sequence[str], vectors: Floats) -> None:
        for text, vector in zip(texts, vectors, strict=True):
            self.file.write(json_line({"text": text, "vector": numbers(vector)}))

    def write_words(self, texts: Sequence[str], words: Sequence[WordVectors]) -> None:
        for text, found in zip(texts, words, strict=True):
            self.file.write(json_line({"text": text, "words": word_rows(found)}))


class _Numpy(VectorWriter):
    """A 2-dimensional float32 array whose number of rows is known only at the end: numpy leaves room in the header
    for it to grow, so the header is written again."""

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__(file)
        self.rows = self.width = 0
        self._header()

    def write(self, texts: Sequence[str], vectors: Floats) -> None:  # noqa: ARG002 only vectors fit in
        self.rows += len(vectors)
        self.width = vectors.shape[1]
        if self.rows == len(vectors):
            self._header()
        self.file.write(np.ascontiguousarray(vectors, dtype="<f4").tobytes())

    def finish(self) -> None:
        self._header()

    def _header(self) -> None:
        self.file.seek(0)
        shape = {"descr": "<f4", "fortran_order": False, "shape": (self.rows, self.width)}
        np.lib.format.write_array_header_1_0(self.file, shape)


class _Parquet(VectorWriter):
    def __init__(self, file: IO[bytes]) -> None:
        super().__init__(file)
        self.writer: Any = None
        self.texts = 0

    def write(self, texts: Sequence[str], vectors: Floats) -> None:
        import pyarrow as pa

        flat = pa.array(np.ascontiguousarray(vectors).reshape(-1))
        self._table({"text": _strings(texts), "vector": pa.FixedSizeListArray.from_arrays(flat, vectors.shape[1])})

    def write_words(self, texts: Sequence[str], words: Sequence[WordVectors]) -> None:
        """A row for each word, with its text's number in this file and its place in it."""
        import pyarrow as pa

        width = words[0].vectors.shape[1]
        flat = pa.array(np.concatenate([found.vectors for found in words]).reshape(-1))
        first = self.texts
        self.texts += len(texts)
        text_numbers = [first + number for number, found in enumerate(words) for _ in found.words]
        self._table(
            {
                "text_number": pa.array(text_numbers, pa.int64()),
                "word": _strings([word for found in words for word in found.words]),
                "start": pa.array([start for found in words for start, _ in found.spans], pa.int64()),
                "end": pa.array([end for found in words for _, end in found.spans], pa.int64()),
                "vector": pa.FixedSizeListArray.from_arrays(flat, width),
            }
        )

    def finish(self) -> None:
        if self.writer is not None:
            self.writer.close()

    def _table(self, columns: dict[str, Any]) -> None:
        import pyarrow as pa
        import pyarrow.parquet

        table = pa.table(columns)
        if self.writer is None:
            self.writer = pyarrow.parquet.ParquetWriter(self.file, table.schema)
        self.writer.write_table(table)


FORMATS: dict[str, Callable[[IO[bytes]], VectorWriter]] = {".npy": _Numpy, ".jsonl": _JsonLines, ".parquet": _Parquet}


def word_rows(found: WordVectors) -> list[dict[str, Any]]:
    """What is written of a text's words."""
    return [
        {"word": word, "start": start, "end": end, "vector": numbers(vector)}
        for word, (start, end), vector in zip(found.words, found.spans, found.vectors, strict=True)
    ]


def numbers(vector: Floats) -> list[float]:
    """Nine significant digits bring a float32 back exactly; more would only fill the disk."""
    return [float(f"{value:.9g}") for value in vector.tolist()]


def _strings(texts: Sequence[str]) -> Any:
    import pyarrow as pa

    return pa.array([text.encode("utf-8", "replace").decode("utf-8") for text in texts], pa.string())
