"""Turns an answer of the source into the appends of its partition, or has the partition wait or fail.

`batches.prepare`, or a transform, makes the appends. Here are the rules of the present moment, the comparison of built
batches with the answer, and the consequence of each error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from twinlog.copier.partition.batch_limit import naming
from twinlog.copier.partition.context import CopierContext
from twinlog.copier.partition.copy_state import CopyState
from twinlog.copier.partition.life import AskLimit, AwaitTransform
from twinlog.errors import DifferenceError, EngineLostError, OffsetHoleError, RecordTooLargeError, TwinlogError
from twinlog.kafka.producer.append_queue import AppendQueue
from twinlog.kafka.producer.appends import (
    AbortedRecords,
    AbortMarker,
    Append,
    Prepare,
    PreparedFetch,
    SourceTransaction,
)
from twinlog.kafka.producer.proof import identify_append
from twinlog.kafka.protocol.fetch import PartitionResponse
from twinlog.model.types import SourceOffset

MARKER_BACKOFF_S = 0.1
"""How long a partition waits at first for the marker of an aborted transaction."""


class AwaitedMarkers:
    """The aborted transactions whose markers an open transaction of the source keeps from consumers.

    The copy of an aborted transaction is open on the target from its first record up to its marker, and the target
    aborts it by itself after a time. Consumers of committed records see no later record of the target meanwhile. So the
    copy begins once its marker is readable; a transaction that is listed as aborted has its marker in the log. Inside
    another aborted transaction, whose own marker follows, it begins at once.
    """

    __slots__ = ("_awaited", "_begun", "_markers")

    def __init__(self) -> None:
        self._awaited: tuple[SourceTransaction, int] | None = None
        """The transaction to begin next, and the end of the log when it was first listed: its marker lies before this
        offset."""
        self._begun: dict[SourceTransaction, SourceOffset] = {}
        """The transactions whose records were taken, each with its first taken offset."""
        self._markers: dict[SourceTransaction, SourceOffset] = {}
        """The offsets of the markers among them that were taken, until the target has them: dropped appends are read
        again."""

    def leave_out(
        self, prepared: PreparedFetch, fetched: PartitionResponse, begin: SourceOffset, acknowledged: SourceOffset
    ) -> bool:
        """Leave the appends out from the first transaction on whose marker is not readable yet; returns whether any.

        The answer was read from the offset `begin` on, and the target has the offsets before `acknowledged`.
        """
        still_open = self._open_at(begin, acknowledged)
        marked = {append.step.transaction for append in prepared.appends if isinstance(append.step, AbortMarker)}
        for number, append in enumerate(prepared.appends):
            first = append.first_source_offset
            match append.step:
                case AbortMarker(transaction):
                    still_open.discard(transaction)
                    if transaction in self._begun:
                        self._markers[transaction] = first
                case AbortedRecords(transaction):
                    begins = not still_open and transaction.begin >= first and transaction not in marked
                    if begins and not self._is_marker_readable(transaction, fetched):
                        prepared.position = first
                        del prepared.appends[number:]
                        return True
                    still_open.add(transaction)
                    self._begun.setdefault(transaction, first)
        return False

    def _open_at(self, begin: SourceOffset, acknowledged: SourceOffset) -> set[SourceTransaction]:
        """The transactions that are open at offset `begin`; forgets what ended before `acknowledged`."""
        for transaction, marker in list(self._markers.items()):
            if marker < acknowledged:
                del self._markers[transaction], self._begun[transaction]
        return {
            transaction
            for transaction, first in self._begun.items()
            if first < begin <= self._markers.get(transaction, begin)
        }

    def _is_marker_readable(self, transaction: SourceTransaction, fetched: PartitionResponse) -> bool:
        readable_to = fetched.last_stable_offset
        if readable_to >= fetched.high_watermark:
            self._awaited = None
            return True
        if transaction in self._markers:
            return readable_to > self._markers[transaction]
        if self._awaited is None or self._awaited[0] != transaction:
            self._awaited = transaction, fetched.high_watermark
        return readable_to >= self._awaited[1]


class FetchPreparation:
    """Prepares the answers of the source for a partition, whose appends wait in `queue`."""

    __slots__ = ("_awaited_markers", "_now", "_prepare", "_queue", "_state", "_target", "awaits_marker")

    def __init__(self, state: CopyState, queue: AppendQueue, context: CopierContext, prepare: Prepare) -> None:
        self._state = state
        self._queue = queue
        self._target = context.target
        self._now = context.loop.clock.monotonic
        self._prepare = prepare
        self._awaited_markers = AwaitedMarkers()
        self.awaits_marker = False
        """Whether the next record waits for the end of another transaction of the source."""

    def prepare_answer(self, fetched: PartitionResponse) -> PreparedFetch | None:
        """The appends of an answer; None if the answer is read again later, or the partition failed."""
        state = self._state
        rules = state.limit.rules
        # Few batches may be in flight together, and each costs the target's brokers, so each batch is built large when
        # more records wait.
        if self._queue.pending or len(fetched.records) > rules.merge_batch_bytes:
            rules = rules.merging_all() if self._target.far else rules.joining()
        if (most := state.read_ahead.next_records()) is not None:
            rules = replace(rules, most_records=most)
        try:
            prepared = self._prepare(fetched.records, state.read.offset, rules, fetched.aborted)
            if state.copied.proof is not None:
                self._identify(prepared.appends)
                self._check_built(prepared.appends, fetched)
        except EngineLostError as error:
            state.pause()
            state.report_trouble(f"transform: {error}")
            state.request(AwaitTransform())
            return None
        except TwinlogError as error:
            if isinstance(error, OffsetHoleError) and not self._queue.idle:
                # The records before the hole are copied first.
                state.read_ahead.back_off(self._now())
            elif not isinstance(error, RecordTooLargeError) or not self._must_ask_limit():
                state.fail_partition(naming(error, state.source, state.remote))
            return None
        if prepared.oversized and self._must_ask_limit():
            return None
        left_out = rules.keep_offsets and self._awaited_markers.leave_out(
            prepared, fetched, state.read.offset, state.copied.acknowledged.next_source
        )
        self.awaits_marker = left_out and not prepared.appends
        if self.awaits_marker:
            state.read_ahead.back_off(self._now(), MARKER_BACKOFF_S)
            return None
        return prepared

    def _identify(self, appends: Sequence[Append]) -> None:
        """Give appends their elements, by which the prover finds them in the remote log.

        The prover reads committed records: markers and records of aborted transactions are out of the proof.
        """
        for append in appends:
            if append.step is None:
                append.element = identify_append(append.data)

    def _check_built(self, appends: Sequence[Append], fetched: PartitionResponse) -> None:
        """Compare built batches with the answer that they were built from. Raises DifferenceError."""
        plain = [append for append in appends if append.step is None]
        if all(type(append.data) is memoryview for append in plain):
            return
        from twinlog.copier.proof.link import require_equal  # noqa: PLC0415 - numpy

        committed = self._state.limit.rules.read_committed
        try:
            require_equal(plain, fetched.records, fetched.aborted if committed else None)
        except DifferenceError as error:
            if not self._state.report_difference(error):
                raise

    def _must_ask_limit(self) -> bool:
        """Whether the remote topic must be asked for its limit first; the last answer is then read again."""
        if self._state.limit.sure(self._now()):
            return False
        self._state.pause()
        self._state.request(AskLimit())
        return True
