"""What `prepare` made of a fetch, for tests: its records, their codec, and logs of many small batches."""

from __future__ import annotations

from tests.source_log import New, SourceLog, read_back
from twinlog.kafka.producer.appends import Append, CopyRules, PreparedFetch
from twinlog.kafka.record.records import Record
from twinlog.kafka.record.stamp import stamp

ONE_BY_ONE = CopyRules(merge_below=0)
BIG = b"v" * 20_000


def records_of(append: Append) -> list[Record]:
    """The records of an append with their source offsets."""
    stamp(append.data, 1, 0, 0)
    _, inside = read_back(append.data)
    offsets = [first + index for first, count in append.spans for index in range(count)]
    return [record._replace(offset=offset) for record, offset in zip(inside, offsets, strict=True)]


def all_records(prepared: PreparedFetch) -> list[Record]:
    return [record for append in prepared.appends for record in records_of(append)]


def codec_of(append: Append) -> int:
    return append.data[22] & 7


def rows(log: SourceLog, count: int, *, codec: str = "none", value: bytes = b"value", each: int = 1) -> None:
    for number in range(count):
        log.batch([New(1_000 + number, value)] * each, codec=codec)
