"""The source topics that a switchover of a flow moves, the topics that stay, and the topics that brokers hide."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping

from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.mirror.heartbeats import HeartbeatTopics
from twinlog.mirror.offsets.positions import Position
from twinlog.mirror.topology.topology import Topology, topology_of
from twinlog.mirror.unlisted_topics import find_hidden_copied
from twinlog.model.topic_names import HeartbeatNames
from twinlog.model.topics import Topic
from twinlog.model.types import Alias, TopicName, TopicPartition
from twinlog.ops.switchover.model import MovedTopic
from twinlog.settings.flow import FlowSettings


def moved_topics(
    topology: Topology, aliases: Collection[Alias], source: Mapping[TopicName, Topic]
) -> tuple[MovedTopic, ...]:
    """The topics of a flow, but for heartbeats. A copy from a third cluster has its producers elsewhere."""
    found = []
    for name, topic in sorted(source.items()):
        if topology.mirrors(name) and not topology.is_heartbeats(name):
            remote = topology.remote_name(name)
            copy = remote != name and topology.policy.source_alias(name) in aliases
            found.append(MovedTopic(name, remote, topic.partitions, TopicName("") if copy else name))
    return tuple(found)


def partitions_of(topics: Iterable[MovedTopic]) -> list[TopicPartition]:
    """The source partitions of moved topics."""
    return [where for topic in topics for where in topic.source_partitions]


class MovingTopics:
    """The topics of a flow from `source` to `target`, which are connected; `aliases` are the clusters of the file."""

    def __init__(
        self, flow: FlowSettings, aliases: Collection[Alias], source: ClusterAdmin, target: ClusterAdmin
    ) -> None:
        self._aliases = frozenset(aliases)
        self._source = source
        self._keeps_names = flow.keeps_names
        self._topology = topology_of(flow)
        self._heartbeats = HeartbeatTopics(source, self._topology.heartbeat_names)
        self._mirrored_heartbeats = HeartbeatTopics(target, self._topology.heartbeat_names, self._topology.remote_name)

    @property
    def heartbeat_names(self) -> HeartbeatNames:
        """The names of heartbeats topics, as far as records have told them."""
        return self._topology.heartbeat_names

    def list_moving(self, source: Mapping[TopicName, Topic]) -> tuple[MovedTopic, ...]:
        """The topics that move, of all topics of the source. Raises ClusterError."""
        self._topology = self._topology.knowing(self._heartbeats.inspect_topics(source).aliases)
        return moved_topics(self._topology, self._aliases, source)

    def list_copied(self, copied: Iterable[TopicPartition], there: Container[TopicName]) -> tuple[MovedTopic, ...]:
        """The topics that move away from a silent source, by the copied partitions and the topics of the target.

        Raises ClusterError.
        """
        counts: dict[TopicName, int] = {}
        for where in copied:
            counts[where.topic] = max(counts.get(where.topic, 0), where.partition + 1)
        self._topology = self._topology.knowing(self._mirrored_heartbeats.inspect_topics(counts).aliases)
        return tuple(
            MovedTopic(name, self._topology.remote_name(name), count, name)
            for name, count in sorted(counts.items())
            if self._topology.mirrors(name)
            and not self._topology.is_heartbeats(name)
            and self._topology.remote_name(name) in there
        )

    def list_staying(self, source: Mapping[TopicName, Topic]) -> list[TopicName]:
        """The topics that the flow leaves out, and to which producers may write."""
        return [name for name, topic in sorted(source.items()) if not topic.internal and self._stays(name)]

    def _stays(self, topic: TopicName) -> bool:
        policy = self._topology.policy
        copy = not self._keeps_names and policy.source_alias(topic) in self._aliases
        ours = copy or policy.is_internal(topic) or self._topology.is_heartbeats(topic)
        return not ours and not self._topology.mirrors(topic)

    def find_hidden(
        self,
        listed: Container[TopicName],
        there: Container[TopicName],
        positions: Mapping[TopicPartition, Position],
    ) -> list[TopicName]:
        """As `find_hidden_copied`, of the source topics `listed` and the target topics `there`."""
        return find_hidden_copied(self._source, self._topology, positions, listed, lambda: there)
