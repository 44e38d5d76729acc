"""Exactly once: tasks write in transactions that they leave open, and the driver decides that they all count.

docs/decisions/0020 has the reasons, and the consequences of a process that ends at any point.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from twinlog.errors import ClusterError, CopyError, FencedError, ForgottenError
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.coordinator.lookup import chunked
from twinlog.kafka.coordinator.transactions import NOBODY, ProducerEpoch, TransactionCoordinator
from twinlog.kafka.retry import RetryPolicy, retry
from twinlog.model.amounts import counted
from twinlog.model.types import TopicPartition
from twinlog.spark.dataframes.decision import CommitDecision, CommitDecisions, DecisionNote, State
from twinlog.spark.dataframes.write_task import MicroBatch, WriteTaskResult

T = TypeVar("T")

log = logging.getLogger(__name__)

AT_ONCE = 32
"""How many transactions are ended at the same time."""


class BatchTransactions:
    """The transactions of a query on a cluster; `name` begins their ids.

    Each call tries again for the `delivery.timeout.ms` of the producer, and raises ClusterError then. It raises
    RefusedError for a missing right, and FencedError when another run of the query has taken over.
    """

    def __init__(self, client: ClusterClient, name: str, query: str, *, timeout_ms: int, patience_ms: int) -> None:
        self._client = client
        self._query = query
        self._name = f"{name}.{query}"
        self._timeout_ms = timeout_ms
        self._patience_s = patience_ms / 1000
        self._decisions = CommitDecisions(client, self._name)
        self._root = TransactionCoordinator(client, self._name, timeout_ms)

    def coordinator(self, part: int) -> TransactionCoordinator:
        """The coordinator of the transaction of a part."""
        return TransactionCoordinator(self._client, f"{self._name}-{part}", self._timeout_ms)

    async def begin_part(self, batch: MicroBatch) -> tuple[WriteTaskResult, ProducerEpoch | None]:
        """The result of an empty task, and the producer for its rows.

        The producer is None when the rows of an earlier attempt are committed. After this call, earlier runs of the
        query are unable to decide. The transaction of an earlier attempt is aborted, unless a decision counts it: then
        it is committed here, if its driver ended before the commit.
        """
        root = await self._retry(self._root.init)
        decision = await self._retry(self._decisions.last)
        if decision is not None and decision.number > batch.number:
            raise self._older_checkpoint(batch.number, f"has micro-batch {decision.number}")
        coordinator = self.coordinator(batch.part)
        part = WriteTaskResult(0, batch.query, batch.part, root=root)
        if decision is None and await self._is_noted(batch.number):
            return replace(part, committed=True), None
        if decision is not None and decision.number == batch.number:
            if batch.part >= len(decision.holders) or await self._commit_left(decision, batch.part):
                return replace(part, committed=True, decided=True), None
            part = replace(part, decided=True)
            log.warning(
                "TW-DATA-07: %s: its transaction was to be committed, but the target has aborted it; its rows are "
                "written again",
                coordinator.transactional_id,
            )
        return part, await self._retry(coordinator.init)

    async def _is_noted(self, number: int) -> bool:
        """Whether a note shows the commit of a micro-batch whose decision is missing: brokers forget decisions."""
        noted = await self._retry(self._decisions.noted)
        if noted is None or noted.number < number:
            return False
        if noted.number > number:
            raise self._older_checkpoint(number, f"has micro-batch {noted.number}")
        if noted.state == "decided":
            raise CopyError(
                f"micro-batch {number} of query {self._query} was to be committed, but cluster "
                f"{self._client.alias} has forgotten which of its transactions were left to commit "
                "(offsets.retention.minutes). " + self._by_hand()
            )
        return True

    def _by_hand(self) -> str:
        return (
            "See whether the target has the rows of this micro-batch: if they are missing, delete the groups "
            f"{self._name} and {self._name}.committed, and the query writes them again; if it has, begin after them "
            "with a new checkpointLocation"
        )

    async def commit(self, number: int, parts: Sequence[WriteTaskResult]) -> None:
        """Decide that the micro-batch with these parts counts, and commit all of them.

        After an error before the decision, all parts are dropped. After an error later, the next run commits the
        remaining parts.
        """
        written = [part for part in parts if part.holder != NOBODY]
        before: CommitDecision | None = None
        if any(part.decided for part in parts):
            before = await self._retry(self._decisions.last)
            if before is None:
                raise ClusterError(
                    f"cluster {self._client.alias}: the decision to commit micro-batch {number} of query {self._query} "
                    "was forgotten meanwhile (offsets.retention.minutes); start the query again"
                )
            if len(before.holders) != len(parts):
                await self._finish(before, written, len(parts))
            if not written:
                await self._note(before, "committed")
        if not written:
            return
        await self._each(self._require_open, written)
        somewhere = written[0].somewhere if before is None else before.where
        assert somewhere is not None
        holders = tuple(part.holder for part in sorted(parts, key=lambda one: one.part))
        decision = CommitDecision(number, holders, somewhere)
        holder = await self._become_root({part.root for part in parts})
        await self._retry(lambda: self._decisions.commit_decision(decision, self._root, holder, somewhere))
        await self._note(decision, "decided")
        await self._each(self._end, written)
        await self._note(decision, "committed")

    async def abort(self, number: int, parts: Sequence[WriteTaskResult]) -> None:
        """Abort the transactions of the parts, unless a decision counts them."""
        written = [part for part in parts if part.holder != NOBODY]
        if not written:
            return
        try:
            # From here on a decision in flight either fails or can be read.
            await self._become_root({part.root for part in parts})
        except FencedError:
            log.info("%s: another run of the query has begun", self._name)
        decision = await self._retry(self._decisions.last)
        counting = set(decision.holders) if decision is not None and decision.number == number else set()
        await self.abort_parts(part for part in written if part.holder not in counting)

    async def abort_parts(
        self, parts: Iterable[WriteTaskResult], patience_s: float | None = None, late: Sequence[TopicPartition] = ()
    ) -> None:
        """Abort the transactions of parts; a transaction that has ended already is left alone.

        Appends to `late` partitions may still arrive.
        """
        if patience_s is not None:
            self._patience_s = patience_s

        async def end(part: WriteTaskResult) -> None:
            # `init` would be wrong here: with an open transaction brokers compare the producer id alone, so `init`
            # would abort the transaction of a later run.
            coordinator = self.coordinator(part.part)
            try:
                if await self._retry(lambda: coordinator.end(part.holder, commit=False)) and late:
                    await self._shut_out(coordinator, part.holder, late)
            except FencedError:
                log.info("transaction of part %d of %s: it was aborted before", part.part, self._name)

        await self._each(end, parts)

    async def _shut_out(
        self, coordinator: TransactionCoordinator, holder: ProducerEpoch, late: Sequence[TopicPartition]
    ) -> None:
        """Refuse appends that arrive after an abort.

        Brokers before Kafka 3.6 begin a transaction with a late append, which stays open (KIP-890). A second abort
        makes a newer epoch known to the partitions, and ends the transaction of appends that have arrived by then.

        After the start of a later run the first step fails. A run that begins between both steps is aborted, and
        written again.
        """
        if not await self._retry(lambda: coordinator.add(holder, late)):
            await self._retry(lambda: coordinator.init(holder))

    async def _finish(self, decision: CommitDecision, written: Sequence[WriteTaskResult], parts: int) -> None:
        """Commit the remaining parts of the last run's decision, which had another number of tasks."""
        lost = [part for part in range(len(decision.holders)) if not await self._commit_left(decision, part)]
        if lost or written:
            await self.abort_parts(written)
            raise CopyError(
                f"micro-batch {decision.number} was written by {counted(len(decision.holders), 'task')}, of which "
                f"the target has dropped the rows of tasks {', '.join(map(str, lost))}, as it waited longer than "
                f"kafka.transaction.timeout.ms = {self._timeout_ms} for the query to come back. Run the query with "
                f"{counted(len(decision.holders), 'task')} instead of {parts}: it then writes only those rows again"
            )

    async def _require_open(self, part: WriteTaskResult) -> None:
        coordinator = self.coordinator(part.part)
        assert part.somewhere is not None
        where = part.somewhere
        try:
            refused = await self._retry(lambda: coordinator.add(part.holder, [where]))
        except FencedError:
            raise self._too_late(part) from None
        if refused:
            raise self._too_late(part)

    async def _end(self, part: WriteTaskResult) -> None:
        coordinator = self.coordinator(part.part)
        try:
            ended = await self._retry(lambda: coordinator.end(part.holder, commit=True))
        except FencedError:
            ended = False
        if not ended:
            raise self._too_late(part)

    def _too_late(self, part: WriteTaskResult) -> ClusterError:
        return ClusterError(
            f"cluster {self._client.alias}: transaction {self._name}-{part.part} is closed: it was open for longer "
            f"than kafka.transaction.timeout.ms = {self._timeout_ms}, or another attempt of the same task began after "
            "it. Make micro-batches smaller (maxOffsetsPerTrigger), raise that timeout together with the brokers' "
            "transaction.max.timeout.ms, and leave spark.speculation off; the query writes this micro-batch again "
            "when it is started again"
        )

    async def _note(self, decision: CommitDecision, state: State) -> None:
        assert decision.where is not None
        where = decision.where
        await self._retry(lambda: self._decisions.write_note(decision, state, where))

    async def _note_decided(self, decision: CommitDecision) -> None:
        """Note a decision whose driver ended before its note: after the decision's expiry only the note shows it."""
        noted = await self._retry(self._decisions.noted)
        if noted is None or noted.number < decision.number:
            await self._note(decision, "decided")

    async def _commit_left(self, decision: CommitDecision, part: int) -> bool:
        """Commit a part that an earlier run decided on, unless it is committed; False when the target has aborted it.

        Raises CopyError when the result is unknown, and when a later micro-batch has begun.
        """
        holder, coordinator = decision.holders[part], self.coordinator(part)
        if holder == NOBODY:
            return True
        await self._note_decided(decision)
        try:
            return await self._retry(lambda: coordinator.end(holder, commit=True))
        except FencedError as error:
            # The transaction's timeout, or a task of a later micro-batch, gave the transactional id another epoch.
            # Brokers give the same answer for both. Before the parts of this micro-batch are committed, the transaction
            # was aborted.
            noted = await self._retry(self._decisions.noted) == DecisionNote(decision.number, "committed")
            if not isinstance(error, ForgottenError):
                if noted:
                    raise self._older_checkpoint(decision.number, "has it, and a part of the rows after it") from None
                return False
            if noted:
                return True
            raise CopyError(
                f"transaction {coordinator.transactional_id} was due for its commit, but cluster {self._client.alias} "
                "has forgotten it (transactional.id.expiration.ms), so its outcome is unknown. " + self._by_hand()
            ) from None

    def _older_checkpoint(self, number: int, found: str) -> CopyError:
        return CopyError(
            f"micro-batch {number} of query {self._query} comes next, and the target {found}: the checkpoint is older "
            "than the written rows, as the checkpoint of a backup is. Begin with a new checkpointLocation at the "
            "offsets of the next records"
        )

    async def _become_root(self, seen: set[ProducerEpoch]) -> ProducerEpoch:
        """Become the producer that decides, unless a task of another run has begun after these tasks."""
        # Only the last epoch of a producer id can be current; a new id comes when epochs run out.
        last = {root.producer_id: root for root in sorted(seen) if root != NOBODY}
        fenced: FencedError | None = None
        for root in last.values():
            try:
                return await self._retry(partial(self._root.init, root))
            except FencedError as error:
                fenced = error
        raise FencedError(
            f"cluster {self._client.alias}: another run of this query writes, or another attempt of a task of it "
            f"began late (spark.speculation must be off): {fenced}"
        )

    async def _each(
        self, step: Callable[[WriteTaskResult], Coroutine[Any, Any, None]], parts: Iterable[WriteTaskResult]
    ) -> None:
        """Do a step for all parts, some at a time, and raise the first error."""
        for some in chunked(parts, AT_ONCE):
            await self._client.loop.gather([self._client.loop.spawn(step, part) for part in some])

    async def _retry(self, step: Callable[[], Coroutine[Any, Any, T]]) -> T:
        policy = RetryPolicy.of(self._client.settings, self._patience_s, warns=True)
        return await retry(self._client.loop, policy, step)
