"""Writes the heartbeats of a flow: they show that the target takes writes, on each cluster with copies of them."""

from __future__ import annotations

from twinlog.clock import wall_ms
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.mirror.heartbeats.records import Heartbeat
from twinlog.mirror.topics.compacted_topic import CompactedTopic
from twinlog.mirror.topics.internal_topics import heartbeats
from twinlog.settings.flow import FlowSettings


class HeartbeatWriter:
    """Heartbeats of a flow in the topic `heartbeats` of its target (Kafka class MirrorHeartbeatTask)."""

    def __init__(self, settings: FlowSettings, target: ClusterAdmin) -> None:
        self._settings = settings
        self._target = target
        self._compacted = CompactedTopic(settings.name, target, heartbeats(settings), "heartbeats")

    def write_heartbeat(self) -> None:
        """Write a heartbeat, its time also the record's; the first call creates the topic. Raises ClusterError."""
        if not self._target.client.connected:
            self._target.connect()
        self._compacted.ensure()
        now = wall_ms(self._target.clock)
        heartbeat = Heartbeat(self._settings.source_name, self._settings.target_name, now)
        self._compacted.append([(heartbeat.key, heartbeat.value)], now)
