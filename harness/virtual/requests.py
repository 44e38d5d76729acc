"""The requests that virtual brokers know."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

with warnings.catch_warnings():
    # kafka-python reads its message schemas in a way that Python 3.11 calls deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.protocol import admin, consumer, metadata, producer
    from kafka.protocol.admin import groups, transactions
    from kafka.protocol.consumer import group, offsets
    from kafka.protocol.producer import transaction

PRODUCE, FETCH, LIST_OFFSETS, METADATA, FIND_COORDINATOR, API_VERSIONS = 0, 1, 2, 3, 10, 18
JOIN_GROUP, HEARTBEAT, LEAVE_GROUP, SYNC_GROUP, DESCRIBE_GROUPS, LIST_GROUPS = 11, 12, 13, 14, 15, 16
CREATE_TOPICS, CREATE_PARTITIONS, DESCRIBE_CONFIGS, DELETE_RECORDS = 19, 37, 32, 21
INIT_PRODUCER_ID, ADD_PARTITIONS, END_TXN, WRITE_TXN_MARKERS = 22, 24, 26, 27
DESCRIBE_PRODUCERS, DESCRIBE_TRANSACTIONS, LIST_TRANSACTIONS = 61, 65, 66
OFFSET_COMMIT, OFFSET_FETCH, ADD_OFFSETS, TXN_OFFSET_COMMIT = 8, 9, 25, 28

REQUESTS: Mapping[int, tuple[Any, int]] = {
    PRODUCE: (producer.ProduceRequest, 9),
    FETCH: (consumer.FetchRequest, 12),
    LIST_OFFSETS: (offsets.ListOffsetsRequest, 7),
    METADATA: (metadata.MetadataRequest, 12),
    FIND_COORDINATOR: (metadata.FindCoordinatorRequest, 3),
    JOIN_GROUP: (group.JoinGroupRequest, 7),
    HEARTBEAT: (group.HeartbeatRequest, 4),
    LEAVE_GROUP: (group.LeaveGroupRequest, 4),
    SYNC_GROUP: (group.SyncGroupRequest, 5),
    DESCRIBE_GROUPS: (groups.DescribeGroupsRequest, 5),
    LIST_GROUPS: (groups.ListGroupsRequest, 4),
    API_VERSIONS: (metadata.ApiVersionsRequest, 3),
    CREATE_TOPICS: (admin.CreateTopicsRequest, 5),
    INIT_PRODUCER_ID: (transaction.InitProducerIdRequest, 4),
    ADD_PARTITIONS: (transaction.AddPartitionsToTxnRequest, 3),
    END_TXN: (transaction.EndTxnRequest, 3),
    WRITE_TXN_MARKERS: (transaction.WriteTxnMarkersRequest, 1),
    DESCRIBE_PRODUCERS: (admin.DescribeProducersRequest, 0),
    DESCRIBE_TRANSACTIONS: (transactions.DescribeTransactionsRequest, 0),
    LIST_TRANSACTIONS: (transactions.ListTransactionsRequest, 0),
    DESCRIBE_CONFIGS: (admin.DescribeConfigsRequest, 4),
    CREATE_PARTITIONS: (admin.CreatePartitionsRequest, 3),
    DELETE_RECORDS: (admin.DeleteRecordsRequest, 2),
    OFFSET_COMMIT: (group.OffsetCommitRequest, 8),
    OFFSET_FETCH: (group.OffsetFetchRequest, 7),
    ADD_OFFSETS: (transaction.AddOffsetsToTxnRequest, 3),
    TXN_OFFSET_COMMIT: (transaction.TxnOffsetCommitRequest, 3),
}
"""By API key the class, and the newest version that these brokers know."""


def topics_of(key: int, request: Any) -> set[str]:
    """The topics that a request is about."""
    if key == PRODUCE:
        return {topic.name for topic in request.topic_data}
    if key == FETCH:
        return {topic.topic for topic in request.topics}
    if key in (LIST_OFFSETS, METADATA, CREATE_TOPICS, CREATE_PARTITIONS, DELETE_RECORDS):
        return {topic.name for topic in request.topics or ()}
    if key == WRITE_TXN_MARKERS:
        return {topic.name for marker in request.markers for topic in marker.topics}
    return set()
