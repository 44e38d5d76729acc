"""Reads older reports of the process that ran a flow, from the progress topic on the target.

The topic keeps an hour of reports, or longer if an operator sets its `retention.ms`; a day has 43,000 reports of a
flow, of up to 500 kB each, between the reports of copiers. So a reading takes a sample at equal distances of offsets,
the newest first, and ends at a limit of bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from twinlog.clock import wall_ms
from twinlog.errors import ClusterError
from twinlog.kafka.admin.cluster import ClusterAdmin, Connect
from twinlog.kafka.consumer.leader_fetch import LeaderFetch
from twinlog.kafka.protocol import error_codes
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.record.batch import scan
from twinlog.kafka.record.records import Record, decode_records
from twinlog.kafka.retry import LOOK_CONNECT_S
from twinlog.model.topic_names import progress_topic
from twinlog.model.types import TopicName, TopicPartition
from twinlog.ops.status.last_report import is_of_flow
from twinlog.ops.status.readers import ClustersReader
from twinlog.settings.flow import FlowSettings
from twinlog.worker.status.report import DRIVER_KEY, DriverReport, decode_report

DAY_MS = 24 * 3_600_000
SAMPLES = 240
"""The most reports of a reading: a report for every six minutes of a day."""

MOST_BYTES = 32_000_000
"""The most bytes of a reading; a larger topic is read back to a later begin."""

ANSWER_BYTES = 65_536
"""The size of an answer of the broker; a larger batch comes whole."""

MOST_ANSWERS = 4
"""The most answers for a report: between two reports of a process each of its copiers reports about twice."""


@dataclass(frozen=True, slots=True)
class ReportHistory:
    """Reports of the last day without their lists, the oldest first; `topic` is the progress topic.

    `cut` tells that the reading ended at `MOST_BYTES`, after `bytes` bytes: the topic has older reports.
    """

    topic: TopicName
    reports: tuple[DriverReport, ...] = ()
    cut: bool = False
    bytes: int = 0


class ReportHistoryReader(ClustersReader):
    """Reads samples of the reports about a flow; partition 0 has all reports."""

    def __init__(self, settings: FlowSettings, *, connect: Connect = ClusterAdmin) -> None:
        self._settings = settings
        self._target = connect(settings.target, settings.target_admin.client)
        self._partition = TopicPartition(TopicName(progress_topic(settings.source)), 0)
        self._bytes = 0
        super().__init__((self._target,))

    def read(self) -> ReportHistory:
        """Read back over a day. A missing topic has no reports, as with MirrorMaker 2.

        Raises ClusterError, and RefusedError if the right to read the progress topic is missing.
        """
        target, partition = self._target, self._partition
        if not target.client.connected:
            target.connect(LOOK_CONNECT_S)
        self._bytes = 0
        end = target.offsets([partition], latest=True).get(partition, 0)
        start = target.first_since([partition], wall_ms(target.clock) - DAY_MS)[partition] if end else -1
        if start < 0:
            return ReportHistory(partition.topic)
        fetch = LeaderFetch(target.client, self._settings.consumer, read_committed=False, partition_bytes=ANSWER_BYTES)
        step = max(1, -(-(end - start) // SAMPLES))
        found: list[DriverReport] = []
        bound = end
        while bound > start and self._bytes < MOST_BYTES:
            begin = max(start, bound - step)
            report = self._first_report(fetch, begin, bound)
            if report is not None:
                found.append(report)
            bound = begin
        return ReportHistory(partition.topic, tuple(reversed(found)), bound > start, self._bytes)

    def _first_report(self, fetch: LeaderFetch, begin: int, end: int) -> DriverReport | None:
        """The first report of a range of offsets; None if the first answers have no report."""
        position = begin
        for _ in range(MOST_ANSWERS):
            if position >= end or self._bytes >= MOST_BYTES:
                break
            before = position
            for record in self._records(fetch, position):
                position = max(position, record.offset + 1)
                if not begin <= record.offset < end or not (record.key or b"").startswith(DRIVER_KEY):
                    continue
                report = decode_report(record.value)
                if report is not None and is_of_flow(report, self._settings):
                    return replace(report, topics=(), held_partitions=(), tasks=(), left_out=(), missing_topics=())
            if position == before:
                break
        return None

    def _records(self, fetch: LeaderFetch, position: int) -> Iterator[Record]:
        """The records of an answer. Records that retention deleted meanwhile are left out."""
        target = self._target
        answer = target.call(fetch.fetch_answer, self._partition, position, None)
        if answer is not None and answer.error == Code.OFFSET_OUT_OF_RANGE:
            return
        if answer is not None and error_codes.refused(answer.error):
            raise target.client.lacks("READ", f"topic {self._partition.topic}", "reading its reports")
        if answer is None or answer.error:
            why = "a quota delays its answers" if answer is None else error_codes.explain(answer.error)
            raise ClusterError(f"cluster {target.alias}: {self._partition} is unreadable: {why}")
        self._bytes += len(answer.records)
        for batch in scan(answer.records):
            if not batch.is_control:
                yield from decode_records(answer.records, batch)
