"""The committed offsets of groups in a virtual cluster, and those in transactions that are open."""

from __future__ import annotations

import warnings
from typing import Any

from twinlog.kafka.protocol.error_codes import Code

with warnings.catch_warnings():
    # kafka-python reads its message schemas in a way that Python 3.11 calls deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.protocol.consumer import group
    from kafka.protocol.producer import transaction

Offsets = dict[tuple[str, int], tuple[int, str]]
"""Offset and metadata, by topic and partition."""


class VirtualOffsets:
    """`committed` are those that count, by group."""

    def __init__(self) -> None:
        self.committed: dict[str, Offsets] = {}
        self._pending: dict[int, dict[str, Offsets]] = {}
        """By producer id and group."""
        self._kept: set[tuple[str, str, int]] = set()
        """Group, topic and partition of offsets that were to be kept for a time of their own."""

    def expire(self) -> None:
        """`offsets.retention.minutes` are over."""
        for name, offsets in self.committed.items():
            for where in [one for one in offsets if (name, *one) not in self._kept]:
                del offsets[where]

    def end(self, producer_id: int, *, commit: bool) -> None:
        """The transaction of a producer ends."""
        for name, offsets in self._pending.pop(producer_id, {}).items():
            if commit:
                self.committed.setdefault(name, {}).update(offsets)

    def commit(self, _node: int, request: Any, code: int) -> Any:
        kind = group.OffsetCommitResponse.OffsetCommitResponseTopic
        if not code:
            _take(request, self.committed.setdefault(request.group_id, {}))
            parts = {
                (request.group_id, topic.name, part.partition_index)
                for topic in request.topics
                for part in topic.partitions
            }
            self._kept = self._kept | parts if request.retention_time_ms > 0 else self._kept - parts
        return group.OffsetCommitResponse(
            throttle_time_ms=0, topics=_answers(request, kind, kind.OffsetCommitResponsePartition, code)
        )

    def commit_in_transaction(self, _node: int, request: Any, code: int) -> Any:
        kind = transaction.TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic
        if not code:
            _take(request, self._pending.setdefault(request.producer_id, {}).setdefault(request.group_id, {}))
        return transaction.TxnOffsetCommitResponse(
            throttle_time_ms=0, topics=_answers(request, kind, kind.TxnOffsetCommitResponsePartition, code)
        )

    def fetch(self, _node: int, request: Any, code: int) -> Any:
        kind = group.OffsetFetchResponse.OffsetFetchResponseTopic
        if request.require_stable and any(request.group_id in pending for pending in self._pending.values()):
            code = code or Code.UNSTABLE_OFFSET_COMMIT
        offsets = {} if code else self.committed.get(request.group_id, {})
        return group.OffsetFetchResponse(
            throttle_time_ms=0,
            error_code=code,
            topics=[
                kind(
                    name=topic,
                    partitions=[
                        kind.OffsetFetchResponsePartition(
                            partition_index=number,
                            committed_offset=offset,
                            committed_leader_epoch=-1,
                            metadata=metadata,
                            error_code=0,
                        )
                    ],
                )
                for (topic, number), (offset, metadata) in offsets.items()
            ],
        )


def _take(request: Any, offsets: Offsets) -> None:
    for topic in request.topics:
        for part in topic.partitions:
            offsets[topic.name, part.partition_index] = (part.committed_offset, part.committed_metadata or "")


def _answers(request: Any, topic_kind: Any, partition_kind: Any, code: int) -> list[Any]:
    return [
        topic_kind(
            name=topic.name,
            partitions=[
                partition_kind(partition_index=part.partition_index, error_code=code) for part in topic.partitions
            ],
        )
        for topic in request.topics
    ]
