"""Partitions that were granted and cannot begin: which, and why, until they do."""

from __future__ import annotations

import pytest

from tests.unit.copier.copied import REMOTE, TOPIC, World, part, world
from twinlog.copier.granted_partitions import PATIENCE_S


def held_back(here: World) -> dict[int, str]:
    (copier,) = here.copiers
    return {source.partition: why for source, (_, why, _end) in copier.held_back.items()}


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
