"""Finds records of foreign transactions that were open at the begin of a proof, and are committed later.

Such records lie before the first record of the proof, so the prover never reads them with the appends.
"""

from __future__ import annotations

from collections.abc import Mapping

from twinlog.copier.proof.comparing import ProofCursor, ProofDifference, ReadableLog
from twinlog.copier.proof.second_read import SecondRead
from twinlog.kafka.admin.partition_states import open_transactions
from twinlog.kafka.coordinator.transactions import find_transactional_ids
from twinlog.model.types import TargetOffset


class OpenBefore:
    """Transactions of other programs that were open at the begin of a partition's proof.

    `opened` has the first offset of each transaction by its producer: this is its only transaction up to the begin.
    None are the transactions that began earlier than the copier knows, and were open in `log`, the bounds of the log at
    the first answer. `ended` is set once no record can come: the transactions have ended, or the target has deleted
    their records.

    With `own_ids` the copiers of the flow append in transactions whose ids begin so, and the marker of an earlier
    copier may be late: these transactions are left out, and all of them where brokers hide the owners.
    """

    def __init__(
        self,
        cursor: ProofCursor,
        begin: TargetOffset,
        log: ReadableLog,
        opened: Mapping[int, TargetOffset] | None = None,
        own_ids: str | None = None,
    ) -> None:
        self._remote = cursor.remote
        self._known = cursor.proof.opened
        self._source = cursor.proof.proven.source
        self._begin = begin
        self._log = log
        self._opened = opened
        self._own_ids = own_ids
        self._start: TargetOffset | None = None
        self.ended = False

    async def find_committed(self, logs: SecondRead) -> ProofDifference | None:
        """Returns the first committed record of the transactions, or None. Raises ClusterError."""
        if self._opened is None:
            self._opened = await self._find_open(logs)
        if self._start is None:
            self._start = min(self._opened.values(), default=self._begin)
        while self._start < self._begin:
            batches, log = await logs.read_batches(self._remote, self._start, self._begin)
            for one in batches:
                first = self._opened.get(one.producer_id)
                if first is not None and one.base >= first:
                    self.ended = True
                    return ProofDifference("foreign", self._source, one.base)
            if log.start > self._start:
                self._start = log.start
            elif log.stable_end >= self._begin:
                break
            else:
                # Before the stable end nothing is undecided.
                self._start = max(self._start, log.stable_end)
                return None
        self.ended = True
        return None

    async def _find_open(self, logs: SecondRead) -> dict[int, TargetOffset]:
        await logs.target.refresh_soon([self._remote.topic])
        states = (await open_transactions(logs.target, [self._remote]))[self._remote]
        earlier = {
            one.producer_id: TargetOffset(one.first_offset)
            for one in states
            if one.first_offset < self._begin and one.producer_id not in self._known
        }
        # The list of open transactions is younger than the first answer, and lacks the transactions that ended between.
        for producer_id in await logs.find_ended_transactions(self._remote, self._log.end):
            if producer_id not in self._known:
                earlier.setdefault(producer_id, self._log.stable_end)
        if self._own_ids is None:
            return earlier
        earlier.update(self._known)
        ids = await find_transactional_ids(logs.target, earlier) if earlier else {}
        if ids is None:
            return {}
        return {one: first for one, first in earlier.items() if not ids.get(one, "").startswith(self._own_ids)}


def find_open_before(cursor: ProofCursor, log: ReadableLog, own_ids: str) -> list[OpenBefore]:
    """The transactions that the copier saw open at its start, and the earlier transactions that are open in `log`.

    The stable end of the log is the first offset of the oldest open transaction. The transactional ids of the flow's
    copiers begin with `own_ids`.
    """
    proof = cursor.proof
    begin = proof.begin
    if begin is None:
        return []
    if proof.transactional:
        undecided = proof.opened or 0 <= log.stable_end < begin
        return [OpenBefore(cursor, begin, log, own_ids=own_ids)] if undecided else []
    found = [OpenBefore(cursor, begin, log, proof.opened)] if proof.opened else []
    if 0 <= log.stable_end < min(proof.opened.values(), default=begin):
        found.append(OpenBefore(cursor, begin, log))
    return found
