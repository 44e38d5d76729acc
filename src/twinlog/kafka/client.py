"""A client of a cluster on an event loop: metadata, offsets, raw fetches and raw appends.

The client runs in tasks and in tests. Every call is a coroutine on the loop that the client was made with.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from kafka.errors import KafkaError, KafkaTimeoutError, NodeNotReadyError
from kafka.protocol.consumer.offsets import ListOffsetsRequest
from kafka.protocol.metadata import MetadataRequest
from kafka.protocol.producer.transaction import InitProducerIdRequest

from twinlog.errors import ClusterError, RefusedError, ThrottledError, TwinlogError
from twinlog.kafka.auth.refusal import cause_id
from twinlog.kafka.metadata import Leader, MetadataRounds, TopicMetadata, described, incompatible, newest
from twinlog.kafka.net.connections import Connections, connection_options, principal
from twinlog.kafka.net.contact import Contact, reasons, throttles, unreachable
from twinlog.kafka.net.frame_memory import FrameMemory
from twinlog.kafka.net.loop import Loop
from twinlog.kafka.protocol import error_codes
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.protocol.offsets import (
    MAX_TIMESTAMP,
    WITH_MAX_TIMESTAMP,
    list_offsets_request,
    read_list_offsets,
)
from twinlog.kafka.protocol.produce import Appended, ProducedPartitions, RawProduce
from twinlog.kafka.retry import Backoff
from twinlog.model.types import TopicName, TopicPartition
from twinlog.settings.client import ClientSettings

MAX_FRAME_BYTES = 256 << 20
FAR_S = 0.01
"""Round trip of a distant cluster in seconds.

With 8 MB a fetch and 1 GB/s half of the time would be spent waiting.
"""


@dataclass(slots=True)
class ClusterClient:
    """The client of a cluster on a loop.

    Long polls have connections of their own (`data`), so that other requests never wait behind a fetch. A broker may
    have several of these connections, because a broker serves the requests of a connection in sequence. Writes that
    other processes can see have connections of their own (`changes`): these connections are silent while writes are
    forbidden. Changes of topics have connections of their own (`topic_changes`): after a change a quota may keep a
    connection silent for minutes (KIP-599).
    """

    loop: Loop
    alias: str
    settings: ClientSettings
    _control: Connections = field(init=False)
    _data: Connections = field(init=False)
    _more_data: list[Connections] = field(init=False, default_factory=list)
    _options: dict[str, Any] = field(init=False)
    _changes: Connections = field(init=False)
    _topic_changes: Connections = field(init=False)
    _topics: dict[TopicName, TopicMetadata] = field(init=False, default_factory=dict)
    _allowed: Callable[[], bool] = field(init=False, default=lambda: True)
    round_trip_s: float = field(init=False, default=float("inf"))
    """The shortest time of a control request, in seconds: an upper bound of the round trip.

    Other control requests take longer: they wait behind a request, or connect first, perhaps to a broker that is still
    starting.
    """
    _refreshed_at: float = field(init=False, default=float("-inf"))
    _written: set[str] = field(init=False, default_factory=set)
    contact: Contact = field(init=False)
    _rounds: MetadataRounds = field(init=False)

    def __post_init__(self) -> None:
        # With more requests in flight kafka-python refuses a request at once.
        limits = {"receive_message_max_bytes": MAX_FRAME_BYTES, "max_in_flight_requests_per_connection": 64}
        self._options = limits | connection_options(self.settings, self.loop.clock)
        self._control = Connections(self.loop.net, self.loop.wire, self.settings, **self._options)
        self._data = self._make_connections()
        self._changes = self._make_connections()
        self._topic_changes = self._make_connections()
        self.contact = Contact(self._why_unreachable, self.loop.clock.monotonic)
        self._rounds = MetadataRounds(self.loop, self.refresh)

    def _make_connections(self) -> Connections:
        made = Connections(self.loop.net, self.loop.wire, self.settings, **self._options)
        made.share_metadata(self._control)
        return made

    def append_only_while(self, allowed: Callable[[], bool], *, reads: bool = False) -> None:
        """Append and `send_change` only while `allowed()` is true; requests that wait to be sent are checked, too.

        With `reads` the client continues to read records meanwhile, and all appends must be sent with `control`.
        """
        self._allowed = self._changes.may_send = allowed
        if not reads:
            for connections in (self._data, *self._more_data):
                connections.may_send = allowed

    async def connect(self, timeout_s: float = 30.0) -> None:
        """Connect to a bootstrap server and read the brokers; raises ClusterError or RefusedError."""
        self._control._auth_failures.clear()
        self._control.failures.clear()
        asked = self.contact.record_request(None, timeout_s)
        try:
            await self._control.bootstrap_async(timeout_s * 1000)
        except KafkaError as error:
            self.contact.record_failure(asked)
            refusal = next(iter(self._control._auth_failures.values()), None)
            if refusal is None and isinstance(error, KafkaTimeoutError):
                settings = self.settings
                why = unreachable(
                    self._control.failures, settings.bootstrap_servers, settings.security_protocol, timeout_s
                )
                raise ClusterError(f"cluster {self.alias}: {why}", message_id=cause_id(why)) from error
            raise error_codes.from_kafka(refusal or error, self.alias, principal(self.settings)) from error
        self.contact.record_answer(asked)
        unfit = incompatible(self._control.broker_version_data.api_versions)
        if unfit is not None:
            raise RefusedError(f"cluster {self.alias}: {unfit}", message_id="TW-BROKER-01")

    @property
    def connected(self) -> bool:
        return bool(self._control.broker_version_data is not None and self._control.cluster.brokers())

    def supports(self, api_key: int, version: int = 0) -> bool:
        """Whether the brokers support a request of the protocol, in this version or a newer version."""
        known = self._control.broker_version_data
        return known is not None and known.api_versions.get(api_key, (0, -1))[1] >= version

    def lacks(self, operation: str, resource: str, purpose: str) -> RefusedError:
        """The error for a missing permission: the principal, the operation, the resource and the purpose."""
        who = principal(self.settings)
        text = f"cluster {self.alias}: {who} lacks {operation} on {resource}, needed for {purpose}"
        return RefusedError(text, resource=resource, message_id="TW-RIGHT-02")

    async def nodes(self, age_s: float = 0.0) -> list[int]:
        """Ids of the cluster's brokers, by metadata that is younger than `age_s` seconds."""
        if self.loop.clock.monotonic() - self._refreshed_at >= age_s:
            await self.refresh([])
        return sorted(broker.node_id for broker in self._control.cluster.brokers())

    async def send_request(self, request: Any, node: int | None = None, timeout_s: float | None = None) -> Any:
        """Send on a control connection; `node` None means any broker. Raises ClusterError or RefusedError.

        A request to any broker is sent again after an error, `retries` times and for `default.api.timeout.ms` or
        `timeout_s` seconds at most. The request raises at once when all brokers are unreachable.
        """
        settings = self.settings
        most_s = settings.default_api_timeout_ms / 1000
        most_s = most_s if timeout_s is None else min(most_s, timeout_s)
        request_s = min(most_s, settings.request_timeout_ms / 1000 if timeout_s is None else timeout_s)
        if node is not None:
            return await self._send(self._control, request, node, request_s)
        give_up_at = self.loop.clock.monotonic() + most_s
        backoff = Backoff.of(settings)
        for tries_left in range(settings.retries, -1, -1):
            try:
                return await self._send(self._control, request, None, request_s)
            except RefusedError:
                raise
            except ClusterError as error:
                pause_s = backoff.count_failure()
                if self._control.cut_off:
                    self._control.rebootstrap()
                    why = self._why_unreachable()
                    text = f"cluster {self.alias}: no broker can be reached: {why}"
                    raise ClusterError(text, message_id=cause_id(why)) from error
                if self._control.closed or not tries_left or self.loop.clock.monotonic() + pause_s >= give_up_at:
                    raise
            await self.loop.sleep(pause_s)
            request_s = min(request_s, give_up_at - self.loop.clock.monotonic())
        raise AssertionError("the last try returns or raises")

    @property
    def far(self) -> bool:
        """Whether the round trip is so long that it limits the throughput."""
        return FAR_S <= self.round_trip_s < float("inf")

    @property
    def frames(self) -> FrameMemory:
        """The memory that receives fetched records."""
        return self._data.frames

    def unreachable(self, node: int) -> bool:
        """Whether the last try to connect to a broker for data failed."""
        return self._data.unreachable(node)

    def throttled_s(self, node: int) -> float:
        """The seconds for which a quota keeps a broker from taking requests on the data connection; else 0 (KIP-219).

        Requests meanwhile raise ClusterError at once.
        """
        return max(one.throttled_s(node) for one in (self._data, *self._more_data))

    async def unthrottled(self, node: int) -> None:
        """Wait until a throttling broker takes requests again on the data connection."""
        while (wait_s := self.throttled_s(node)) > 0:
            await self.loop.sleep(wait_s)

    def send(
        self, request: Any, node: int, timeout_s: float | None = None, *, connection: int = 0
    ) -> Coroutine[Any, Any, Any]:
        """Send on a data connection of a broker; the broker works for each `connection` at the same time."""
        return self._send(self._data_connections(connection), request, node, timeout_s, data=connection)

    def _data_connections(self, number: int) -> Connections:
        if not number:
            return self._data
        while len(self._more_data) < number:
            more = self._make_connections()
            more.frames, more.may_send = self._data.frames, self._data.may_send
            self._more_data.append(more)
        return self._more_data[number - 1]

    async def send_change(self, request: Any, node: int, timeout_s: float) -> Any:
        """Send a request that other processes can notice, as a commit, only while `append_only_while` allows it.

        The permission is checked again when a connection is ready. Raises ClusterError.
        """
        self.require_allowed()
        return await self._send(self._changes, request, node, timeout_s)

    async def ask_controller(self, request: Any, timeout_s: float) -> Any:
        """Ask the present controller to create or grow topics; any broker if the controller is unknown.

        Raises ThrottledError while a quota throttles these requests, ClusterError and RefusedError.
        """
        found = await self.send_request(MetadataRequest(topics=[], allow_auto_topic_creation=False))
        if found.controller_id < 0:
            return await self.send_request(request, None, timeout_s)
        return await self._send(self._topic_changes, request, found.controller_id, timeout_s)

    def require_allowed(self) -> None:
        """Raise ClusterError while `append_only_while` forbids changes that other processes can notice."""
        if not self._allowed():
            raise ClusterError(f"cluster {self.alias}: another process may run the flow, so this one changes nothing")

    async def _send(
        self, manager: Any, request: Any, node: int | None, timeout_s: float | None, *, data: int | None = None
    ) -> Any:
        timeout_ms = None if timeout_s is None else timeout_s * 1000
        asked = self.contact.record_request(node, getattr(request, "max_wait_ms", 0) / 1000)
        asked_at = self.loop.clock.monotonic()
        try:
            answer = await manager.send(request, node_id=node, request_timeout_ms=timeout_ms)
            self.contact.record_answer(asked, data=data)
            if manager is self._control:
                self.round_trip_s = min(self.round_trip_s, self.loop.clock.monotonic() - asked_at)
        except (KafkaError, OSError, RuntimeError, asyncio.CancelledError) as error:
            # Connections keep this error, and all their requests share it: its traceback would keep the requests in
            # flight in memory while the broker is away. Our own error is raised directly, because a variable would make
            # a cycle with the frame.
            error.__traceback__ = None
            raise self._fault(manager, asked, node, error) from error
        finally:
            self.contact.drop_request(asked)
        return answer

    def _fault(self, manager: Any, asked: Any, node: int | None, error: BaseException) -> TwinlogError:
        """Note that a request failed; returns our error for the request."""
        fault = error_codes.from_kafka(error, self.alias, principal(self.settings))
        throttled = isinstance(error, NodeNotReadyError) and node is not None and manager.throttled_s(node) > 0
        if isinstance(fault, RefusedError):
            self.contact.record_answer(asked)
        elif not throttled:
            self.contact.record_failure(asked)
        if throttled:
            fault = ThrottledError(f"cluster {self.alias}: {throttles(node)}")
        elif isinstance(error, NodeNotReadyError) or "unable to connect" in str(error):
            # The library's error has only the number of the broker or of the system's error.
            which = "no broker can" if node is None else f"broker {node} cannot"
            fault = ClusterError(f"cluster {self.alias}: {which} be reached: {self._why_unreachable()}")
        return fault

    def _why_unreachable(self) -> str:
        managers = (self._data, *self._more_data, self._changes, self._topic_changes, self._control)
        return reasons([one.failures for one in managers], self.settings.security_protocol, connected=self.connected)

    def open_for_data(self, partitions: Iterable[TopicPartition]) -> None:
        """Begin to connect to the leaders of partitions that will be needed soon; failures are ignored."""
        for node in {leader.node for part in partitions if (leader := self.leader(part)) is not None}:
            # A later request reports the failure.
            with contextlib.suppress(KafkaError):
                self._data.get_connection(node)

    async def append(
        self,
        node: int,
        topics: dict[str, list[tuple[int, bytes | bytearray | memoryview]]],
        timeout_s: float,
        *,
        control: bool = False,
        transactional_id: str | None = None,
    ) -> dict[tuple[str, int], Appended]:
        """Append a batch per partition on its leader, acknowledged by all in-sync replicas; returns the answers.

        With `control` the request uses a connection beside the data connection, so that appends and fetches run in
        parallel. `transactional_id` belongs to the open transaction that the batches are part of.
        """
        self.require_allowed()
        request = RawProduce(topics, timeout_ms=int(timeout_s * 1000), transactional_id=transactional_id)
        names = list(topics)
        answer: ProducedPartitions = await (self.send_change if control else self.send)(request, node, timeout_s + 5)
        self._written.update(names)
        return answer.partitions

    def take_written(self) -> set[str]:
        """The topics with appends since the last call; may be called by another thread."""
        written, self._written = self._written, set()
        return written

    async def refresh(self, topics: Iterable[TopicName]) -> dict[TopicName, TopicMetadata]:
        """Read leaders and topic ids of `topics`; for a missing topic `error` is 3 and `leaders` is empty.

        A newer leader epoch is kept when an answer has an older leader epoch.
        """
        names = sorted(set(topics))
        request = MetadataRequest(
            topics=[MetadataRequest.MetadataRequestTopic(name=name) for name in names],
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False,
        )
        self._control.metadata_wanted()
        response = await self.send_request(request)
        if response.error_code == Code.REBOOTSTRAP_REQUIRED:
            self._control.rebootstrap()
        if not response.brokers:
            raise ClusterError(f"cluster {self.alias}: its metadata names no broker")
        self._control.cluster.update_metadata(response)
        found, now = {}, self.loop.clock.monotonic()
        self._refreshed_at = now
        for topic in map(described, response.topics):
            found[topic.name] = newest(self._topics.get(topic.name), topic, now)
        self._topics.update(found)
        return found

    async def refresh_soon(self, topics: Iterable[TopicName]) -> Mapping[TopicName, TopicMetadata]:
        """As `refresh`, with all other calls of the next 50 ms in the same request."""
        return await self._rounds.request_metadata(topics)

    def topic(self, name: TopicName) -> TopicMetadata | None:
        """A topic by the last `refresh`."""
        return self._topics.get(name)

    def forget_topic(self, name: TopicName) -> None:
        """Drop the metadata of a topic that has become unnecessary."""
        self._topics.pop(name, None)

    def leader(self, partition: TopicPartition) -> Leader | None:
        """The partition's leader by the last `refresh`; None while unknown."""
        topic = self._topics.get(partition.topic)
        return None if topic is None else topic.leaders.get(partition.partition)

    def require_leader(self, partition: TopicPartition) -> Leader:
        """The partition's leader by the last `refresh`. Raises ClusterError while it is unknown."""
        leader = self.leader(partition)
        if leader is None:
            raise ClusterError(f"cluster {self.alias}: {partition} lacks a leader")
        return leader

    def group_by_leader(self, partitions: Iterable[TopicPartition]) -> dict[int, list[TopicPartition]]:
        """The partitions by the node id of their leaders, by the last `refresh`; without those that lack a leader."""
        groups: dict[int, list[TopicPartition]] = {}
        for partition in partitions:
            leader = self.leader(partition)
            if leader is not None:
                groups.setdefault(leader.node, []).append(partition)
        return groups

    def leads(self, partition: TopicPartition, node: int) -> bool:
        """Whether a broker leads the partition, by the last `refresh`."""
        leader = self.leader(partition)
        return leader is not None and leader.node == node

    def holds(self, partition: TopicPartition, node: int) -> bool:
        """Whether a broker has an online replica of the partition, by the last `refresh`."""
        topic = self._topics.get(partition.topic)
        return topic is not None and node in topic.replicas.get(partition.partition, ())

    async def list_offsets(
        self,
        partitions: Iterable[TopicPartition],
        at: int,
        *,
        read_committed: bool = False,
        log_end: bool = False,
        leader_epochs: Mapping[TopicPartition, int] = MappingProxyType({}),
        errors: dict[TopicPartition, int] | None = None,
    ) -> dict[TopicPartition, int]:
        """First (`EARLIEST`) or next (`LATEST`) offset of each partition, with a request for each leader.

        LATEST is the high watermark; with `read_committed` the last stable offset. With `log_end` LATEST is the end of
        the leader's own log, which includes records that its followers lack (Kafka's debugging replica id).

        A former leader, or a new leader that is unaware of its election, returns an error (KIP-320). The epochs come
        from the last `refresh`, or from `leader_epochs`. A partition is missing from the result if its leader is
        unknown or answers with a retriable error; `errors`, if given, gets the code. Raises RefusedError for a missing
        permission.
        """
        found = await self._list_places(
            partitions, at, read_committed=read_committed, log_end=log_end, leader_epochs=leader_epochs, errors=errors
        )
        return {partition: offset for partition, (offset, _) in found.items()}

    async def list_newest_timestamps(
        self, partitions: Iterable[TopicPartition], *, errors: dict[TopicPartition, int] | None = None
    ) -> dict[TopicPartition, int]:
        """The newest timestamp of the records of each partition, in ms, -1 for a partition without records (KIP-734).

        Partitions are missing as in `list_offsets`, and all of them on brokers before Kafka 3.0. Raises RefusedError
        for a missing permission.
        """
        if not self.supports(ListOffsetsRequest.API_KEY, WITH_MAX_TIMESTAMP):
            return {}
        found = await self._list_places(partitions, MAX_TIMESTAMP, errors=errors)
        return {partition: timestamp for partition, (_, timestamp) in found.items()}

    async def _list_places(
        self,
        partitions: Iterable[TopicPartition],
        at: int,
        *,
        read_committed: bool = False,
        log_end: bool = False,
        leader_epochs: Mapping[TopicPartition, int] = MappingProxyType({}),
        errors: dict[TopicPartition, int] | None = None,
    ) -> dict[TopicPartition, tuple[int, int]]:
        """The offset of each partition, and the timestamp of the record there; see `list_offsets`."""
        by_node: dict[int, list[tuple[TopicPartition, int]]] = {}
        for partition in partitions:
            leader = self.leader(partition)
            if leader is not None:
                by_node.setdefault(leader.node, []).append((partition, leader_epochs.get(partition, leader.epoch)))
        questions = [
            self.loop.spawn(
                self.send_request, list_offsets_request(asked, at, read_committed=read_committed, log_end=log_end), node
            )
            for node, asked in by_node.items()
        ]
        found: dict[TopicPartition, tuple[int, int]] = {}
        for response in await self.loop.gather(questions):
            for partition, code, offset, timestamp in read_list_offsets(response):
                if code == Code.NONE:
                    found[partition] = offset, timestamp
                elif error_codes.refused(code):
                    raise self.lacks("DESCRIBE", f"topic {partition.topic}", "reading its offsets")
                elif errors is not None:
                    errors[partition] = code
        return found

    async def cluster_id(self) -> str | None:
        """The id that the cluster was formatted with. Raises ClusterError."""
        response = await self.send_request(MetadataRequest(topics=[], allow_auto_topic_creation=False))
        return None if response.cluster_id is None else str(response.cluster_id)

    async def init_producer(self) -> tuple[int, int]:
        """A fresh idempotent producer: (producer id, epoch). Raises ClusterError until the cluster returns an id."""
        response = await self.send_request(
            InitProducerIdRequest(
                transactional_id=None,
                transaction_timeout_ms=2**31 - 1,
                producer_id=-1,
                producer_epoch=-1,
                max_version=4,
            )
        )
        if response.error_code == Code.NONE:
            return response.producer_id, response.producer_epoch
        if error_codes.refused(response.error_code):
            raise self.lacks("WRITE", "every topic", "copying to remote topics")
        raise ClusterError(f"cluster {self.alias}: no producer id yet: {error_codes.explain(response.error_code)}")

    def close(self) -> None:
        """Close every connection at once and drop the waiting requests."""
        for manager in (self._control, self._data, *self._more_data, self._changes, self._topic_changes):
            manager.abort()
