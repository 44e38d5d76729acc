"""Rows that are divided to partitions, and the records that they become."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from twinlog.batches.arrow.encode import encode
from twinlog.batches.arrow.partitioning import key_partitions
from twinlog.errors import CopyError
from twinlog.kafka.protocol.produce import partition_for
from twinlog.kafka.record.batch import read_batch
from twinlog.kafka.record.records import decode_records
from twinlog.model.types import TopicName
from twinlog.spark.dataframes.outgoing import RowPartitioner, joined

NOW = 1_700_000_000_000


def divided(partitioner: RowPartitioner, **columns: Any) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for partition, rows in partitioner.split(pa.record_batch(columns), NOW):
        found.setdefault(str(partition), []).extend(rows.to_pylist())
    return found


def values(found: dict[str, list[dict[str, Any]]]) -> dict[str, list[bytes]]:
    return {where: [row["value"] for row in rows] for where, rows in found.items()}


def partitioner(topic: str | None = "t", partitions: int = 3, **more: Any) -> RowPartitioner:
    return RowPartitioner(None if topic is None else TopicName(topic), lambda _: partitions, 100, **more)


def test_keys_have_the_partitions_of_kafkas_own_hash(chance: random.Random) -> None:
    keys = [chance.randbytes(chance.randrange(40)) for _ in range(2_000)]
    column = pa.array([b"before", *keys], pa.binary()).slice(1)
    for partitions in (1, 7):
        assert key_partitions(column, partitions).tolist() == [partition_for(key, partitions) for key in keys]
    assert key_partitions(pa.array([b"", b""], pa.binary()), 50).tolist() == [partition_for(b"", 50)] * 2


def test_a_row_goes_to_its_partition_or_by_its_key_or_where_the_last_went() -> None:
    found = divided(
        partitioner(first=1),
        key=pa.array(["k", "k", None, None], pa.string()),
        value=pa.array([b"0", b"1", b"2", b"3"]),
        partition=pa.array([0, None, 2, None], pa.int32()),
    )
    expected: dict[str, list[bytes]] = {}
    for value, partition in ((b"0", 0), (b"1", partition_for(b"k", 3)), (b"2", 2), (b"3", 1)):
        expected.setdefault(f"t-{partition}", []).append(value)
    assert values(found) == expected
    ignoring = divided(partitioner(ignore_keys=True), key=pa.array([b"k", b"j"]), value=pa.array([b"0", b"1"]))
    assert values(ignoring) == {"t-0": [b"0", b"1"]}


def test_rows_without_a_key_change_their_partition_after_so_many_bytes() -> None:
    one = partitioner()
    seen = [values(divided(one, value=pa.array([bytes(40)] * 5))) for _ in range(3)]
    assert {where for found in seen for where in found} == {"t-0", "t-1", "t-2"}
    assert sum(len(rows) for found in seen for rows in found.values()) == 15
    assert all(len(rows) <= 3 for found in seen for rows in found.values())


def test_many_runs_are_sorted_and_keep_their_order(chance: random.Random) -> None:
    numbers = [chance.randrange(3) for _ in range(500)]
    found = divided(
        partitioner(None),
        topic=pa.array([f"t{number % 2}" for number in range(500)]),
        value=pa.array([str(number) for number in range(500)]),
        partition=pa.array(numbers, pa.int32()),
    )
    for where, rows in values(found).items():
        expected = [str(at).encode() for at in range(500) if where == f"t{at % 2}-{numbers[at]}"]
        assert rows == expected
    assert sum(map(len, found.values())) == 500


def test_timestamps_and_headers_stay_and_now_is_the_time_of_those_without_one() -> None:
    times = pa.array([5_000, None, 7_999], pa.timestamp("us", tz="Europe/Berlin"))
    headers = pa.array(
        [[{"key": "h", "value": b"1"}, {"key": "h", "value": None}], None, []],
        pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
    )
    ((rows),) = divided(
        partitioner(partitions=1), value=pa.array([b"a", b"b", b"c"]), timestamp=times, headers=headers
    ).values()
    assert [round(row["timestamp"].timestamp() * 1e6) for row in rows] == [5_000, NOW * 1_000, 7_999]
    assert [row["headers"] for row in rows] == headers.to_pylist()
    ((rows),) = divided(partitioner(partitions=1), value=pa.array([b"a"])).values()
    assert rows[0]["timestamp"].timestamp() * 1_000 == NOW


def test_records_without_a_timestamp_are_written_as_they_were_read() -> None:
    times = pa.array([-1_000, 5_000, -1_000, None], pa.timestamp("us", tz="UTC"))
    ((rows),) = (
        rows
        for _, rows in partitioner(partitions=1).split(
            pa.record_batch({"value": list("abcd"), "timestamp": times}), NOW
        )
    )
    (data,) = encode(rows, most_bytes=10_000)
    found = read_batch(memoryview(data), 0)
    assert found is not None
    assert [record.timestamp for record in decode_records(data, found)] == [-1, 5, -1, NOW]


def test_rows_of_a_batch_without_headers_are_joined_with_those_of_one_that_has_some() -> None:
    """Spark hands over some thousand rows at once, and headers may be rare."""
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    rows_of = partitioner(partitions=1)
    waiting = []
    for cell in (None, [{"key": "h", "value": b"1"}], None):
        batch = pa.record_batch({"value": pa.array([b"a"]), "headers": pa.array([cell], kind)})
        waiting += [rows for _, rows in rows_of.split(batch, NOW)]
    together = joined(waiting)
    assert together.column("headers").to_pylist() == [None, [{"key": "h", "value": b"1"}], None]
    (data,) = encode(together, most_bytes=10_000)
    found = read_batch(memoryview(data), 0)
    assert found is not None
    assert [record.headers for record in decode_records(data, found)] == [(), (("h", b"1"),), ()]


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"topic": pa.array(["t", None]), "value": pa.array(["a", "b"])}, "null topic present in the data"),
        (
            {"value": pa.array(["a"]), "partition": pa.array([3], pa.int32())},
            "partition 3, and topic t has partitions 0 to 2",
        ),
        ({"value": pa.array(["a"]), "partition": pa.array([-1], pa.int32())}, "partition -1"),
        (
            {"value": pa.array(["a", "b"]), "timestamp": pa.array([-1_000, -5_000], pa.timestamp("us", tz="UTC"))},
            r"Invalid timestamp: -5\. Timestamp should always be non-negative or null; or -1 \(1969-12-31",
        ),
        (
            {"value": pa.array(["a"]), "timestamp": pa.array([-999], pa.timestamp("us", tz="UTC"))},
            "Invalid timestamp",
        ),
        (
            {
                "value": pa.array(["a"]),
                "headers": pa.array(
                    [[{"key": None, "value": b"v"}]], pa.list_(pa.struct({"key": pa.string(), "value": pa.binary()}))
                ),
            },
            "a keyless header",
        ),
    ],
)
def test_a_row_that_cannot_be_a_record_is_refused(columns: dict[str, Any], words: str) -> None:
    with pytest.raises(CopyError, match=words):
        divided(partitioner(None if "topic" in columns else "t"), **columns)


@pytest.mark.parametrize("partition", [99, 3, -1])
def test_a_partition_that_the_topic_does_not_have_is_refused_with_its_number(partition: int) -> None:
    with pytest.raises(CopyError, match=rf"a row has partition {partition}, and topic t has partitions 0 to 2"):
        divided(partitioner(), partition=pa.array([0, partition], pa.int32()), value=pa.array([b"0", b"1"]))
