"""Processes of one flow choose who runs it on a real coordinator: joining, leaving, falling silent, other members."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from confluent_kafka import Consumer

from harness.acls import Acl, create_acls
from harness.cluster import KafkaCluster
from harness.topics import create_topic
from harness.wait import wait_for
from tests.integration.copying import flow_settings
from twinlog.kafka.coordinator import membership
from twinlog.kafka.retry import RetryPolicy
from twinlog.settings.client import AdminSettings, ClientSettings
from twinlog.settings.flow import FlowSettings
from twinlog.worker.election import election
from twinlog.worker.election.election import Election
from twinlog.worker.election.role import ElectionState
from twinlog.worker.election.roster import ElectionRegistry

ENOUGH_S = 60.0


@contextmanager
def elections(settings: FlowSettings, count: int) -> Iterator[list[Election]]:
    """Members `m-0`, `m-1` and so on that start one after the other, each once the one before knows who leads."""
    members: list[Election] = []
    try:
        for number in range(count):
            member = Election(settings, lambda: None, ElectionRegistry(ready=True, name=f"m-{number}"))
            members.append(member)
            member.start()
            wait_for(lambda: members[-1].leadership is not None, ENOUGH_S, "the leader is known")
        yield members
    finally:
        for member in members:
            member.stop(1.0)


def sampled(seconds: float) -> Iterator[float]:
    """Moments until so many seconds are over."""
    end = time.monotonic() + seconds
    while (now := time.monotonic()) < end:
        yield now
        time.sleep(0.01)


def leads(member: Election) -> bool:
    return member.standing is ElectionState.LEADING


@pytest.fixture(scope="module")
def fragile() -> Iterator[KafkaCluster]:
    """A cluster with an authorizer that may be killed."""
    with KafkaCluster("fragile", acls=True, heap="256m") as cluster:
        yield cluster


@pytest.fixture
def settings(clusters: tuple[KafkaCluster, KafkaCluster], new_name: Callable[[str], str]) -> FlowSettings:
    """A flow with a group of its own."""
    return replace(flow_settings(*clusters), worker_group_id=new_name("g"))


def test_a_leader_stays_one_while_others_come_and_go(settings: FlowSettings) -> None:
    with elections(settings, 1) as (first,):
        assert leads(first)
        proven = []
        for _ in range(2):
            with elections(settings, 2) as others:
                assert [other.standing for other in others] == [ElectionState.STANDBY] * 2
                assert {str(other.leadership) for other in others} == {str(first.leadership)}
                assert "(since " in others[0].text
                assert [other.leads_for_s() for other in others] == [0.0] * 2
                proven += [first.leads_for_s() for _ in sampled(1.0)]
            proven += [first.leads_for_s() for _ in sampled(1.0)]
        assert min(proven) > 0.0
        assert first.term == 1


def test_who_leaves_is_followed_at_once(settings: FlowSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    # Of one that is silent it would be long before anybody knew.
    monkeypatch.setattr(membership, "SESSION_S", 5 * ENOUGH_S)
    with elections(settings, 3) as (first, second, third):
        first.stop(ENOUGH_S)
        wait_for(lambda: leads(second) or leads(third), ENOUGH_S, "another one leads")
        wait_for(lambda: leads(second) != leads(third), ENOUGH_S, "one of them leads")
        follower, leader = sorted((second, third), key=leads)
        wait_for(lambda: follower.leadership == leader.leadership, ENOUGH_S, "the other one knows")


def test_who_did_not_reach_the_source_is_not_ready_before_it_does(
    settings: FlowSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(election, "MEMBER_CONNECT_S", 1.0)
    monkeypatch.setattr(election, "REACH_S", 0.2)
    nowhere = replace(settings, source_admin=AdminSettings(ClientSettings(("127.0.0.1:1",))))
    with elections(nowhere, 2) as (first, second):
        first.give_up("m-1", unfit_s=0.1)
        wait_for(lambda: leads(second) and first.standing is ElectionState.STANDBY, ENOUGH_S, "the other one leads")
        assert first.text.endswith(f"not ready, as {settings.source} was out of reach from here")
        for member in (first, second):
            assert member._roster.crews()[settings.name].ready == {"m-0": False, "m-1": True}
        # It comes into question all the same where there is nobody else.
        second.stop(1.0)
        wait_for(lambda: leads(first), ENOUGH_S, "it leads again")
        assert first.unfit
    with elections(settings, 2) as (first, second):
        first.give_up("m-1", unfit_s=0.1)
        wait_for(lambda: leads(second), ENOUGH_S, "the other one leads")
        wait_for(
            lambda: second._roster.crews()[settings.name].ready == {"m-0": True, "m-1": True},
            ENOUGH_S,
            "it is ready again",
        )
        assert leads(second)
        assert not first.unfit


def test_settings_that_differ_are_named_to_both(settings: FlowSettings, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    other = replace(settings, topics=("orders",), offset_lag_max=7)
    with elections(settings, 1), elections(other, 1) as (late,):
        assert late.text.endswith("its offset.lag.max, topics differ")

        def lines(text: str) -> list[str]:
            return [line for line in map(logging.LogRecord.getMessage, caplog.records) if text in line]

        # The member of either settings logs on a thread of its own.
        for text in ("this process differ from those of", "stands by with other settings than this process:"):
            wait_for(lambda: lines(text), ENOUGH_S, text)  # noqa: B023
            assert [line for line in lines(text) if "offset.lag.max, topics" in line] == lines(text)
            assert len(lines(text)) == 1


def test_members_of_another_kind_are_named_and_waited_for(
    clusters: tuple[KafkaCluster, KafkaCluster], settings: FlowSettings, topic_name: str
) -> None:
    create_topic(clusters[1], topic_name)
    consumer = Consumer(
        {
            **clusters[1].client_config(),
            "group.id": settings.group_id,
            "client.id": "somebody",
            "session.timeout.ms": 6000,
        }
    )
    member = Election(settings, lambda: None, ElectionRegistry(ready=True))
    try:
        consumer.subscribe([topic_name])
        wait_for(
            lambda: consumer.poll(0.1) is None and bool(consumer.assignment()), ENOUGH_S, "the consumer is a member"
        )
        member.start()
        wait_for(lambda: member.standing is ElectionState.WAITING, ENOUGH_S, "it waits")
        assert f"group {settings.group_id} of {settings.target} is used by other programs" in member.text
        assert "consumer protocol: somebody at 127.0.0.1" in member.text
        consumer.close()
        wait_for(lambda: leads(member), ENOUGH_S, "it leads")
    finally:
        member.stop(1.0)


def test_a_coordinator_that_comes_back_finds_the_same_leader(
    fragile: KafkaCluster, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    with elections(flow_settings(fragile, fragile), 2) as (first, second):
        fragile.kill()
        wait_for(lambda: first.leads_for_s() == 0.0, ENOUGH_S, "nothing is proven")
        wait_for(
            lambda: "nothing is copied until group north-mm2 of south confirms again" in caplog.text,
            ENOUGH_S,
            "it is logged",
        )
        fragile.restart()
        wait_for(lambda: first.leads_for_s() > 0.0, 60, "the coordinator confirms")
        assert (leads(first), first.term) == (True, 1)
        wait_for(lambda: second.standing is ElectionState.STANDBY, ENOUGH_S, "the other one stands by")
        assert second.term == 0


def test_one_that_was_appointed_by_another_stays_when_the_coordinator_comes_back(fragile: KafkaCluster) -> None:
    settings = replace(flow_settings(fragile, fragile), worker_group_id="appointed")
    with elections(settings, 2) as (leader, runner):
        leader.give_up("m-1")
        wait_for(lambda: leads(runner) and leader.standing is ElectionState.STANDBY, ENOUGH_S, "it was handed over")
        assert leader.leadership == runner.leadership
        fragile.kill()
        wait_for(lambda: runner.leads_for_s() == 0.0, ENOUGH_S, "nothing is proven")
        fragile.restart()
        wait_for(lambda: runner.leads_for_s() > 0.0, 60, "the coordinator confirms")
        assert (leads(runner), runner.term, leader.standing) == (True, 1, ElectionState.STANDBY)
        # The group's leader goes, the runner stays.
        proven = []
        leader.stop(1.0)
        proven += [runner.leads_for_s() for _ in sampled(2.0)]
        assert min(proven) > 0.0
        assert runner.term == 1


def test_the_right_that_it_needs_is_named_until_it_is_there(
    fragile: KafkaCluster, new_name: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(election, "REFUSED", RetryPolicy(0.2, 0.2))
    group = new_name("g")
    login = ClientSettings(
        (fragile.sasl_bootstrap,), "SASL_PLAINTEXT", "PLAIN", "mirrormaker", fragile.users["mirrormaker"]
    )
    settings = replace(flow_settings(fragile, fragile), target_admin=AdminSettings(login), worker_group_id=group)
    member = Election(settings, lambda: None, ElectionRegistry(ready=True))
    try:
        member.start()
        wait_for(lambda: member.standing is ElectionState.REFUSED, ENOUGH_S, "it is refused")
        assert member.reason == (
            f"TW-RIGHT-02: cluster south: User:mirrormaker lacks READ on group {group}, needed for choosing "
            "which process runs the flow"
        )
        create_acls(fragile, [Acl(group, "User:mirrormaker", "READ", resource="GROUP")])
        wait_for(lambda: leads(member), ENOUGH_S, "it leads")
    finally:
        member.stop(1.0)
