"""The state of partitions on their brokers: producers and open transactions, the sizes of logs, the ids of topics.

The functions are coroutines on the loop of a client. An open transaction holds readers back (KIP-664).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import NamedTuple

from kafka.protocol.admin import DescribeLogDirsRequest, DescribeProducersRequest, ListTransactionsRequest

from twinlog.errors import ClusterError
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.fetch_session import FetchSession
from twinlog.kafka.protocol import error_codes
from twinlog.kafka.protocol.error_codes import OTHER_TOPIC, RETRIABLE, Code, explain
from twinlog.kafka.protocol.fetch import FetchPosition
from twinlog.model.topics import Disk
from twinlog.model.types import TopicName, TopicPartition

_TIMEOUT_S = 40.0

_NOWHERE = 2**62
"""An offset above the end of any log, so the fetch returns an empty answer."""

_OF_ANOTHER = OTHER_TOPIC | {Code.UNKNOWN_TOPIC_OR_PARTITION}


class ProducerState(NamedTuple):
    """A producer in a leader's state: the sequence number and timestamp (ms) of its last record, and its transaction.

    `first_offset` is the first offset of its open transaction, -1 outside of a transaction.
    """

    producer_id: int
    epoch: int
    last_sequence: int
    first_offset: int
    last_append_ms: int

    @property
    def in_transaction(self) -> bool:
        """Whether the producer has an open transaction in the partition."""
        return self.first_offset >= 0


def supports_producer_states(client: ClusterClient) -> bool:
    """Whether the brokers list the producers of a partition: Kafka 2.8 and later (KIP-664)."""
    return client.supports(DescribeProducersRequest.API_KEY)


async def producer_states(
    client: ClusterClient, partitions: Collection[TopicPartition]
) -> tuple[dict[TopicPartition, list[ProducerState]], dict[TopicPartition, str]]:
    """The active producers of partitions, a request per leader; and the errors of unanswered partitions.

    The list of a partition is empty if brokers lack the request (Kafka before 2.8, other products). The list is also
    empty if the principal lacks READ on the topic. Raises ClusterError when a broker fails to answer.
    """
    found: dict[TopicPartition, list[ProducerState]] = {partition: [] for partition in partitions}
    errors: dict[TopicPartition, str] = {}
    if not supports_producer_states(client):
        return found, errors
    by_node: dict[int, dict[str, list[int]]] = {}
    for partition in partitions:
        leader = client.leader(partition)
        if leader is None:
            errors[partition] = "it has no leader"
        else:
            by_node.setdefault(leader.node, {}).setdefault(partition.topic, []).append(partition.partition)
    kind = DescribeProducersRequest.TopicRequest

    async def ask(node: int, topics: dict[str, list[int]]) -> None:
        wanted = [kind(name=name, partition_indexes=numbers) for name, numbers in topics.items()]
        response = await client.send_request(DescribeProducersRequest(topics=wanted), node)
        answered = [(topic.name, part) for topic in response.topics for part in topic.partitions]
        for name, part in answered:
            where = TopicPartition(TopicName(name), part.partition_index)
            if part.error_code in RETRIABLE:
                errors[where] = explain(part.error_code)
            found[where] = [
                ProducerState(
                    one.producer_id,
                    one.producer_epoch,
                    one.last_sequence,
                    one.current_txn_start_offset,
                    one.last_timestamp,
                )
                for one in part.active_producers
            ]

    await client.loop.gather([client.loop.spawn(ask, node, topics) for node, topics in by_node.items()])
    return {where: states for where, states in found.items() if where not in errors}, errors


async def producers_of(
    client: ClusterClient, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, list[ProducerState]]:
    """The active producers of partitions, a request per leader.

    The list of a partition is empty if brokers lack the request or refuse it. Raises ClusterError when a broker fails
    to answer, or has lost the leadership of a partition.
    """
    found, errors = await producer_states(client, partitions)
    for partition, why in errors.items():
        raise ClusterError(f"cluster {client.alias}: producers of {partition}: {why}")
    return found


async def open_transactions(
    client: ClusterClient, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, list[ProducerState]]:
    """The producers with an open transaction in partitions. Empty lists and errors are the ones of `producers_of`."""
    found = await producers_of(client, partitions)
    return {partition: [one for one in states if one.in_transaction] for partition, states in found.items()}


async def name_open_transaction(client: ClusterClient, partition: TopicPartition) -> str:
    """The oldest open transaction of a partition, as words that complete "held up by ...".

    The words have its producer, and its transactional id if the principal may describe the id. Unreadable parts are
    left out.
    """
    try:
        return await _name(client, partition)
    except ClusterError:
        return "an open transaction"


async def _name(client: ClusterClient, partition: TopicPartition) -> str:
    open_ones = (await open_transactions(client, [partition]))[partition]
    if not open_ones:
        return "an open transaction"
    oldest = min(open_ones, key=lambda one: one.first_offset)
    since_s = max(0.0, client.loop.clock.wall() - oldest.last_append_ms / 1000)
    who = f"producer {oldest.producer_id}, epoch {oldest.epoch}, last append {since_s:.0f} s ago"
    owner = await _transactional_id(client, oldest.producer_id)
    what = "an open transaction" if owner is None else f"an open transaction of {owner}"
    return f"{what} ({who}), which began at offset {oldest.first_offset}"


async def _transactional_id(client: ClusterClient, producer_id: int) -> str | None:
    if not client.supports(ListTransactionsRequest.API_KEY):
        return None
    for node in await client.nodes():
        try:
            response = await client.send_request(
                ListTransactionsRequest(state_filters=[], producer_id_filters=[producer_id], max_version=0), node
            )
        except ClusterError:
            continue
        if response.error_code == Code.NONE:
            for state in response.transaction_states:
                return f"transactional id {state.transactional_id}"
    return None


@dataclass(frozen=True, slots=True)
class LogDirs:
    """The bytes of each partition, of its largest replica, and the disks of all brokers that answered."""

    sizes: dict[TopicPartition, int] = field(default_factory=dict)
    disks: list[Disk] = field(default_factory=list)


async def describe_log_dirs(client: ClusterClient) -> LogDirs:
    """Ask each broker once about all of its logs. A directory that failed is left out.

    The space of a disk is known since Kafka 3.3 (KIP-827). Raises RefusedError if the principal lacks DESCRIBE on the
    cluster, ClusterError when a broker fails to answer.
    """
    found = LogDirs()
    nodes = await client.nodes()
    asked = [
        client.loop.spawn(client.send_request, DescribeLogDirsRequest(topics=None), node, _TIMEOUT_S) for node in nodes
    ]
    for node, answer in zip(nodes, await client.loop.gather(asked), strict=True):
        code = answer.error_code if answer.API_VERSION >= 3 else Code.NONE
        # Before version 3 a refusing broker returns an empty list of directories.
        if error_codes.refused(code) or (answer.API_VERSION < 3 and not answer.results):
            raise client.lacks("DESCRIBE", "the cluster", "reading the sizes of its logs")
        if code:
            raise ClusterError(f"cluster {client.alias}: log directories: {error_codes.explain(code)}")
        for directory in answer.results:
            if directory.error_code:
                continue
            known = answer.API_VERSION >= 4 and directory.total_bytes >= 0
            total, usable = (directory.total_bytes, directory.usable_bytes) if known else (None, None)
            found.disks.append(Disk(node, directory.log_dir, total, usable))
            for topic in directory.topics:
                for part in topic.partitions:
                    where = TopicPartition(TopicName(topic.name), part.partition_index)
                    if not part.is_future_key:
                        found.sizes[where] = max(found.sizes.get(where, 0), part.partition_size)
    return found


async def require_current_id(client: ClusterClient, partition: TopicPartition) -> None:
    """Raise ClusterError unless a partition's leader has the topic under the topic id of the metadata.

    Any broker answers a metadata request, also a broker that is unaware that a topic was recreated. Offsets are read by
    name, so the new topic's offsets would be taken for the old topic's offsets. With brokers before Kafka 3.1, whose
    fetches name topics, the check overlooks a recreated topic.
    """
    topic, leader = client.topic(partition.topic), client.leader(partition)
    if topic is None or topic.topic_id is None:
        return
    if leader is None:
        raise ClusterError(f"cluster {client.alias}: {partition} has no leader")
    session = FetchSession(client, leader.node, read_committed=False, kept=False)
    at = FetchPosition(_NOWHERE, 1, topic_id=topic.topic_id)
    for found in await session.fetch({partition: at}, max_wait_ms=0, min_bytes=0, max_bytes=1):
        code = found.answer.error
        if code in _OF_ANOTHER:
            raise ClusterError(
                f"cluster {client.alias}: the broker that leads {partition} has it under another id: {explain(code)}"
            )
        if code and code != Code.OFFSET_OUT_OF_RANGE:
            raise ClusterError(f"cluster {client.alias}: {partition}: {explain(code)}")
        return
    raise ClusterError(f"cluster {client.alias}: {partition}: its leader returned no topic id")
