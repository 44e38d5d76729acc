"""A fence is named whose flow has left the file while its process was killed, and the command that removes its ACLs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.wait import wait_for
from tests.unit.mirror.topics.test_fence_courses import (
    APP,
    FIRST,
    LOGINS,
    SECOND,
    TOPICS,
    Guarded,
    fence_of,
    open_to_all,
)
from tests.unit.worker.topics.test_topic_conflicts import flow
from twinlog.clock import SYSTEM
from twinlog.errors import RefusedError
from twinlog.kafka.admin.acls import describe_acls
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.admin.groups import GroupAdmin
from twinlog.mirror.topics.fence_notes import LIST_S, FenceOwner
from twinlog.mirror.topics.left_fences import LeftFences, owners_of
from twinlog.model.types import TopicName
from twinlog.ops.acls.missing import RightsLack, with_left_fences
from twinlog.worker.flow.flow_jobs import begin_finding_left_fences
from twinlog.worker.periodic import PeriodicJobs

CONTROL = TopicName("mm2-twinlog-control.a.internal")


@dataclass
class Target:
    """The target of the fences: its groups have members, and it refuses single requests."""

    fenced: Guarded
    members: dict[str, list[str]] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)
    client: SimpleNamespace = field(
        default_factory=lambda: SimpleNamespace(loop=SimpleNamespace(clock=SYSTEM), alias="b")
    )
    clock: Any = SYSTEM
    listings: int = 0

    def topics(self) -> list[TopicName]:
        self.listings += 1
        return [CONTROL, FIRST]

    def call(self, step: Callable[..., Any], *arguments: Any) -> Any:
        name = step.__name__
        if name in self.refused:
            raise RefusedError(f"{name} is refused")
        if name == GroupAdmin.described.__name__:
            return SimpleNamespace(members=self.members.get(arguments[0], []))
        assert step is describe_acls
        return self.fenced.described()

    def fences(self, known: set[FenceOwner]) -> LeftFences:
        return LeftFences(cast(ClusterAdmin, self), known)


@pytest.fixture
def target(monkeypatch: pytest.MonkeyPatch) -> Target:
    guarded = open_to_all(monkeypatch)
    fence_of(guarded, LOGINS[0]).keep(TOPICS)
    return Target(guarded)


def test_the_fence_of_a_flow_that_no_process_runs_is_named(target: Target) -> None:
    others = owners_of([flow("other", "b")])
    (left,) = target.fences(others).find()
    assert left.owner == FenceOwner("a->b", "a-mm2")
    denied = f"User:{LOGINS[1]}, {APP}" if f"User:{LOGINS[1]}" < APP else f"{APP}, User:{LOGINS[1]}"
    assert str(left) == (
        f"the fence of a->b keeps {denied} from writing to {FIRST}, {SECOND}, and its group a-mm2 is empty"
    )
    lack = with_left_fences(RightsLack(), "b", [left])
    assert {one.acl.of_topic for one in lack.denials} == set(left.acls)
    assert {one.left_by for one in lack.denials} == {"a->b"}
    assert not any(one.fence for one in lack.denials)


def test_a_flow_that_removes_its_own_fence_is_left_to_it(target: Target) -> None:
    assert target.fences(owners_of([flow("a", "b")])).find() == []


def test_the_fence_of_another_group_of_the_flow_is_named(target: Target) -> None:
    fence_of(target.fenced, LOGINS[0]).lift()
    fence_of(target.fenced, LOGINS[0], "wave").keep([FIRST])
    (left,) = target.fences(owners_of([flow("a", "b")])).find()
    assert left.owner == FenceOwner("a->b", "wave")


def test_a_flow_with_a_process_keeps_its_fence(target: Target) -> None:
    target.members["a-mm2"] = ["host"]
    assert target.fences(set()).find() == []


def test_a_lifted_fence_and_removed_acls_are_over(target: Target) -> None:
    for acl in [acl for acl in target.fenced.acls if acl.topic == FIRST]:
        target.fenced.acls.discard(acl)
    (left,) = target.fences(set()).find()
    assert {acl.topic for acl in left.acls} == {SECOND}
    fence_of(target.fenced, LOGINS[0]).lift()
    assert target.fences(set()).find() == []


@pytest.mark.parametrize("refused", ["describe_acls", "described"])
def test_a_login_without_a_right_finds_none(target: Target, refused: str) -> None:
    target.refused.add(refused)
    assert target.fences(set()).find() == []


def test_a_flow_that_starts_again_is_no_trouble(target: Target) -> None:
    fences = target.fences(set())
    assert fences.describe_lasting() is None
    target.members["a-mm2"] = ["host"]
    assert fences.describe_lasting() is None
    target.members.clear()
    assert fences.describe_lasting() is None
    assert "the fence of a->b keeps" in (fences.describe_lasting() or "")


def test_looks_share_a_listing_of_the_topics(target: Target) -> None:
    fences = target.fences(set())
    for _ in range(3):
        assert fences.find()
    assert target.listings == 1
    target.clock = SimpleNamespace(monotonic=lambda: SYSTEM.monotonic() + LIST_S)
    assert fences.find()
    assert target.listings == 2


def test_a_running_flow_reports_it(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("twinlog.worker.flow.flow_jobs.LEFT_S", 0.01)
    troubles: dict[str, str | None] = {}
    jobs = PeriodicJobs("other->b", troubles.__setitem__)
    begin_finding_left_fences(jobs, flow("other", "b"), cast(ClusterAdmin, target))
    wait_for(lambda: any(troubles.values()), 60, "the fence is named")
    (text,) = troubles.values()
    assert (text or "").startswith("TW-ACL-07: the fence of a->b keeps")
    fence_of(target.fenced, LOGINS[0]).lift()
    wait_for(lambda: not any(troubles.values()), 60, "the fence is gone")
    jobs.stop(30)
