"""Finds records of foreign transactions that were open at the begin of a proof, and are committed later.

Such records lie before the first record of the proof, so the prover never reads them with the appends.
"""

from __future__ import annotations

from collections.abc import Mapping

from twinlog.copier.proof.comparing import ProofCursor, ProofDifference
from twinlog.copier.proof.second_read import SecondRead
from twinlog.kafka.coordinator.transactions import find_transactional_ids
from twinlog.model.types import TargetOffset


class OpenBefore:
    """Transactions of other programs that were open before a partition's proof.

    The copier has noted them in the proof of `cursor`, which has begun. `ended` is set once no record can come: the
    transactions have ended, or the target has deleted their records.

    With `own_ids` the copiers of the flow append in transactions whose ids begin so, and the marker of an earlier
    copier may be late: these transactions are left out, and all of them where brokers hide the owners.
    """

    def __init__(self, cursor: ProofCursor, own_ids: str | None = None) -> None:
        proof = cursor.proof
        assert proof.begin is not None
        self._remote = cursor.remote
        self._source = proof.proven.source
        self._begin = proof.begin
        self._opened: Mapping[int, TargetOffset] = proof.opened
        self._own_ids = own_ids
        self._start: TargetOffset | None = None
        self.ended = False

    async def find_committed(self, logs: SecondRead) -> ProofDifference | None:
        """Returns the first committed record of the transactions, or None. Raises ClusterError."""
        if self._own_ids is not None:
            self._opened = await self._find_foreign(logs, self._own_ids)
            self._own_ids = None
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

    async def _find_foreign(self, logs: SecondRead, own_ids: str) -> dict[int, TargetOffset]:
        ids = await find_transactional_ids(logs.target, self._opened)
        if ids is None:
            return {}
        return {one: first for one, first in self._opened.items() if not ids.get(one, "").startswith(own_ids)}
