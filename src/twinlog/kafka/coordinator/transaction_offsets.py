"""Commits offsets of a group within a transaction: the offsets count once the transaction is committed (KIP-98)."""

from __future__ import annotations

from kafka.protocol.producer.transaction import TxnOffsetCommitRequest

from twinlog.errors import ClusterError, FencedError
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.coordinator.lookup import GROUP, MOVED, Coordinator
from twinlog.kafka.coordinator.transactions import ProducerEpoch
from twinlog.kafka.protocol import error_codes
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.protocol.offset_commit import by_topic
from twinlog.model.groups import GroupOffsets
from twinlog.model.types import GroupId


class TransactionOffsets:
    """The offsets of a group without members; `add_group` of the transaction's coordinator comes first.

    Raises ClusterError for an error that may pass, RefusedError for a missing right, and FencedError for a producer
    that another producer has replaced. A call is safe to repeat.
    """

    def __init__(self, client: ClusterClient, group: GroupId) -> None:
        self._client = client
        self._group = group
        self._coordinator = Coordinator(client, GROUP, group, self._check)

    async def commit(self, transactional_id: str, holder: ProducerEpoch, offsets: GroupOffsets) -> None:
        """Commit `offsets` with the open transaction."""
        kind = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
        request = TxnOffsetCommitRequest(
            transactional_id=transactional_id,
            group_id=self._group,
            producer_id=holder.producer_id,
            producer_epoch=holder.epoch,
            generation_id=-1,
            member_id="",
            group_instance_id=None,
            topics=by_topic(offsets, kind, kind.TxnOffsetCommitRequestPartition),
            max_version=3,
        )
        answer = await self._coordinator.send_request(request, self._client.settings.request_timeout_ms / 1000)
        codes = {int(part.error_code) for topic in answer.topics for part in topic.partitions}
        if codes & MOVED:
            self._coordinator.reset_node()
        for code in sorted(codes):
            if code == Code.TOPIC_AUTHORIZATION_FAILED:
                topic = next(iter(offsets)).topic
                raise self._client.lacks("READ", f"topic {topic}", "adding its offsets to a transaction")
            self._check(code)

    def _check(self, code: int) -> None:
        if code == Code.NONE:
            return
        alias = self._client.alias
        if code == Code.GROUP_AUTHORIZATION_FAILED:
            raise self._client.lacks("READ", f"group {self._group}", "adding its offsets to a transaction")
        if code in error_codes.FENCED:
            raise FencedError(f"cluster {alias}: another process has taken over what commits group {self._group}")
        raise ClusterError(f"cluster {alias}: group {self._group}: {error_codes.explain(code)}")
