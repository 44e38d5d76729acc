"""Stores the offsets of connectors without positions, as their tasks do in Kafka Connect: 0 for each written partition.

A heartbeat's source partition is its two aliases, a checkpoint's is its group and remote partition (Kafka classes
MirrorHeartbeatTask and MirrorCheckpointTask). Tasks never continue from these offsets. A Kafka worker that takes over
finds the offsets of its tasks, and `GET /connectors/{name}/offsets` shows them.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping

from twinlog.clock import LONG_AGO, Clock
from twinlog.connect import instances as running_instances
from twinlog.connect.group.state import GroupState
from twinlog.connect.instances import ConnectorInstance
from twinlog.connect.running_connector import WorkerConnector
from twinlog.connectors.model import ConnectorName, StoredOffset
from twinlog.errors import ClusterError

log = logging.getLogger(__name__)

LOOK_S = 2.0
ZERO = {"offset": 0}


class TaskOffsets:
    """Stores each offset once, and again after its connector was restarted; `write` is called by a single thread.

    A thread of its own stores offsets: another thread may hold the file of a standalone worker while it waits for a
    cluster.
    """

    def __init__(self, state: GroupState, running: Mapping[ConnectorName, WorkerConnector], clock: Clock) -> None:
        self._state = state
        self._running = running
        self._clock = clock
        self._stored: dict[ConnectorName, tuple[ConnectorInstance, set[tuple[object, ...]]]] = {}
        self._storing: threading.Thread | None = None
        self._look_at = LONG_AGO

    @property
    def at_rest(self) -> bool:
        """Whether storing has ended."""
        return self._storing is None or not self._storing.is_alive()

    def write(self) -> None:
        """Store, now and then, the offsets of partitions that connectors have written since the last call."""
        now = self._clock.monotonic()
        if now < self._look_at or not self.at_rest:
            return
        self._look_at = now + LOOK_S
        instances = {
            name: one.instance
            for name, one in self._running.items()
            if one.instance is not None and not (one.ending or one.again)
        }
        self._stored = {name: kept for name, kept in self._stored.items() if instances.get(name) is kept[0]}
        news: dict[ConnectorName, list[StoredOffset]] = {}
        for name, instance in instances.items():
            _, known = self._stored.setdefault(name, (instance, set()))
            for partition in instance.wrote_of():
                key = tuple(partition.values())
                if key not in known:
                    known.add(key)
                    news.setdefault(name, []).append(StoredOffset(partition, ZERO))
        if news:
            self._storing = running_instances.in_thread(lambda: self._store(news), "storing offsets")

    def _store(self, news: Mapping[ConnectorName, list[StoredOffset]]) -> None:
        try:
            self._state.put_all_offsets(news)
        except ClusterError as error:
            for name in news:
                self._stored.pop(name, None)
            log.debug("offsets of %d connectors are stored later: %s", len(news), error)
