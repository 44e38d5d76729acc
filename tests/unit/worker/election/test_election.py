"""An election at a target that is down goes on asking, and does not fill the log; what a process shows of its role."""

from __future__ import annotations

import logging
import re
from typing import Any

import pytest

from harness.virtual.clock import VirtualClock
from harness.wait import wait_for
from twinlog.errors import ClusterError, RefusedError
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.retry import RetryPolicy
from twinlog.model.types import Alias
from twinlog.settings.client import AdminSettings, ClientSettings, ConsumerSettings, ProducerSettings
from twinlog.settings.flow import FlowSettings
from twinlog.worker import group_membership
from twinlog.worker.election import election as module
from twinlog.worker.election import role as role_module
from twinlog.worker.election.election import Election
from twinlog.worker.election.member import Leadership, LeaderTerm, Member, MemberInfo
from twinlog.worker.election.role import SILENT_S, Announcements, ElectionRole, ElectionState
from twinlog.worker.election.roster import ElectionRegistry

NOWHERE = ClientSettings(("127.0.0.1:1",))
SETTINGS = FlowSettings(
    Alias("a"),
    Alias("z"),
    ConsumerSettings(NOWHERE),
    ProducerSettings(NOWHERE),
    AdminSettings(NOWHERE),
    AdminSettings(NOWHERE),
)


def test_a_target_that_is_down_is_logged_now_and_then(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(group_membership, "MEMBER_CONNECT_S", 0.05)
    monkeypatch.setattr(module, "ELECTION", RetryPolicy(0.01, 0.01))
    member = Election(SETTINGS, lambda: None, ElectionRegistry(ready=True))
    tries: list[float] = []
    connect = ClusterClient.connect

    async def counted(self: ClusterClient, timeout_s: float) -> Any:
        tries.append(timeout_s)
        return await connect(self, timeout_s)

    monkeypatch.setattr(ClusterClient, "connect", counted)
    with caplog.at_level(logging.INFO, "twinlog"):
        member.start()
        try:
            wait_for(lambda: len(tries) >= 10, 60, "it tries again and again")
        finally:
            member.stop(1.0)
    assert member.standing is ElectionState.JOINING
    logged = [record.getMessage() for record in caplog.records if record.name.startswith("twinlog")]
    assert len(logged) == 1
    assert re.match("TW-NET-0[12]: a->z: cannot connect yet, trying again: ", logged[0])


def test_a_refusal_that_lasts_is_logged_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    announced = Announcements(SETTINGS, "host-1", "a-mm2")
    for _ in range(3):
        announced.refused(RefusedError("group a-mm2 lacks READ"))
    assert caplog.text.count("a->z: group a-mm2 lacks READ") == 1
    monkeypatch.setattr(role_module, "AGAIN_S", 0.0)
    announced.refused(RefusedError("group a-mm2 lacks READ"))
    assert caplog.text.count("a->z: group a-mm2 lacks READ") == 2


LEADERSHIP = Leadership(Member("other"), LeaderTerm(3, "id", 1.0), {"me": MemberInfo("this", True, ("tasks.max",))})


def role_of(clock: VirtualClock, changed: list[ElectionState]) -> ElectionRole:
    role = ElectionRole(
        SETTINGS, Announcements(SETTINGS, "this", "a-mm2", clock), clock, lambda: changed.append(role.standing)
    )
    return role


def test_a_standby_logs_when_the_group_is_silent(caplog: pytest.LogCaptureFixture) -> None:
    clock = VirtualClock()
    role = role_of(clock, [])
    role.stand_by(LEADERSHIP, "somebody else")
    gone = ClusterError("cluster z: connection refused")

    def text() -> str:
        return role.text(ready=True, unfit=False)

    role.unanswered(gone, 0.0)
    assert text().endswith(", ready")
    clock.now += SILENT_S + 1
    for _ in range(3):
        role.unanswered(gone, 0.0)
    silent = text()
    assert ", but z has not answered since " in silent
    clock.now += 20
    assert text() == silent, "a state that changes is logged every ten seconds"
    assert caplog.text.count("a->z: z is silent: the leader of the flow is unknown here") == 1
    with caplog.at_level(logging.INFO):
        role.record_answer()
        role.record_answer()
    assert caplog.text.count("a->z: z answers again") == 1
    assert text().endswith(", ready")


def test_a_standby_that_is_refused_does_not_call_the_target_silent(caplog: pytest.LogCaptureFixture) -> None:
    clock = VirtualClock()
    role = role_of(clock, [])
    role.stand_by(LEADERSHIP, "somebody else")
    clock.now += SILENT_S + 1
    role.unanswered(RefusedError("cluster z: the login was refused for User:mm"), 0.0)
    assert ", but z refuses this process since " in role.text(ready=True, unfit=False)
    assert (
        "a->z: z refuses this process: the leader of the flow is unknown here, and a take-over is impossible"
        in caplog.text
    )
    role.unanswered(ClusterError("cluster z: no broker can be reached"), 0.0)
    assert ", but z refuses this process since " in role.text(ready=True, unfit=False)
    role.record_answer()
    assert role.text(ready=True, unfit=False).endswith(", ready")


def test_a_term_is_counted_when_it_begins_and_when_it_ends() -> None:
    changed: list[ElectionState] = []
    role = role_of(VirtualClock(), changed)
    role.set_state(ElectionState.WAITING, "others are there")
    assert (role.term, role.text(ready=True, unfit=False)) == (0, "others are there")
    role.stand_by(LEADERSHIP, "me")
    assert role.text(ready=False, unfit=False).endswith(", not ready yet, its tasks.max differ")
    assert "as a was out of reach from here" in role.text(ready=True, unfit=True)
    role.begin_leading(LEADERSHIP, "me")
    role.begin_leading(LEADERSHIP, "me")
    assert role.term == 1
    role.lose_leadership()
    role.lose_leadership()
    assert role.term == 2
    assert changed == [ElectionState.WAITING, ElectionState.STANDBY, ElectionState.LEADING, ElectionState.JOINING]


def test_processes_of_one_name_are_two_and_a_twin_is_logged_by_itself(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    # As two containers with one host name have it, where each process has the id 1.
    mates = {
        "me": MemberInfo("twinlog-1", True),
        "namesake": MemberInfo("twinlog-1", True, ("tasks.max",)),
        "twin": MemberInfo("x", True),
    }
    announced = Announcements(SETTINGS, "twinlog-1", "a-mm2", is_twin=lambda member: member == "twin")
    announced.log_leading(Leadership(Member("twinlog-1"), LeaderTerm(3, "me", 1.0), mates), "me", anew=False)
    announced.stands_by(Leadership(Member("twinlog-1"), LeaderTerm(4, "namesake", 1.0), mates), ("tasks.max",))
    announced.stands_by(Leadership(Member("x"), LeaderTerm(5, "twin", 1.0), mates), ())
    stands_by, warning, standing_by, differ = [record.getMessage() for record in caplog.records]
    assert stands_by == "a->z: twinlog-1 stands by"
    assert "stands by with other settings than this process: tasks.max" in warning
    assert standing_by.startswith("a->z: standing by for ")
    assert "the settings of this process differ from those of twinlog-1" in differ
