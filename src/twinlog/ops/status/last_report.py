"""Reads the last report of the process that runs a flow, from the end of the progress topic on the target."""

from __future__ import annotations

from collections.abc import Callable

from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.consumer.topic_reader import TopicReader
from twinlog.kafka.record.last_records import KeptRecord, LastRecords
from twinlog.model.topic_names import progress_topic
from twinlog.model.types import TopicName
from twinlog.settings.flow import FlowSettings
from twinlog.worker.status.report import DRIVER_KEY, DriverReport, decode_report

TAILS = (256, 2_000, None)
"""How many records before the end are looked through for the last report, or the last heartbeat, of a flow. As a rule
it is among the first, and so are the reports of other groups: a driver reports every two seconds, each of its copiers
every second at most."""


class TopicTail:
    """The end of a topic: searched backwards in growing steps until a record is found; then only new records are
    read."""

    def __init__(self, target: ClusterAdmin, topic: TopicName) -> None:
        self._target = target
        self._topic = topic
        self._reader: TopicReader | None = None

    def read_last_records(self, take: Callable[[bytes, KeptRecord], None], found: Callable[[], bool]) -> None:
        """Pass on the last record of each key. Raises ClusterError."""
        reader = self._reader
        for last in (None,) if reader is not None else TAILS:
            if reader is None or self._reader is None:
                reader = TopicReader(self._target, self._topic, optional=True, last=last)
            records: LastRecords = {}
            reader.read_last(records)
            # Two versions of twinlog may report under two keys about the same group: the later record comes last.
            for key, record in sorted(records.items(), key=lambda one: one[1].offset):
                take(key, record)
            if found():
                break
        self._reader = reader


class LastReportReader:
    """The last report about a flow, over a borrowed connection to its target; a repeated read reads only the new
    records."""

    def __init__(self, settings: FlowSettings, target: ClusterAdmin) -> None:
        self._settings = settings
        self._tail = TopicTail(target, TopicName(progress_topic(settings.source)))
        self.report: DriverReport | None = None
        """As of the last read; None before the first report, as of MirrorMaker 2."""
        self.others: dict[str, DriverReport] = {}
        """The last report of each other group.id whose process runs a flow with the same name."""

    def read_report(self) -> DriverReport | None:
        """Read up to now. Raises ClusterError, and RefusedError if the right to read the progress topic is missing."""
        self._tail.read_last_records(self._keep_report, lambda: self.report is not None)
        return self.report

    def _keep_report(self, key: bytes, record: KeptRecord) -> None:
        if not key.startswith(DRIVER_KEY):
            return
        report = decode_report(record.value())
        # The later record counts, whatever its own time: another process may have another clock.
        if report is None or report.flow != self._settings.name:
            return
        if is_of_flow(report, self._settings):
            self.report = report
        else:
            self.others[report.group] = report


def is_of_flow(report: DriverReport, settings: FlowSettings) -> bool:
    """Whether a report is about a flow: a process with another group.id may copy other topics of a flow with the same
    name."""
    return report.flow == settings.name and (not report.group or report.group == settings.group_id)
