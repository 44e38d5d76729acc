"""Reads a topic of our own on the driver: all of it, and then what is added, in memory that does not grow with it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.consumer.topic_pages import TopicPages
from twinlog.kafka.fetch_session import Fetched
from twinlog.kafka.record.last_records import LastRecords, keep_last
from twinlog.kafka.record.records import Record, decode_records
from twinlog.model.types import TopicName, TopicPartition


class TopicReader:
    """`TopicPages` for a thread that waits: pages come over the cluster's own thread, records are decoded on the
    caller's. One thread at a time may use it."""

    def __init__(
        self,
        admin: ClusterAdmin,
        topic: TopicName,
        *,
        optional: bool = False,
        committed: bool = False,
        last: int | None = None,
    ) -> None:
        self._admin = admin
        self._pages = TopicPages(admin.client, topic, optional=optional, committed=committed, last=last)

    def set_cluster(self, admin: ClusterAdmin) -> None:
        """Read on over other connections to the same cluster; nothing may be reading."""
        self._admin = admin
        self._pages.set_client(admin.client)

    @property
    def topic_id(self) -> uuid.UUID | None:
        """The topic that was read: another one once it was recreated."""
        return self._pages.topic_id

    @property
    def exists(self) -> bool:
        """Whether there was such a topic at the last reading."""
        return self._pages.exists

    def read(self) -> Iterator[tuple[TopicPartition, Record]]:
        """Records added since the last call, up to the end as it is now.

        Raises ClusterError when a partition makes no progress for seconds or a cluster does not answer, RefusedError
        without READ on the topic; what was not yielded comes with the next call.
        """
        pages = self._pages
        for fetched in self._fetched(None):
            for partition, answer, batch in pages.visible(fetched):
                for record in decode_records(answer.records, batch):
                    if record.offset >= pages.next_offset(partition):
                        pages.pass_by(partition, record.offset)
                        yield partition, record

    def read_last(self, last: LastRecords, *, timeout_s: float | None = None, deletions: bool = True) -> None:
        """Put into `last` what was added since the last call, the last record of each key only.

        Without `deletions` it is the last one that has a value. What was read before an error stays in `last`, and
        comes no second time. With `timeout_s` it is tried again for so many seconds, whatever happens, and no longer.
        Raises as `read` does, and ClusterError when the time is over.
        """
        for fetched in self._fetched(timeout_s):
            for partition, answer, batch in self._pages.visible(fetched):
                keep_last(answer.records, batch, self._pages.next_offset(partition), last, deletions=deletions)

    def _fetched(self, timeout_s: float | None) -> Iterator[Fetched]:
        reading = self._pages.begin_scan(timeout_s)
        while answers := self._admin.call(reading.page):
            yield from answers
