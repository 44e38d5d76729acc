"""A cluster in this process: brokers that answer with real bytes, after scripted faults, in virtual time.

Everything a broker is asked goes through kafka-python's own protocol classes, both ways. There is one log for each
partition, which all replicas have; a leader moves when a test says so.
"""

from __future__ import annotations

import struct
import warnings
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from harness.virtual.log import VirtualLog
from harness.virtual.loop import VirtualLoop, VirtualSocket
from twinlog.kafka.protocol.error_codes import Code

with warnings.catch_warnings():
    # kafka-python reads its message schemas in a way that Python 3.11 calls deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.protocol import admin, consumer, metadata, producer
    from kafka.protocol.consumer import offsets
    from kafka.protocol.producer import transaction

PRODUCE, FETCH, LIST_OFFSETS, METADATA, FIND_COORDINATOR, API_VERSIONS = 0, 1, 2, 3, 10, 18
INIT_PRODUCER_ID, ADD_PARTITIONS, END_TXN, DESCRIBE_CONFIGS = 22, 24, 26, 32

_REQUESTS: Mapping[int, tuple[Any, int]] = {
    PRODUCE: (producer.ProduceRequest, 9),
    FETCH: (consumer.FetchRequest, 12),
    LIST_OFFSETS: (offsets.ListOffsetsRequest, 7),
    METADATA: (metadata.MetadataRequest, 12),
    FIND_COORDINATOR: (metadata.FindCoordinatorRequest, 3),
    API_VERSIONS: (metadata.ApiVersionsRequest, 3),
    INIT_PRODUCER_ID: (transaction.InitProducerIdRequest, 4),
    ADD_PARTITIONS: (transaction.AddPartitionsToTxnRequest, 3),
    END_TXN: (transaction.EndTxnRequest, 3),
    DESCRIBE_CONFIGS: (admin.DescribeConfigsRequest, 4),
}
"""What these brokers know, and up to which version."""

MAX_MESSAGE_BYTES = 1_048_588
_DELAY_S = 0.0005


@dataclass(frozen=True, slots=True)
class Fault:
    """What becomes of a request: an error `code` instead of an answer, an answer that is late, or none.

    `lost` breaks the connection; with `done` only after the request was carried out. With `throttle_s` it is answered
    as usual, and nothing more may be sent for so long (KIP-219).
    """

    code: int = 0
    delay_s: float = 0.0
    lost: bool = False
    done: bool = False
    throttle_s: float = 0.0


@dataclass(slots=True)
class _Rule:
    key: int
    fault: Fault
    times: int
    topic: str | None


@dataclass(slots=True)
class Led:
    """A partition: its log and who leads it, None for nobody."""

    log: VirtualLog
    leader: int | None


@dataclass(slots=True)
class _Transaction:
    producer_id: int
    epoch: int
    parts: list[tuple[str, int]] = field(default_factory=list)
    unmarked: dict[tuple[str, int], bool] = field(default_factory=dict)
    """Partitions that had no leader when it ended, and whether it was committed: they lack its marker."""


class VirtualCluster:
    """Brokers `<name>-1` and so on. `asked` counts requests by their API key."""

    def __init__(self, loop: VirtualLoop, name: str, brokers: int = 1) -> None:
        self.name = name
        self.parts: dict[tuple[str, int], Led] = {}
        self.configs: dict[str, dict[str, str]] = {}
        self.asked: Counter[int] = Counter()
        self.nodes = list(range(1, brokers + 1))
        self.down: set[int] = set()
        self.loop = loop
        self.transactions: dict[str, _Transaction] = {}
        self._rules: list[_Rule] = []
        self._open: dict[int, set[_Connection]] = {node: set() for node in self.nodes}
        self._producers = 1000
        self._waiting: list[Callable[[], None]] = []
        for node in self.nodes:
            loop.listening[f"{name}-{node}", 9092] = partial(self._accept, node)

    @property
    def bootstrap(self) -> tuple[str, ...]:
        return tuple(f"{self.name}-{node}:9092" for node in self.nodes)

    # For a test's script.

    def create(self, topic: str, partitions: int = 1, **config: str) -> list[VirtualLog]:
        """A topic whose partitions are led by one broker after the other."""
        self.configs[topic] = {"max.message.bytes": str(MAX_MESSAGE_BYTES), **config}
        for number in range(partitions):
            self.parts[topic, number] = Led(VirtualLog(), self.nodes[number % len(self.nodes)])
        return [self.log(topic, number) for number in range(partitions)]

    def log(self, topic: str, partition: int = 0) -> VirtualLog:
        return self.parts[topic, partition].log

    def write(self, topic: str, *values: bytes, partition: int = 0) -> None:
        """A record each, in one batch, by somebody else."""
        self.log(topic, partition).write(*values)
        self.news()

    def move(self, topic: str, partition: int, leader: int | None) -> None:
        """Another broker leads from now on, or none."""
        part = self.parts[topic, partition]
        part.leader = leader
        part.log.epoch += 1
        for known in self.transactions.values() if leader is not None else ():
            commit = known.unmarked.pop((topic, partition), None)
            if commit is not None:
                part.log.mark(known.producer_id, known.epoch, commit=commit)

    def fault(self, key: int, fault: Fault, *, times: int = 1, topic: str | None = None) -> None:
        """So many next requests with this API key, of those that name the topic if there is one, go wrong."""
        self._rules.append(_Rule(key, fault, times, topic))

    @property
    def faults_left(self) -> int:
        return sum(rule.times for rule in self._rules)

    def stop(self, node: int) -> None:
        """A broker is gone: its connections break, and there are no new ones."""
        self.down.add(node)
        for connection in list(self._open[node]):
            connection.break_off()

    def start(self, node: int) -> None:
        self.down.discard(node)

    def news(self) -> None:
        """Who waits for records is answered."""
        waiting, self._waiting = self._waiting, []
        for look in waiting:
            look()

    # What brokers do.

    def _accept(self, node: int, sock: VirtualSocket) -> _Connection | None:
        if node in self.down:
            return None
        connection = _Connection(self, node, sock)
        self._open[node].add(connection)
        return connection

    def _fault(self, key: int, topics: set[str]) -> Fault:
        for rule in self._rules:
            if rule.key == key and rule.times and (rule.topic is None or rule.topic in topics):
                rule.times -= 1
                return rule.fault
        return Fault()

    def api_versions(self, _node: int, _request: Any, code: int) -> Any:
        kind = metadata.ApiVersionsResponse
        keys = [
            kind.ApiVersion(api_key=key, min_version=0, max_version=newest) for key, (_, newest) in _REQUESTS.items()
        ]
        return kind(error_code=code, api_keys=keys, throttle_time_ms=0)

    def metadata(self, _node: int, request: Any, code: int) -> Any:
        kind = metadata.MetadataResponse
        there = sorted({topic for topic, _ in self.parts})
        wanted = there if request.topics is None else [topic.name for topic in request.topics]
        return kind(
            throttle_time_ms=0,
            brokers=[
                kind.MetadataResponseBroker(node_id=node, host=f"{self.name}-{node}", port=9092, rack=None)
                for node in self.nodes
                if node not in self.down
            ],
            cluster_id=self.name,
            controller_id=self.nodes[0],
            topics=[self._described(name, code) for name in wanted],
        )

    def _described(self, name: str, code: int) -> Any:
        kind = metadata.MetadataResponse.MetadataResponseTopic
        parts = [(number, part) for (topic, number), part in sorted(self.parts.items()) if topic == name]
        return kind(
            error_code=code or (0 if parts else Code.UNKNOWN_TOPIC_OR_PARTITION),
            name=name,
            is_internal=False,
            partitions=[
                kind.MetadataResponsePartition(
                    error_code=0 if part.leader else Code.LEADER_NOT_AVAILABLE,
                    partition_index=number,
                    leader_id=part.leader or -1,
                    leader_epoch=part.log.epoch,
                    replica_nodes=self.nodes,
                    isr_nodes=self.nodes,
                    offline_replicas=[],
                )
                for number, part in parts
            ],
        )

    def led(self, node: int, topic: str, partition: int, epoch: int = -1) -> tuple[int, VirtualLog]:
        """The log, and why this broker cannot give it out (0 if it can)."""
        part = self.parts.get((topic, partition))
        if part is None:
            return Code.UNKNOWN_TOPIC_OR_PARTITION, VirtualLog()
        if part.leader != node:
            return Code.NOT_LEADER_OR_FOLLOWER, part.log
        if epoch >= 0 and epoch != part.log.epoch:
            return (Code.FENCED_LEADER_EPOCH if epoch < part.log.epoch else Code.UNKNOWN_LEADER_EPOCH), part.log
        return Code.NONE, part.log

    def list_offsets(self, node: int, request: Any, code: int) -> Any:
        kind = offsets.ListOffsetsResponse
        topics = []
        for topic in request.topics:
            parts = []
            for part in topic.partitions:
                error, log = self.led(node, topic.name, part.partition_index, part.current_leader_epoch)
                latest = log.stable_end if request.isolation_level else log.end
                parts.append(
                    kind.ListOffsetsTopicResponse.ListOffsetsPartitionResponse(
                        partition_index=part.partition_index,
                        error_code=code or error,
                        timestamp=-1,
                        offset=log.start if part.timestamp == -2 else latest,
                        leader_epoch=log.epoch,
                    )
                )
            topics.append(kind.ListOffsetsTopicResponse(name=topic.name, partitions=parts))
        return kind(throttle_time_ms=0, topics=topics)

    def produce(self, node: int, request: Any, code: int) -> Any:
        kind = producer.ProduceResponse
        responses = []
        for topic in request.topic_data:
            parts = []
            for part in topic.partition_data:
                error, log = self.led(node, topic.name, part.index)
                error, base = code or error, -1
                if not error:
                    error, base = log.append(bytes(part.records))
                parts.append(
                    kind.TopicProduceResponse.PartitionProduceResponse(
                        index=part.index,
                        error_code=error,
                        base_offset=base,
                        log_append_time_ms=-1,
                        log_start_offset=log.start,
                        record_errors=[],
                        error_message=None,
                    )
                )
            responses.append(kind.TopicProduceResponse(name=topic.name, partition_responses=parts))
        self.news()
        return kind(responses=responses, throttle_time_ms=0)

    def fetch(self, node: int, request: Any, code: int, *, last: bool) -> Any | None:
        """The answer; None while there is nothing to be told, unless this is the `last` look."""
        kind = consumer.FetchResponse
        said = last or bool(code)
        responses, left = [], request.max_bytes
        committed = bool(request.isolation_level)
        for topic in request.topics:
            parts = []
            for part in topic.partitions:
                error, log = self.led(node, topic.topic, part.partition, part.current_leader_epoch)
                error = code or error
                if not error and not log.start <= part.fetch_offset <= log.end:
                    error = Code.OFFSET_OUT_OF_RANGE
                room = min(left, part.partition_max_bytes)
                records = b"" if error else log.read(part.fetch_offset, room, committed=committed)
                left = max(0, left - len(records))
                said = said or bool(error or records)
                aborted = [
                    kind.FetchableTopicResponse.PartitionData.AbortedTransaction(producer_id=who, first_offset=first)
                    for who, first, marker in log.aborted
                    if committed and marker >= part.fetch_offset
                ]
                parts.append(
                    kind.FetchableTopicResponse.PartitionData(
                        partition_index=part.partition,
                        error_code=error,
                        high_watermark=log.end,
                        last_stable_offset=log.stable_end,
                        log_start_offset=log.start,
                        aborted_transactions=aborted,
                        preferred_read_replica=-1,
                        records=records,
                    )
                )
            responses.append(kind.FetchableTopicResponse(topic=topic.topic, partitions=parts))
        return kind(throttle_time_ms=0, error_code=0, session_id=0, responses=responses) if said else None

    def find_coordinator(self, _node: int, _request: Any, code: int) -> Any:
        node = next(node for node in self.nodes if node not in self.down)
        return metadata.FindCoordinatorResponse(
            throttle_time_ms=0, error_code=code, error_message=None, node_id=node, host=f"{self.name}-{node}", port=9092
        )

    def init_producer_id(self, _node: int, request: Any, code: int) -> Any:
        kind = transaction.InitProducerIdResponse
        if code:
            return kind(throttle_time_ms=0, error_code=code, producer_id=-1, producer_epoch=-1)
        known = self.transactions.get(request.transactional_id or "")
        if known is None:
            self._producers += 1
            known = _Transaction(self._producers, 0)
            if request.transactional_id:
                self.transactions[request.transactional_id] = known
        elif request.producer_id >= 0 and (request.producer_id, request.producer_epoch) != (
            known.producer_id,
            known.epoch,
        ):
            return kind(throttle_time_ms=0, error_code=Code.PRODUCER_FENCED, producer_id=-1, producer_epoch=-1)
        elif known.unmarked:
            return kind(throttle_time_ms=0, error_code=Code.CONCURRENT_TRANSACTIONS, producer_id=-1, producer_epoch=-1)
        else:
            known.epoch += 1
            self._end(known, commit=False)
        return kind(throttle_time_ms=0, error_code=0, producer_id=known.producer_id, producer_epoch=known.epoch)

    def _holds(self, name: str, producer_id: int, epoch: int) -> int:
        known = self.transactions.get(name)
        if known is None or known.producer_id != producer_id:
            return Code.INVALID_PRODUCER_ID_MAPPING
        if known.unmarked:
            return Code.CONCURRENT_TRANSACTIONS
        return Code.NONE if known.epoch == epoch else Code.PRODUCER_FENCED

    def add_partitions(self, _node: int, request: Any, code: int) -> Any:
        kind = transaction.AddPartitionsToTxnResponse
        code = code or self._holds(
            request.v3_and_below_transactional_id,
            request.v3_and_below_producer_id,
            request.v3_and_below_producer_epoch,
        )
        topics = []
        for topic in request.v3_and_below_topics:
            parts = []
            for number in topic.partitions:
                error = code or (0 if (topic.name, number) in self.parts else Code.UNKNOWN_TOPIC_OR_PARTITION)
                if not error:
                    self.transactions[request.v3_and_below_transactional_id].parts.append((topic.name, number))
                parts.append((number, error))
            topics.append((topic.name, parts))
        result = kind.AddPartitionsToTxnTopicResult
        return kind(
            throttle_time_ms=0,
            results_by_topic_v3_and_below=[
                result(
                    name=name,
                    results_by_partition=[
                        result.AddPartitionsToTxnPartitionResult(partition_index=number, partition_error_code=error)
                        for number, error in parts
                    ],
                )
                for name, parts in topics
            ],
        )

    def end_txn(self, _node: int, request: Any, code: int) -> Any:
        code = code or self._holds(request.transactional_id, request.producer_id, request.producer_epoch)
        if not code:
            self._end(self.transactions[request.transactional_id], commit=request.committed)
        return transaction.EndTxnResponse(throttle_time_ms=0, error_code=code)

    def _end(self, known: _Transaction, *, commit: bool) -> None:
        parts, known.parts = known.parts, []
        for place in dict.fromkeys(parts):
            if self.parts[place].leader is None:
                known.unmarked[place] = commit
                continue
            self.parts[place].log.mark(known.producer_id, known.epoch, commit=commit)
        self.news()

    def describe_configs(self, _node: int, request: Any, code: int) -> Any:
        kind = admin.DescribeConfigsResponse
        result = kind.DescribeConfigsResult
        return kind(
            throttle_time_ms=0,
            results=[
                result(
                    error_code=code,
                    error_message=None,
                    resource_type=asked.resource_type,
                    resource_name=asked.resource_name,
                    configs=[
                        result.DescribeConfigsResourceResult(
                            name=name,
                            value=value,
                            read_only=False,
                            config_source=1,
                            is_sensitive=False,
                            synonyms=[],
                            config_type=0,
                            documentation=None,
                        )
                        for name, value in self.configs.get(asked.resource_name, {}).items()
                    ],
                )
                for asked in request.resources
            ],
        )


class _Connection:
    """One connection to a broker, which answers one request after the other."""

    def __init__(self, cluster: VirtualCluster, node: int, sock: VirtualSocket) -> None:
        self._cluster = cluster
        self._node = node
        self._sock = sock
        self._bytes = b""
        self._requests: deque[bytes] = deque()
        self._busy = False
        self._gone = False

    def received(self, _sock: VirtualSocket, data: bytes) -> None:
        self._bytes += data
        while len(self._bytes) >= 4:
            (size,) = struct.unpack_from(">i", self._bytes)
            if len(self._bytes) < 4 + size:
                return
            self._requests.append(self._bytes[4 : 4 + size])
            self._bytes = self._bytes[4 + size :]
            self._next()

    def lost(self, _sock: VirtualSocket) -> None:
        self._gone = True
        self._cluster._open[self._node].discard(self)

    def break_off(self) -> None:
        """Close it from the broker's side."""
        self._gone = True
        self._cluster._open[self._node].discard(self)
        self._sock.break_off()

    def _next(self) -> None:
        if self._busy or self._gone or not self._requests:
            return
        self._busy = True
        frame = self._requests.popleft()
        key, version, correlation, client = struct.unpack_from(">hhih", frame)
        kind = _REQUESTS[key][0]
        at = 10 + max(0, client) + (1 if kind.flexible_version_q(version) else 0)
        request = kind.decode(memoryview(frame)[at:], version=version)
        self._cluster.asked[key] += 1
        fault = self._cluster._fault(key, _topics(key, request))
        if fault.lost and not fault.done:
            self._later(fault.delay_s, self.break_off)
            return
        if key == FETCH and not fault.code:
            self._fetch(request, correlation, version, fault)
            return
        self._later(_DELAY_S, lambda: self._serve(key, request, correlation, version, fault))

    def _serve(self, key: int, request: Any, correlation: int, version: int, fault: Fault) -> None:
        if self._gone:
            return
        cluster = self._cluster
        if key == FETCH:
            response = cluster.fetch(self._node, request, fault.code, last=True)
        else:
            response = getattr(cluster, _HANDLERS[key])(self._node, request, fault.code)
        if fault.lost or response is None:
            self.break_off()
            return
        response.throttle_time_ms = int(fault.throttle_s * 1000)
        self._later(fault.delay_s, lambda: self._answer(key, response, correlation, version))

    def _fetch(self, request: Any, correlation: int, version: int, fault: Fault) -> None:
        done = False

        def look(*, last: bool = False) -> None:
            nonlocal done
            if done or self._gone:
                return
            response = self._cluster.fetch(self._node, request, 0, last=last)
            if response is None:
                self._cluster._waiting.append(look)
                return
            done = True
            if fault.lost:
                self.break_off()
                return
            response.throttle_time_ms = int(fault.throttle_s * 1000)
            self._later(fault.delay_s, lambda: self._answer(FETCH, response, correlation, version))

        self._later(_DELAY_S, look)
        self._later(_DELAY_S + request.max_wait_ms / 1000, lambda: look(last=True))

    def _answer(self, key: int, response: Any, correlation: int, version: int) -> None:
        if not self._gone:
            body = response.encode(version=version)
            flexible = response.flexible_version_q(version) and key != API_VERSIONS
            head = struct.pack(">i", correlation) + (b"\0" if flexible else b"")
            self._sock.deliver(struct.pack(">i", len(head) + len(body)) + head + bytes(body))
        self._busy = False
        self._next()

    def _later(self, seconds: float, step: Callable[[], None]) -> None:
        self._cluster.loop.net.call_later(seconds, step)


_HANDLERS = {
    PRODUCE: "produce",
    LIST_OFFSETS: "list_offsets",
    METADATA: "metadata",
    FIND_COORDINATOR: "find_coordinator",
    API_VERSIONS: "api_versions",
    INIT_PRODUCER_ID: "init_producer_id",
    ADD_PARTITIONS: "add_partitions",
    END_TXN: "end_txn",
    DESCRIBE_CONFIGS: "describe_configs",
}


def _topics(key: int, request: Any) -> set[str]:
    """The topics that a request is about."""
    if key == PRODUCE:
        return {topic.name for topic in request.topic_data}
    if key == FETCH:
        return {topic.topic for topic in request.topics}
    if key in (LIST_OFFSETS, METADATA):
        return {topic.name for topic in request.topics or ()}
    return set()
