"""The source is killed under load, and its groups go on with the copy; `make drill` asks MirrorMaker 2 as well."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from faults.emergency import CLUSTERS, RESTED, STEADY, properties, run_drill
from harness.cluster import KafkaCluster, side_by_side
from tests.integration.running import RunTwinlog

log = logging.getLogger(__name__)


@pytest.fixture
def own_clusters() -> Iterator[tuple[KafkaCluster, KafkaCluster]]:
    """A pair of its own, because the source is killed."""
    source, target = (KafkaCluster(name, sasl=False, heap="256m") for name in ("doomed", "refuge"))
    with side_by_side(source, target) as both:
        yield both


@pytest.mark.scenario
def test_groups_go_on_where_they_stood(
    own_clusters: tuple[KafkaCluster, KafkaCluster], run_twinlog: RunTwinlog
) -> None:
    process = run_twinlog(CLUSTERS, properties(*own_clusters))

    def require_alive() -> None:
        assert process.alive, process.log

    drill = run_drill(*own_clusters, require_alive)

    log.warning("%s", drill)
    assert drill.copied > 0
    assert [group.skipped for group in drill.groups.values()] == [0, 0]
    # It had not committed for five seconds when the source died.
    assert drill.groups[RESTED].repeated == 0
    assert drill.groups[STEADY].repeated < drill.groups[STEADY].processed / 2
