"""A log that still grows is no place to begin: it is waited for, for a time, and anew by whoever takes it again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from harness.virtual.loop import VirtualLoop, virtual_loop
from harness.virtual.requests import PRODUCE
from tests.unit.copier.copied import REMOTE, World, part, world
from twinlog.copier.copier import Copier
from twinlog.copier.start.first_look import AT_MOST_S, STILL_S, LogsAtRest
from twinlog.kafka.protocol.error_codes import Code
from twinlog.lease.messages import Grant
from twinlog.mirror.offsets.positions import Position
from twinlog.model.types import TopicPartition

MOVING = part(0, REMOTE)


@contextmanager
def another_writer(here: World) -> Iterator[None]:
    """Somebody else appends to the remote topic, more often than a log may grow at rest."""
    going_on = True

    async def write() -> None:
        while going_on:
            here.target.write(REMOTE, b"foreign")
            await here.loop.sleep(STILL_S / 4)

    here.loop.start(write)
    yield
    going_on = False


class Lagging:
    """A cluster whose followers are out of sync: the high watermark of each log stays below its end."""

    alias = "south"

    def __init__(self, loop: VirtualLoop) -> None:
        self.loop = loop

    async def list_offsets(
        self, partitions: Sequence[TopicPartition], _at: int, *, log_end: bool = False, **_: Any
    ) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 9 if log_end else 5)


def test_a_log_with_records_above_its_high_watermark_is_not_at_rest_and_says_so() -> None:
    with virtual_loop(1) as loop:
        cluster: Any = Lagging(loop)
        logs = LogsAtRest(cluster)
        for _ in range(int(2 * AT_MOST_S / STILL_S)):
            assert loop.run(logs.find_ends, [MOVING]) == {}
        assert str(logs.error_of(MOVING)).startswith(
            f"cluster south: {MOVING} has records above its high watermark, as with too few replicas"
        )


def taken(here: World, copier: Copier, grant: Grant) -> Callable[[], bool]:
    """Take a partition; whether it has begun."""
    here.loop.start(copier.begin_partitions, copier.add_grants([grant]))
    return lambda: grant.source in copier.partitions


def test_a_log_that_grows_is_waited_for_and_anew_once_it_is_taken_again() -> None:
    with world() as here, another_writer(here):
        copier = here.open()
        lost = here.grant(0, Position(0, 0))
        begun = taken(here, copier, lost)
        here.pass_by(AT_MOST_S - 1)
        assert copier._logs_at_rest.awaited == {MOVING}
        here.run(copier.release_partitions, [part()])
        assert not copier._logs_at_rest.awaited
        assert not begun()
        begun = taken(here, copier, lost)
        here.pass_by(AT_MOST_S - 1)
        assert not begun()
        here.until(begun, within_s=10)
        assert not copier._logs_at_rest.awaited


def test_a_marker_that_is_missing_is_waited_for_and_anew_once_its_partition_is_taken_again() -> None:
    with world(exactly_once="enabled") as here:
        copier = here.open()
        # Its copier was lost, and of its last transaction the log has neither record nor marker.
        lost = here.grant(0, Position(0, 1), drained=True)
        begun = taken(here, copier, lost)
        here.pass_by(AT_MOST_S - 1)
        assert copier._logs_at_rest.awaited == {MOVING}
        here.run(copier.release_partitions, [part()])
        assert not copier._logs_at_rest.awaited
        begun = taken(here, copier, lost)
        here.pass_by(AT_MOST_S - 1)
        assert not begun()
        here.until(begun, within_s=10)


@pytest.mark.parametrize("more", [False, True])
def test_a_marker_that_comes_is_waited_for_no_longer(more: bool) -> None:
    with world(exactly_once="enabled") as here:
        copier = here.open()
        begun = taken(here, copier, here.grant(0, Position(0, 1), drained=True))
        here.pass_by(1.0)
        assert not begun()
        here.target.write(REMOTE, *[b"in its place"] * (1 + more))
        here.until(begun, within_s=2)
        assert not copier._logs_at_rest.awaited


def test_nothing_is_kept_of_what_is_released_while_it_looks_at_its_log_again() -> None:
    """The target refused the sequence numbers of a partition that had begun."""
    with world() as here:
        copier = here.begin()
        here.write(b"0")
        here.until(lambda: here.copied() == [b"0"])
        with another_writer(here):
            here.target.codes(PRODUCE, REMOTE, Code.OUT_OF_ORDER_SEQUENCE_NUMBER)
            here.write(b"1")
            here.until(lambda: copier._logs_at_rest.awaited == {MOVING})
            here.run(copier.release_partitions, [part()])
            assert not copier.partitions
            assert not copier._logs_at_rest.awaited
