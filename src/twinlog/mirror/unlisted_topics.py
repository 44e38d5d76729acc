"""Topics of a flow that the list of all topics lacks: hidden from the login, deleted, or yet to come.

Brokers leave a topic without DESCRIBE out of that list (Kafka class KafkaApis).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.admin.topics import find_unlisted_topics
from twinlog.mirror.offsets.position_store import copied_topics
from twinlog.mirror.offsets.positions import Position
from twinlog.mirror.topology.topology import Topology, absent_topics
from twinlog.model.topics import Topic, listed
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


def find_hidden_copied(
    source: ClusterAdmin,
    topology: Topology,
    positions: Mapping[TopicPartition, Position],
    seen: Container[TopicName],
    there: Callable[[], Container[TopicName]],
) -> list[TopicName]:
    """The topics that the flow has copied, and that brokers of the source hide from the login.

    These have stored positions, or the file spells them out and the target has their remote topics. `seen` are the
    topics of the source, and `there` returns the topics of the target. Raises ClusterError.
    """
    unlisted = unlisted_topics(topology, seen, positions)
    copied = {topic.name for topic in unlisted if topic.topic_id is not None}
    remotes = there() if len(copied) < len(unlisted) else ()
    missing = [one for one in unlisted if one.name in copied or topology.remote_name(one.name) in remotes]
    return sorted(find_hidden(source, missing))


@dataclass(frozen=True, slots=True)
class HiddenOffsets:
    """Topics whose committed offsets brokers leave out of each answer, and the missing right in words.

    Brokers answer with the offsets in topics that the login may describe (Kafka class KafkaApis).
    """

    topics: tuple[TopicName, ...]
    right: str


def find_hidden_offsets(
    source: ClusterAdmin,
    topology: Topology,
    positions: Mapping[TopicPartition, Position],
    seen: Container[TopicName],
    there: Callable[[], Container[TopicName]],
) -> HiddenOffsets | None:
    """The copied topics whose committed offsets the source hides from the login; None if the login sees all.

    Parameters and errors are as for `find_hidden_copied`.
    """
    return _offsets_in(source, find_hidden_copied(source, topology, positions, seen, there))


def find_hidden_back(
    target: ClusterAdmin,
    topology: Topology,
    positions: Mapping[TopicPartition, Position],
    seen: Container[TopicName],
) -> HiddenOffsets | None:
    """The flow's remote topics whose committed offsets the target hides from the login; None if the login sees all.

    The flow has stored `positions` of their originals, with ids of the remote topics, or the file spells the originals
    out. `seen` are the topics of the target. Raises ClusterError.
    """
    spelled = frozenset(absent_topics(topology, ()))
    found: dict[TopicName, Topic] = {}
    for part, position in positions.items():
        name = TopicName(position.remote_topic or topology.remote_name(part.topic))
        topic_id = None
        with suppress(ValueError):
            topic_id = uuid.UUID(position.remote_topic_id) if position.remote_topic_id else None
        if name not in seen and (topic_id is not None or part.topic in spelled):
            found[name] = Topic(name, 0, topic_id)
    return _offsets_in(target, sorted(find_hidden(target, found.values())))


def _offsets_in(cluster: ClusterAdmin, hidden: Sequence[TopicName]) -> HiddenOffsets | None:
    if not hidden:
        return None
    error = cluster.client.lacks("DESCRIBE", f"topic {listed(hidden)}", "reading the offsets of groups")
    return HiddenOffsets(tuple(hidden), str(error))


def raise_for_hidden(cluster: ClusterAdmin, wanted: Iterable[str], purpose: str) -> None:
    """Raise RefusedError if brokers hide a topic of `wanted` from the login, names that the list of topics lacks.

    Raises ClusterError.
    """
    hidden = find_hidden(cluster, [Topic(TopicName(name), 0) for name in wanted])
    if hidden:
        raise cluster.client.lacks("DESCRIBE", f"topic {listed(sorted(hidden))}", purpose)
