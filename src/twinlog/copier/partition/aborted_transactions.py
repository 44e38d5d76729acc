"""Copies the aborted transactions of a source, so that the same consumers leave their records out at the same offsets.

The records are appended in a transaction of a transactional id of the remote partition, and the transaction is aborted
at the offset of the source's marker. Transactions that overlap have an id each. After an abort, a producer
begins its next transaction with the same epoch, and its sequence numbers continue (Kafka class TransactionManager).
After a crash the next copier continues an open transaction with the producer of the lost copier: a new producer would
abort the transaction at once, and its marker would have a wrong offset.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import takewhile

from twinlog.copier.partition.context import CopierContext
from twinlog.errors import ClusterError, CopyError, FencedError, OutOfSequenceError, RefusedError, TwinlogError
from twinlog.kafka.admin.partition_states import producers_of
from twinlog.kafka.coordinator.transactions import ProducerEpoch, TransactionCoordinator, TransactionState
from twinlog.kafka.producer.appends import Append, SourceTransaction
from twinlog.kafka.producer.produce_errors import Remedy, remedy_for
from twinlog.kafka.protocol import error_codes
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.record.stamp import ProducerIdentity, sequence_after
from twinlog.model.types import SourceOffset, TargetOffset, TopicPartition

OPEN_MS = 900_000
"""The longest transaction that brokers allow by default (`transaction.max.timeout.ms`): the next copier has so much
time to continue it."""

MOST_IDS = 1_000
"""The most transactional ids of a remote partition: an application ends the transactions of all its instances at
once."""

_TOO_LONG = "TW-TARGET-10"
_PURPOSE = "copying aborted transactions"


@dataclass(slots=True, eq=False)
class _CopiedTransaction:
    """A transaction on the target: the number of its id, its producer, and the next sequence number.

    `begin` is the offset of its first record, None before the first append. `added`: its coordinator has it, too. After
    an unclean election the log may have an open transaction that its coordinator has ended. `in_doubt`: a request of
    the producer has no answer, or belongs to a lost copier. The request may arrive later, and would change the next
    transaction of the same epoch.
    """

    number: int
    coordinator: TransactionCoordinator
    holder: ProducerEpoch
    sequence: int = 0
    begin: SourceOffset | None = None
    added: bool = True
    in_doubt: bool = False

    @contextmanager
    def request(self) -> Iterator[None]:
        """Around a request: an error leaves its effect in doubt."""
        try:
            yield
        except TwinlogError:
            self.in_doubt = True
            raise


@dataclass(slots=True, eq=False)
class _RemoteTransactions:
    """The transactions of a remote partition: `known` by their source, and `left` open by an earlier copier or request.

    `free` are the numbers of the ids that have no open transaction, each with a producer for the next transaction if
    a producer is known, and `count` is the number of all ids.
    """

    known: dict[SourceTransaction, _CopiedTransaction] = field(default_factory=dict)
    left: list[_CopiedTransaction] = field(default_factory=list)
    free: dict[int, _CopiedTransaction | None] = field(default_factory=dict)
    count: int = 0

    def find(self, transaction: SourceTransaction, at: SourceOffset) -> _CopiedTransaction | None:
        """The open copy of a transaction of the source; None if no record of it before offset `at` is copied."""
        own = self.known.get(transaction)
        if own is not None:
            return own
        # The copy begins at the same offset, unless compaction removed the first record of the source. If another
        # transaction is taken for it, each record is still aborted, and each marker still ends a transaction.
        same = [one for one in self.left if one.begin == transaction.begin]
        inside = [one for one in self.left if one.begin is not None and transaction.begin < one.begin < at]
        own = next(iter(same + inside), None)
        if own is not None:
            self.left.remove(own)
            self.known[transaction] = own
        return own


class AbortedTransactions:
    """The transactions with the aborted records of a copier's partitions."""

    def __init__(self, context: CopierContext) -> None:
        self._settings = context.settings
        self._client = context.target
        self._timeout_s = context.settings.producer.client.request_timeout_ms / 1000
        self._open_ms = OPEN_MS
        self._of: dict[TopicPartition, _RemoteTransactions] = {}

    def forget_partition(self, remote: TopicPartition) -> None:
        """A partition begins: another copier may have changed its transactions."""
        self._of.pop(remote, None)

    async def append(
        self, remote: TopicPartition, transaction: SourceTransaction, append: Append, still: Callable[[], bool]
    ) -> TargetOffset:
        """Append records of an aborted transaction; returns their base offset.

        The target takes a repeated append once. Nothing is sent unless `still()`. Raises RefusedError for a missing
        right, CopyError if the target refuses the records, FencedError if the transaction has ended,
        OutOfSequenceError if the target has other records of it, ClusterError for an error that may pass.
        """
        there = await self._there(remote, still)
        own = there.find(transaction, append.first_source_offset)
        if own is None:
            own = await self._begin(remote, there, still)
            own.begin = append.first_source_offset
            there.known[transaction] = own
        await self._continue(remote, own, still)
        leader = self._client.require_leader(remote)
        identity = ProducerIdentity(own.holder.producer_id, own.holder.epoch, transactional=True)
        identity.stamp_batch(append.data, own.sequence, append.count)
        name = own.coordinator.transactional_id
        self._require_allowed(remote, still)
        with own.request():
            answers = await self._client.append(
                leader.node,
                {remote.topic: [(remote.partition, append.data)]},
                self._timeout_s,
                control=True,
                transactional_id=name,
            )
        answer = answers.get((remote.topic, remote.partition))
        if answer is None:
            raise ClusterError(f"cluster {self._client.alias}: {remote} is missing in the answer of its leader")
        if answer.code == Code.NONE:
            return TargetOffset(answer.base_offset)
        if answer.code == Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
            raise self._client.lacks("WRITE", f"transactional id {name}", _PURPOSE)
        if error_codes.refused(answer.code):
            raise self._client.lacks("WRITE", f"topic {remote.topic}", _PURPOSE)
        why = f"{remote}: the target refuses records of an aborted transaction"
        match remedy_for(answer.code, transactional=True):
            case Remedy.FENCE | Remedy.ABORT:
                if own.begin == append.first_source_offset:
                    # Nothing is appended: the transaction is begun again, and not aborted, which would take an offset.
                    del there.known[transaction]
                    own.begin, own.in_doubt = None, True
                    there.left.append(own)
                raise FencedError(f"{remote}: transaction {name} has ended: {error_codes.explain(answer.code)}")
            case Remedy.SPLIT | Remedy.ISOLATE | Remedy.FAIL:
                raise CopyError(f"{why}: {error_codes.explain(answer.code)}")
            case Remedy.RESOLVE:
                # Late records of an earlier copier have arrived.
                raise OutOfSequenceError(f"{why} as the next ones: {error_codes.explain(answer.code)}")
            case _:
                raise ClusterError(f"{why} yet: {error_codes.explain(answer.code)}")

    def count_records(self, remote: TopicPartition, transaction: SourceTransaction, records: int) -> None:
        """So many further records of an aborted transaction are on the target."""
        known = self._of.get(remote)
        own = None if known is None else known.known.get(transaction)
        if own is not None:
            own.sequence = sequence_after(own.sequence, records)

    async def abort(
        self, remote: TopicPartition, transaction: SourceTransaction, marker: SourceOffset, still: Callable[[], bool]
    ) -> bool:
        """Abort the copy of a transaction whose marker has the offset `marker`; the target then writes its own marker.

        Returns False if the remote log has no record of the transaction. Raises as `append`.
        """
        own = (await self._there(remote, still)).find(transaction, marker)
        if own is None:
            return False
        await self._continue(remote, own, still)
        self._require_allowed(remote, still)
        with own.request():
            ended = await own.coordinator.end(own.holder, commit=False)
        if not ended:
            own.in_doubt = True
            name = own.coordinator.transactional_id
            raise ClusterError(f"cluster {self._client.alias}: {name} has no open transaction")
        return True

    def end_transaction(self, remote: TopicPartition, transaction: SourceTransaction) -> None:
        """The marker of an aborted transaction is on the target: its transactional id is free."""
        known = self._of.get(remote)
        own = None if known is None else known.known.pop(transaction, None)
        if known is not None and own is not None:
            own.begin, own.added = None, False
            known.free[own.number] = None if own.in_doubt else own

    def _require_allowed(self, remote: TopicPartition, still: Callable[[], bool]) -> None:
        """Raise ClusterError if another copier may have the partition by now."""
        self._client.require_allowed()
        if not still():
            raise ClusterError(f"cluster {self._client.alias}: {remote} was released meanwhile")

    async def _there(self, remote: TopicPartition, still: Callable[[], bool]) -> _RemoteTransactions:
        known = self._of.get(remote)
        if known is None:
            known = await self._look(remote)
            self._require_allowed(remote, still)
            self._of[remote] = known
        return known

    async def _look(self, remote: TopicPartition) -> _RemoteTransactions:
        """The transactions that an earlier copier left open; they stay open."""
        asked: list[tuple[TransactionCoordinator, TransactionState]] = []
        while len(asked) < MOST_IDS:
            # The ids in use are the first ids: twice as many are asked for each time.
            past = max(1, 2 * len(asked))
            asked += await self._describe(remote, len(asked), past)
            if len(asked) < past:
                break
        # The log is read after the coordinators: a transaction that is open there, and over for its coordinator, has
        # lost its marker.
        in_log = {one.producer_id: one for one in (await producers_of(self._client, [remote]))[remote]}
        found = _RemoteTransactions(count=len(asked))
        for number, (coordinator, state) in enumerate(asked):
            if state.is_ending:
                raise ClusterError(
                    f"cluster {self._client.alias}: the marker of {coordinator.transactional_id} is on its way"
                )
            there = in_log.get(state.holder.producer_id)
            in_transaction = there is not None and there.in_transaction
            if not in_transaction and not state.is_open:
                found.free[number] = None
                continue
            own = _CopiedTransaction(number, coordinator, state.holder, added=state.is_open, in_doubt=True)
            # Under a later epoch the numbers begin again.
            if there is not None and there.epoch == state.holder.epoch:
                own.sequence = sequence_after(there.last_sequence, 1)
            if there is not None and in_transaction:
                own.begin = SourceOffset(there.first_offset)
            found.left.append(own)
        return found

    async def _describe(
        self, remote: TopicPartition, first: int, past: int
    ) -> list[tuple[TransactionCoordinator, TransactionState]]:
        """The coordinators of the ids with numbers from `first` up to `past`, and the states of their transactions.

        Ends before the first unknown id.
        """
        coordinators = [self._coordinator(remote, number) for number in range(first, past)]
        loop = self._client.loop
        states = await loop.gather([loop.spawn(one.describe) for one in coordinators])
        return list(takewhile(lambda pair: pair[1] is not None, zip(coordinators, states, strict=True)))

    async def _continue(self, remote: TopicPartition, own: _CopiedTransaction, still: Callable[[], bool]) -> None:
        """Open a transaction again that its coordinator has ended while its marker is missing in the log."""
        if not own.added:
            await self._add(remote, own, still)

    async def _add(self, remote: TopicPartition, own: _CopiedTransaction, still: Callable[[], bool]) -> None:
        """Let the partition take part in a transaction."""
        self._require_allowed(remote, still)
        with own.request():
            refused = await own.coordinator.add(own.holder, [remote])
        for code in refused.values():
            if error_codes.refused(code):
                raise self._client.lacks("WRITE", f"topic {remote.topic}", _PURPOSE)
            raise ClusterError(f"cluster {self._client.alias}: {remote}: {error_codes.explain(code)}")
        own.added = True

    async def _begin(
        self, remote: TopicPartition, known: _RemoteTransactions, still: Callable[[], bool]
    ) -> _CopiedTransaction:
        """Begin a transaction that has the partition."""
        # The begin of a transaction may have been the last act of an earlier copier. A new producer would abort it, and
        # its marker would take an offset.
        own = next((one for one in known.left if one.begin is None), None)
        if own is None:
            own = await self._take_id(remote, known, still)
            known.left.append(own)
        try:
            await self._add(remote, own, still)
        except FencedError as error:
            known.left.remove(own)
            known.free[own.number] = None
            raise ClusterError(str(error)) from error
        known.left.remove(own)
        return own

    async def _take_id(
        self, remote: TopicPartition, known: _RemoteTransactions, still: Callable[[], bool]
    ) -> _CopiedTransaction:
        """A transactional id without an open transaction, and its producer.

        A new producer has a new epoch: sequence numbers begin at 0.
        """
        # The first free number: a coordinator forgets unused ids, and the next copier looks for all numbers in a row.
        number = min(known.free, default=known.count)
        used = known.free.get(number)
        if used is not None:
            del known.free[number]
            return used
        if number >= MOST_IDS:
            raise CopyError(f"{remote}: more than {MOST_IDS} aborted transactions of the source overlap")
        self._require_allowed(remote, still)
        coordinator = self._coordinator(remote, number)
        try:
            holder = await coordinator.init()
        except RefusedError as error:
            shorter = self._settings.producer.transaction_timeout_ms
            if error.message_id != _TOO_LONG or self._open_ms == shorter:
                raise
            self._open_ms = coordinator.timeout_ms = shorter
            holder = await coordinator.init()
        if number == known.count:
            known.count += 1
        known.free.pop(number, None)
        return _CopiedTransaction(number, coordinator, holder)

    def _coordinator(self, remote: TopicPartition, number: int) -> TransactionCoordinator:
        prefix = self._settings.transactional_id(0).removesuffix("0")
        return TransactionCoordinator(
            self._client, f"{prefix}aborted-{remote.topic}-{remote.partition}-{number}", self._open_ms
        )
