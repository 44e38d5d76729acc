"""The contract of a transform's result, checked for each batch: a record against it would be lost or misplaced."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from twinlog.arrow.arrays import schema
from twinlog.errors import TransformError
from twinlog.model.topic_names import check_name
from twinlog.transforms.function import Transform

_EXPECTED = schema(headers=True)


def checked(given: Any, returned: Any) -> Any:
    """The transform's rows for `given`, in the columns, order and types of rows.

    Raises TransformError.

    Columns of another type are taken if each value fits: for example text for a key, or milliseconds for a timestamp.
    """
    if not isinstance(returned, pa.RecordBatch):
        raise TransformError(f"it returns {type(returned).__name__}, not pyarrow.RecordBatch")
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
            raise TransformError("it returns a header without a name")
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
        raise TransformError(f"it returns the offset {theirs[at + 1]} after {theirs[at]}; offsets must not decrease")
    place = np.minimum(np.searchsorted(ours, theirs), max(0, len(ours) - 1))
    strange = np.flatnonzero(ours[place] != theirs) if len(ours) else np.arange(len(theirs))
    if len(strange):
        raise TransformError(f"it returns the offset {theirs[strange[0]]}, which it was not given")


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
