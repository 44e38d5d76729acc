"""A record that a transform failed on, as it is written to the dead-letter topic and shown in the log."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from twinlog.model.types import TopicPartition
from twinlog.settings.transform import TransformSettings
from twinlog.transforms.apply import Failure

PREFIX = "__connect.errors."
MOST_SHOWN = 200
"""Bytes of a key or a value that the log shows."""


def dead_letter(failure: Failure, settings: TransformSettings, flow: str, source: TopicPartition) -> Any:
    """The record as it was, for the dead-letter topic; its partition there is found by the key.

    With `dead_letter_headers` it has the context that Connect adds (class DeadLetterQueueReporter), but for the stack
    trace.
    """
    row = failure.row.to_pylist()[0]
    row["topic"], row["partition"] = settings.dead_letter_topic, None
    if settings.dead_letter_headers:
        context = {
            "topic": source.topic,
            "partition": str(source.partition),
            "offset": str(failure.offset),
            "connector.name": flow,
            "stage": "TRANSFORMATION",
            "class.name": settings.shown,
            "exception.class.name": failure.kind,
            "exception.message": failure.reason,
        }
        added = [{"key": PREFIX + name, "value": text.encode()} for name, text in context.items()]
        row["headers"] = [*(row["headers"] or ()), *added]
    return pa.RecordBatch.from_pylist([row], schema=failure.row.schema)


def shown(row: Any) -> str:
    """Key and value of a record, for the log."""
    key, value = (row.column(name)[0].as_py() for name in ("key", "value"))
    return f"key {_shown(key)}, value {_shown(value)}"


def _shown(cell: bytes | None) -> str:
    if cell is None or len(cell) <= MOST_SHOWN:
        return repr(cell)
    return f"{cell[:MOST_SHOWN]!r} and {len(cell) - MOST_SHOWN} bytes more"
