"""Copies of aborted transactions begin once their markers are readable, also if records are read a second time."""

from __future__ import annotations

from twinlog.copier.partition.fetch_preparation import AwaitedMarkers
from twinlog.kafka.producer.appends import AbortedRecords, AbortMarker, Append, OffsetStep, PreparedFetch
from twinlog.kafka.producer.appends import SourceTransaction as Transaction
from twinlog.kafka.protocol.fetch import PartitionResponse
from twinlog.model.types import SourceOffset

OUTER, INNER, LATER = (Transaction(number, SourceOffset(begin)) for number, begin in ((7, 0), (8, 1), (9, 4)))


def at(offset: int, step: OffsetStep) -> Append:
    data = bytearray() if isinstance(step, AbortMarker) else bytearray(b"records")
    first = SourceOffset(offset)
    return Append(data, 1, first, SourceOffset(offset + 1), 0, ((first, 1),), step=step)


LOG = [
    at(0, AbortedRecords(OUTER)),
    at(1, AbortedRecords(INNER)),
    at(2, AbortMarker(OUTER)),
    at(3, AbortMarker(INNER)),
    at(4, AbortedRecords(LATER)),
]


class Reading:
    """A partition whose log has another transaction that is still open, so that its last offsets are unreadable."""

    def __init__(self) -> None:
        self.markers = AwaitedMarkers()

    def taken(self, begin: int, past: int, acknowledged: int = 0, readable: int | None = None) -> list[int]:
        """The offsets that are taken of an answer with the offsets from `begin` up to `past`.

        The offsets before `readable` may be read, by default only those of the answer.
        """
        prepared = PreparedFetch(SourceOffset(past), LOG[begin:past])
        answer = PartitionResponse(0, 0, 9, readable or past, 0, (), memoryview(b""))
        left_out = self.markers.leave_out(prepared, answer, SourceOffset(begin), SourceOffset(acknowledged))
        assert left_out == (len(prepared.appends) < past - begin)
        return [append.first_source_offset for append in prepared.appends]


def test_a_transaction_waits_unless_its_marker_is_there() -> None:
    reading = Reading()
    assert reading.taken(0, 4) == [0, 1, 2, 3]
    assert reading.taken(4, 5) == []


def test_a_transaction_within_another_transaction_does_not_wait_after_a_drop() -> None:
    """The outer transaction is open on the target. Its dropped marker leaves the inner transaction inside of it."""
    reading = Reading()
    reading.taken(0, 4)
    assert reading.taken(1, 2, acknowledged=1) == [1]


def test_a_transaction_that_was_dropped_as_a_whole_is_not_open() -> None:
    reading = Reading()
    assert reading.taken(0, 3) == [0, 1, 2]
    assert reading.taken(0, 1, readable=2) == []
    # The answer that was dropped had its marker.
    assert reading.taken(0, 1, readable=3) == [0]


def test_markers_that_the_target_has_are_forgotten() -> None:
    reading = Reading()
    reading.taken(0, 4)
    assert reading.taken(4, 5, acknowledged=4) == []
    assert not reading.markers._begun
    assert not reading.markers._markers
