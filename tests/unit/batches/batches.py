"""What `prepare` made of a fetch, for tests: its records, their codec, and logs of many small batches."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.source_log import New, SourceLog, read_back
from twinlog.batches.prepare import prepare
from twinlog.errors import OffsetHoleError
from twinlog.kafka.producer.appends import (
    AbortedRecords,
    AbortMarker,
    Append,
    CopyRules,
    Markers,
    PreparedFetch,
    SourceTransaction,
)
from twinlog.kafka.record.records import Record
from twinlog.kafka.record.stamp import stamp
from twinlog.model.types import SourceOffset

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


@dataclass(slots=True)
class KeptOffsets:
    """What is appended of a log with kept offsets; `why` is the error where copying ends, if the log has more."""

    end: int
    why: str = ""
    records: list[Record] = field(default_factory=list)
    aborted: list[tuple[SourceTransaction, Record]] = field(default_factory=list)
    markers: list[int] = field(default_factory=list)
    aborts: list[tuple[SourceTransaction, int]] = field(default_factory=list)

    def add(self, append: Append) -> None:
        offsets = range(append.first_source_offset, append.next_source_offset)
        match append.step:
            case None:
                self.records += records_of(append)
            case AbortedRecords(transaction):
                self.aborted += [(transaction, record) for record in records_of(append)]
            case Markers():
                self.markers += offsets
            case AbortMarker(transaction):
                self.aborts.append((transaction, offsets[0]))


def copied_keeping_offsets(log: SourceLog, begin: int, how: CopyRules) -> KeptOffsets:
    """What is appended from an offset on: every offset of the log, in order."""
    found = KeptOffsets(begin)
    while True:
        position = SourceOffset(found.end)
        try:
            prepared = prepare(log.fetch(position), position, how, log.aborted(position))
        except OffsetHoleError as error:
            found.why = str(error)
            return found
        if prepared.position == position:
            return found
        at = position
        for append in prepared.appends:
            assert append.spans == ((at, append.count),)
            assert append.first_source_offset == at
            at = append.next_source_offset
            found.add(append)
        assert at == prepared.position
        found.end = at
