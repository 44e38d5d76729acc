"""Rows of one fetch: which way records are decoded, and what comes out of rare batches."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.source_log import New, SourceLog
from twinlog.batches.arrow import decode as module
from twinlog.batches.arrow.arrays import LOCK_STEP_FROM, find_starts, schema
from twinlog.batches.arrow.decode import RowRules, decode
from twinlog.errors import CopyError
from twinlog.kafka.record.batch import HEADER_SIZE, scan
from twinlog.kafka.record.builder import encode_batch
from twinlog.kafka.record.varint import encode_varint
from twinlog.model.types import TopicName, TopicPartition

NOW = 1_700_000_000_000
WHERE = TopicPartition(TopicName("t"), 3)
END = 2**62


def refuse(*_: Any) -> Any:
    raise AssertionError("these records need not be decoded one by one")


@pytest.fixture
def only_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "decode_exactly", refuse)


def values(found: module.Rows) -> list[bytes | None]:
    return [value for batch in found.batches for value in batch.column("value").to_pylist()]


@pytest.mark.usefixtures("only_fast")
@pytest.mark.parametrize("batches", [1, LOCK_STEP_FROM + 5])
@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_lengths_of_every_size_take_the_fast_way(batches: int, codec: str, chance: random.Random) -> None:
    """Around each size where a length takes one byte more, in one batch and in many."""
    log = SourceLog()
    sizes = [0, 1, 50, 57, 58, 63, 64, 127, 128, 8_180, 8_191, 8_192, 70_000]
    for _ in range(batches):
        chance.shuffle(sizes)
        log.batch(
            [New(NOW + size, chance.randbytes(size), None if size % 2 else b"k" * (size % 300)) for size in sizes],
            codec=codec,
        )
        log.gap(chance.choice([0, 7]))
    found = decode(log.fetch(), WHERE, 0, END, RowRules())
    assert values(found) == [record.value for record in log.visible()]
    assert [key for batch in found.batches for key in batch.column("key").to_pylist()] == [
        record.key for record in log.visible()
    ]


def test_batches_in_step_have_the_places_of_batches_alone(chance: random.Random) -> None:
    """Batches of all sizes, with records of up to three bytes of length."""
    log = SourceLog()
    for _ in range(LOCK_STEP_FROM * 6):
        log.batch([New(NOW, chance.randbytes(chance.choice([0, 60, 9_000]))) for _ in range(chance.randint(1, 9))])
    fetched = log.fetch()
    array = np.frombuffer(fetched, dtype=np.uint8)
    batches = [([one.start + HEADER_SIZE], [one.end], [one.record_count]) for one in scan(fetched)]
    begins, ends, counts = ([one[field][0] for one in batches] for field in range(3))
    assert sum(counts) >= LOCK_STEP_FROM * max(counts)
    alone = [place for one in batches for place in find_starts(fetched, array, *one).tolist()]
    assert find_starts(fetched, array, begins, ends, counts).tolist() == alone


@pytest.mark.usefixtures("only_fast")
@pytest.mark.parametrize("delta", [2**k + d for k in (6, 13, 20, 27, 34, 41, 48, 53) for d in (-1, 0)])
@pytest.mark.parametrize("sign", [1, -1])
def test_timestamps_as_far_apart_as_can_be_take_the_fast_way(delta: int, sign: int) -> None:
    body = encode_varint(-1) + encode_varint(-1) + b"\x00"
    fetched = memoryview(encode_batch([(0, body), (sign * delta, body)]))
    (batch,) = decode(fetched, WHERE, 0, END, RowRules(check_crcs=False)).batches
    assert batch.column("timestamp").cast(pa.int64()).to_pylist() == [0, sign * delta * 1000]


def test_a_timestamp_that_spark_cannot_hold_is_refused_by_its_place() -> None:
    log = SourceLog()
    log.batch([New(2**62, b"v")])
    with pytest.raises(CopyError, match=r"t-3: the record at offset 0 .* can begin after it"):
        decode(log.fetch(), WHERE, 0, 9, RowRules())


def test_a_large_fetch_becomes_several_record_batches(monkeypatch: pytest.MonkeyPatch, chance: random.Random) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 2_000)
    log = SourceLog()
    for _ in range(9):
        log.batch([New(NOW, chance.randbytes(700))], codec=chance.choice(["none", "zstd"]))
    found = decode(log.fetch(), WHERE, 0, END, RowRules())
    assert [batch.num_rows for batch in found.batches] == [3, 3, 3]
    assert values(found) == [record.value for record in log.visible()]


def test_nothing_refers_to_the_fetched_bytes() -> None:
    """Their memory serves another fetch as soon as no view of it is left."""
    log = SourceLog()
    log.batch([New(NOW, b"value", b"key", (("h", b"content"),))] * 5)
    fetched = log.fetch()
    found = decode(fetched, WHERE, 0, END, RowRules(headers=True))
    fetched[:] = bytes(len(fetched))
    assert values(found) == [b"value"] * 5
    assert found.batches[0].column("headers").to_pylist() == [[{"key": "h", "value": b"content"}]] * 5
    fetched.release()


def test_a_header_name_that_is_no_text_is_replaced_as_for_a_single_record() -> None:
    body = encode_varint(-1) * 2 + encode_varint(1) + encode_varint(2) + b"\xffx" + encode_varint(-1)
    fetched = memoryview(encode_batch([(NOW, body)]))
    (batch,) = decode(fetched, WHERE, 0, END, RowRules(headers=True, check_crcs=False)).batches
    assert batch.column("headers").to_pylist() == [[{"key": "\ufffdx", "value": None}]]


def test_the_columns_are_those_of_sparks_own_source() -> None:
    assert [field.name for field in schema(headers=True)] == [
        *("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
    ]
    assert [field.name for field in schema(headers=False)][-1] == "timestampType"


def test_more_bytes_than_arrow_has_places_for_come_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch of zeros may be 1 MB on the wire and 2 GB here; the bounds are lowered, so that a small one is as one."""
    monkeypatch.setattr(module, "MOST_TOGETHER", 999)
    monkeypatch.setattr(module, "MOST_BYTES", 250)
    log = SourceLog()
    log.batch([New(NOW, bytes(100)) for _ in range(10)], codec="zstd")
    found = decode(log.fetch(), WHERE, 0, END, RowRules(headers=True))
    assert [batch.num_rows for batch in found.batches] == [3, 3, 3, 1]
    assert values(found) == [bytes(100)] * 10
    assert found.position == 10
