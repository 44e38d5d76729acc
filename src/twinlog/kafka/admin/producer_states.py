"""Reads the active producers of a partition and their open transactions, which hold readers back (KIP-664)."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from kafka.protocol.admin import DescribeProducersRequest, ListTransactionsRequest

from twinlog.errors import ClusterError
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.protocol.error_codes import RETRIABLE, Code, explain
from twinlog.model.types import TopicName, TopicPartition


class ProducerState(NamedTuple):
    """A producer in a leader's state: the sequence number and timestamp (ms) of its last record, and its transaction.

    `first_offset` is the first offset of its open transaction, -1 outside of a transaction.
    """

    producer_id: int
    epoch: int
    last_sequence: int
    first_offset: int
    last_append_ms: int


async def producer_states(
    client: ClusterClient, partitions: Collection[TopicPartition]
) -> tuple[dict[TopicPartition, list[ProducerState]], dict[TopicPartition, str]]:
    """The active producers of partitions, a request per leader; and the errors of unanswered partitions.

    The list of a partition is empty if brokers lack the request (Kafka before 2.8, other products). The list is also
    empty if the principal lacks READ on the topic. Raises ClusterError when a broker fails to answer.
    """
    found: dict[TopicPartition, list[ProducerState]] = {partition: [] for partition in partitions}
    errors: dict[TopicPartition, str] = {}
    if not client.supports(DescribeProducersRequest.API_KEY):
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


async def open_transactions(
    client: ClusterClient, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, list[ProducerState]]:
    """The producers with an open transaction in partitions, a request per leader.

    The list of a partition is empty if brokers lack the request or refuse it. Raises ClusterError when a broker fails
    to answer, or has lost the leadership of a partition.
    """
    found, errors = await producer_states(client, partitions)
    for partition, why in errors.items():
        raise ClusterError(f"cluster {client.alias}: producers of {partition}: {why}")
    return {partition: [one for one in states if one.first_offset >= 0] for partition, states in found.items()}


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
