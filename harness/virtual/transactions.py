"""Producer ids and the coordinator of transactions in a virtual cluster (Kafka class TransactionCoordinator)."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from harness.virtual.faults import Faults
from harness.virtual.offsets import VirtualOffsets
from harness.virtual.requests import ADD_PARTITIONS
from harness.virtual.topics import VirtualTopics
from twinlog.kafka.protocol.error_codes import Code

with warnings.catch_warnings():
    # kafka-python reads its message schemas in a way that Python 3.11 calls deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.protocol.admin import transactions
    from kafka.protocol.producer import transaction


@dataclass(slots=True)
class Transaction:
    """The producer of a transactional id, and which partitions its open transaction has."""

    producer_id: int
    epoch: int
    last_epoch: int = -1
    """The epoch before, if its owner asked for the present one."""
    parts: list[tuple[str, int]] = field(default_factory=list)
    unmarked: dict[tuple[str, int], bool] = field(default_factory=dict)
    """Partitions that had no leader when it ended, and whether it was committed: they lack its marker."""


class VirtualTransactions:
    """`open` are the producers by transactional id. `news()` is called when markers were written.

    `longest_ms` is the longest transaction that the brokers allow (`transaction.max.timeout.ms`).
    """

    def __init__(
        self, topics: VirtualTopics, faults: Faults, news: Callable[[], None], offsets: VirtualOffsets
    ) -> None:
        self.open: dict[str, Transaction] = {}
        self.longest_ms = 900_000
        self._topics = topics
        self._faults = faults
        self._news = news
        self._offsets = offsets
        self._producers = 1000

    def has(self, transactional_id: str, topic: str, partition: int) -> bool:
        """Whether a partition takes part in the open transaction of an id (KIP-890)."""
        known = self.open.get(transactional_id)
        return known is not None and (topic, partition) in known.parts

    def write_markers(self, topic: str, partition: int) -> None:
        """A partition that had no leader has one: it gets the markers that it lacks."""
        for known in self.open.values():
            commit = known.unmarked.pop((topic, partition), None)
            if commit is not None:
                self._topics.log(topic, partition).mark(known.producer_id, known.epoch, commit=commit)

    def init_producer_id(self, _node: int, request: Any, code: int) -> Any:
        kind = transaction.InitProducerIdResponse
        if request.transactional_id and request.transaction_timeout_ms > self.longest_ms:
            code = code or Code.INVALID_TRANSACTION_TIMEOUT
        if code:
            return kind(throttle_time_ms=0, error_code=code, producer_id=-1, producer_epoch=-1)
        known = self.open.get(request.transactional_id or "")
        if known is None:
            self._producers += 1
            known = Transaction(self._producers, 0)
            if request.transactional_id:
                self.open[request.transactional_id] = known
        elif code := self._begin_anew(known, request.producer_id, request.producer_epoch):
            return kind(throttle_time_ms=0, error_code=code, producer_id=-1, producer_epoch=-1)
        return kind(throttle_time_ms=0, error_code=0, producer_id=known.producer_id, producer_epoch=known.epoch)

    def _begin_anew(self, known: Transaction, producer_id: int, epoch: int) -> int:
        """Another epoch, unless only its answer was lost (Kafka class TransactionMetadata); returns an error code."""
        anybody = producer_id < 0
        if known.parts and producer_id == known.producer_id and epoch != known.epoch:
            # While a transaction is open the coordinator compares the id alone.
            known.last_epoch, known.epoch = -1, known.epoch + 1
            self._end(known, commit=False)
            return Code.CONCURRENT_TRANSACTIONS
        if not anybody and (producer_id != known.producer_id or epoch not in (known.epoch, known.last_epoch)):
            return Code.PRODUCER_FENCED
        if known.unmarked:
            return Code.CONCURRENT_TRANSACTIONS
        if anybody or epoch == known.epoch:
            known.last_epoch, known.epoch = -1 if anybody else known.epoch, known.epoch + 1
            self._end(known, commit=False)
        return Code.NONE

    def _holds(self, name: str, producer_id: int, epoch: int) -> int:
        known = self.open.get(name)
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
        name = request.v3_and_below_transactional_id
        errors = {
            (topic.name, number): code
            or self._faults.code(ADD_PARTITIONS, topic.name, number)
            or self._lacks(topic.name, number)
            for topic in request.v3_and_below_topics
            for number in topic.partitions
        }
        if not any(errors.values()):
            self.open[name].parts += errors
        # All of them take part, or none.
        elif not code:
            errors = {place: error or Code.OPERATION_NOT_ATTEMPTED for place, error in errors.items()}
        result = kind.AddPartitionsToTxnTopicResult
        return kind(
            throttle_time_ms=0,
            results_by_topic_v3_and_below=[
                result(
                    name=topic.name,
                    results_by_partition=[
                        result.AddPartitionsToTxnPartitionResult(
                            partition_index=number, partition_error_code=errors[topic.name, number]
                        )
                        for number in topic.partitions
                    ],
                )
                for topic in request.v3_and_below_topics
            ],
        )

    def _lacks(self, topic: str, partition: int) -> int:
        return Code.NONE if (topic, partition) in self._topics.parts else Code.UNKNOWN_TOPIC_OR_PARTITION

    def end_txn(self, _node: int, request: Any, code: int) -> Any:
        code = code or self._holds(request.transactional_id, request.producer_id, request.producer_epoch)
        if not code:
            self._end(self.open[request.transactional_id], commit=request.committed)
        return transaction.EndTxnResponse(throttle_time_ms=0, error_code=code)

    def describe(self, _node: int, request: Any, code: int) -> Any:
        """The last transactions of ids (KIP-664)."""
        kind = transactions.DescribeTransactionsResponse
        states = []
        for name in request.transactional_ids:
            known = self.open.get(name)
            parts = [] if known is None else list(known.unmarked) or list(dict.fromkeys(known.parts))
            what = "Ongoing" if known is not None and known.parts else "CompleteAbort"
            states.append(
                kind.TransactionState(
                    error_code=code or (Code.TRANSACTIONAL_ID_NOT_FOUND if known is None else Code.NONE),
                    transactional_id=name,
                    transaction_state="PrepareAbort" if known is not None and known.unmarked else what,
                    transaction_timeout_ms=0,
                    transaction_start_time_ms=-1,
                    producer_id=-1 if known is None else known.producer_id,
                    producer_epoch=-1 if known is None else known.epoch,
                    topics=[
                        kind.TransactionState.TopicData(topic=topic, partitions=[number]) for topic, number in parts
                    ],
                )
            )
        return kind(throttle_time_ms=0, transaction_states=states)

    def list(self, _node: int, request: Any, code: int) -> Any:
        """The transactional ids of producers (KIP-664)."""
        kind = transactions.ListTransactionsResponse
        wanted = set(request.producer_id_filters)
        return kind(
            throttle_time_ms=0,
            error_code=code,
            unknown_state_filters=[],
            transaction_states=[
                kind.TransactionState(
                    transactional_id=name,
                    producer_id=known.producer_id,
                    transaction_state="Ongoing" if known.parts else "CompleteAbort",
                )
                for name, known in self.open.items()
                if not wanted or known.producer_id in wanted
            ],
        )

    def add_offsets(self, _node: int, request: Any, code: int) -> Any:
        code = code or self._holds(request.transactional_id, request.producer_id, request.producer_epoch)
        return transaction.AddOffsetsToTxnResponse(throttle_time_ms=0, error_code=code)

    def _end(self, known: Transaction, *, commit: bool) -> None:
        self._offsets.end(known.producer_id, commit=commit)
        parts, known.parts = known.parts, []
        for place in dict.fromkeys(parts):
            if self._topics.parts[place].leader is None:
                known.unmarked[place] = commit
                continue
            self._topics.log(*place).mark(known.producer_id, known.epoch, commit=commit)
        self._news()
