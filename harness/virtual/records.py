"""Produce, Fetch, ListOffsets, DeleteRecords, markers and producers of a virtual cluster."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from harness.virtual.faults import Faults
from harness.virtual.requests import DELETE_RECORDS, LIST_OFFSETS, PRODUCE, WRITE_TXN_MARKERS
from harness.virtual.topics import VirtualTopics
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.protocol.offsets import EARLIEST, MAX_TIMESTAMP
from twinlog.kafka.record.batch import read_batch

with warnings.catch_warnings():
    # kafka-python reads its message schemas in a way that Python 3.11 calls deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.protocol import admin, consumer, producer
    from kafka.protocol.consumer import offsets
    from kafka.protocol.producer import transaction


class VirtualRecords:
    """`in_transaction(id, topic, partition)` says where a transactional id may append; `news()` is called when there
    are more records."""

    def __init__(
        self,
        topics: VirtualTopics,
        faults: Faults,
        in_transaction: Callable[[str, str, int], bool],
        news: Callable[[], None],
    ) -> None:
        self._topics = topics
        self._faults = faults
        self._in_transaction = in_transaction
        self._news = news

    def list_offsets(self, node: int, request: Any, code: int) -> Any:
        kind = offsets.ListOffsetsResponse
        topics = []
        for topic in request.topics:
            parts = []
            for part in topic.partitions:
                error, log = self._topics.led(node, topic.name, part.partition_index, part.current_leader_epoch)
                error = code or self._faults.code(LIST_OFFSETS, topic.name, part.partition_index) or error
                committed, timestamp = bool(request.isolation_level), -1
                if part.timestamp == MAX_TIMESTAMP:
                    offset, timestamp = log.newest()
                elif part.timestamp >= 0:
                    offset = log.first_since(part.timestamp, committed=committed)
                elif part.timestamp == EARLIEST:
                    offset = log.start
                else:
                    offset = log.stable_end if committed else log.end
                parts.append(
                    kind.ListOffsetsTopicResponse.ListOffsetsPartitionResponse(
                        partition_index=part.partition_index,
                        error_code=error,
                        timestamp=timestamp,
                        offset=offset,
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
                error, log = self._topics.led(node, topic.name, part.index)
                error, base = code or self._faults.code(PRODUCE, topic.name, part.index) or error, -1
                end, repeated_ms = log.end, -1
                owner = request.transactional_id
                if not error and owner is not None and not self._in_transaction(owner, topic.name, part.index):
                    error = Code.INVALID_TXN_STATE
                if not error and _has_holes(bytes(part.records)):
                    error = Code.INVALID_RECORD
                if not error:
                    error, base = log.append(bytes(part.records))
                if not error and base < end:
                    # A broker that had the batch already answers with the time of the batch (class UnifiedLog).
                    batch = read_batch(bytes(part.records), 0)
                    assert batch is not None
                    repeated_ms = batch.max_timestamp
                parts.append(
                    kind.TopicProduceResponse.PartitionProduceResponse(
                        index=part.index,
                        error_code=error,
                        base_offset=base,
                        log_append_time_ms=repeated_ms,
                        log_start_offset=log.start,
                        record_errors=[],
                        error_message=None,
                    )
                )
            responses.append(kind.TopicProduceResponse(name=topic.name, partition_responses=parts))
        self._news()
        return kind(responses=responses, throttle_time_ms=0)

    def delete_records(self, node: int, request: Any, code: int) -> Any:
        kind = admin.DeleteRecordsResponse
        topics = []
        for topic in request.topics:
            parts = []
            for part in topic.partitions:
                error, log = self._topics.led(node, topic.name, part.partition_index)
                error = code or self._faults.code(DELETE_RECORDS, topic.name, part.partition_index) or error
                if not error and "delete" not in self._topics.configs[topic.name].get("cleanup.policy", "delete"):
                    error = Code.POLICY_VIOLATION
                if not error and part.offset > log.end:
                    error = Code.OFFSET_OUT_OF_RANGE
                if not error and part.offset > log.start:
                    log.delete_before(part.offset)
                parts.append(
                    kind.DeleteRecordsTopicResult.DeleteRecordsPartitionResult(
                        partition_index=part.partition_index, low_watermark=log.start, error_code=error
                    )
                )
            topics.append(kind.DeleteRecordsTopicResult(name=topic.name, partitions=parts))
        return kind(throttle_time_ms=0, topics=topics)

    def write_markers(self, node: int, request: Any, code: int) -> Any:
        """Markers by a client, one after the other; an answer names each producer once (Kafka class KafkaApis)."""
        kind = transaction.WriteTxnMarkersResponse.WritableTxnMarkerResult
        found: dict[int, dict[tuple[str, int], int]] = {}
        for marker in request.markers:
            for topic in marker.topics:
                for number in topic.partition_indexes:
                    error, log = self._topics.led(node, topic.name, number)
                    error = code or self._faults.code(WRITE_TXN_MARKERS, topic.name, number) or error
                    if not error:
                        commit = bool(marker.transaction_result)
                        error = log.mark_by_client(marker.producer_id, marker.producer_epoch, commit=commit)
                    found.setdefault(marker.producer_id, {})[topic.name, number] = error
        self._news()
        part = kind.WritableTxnMarkerTopicResult
        return transaction.WriteTxnMarkersResponse(
            markers=[
                kind(
                    producer_id=producer_id,
                    topics=[
                        part(
                            name=name,
                            partitions=[
                                part.WritableTxnMarkerPartitionResult(partition_index=number, error_code=error)
                                for (other, number), error in errors.items()
                                if other == name
                            ],
                        )
                        for name in dict.fromkeys(name for name, _ in errors)
                    ],
                )
                for producer_id, errors in found.items()
            ]
        )

    def describe_producers(self, node: int, request: Any, code: int) -> Any:
        kind = admin.DescribeProducersResponse
        topics = []
        for topic in request.topics:
            parts = []
            for number in topic.partition_indexes:
                error, log = self._topics.led(node, topic.name, number)
                part = kind.TopicResponse.PartitionResponse
                parts.append(
                    part(
                        partition_index=number,
                        error_code=code or error,
                        error_message=None,
                        active_producers=[
                            part.ProducerState(
                                producer_id=who,
                                producer_epoch=epoch,
                                last_sequence=last,
                                last_timestamp=-1,
                                coordinator_epoch=0,
                                current_txn_start_offset=log.open.get(who, -1),
                            )
                            for who, epoch, last in log.producers()
                        ],
                    )
                )
            topics.append(kind.TopicResponse(name=topic.name, partitions=parts))
        return kind(throttle_time_ms=0, topics=topics)

    def fetch(self, node: int, request: Any, code: int, *, last: bool) -> Any | None:
        """The answer; None while there is nothing to return, unless this is the `last` look."""
        kind = consumer.FetchResponse
        complete = last or bool(code)
        responses, left = [], request.max_bytes
        committed, filled = bool(request.isolation_level), False
        for topic in request.topics:
            parts = []
            for part in topic.partitions:
                error, log = self._topics.led(node, topic.topic, part.partition, part.current_leader_epoch)
                error = code or error
                if not error and not log.start <= part.fetch_offset <= log.end:
                    error = Code.OFFSET_OUT_OF_RANGE
                room = min(left, part.partition_max_bytes)
                if error:
                    records = b""
                else:
                    # One batch comes however large it is, but only one of all partitions.
                    records = log.read(part.fetch_offset, room, committed=committed, at_least_one=not filled)
                filled = filled or bool(records)
                left = max(0, left - len(records))
                complete = complete or bool(error or records)
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
        return kind(throttle_time_ms=0, error_code=0, session_id=0, responses=responses) if complete else None


def _has_holes(data: bytes) -> bool:
    """Whether the offsets of a batch are more than its records, which no broker takes from a producer (Kafka class
    LogValidator)."""
    batch = read_batch(data, 0)
    assert batch is not None
    return batch.last_offset_delta + 1 != batch.record_count
