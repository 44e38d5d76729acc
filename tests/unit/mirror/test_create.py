"""A target that does not take everything: what is left out is logged once for all topics that it concerns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import pytest

from harness.virtual.cluster import VirtualCluster
from harness.virtual.loop import VirtualLoop, virtual_loop
from twinlog.errors import ClusterError
from twinlog.kafka.admin.cluster import LEADERS_S, ClusterAdmin
from twinlog.kafka.protocol.error_codes import Code
from twinlog.mirror.create import create_topics
from twinlog.model.topics import NewTopic, Refusal
from twinlog.model.types import TopicName
from twinlog.settings.flow import ClientSettings


class Target:
    """Has one broker, knows no setting `vendor.tier`, and wants no topic `secret`."""

    alias = "south"

    def __init__(self) -> None:
        self.created: dict[TopicName, NewTopic] = {}

    def create_topics(self, topics: Sequence[NewTopic]) -> dict[TopicName, Refusal]:
        refused = {topic.name: refusal for topic in topics if (refusal := self._refusal(topic))}
        self.created.update({topic.name: topic for topic in topics if topic.name not in refused})
        return refused

    def _refusal(self, topic: NewTopic) -> Refusal | None:
        if topic.name == "secret":
            return Refusal(Code.TOPIC_AUTHORIZATION_FAILED, "no")
        if topic.replication_factor > 1:
            return Refusal(Code.INVALID_REPLICATION_FACTOR, "only 1 broker")
        if "vendor.tier" in topic.configs:
            return Refusal(Code.INVALID_CONFIG, "Unknown topic config name: vendor.tier")
        return None


def topic(name: str, replication_factor: int = 1, configs: Mapping[str, str] | None = None) -> NewTopic:
    return NewTopic(TopicName(name), 1, replication_factor, configs or {})


def test_a_setting_left_out_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    target = Target()
    odd = topic("c", configs={"vendor.tier": "hot", "retention.ms": "1"})
    wanted = [topic("b", 3), topic("a", 3), odd, topic("d"), topic("secret", 3)]
    refused = create_topics("n->s", cast(ClusterAdmin, target), wanted)
    assert list(refused) == ["secret"]
    assert {name: one.replication_factor for name, one in target.created.items()} == {"a": -1, "b": -1, "c": 1, "d": 1}
    assert target.created[TopicName("c")].configs == {"retention.ms": "1"}
    assert caplog.messages == [
        "n->s: cluster south refuses replication factor 3 of a, b (only 1 broker); the broker's default is taken",
        "n->s: cluster south refuses vendor.tier of c (Unknown topic config name: vendor.tier); created without",
    ]


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

        admin = ClusterAdmin("south", ClientSettings(cluster.bootstrap), VirtualLoop(loop.world))
        try:
            admin.connect()
            cluster.carried_out = busy
            if pause_s < LEADERS_S:
                assert admin.create_topics([topic(name) for name in names]) == {}
                assert loop.clock.monotonic() - began >= 3 * pause_s
            else:
                with pytest.raises(ClusterError, match="topics without a leader: t1, t2, t3"):
                    admin.create_topics([topic(name) for name in names])
        finally:
            admin.close()
