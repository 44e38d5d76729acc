"""Applies a transform to rows, and finds the records that it fails on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from twinlog.errors import EngineError, TransformError
from twinlog.model.types import SourceOffset
from twinlog.transforms.contract import checked
from twinlog.transforms.function import Transform


@dataclass(frozen=True, slots=True)
class FailedRow:
    """A record that a transform failed on, as its row, and the reason."""

    row: Any
    offset: SourceOffset
    reason: str
    kind: str
    """The name of the exception's class, with its module."""


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
        return FailedRow(row, offset, error.message, f"{kind.__module__}.{kind.__qualname__}")
    return FailedRow(row, offset, f"it raises {kind.__name__}: {error}", f"{kind.__module__}.{kind.__qualname__}")
