"""A target that does not take everything: what is left out is logged once for all topics that it concerns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import pytest

from harness.virtual.cluster import VirtualCluster
from harness.virtual.loop import VirtualLoop, virtual_loop
from tests.connected_admins import connected_admin
from twinlog.errors import ClusterError, RefusedError
from twinlog.kafka.admin.cluster import LEADERS_S, ClusterAdmin
from twinlog.kafka.protocol.error_codes import Code
from twinlog.mirror.topics.create import create_topics, negotiate, require_topics
from twinlog.model.topics import NewTopic, Refusal
from twinlog.model.types import TopicName
from twinlog.settings.client import ClientSettings


class Target:
    """Has one broker, knows no setting `vendor.tier`, wants no topic `secret`, and has no time for topic `throttled`.

    A policy wants no `segment.ms` and says so, neither `retention.bytes` nor `flush.ms` without saying so, and no topic
    whose name begins with `x`.
    """

    alias = "south"

    def __init__(self) -> None:
        self.created: dict[TopicName, NewTopic] = {}
        self.requests = 0

    def create_topics(self, topics: Sequence[NewTopic]) -> dict[TopicName, Refusal]:
        refused, _ = self.validate_topics(topics)
        self.created.update({topic.name: topic for topic in topics if topic.name not in refused})
        return refused

    def validate_topics(self, topics: Sequence[NewTopic]) -> tuple[dict[TopicName, Refusal], dict[TopicName, Any]]:
        self.requests += 1
        return {topic.name: refusal for topic in topics if (refusal := self._refusal(topic))}, {}

    def _refusal(self, topic: NewTopic) -> Refusal | None:
        if topic.name == "secret":
            return Refusal(Code.TOPIC_AUTHORIZATION_FAILED, "no")
        if topic.name == "throttled":
            return Refusal(89, "The throttling quota has been exceeded.")
        if topic.replication_factor > 1:
            return Refusal(Code.INVALID_REPLICATION_FACTOR, "only 1 broker")
        if "vendor.tier" in topic.configs:
            return Refusal(Code.INVALID_CONFIG, "Unknown topic config name: vendor.tier")
        if "segment.ms" in topic.configs:
            return Refusal(Code.POLICY_VIOLATION, "segment.ms is not allowed here.")
        if topic.name.startswith("x") or {"retention.bytes", "flush.ms"} & topic.configs.keys():
            return Refusal(Code.POLICY_VIOLATION, "see the rules of this cluster")
        return None


def topic(
    name: str, replication_factor: int = 1, configs: Mapping[str, str] | None = None, *, optional: bool = True
) -> NewTopic:
    own = configs or {}
    return NewTopic(TopicName(name), 1, replication_factor, own, frozenset(own if optional else ()))


def test_a_setting_left_out_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    target = Target()
    odd = topic("c", configs={"vendor.tier": "hot", "retention.ms": "1"})
    wanted = [topic("b", 3), topic("a", 3), odd, topic("d"), topic("secret", 3)]
    refused = create_topics("n->s", cast(ClusterAdmin, target), wanted)
    assert list(refused) == ["secret"]
    assert {name: one.replication_factor for name, one in target.created.items()} == {"a": -1, "b": -1, "c": 1, "d": 1}
    assert target.created[TopicName("c")].configs == {"retention.ms": "1"}
    assert caplog.messages == [
        (
            "TW-TOPIC-13: n->s: cluster south refuses replication factor 3 of a, b (only 1 broker); the broker's "
            "default is taken"
        ),
        (
            "TW-TOPIC-14: n->s: cluster south refuses vendor.tier of c (Unknown topic config name: vendor.tier); "
            "created without"
        ),
    ]


def test_a_policy_may_refuse_settings_with_and_without_naming_them(caplog: pytest.LogCaptureFixture) -> None:
    target = Target()
    both = topic("both", configs={"retention.bytes": "1", "segment.ms": "2", "retention.ms": "3", "flush.ms": "4"})
    named = topic("named", configs={"segment.ms": "1", "min.insync.replicas": "1", "file.delete.delay.ms": "9"})
    refused = create_topics(
        "n->s", cast(ClusterAdmin, target), [both, named, topic("plain", configs={"retention.ms": "1"})]
    )
    assert refused == {}
    assert {name: dict(one.configs) for name, one in target.created.items()} == {
        "both": {"retention.ms": "3"},
        "named": {"min.insync.replicas": "1", "file.delete.delay.ms": "9"},
        "plain": {"retention.ms": "1"},
    }
    assert caplog.messages == [
        f"TW-TOPIC-14: n->s: cluster south refuses {what}; created without"
        for what in (
            "segment.ms of both, named (segment.ms is not allowed here.)",
            "flush.ms, retention.bytes of both (see the rules of this cluster)",
        )
    ]
    # The three at first, two without what was named, the bare one, one with each of its settings, the last one.
    assert target.requests == 3 + 3 + 1


def test_what_a_policy_refuses_for_another_reason_keeps_its_reason(caplog: pytest.LogCaptureFixture) -> None:
    target = Target()
    wanted = [
        topic("x.orders", configs={"segment.ms": "1", "retention.ms": "2"}),
        topic("needed", configs={"retention.bytes": "1"}, optional=False),
    ]
    refused = create_topics("n->s", cast(ClusterAdmin, target), wanted)
    assert {name: refusal.text for name, refusal in refused.items()} == dict.fromkeys(
        ("x.orders", "needed"), "see the rules of this cluster"
    )
    assert target.created == {}
    assert caplog.messages == []


def test_a_setting_is_named_as_a_whole_word() -> None:
    wanted = topic("a", configs={"retention.ms": "1", "delete.retention.ms": "2"})
    answers = iter([{wanted.name: Refusal(Code.POLICY_VIOLATION, "no delete.retention.ms, please")}, {}])
    refused, (reduced,) = negotiate([wanted], lambda _: next(answers), lambda _: {})
    assert refused == {}
    assert reduced.topic.configs == {"retention.ms": "1"}


@pytest.mark.parametrize("pause_s", [20.0, 40.0])
def test_many_topics_may_take_long_as_long_as_one_after_the_other_gets_a_leader(pause_s: float) -> None:
    names = [f"t{number}" for number in range(4)]
    with virtual_loop(1) as loop:
        cluster = VirtualCluster(loop, "south")
        for name in names:
            cluster.create(name)
            cluster.move(name, 0, None)
        began = loop.clock.monotonic()

        def busy(_key: int, _request: object) -> None:
            for number, name in enumerate(names):
                if loop.clock.monotonic() - began >= number * pause_s:
                    cluster.topics.parts[name, 0].leader = 1

        with connected_admin("south", ClientSettings(cluster.bootstrap), loop=VirtualLoop(loop.world)) as admin:
            cluster.carried_out = busy
            if pause_s < LEADERS_S:
                assert admin.create_topics([topic(name) for name in names]) == {}
                assert loop.clock.monotonic() - began >= 3 * pause_s
            else:
                with pytest.raises(ClusterError, match="topics without a leader: t1, t2, t3"):
                    admin.create_topics([topic(name) for name in names])


@pytest.mark.parametrize(("name", "error"), [("secret", RefusedError), ("throttled", ClusterError)])
def test_a_topic_that_a_later_try_may_create_is_no_refusal(name: str, error: type[ClusterError]) -> None:
    with pytest.raises(error, match=f"cluster south: topic {name} could not be created: ") as caught:
        require_topics("north->south", cast("ClusterAdmin", Target()), [topic(name)])
    assert type(caught.value) is error
