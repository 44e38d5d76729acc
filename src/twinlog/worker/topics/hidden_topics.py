"""Tells topics that a login may no longer describe from deleted topics, so that their partitions stay in the flow.

Brokers leave topics without DESCRIBE out of the list of all topics (Kafka class KafkaApis). A flow that took a hidden
topic for deleted would stop copying the topic in silence, as MirrorMaker 2 does. While the topic stays in the flow,
copiers hold its partitions for the missing right, and continue once the right is back.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence

from twinlog.errors import RefusedError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.admin.topics import find_unlisted_topics
from twinlog.mirror.offsets.position_store import StoredPositions, copied_topics
from twinlog.mirror.topics.changes import TopicPair
from twinlog.mirror.topology.topology import Topology, absent_topics
from twinlog.model.topics import Topic, listed
from twinlog.model.types import TopicName

log = logging.getLogger(__name__)

Topics = dict[TopicName, Topic]


class HiddenTopics:
    """The topics of a cluster that a flow uses, and that its login may no longer describe; for a single thread."""

    def __init__(self, flow: str, cluster: ClusterAdmin, purpose: str) -> None:
        self._flow = flow
        self._cluster = cluster
        self._purpose = purpose
        self._used: dict[TopicName, Topic] = {}
        self._hidden: frozenset[TopicName] = frozenset()
        self.unknown: dict[TopicName, str] = {}
        """Hidden topics that the flow has yet to see, each with the missing right; such a topic may be absent."""

    def use_topics(self, topics: Iterable[Topic]) -> None:
        """Replace the topics that the flow uses."""
        self._used = {topic.name: topic for topic in topics}

    def add_unlisted(self, topics: Topics, named: Iterable[TopicName] = ()) -> Topics:
        """`topics`, which is the list of all topics, with the used topics that exist and are missing there.

        A hidden topic is as the flow last saw it. `named` are topics that the file spells out. Only topics that are
        missing in the list cost a request. Raises ClusterError.
        """
        spelled_out = {name: Topic(name, 0) for name in named}
        missing = {name: topic for name, topic in (spelled_out | self._used).items() if name not in topics}
        found: Topics = {}
        hidden: frozenset[TopicName] = frozenset()
        if missing:
            found, hidden = self._cluster.call(find_unlisted_topics, self._cluster.client, missing)
        self._note(hidden)
        self.unknown = {name: str(self._lacks([name])) for name in hidden - self._used.keys()}
        return {**topics, **found, **{name: missing[name] for name in hidden & self._used.keys()}}

    def _note(self, hidden: frozenset[TopicName]) -> None:
        fresh, back = hidden - self._hidden, self._hidden - hidden
        self._hidden = hidden
        if fresh:
            log.warning("TW-RIGHT-02: %s: %s", self._flow, self._lacks(fresh))
        if back:
            log.info("%s: cluster %s no longer hides topic %s", self._flow, self._cluster.alias, listed(back))

    def _lacks(self, names: Collection[TopicName]) -> RefusedError:
        return self._cluster.client.lacks("DESCRIBE", f"topic {listed(names)}", self._purpose)


class TopicLists:
    """The topics of both clusters of a flow, with the hidden topics that the flow copies; for a single thread."""

    def __init__(self, flow: str, source: ClusterAdmin, target: ClusterAdmin, positions: StoredPositions) -> None:
        self._source, self._target, self._positions = source, target, positions
        self._hidden_source = HiddenTopics(flow, source, "copying it")
        self._hidden_target = HiddenTopics(flow, target, "copying to it")
        self._begun = False

    def read_both(self, topology: Topology) -> tuple[Topics, Topics]:
        """The topics of source and target.

        The first call finds hidden source topics by their stored positions. Raises ClusterError.
        """
        source, target = self._source.topics(), self._target.topics()
        if not self._begun:
            copied = copied_topics(self._positions.read_all())
            self._hidden_source.use_topics(topic for topic in copied if topology.mirrors(topic.name))
        source = self._hidden_source.add_unlisted(source, absent_topics(topology, source))
        return source, self._hidden_target.add_unlisted(target)

    def read_target(self) -> Topics:
        """The topics of the target. Raises ClusterError."""
        return self._hidden_target.add_unlisted(self._target.topics())

    def use_pairs(self, pairs: Sequence[TopicPair], target: Mapping[TopicName, Topic]) -> None:
        """Replace the pairs of topics that the flow copies; a remote topic may be missing in `target`."""
        self._hidden_source.use_topics(pair.source for pair in pairs)
        self._hidden_target.use_topics(target[pair.remote] for pair in pairs if pair.remote in target)
        self._begun = True

    @property
    def unknown(self) -> dict[TopicName, str]:
        """Hidden source topics that the file spells out and the flow has yet to see, each with the missing right."""
        return self._hidden_source.unknown
