"""Does the steps of partitions whose copies keep their offsets: markers at offsets without a record, aborted records.

A step begins when all earlier appends are acknowledged, and later appends wait for it. A plain append is safe to repeat
by its sequence number, a marker is not. So after an error the end of the remote log shows what has arrived, before the
step continues there. A log that is longer than the step has another record: its partition is held. A step of a
released partition writes nothing more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from twinlog.copier.partition.aborted_transactions import AbortedTransactions
from twinlog.copier.partition.context import CopierContext
from twinlog.copier.partition.copy_state import CopyState
from twinlog.copier.partition.life import ResolvePosition
from twinlog.copier.start.first_look import LogsAtRest, find_offset
from twinlog.errors import (
    ClusterError,
    DivergedError,
    FencedError,
    OutOfSequenceError,
    RefusedError,
    TwinlogError,
)
from twinlog.kafka.producer.append_queue import AppendQueue
from twinlog.kafka.producer.appends import AbortedRecords, AbortMarker, Append
from twinlog.kafka.producer.marker_writer import MOST_MARKERS, MarkerWriter
from twinlog.kafka.protocol.offsets import LATEST
from twinlog.kafka.retry import OFFSET_STEP
from twinlog.model.types import TargetOffset, TopicPartition

MARKER_S = 5.0
"""How long a step waits for the marker of a coordinator before it aborts the transaction again."""

LOOK_S = 0.005


@dataclass(frozen=True, slots=True)
class WaitingStep:
    """The first append of `queue` is a step, which the queue has set aside.

    `finish(base_offset)` acknowledges it.
    """

    part: CopyState
    queue: AppendQueue
    append: Append
    finish: Callable[[TargetOffset], None]

    @property
    def waits(self) -> bool:
        """Whether the queue still waits for the step."""
        return not self.queue.ended and not self.queue.idle and self.queue.first is self.append

    @property
    def has_records(self) -> bool:
        """Whether the step appends records, which the target takes once."""
        return isinstance(self.append.step, AbortedRecords)

    @property
    def begin(self) -> TargetOffset:
        """The offset of the first record or marker on the target."""
        return TargetOffset(self.append.first_source_offset)

    @property
    def past(self) -> TargetOffset:
        """The offset after the last record or marker on the target."""
        return TargetOffset(self.append.next_source_offset)


class OffsetSteps:
    """The steps of a copier's partitions, each beside the other partitions."""

    def __init__(self, context: CopierContext) -> None:
        self._context = context
        self._loop = context.loop
        self._target = context.target
        self._markers = MarkerWriter(context.target)
        self._aborted = AbortedTransactions(context)
        self._logs_at_rest = LogsAtRest(context.target)
        self._looked_at: set[TopicPartition] = set()
        """Logs that had no late marker of an earlier copier before the first step."""

    def forget_partition(self, remote: TopicPartition) -> None:
        """A partition begins."""
        self._looked_at.discard(remote)
        self._aborted.forget_partition(remote)
        self._logs_at_rest.forget_logs([remote])

    def start_step(self, step: WaitingStep) -> None:
        """Do a step, then have its queue acknowledge it. The partition is held if the step is impossible."""
        self._loop.start(self._do, step)

    async def _do(self, step: WaitingStep) -> None:
        backoff = OFFSET_STEP.backoff()
        end = step.begin if step.part.remote in self._looked_at else None
        hoped: TargetOffset | None = None
        tried = False

        def still() -> bool:
            """A released partition gets nothing more from here, because another copier may have it."""
            return step.waits

        while step.waits and not self._context.stopped:
            try:
                if end is None:
                    end = await self._find_end(step, hoped)
                    if not still():
                        return
                    self._looked_at.add(step.part.remote)
                base = step.begin
                if end < step.past or step.has_records:
                    if step.has_records and end > step.begin and not tried:
                        raise OutOfSequenceError(f"{step.part.remote}: records of an earlier copier have just arrived")
                    tried = True
                    found = await self._write(step, end, still)
                    if found is None:
                        hoped = TargetOffset(min(end + MOST_MARKERS, step.past))
                        end = None
                        continue
                    base = found
            except OutOfSequenceError as error:
                step.part.report_trouble(f"target: {error}")
                await self._loop.sleep(backoff.count_failure())
                if step.waits:
                    self.forget_partition(step.part.remote)
                    step.part.request(ResolvePosition())
                return
            except TwinlogError as error:
                passes = isinstance(error, ClusterError | FencedError) and not isinstance(error, RefusedError)
                if not passes:
                    if isinstance(error, RefusedError) and error.resource:
                        # Only the topics that need the step need its right.
                        error.resource = f"topic {step.part.remote.topic}"
                    if step.waits:
                        step.part.fail_partition(error)
                    return
                end = hoped = None
                step.part.report_trouble(f"target: {error}")
                await self._loop.sleep(backoff.count_failure())
                await self._refresh(step)
            else:
                if step.waits:
                    self._note_done(step)
                    step.finish(base)
                return

    async def _refresh(self, step: WaitingStep) -> None:
        """Find the leader again."""
        try:
            await self._target.refresh_soon([step.part.remote.topic])
        except TwinlogError as error:
            # The next try shows the same error, if it lasts.
            step.part.report_trouble(f"target: {error}")

    async def _write(self, step: WaitingStep, end: TargetOffset, still: Callable[[], bool]) -> TargetOffset | None:
        """Write what the log lacks from its end `end` on, while `still()`.

        Returns the offset of the step, or None if the end of the log has to show what has arrived.
        """
        remote, append = step.part.remote, step.append
        match append.step:
            case AbortedRecords(transaction):
                try:
                    return await self._aborted.append(remote, transaction, append, still)
                except FencedError as error:
                    if end > step.begin:
                        # The marker of the target has the offset of a record.
                        raise self._diverged(step, end) from error
                    raise
            case AbortMarker(transaction):
                if await self._aborted.abort(remote, transaction, append.first_source_offset, still):
                    await self._await_marker(step)
                    return step.begin
                if await self._high_watermark(step) > end:
                    # The marker of an earlier copier has just arrived.
                    return None
        await self._markers.write(remote, step.past - end, still)
        # The answer has no offset: a marker of several may be missing.
        return step.begin if append.count == 1 else None

    def _note_done(self, step: WaitingStep) -> None:
        match step.append.step:
            case AbortedRecords(transaction):
                self._aborted.count_records(step.part.remote, transaction, step.append.count)
            case AbortMarker(transaction):
                self._aborted.end_transaction(step.part.remote, transaction)

    async def _await_marker(self, step: WaitingStep) -> None:
        """Wait for the marker that a coordinator writes after its answer. Raises ClusterError after `MARKER_S`."""
        until = self._loop.clock.monotonic() + MARKER_S
        pause_s = LOOK_S
        while await self._high_watermark(step) < step.past:
            if self._loop.clock.monotonic() > until:
                raise ClusterError(
                    f"cluster {self._target.alias}: the marker of an aborted transaction is still on its way to "
                    f"{step.part.remote}"
                )
            await self._loop.sleep(pause_s)
            pause_s = min(2 * pause_s, 0.1)

    async def _find_end(self, step: WaitingStep, hoped: TargetOffset | None) -> TargetOffset:
        """The end of the remote log, once nothing more arrives. The caller takes `hoped` for the end.

        Raises DivergedError if the log has more than the step, or less than the appends before it, and ClusterError
        while the log is moving.
        """
        remote = step.part.remote
        end = await self._high_watermark(step)
        if end < step.past and end != hoped:
            ends = await self._logs_at_rest.find_ends([remote])
            if remote not in ends:
                raise self._logs_at_rest.error_of(remote)
            end = ends[remote]
        if not step.begin <= end <= step.past:
            raise self._diverged(step, end)
        return end

    def _diverged(self, step: WaitingStep, end: TargetOffset) -> DivergedError:
        return DivergedError(
            f"{step.part.source}: {step.part.remote} has diverged: it ends at offset {end} while the offsets from "
            f"{step.begin} to {step.past - 1} are written, as if another program wrote to it, or it lost records"
        )

    async def _high_watermark(self, step: WaitingStep) -> TargetOffset:
        return TargetOffset(await find_offset(self._target, step.part.remote, LATEST))
