"""How far MirrorMaker 2 or another program has copied: it stores positions once a minute, and offset syncs sooner."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from twinlog.errors import RefusedError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.consumer.topic_reader import TopicReader
from twinlog.kafka.record.last_records import KeptRecord, LastRecords, taken
from twinlog.mirror.offsets.syncs import OffsetSync, decode_offset_sync
from twinlog.model.types import TopicName, TopicPartition
from twinlog.settings.flow import FlowSettings

MOST = 4_000
"""The number of syncs that are read before the end: earlier syncs are older than stored positions."""


class SyncedOffsets:
    """The newest offset sync of each partition of a flow, and the number of records that the target received after it;
    `read` may be called repeatedly."""

    def __init__(self, settings: FlowSettings, source: ClusterAdmin, target: ClusterAdmin) -> None:
        self._target = target
        here = source if settings.offset_syncs_location == "source" else target
        self._reader = TopicReader(here, TopicName(settings.offset_syncs_topic), optional=True, last=MOST)
        self._news: LastRecords = {}
        self._newest: dict[TopicPartition, OffsetSync] = {}

    def read(
        self, wanted: Iterable[TopicPartition], remote: Callable[[TopicPartition], TopicPartition]
    ) -> Mapping[TopicPartition, int]:
        """Return the next source offset to copy of each partition with a known sync; if the source has holes, the
        result is below the true offset. Raises ClusterError; if the right to read syncs is missing, the result is
        empty."""
        try:
            self._reader.read_last(self._news)
        except RefusedError:
            return {}
        for _, record in taken(self._news, KeptRecord.decode):
            sync = decode_offset_sync(record.key, record.value)
            if sync is not None:
                self._newest[sync.source] = sync
        synced = {part: self._newest[part] for part in wanted if part in self._newest}
        ends = self._target.offsets([remote(part) for part in synced], latest=True) if synced else {}
        return {
            part: sync.upstream + end - sync.downstream
            for part, sync in synced.items()
            if (end := ends.get(remote(part), -1)) > sync.downstream
        }
