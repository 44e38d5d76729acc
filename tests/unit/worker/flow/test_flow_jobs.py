"""Periodic jobs of a flow on the driver."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.wait import wait_for
from tests.unit.worker.topics.test_topic_conflicts import flow
from twinlog.clock import SYSTEM
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.mirror.offsets.map_store import MapStore
from twinlog.model.types import TopicName, TopicPartition
from twinlog.settings.flow import FlowSettings, OffsetsMode
from twinlog.settings.per_topic import PerTopic
from twinlog.worker.flow import flow_jobs
from twinlog.worker.flow.flow_jobs import FlowJobs, begin_fencing, begin_joining_segments
from twinlog.worker.periodic import PeriodicJobs
from twinlog.worker.topics.topic_refresh import TopicRefresh

KEEPS, LIFTS = "keep other writers from remote topics", "remove the ACLs of an earlier run"
ADMIN = cast(ClusterAdmin, SimpleNamespace(client=SimpleNamespace(), clock=SYSTEM))

LIVING, GONE, LEADERLESS = (TopicPartition(TopicName(name), 0) for name in ("living", "gone", "leaderless"))


def fencing_flow(fences: bool, offsets: OffsetsMode) -> FlowSettings:
    return replace(flow("a", "b"), fence_writers=fences, offsets=PerTopic(offsets))


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


@pytest.mark.parametrize(
    ("fences", "offsets", "job"),
    [
        (False, "translated", LIFTS),
        (True, "translated", LIFTS),
        (False, "identical", LIFTS),
        (True, "identical", KEEPS),
    ],
)
def test_other_writers_are_kept_away_only_if_asked(fences: bool, offsets: OffsetsMode, job: str) -> None:
    """The fence is lifted when the flow ends, and a fence of an earlier run once."""
    begun: dict[str, Mapping[str, Any]] = {}

    def begin(what: str, step: Callable[[], object], interval_s: float, **how: Any) -> None:
        begun[what] = how

    begin_fencing(
        cast(PeriodicJobs, SimpleNamespace(begin=begin)), fencing_flow(fences, offsets), ADMIN, cast(TopicRefresh, None)
    )
    assert list(begun) == [job]
    if job == LIFTS:
        assert begun[job] == {"once": True}
    if job == KEEPS:
        assert begun[job]["message_id"] == "TW-ACL-05"
        assert begun[job]["last_step"] is not None
        assert "a->b.twinlog.fence.writers = false" in begun[job]["way_out"]


@pytest.mark.parametrize("fences", [True, False])
def test_changed_settings_leave_the_fence_as_it_is(fences: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Producers would pass between the jobs of the former settings and of the new settings."""
    calls: list[str] = []

    class Fence:
        def __init__(self, *_: object) -> None:
            pass

        def keep(self, _: object) -> None:
            calls.append("keep")

        def lift(self) -> None:
            calls.append("lift")

        lift_earlier = lift

    monkeypatch.setattr(flow_jobs, "WriterFence", Fence)
    monkeypatch.setattr(flow_jobs, "begin_keeping_in_step", lambda *_: None)
    monkeypatch.setattr(flow_jobs, "begin_following_groups", lambda *_: None)
    monkeypatch.setattr(flow_jobs, "begin_heartbeats", lambda *_: None)
    jobs = PeriodicJobs("a->b")
    topics, so_far = SimpleNamespace(pairs=[]), SimpleNamespace(set_settings=lambda _: None)
    unused: Any = None
    status: Any = SimpleNamespace(meters=None)
    made = FlowJobs(jobs, ADMIN, ADMIN, cast(TopicRefresh, topics), unused, cast(Any, so_far), status)
    made.begin_jobs(fencing_flow(True, "identical"), None)
    wait_for(lambda: calls == ["keep"], 60, "the fence is there")
    made.change_settings(fencing_flow(fences, "identical"), None, 30)
    wait_for(lambda: calls[1:] == (["keep"] if fences else ["lift"] * 2), 60, "the other settings are in use")
    jobs.stop(30)
    assert calls.count("lift") == (1 if fences else 2)
