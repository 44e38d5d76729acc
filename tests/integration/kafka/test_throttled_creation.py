"""A quota on the changes of topics (KIP-599) delays these, and no other request of the flow."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from harness.cluster import KafkaCluster
from harness.quotas import quota
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.protocol.error_codes import Code
from twinlog.model.topics import NewTopic
from twinlog.model.types import TopicName
from twinlog.settings.client import ClientSettings

CLIENT = "twinlog-test-creator"
PARTITIONS = 60
"""At one change a second the broker throttles the client for about so many seconds."""


@pytest.fixture
def admin(target_cluster: KafkaCluster) -> Iterator[ClusterAdmin]:
    settings = ClientSettings(tuple(target_cluster.bootstrap.split(",")), client_id=CLIENT)
    found = ClusterAdmin("there", settings)
    found.connect(30)
    try:
        yield found
    finally:
        found.close()


def test_while_the_controller_throttles_every_other_request_is_answered(
    target_cluster: KafkaCluster, admin: ClusterAdmin, new_name: Callable[[str], str]
) -> None:
    large, *small = (TopicName(new_name(f"t{number}")) for number in range(3))
    with quota(target_cluster, CLIENT, "controller_mutation_rate", 1.0):
        assert admin.create_topics([NewTopic(large, PARTITIONS, 1, {})]) == {}
        refused = admin.create_topics([NewTopic(name, 1, 1, {}) for name in small])
        assert {name: refusal.code for name, refusal in refused.items()} == dict.fromkeys(
            small, Code.THROTTLING_QUOTA_EXCEEDED
        )
        begun = time.monotonic()
        assert admin.topics()[large].partitions == PARTITIONS
        assert time.monotonic() - begun < 10
        again = admin.create_topics([NewTopic(small[0], 1, 1, {})])
        assert "throttles this client" in again[small[0]].text
        assert "throttles this client" in admin.create_partitions({large: PARTITIONS + 1})[large].text
        assert time.monotonic() - begun < 10
