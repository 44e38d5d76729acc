"""Elections between processes that stand still, crash and come back, with a coordinator that moves: one leads at most.

Real elections on a group in a cluster of this process, in virtual time; each process has an event loop of its own.
"""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from harness.virtual.faults import Fault
from harness.virtual.requests import FIND_COORDINATOR, HEARTBEAT, JOIN_GROUP, SYNC_GROUP
from tests.unit.worker.processes import LEADS, SOON_S, STANDS_BY, Process, world
from twinlog.kafka.coordinator.membership import REBALANCE_S, SESSION_S
from twinlog.kafka.protocol.error_codes import Code
from twinlog.model.types import Alias
from twinlog.worker.election.role import ElectionState


def test_two_flows_of_a_process_into_one_cluster_by_two_names(caplog: pytest.LogCaptureFixture) -> None:
    """Both have the same group there."""
    with world() as here, caplog.at_level(logging.INFO):
        first = here.begin("h-1", LEADS)
        alias = Process(here, "h-1", replace(here.settings, target=Alias("backup")), first.roster)
        here.processes.append(alias)
        here.until(lambda: alias.election.twin == "east->west")
        assert (first.standing, first.election.twin) == (LEADS, None)
        other = here.begin("h-2", STANDS_BY)
        assert other.election.twin is None
    assert "east->backup: standing by" not in caplog.text
    assert "h-1 stands by" not in caplog.text


def test_the_first_leads_and_the_next_stands_by_until_that_one_leaves() -> None:
    with world() as here:
        one = here.begin("one", LEADS)
        two = here.begin("two", STANDS_BY)
        assert one.may_append
        assert "standing by for one" in two.election.text
        assert two.election.leadership is not None
        assert two.election.leadership.leader.name == "one"
        one.election.stop(5.0)
        assert here.until(lambda: two.standing is LEADS) < SOON_S
        assert not one.may_append


def test_who_crashed_is_replaced_when_its_session_ends() -> None:
    with world() as here:
        one, two = here.begin("one", LEADS), here.begin("two", STANDS_BY)
        one.freeze()
        passed = here.until(lambda: two.may_append)
        assert SESSION_S - 1 <= passed <= SESSION_S + SOON_S


def test_a_leader_that_stood_still_knows_at_once_that_it_leads_no_more(caplog: pytest.LogCaptureFixture) -> None:
    with world() as here:
        one, two = here.begin("one", LEADS), here.begin("two", STANDS_BY)
        term = one.election.term
        one.freeze()
        here.until(lambda: two.may_append)
        here.pass_by(30)
        # Before its event loop has done anything.
        assert not one.may_append
        assert one.standing is LEADS
        one.wake()
        here.until(lambda: one.standing is STANDS_BY)
        assert one.election.term > term
        assert caplog.text.count("this process was silent for too long") == 1
        assert two.went == [STANDS_BY, LEADS]


def test_who_stood_still_for_less_than_its_session_goes_on_leading() -> None:
    with world() as here:
        one, two = here.begin("one", LEADS), here.begin("two", STANDS_BY)
        one.freeze()
        here.pass_by(SESSION_S - 1.5)
        one.wake()
        here.pass_by(20)
        assert (one.went, two.went) == ([LEADS], [STANDS_BY])
        assert one.may_append


def test_a_leader_keeps_its_term_while_others_come_and_go() -> None:
    with world() as here:
        one = here.begin("one", LEADS)
        leadership = one.election.leadership
        for name in ("two", "three"):
            here.begin(name, STANDS_BY)
        generation = here.group.generation
        here.processes[1].election.stop(5.0)
        here.until(lambda: here.group.generation > generation and here.group.state == "Stable")
        here.pass_by(5)
        assert one.went == [LEADS]
        assert leadership is not None
        assert one.election.leadership is not None
        assert one.election.leadership.term == leadership.term
        assert one.may_append


def test_a_rebalance_that_somebody_holds_up_ends_the_lease_before_another_can_lead() -> None:
    """The leader sends heartbeats, but another member does not join again until the coordinator gives up on it."""
    with world() as here:
        one, two = here.begin("one", LEADS), here.begin("two", STANDS_BY)
        # Of the leader's answers to the join nothing arrives.
        here.target.fault(JOIN_GROUP, Fault(delay_s=2 * REBALANCE_S), times=1)
        here.begin("three")
        here.pass_by(REBALANCE_S + SESSION_S + 10)
        here.until(lambda: len(here.leaders) == 1, 200)
        assert {one.standing, two.standing} <= {LEADS, STANDS_BY, ElectionState.JOINING}


@pytest.mark.parametrize("code", [Code.UNKNOWN_MEMBER_ID, Code.ILLEGAL_GENERATION])
def test_a_leader_that_the_group_does_not_know_any_more_begins_anew(code: int) -> None:
    with world() as here:
        one = here.begin("one", LEADS)
        term = one.election.term
        here.target.fault(HEARTBEAT, Fault(code=code))
        here.until(lambda: one.standing is not LEADS)
        assert not one.may_append
        # Its earlier membership ends before it leads again.
        here.until(lambda: one.may_append, 2 * REBALANCE_S)
        assert one.election.term > term


def test_a_member_that_was_removed_joins_as_another() -> None:
    with world() as here:
        one, two = here.begin("one", LEADS), here.begin("two", STANDS_BY)
        (other,) = set(here.group.members) - {here.group.leader}
        here.target.groups.forget(here.settings.group_id, other)
        here.until(lambda: here.group.state == "Stable" and len(here.group.members) == 2)
        assert other not in here.group.members
        here.pass_by(SOON_S)
        assert (one.went, two.standing) == ([LEADS], STANDS_BY)


# 82 is FENCED_INSTANCE_ID, which only members with an id of their own should get.
@pytest.mark.parametrize("code", [82, Code.COORDINATOR_LOAD_IN_PROGRESS, Code.REQUEST_TIMED_OUT])
def test_an_error_that_passes_costs_nobody_the_lead(code: int) -> None:
    with world() as here:
        one, two = here.begin("one", LEADS), here.begin("two", STANDS_BY)
        here.target.fault(HEARTBEAT, Fault(code=code), times=6)
        here.pass_by(10)
        assert here.target.faults_left == 0
        assert (one.went, two.went) == ([LEADS], [STANDS_BY])


@pytest.mark.parametrize("key", [JOIN_GROUP, SYNC_GROUP])
@pytest.mark.parametrize(
    "fault",
    [
        Fault(code=Code.COORDINATOR_LOAD_IN_PROGRESS),
        Fault(code=Code.NOT_COORDINATOR),
        Fault(code=Code.UNKNOWN_MEMBER_ID),
        Fault(code=Code.REBALANCE_IN_PROGRESS),
        Fault(lost=True),
        Fault(lost=True, done=True),
    ],
    ids=str,
)
def test_a_join_that_fails_is_tried_again(key: int, fault: Fault) -> None:
    with world() as here:
        here.target.fault(key, fault, times=3)
        here.begin("one")
        here.begin("two")
        here.until(lambda: sorted(one.standing.name for one in here.processes) == ["LEADING", "STANDBY"], 300)
        assert here.target.faults_left == 0
        assert len(here.leaders) == 1


@pytest.mark.parametrize("stops", [True, False])
def test_a_coordinator_that_moves_costs_the_leader_nothing(stops: bool) -> None:
    with world() as here:
        one, two = here.begin("one", LEADS), here.begin("two", STANDS_BY)
        for node in (2, 1):
            if stops:
                here.target.stop(here.target.groups.node)
            here.target.groups.move(node)
            for _ in range(100):
                here.pass_by(0.1)
                assert one.may_append
            here.target.start(3 - node)
        assert (one.went, two.went) == ([LEADS], [STANDS_BY])


def test_a_coordinator_that_moves_amid_a_rebalance_has_the_group_as_it_was() -> None:
    with world() as here:
        one = here.begin("one", LEADS)
        here.target.fault(JOIN_GROUP, Fault(delay_s=20.0))
        here.begin("two")
        here.pass_by(1.0)
        here.target.stop(1)
        here.target.groups.move(2)
        here.until(lambda: sorted(each.standing.name for each in here.processes) == ["LEADING", "STANDBY"], 200)
        assert one.may_append


def test_a_target_that_is_away_ends_the_lead_until_it_is_back(caplog: pytest.LogCaptureFixture) -> None:
    with world() as here:
        one, two = here.begin("one", LEADS), here.begin("two", STANDS_BY)
        for node in here.target.nodes:
            here.target.stop(node)
        assert here.until(lambda: not one.may_append) <= SESSION_S
        here.pass_by(20)
        assert here.leaders == []
        assert caplog.text.count("nothing is copied until group east-mm2 of west confirms again") == 1
        assert "west has not answered" in two.election.text
        for node in here.target.nodes:
            here.target.start(node)
        here.until(lambda: len(here.leaders) == 1)
        here.until(lambda: {one.standing, two.standing} == {LEADS, STANDS_BY})


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (
            "connect",
            (
                "MirrorMaker 2 still runs this flow: group east-mm2 of west has the members mm2-worker at 10.0.0.1; "
                "stop it, twinlog waits and takes over; to run twinlog beside it, write a canary: twinlog canary"
            ),
        ),
        ("twinlog", "another version of twinlog runs this flow"),
        ("consumer", "is used by other programs (consumer protocol: mm2-worker at 10.0.0.1)"),
    ],
)
def test_members_of_another_kind_are_waited_for(kind: str, text: str) -> None:
    with world() as here:
        member = here.join_others(kind)
        one = here.begin("one", ElectionState.WAITING)
        here.pass_by(30)
        assert text in one.election.text
        assert one.went == [ElectionState.WAITING]
        here.target.groups.forget(here.settings.group_id, member)
        assert here.until(lambda: one.may_append) < SOON_S


def test_an_intruder_that_comes_while_the_target_was_away_is_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    """The group was empty for a moment, and MirrorMaker 2 was quicker."""
    with world() as here:
        one = here.begin("one", LEADS)
        member = here.join_others("connect")
        here.until(lambda: one.standing is ElectionState.WAITING)
        assert not one.may_append
        assert "MirrorMaker 2 still runs this flow" in caplog.text
        here.target.groups.forget(here.settings.group_id, member)
        here.until(lambda: one.may_append)
        assert one.went == [LEADS, ElectionState.JOINING, ElectionState.WAITING, LEADS]


@pytest.mark.parametrize("key", [JOIN_GROUP, SYNC_GROUP, FIND_COORDINATOR])
def test_without_the_right_nobody_leads_until_it_is_granted(key: int, caplog: pytest.LogCaptureFixture) -> None:
    """The flow of the election logs the reason."""
    with world() as here:
        here.target.fault(key, Fault(code=Code.GROUP_AUTHORIZATION_FAILED), times=3)
        one = here.begin("one", ElectionState.REFUSED)
        assert "lacks READ on group east-mm2" in one.election.text
        here.until(lambda: one.may_append, 120)
        assert here.target.faults_left == 0
        assert "lacks READ on group east-mm2" not in caplog.text


def test_a_leader_that_loses_the_right_keeps_the_lead_while_it_is_confirmed() -> None:
    with world() as here:
        one = here.begin("one", LEADS)
        here.target.fault(JOIN_GROUP, Fault(code=Code.GROUP_AUTHORIZATION_FAILED))
        two = here.begin("two")
        here.until(lambda: two.standing is ElectionState.REFUSED)
        here.until(lambda: two.standing is STANDS_BY)
        assert one.went == [LEADS]


def test_brokers_that_want_longer_sessions_get_them(caplog: pytest.LogCaptureFixture) -> None:
    with world() as here, caplog.at_level(logging.INFO):
        here.target.groups.shortest_session_s = 25.0
        one, two = here.begin("one", LEADS), here.begin("two", STANDS_BY)
        assert "the brokers want sessions of 30 s at least" in caplog.text
        one.freeze()
        assert 28 <= here.until(lambda: two.may_append) <= 30 + SOON_S


def test_a_leader_hands_the_flow_over_to_the_process_it_names() -> None:
    with world() as here:
        one = here.begin("one", LEADS)
        others = [here.begin(name, STANDS_BY) for name in ("two", "three", "four")]
        one.election.give_up("three")
        assert not one.may_append
        here.until(lambda: others[1].may_append and one.standing is STANDS_BY)
        assert [other.standing for other in others] == [STANDS_BY, LEADS, STANDS_BY]
