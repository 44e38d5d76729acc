"""Periodic jobs of a flow on the driver."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, cast

from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.mirror.offsets.map_store import MapStore
from twinlog.model.types import TopicName, TopicPartition
from twinlog.worker.flow.flow_jobs import begin_joining_segments
from twinlog.worker.periodic import PeriodicJobs

LIVING, GONE, LEADERLESS = (TopicPartition(TopicName(name), 0) for name in ("living", "gone", "leaderless"))


def test_maps_of_topics_that_are_gone_are_kept_small_too() -> None:
    begun: list[Callable[[], None]] = []
    joined: list[Mapping[TopicPartition, int]] = []

    def begin(what: str, step: Callable[[], None], interval_s: float, **_: Any) -> None:
        begun.append(step)

    maps = SimpleNamespace(
        read=lambda: None, fragmented=lambda: [LIVING, GONE, LEADERLESS], join_segments=joined.append
    )
    source = SimpleNamespace(
        offsets=lambda partitions, latest: {LIVING: 7}, topics=lambda: {LIVING.topic: None, LEADERLESS.topic: None}
    )
    begin_joining_segments(
        cast(PeriodicJobs, SimpleNamespace(begin=begin)), cast(ClusterAdmin, source), cast(MapStore, maps)
    )
    begun[0]()
    assert joined == [{LIVING: 7, GONE: 0}]
