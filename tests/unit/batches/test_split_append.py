from __future__ import annotations

import pytest

from tests.source_log import New, SourceLog, read_back
from twinlog.batches.prepare import prepare
from twinlog.batches.split import split_append
from twinlog.kafka.producer.appends import Append, CopyRules
from twinlog.kafka.record.compression import CODECS
from twinlog.kafka.record.stamp import stamp


def refused(codec: str) -> Append:
    """An append of 40 records with a hole in its source offsets, as it was sent."""
    log = SourceLog(100)
    values = [bytes((number + place * place) % 251 for place in range(120)) for number in range(20)]
    log.batch([New(50 - number, value) for number, value in enumerate(values)], codec=codec, append_time=None)
    log.gap(1_000)
    log.batch([New(90 + number, value) for number, value in enumerate(values)], codec=codec, last_delta=30)
    (append,) = prepare(log.fetch(), 0, CopyRules()).appends
    stamp(append.data, 5, 1, 300)
    return append


@pytest.mark.parametrize("codec", CODECS)
def test_keeps_records_codec_and_source_offsets(codec: str) -> None:
    append = refused(codec)
    assert append.spans == ((100, 20), (1_120, 20))
    _, whole = read_back(append.data)
    parts = split_append(append, CopyRules(max_batch_bytes=append.bytes * 2 // 3))
    assert len(parts) > 1
    assert all(part.bytes <= append.bytes * 2 // 3 for part in parts)
    found = []
    for part in parts:
        stamp(part.data, 5, 2, 0)
        header, records = read_back(part.data)
        assert header.compression_type == CODECS[codec]
        assert part.max_timestamp == header.max_timestamp == max(record.timestamp for record in records)
        found += records
    assert [record[1:] for record in found] == [record[1:] for record in whole]
    offsets = [first + index for part in parts for first, count in part.spans for index in range(count)]
    assert offsets == [*range(100, 120), *range(1_120, 1_140)]
    assert [part.first_source_offset for part in parts] == [part.spans[0][0] for part in parts]
    assert parts[-1].next_source_offset == append.next_source_offset == 1_151
    assert [part.next_source_offset for part in parts[:-1]] == [sum(part.spans[-1]) for part in parts[:-1]]


def test_a_record_too_large_alone_gets_an_append_of_its_own() -> None:
    log = SourceLog(100)
    log.batch([New(number, b"." * size) for number, size in enumerate((50, 900, 50, 50))])
    (append,) = prepare(log.fetch(), 0, CopyRules()).appends
    parts = split_append(append, CopyRules(max_batch_bytes=300))
    assert [part.spans for part in parts] == [((100, 1),), ((101, 1),), ((102, 2),)]
    assert [part.bytes > 300 for part in parts] == [False, True, False]
    assert [part.next_source_offset for part in parts] == [101, 102, 104]
