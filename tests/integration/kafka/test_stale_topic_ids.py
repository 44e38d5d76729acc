"""A broker that has not heard yet that a topic was recreated names its old id: nothing is copied again for that."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import replace

import pytest

from harness.consume import consume
from harness.produce import numbered, produce
from harness.topics import create_topic, delete_topic
from tests.integration.copying import SOURCE, TARGET, CopyFlow
from twinlog.copier.partition.life import CheckSource
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.metadata import TopicMetadata
from twinlog.model.types import Alias, TopicName

OLD, NEW = 100, 10
NEVER_THERE = uuid.UUID(int=77)
"""No topic has this id; Kafka's own are of version 4."""


class Behind:
    """Lets the metadata of one topic name an id for so many answers."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, cluster: Alias, topic: str, named: str | None = None, *, left: int = 6
    ) -> None:
        self.left = left
        name, stale = TopicName(topic), uuid.UUID(named) if named else NEVER_THERE
        refresh = ClusterClient.refresh

        async def behind(client: ClusterClient, topics: Iterable[TopicName]) -> dict[TopicName, TopicMetadata]:
            found = await refresh(client, topics)
            if client.alias == cluster and name in found and self.left:
                self.left -= 1
                client._topics[name] = found[name] = replace(found[name], topic_id=stale)
            return found

        monkeypatch.setattr(ClusterClient, "refresh", behind)


def copied(flow: CopyFlow, topic: str) -> list[int]:
    return [int(record.value or b"") for record in consume(flow.target, flow.remote(topic))]


def test_a_recreated_remote_topic_is_no_loss(
    copy_flow: CopyFlow, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    remote = copy_flow.create(topic_name)
    produce(copy_flow.source, topic_name, numbered(OLD))
    copy_flow.copy(topic_name)
    stored = copy_flow.stored(topic_name)
    assert stored is not None
    delete_topic(copy_flow.target, remote)
    create_topic(copy_flow.target, remote)
    produce(copy_flow.source, topic_name, numbered(NEW, start=OLD))
    behind = Behind(monkeypatch, TARGET, remote, stored.remote_topic_id)
    running = copy_flow.copy(topic_name)
    assert behind.left == 0
    assert copied(copy_flow, topic_name) == list(range(OLD, OLD + NEW))
    (event,) = running.events("target")
    assert "was recreated" in event


@pytest.mark.parametrize("cluster", [SOURCE, TARGET])
def test_an_id_from_before_is_not_that_of_a_newer_topic(
    copy_flow: CopyFlow, topic_name: str, monkeypatch: pytest.MonkeyPatch, cluster: Alias
) -> None:
    remote = copy_flow.create(topic_name)
    produce(copy_flow.source, topic_name, numbered(OLD))
    copy_flow.copy(topic_name)
    produce(copy_flow.source, topic_name, numbered(NEW, start=OLD))
    behind = Behind(monkeypatch, cluster, topic_name if cluster == SOURCE else remote)
    running = copy_flow.copy(topic_name)
    assert behind.left == 0
    assert copied(copy_flow, topic_name) == list(range(OLD + NEW))
    assert running.heard.events == []


def test_a_source_topic_is_not_taken_for_recreated_while_it_is_copied(
    copy_flow: CopyFlow, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy_flow.create(topic_name)
    produce(copy_flow.source, topic_name, numbered(OLD))
    behind = Behind(monkeypatch, SOURCE, topic_name, left=0)
    running = copy_flow.start(topic_name)
    copy_flow.wait_until_caught_up(running, topic_name)
    part = next(iter(running.copier.partitions.values()))

    async def look() -> None:
        behind.left = 6
        part.pause()
        part.state.request(CheckSource(None))

    running.run(look)
    produce(copy_flow.source, topic_name, numbered(NEW, start=OLD))
    copy_flow.wait_until_caught_up(running, topic_name)
    running.release()
    assert behind.left == 0
    assert running.heard.failures == []
    assert running.heard.events == []
    assert copied(copy_flow, topic_name) == list(range(OLD + NEW))
