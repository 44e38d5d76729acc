"""Transforms and predicates of topics: each different topic is evaluated once, however many records it has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from twinlog.errors import PatternError, TransformError
from twinlog.model.java_regex.pattern import java_pattern
from twinlog.transforms.smt.fields import Settings, text
from twinlog.transforms.smt.java_forms import DateFormat, DateFormatError, Replacement
from twinlog.transforms.smt.rows import Rows, SmtRows, replaced

_Answer = TypeVar("_Answer")
RowsTransform = Callable[[SmtRows, Rows], None]
"""Changes the rows with these numbers."""


def regex_router(settings: Settings) -> RowsTransform:
    """RegexRouter: a topic that `regex` matches as a whole gets another name."""
    pattern = java_pattern(text(settings, "regex") or "")
    replacement = Replacement(text(settings, "replacement") or "", pattern)

    def renamed(name: str) -> str:
        return replacement.first(name) if pattern.matches(name) else name

    def apply(rows: SmtRows, chosen: Rows) -> None:
        topics = rows.column("topic").dictionary_encode()
        names = topics.dictionary.to_pylist()
        new = _each(renamed, names)
        if new != names:
            _put(rows, chosen, pa.array(new, pa.string()).take(topics.indices))

    return apply


def timestamp_router(settings: Settings) -> RowsTransform:
    """TimestampRouter: the record's time, in UTC, becomes part of its topic."""
    topic_format, how = text(settings, "topic.format") or "", DateFormat(text(settings, "timestamp.format") or "")

    def apply(rows: SmtRows, chosen: Rows) -> None:
        numbers = np.arange(len(rows)) if chosen is None else chosen
        if not len(numbers):
            return
        at = pa.array(numbers, pa.int64())
        times = rows.column("timestamp").take(at)
        if times.null_count:
            raise TransformError("the record lacks a timestamp")
        ms = np.floor_divide(times.cast(pa.int64()).to_numpy(), 1000)
        topics = rows.column("topic").take(at).dictionary_encode()
        # All times with the same text share a name.
        spans, which = np.unique(np.floor_divide(ms, how.same_ms), return_inverse=True)
        pairs, places = np.unique(
            which.astype(np.int64) * len(topics.dictionary) + topics.indices.to_numpy(), return_inverse=True
        )
        names = topics.dictionary.to_pylist()
        new = []
        for pair in pairs.tolist():
            span, name = divmod(pair, len(names))
            try:
                written = how.format(int(spans[span]) * how.same_ms)
            except DateFormatError as error:
                raise TransformError(str(error)) from None
            new.append(topic_format.replace("${topic}", names[name]).replace("${timestamp}", written))
        cells = pa.array(new, pa.string()).take(pa.array(places))
        rows.replace_column("topic", replaced(rows.column("topic"), numbers, cells))

    return apply


def topic_name_matches(settings: Settings) -> Callable[[SmtRows], Any]:
    """TopicNameMatches: the expression matches the whole name."""
    pattern = java_pattern(text(settings, "pattern") or "")

    def test(rows: SmtRows) -> Any:
        topics = rows.column("topic").dictionary_encode()
        matches = _each(pattern.matches, topics.dictionary.to_pylist())
        return np.array(matches, dtype=bool)[topics.indices.to_numpy()]

    return test


def _each(function: Callable[[str], _Answer], names: list[str]) -> list[_Answer]:
    """The result of an expression for each name."""
    try:
        return [function(name) for name in names]
    except PatternError as error:
        raise TransformError(str(error)) from None


def _put(rows: SmtRows, chosen: Rows, column: Any) -> None:
    if chosen is not None:
        selected = np.zeros(len(rows), dtype=bool)
        selected[chosen] = True
        column = pc.if_else(pa.array(selected), column, rows.column("topic"))
    rows.replace_column("topic", column)
