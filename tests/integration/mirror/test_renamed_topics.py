"""Naming that was changed between two runs: nothing is missed without a word."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from harness.cluster import KafkaCluster
from harness.consume import consume_topics
from harness.produce import NewRecord, produce
from harness.topics import create_topic, topics
from harness.wait import wait_for
from tests.integration.copying import DEADLINE_S, CopyFlow, flow_settings
from tests.integration.without_spark import FlowWithoutSpark
from twinlog.model.types import TopicName, TopicPartition
from twinlog.settings.flow import RenamedTopicPolicy
from twinlog.worker.flow.flow import FlowState

Clusters = tuple[KafkaCluster, KafkaCluster]


@contextmanager
def running(clusters: Clusters, topic: str, **settings: Any) -> Iterator[FlowWithoutSpark]:
    with FlowWithoutSpark(flow_settings(*clusters, topics=(topic,), **settings)) as flow:
        yield flow


def made(numbers: range) -> list[NewRecord]:
    return [NewRecord(str(number).encode()) for number in numbers]


def arrive(clusters: Clusters, remote: str, count: int) -> list[bytes | None]:
    """What a remote topic holds, once it is so many records."""

    def there() -> list[bytes | None] | None:
        if remote not in topics(clusters[1]):
            return None
        values = [record.value for record in consume_topics(clusters[1], [remote])[remote]]
        return values if len(values) >= count else None

    return wait_for(there, DEADLINE_S, f"{remote} holds {count} records")


@pytest.fixture
def copied(clusters: Clusters, new_name: Callable[[str], str]) -> str:
    """A topic of which ten records were copied as `north.<topic>`."""
    topic = new_name("r")
    create_topic(clusters[0], topic)
    produce(clusters[0], topic, made(range(10)))
    with running(clusters, topic):
        arrive(clusters, f"north.{topic}", 10)
    return topic


def test_it_stops_with_both_names_and_goes_on_as_before(clusters: Clusters, copied: str) -> None:
    with running(clusters, copied, separator="--") as flow:
        wait_for(lambda: flow.runner.state is FlowState.FAILED, DEADLINE_S, "the flow fails")
        reason = flow.runner.reason or ""
        assert f"{copied} (to north.{copied} until now, to north--{copied} from now on)" in reason
        assert "north->south.twinlog.renamed.topic.policy = restart" in reason
    assert f"north--{copied}" not in topics(clusters[1])
    produce(clusters[0], copied, made(range(10, 12)))
    with running(clusters, copied):
        assert len(arrive(clusters, f"north.{copied}", 12)) == 12


@pytest.mark.parametrize(("policy", "first"), [("restart", 0), ("continue", 10)])
def test_the_renamed_topic_policy_is_applied_once(
    clusters: Clusters, copied: str, copy_flow: CopyFlow, policy: RenamedTopicPolicy, first: int
) -> None:
    with running(clusters, copied, policy="identity", renamed_topic_policy=policy) as flow:
        part = TopicPartition(TopicName(copied), 0)
        wait_for(lambda: part in flow.runner.flow_status.partitions(), DEADLINE_S, "it is copied")

        # Told once, whether or not a record follows.
        def named() -> bool:
            stored = copy_flow.stored(copied)
            return stored is not None and stored.remote_topic == copied

        wait_for(named, DEADLINE_S, "the position knows the new name")
    produce(clusters[0], copied, made(range(10, 12)))
    with running(clusters, copied, policy="identity") as flow:
        assert arrive(clusters, copied, 12 - first) == [record.value for record in made(range(first, 12))]
        assert flow.runner.state is FlowState.RUNNING


def test_going_back_to_the_first_name_warns_of_its_records(
    clusters: Clusters, copied: str, caplog: pytest.LogCaptureFixture
) -> None:
    with running(clusters, copied, separator="--", renamed_topic_policy="restart"):
        arrive(clusters, f"north--{copied}", 10)
    assert "had records already" not in caplog.text
    produce(clusters[0], copied, made(range(10, 12)))
    with running(clusters, copied, renamed_topic_policy="restart"):
        assert len(arrive(clusters, f"north.{copied}", 22)) == 22
    assert f"north.{copied} had records already, which stand there a second time" in caplog.text


def test_a_name_that_collides_with_another_is_shown(clusters: Clusters, new_name: Callable[[str], str]) -> None:
    """Kafka refuses a topic whose name differs from another's only in dots and underscores."""
    topic = new_name("c").replace("-", "")
    create_topic(clusters[0], topic)
    create_topic(clusters[1], f"north_{topic}")
    with running(clusters, topic) as flow:
        trouble = wait_for(lambda: flow.runner.flow_status.summary().trouble, DEADLINE_S, "the operator sees it")
        assert f"north.{topic}" in trouble
        assert "collides with existing topic" in trouble
