"""Reads offset syncs of a flow on the driver; it decodes them only for partitions that are looked up."""

from __future__ import annotations

import threading
from collections.abc import Callable

from twinlog.kafka.consumer.topic_reader import TopicReader
from twinlog.mirror.offsets.fields import INT32, INT64, string
from twinlog.mirror.offsets.sync_translation import MirrorTranslation
from twinlog.mirror.offsets.syncs import OffsetSync, decode_offset_sync
from twinlog.model.types import TopicPartition

VALUE_SIZE = 2 * INT64.size
KEPT_APART = 4096
"""The most syncs of a partition as stored bytes; at this number the syncs that MirrorMaker 2 keeps are chosen."""


class SyncStore:
    """The 64 syncs of each partition that MirrorMaker 2 would keep, of the syncs for which `adds` is true.

    A topic of months may hold millions of syncs, and all syncs of a key count. Decoding and choosing takes ten
    microseconds a sync, keeping it undecoded takes one microsecond. `read` may run beside the other methods; callers of
    the other methods hold `lock`.
    """

    def __init__(self, reader: TopicReader, adds: Callable[[OffsetSync], bool], lock: threading.Lock) -> None:
        self._reader = reader
        self._adds = adds
        self._lock = lock
        self._unread: dict[bytes, bytearray] = {}
        """Concatenated values, by their key."""
        self._kept = MirrorTranslation()
        self._kept.ready()
        self._reading = threading.Lock()

    def read(self) -> None:
        """Read the syncs since the last call.

        Raises ClusterError, and RefusedError if the login lacks READ on the topic.
        """
        with self._reading:
            for _, record in self._reader.read():
                key, value = record.key, record.value
                # Other records are skipped; MirrorMaker 2 would fail on them.
                if key is None or value is None or len(value) < VALUE_SIZE:
                    continue
                with self._lock:
                    unread = self._unread.setdefault(key, bytearray())
                    unread += value[:VALUE_SIZE]
                    if len(unread) >= KEPT_APART * VALUE_SIZE:
                        self._take(key)

    def get_translation(self, partition: TopicPartition) -> MirrorTranslation:
        """The translation for offsets of this partition; it may lack syncs of other partitions."""
        self._take(string(partition.topic) + INT32.pack(partition.partition))
        return self._kept

    def _take(self, key: bytes) -> None:
        unread = self._unread.pop(key, b"")
        for at in range(0, len(unread), VALUE_SIZE):
            sync = decode_offset_sync(key, bytes(unread[at : at + VALUE_SIZE]))
            if sync is not None and self._adds(sync):
                self._add(sync)

    def _add(self, sync: OffsetSync) -> None:
        newest = self._kept.newest(sync.source)
        if newest is not None and sync.downstream < newest.downstream:
            # The remote topic was recreated. MirrorMaker 2 would still translate to offsets of the deleted topic.
            self._kept.forget_partition(sync.source)
        self._kept.add(sync)
