"""Parquet: only the column with the text is read, a slice at a time.

Strings are asked for as a dictionary, so that a file which says "this long text, a million times" costs that text
once. Places are rows, counted from 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from bertkit.corpus.reading.records import Problem, ReadOptions, Record, decoded, excerpt, no_such_field, too_long
from bertkit.corpus.reading.sources import Source
from bertkit.corpus.reading.tables import Rows
from bertkit.errors import InputError

MOST_ROWS = 2**16


def parquet_rows(source: Source, options: ReadOptions, on_read: Callable[[int], None]) -> Iterator[Rows]:
    """The rows of the column `options.field`, some at a time; a file that cannot be read on says why in the end."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise InputError(
            f"{source.name} is Parquet, and pyarrow is not installed", "pip install 'bertkit[parquet]'"
        ) from None
    if source.compression:
        reason = f"Parquet inside {source.compression}; Parquet is compressed by itself"
        yield _only(Problem(None, reason, "", "Decompress it first."))
        return
    row = 1
    try:
        if problem := _wrong_column(parquet.read_schema(source.path), options.field):
            yield _only(problem)
            return
        with parquet.ParquetFile(source.path, read_dictionary=[options.field]) as file:
            for values in _slices(file, source, options, on_read):
                for part in _parts(values, options.block_bytes):
                    size = sum(len(raw or b"") for raw in part)
                    yield Rows(row, [_text_of(number, raw, options) for number, raw in enumerate(part, row)], size)
                    row += len(part)
    except (FileNotFoundError, PermissionError) as problem:
        yield _only(Problem(None, f"could not be read: {problem.strerror}", ""))
    except (pyarrow.ArrowException, OSError, ValueError, MemoryError) as problem:
        reason = " ".join(str(problem).split())[:200]
        yield _only(Problem(row if row > 1 else None, f"damaged Parquet: {reason}", ""))


def _only(problem: Problem) -> Rows:
    return Rows(problem.line or 1, [problem], 0)


def _parts(values: Iterator[bytes | None], block_bytes: int) -> Iterator[list[bytes | None]]:
    """Rows are expected to be alike in size; where they are not, a part is still no larger than it has to be."""
    part: list[bytes | None] = []
    size = 0
    for raw in values:
        part.append(raw)
        size += len(raw or b"")
        if size >= block_bytes:
            yield part
            part, size = [], 0
    if part:
        yield part


def _wrong_column(schema: Any, field: str) -> Problem | None:
    from pyarrow import types

    times = schema.names.count(field)
    if times != 1:
        if times:
            return Problem(None, f"{times} columns are called {field!r}", "", "Give each a name of its own.")
        return no_such_field(1, "column", field, schema.names, ", ".join(schema.names))._replace(line=None)
    kind = schema.field(field).type
    if types.is_dictionary(kind):
        kind = kind.value_type
    if types.is_string(kind) or types.is_large_string(kind):
        return None
    return Problem(None, f"the column {field!r} holds {kind}, not text", "", "Choose another with `field`.")


def _slices(
    file: Any, source: Source, options: ReadOptions, on_read: Callable[[int], None]
) -> Iterator[Iterator[bytes | None]]:
    groups, told = file.num_row_groups, 0
    for group in range(groups):
        facts = file.metadata.row_group(group)
        columns = map(facts.column, range(facts.num_columns))
        size = sum(column.total_uncompressed_size for column in columns if column.path_in_schema == options.field)
        row_size = max(1, size // max(1, facts.num_rows))
        rows = min(MOST_ROWS, max(1, options.block_bytes // row_size))
        for batch in file.iter_batches(rows, row_groups=[group], columns=[options.field]):
            yield _values(batch.column(0))
        done = (source.size or 0) * (group + 1) // groups
        on_read(done - told)
        told = done


def _values(column: Any) -> Iterator[bytes | None]:
    import pyarrow

    if not pyarrow.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    words = column.dictionary.cast(pyarrow.large_binary()).to_pylist()
    return (None if index is None else words[index] for index in column.indices.to_pylist())


def _text_of(row: int, raw: bytes | None, options: ReadOptions) -> Record | Problem:
    if raw is None:
        return Problem(row, f"{options.field!r} is null, not text", "")
    if len(raw) > options.max_record_bytes:
        return too_long(row, len(raw), raw[:1024], options)
    text = decoded(row, raw)
    if isinstance(text, str):
        return Record(row, text)
    return text._replace(line=row, excerpt=text.excerpt or excerpt(raw))
