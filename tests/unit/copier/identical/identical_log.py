"""A partition whose copies keep their offsets, for tests: its two logs, and their comparison."""

from __future__ import annotations

from typing import Any

from harness.virtual.faults import Fault
from harness.virtual.log import VirtualLog
from harness.virtual.requests import PRODUCE, topics_of
from tests.unit.copier.copied import REMOTE, TOPIC, World
from tests.unit.copier.identical.test_identical_transactions import SourceProducer
from twinlog.kafka.record.records import Record
from twinlog.lease.messages import Grant
from twinlog.mirror.offsets.positions import Position

VALUES = [b"%d" % number for number in range(40)]


def logs(here: World) -> tuple[VirtualLog, VirtualLog]:
    return here.source.log(TOPIC), here.target.log(REMOTE)


def visible(log: VirtualLog) -> list[Record]:
    return [record for record in log.records() if record.offset >= log.start]


def same(here: World) -> bool:
    """Whether both logs have the same records at the same offsets, and the same bounds."""
    source, target = logs(here)
    return (source.start, source.end, visible(source)) == (target.start, target.end, visible(target))


def again(here: World) -> Grant:
    return here.grant(position=here.stored())


def trim(here: World, offset: int) -> None:
    here.source.log(TOPIC).delete_before(offset)


def lose_caught_up(here: World) -> None:
    """A copier has copied everything and stored its position, and is lost."""
    copier = here.begin()
    here.until(lambda: same(here))
    here.pass_by(3)
    here.crash(copier)


def require_once_where_late(here: World, late: bytes) -> None:
    """An append of a dead copier comes between the look of the next copier and that copier's first append."""
    arrived: list[int] = []

    def arrive(key: int, request: Any) -> None:
        if key == PRODUCE and not arrived and REMOTE in topics_of(key, request):
            arrived.append(here.target.log(REMOTE).append(late)[0])

    here.target.carried_out = arrive
    here.begin(again(here))
    here.until(lambda: same(here))
    assert arrived == [0]
    assert here.held == []


SINGLY = {"merge_batch_bytes": 0, "max_in_flight": 1}
"""Settings of a producer that sends a batch of the source at a time, so that others wait."""


def transact(here: World) -> None:
    """A transaction with a record."""
    one = SourceProducer(here, 7)
    one.send(b"in it")
    one.end(commit=True)


def begun_at_31(here: World) -> Position:
    """The position of a copier that ends before it fills the offsets up to 31."""
    here.feed(VALUES)
    trim(here, 31)
    here.target.fault(PRODUCE, Fault(lost=True), times=1_000, topic=REMOTE)
    here.crash(here.begin())
    here.target.faults.clear()
    stored = here.stored()
    assert stored is not None
    assert (stored.next_target, stored.kept_from, here.target.log(REMOTE).end) == (0, 31, 0)
    return stored
