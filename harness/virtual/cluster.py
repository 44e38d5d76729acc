"""A cluster in this process: brokers that answer with real bytes, after scripted faults, in virtual time.

Everything a broker is asked goes through kafka-python's own protocol classes, both ways. There is one log for each
partition, which all replicas have; a leader moves when a test moves it.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from harness.virtual.connection import Connection
from harness.virtual.faults import Fault, Faults
from harness.virtual.groups import VirtualGroups
from harness.virtual.log import VirtualLog
from harness.virtual.loop import VirtualLoop, VirtualSocket
from harness.virtual.offsets import VirtualOffsets
from harness.virtual.records import VirtualRecords
from harness.virtual.requests import (
    ADD_OFFSETS,
    ADD_PARTITIONS,
    API_VERSIONS,
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DELETE_RECORDS,
    DESCRIBE_CONFIGS,
    DESCRIBE_GROUPS,
    DESCRIBE_PRODUCERS,
    DESCRIBE_TRANSACTIONS,
    END_TXN,
    FETCH,
    FIND_COORDINATOR,
    HEARTBEAT,
    INIT_PRODUCER_ID,
    JOIN_GROUP,
    LEAVE_GROUP,
    LIST_GROUPS,
    LIST_OFFSETS,
    LIST_TRANSACTIONS,
    METADATA,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    PRODUCE,
    REQUESTS,
    SYNC_GROUP,
    TXN_OFFSET_COMMIT,
    WRITE_TXN_MARKERS,
)
from harness.virtual.topics import VirtualTopics
from harness.virtual.transactions import VirtualTransactions

with warnings.catch_warnings():
    # kafka-python reads its message schemas in a way that Python 3.11 calls deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.protocol import metadata

GROUP = 0
"""The kind of coordinator that is looked for."""


class VirtualCluster:
    """Brokers `<name>-1` and so on. `asked` counts requests by their API key.

    What its brokers do in time goes by `loop`, which must not stand still; clients may be on other loops of its world.
    """

    def __init__(self, loop: VirtualLoop, name: str, brokers: int = 1) -> None:
        self.name = name
        self.asked: Counter[int] = Counter()
        self.carried_out: Callable[[int, Any], None] = lambda _key, _request: None
        """Called with each request before it is answered, but not with Fetch."""
        self.hidden = {DESCRIBE_PRODUCERS, LIST_TRANSACTIONS}
        """The requests that these brokers do not offer, as brokers before Kafka 2.8."""
        self.nodes = list(range(1, brokers + 1))
        self.down: set[int] = set()
        self.loop = loop
        self.faults = Faults()
        self.topics = VirtualTopics(name, self.nodes, self.down, self.faults)
        self.offsets = VirtualOffsets()
        self.transactions = VirtualTransactions(self.topics, self.faults, self.news, self.offsets)
        self.groups = VirtualGroups(self, self.nodes[0])
        self._records = VirtualRecords(self.topics, self.faults, self.transactions.has, self.news)
        self._open: dict[int, dict[Connection, None]] = {node: {} for node in self.nodes}
        self._waiting: list[Callable[[], None]] = []
        self._handlers: dict[int, Callable[[int, Any, int], Any]] = {
            PRODUCE: self._records.produce,
            FETCH: partial(self._records.fetch, last=True),
            LIST_OFFSETS: self._records.list_offsets,
            DELETE_RECORDS: self._records.delete_records,
            METADATA: self.topics.metadata,
            FIND_COORDINATOR: self._find_coordinator,
            HEARTBEAT: self.groups.heartbeat,
            LEAVE_GROUP: self.groups.leave,
            DESCRIBE_GROUPS: self.groups.describe,
            LIST_GROUPS: self.groups.list,
            API_VERSIONS: self._api_versions,
            CREATE_TOPICS: self.topics.create_topics,
            CREATE_PARTITIONS: self.topics.create_partitions,
            DESCRIBE_CONFIGS: self.topics.describe_configs,
            INIT_PRODUCER_ID: self.transactions.init_producer_id,
            ADD_PARTITIONS: self.transactions.add_partitions,
            END_TXN: self.transactions.end_txn,
            WRITE_TXN_MARKERS: self._records.write_markers,
            DESCRIBE_PRODUCERS: self._records.describe_producers,
            DESCRIBE_TRANSACTIONS: self.transactions.describe,
            LIST_TRANSACTIONS: self.transactions.list,
            ADD_OFFSETS: self.transactions.add_offsets,
            TXN_OFFSET_COMMIT: self.offsets.commit_in_transaction,
            OFFSET_COMMIT: self.offsets.commit,
            OFFSET_FETCH: self.offsets.fetch,
        }
        for node in self.nodes:
            loop.listening[f"{name}-{node}", 9092] = partial(self._accept, node)

    @property
    def bootstrap(self) -> tuple[str, ...]:
        return tuple(f"{self.name}-{node}:9092" for node in self.nodes)

    # For a test's script.

    def create(self, topic: str, partitions: int = 1, **config: str) -> list[VirtualLog]:
        """A topic whose partitions are led by one broker after the other."""
        self.topics.create(topic, partitions, config)
        return [self.log(topic, number) for number in range(partitions)]

    def log(self, topic: str, partition: int = 0) -> VirtualLog:
        return self.topics.log(topic, partition)

    def write(self, topic: str, *values: bytes, partition: int = 0) -> None:
        """A record each, in one batch, by somebody else."""
        self.log(topic, partition).write(*values)
        self.news()

    def move(self, topic: str, partition: int, leader: int | None) -> None:
        """Another broker leads from now on, or none."""
        part = self.topics.parts[topic, partition]
        part.leader = leader
        part.log.epoch += 1
        if leader is not None:
            self.transactions.write_markers(topic, partition)

    def fault(self, key: int, fault: Fault, *, times: int = 1, topic: str | None = None) -> None:
        """So many next requests with this API key, of those that name the topic if there is one, go wrong."""
        self.faults.add(key, fault, times=times, topic=topic)

    def codes(self, key: int, topic: str, *codes: int, partition: int = 0) -> None:
        """The next requests with this API key get these error codes for one partition of a topic; 0 is no error."""
        self.faults.add_codes(key, topic, partition, codes)

    @property
    def faults_left(self) -> int:
        return self.faults.left

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

    # For its connections and groups.

    def serve(self, key: int, node: int, request: Any, code: int, client: str, answer: Callable[[Any], None]) -> None:
        self.carried_out(key, request)
        if key == JOIN_GROUP:
            self.groups.join(node, request, code, client, answer)
        elif key == SYNC_GROUP:
            self.groups.sync(node, request, code, answer)
        else:
            answer(self._handlers[key](node, request, code))

    def fetch(self, node: int, request: Any, code: int, *, last: bool) -> Any | None:
        return self._records.fetch(node, request, code, last=last)

    def on_news(self, look: Callable[[], None]) -> None:
        self._waiting.append(look)

    def closed(self, node: int, connection: Connection) -> None:
        self._open[node].pop(connection, None)

    def now(self) -> float:
        return float(self.loop.clock.monotonic())

    def later(self, seconds: float, step: Callable[[], None]) -> None:
        self.loop.net.call_later(seconds, step)

    def _accept(self, node: int, sock: VirtualSocket) -> Connection | None:
        if node in self.down:
            return None
        connection = Connection(self, node, sock)
        self._open[node][connection] = None
        return connection

    def _find_coordinator(self, _node: int, request: Any, code: int) -> Any:
        there: Iterable[int] = (node for node in self.nodes if node not in self.down)
        node = self.groups.node if request.key_type == GROUP else next(iter(there))
        return metadata.FindCoordinatorResponse(
            throttle_time_ms=0, error_code=code, error_message=None, node_id=node, host=f"{self.name}-{node}", port=9092
        )

    def _api_versions(self, _node: int, _request: Any, code: int) -> Any:
        kind = metadata.ApiVersionsResponse
        keys = [
            kind.ApiVersion(api_key=key, min_version=0, max_version=newest)
            for key, (_, newest) in REQUESTS.items()
            if key not in self.hidden
        ]
        return kind(error_code=code, api_keys=keys, throttle_time_ms=0)
