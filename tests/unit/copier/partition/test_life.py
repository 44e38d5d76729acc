"""The phases of a partition in a copier, and the partitions of a real copier on their way through them."""

from __future__ import annotations

import pytest

from harness.virtual.faults import Fault
from harness.virtual.requests import PRODUCE
from tests.unit.copier.copied import REMOTE, World, part, world
from twinlog.copier.partition.life import PartitionLife, PartitionPhase
from twinlog.kafka.protocol.error_codes import Code
from twinlog.lease.messages import Grant
from twinlog.model.types import TargetOffset

BEGINNING, COPYING, RELEASING, HELD, RELEASED = PartitionPhase


def test_a_phase_follows_only_the_phases_of_the_picture() -> None:
    follows = {
        (before, after)
        for before in PartitionPhase
        for after in PartitionPhase
        if before is not after and _may_follow(before, after)
    }
    assert follows == {
        (BEGINNING, COPYING),
        (BEGINNING, HELD),
        (BEGINNING, RELEASED),
        (COPYING, RELEASING),
        (RELEASING, HELD),
        (RELEASING, RELEASED),
        (HELD, RELEASED),
    }


def test_a_transaction_of_an_earlier_look_counts_although_it_has_ended() -> None:
    """A start that fails is tried again, and a transaction may end between two tries."""
    life = PartitionLife(Grant(part(), part(0, REMOTE), None, 1 << 20, None))
    life.note_opened({5: TargetOffset(10), 7: TargetOffset(12)})
    life.note_opened({5: TargetOffset(30), 6: TargetOffset(20)})
    assert life.opened == {5: 10, 6: 20, 7: 12}


def _may_follow(before: PartitionPhase, after: PartitionPhase) -> bool:
    life = PartitionLife(Grant(part(), part(0, REMOTE), None, 1 << 20, None))
    life.phase = before
    try:
        life.enter_phase(after)
    except AssertionError:
        return False
    return True


def _fail(here: World) -> None:
    here.target.fault(PRODUCE, Fault(code=Code.INVALID_RECORD), times=10**6, topic=REMOTE)
    here.write(b"refused")


def test_a_released_partition_was_copied_and_released() -> None:
    with world() as here:
        copier = here.open()
        copier.add_grants([here.grant()])
        life = copier._beginning.waiting[part()]
        assert life.phase is BEGINNING
        here.run(copier.begin_partitions, [life.grant])
        assert life.phase is COPYING
        here.loop.start(copier.release_partitions, [part()])
        here.until(lambda: life.phase is not COPYING)
        assert life.phase is RELEASING
        here.until(lambda: life.phase is RELEASED)
        assert copier.granted == []


def test_a_failed_partition_is_held_until_it_is_taken_back() -> None:
    with world() as here:
        copier = here.begin(here.grant())
        life = copier.partitions[part()].life
        _fail(here)
        here.until(lambda: bool(here.held))
        assert (life.phase, life.failed) == (HELD, True)
        here.run(copier.release_partitions, [part()])
        assert life.phase is RELEASED


@pytest.mark.parametrize("taken", [True, False])
def test_a_partition_that_never_began_is_withdrawn(taken: bool) -> None:
    with world() as here:
        here.source.move("shop", 0, None)
        copier = here.open()
        here.loop.start(copier.begin_partitions, copier.add_grants([here.grant()]))
        here.pass_by(1)
        life = copier._beginning.waiting[part()]
        if taken:
            here.run(copier.release_partitions, [part()])
        assert life.phase is (RELEASED if taken else BEGINNING)
