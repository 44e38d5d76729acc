"""The stored offsets of a worker's connectors, in the worker's own topic or in the topic of a connector's copiers.

The copiers of a source connector store positions beside the records, on the cluster that they write to. For a worker
beside the source, this is another cluster than the worker's; a connector may also name a topic of its own. Requests
that read or change offsets mean these positions. Kafka's worker keeps all positions in its own topic; in exactly-once
mode it keeps newer positions beside the records. So the positions in the worker's topic count for each partition that
the target lacks (Kafka class ConnectorOffsetBackingStore).

A heartbeat or checkpoint connector has offsets as its tasks store them in Kafka Connect: 0 for each written partition.
A source partition of heartbeats is the two aliases, and that of checkpoints is group and remote partition (Kafka
classes MirrorHeartbeatTask and MirrorCheckpointTask). Tasks never continue from these offsets. A Kafka worker that
takes over finds the offsets of its tasks, and `GET /connectors/{name}/offsets` shows them.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from twinlog.clock import LONG_AGO, Clock
from twinlog.config.connector import ConnectorFlow, connector_kind
from twinlog.config.worker import WorkerConfig
from twinlog.connect import instances as running_instances
from twinlog.connect.connector_flows import ConnectorFlows
from twinlog.connect.group.state import GroupState
from twinlog.connect.instances import ConnectorInstance
from twinlog.connect.running_connector import WorkerConnector
from twinlog.connect.storage import offset_records
from twinlog.connect.storage.offset_records import OffsetRecord, OffsetsByConnector
from twinlog.connect.storage.record_log import StateTopic
from twinlog.errors import ClusterError, RefusedError
from twinlog.kafka.admin.cluster import ClusterAdmin, Connect
from twinlog.kafka.consumer.topic_reader import TopicReader
from twinlog.kafka.retry import CONNECTOR_POSITIONS
from twinlog.mirror.topics.internal_topics import positions
from twinlog.model.types import TopicName
from twinlog.process.log_once import AGAIN_S, LogOnce
from twinlog.settings.flow import FlowSettings
from twinlog.settings.worker import StorageTopic
from twinlog.worker.connectors.model import ConnectorName, StoredOffset

log = logging.getLogger(__name__)

KEY = "offsets.storage.topic"

LOOK_S = 2.0
ZERO = {"offset": 0}


class ConnectorOffsets:
    """Reads and changes stored offsets of connectors; may be used from several threads.

    `state` has the offsets of a standalone worker. Writes stop as soon as `allowed()` is false, and reads continue.
    """

    def __init__(
        self,
        config: WorkerConfig,
        state: GroupState,
        flows: ConnectorFlows,
        clock: Clock,
        allowed: Callable[[], bool],
        connect: Connect = ClusterAdmin,
    ) -> None:
        group = config.settings.group
        self._topic = None if group is None else group.offset_storage.name
        self._client = config.settings.client
        self._state = state
        self._flows = flows
        self._clock = clock
        self._allowed = allowed
        self._connect = connect
        self._taken_over: dict[ConnectorName, object] = {}
        """The connectors whose target has the positions that Kafka's worker left here, with their place."""
        self._taking: dict[ConnectorName, threading.Thread] = {}
        self._failed: dict[ConnectorName, ClusterError] = {}
        self._logged = LogOnce(clock)

    def read_offsets(self, name: ConnectorName) -> list[StoredOffset]:
        """The present stored offsets of a connector. Raises ClusterError, RefusedError."""
        settings = self._elsewhere(self._flows.build(name)[0])
        if settings is None:
            return self._state.offsets(name)
        with self._open(settings) as target:
            there = _read(target, settings)
        for one in self._left(name, there):
            there.apply_record(OffsetRecord(name, one.partition, one.offset))
        return there.get_offsets(name)

    def replace_offsets(self, name: ConnectorName, offsets: Sequence[StoredOffset]) -> None:
        """Replace stored offsets of a connector that has ended; None deletes an offset.

        Raises ClusterError, and RefusedError for a source connector with an unusable configuration.
        """
        flow, why = self._flows.build(name)
        if flow is None and self._topic is not None and self._is_source(name):
            raise RefusedError(
                f"connector {name}: its positions on the target are reachable only with a valid configuration; fix "
                f"the configuration first: {why}",
                message_id="TW-WORKER-22",
            )
        settings = self._elsewhere(flow)
        if settings is None:
            self._state.put_offsets(name, offsets)
            return
        deleted = [one for one in offsets if one.offset is None]
        with self._open(settings) as target:
            self._take_over(target, settings)
            _topic_of(target, settings).append([offset_records.encode(name, one) for one in offsets])
            earlier = settings.earlier_positions_topic
            if deleted and earlier not in (None, settings.positions_topic) and earlier in target.topics():
                # Positions that the connector's own topic lacks are read from the earlier topic.
                _topic(target, str(earlier)).append([offset_records.encode(name, one) for one in deleted])
        if deleted:
            # Otherwise the deleted positions would be taken over from the worker's topic again.
            here = [one.partition for one in self._state.offsets(name)]
            gone = [StoredOffset(one.partition, None) for one in deleted if one.partition in here]
            self._state.put_offsets(name, gone)

    def may_begin(self, flow: ConnectorFlow) -> bool:
        """Whether a connector may begin: its target has the positions that Kafka's worker left here.

        Until then a thread tries to copy the positions to the target. Raises ClusterError once for each failed try, and
        RefusedError when each further try would fail.
        """
        name, settings = ConnectorName(flow.name), self._elsewhere(flow)
        if settings is None or self._taken_over.get(name) == _place(settings):
            return True
        failed = self._failed.pop(name, None)
        if failed is not None:
            raise failed
        taking = self._taking.get(name)
        if taking is None or not taking.is_alive():
            taking = threading.Thread(target=self._try, args=[name, settings], name=f"offsets {name}", daemon=True)
            taking.start()
            self._taking[name] = taking
        return False

    def _try(self, name: ConnectorName, settings: FlowSettings) -> None:
        try:
            with self._open(settings) as target:
                self._take_over(target, settings)
        except RefusedError as error:
            self._failed[name] = error
        except ClusterError as error:
            self._failed[name] = error
            if self._logged.is_new((name, str(error)), AGAIN_S):
                log.warning(
                    "TW-WORKER-15: connector %s: its positions cannot be read yet, trying again: %s", name, error
                )
            self._clock.sleep(CONNECTOR_POSITIONS.first_s)
        except (RuntimeError, OSError) as error:
            log.debug("connector %s: its positions are read later: %s", name, error)
            self._clock.sleep(CONNECTOR_POSITIONS.first_s)
        else:
            self._taken_over[name] = _place(settings)

    def _take_over(self, target: ClusterAdmin, settings: FlowSettings) -> None:
        """Copy positions that Kafka's worker left here to the target's topic, for partitions that the topic lacks."""
        name = ConnectorName(settings.connector_name)
        if left := self._left(name, _read(target, settings)):
            _topic_of(target, settings).append([offset_records.encode(name, one) for one in left])
            log.info("connector %s: %d positions are those of %s on the worker's cluster", name, len(left), self._topic)

    def _left(self, name: ConnectorName, there: OffsetsByConnector) -> list[StoredOffset]:
        return [one for one in self._state.offsets(name) if there.lacks(name, one.partition)]

    def _elsewhere(self, flow: ConnectorFlow | None) -> FlowSettings | None:
        """The settings of a connector whose positions are outside the worker's own topic."""
        if flow is None or flow.kind != "source" or self._topic is None:
            return None
        settings = flow.settings
        here = self._client.shares_servers(settings.target_admin.client)
        return None if here and settings.positions_topic == self._topic else settings

    def _is_source(self, name: ConnectorName) -> bool:
        config = self._state.query_state(
            lambda cluster, _: cluster.connectors[name].config if name in cluster.connectors else {}
        )
        return connector_kind(config.get("connector.class", "")) == "source"

    @contextmanager
    def _open(self, settings: FlowSettings) -> Iterator[ClusterAdmin]:
        admin = self._connect(settings.target, settings.target_admin.client)
        try:
            admin.client.append_only_while(self._allowed, reads=True)
            admin.connect()
            yield admin
        finally:
            admin.close()


def _read(target: ClusterAdmin, settings: FlowSettings) -> OffsetsByConnector:
    """The positions of a connector on the target."""
    found = OffsetsByConnector()
    for topic in dict.fromkeys((settings.earlier_positions_topic, settings.positions_topic)):
        if topic is None:
            continue
        for _, record in TopicReader(target, TopicName(topic), optional=True, committed=True).read():
            decoded = offset_records.decode(record.key, record.value)
            if isinstance(decoded, OffsetRecord) and decoded.connector == settings.connector_name:
                found.apply_record(decoded)
    return found


def _topic_of(target: ClusterAdmin, settings: FlowSettings) -> StateTopic[OffsetRecord]:
    """The topic in which a connector's copiers store positions; creates a missing topic."""
    made = positions(settings).new()
    topic = StorageTopic(made.name, made.partitions, made.replication_factor, tuple(made.configs.items()))
    found = StateTopic(target, topic, KEY, offset_records.decode)
    found.ensure()
    return found


def _topic(target: ClusterAdmin, name: str) -> StateTopic[OffsetRecord]:
    return StateTopic(target, StorageTopic(name, -1, -1), KEY, offset_records.decode)


def _place(settings: FlowSettings) -> object:
    """The place of a connector's positions: cluster and topic."""
    return settings.target_admin.client, settings.positions_topic


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
