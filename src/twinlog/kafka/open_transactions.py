"""Names the transaction that holds readers of committed records back (KIP-664)."""

from __future__ import annotations

import time

from kafka.protocol.admin import DescribeProducersRequest, ListTransactionsRequest

from twinlog.errors import ClusterError
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.faults import Code
from twinlog.types import TopicPartition


async def name_open_transaction(client: ClusterClient, partition: TopicPartition) -> str:
    """The oldest transaction that is open in a partition, as words that complete "held up by ...".

    Its producer, by its leader, and its transactional id, if the principal may describe that; what cannot be learned is
    left out.
    """
    try:
        return await _name(client, partition)
    except ClusterError:
        return "an open transaction"


async def _name(client: ClusterClient, partition: TopicPartition) -> str:
    leader = client.leader(partition)
    if leader is None or not client.supports(DescribeProducersRequest.API_KEY):
        return "an open transaction"
    wanted = DescribeProducersRequest.TopicRequest(name=partition.topic, partition_indexes=[partition.partition])
    response = await client.ask(DescribeProducersRequest(topics=[wanted]), leader.node)
    open_ones = [
        producer
        for topic in response.topics
        for part in topic.partitions
        for producer in part.active_producers
        if producer.current_txn_start_offset >= 0
    ]
    if not open_ones:
        return "an open transaction"
    oldest = min(open_ones, key=lambda producer: int(producer.current_txn_start_offset))
    since_s = max(0.0, time.time() - oldest.last_timestamp / 1000)
    who = f"producer {oldest.producer_id}, epoch {oldest.producer_epoch}, last heard of {since_s:.0f} s ago"
    owner = await _transactional_id(client, oldest.producer_id)
    what = "an open transaction" if owner is None else f"an open transaction of {owner}"
    return f"{what} ({who}), which began at offset {oldest.current_txn_start_offset}"


async def _transactional_id(client: ClusterClient, producer_id: int) -> str | None:
    if not client.supports(ListTransactionsRequest.API_KEY):
        return None
    for node in await client.nodes():
        try:
            response = await client.ask(
                ListTransactionsRequest(state_filters=[], producer_id_filters=[producer_id], max_version=0), node
            )
        except ClusterError:
            continue
        if response.error_code == Code.NONE:
            for state in response.transaction_states:
                return f"transactional id {state.transactional_id}"
    return None
