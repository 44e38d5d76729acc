"""Source topics of a flow that the list of all topics lacks: hidden from the login, deleted, or yet to come.

Brokers leave a topic without DESCRIBE out of that list (Kafka class KafkaApis).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping

from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.admin.topics import find_unlisted_topics
from twinlog.mirror.offsets.position_store import copied_topics
from twinlog.mirror.offsets.positions import Position
from twinlog.mirror.topology.topology import Topology, absent_topics
from twinlog.model.topics import Topic
from twinlog.model.types import TopicName, TopicPartition


def unlisted_topics(
    topology: Topology, seen: Container[TopicName], positions: Mapping[TopicPartition, Position]
) -> list[Topic]:
    """The topics that are not among those `seen` on the source, and that the flow has copied or the file spells out.

    Copied topics are known by their stored `positions`, and have ids; topics that the file alone names lack an id.
    """
    found = {name: Topic(name, 0) for name in absent_topics(topology, seen)}
    copied = copied_topics(positions)
    found |= {topic.name: topic for topic in copied if topic.name not in seen and topology.mirrors(topic.name)}
    return list(found.values())


def find_hidden(cluster: ClusterAdmin, unlisted: Iterable[Topic]) -> frozenset[TopicName]:
    """The topics that brokers hide from the login, of topics that the list of all topics lacks; no request for none.

    Raises ClusterError.
    """
    missing = {topic.name: topic for topic in unlisted}
    if not missing:
        return frozenset()
    _, hidden = cluster.call(find_unlisted_topics, cluster.client, missing)
    return hidden
