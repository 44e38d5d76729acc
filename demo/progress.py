"""Follows twinlog's progress topic on the target: what it reports as copied, and what is still to come."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from demo.records import TIMED, TOPICS
from harness.cluster import KafkaCluster

Partition = tuple[str, int]

_WRITTEN = {topic.name for topic in TOPICS}
"""The topics of the load: a flow also copies heartbeats."""


@dataclass(slots=True)
class Moment:
    """What was reported since the last look; rates per second, `lag` in records, `delay_ms` of the slowest record that
    arrived, -1 when none did."""

    record_rate: float = 0.0
    byte_rate: float = 0.0
    lag: int = -1
    delay_ms: int = -1


class Progress:
    """Reads reports about one flow as any client could; nothing of twinlog is imported."""

    def __init__(self, cluster: KafkaCluster, user: str, topic: str, flow: str) -> None:
        self.copied = 0
        self.fastest = Moment()
        self.offsets: dict[Partition, int] = {}
        """Next source offset of each partition."""
        self._lags: dict[Partition, int] = {}
        self._topic = topic
        self._flow = flow
        self._admin = AdminClient(cluster.client_config(user))
        self._consumer = Consumer({**cluster.client_config(user), "group.id": "demo", "enable.auto.commit": False})
        self._assigned = False

    def close(self) -> None:
        self._consumer.close()

    def look(self) -> Moment:
        """Take in what was reported by now."""
        moment = Moment()
        if not self._assigned and not self._assign():
            return moment
        records = size = 0
        seconds = 0.0
        for message in self._consumer.consume(num_messages=100, timeout=0.05):
            error, value = message.error(), message.value()
            if error is not None:
                if error.code() != KafkaError._PARTITION_EOF and not error.retriable():
                    raise KafkaException(error)
                continue
            report = json.loads(value or b"{}")
            # The driver's own reports have sums, and a kind.
            if report.get("flow") != self._flow or "kind" in report:
                continue
            seconds += report["seconds"]
            for part in report["partitions"]:
                if part["topic"] not in _WRITTEN:
                    continue
                where = (part["topic"], part["partition"])
                records += part["records"]
                size += part["bytes"]
                self.offsets[where] = part["source_offset"]
                self._lags[where] = max(0, part["end"] - part["source_offset"]) if part["end"] >= 0 else 0
                if part["topic"] == TIMED:
                    moment.delay_ms = max(moment.delay_ms, part["latency_ms"])
        self.copied += records
        if self._lags:
            moment.lag = sum(self._lags.values())
        if seconds:
            moment.record_rate, moment.byte_rate = records / seconds, size / seconds
        if moment.record_rate > self.fastest.record_rate:
            self.fastest = moment
        return moment

    def reached(self, ends: Mapping[Partition, int]) -> bool:
        """Whether every partition was reported as copied up to its end."""
        return all(self.offsets.get(part, 0) >= end for part, end in ends.items() if end)

    def _assign(self) -> bool:
        """The topic appears when twinlog has reached both clusters."""
        if self._topic not in self._admin.list_topics(timeout=10).topics:
            return False
        self._consumer.assign([TopicPartition(self._topic, 0, OFFSET_BEGINNING)])
        self._assigned = True
        return True
