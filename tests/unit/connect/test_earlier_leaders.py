"""Who becomes the leader of a group fences Kafka's leaders before it, once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.virtual.clock import VirtualClock
from twinlog.connect.group import earlier_leaders as module
from twinlog.connect.group.earlier_leaders import RETRY_S, EarlierLeaders
from twinlog.connect.group.member import Assignment
from twinlog.errors import ClusterError, RefusedError


def member(generation: int, *, leads: bool) -> Assignment:
    return Assignment(generation, "http://leader", leads, frozenset(), {})


class Cluster:
    """Answers as it is told; `asked` are the ids of which somebody became the writer."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.error: ClusterError | None = None
        self.clock = VirtualClock()
        self.client = None

    def coordinator(self, _: object, name: str, __: int) -> Any:
        return SimpleNamespace(init=lambda: self.asked.append(name))

    def call(self, step: Any) -> None:
        step()
        if self.error is not None:
            raise self.error


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    made = Cluster()
    monkeypatch.setattr(module, "TransactionCoordinator", made.coordinator)
    return made


def test_a_leader_fences_once_in_each_generation(cluster: Cluster) -> None:
    leaders = EarlierLeaders(cast(Any, cluster), "workers")
    for assignment in (None, member(1, leads=False), member(2, leads=True), member(2, leads=True)):
        leaders.fence(assignment)
    assert cluster.asked == ["connect-cluster-workers"]
    leaders.fence(member(3, leads=True))
    assert len(cluster.asked) == 2


def test_without_an_answer_it_is_tried_again(cluster: Cluster) -> None:
    leaders = EarlierLeaders(cast(Any, cluster), "workers")
    cluster.error = ClusterError("it does not answer")
    leaders.fence(member(1, leads=True))
    leaders.fence(member(1, leads=True))
    assert len(cluster.asked) == 1
    cluster.error = None
    cluster.clock.sleep(RETRY_S)
    leaders.fence(member(1, leads=True))
    leaders.fence(member(1, leads=True))
    assert len(cluster.asked) == 2


def test_without_the_right_that_is_told_once(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    leaders = EarlierLeaders(cast(Any, cluster), "workers")
    cluster.error = RefusedError("no right")
    for generation in (1, 1, 2):
        leaders.fence(member(generation, leads=True))
    assert len(cluster.asked) == 2
    assert [record.getMessage() for record in caplog.records] == [
        "an earlier leader of the group may still write to the config topic: no right"
    ]
