"""Answers an application's questions about mirroring on a target cluster, as MirrorMaker 2's client library does in
Java.

    from twinlog.client import translate_offsets
    from twinlog.settings.client import ClientSettings

    west = ClientSettings(("west-1:9092",))
    for partition, committed in translate_offsets(west, "east", "my-group", timeout_s=30).items():
        consumer.commit(...)

All answers are read from the application's cluster, the target; the source may be down. Behaviour of Kafka 4.3's
classes MirrorClient and RemoteClusterUtils (KIP-382, KIP-1239), with three differences: an error replaces an incomplete
answer when the time is over before all checkpoints are read; an error replaces an empty answer when the cluster lacks a
topic of checkpoints for an alias (a group would start from the wrong offset); and a user's topic, for example
`east.device.heartbeats`, counts as an ordinary topic.
"""

from __future__ import annotations

import re
from types import TracebackType
from typing import overload

from twinlog.clock import SYSTEM
from twinlog.errors import ClusterError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.consumer.topic_reader import TopicReader
from twinlog.kafka.record.last_records import KeptRecord, LastRecords
from twinlog.kafka.retry import TASK_CONNECT_S
from twinlog.mirror.heartbeats import HeartbeatTopics
from twinlog.mirror.records import decode_checkpoint
from twinlog.mirror.topology import naming
from twinlog.mirror.topology.naming import DefaultReplicationPolicy
from twinlog.model.groups import CommittedOffset
from twinlog.model.topic_names import HeartbeatNames
from twinlog.model.types import Alias, GroupId, TopicName, TopicPartition
from twinlog.settings.client import ClientSettings

__all__ = [
    "CommittedOffset",
    "MirrorClient",
    "checkpoint_topics",
    "heartbeat_topics",
    "remote_topics",
    "replication_hops",
    "translate_offsets",
    "upstream_clusters",
]

DEFAULT_POLICY = DefaultReplicationPolicy()


class MirrorClient:
    """Asks a single cluster; connects with the first question. Close it, or use it as a context manager.

    `policy` is the replication policy of the flows to this cluster. Every method raises ClusterError when the cluster
    is silent and RefusedError when a permission is missing.
    """

    def __init__(self, settings: ClientSettings, policy: DefaultReplicationPolicy = DEFAULT_POLICY) -> None:
        self.policy = policy
        self._settings = settings
        self._open: ClusterAdmin | None = None

    def __enter__(self) -> MirrorClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None

    def heartbeat_topics(self) -> set[TopicName]:
        """Topics that hold heartbeats: this cluster's `heartbeats` and mirrored topics, for example `east.heartbeats`.

        A topic of another kind with a similar name, for example `east.device.heartbeats`, is left out; an empty or an
        unreadable topic counts by its name, as to MirrorMaker 2.
        """
        named = {topic for topic in self._topics() if self.policy.passes_as_heartbeats(topic)}
        names = HeartbeatNames(self.policy.separator, frozenset())
        found = HeartbeatTopics(self._admin(TASK_CONNECT_S), names)
        found.inspect_topics(named)
        return named - found.others

    def checkpoint_topics(self) -> set[TopicName]:
        """Topics that hold checkpoints, for example `east.checkpoints.internal`."""
        return {topic for topic in self._topics() if self.policy.is_checkpoints(topic)}

    def upstream_clusters(self) -> set[Alias]:
        """Every cluster whose heartbeats arrive here, directly or over further clusters."""
        return {alias for topic in self.heartbeat_topics() for alias in naming.sources(self.policy, topic)}

    def replication_hops(self, upstream_alias: str) -> int:
        """Over how many flows heartbeats of a cluster arrive here, by the shortest way; -1 if the cluster is unknown
        here.

        A flow from east to west makes 1 on west; this cluster's own alias makes -1.
        """
        found = [naming.hops(self.policy, topic, Alias(upstream_alias)) for topic in self.heartbeat_topics()]
        return min((count for count in found if count >= 0), default=-1)

    def remote_topics(self, source_alias: str | None = None) -> set[TopicName]:
        """Topics that are copies from another cluster; with `source_alias` those whose nearest source it is.

        With the identity policy every ordinary topic counts as a remote topic.
        """
        return {
            topic
            for topic in self._topics()
            if naming.is_remote(self.policy, topic) and source_alias in (None, self.policy.source_alias(topic))
        }

    @overload
    def translate_offsets(
        self, remote_alias: str, group: str, timeout_s: float
    ) -> dict[TopicPartition, CommittedOffset]: ...

    @overload
    def translate_offsets(
        self, remote_alias: str, group: re.Pattern[str], timeout_s: float
    ) -> dict[GroupId, dict[TopicPartition, CommittedOffset]]: ...

    def translate_offsets(
        self, remote_alias: str, group: str | re.Pattern[str], timeout_s: float
    ) -> dict[TopicPartition, CommittedOffset] | dict[GroupId, dict[TopicPartition, CommittedOffset]]:
        """The offsets from which a consumer group of cluster `remote_alias` continues here, by its last checkpoints.

        For a group: by partition of this cluster, empty for a group that lacks checkpoints. For a pattern, which must
        match whole group ids: the same by group. Raises ClusterError when the read takes longer than `timeout_s`
        seconds, or when the cluster lacks a topic of checkpoints of `remote_alias`.
        """
        if isinstance(group, re.Pattern):
            return self._checkpoints(remote_alias, group, timeout_s)
        return self._checkpoints(remote_alias, re.compile(re.escape(group)), timeout_s).get(GroupId(group), {})

    def _checkpoints(
        self, remote_alias: str, groups: re.Pattern[str], timeout_s: float
    ) -> dict[GroupId, dict[TopicPartition, CommittedOffset]]:
        deadline = SYSTEM.monotonic() + timeout_s
        topic = self.policy.checkpoints_topic(Alias(remote_alias))
        here = self._topics(timeout_s)
        if topic not in here:
            others = ", ".join(sorted(name for name in here if self.policy.is_checkpoints(name))) or "none"
            raise ClusterError(
                f"this cluster has no topic {topic}, so no checkpoints of groups of cluster {remote_alias}; check the "
                f"alias, the replication policy and emit.checkpoints.enabled (topics of checkpoints here: {others})"
            )
        last: LastRecords = {}
        # A checkpoint with a null value deletes nothing, as in RemoteClusterUtils.
        left_s = max(0.0, deadline - SYSTEM.monotonic())
        TopicReader(self._admin(timeout_s), topic).read_last(last, timeout_s=left_s, deletions=False)
        found: dict[GroupId, dict[TopicPartition, CommittedOffset]] = {}
        for record in map(KeptRecord.decode, last.values()):
            checkpoint = decode_checkpoint(record.key, record.value)
            if checkpoint is not None and groups.fullmatch(checkpoint.group):
                offset = CommittedOffset(checkpoint.downstream, checkpoint.metadata)
                found.setdefault(checkpoint.group, {})[checkpoint.remote] = offset
        return found

    def _topics(self, timeout_s: float = TASK_CONNECT_S) -> set[TopicName]:
        return set(self._admin(timeout_s).topics())

    def _admin(self, timeout_s: float) -> ClusterAdmin:
        if self._open is None:
            admin = ClusterAdmin("at " + ",".join(self._settings.bootstrap_servers), self._settings)
            try:
                admin.connect(timeout_s)
            except BaseException:
                admin.close()
                raise
            self._open = admin
        return self._open


@overload
def translate_offsets(
    settings: ClientSettings,
    remote_alias: str,
    group: str,
    timeout_s: float,
    *,
    policy: DefaultReplicationPolicy = DEFAULT_POLICY,
) -> dict[TopicPartition, CommittedOffset]: ...


@overload
def translate_offsets(
    settings: ClientSettings,
    remote_alias: str,
    group: re.Pattern[str],
    timeout_s: float,
    *,
    policy: DefaultReplicationPolicy = DEFAULT_POLICY,
) -> dict[GroupId, dict[TopicPartition, CommittedOffset]]: ...


def translate_offsets(
    settings: ClientSettings,
    remote_alias: str,
    group: str | re.Pattern[str],
    timeout_s: float,
    *,
    policy: DefaultReplicationPolicy = DEFAULT_POLICY,
) -> dict[TopicPartition, CommittedOffset] | dict[GroupId, dict[TopicPartition, CommittedOffset]]:
    """`MirrorClient.translate_offsets` on the cluster that `settings` reach."""
    with MirrorClient(settings, policy) as client:
        return client.translate_offsets(remote_alias, group, timeout_s)


def replication_hops(
    settings: ClientSettings, upstream_alias: str, *, policy: DefaultReplicationPolicy = DEFAULT_POLICY
) -> int:
    """`MirrorClient.replication_hops` on the cluster that `settings` reach."""
    with MirrorClient(settings, policy) as client:
        return client.replication_hops(upstream_alias)


def upstream_clusters(settings: ClientSettings, *, policy: DefaultReplicationPolicy = DEFAULT_POLICY) -> set[Alias]:
    """`MirrorClient.upstream_clusters` on the cluster that `settings` reach."""
    with MirrorClient(settings, policy) as client:
        return client.upstream_clusters()


def heartbeat_topics(settings: ClientSettings, *, policy: DefaultReplicationPolicy = DEFAULT_POLICY) -> set[TopicName]:
    """`MirrorClient.heartbeat_topics` on the cluster that `settings` reach."""
    with MirrorClient(settings, policy) as client:
        return client.heartbeat_topics()


def checkpoint_topics(settings: ClientSettings, *, policy: DefaultReplicationPolicy = DEFAULT_POLICY) -> set[TopicName]:
    """`MirrorClient.checkpoint_topics` on the cluster that `settings` reach."""
    with MirrorClient(settings, policy) as client:
        return client.checkpoint_topics()


def remote_topics(
    settings: ClientSettings, source_alias: str | None = None, *, policy: DefaultReplicationPolicy = DEFAULT_POLICY
) -> set[TopicName]:
    """`MirrorClient.remote_topics` on the cluster that `settings` reach."""
    with MirrorClient(settings, policy) as client:
        return client.remote_topics(source_alias)
