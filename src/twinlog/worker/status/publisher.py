"""Publishes the state of a flow, for `twinlog status` and other programs on any host: see `worker.status.report`."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from twinlog.clock import wall_ms
from twinlog.errors import NotAppendedError, TwinlogError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.producer.produce_errors import Remedy, remedy_for
from twinlog.kafka.producer.topic_writer import TopicWriter
from twinlog.kafka.record.compression import LZ4
from twinlog.log_once import LogOnce
from twinlog.model.topic_names import progress_topic
from twinlog.model.types import TopicName
from twinlog.settings.flow import FlowSettings
from twinlog.worker.status.report import DriverReport, TopicProgress, by_need, encode_report

log = logging.getLogger(__name__)

MOST_BYTES = 500_000
"""The largest size of a record; the default limit of brokers is 1 MB."""

TIMEOUT_S = 5.0


class Publisher:
    """Appends reports to the progress topic; `look` makes a report, without rates of topics."""

    def __init__(self, settings: FlowSettings, target: ClusterAdmin, look: Callable[[], DriverReport]) -> None:
        self._settings = settings
        self._target = target
        self._look = look
        topic = TopicName(progress_topic(settings.source))
        self._writer = TopicWriter(target.client, topic, TIMEOUT_S, "reporting what the flow does", codec=LZ4)
        self._most_bytes = MOST_BYTES
        self._logged = LogOnce(target.clock)
        self._before: dict[str, TopicProgress] = {}
        self._at_ms = wall_ms(target.clock)

    def publish_report(self) -> None:
        """Append a report. A lost report is superseded by the next report.

        Copying is independent of it, so a failure is harmless to the flow. Copiers report a missing right on the topic.
        """
        report = self._with_rates(self._look())
        record = (f"driver {self._settings.name}".encode(), encode_report(report, self._most_bytes))
        try:
            self._target.call(partial(self._writer.append, [record], timestamp_ms=report.at_ms))
        except TwinlogError as error:
            if isinstance(error, NotAppendedError) and remedy_for(error.code) is Remedy.SPLIT:
                # The next report has fewer topics, in the end none.
                self._most_bytes = max(1, len(record[1]) // 2)
                self._too_large(error.size)
            log.debug("%s: its state was not published: %s", self._settings.name, error)

    def _too_large(self, size: int) -> None:
        if self._logged.is_new("size"):
            log.warning(
                "%s: %s does not take records of %d bytes, so twinlog status lacks topics of this flow, or all of it; "
                "raise its max.message.bytes",
                *(self._settings.name, self._writer.topic, size),
            )

    def _with_rates(self, report: DriverReport) -> DriverReport:
        passed_s = max(0.1, (report.at_ms - self._at_ms) / 1000)
        topics = []
        for topic in report.topics:
            before = self._before.get(topic.topic)
            if before is not None:
                rate, byte_rate = (topic.records - before.records) / passed_s, (topic.bytes - before.bytes) / passed_s
                topics.append(replace(topic, record_rate=max(0.0, rate), byte_rate=max(0.0, byte_rate)))
            else:
                topics.append(topic)
        self._before, self._at_ms = {topic.topic: topic for topic in report.topics}, report.at_ms
        return replace(report, topics=by_need(topics))
