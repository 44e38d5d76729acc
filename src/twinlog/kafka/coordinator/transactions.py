"""Requests of a transaction to its coordinators: init the producer, add partitions, commit offsets, commit or abort.

The requests are the requests of the transactional producer before KIP-890 (Kafka class TransactionManager); every
broker since 2.8 serves them. Each call is safe to repeat after a ClusterError: the coordinator gives a repeated request
the same answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple, cast

from kafka.protocol.admin.transactions import DescribeTransactionsRequest, ListTransactionsRequest
from kafka.protocol.producer.transaction import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
)

from twinlog.errors import ClusterError, FencedError, ForgottenError, RefusedError
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.coordinator.lookup import GROUP, MOVED, TRANSACTION, Coordinator
from twinlog.kafka.protocol import error_codes
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.protocol.offsets import by_topic
from twinlog.kafka.retry import PREVIOUS_TRANSACTION
from twinlog.model.groups import GroupOffsets
from twinlog.model.types import GroupId, TopicName, TopicPartition
from twinlog.settings.client import ProducerSettings
from twinlog.settings.written import key_of

_LIST_TRANSACTIONS = 66


class ProducerEpoch(NamedTuple):
    """A producer id and its epoch, as a coordinator returns them; -1 and -1 for none."""

    producer_id: int
    epoch: int


NOBODY = ProducerEpoch(-1, -1)


class TransactionState(NamedTuple):
    """The last transaction of a transactional id: its state, as Kafka names it, its producer and its partitions."""

    state: str
    holder: ProducerEpoch
    partitions: frozenset[TopicPartition]

    @property
    def is_open(self) -> bool:
        """Whether the transaction has begun and may still end in either way."""
        return self.state == "Ongoing"

    @property
    def is_ending(self) -> bool:
        """Whether markers of the transaction are on their way."""
        return self.state.startswith("Prepare")


class TransactionCoordinator:
    """The coordinator of a transactional id on a cluster, on its present broker.

    Every call raises ClusterError for an error that may pass, and RefusedError when the principal lacks a right. Every
    call raises FencedError when another producer has taken the id over; ForgottenError when the owner of the id is
    unknown.
    """

    def __init__(
        self, client: ClusterClient, transactional_id: str, timeout_ms: int, purpose: str = "copying exactly once"
    ) -> None:
        """`purpose` completes the error for a missing right."""
        self.transactional_id = transactional_id
        self.timeout_ms = timeout_ms
        self._client = client
        self._purpose = purpose
        self._coordinator = Coordinator(client, TRANSACTION, transactional_id, self._check)

    async def init(self, expected: ProducerEpoch = NOBODY) -> ProducerEpoch:
        """Become the only writer under the id: aborts the open transaction of the last writer and fences that writer.

        With `expected` the call succeeds only if `expected` is still the present producer. The producer then gets a
        higher epoch, under which sequence numbers begin at 0 again (KIP-360).
        """
        response = await self._call(
            InitProducerIdRequest(
                transactional_id=self.transactional_id,
                transaction_timeout_ms=self.timeout_ms,
                producer_id=expected.producer_id,
                producer_epoch=expected.epoch,
                max_version=4,
            )
        )
        code = response.error_code
        if code == Code.INVALID_TRANSACTION_TIMEOUT:
            key = key_of(ProducerSettings, "transaction_timeout_ms")
            raise RefusedError(
                f"cluster {self._client.alias}: it refuses transactions of {self.timeout_ms} ms",
                resource=f"transactional id {self.transactional_id}",
                way_out=f"lower {key} of its producer, or raise transaction.max.timeout.ms of the brokers",
                message_id="TW-TARGET-10",
            )
        self._check(code)
        return ProducerEpoch(response.producer_id, response.producer_epoch)

    async def add(self, holder: ProducerEpoch, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Let partitions take part in the open transaction; opens a transaction if necessary.

        Returns the error code of each partition that cannot take part; after an error all partitions stay outside.
        """
        kind = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
        topics: dict[str, list[int]] = {}
        for topic, partition in partitions:
            topics.setdefault(topic, []).append(partition)
        response = await self._call(
            AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self.transactional_id,
                v3_and_below_producer_id=holder.producer_id,
                v3_and_below_producer_epoch=holder.epoch,
                v3_and_below_topics=[kind(name=name, partitions=parts) for name, parts in topics.items()],
                max_version=3,
            )
        )
        refused: dict[TopicPartition, int] = {}
        for topic in response.results_by_topic_v3_and_below:
            for part in topic.results_by_partition:
                if part.partition_error_code:
                    where = TopicPartition(TopicName(topic.name), part.partition_index)
                    refused[where] = part.partition_error_code
        whole = [code for code in refused.values() if code in _OF_THE_ID or code in _COORDINATOR_FAULTS]
        if whole:
            self._check(whole[0])
        return {part: code for part, code in refused.items() if code != Code.OPERATION_NOT_ATTEMPTED}

    async def add_group(self, holder: ProducerEpoch, group: GroupId) -> None:
        """Let offsets of a group take part in the open transaction; opens a transaction if necessary."""
        response = await self._call(
            AddOffsetsToTxnRequest(
                transactional_id=self.transactional_id,
                producer_id=holder.producer_id,
                producer_epoch=holder.epoch,
                group_id=group,
                max_version=3,
            )
        )
        if response.error_code == Code.GROUP_AUTHORIZATION_FAILED:
            raise self._client.lacks("READ", f"group {group}", "adding its offsets to a transaction")
        self._check(response.error_code)

    async def end(self, holder: ProducerEpoch, *, commit: bool) -> bool:
        """Commit or abort; False when the coordinator lacks an open transaction that can end in this way.

        After True the outcome is decided. The markers of the partitions follow, and the next transaction waits for the
        markers.
        """
        response = await self._call(
            EndTxnRequest(
                transactional_id=self.transactional_id,
                producer_id=holder.producer_id,
                producer_epoch=holder.epoch,
                committed=commit,
                max_version=3,
            )
        )
        if response.error_code == Code.INVALID_TXN_STATE:
            return False
        self._check(response.error_code)
        return True

    async def describe(self) -> TransactionState | None:
        """The last transaction of the id (KIP-664); None for an id that the coordinator does not know.

        Leaves the transaction and its producer unchanged, other than `init`.
        """
        request = DescribeTransactionsRequest(transactional_ids=[self.transactional_id], max_version=0)
        response = await self._coordinator.send_request(request, self._client.settings.request_timeout_ms / 1000)
        (found,) = response.transaction_states
        if found.error_code == Code.TRANSACTIONAL_ID_NOT_FOUND:
            return None
        if found.error_code in MOVED:
            self._coordinator.reset_node()
        self._check(found.error_code)
        return TransactionState(
            found.transaction_state,
            ProducerEpoch(found.producer_id, found.producer_epoch),
            frozenset(
                TopicPartition(TopicName(one.topic), number) for one in found.topics for number in one.partitions
            ),
        )

    async def _call(self, request: Any) -> Any:
        """Call the coordinator; retry while it still ends the previous transaction."""
        backoff = PREVIOUS_TRANSACTION.backoff()
        for _ in range(int(PREVIOUS_TRANSACTION.tries)):
            response = await self._coordinator.send_request(request, self._client.settings.request_timeout_ms / 1000)
            code = _code_of(response)
            if code in MOVED:
                self._coordinator.reset_node()
                raise ClusterError(
                    f"cluster {self._client.alias}: the coordinator of {self.transactional_id} is moving"
                )
            if code != Code.CONCURRENT_TRANSACTIONS:
                return response
            await self._client.loop.sleep(backoff.count_failure())
        raise ClusterError(
            f"cluster {self._client.alias}: the previous transaction of {self.transactional_id} does not end"
        )

    def _check(self, code: int) -> None:
        """Raise the error of an error code for a whole request."""
        if code == Code.NONE:
            return
        alias, name = self._client.alias, self.transactional_id
        if code == Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
            raise self._client.lacks("WRITE", f"transactional id {name}", self._purpose)
        if code in error_codes.FENCED:
            kind = ForgottenError if code == Code.INVALID_PRODUCER_ID_MAPPING else FencedError
            raise kind(
                f"cluster {alias}: another process has taken over transactional id {name}: {error_codes.explain(code)}"
            )
        if error_codes.refused(code):
            raise RefusedError(
                f"cluster {alias}: transactional id {name} may not be used: {error_codes.explain(code)}",
                resource=f"transactional id {name}",
            )
        raise ClusterError(f"cluster {alias}: transactional id {name}: {error_codes.explain(code)}")


_OF_THE_ID = frozenset(
    {
        *error_codes.FENCED,
        Code.INVALID_TXN_STATE,
        Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)
"""Codes of a whole request that the answer to AddPartitionsToTxn repeats for each partition."""

_COORDINATOR_FAULTS = frozenset(
    {
        Code.COORDINATOR_LOAD_IN_PROGRESS,
        Code.COORDINATOR_NOT_AVAILABLE,
        Code.NOT_COORDINATOR,
        Code.CONCURRENT_TRANSACTIONS,
        Code.TRANSACTION_COORDINATOR_FENCED,
        Code.REQUEST_TIMED_OUT,
        -1,  # UNKNOWN_SERVER_ERROR
    }
)


def _code_of(response: Any) -> int:
    """The code of a whole answer."""
    topics = getattr(response, "results_by_topic_v3_and_below", None)
    if topics is None:
        return cast(int, response.error_code)
    codes = (part.partition_error_code for topic in topics for part in topic.results_by_partition)
    return next((code for code in codes if code in MOVED or code == Code.CONCURRENT_TRANSACTIONS), 0)


def supports_transaction_lists(client: ClusterClient) -> bool:
    """Whether the brokers list transactional ids: Kafka 3.0 and later (KIP-664)."""
    return client.supports(_LIST_TRANSACTIONS)


async def list_transactional_ids(client: ClusterClient, prefix: str) -> list[str] | None:
    """Transactional ids of the form prefix + number that the cluster remembers (KIP-664).

    None when its brokers are older than Kafka 3.0, which lack the request. The result omits ids that are hidden from
    the principal. Raises ClusterError while a coordinator is unable to answer.
    """
    if not supports_transaction_lists(client):
        return None
    wanted = re.compile(re.escape(prefix) + r"\d+")
    return sorted({name for name, _ in await _list_transactions(client) if wanted.fullmatch(name)})


async def find_transactional_ids(client: ClusterClient, producer_ids: Iterable[int]) -> dict[int, str] | None:
    """The transactional ids of producers by their ids; the result and its gaps are as in `list_transactional_ids`."""
    if not supports_transaction_lists(client):
        return None
    return {producer_id: name for name, producer_id in await _list_transactions(client, producer_ids)}


async def _list_transactions(client: ClusterClient, producer_ids: Iterable[int] = ()) -> list[tuple[str, int]]:
    """The transactional ids that brokers remember, each with its producer id; all of them without `producer_ids`."""
    found: list[tuple[str, int]] = []
    wanted = list(producer_ids)
    for node in await client.nodes():
        request = ListTransactionsRequest(state_filters=[], producer_id_filters=wanted, max_version=0)
        response = await client.send_request(request, node)
        if response.error_code != Code.NONE:
            raise ClusterError(
                f"cluster {client.alias}: transactions cannot be listed yet: {error_codes.explain(response.error_code)}"
            )
        found += ((state.transactional_id, state.producer_id) for state in response.transaction_states)
    return found


async def hides_transactional_id(client: ClusterClient, transactional_id: str) -> bool:
    """Whether the principal lacks DESCRIBE on a transactional id, and thus WRITE, which includes DESCRIBE (KIP-664).

    Every broker answers, and the cluster stays unchanged. False also before Kafka 3.0, which lacks the request.
    """
    if not client.supports(DescribeTransactionsRequest.API_KEY):
        return False
    response = await client.send_request(
        DescribeTransactionsRequest(transactional_ids=[transactional_id], max_version=0)
    )
    (found,) = response.transaction_states
    return bool(found.error_code == Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)


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
