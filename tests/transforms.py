"""Transforms that tests name in settings, as users would."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc


def put(batch: Any, name: str, column: Any) -> Any:
    """The batch with another column in the place of one."""
    return batch.set_column(batch.schema.get_field_index(name), name, column)


def identity(batch: Any) -> Any:
    return batch


def shouting(batch: Any) -> Any:
    """Each value with an exclamation mark."""
    return put(batch, "value", pc.binary_join_element_wise(batch.column("value"), b"!", b""))


def odd(batch: Any) -> Any:
    """Drops records whose value is an even number."""
    return batch.filter(pa.array([int(value) % 2 == 1 for value in batch.column("value").to_pylist()], pa.bool_()))


def nothing(batch: Any) -> Any:
    """Drops all."""
    return batch.slice(0, 0)


def twice(batch: Any) -> Any:
    """Adds a record after each value that divides by three, and drops those that divide by four."""
    rows = []
    for row in batch.to_pylist():
        number = int(row["value"])
        if number % 4:
            rows.append(row)
        if number % 3 == 0 and number % 4:
            rows.append({**row, "value": row["value"] + b" again"})
    return pa.RecordBatch.from_pylist(rows, schema=batch.schema)


def no_sevens(batch: Any) -> Any:
    """Fails on values that divide by seven."""
    for value in batch.column("value").to_pylist():
        if int(value) % 7 == 0:
            raise ValueError(f"no {value.decode()}")
    return batch


def daily(batch: Any) -> Any:
    """Routes each record to a topic of its day, which is its value."""
    days = [f"day-{int(value)}" for value in batch.column("value").to_pylist()]
    return put(batch, "topic", pa.array(days, pa.string()))


def sorting(batch: Any) -> Any:
    """Routes even numbers to the topic `even`, and copies the others."""
    topics = [
        "even" if int(value) % 2 == 0 else topic
        for value, topic in zip(batch.column("value").to_pylist(), batch.column("topic").to_pylist(), strict=True)
    ]
    return put(batch, "topic", pa.array(topics, pa.string()))


def rekeyed(batch: Any) -> Any:
    """Has the value as key, and leaves the partition to it."""
    batch = put(batch, "key", batch.column("value"))
    return put(batch, "partition", pa.nulls(batch.num_rows, pa.int32()))


def away(batch: Any) -> Any:
    """Routes everything to one topic."""
    return put(batch, "topic", pa.repeat(pa.scalar("everything", pa.string()), batch.num_rows))


def first(batch: Any) -> Any:
    """Leaves everything in its topic, in the first partition."""
    return put(batch, "partition", pa.repeat(pa.scalar(0, pa.int32()), batch.num_rows))


def gathering(batch: Any) -> Any:
    """Routes everything to the first partition of one topic."""
    return first(away(batch))


def but_the_first(batch: Any) -> Any:
    """Routes everything to one topic, but what is in the first partition."""
    return away(batch) if batch.column("partition")[0].as_py() else batch


def every_other(batch: Any) -> Any:
    """Routes every other record to one topic, and copies the others."""
    away = [offset % 2 == 1 for offset in batch.column("offset").to_pylist()]
    topics = pc.if_else(pa.array(away, pa.bool_()), pa.scalar("everything", pa.string()), batch.column("topic"))
    return put(batch, "topic", topics)


def numbered(batch: Any) -> Any:
    """Routes each record to the partition of one topic that is its value."""
    numbers = [int(value) for value in batch.column("value").to_pylist()]
    return put(away(batch), "partition", pa.array(numbers, pa.int32()))


def thirds(batch: Any) -> Any:
    """Each record three times, in so many bytes that they need as many batches."""
    rows = [
        {**row, "value": row["value"] + b"." + b"%d" % third + bytes(20_000)}
        for row in batch.to_pylist()
        for third in range(3)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=batch.schema)
