"""Rows that wait until a batch of their partition is full."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from twinlog.model.types import TopicName, TopicPartition
from twinlog.spark.dataframes.writer import MOST_HELD_BYTES, MOST_WAITING_BYTES, WaitingRows

HOT, RARE = (TopicPartition(TopicName("t"), number) for number in range(2))


def rows(count: int, size: int = 1_000) -> Any:
    return pa.record_batch({"value": pa.array([b"%0*d" % (size, number) for number in range(count)], pa.binary())})


def test_rows_wait_for_a_full_batch_or_until_too_many_do() -> None:
    waiting = WaitingRows(10_000)
    some = rows(6)
    waiting.add_rows(HOT, some)
    assert waiting.ready() == []
    waiting.add_rows(HOT, some)
    waiting.add_rows(RARE, some)
    assert waiting.ready() == [HOT]
    assert waiting.take_rows(HOT).column("value").to_pylist() == some.column("value").to_pylist() * 2
    assert waiting.left() == [RARE]
    large = WaitingRows(1 << 30)
    large.add_rows(RARE, some)
    large.add_rows(HOT, rows(1, MOST_WAITING_BYTES))
    assert sorted(large.ready()) == [HOT, RARE]


def test_a_row_that_waits_does_not_hold_what_was_written_meanwhile() -> None:
    waiting = WaitingRows(512 << 10)
    most, expected = 0, []
    before = pa.total_allocated_bytes()
    for _ in range(40):
        batch = rows(4_000)
        waiting.add_rows(HOT, batch.slice(0, 3_999))
        waiting.add_rows(RARE, batch.slice(3_999))
        expected.append(batch.column("value")[3_999].as_py())
        for partition in waiting.ready():
            waiting.take_rows(partition)
        waiting.note_batch(batch.nbytes)
        del batch
        most = max(most, pa.total_allocated_bytes() - before)
    assert most < MOST_HELD_BYTES + (8 << 20)
    assert waiting.left() == [RARE]
    assert waiting.take_rows(RARE).column("value").to_pylist() == expected
