"""Reads the checkpoints of groups that the checkpoints topic still has, with their times.

Kafka compacts the topic. Of each group and partition the last checkpoint stays, and earlier checkpoints stay until
their segment is closed and cleaned, an hour at most with the settings of twinlog.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from twinlog.kafka.admin.cluster import ClusterAdmin, Connect
from twinlog.kafka.consumer.topic_reader import TopicReader
from twinlog.kafka.retry import LOOK_CONNECT_S
from twinlog.mirror.records import decode_checkpoint
from twinlog.mirror.topology.plugins import policy_of
from twinlog.model.types import GroupId, SourceOffset, TargetOffset, TopicPartition
from twinlog.ops.status.readers import ClustersReader, ask_twice
from twinlog.settings.flow import FlowSettings

LAST_RECORDS = 20_000
"""The records before the end of the topic that the first reading takes."""

MOST_CHECKPOINTS = 100
"""The most kept checkpoints of a group."""

MOST_GROUPS = 10_000
"""The groups with the newest checkpoints; earlier groups, which may be gone, are forgotten."""


@dataclass(frozen=True, slots=True)
class GroupSyncEvent:
    """A checkpoint of a group, or a commit on the target, at `at_ms` (Unix): the group's offset in a remote partition,
    and the source offset that it stands for, None if unknown."""

    at_ms: int
    remote: TopicPartition
    source: SourceOffset | None
    target: TargetOffset


class CheckpointHistoryReader(ClustersReader):
    """The last checkpoints of each group of a flow; a repeated `read` reads only the new records."""

    def __init__(self, settings: FlowSettings, *, connect: Connect = ClusterAdmin) -> None:
        self._target = connect(settings.target, settings.target_admin.client)
        topic = policy_of(settings).checkpoints_topic(settings.source_name)
        self._reader = TopicReader(self._target, topic, optional=True, last=LAST_RECORDS)
        self._kept: Mapping[GroupId, tuple[GroupSyncEvent, ...]] = {}
        super().__init__((self._target,))

    def read(self) -> Mapping[GroupId, tuple[GroupSyncEvent, ...]]:
        """The last `MOST_CHECKPOINTS` checkpoints of each group, the oldest first; empty without the topic.

        Raises ClusterError, and RefusedError if the right to read the checkpoints topic is missing.
        """
        ask_twice(self._target, self._read_news)
        return self._kept

    def _read_news(self) -> None:
        if not self._target.client.connected:
            self._target.connect(LOOK_CONNECT_S)
        news: dict[GroupId, list[GroupSyncEvent]] = defaultdict(list)
        try:
            for _, record in self._reader.read():
                checkpoint = decode_checkpoint(record.key, record.value)
                if checkpoint is not None:
                    event = GroupSyncEvent(
                        record.timestamp, checkpoint.remote, checkpoint.upstream, checkpoint.downstream
                    )
                    news[checkpoint.group].append(event)
        finally:
            # The reader passes on each record once, also before an error.
            self._keep_news(news)

    def _keep_news(self, news: Mapping[GroupId, Sequence[GroupSyncEvent]]) -> None:
        """Keep checkpoints that were read, in the order of the groups' newest checkpoints."""
        kept = dict(self._kept)
        for group, events in news.items():
            kept[group] = (*kept.pop(group, ()), *events)[-MOST_CHECKPOINTS:]
        for group in list(kept)[:-MOST_GROUPS]:
            del kept[group]
        self._kept = kept
