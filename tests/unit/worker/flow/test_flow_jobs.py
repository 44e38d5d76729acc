"""Periodic jobs of a flow on the driver."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.unit.worker.topics.test_topic_conflicts import flow
from twinlog.clock import SYSTEM
from twinlog.errors import ClusterError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.mirror.offsets.map_store import MapStore
from twinlog.mirror.topics.writer_fence import WriterFence
from twinlog.model.types import TopicName, TopicPartition
from twinlog.settings.per_topic import PerTopic
from twinlog.worker.flow.flow_jobs import begin_joining_segments, begin_keeping_in_step, begin_lifting_fence
from twinlog.worker.periodic import PeriodicJobs
from twinlog.worker.topics.topic_refresh import TopicRefresh

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


def test_other_writers_are_kept_away_only_if_asked() -> None:
    """The fence is lifted when the flow ends."""
    begun: dict[str, Mapping[str, Any]] = {}

    def begin(what: str, step: Callable[[], object], interval_s: float, **how: Any) -> None:
        begun[what] = how

    plain = flow("a", "b")
    keeps, lifts = "keep other writers from remote topics", "remove the ACLs of an earlier run"
    for fences, offsets, job in (
        (False, "translated", None),
        (True, "translated", lifts),
        (False, "identical", lifts),
        (True, "identical", keeps),
    ):
        begun.clear()
        settings = replace(plain, fence_writers=fences, offsets=PerTopic(offsets))
        admin = cast(ClusterAdmin, SimpleNamespace(client=SimpleNamespace(), clock=SYSTEM))
        begin_keeping_in_step(
            cast(PeriodicJobs, SimpleNamespace(begin=begin)),
            settings,
            admin,
            admin,
            cast(TopicRefresh, SimpleNamespace(leaves_out=None)),
        )
        expected = {"keep the settings of remote topics in step", "carry ACLs over", job}
        assert begun.keys() == expected - {None}
    how = begun[keeps]
    assert how["message_id"] == "TW-ACL-05"
    assert how["last_step"] is not None
    assert "a->b.twinlog.fence.writers = false" in how["way_out"]


def test_the_fence_of_an_earlier_run_is_lifted_once() -> None:
    """Another process of the flow may have a fence of its own."""
    steps: list[Callable[[], None]] = []
    lifted: list[str] = []

    def begin(what: str, step: Callable[[], None], interval_s: float) -> None:
        steps.append(step)

    def fail() -> None:
        raise ClusterError("silent")

    fence = SimpleNamespace(lift=fail)
    begin_lifting_fence(cast(PeriodicJobs, SimpleNamespace(begin=begin)), cast(WriterFence, fence))
    with pytest.raises(ClusterError):
        steps[0]()
    fence.lift = lambda: lifted.append("once")
    for _ in range(2):
        steps[0]()
    assert lifted == ["once"]
