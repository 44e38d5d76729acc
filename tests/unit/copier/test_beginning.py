"""Partitions that were granted and cannot begin: which, and why, until they do."""

from __future__ import annotations

import pytest

from harness.virtual.faults import Fault
from harness.virtual.requests import LIST_OFFSETS, PRODUCE
from tests.unit.copier.copied import REMOTE, TOPIC, World, part, world
from twinlog.copier.granted_partitions import PATIENCE_S
from twinlog.kafka.protocol.error_codes import Code
from twinlog.mirror.offsets.positions import Position


def held_back(here: World) -> dict[int, str]:
    (copier,) = here.copiers
    return {source.partition: stalled.trouble for source, stalled in copier.held_back.items()}


@pytest.mark.parametrize(("side", "missing"), [("north", "shop-1"), ("south", "north.shop-1")])
def test_one_without_a_leader_is_held_back_until_it_has_one(side: str, missing: str) -> None:
    with world(partitions=2) as here:
        cluster, topic = (here.source, TOPIC) if side == "north" else (here.target, REMOTE)
        cluster.move(topic, 1, None)
        copier = here.open()
        here.loop.start(copier.begin_partitions, copier.add_grants([here.grant(0), here.grant(1)]))
        here.run(here.loop.sleep, PATIENCE_S / 2)
        assert held_back(here) == {}, "a leader may be there in a moment"
        here.run(here.loop.sleep, 2 * PATIENCE_S)
        assert part(0) in copier.partitions
        assert held_back(here) == {1: f"cluster {side}: {missing} has no leader"}
        cluster.move(topic, 1, 1)
        here.run(here.loop.sleep, 30.0)
        assert part(1) in copier.partitions
        assert held_back(here) == {}


@pytest.mark.parametrize(
    ("side", "missing", "position"),
    [
        pytest.param("north", "shop-1", None, id="the first offset"),
        pytest.param("south", "north.shop-1", None, id="the end of an empty log"),
        pytest.param("south", "north.shop-1", Position(0, 0), id="the end after a crash"),
    ],
)
def test_one_whose_leader_does_not_report_its_offsets_is_held_back_with_the_reason(
    side: str, missing: str, position: Position | None
) -> None:
    with world(partitions=2) as here:
        cluster, topic = (here.source, TOPIC) if side == "north" else (here.target, REMOTE)
        cluster.codes(LIST_OFFSETS, topic, *[Code.OFFSET_NOT_AVAILABLE] * 1000, partition=1)
        copier = here.open()
        here.loop.start(copier.begin_partitions, copier.add_grants([here.grant(0), here.grant(1, position)]))
        here.run(here.loop.sleep, 3 * PATIENCE_S)
        assert part(0) in copier.partitions
        ((number, why),) = held_back(here).items()
        assert number == 1
        assert why.startswith(f"cluster {side}: {missing} does not report its offsets: ")
        assert why.endswith("(error code 78)")
        assert any(kind == "waiting" and why in text for kind, text in here.events)
        cluster.faults.clear()
        here.run(here.loop.sleep, 30.0)
        assert part(1) in copier.partitions
        assert held_back(here) == {}


def test_one_that_loses_its_leader_on_the_target_is_in_trouble_until_it_has_one() -> None:
    with world(partitions=2) as here:
        copier = here.begin(here.grant(0), here.grant(1))
        here.target.move(REMOTE, 1, None)
        for number in range(2):
            here.write(b"a", number=number)
        here.run(here.loop.sleep, 10.0)
        troubles = {source.partition: copier.troubles.find_reason(copy) for source, copy in copier.partitions.items()}
        assert troubles[0] is None
        assert str(troubles[1]).startswith("target: ")
        here.target.move(REMOTE, 1, 1)
        here.run(here.loop.sleep, 30.0)
        assert {copier.troubles.find_reason(copy) for copy in copier.partitions.values()} == {None}


def test_one_that_is_released_before_it_begins_is_no_longer_held_back() -> None:
    with world() as here:
        here.source.move(TOPIC, 0, None)
        copier = here.open()
        here.loop.start(copier.begin_partitions, copier.add_grants([here.grant()]))
        here.run(here.loop.sleep, 2 * PATIENCE_S)
        assert list(held_back(here)) == [0]
        here.run(copier.release_partitions, [part()])
        assert held_back(here) == {}


def test_a_release_waits_for_the_start_position_that_is_on_its_way() -> None:
    """A late start position would replace the positions of the next copier."""
    with world(partitions=2) as here:
        here.source.move(TOPIC, 1, None)
        copier = here.open()
        here.target.fault(PRODUCE, Fault(delay_s=3.0), topic=here.settings.positions_topic)
        here.loop.start(copier.begin_partitions, copier.add_grants([here.grant(0), here.grant(1)]))
        here.until(lambda: here.target.faults_left == 0)
        begun = here.clock.now
        here.run(copier.release_partitions, [part(1)])
        assert here.clock.now - begun < 0.5, "this partition has nothing on its way"
        assert here.run(copier.release_partitions, [part(0)]) == {}
        assert here.clock.now - begun > 2.5
        assert copier.granted == []
        here.pass_by(10)
        assert not copier.partitions
        assert here.failures == []
