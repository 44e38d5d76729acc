"""Finds records of foreign transactions that were open at the begin of a proof, and are committed later.

Such records lie before the first record of the proof, so the prover never reads them with the appends.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from twinlog.copier.proof.comparing import ProofCursor, ProofDifference, ReadableLog, RemoteBatch
from twinlog.errors import TwinlogError
from twinlog.kafka.admin.partition_states import open_transactions
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.net.loop import Loop
from twinlog.kafka.retry import PROOF_READING, Backoff
from twinlog.model.types import SourceOffset, TargetOffset

ReadAgain = Callable[[ProofCursor, TargetOffset, TargetOffset], Awaitable[tuple[list[RemoteBatch], ReadableLog]]]
"""Reads the visible batches of a remote log between two offsets, from the present leader. Raises ClusterError."""


class OpenBefore:
    """The transactions of other programs that were open at the begins of a prover's proofs.

    `has(cursor)` tells whether the prover still has a partition. `found(cursor, difference)` reports a committed
    record, and `lost(error)` the reason why a look waits. All methods run on the prover's thread.
    """

    def __init__(
        self,
        loop: Loop,
        target: ClusterClient,
        read_again: ReadAgain,
        has: Callable[[ProofCursor], bool],
        found: Callable[[ProofCursor, ProofDifference], None],
        lost: Callable[[TwinlogError], None],
    ) -> None:
        self._loop = loop
        self._target = target
        self._read_again = read_again
        self._has = has
        self._found = found
        self._lost = lost

    def take_first_answer(self, cursor: ProofCursor, stable_end: TargetOffset) -> None:
        """Look for the transactions that the copier saw open at its start, and for earlier ones that are open now.

        The readable log ends at `stable_end`, the first offset of the oldest open transaction.
        """
        cursor.looked_back = True
        proof = cursor.proof
        begin = proof.begin
        # Within transactions of the copier a late marker of an earlier copier could pass for a foreign transaction.
        if begin is None or proof.transactional:
            return
        if proof.opened:
            self._loop.start(self._find_committed, cursor, proof.opened, begin, proof.proven.source)
        if 0 <= stable_end < min(proof.opened.values(), default=begin):
            self._loop.start(self._find_open, cursor, begin, proof.proven.source)

    async def _find_open(self, cursor: ProofCursor, begin: TargetOffset, source: SourceOffset) -> None:
        backoff = Backoff(PROOF_READING)
        while self._has(cursor) and not cursor.ended:
            try:
                await self._target.refresh_soon([cursor.remote.topic])
                states = (await open_transactions(self._target, [cursor.remote]))[cursor.remote]
            except TwinlogError as error:
                self._lost(error)
                await self._loop.sleep(backoff.count_failure())
                continue
            earlier = {
                one.producer_id: TargetOffset(one.first_offset)
                for one in states
                if one.first_offset < begin and one.producer_id not in cursor.proof.opened
            }
            if earlier:
                await self._find_committed(cursor, earlier, begin, source)
            return

    async def _find_committed(
        self, cursor: ProofCursor, opened: Mapping[int, TargetOffset], begin: TargetOffset, source: SourceOffset
    ) -> None:
        """Report the first record of a transaction before the begin of the proof, once it is committed.

        `opened` has the first offset of each transaction by its producer: this is its only transaction up to the begin.
        The proof begins at both offsets. The look ends once these transactions have ended, or the target has deleted
        their records.
        """
        start = min(opened.values())
        backoff = Backoff(PROOF_READING)
        while self._has(cursor) and not cursor.ended and start < begin:
            try:
                batches, log = await self._read_again(cursor, start, begin)
            except TwinlogError as error:
                self._lost(error)
                await self._loop.sleep(backoff.count_failure())
                continue
            for one in batches:
                first = opened.get(one.producer_id)
                if first is not None and one.base >= first and self._has(cursor) and not cursor.ended:
                    self._found(cursor, ProofDifference("foreign", source, one.base))
                    return
            if log.start > start:
                start = log.start
            elif log.stable_end >= begin:
                return
            else:
                # Before the stable end nothing is undecided.
                start = max(start, log.stable_end)
                await self._loop.sleep(backoff.count_failure())
