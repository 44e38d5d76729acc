"""Stored offsets of connectors that are not in the group's offset topic: `offsets.storage.topic`, or another cluster.

Positions are always on the target of a connector (`offsets/store.py:PositionStore`).
"""

from __future__ import annotations

import threading

from twinlog.config.connector import ConnectorFlow
from twinlog.connect.storage import offset_records
from twinlog.connect.storage.offset_records import OffsetRecord
from twinlog.connect.storage.record_log import RecordLog
from twinlog.connect.storage.topics import StateTopic
from twinlog.kafka.admin.cluster import ClusterAdmin, Connect
from twinlog.settings.flow import ClientSettings
from twinlog.settings.worker import StorageTopic

Key = tuple[str, ClientSettings]


class OwnOffsets:
    """The offset topics of connectors that have one of their own; may be used from several threads.

    `client` and `topic` are how the group's offset topic is reached.
    """

    def __init__(self, client: ClientSettings, topic: str, connect: Connect = ClusterAdmin) -> None:
        self._client = client
        self._topic = topic
        self._connect = connect
        self._lock = threading.Lock()
        self._logs: dict[Key, RecordLog[OffsetRecord]] = {}
        self._admins: list[ClusterAdmin] = []

    def of(self, flow: ConnectorFlow) -> RecordLog[OffsetRecord] | None:
        """The topic that a connector has its offsets in; None where that is the group's. Raises ClusterError."""
        settings = flow.settings
        client = settings.target_admin.client
        there = set(client.bootstrap_servers) & set(self._client.bootstrap_servers)
        # Only a source connector stores offsets.
        if flow.kind != "source" or (settings.positions_topic == self._topic and there):
            return None
        key = settings.positions_topic, client
        with self._lock:
            if key not in self._logs:
                admin = self._connect(settings.target, client)
                try:
                    admin.connect()
                except BaseException:
                    admin.close()
                    raise
                self._admins.append(admin)
                topic = StorageTopic(settings.positions_topic, -1, -1)
                self._logs[key] = StateTopic(
                    admin, topic, "offsets.storage.topic", offset_records.decode, optional=True
                )
            return self._logs[key]

    def close(self) -> None:
        """Close the connections to other clusters."""
        with self._lock:
            for admin in self._admins:
                admin.close()
