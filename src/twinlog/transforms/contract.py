"""A transform's type, its application to rows, and the contract of its result.

A record against the contract would be lost or misplaced, so each batch is checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from twinlog.batches.arrow.arrays import schema
from twinlog.errors import EngineError, TransformError
from twinlog.model.topic_names import check_name
from twinlog.model.types import SourceOffset

Transform = Callable[[Any], Any]
"""`pa.RecordBatch -> pa.RecordBatch`, both with the columns of `arrow.arrays.schema(headers=True)`.

`topic` is the remote topic; another name in it routes the record. `partition` is the source's number and the partition
that the record goes to; null leaves the choice to the key (Kafka's default partitioner). `offset` is the source's, and
names the record that a row comes from. A missing offset drops its record. An added row repeats the offset of its
record, after that record. The same records must give the same rows, whatever batches they come in.
"""

_EXPECTED = schema(headers=True)


def checked(given: Any, returned: Any) -> Any:
    """The transform's rows for `given`, in the columns, order and types of rows.

    Raises TransformError.

    Columns of another type are taken if each value fits: for example text for a key, or milliseconds for a timestamp.
    """
    if not isinstance(returned, pa.RecordBatch):
        raise TransformError(f"it returns {type(returned).__name__} instead of pyarrow.RecordBatch")
    rows = returned if returned.schema.equals(_EXPECTED) else _in_our_columns(returned)
    for name in ("topic", "offset"):
        if rows.column(name).null_count:
            raise TransformError(f"it returns a null in the column {name!r}")
    if rows.num_rows:
        _check_offsets(given, rows)
        _check_topics(given.column("topic")[0], rows.column("topic"))
        least = pc.min(rows.column("partition")).as_py()
        if least is not None and least < 0:
            raise TransformError(f"it returns the partition {least}; null leaves it to the key")
        headers = rows.column("headers").flatten()
        if headers.null_count or headers.field("key").null_count:
            # A nameless header is unreadable for every consumer.
            raise TransformError("it returns a header that lacks a name")
    return rows


def checking(function: Transform) -> Transform:
    """The same transform with a checked result, in the columns and types of rows."""
    return lambda rows: checked(rows, function(rows))


def _in_our_columns(returned: Any) -> Any:
    names = returned.schema.names
    missing = [name for name in _EXPECTED.names if names.count(name) != 1]
    if missing or len(names) > len(_EXPECTED.names):
        raise TransformError(f"it returns the columns {', '.join(names)}; expected are {', '.join(_EXPECTED.names)}")
    columns = []
    for wanted in _EXPECTED:
        column = returned.column(wanted.name)
        try:
            columns.append(column if column.type.equals(wanted.type) else column.cast(wanted.type))
        except pa.ArrowException as error:
            raise TransformError(
                f"it returns {column.type} in the column {wanted.name!r}, which is {wanted.type}: {error}"
            ) from None
    return pa.RecordBatch.from_arrays(columns, schema=_EXPECTED)


def _check_offsets(given: Any, rows: Any) -> None:
    ours, theirs = offsets_of(given), offsets_of(rows)
    if np.array_equal(ours, theirs):
        return
    if (theirs[1:] < theirs[:-1]).any():
        at = int(np.flatnonzero(theirs[1:] < theirs[:-1])[0])
        raise TransformError(
            f"it returns the offset {theirs[at + 1]} after {theirs[at]}; offsets must stay equal or grow"
        )
    place = np.minimum(np.searchsorted(ours, theirs), max(0, len(ours) - 1))
    strange = np.flatnonzero(ours[place] != theirs) if len(ours) else np.arange(len(theirs))
    if len(strange):
        raise TransformError(f"it returns the offset {theirs[strange[0]]}, which is outside of its input")


def _check_topics(remote: Any, topics: Any) -> None:
    # Topics are checked with the records, so that an error names a record and may be tolerated.
    if not pc.all(pc.equal(topics, remote)).as_py():
        for name in pc.unique(topics).to_pylist():
            if name != remote.as_py():
                check_name(name)


def offsets_of(rows: Any) -> Any:
    """The column of offsets as a vector on the same memory; it is free of nulls."""
    column = rows.column("offset")
    return np.frombuffer(column.buffers()[1] or b"", dtype=np.int64)[column.offset : column.offset + len(column)]


def try_on_nothing(function: Transform) -> None:
    """Apply a transform to an empty batch, as `twinlog check` does. Raises TransformError."""
    empty = pa.RecordBatch.from_pylist([], schema=_EXPECTED)
    try:
        checked(empty, function(empty))
    except TransformError as error:
        raise TransformError(f"for an empty batch {error}") from None
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise TransformError(f"for an empty batch it raises {type(error).__name__}: {error}") from error


@dataclass(frozen=True, slots=True)
class FailedRow:
    """A record that a transform failed on, as its row, and the reason."""

    row: Any
    offset: SourceOffset
    reason: str
    kind: str
    """The name of the exception's class, with its module."""
    message_id: str = ""
    """The id of the reason, if it has an id of its own."""


def apply(
    function: Transform,
    rows: Any,
    tolerate: Callable[[FailedRow], None],
    begin: Callable[[SourceOffset], None] = lambda offset: None,
    check: Callable[[Any], None] = lambda made: None,
) -> Iterator[Any]:
    """Yield the transform's rows, in order.

    A record that the transform fails on is given to `tolerate` and left out.

    If the transform fails on rows, each half is tried by itself, down to single records. `tolerate` may raise; then all
    rows before the record were yielded. `begin` may raise, too; it is called with the first source offset of any rows
    before the transform gets them. `check` raises TransformError for rows that the target would refuse. Raises
    EngineError if the evaluator of the transform is at fault, in place of a record.
    """
    begin(SourceOffset(rows.column("offset")[0].as_py()))
    try:
        made = checked(rows, function(rows))
        check(made)
    except (KeyboardInterrupt, EngineError):
        raise
    except BaseException as error:
        # SystemExit counts, too, and the panics of libraries in Rust: both are outside Exception.
        if rows.num_rows == 1:
            tolerate(_failure(rows, error))
            return
    else:
        yield made
        return
    middle = rows.num_rows // 2
    yield from apply(function, rows.slice(0, middle), tolerate, begin, check)
    yield from apply(function, rows.slice(middle), tolerate, begin, check)


def _failure(row: Any, error: BaseException) -> FailedRow:
    kind = type(error)
    offset = SourceOffset(row.column("offset")[0].as_py())
    if isinstance(error, TransformError):
        return FailedRow(row, offset, error.message, f"{kind.__module__}.{kind.__qualname__}", error.message_id)
    return FailedRow(row, offset, f"it raises {kind.__name__}: {error}", f"{kind.__module__}.{kind.__qualname__}")
