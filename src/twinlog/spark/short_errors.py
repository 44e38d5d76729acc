"""Shortens the error of a query that fails by a twinlog error to that error's sentence.

Spark makes its workers print a stack trace before each error.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from twinlog.errors import TwinlogError

T = TypeVar("T")

HIDE = "SPARK_HIDE_TRACEBACK"
"""Spark sets it for `spark.sql.execution.pyspark.udf.hideTraceback.enabled`.

A worker that has reported an error ends, so errors of other code keep their stack traces.
"""


def without_trace(kind: type[T]) -> type[T]:
    """A class whose public methods, called by Spark, report an error of twinlog's without a stack trace."""
    for name, method in list(vars(kind).items()):
        if inspect.isfunction(method) and not name.startswith("_"):
            setattr(kind, name, _shortly(method))
    return kind


def _shortly(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def called(*args: Any, **kwargs: Any) -> Any:
        try:
            result = method(*args, **kwargs)
        except TwinlogError:
            os.environ[HIDE] = "1"
            raise
        return _each(result) if isinstance(result, Iterator) else result

    return called


def _each(results: Iterator[Any]) -> Iterator[Any]:
    try:
        yield from results
    except TwinlogError:
        os.environ[HIDE] = "1"
        raise
