"""Reads a topic of twinlog on the driver, first all records, then added records, in memory of a fixed size."""

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
    """`TopicPages` for a thread that waits; only a single thread at a time may use it.

    Pages come over the cluster's own thread. The caller's thread decodes the records.
    """

    def __init__(
        self,
        admin: ClusterAdmin,
        topic: TopicName,
        *,
        optional: bool = False,
        committed: bool = False,
        last: int | None = None,
        missing_s: float = 0.0,
    ) -> None:
        self._admin = admin
        self._pages = TopicPages(
            admin.client, topic, optional=optional, committed=committed, last=last, missing_s=missing_s
        )

    def set_cluster(self, admin: ClusterAdmin) -> None:
        """Continue to read over other connections to the same cluster; call this between two readings."""
        self._admin = admin
        self._pages.set_client(admin.client)

    @property
    def topic_id(self) -> uuid.UUID | None:
        """The id of the topic at the last reading: a recreated topic has another id."""
        return self._pages.topic_id

    @property
    def exists(self) -> bool:
        """Whether the topic existed at the last reading."""
        return self._pages.exists

    def read(self) -> Iterator[tuple[TopicPartition, Record]]:
        """Yields the records since the last call, up to the present end.

        Raises ClusterError when a partition stalls for seconds or a cluster fails to answer, RefusedError if the
        principal lacks READ on the topic. The next call yields the remaining records.
        """
        pages = self._pages
        for fetched in self._fetched(None):
            for partition, answer, batch in pages.visible(fetched):
                for record in decode_records(answer.records, batch):
                    if record.offset >= pages.next_offset(partition):
                        pages.pass_by(partition, record.offset)
                        yield partition, record

    def read_last(self, last: LastRecords, *, timeout_s: float | None = None, deletions: bool = True) -> None:
        """Put the last record of each key into `last`, of the records since the last call.

        Without `deletions` it is the last record that has a value. Records before an error stay in `last`, and are read
        only once. With `timeout_s` the reader tries again after each error, for so many seconds in all. Raises as
        `read` does, and ClusterError when the time is over.
        """
        for fetched in self._fetched(timeout_s):
            for partition, answer, batch in self._pages.visible(fetched):
                keep_last(answer.records, batch, self._pages.next_offset(partition), last, deletions=deletions)

    def _fetched(self, timeout_s: float | None) -> Iterator[Fetched]:
        reading = self._pages.begin_scan(timeout_s)
        while answers := self._admin.call(reading.page):
            yield from answers
