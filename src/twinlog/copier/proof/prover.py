"""Reads the remote logs behind a copier, compares them with its notes, and confirms each difference.

The prover has a loop of its own, on a thread of its own: checksums would delay the appends of the copier. Its methods
run on that thread. A difference is reported after the batch was read again from the leader, unless the copier recovers
lost records itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from twinlog.copier.proof.comparing import (
    ProofCursor,
    ProofDifference,
    RemoteBatch,
    Suspicion,
    is_rewritten,
    matches,
)
from twinlog.copier.proof.notes import Note
from twinlog.copier.proof.partition_proof import PartitionProof
from twinlog.copier.proof.second_read import OpenBefore, SecondRead
from twinlog.errors import ClusterError, RefusedError, TwinlogError
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.consumer.fetch_pace import EvenPacer
from twinlog.kafka.consumer.partition_reader import Memory, SourceReader
from twinlog.kafka.fetch_session import Fetched
from twinlog.kafka.net.frame_memory import FrameMemory
from twinlog.kafka.net.loop import Loop
from twinlog.kafka.protocol.error_codes import Code, refused
from twinlog.kafka.protocol.fetch import FetchPosition
from twinlog.kafka.protocol.offsets import EARLIEST
from twinlog.kafka.retry import PARTITION_RECOVERY, PROOF_READING, Backoff, retry
from twinlog.lease.progress import DifferenceKind
from twinlog.model.types import TargetOffset, TopicPartition
from twinlog.settings.client import ConsumerSettings
from twinlog.settings.flow import FlowSettings

LOOK_S = 0.25
"""How often notes are compared that came after their batches."""

AGAIN_S = 0.5
"""The pause before a suspicion is looked into again."""

PAUSE_S = 0.1
"""Appends wait for each other for this time: the prover would read each append by itself."""

LARGE_BYTES = 4 << 20
"""After so many bytes the prover reads on at once: it must read as fast as the copier appends."""

MOST_UNREADABLE = 3
"""An impossible header is damaged on the target, if it is read so often; else on the way."""


class CopyView(NamedTuple):
    """A partition as its copier knows it.

    The next record that counts for good gets the target offset `next_target`. With `idle` every append is acknowledged
    and committed, and none of an earlier copier may arrive. `settled` is false while the copier recovers lost records.
    `producer_id` appends.
    """

    next_target: TargetOffset | None
    idle: bool
    settled: bool
    producer_id: int


Look = Callable[[TopicPartition, Callable[[CopyView | None], None]], None]
"""Asks the copier for its view of a source partition; the answer, None after a release, comes on the prover's
thread."""


class Prover:
    """The prover of a copier.

    `found(source, difference)` reports a confirmed difference, and `troubled(text)` the reason why the proof waits.
    `memory_of` makes the memory of answers.
    """

    def __init__(
        self,
        loop: Loop,
        settings: FlowSettings,
        memory_of: Callable[[FrameMemory], Memory],
        look: Look,
        found: Callable[[TopicPartition, ProofDifference], None],
        troubled: Callable[[str], None],
    ) -> None:
        self.busy_s = 0.0
        """The processor time of the thread so far, in seconds."""
        self._loop = loop
        self._now = loop.clock.monotonic
        self._settings = settings
        self._look = look
        self._found = found
        self._troubled = troubled
        self._stopped = self._changed = False
        self._turn = loop.signal()
        self._cursors: dict[TopicPartition, ProofCursor] = {}
        self._unreadable: dict[TopicPartition, int] = {}
        self._troubles: dict[TopicPartition, Backoff] = {}
        client = settings.producer.client
        self._target = ClusterClient(loop, settings.target, replace(client, client_id=f"{client.client_id}-prover"))
        client = settings.consumer.client
        self._source = ClusterClient(loop, settings.source, replace(client, client_id=f"{client.client_id}-prover"))
        consumer = settings.consumer
        reading = ConsumerSettings(
            settings.producer.client,
            isolation_level="read_committed",
            fetch_max_wait_ms=consumer.fetch_max_wait_ms,
            max_partition_fetch_bytes=consumer.max_partition_fetch_bytes,
        )
        self._reader = SourceReader(
            loop,
            self._target,
            reading,
            self._cursors,
            memory_of(self._target.frames),
            deliver=self._deliver,
            lost=self._lost,
            pacer=lambda: EvenPacer(PAUSE_S, LARGE_BYTES),
            sessions=1,
        )
        self._own_ids = settings.transactional_id(0).removesuffix("0")
        self._second_read = SecondRead(self._target, self._source, reading, consumer)

    async def run(self) -> None:
        """Prove until `stop`."""
        try:
            await retry(self._loop, PARTITION_RECOVERY, self._connect, stopped=lambda: self._stopped)
        except TwinlogError:
            # The copier ends, and the target is still silent.
            assert self._stopped
        if not self._stopped:
            self._reader.start()
        while not self._stopped:
            await self._turn.wait(LOOK_S)
            self.busy_s = time.thread_time()
            if self._changed:
                self._changed = False
                self._reader.wake()
            for cursor in list(self._cursors.values()):
                if cursor.has_work:
                    self._compare(cursor)
        self._reader.stop()
        self._target.close()
        self._source.close()

    async def _connect(self) -> None:
        try:
            await self._target.connect()
        except RefusedError as error:
            self._lost(error)
            raise ClusterError(str(error)) from error

    def stop(self) -> None:
        """End, and report nothing more."""
        self._stopped = True
        self._turn.set()

    def add_partition(self, source: TopicPartition, proof: PartitionProof) -> None:
        """Prove a partition from the begin of its notes on."""
        self._cursors[proof.remote] = ProofCursor(source, proof)
        self._changed = True
        self._turn.set()

    def remove_partition(self, proof: PartitionProof) -> None:
        """The copier has released a partition."""
        cursor = self._cursors.get(proof.remote)
        if cursor is not None and cursor.proof is proof:
            del self._cursors[proof.remote]
            self._unreadable.pop(proof.remote, None)
            self._troubles.pop(proof.remote, None)
            self._changed = True

    def _lost(self, error: TwinlogError) -> None:
        self._troubled(f"the remote topics are not proven: {error}")

    def _deliver(self, asked: FetchPosition, fetched: Fetched) -> None:
        cursor, answer = self._cursors.get(fetched.partition), fetched.answer
        if cursor is None or cursor.suspended or cursor.ended or asked.offset != cursor.position:
            return
        if answer.error or answer.diverging_epoch >= 0:
            cursor.suspended = True
            self._loop.start(self._recover, cursor, answer.error)
        elif not cursor.add_answer(answer, self._now()):
            cursor.suspended = True
            self._loop.start(self._look_at_unreadable, cursor)
        else:
            self._unreadable.pop(cursor.remote, None)
            self._troubles.pop(cursor.remote, None)
            if not cursor.looked_back:
                cursor.looked_back = True
                if cursor.proof.opened:
                    own_ids = self._own_ids if cursor.proof.transactional else None
                    self._loop.start(self._look_back, cursor, OpenBefore(cursor, own_ids))
            self._compare(cursor)

    def _compare(self, cursor: ProofCursor) -> None:
        if cursor.suspended or cursor.ended:
            return
        waited = cursor.fetch_position(0) is None
        answered_at = self._reader.answered_at(cursor.remote)
        suspicion = cursor.compare(self._now(), -1.0 if answered_at is None else answered_at)
        if suspicion is not None:
            cursor.suspended = True
            self._loop.start(self._confirm, cursor, suspicion)
        elif waited and cursor.fetch_position(0) is not None:
            self._reader.resume(cursor.remote)

    def _has(self, cursor: ProofCursor) -> bool:
        return not self._stopped and self._cursors.get(cursor.remote) is cursor

    def _continue(self, cursor: ProofCursor) -> None:
        """Read and compare a suspended partition again."""
        if self._has(cursor):
            cursor.suspended = False
            self._compare(cursor)
            self._reader.resume(cursor.remote)

    async def _recover(self, cursor: ProofCursor, code: int) -> None:
        """The broker refuses a fetch: read on later, after the records that the target has deleted."""
        # The log ends before the next record, or is unknown.
        cursor.at_end = code == Code.OFFSET_OUT_OF_RANGE
        try:
            if code == Code.OFFSET_OUT_OF_RANGE:
                await self._target.refresh_soon([cursor.remote.topic])
                starts = await self._target.list_offsets([cursor.remote], EARLIEST)
                if cursor.remote in starts and self._has(cursor):
                    cursor.skip_deleted(TargetOffset(starts[cursor.remote]))
            elif refused(code):
                self._lost(self._target.lacks("READ", f"topic {cursor.remote.topic}", "the proof of equality"))
        except TwinlogError as error:
            self._lost(error)
        self._reader.refresh()
        await self._pause(cursor)
        self._continue(cursor)

    async def _pause(self, cursor: ProofCursor) -> None:
        """The pause after trouble with a partition; it grows until the partition is read again."""
        await self._loop.sleep(self._troubles.setdefault(cursor.remote, Backoff(PROOF_READING)).count_failure())

    async def _look_at_unreadable(self, cursor: ProofCursor) -> None:
        """A header of an answer is impossible: read it again, in case that the network has damaged it."""
        count = self._unreadable[cursor.remote] = self._unreadable.get(cursor.remote, 0) + 1
        await self._loop.sleep(AGAIN_S)
        if not self._has(cursor):
            return
        note = cursor.note or cursor.proof.take_note()
        cursor.note = note
        if count < MOST_UNREADABLE or note is None:
            self._continue(cursor)
            return
        assert cursor.position is not None
        place = max(note.base, cursor.position)
        self._report(cursor, ProofDifference("damaged", note.source_after(cursor.row_records), place), note, None)

    async def _confirm(self, cursor: ProofCursor, suspicion: Suspicion) -> None:
        difference: ProofDifference | None = None
        try:
            view = await self._ask_copier(cursor.source)
            if view is None or not view.settled:
                await self._loop.sleep(AGAIN_S)
            elif suspicion.surplus is not None:
                difference = await self._confirm_surplus(cursor, suspicion.surplus, view, suspicion.note)
            else:
                assert suspicion.note is not None
                difference = await self._confirm_note(cursor, suspicion.note)
        except TwinlogError as error:
            if not self._stopped:
                self._lost(error)
                await self._pause(cursor)
        if difference is None or not self._has(cursor):
            self._continue(cursor)
            return
        # Decisions of the copier come first: it may copy lost records again.
        view = await self._ask_copier(cursor.source)
        if view is None or not view.settled or cursor.proof.has_cut:
            self._continue(cursor)
        else:
            self._report(cursor, difference, suspicion.note, suspicion.surplus)

    def _report(
        self, cursor: ProofCursor, difference: ProofDifference, note: Note | None, surplus: RemoteBatch | None
    ) -> None:
        if not self._has(cursor):
            return
        cursor.pass_difference(difference, None if surplus is not None else note, surplus)
        # A held partition is proven again from the begin of its next copy on.
        cursor.ended = not cursor.proof.reports
        self._found(cursor.source, difference)
        self._continue(cursor)

    async def _look_back(self, cursor: ProofCursor, before: OpenBefore) -> None:
        """Look for committed records before the begin of a proof, until none can come."""
        backoff = Backoff(PROOF_READING)
        while self._has(cursor) and not cursor.ended and not before.ended:
            try:
                difference = await before.find_committed(self._second_read)
            except TwinlogError as error:
                self._lost(error)
            else:
                if difference is not None and self._has(cursor) and not cursor.ended:
                    self._report_earlier(cursor, difference)
            if not before.ended:
                await self._loop.sleep(backoff.count_failure())

    def _report_earlier(self, cursor: ProofCursor, difference: ProofDifference) -> None:
        """Report a difference before the begin of the proof."""
        cursor.count_earlier(difference)
        cursor.ended = not cursor.proof.reports
        self._found(cursor.source, difference)

    async def _ask_copier(self, source: TopicPartition) -> CopyView | None:
        views: list[CopyView | None] = []
        came = self._loop.signal()

        def answer(view: CopyView | None) -> None:
            views.append(view)
            came.set()

        self._look(source, answer)
        while not views and not self._stopped:
            await came.wait(1.0)
        return views[0] if views else None

    async def _confirm_surplus(
        self, cursor: ProofCursor, surplus: RemoteBatch, view: CopyView, note: Note | None
    ) -> ProofDifference | None:
        """Whether a surplus batch is a difference."""
        if note is None:
            if cursor.proof.waiting or cursor.proof.has_cut:
                # The note came meanwhile.
                return None
            ours = surplus.producer_id == view.producer_id
            noted = view.next_target is not None and surplus.base < view.next_target
            if ours and not view.idle and not noted:
                cursor.wait_again(surplus, self._now())
                return None
        again, _ = await self._second_read.read_batches(cursor.remote, surplus.base, surplus.end)
        if not any(one.base == surplus.base and one.element == surplus.element for one in again):
            cursor.read_again(surplus.base)
            return None
        kind: DifferenceKind = "doubled" if surplus.producer_id == view.producer_id else "foreign"
        return ProofDifference(kind, cursor.proof.proven.source, surplus.base)

    async def _confirm_note(self, cursor: ProofCursor, note: Note) -> ProofDifference | None:
        """Whether the remote log lacks the records of a note, or has other records."""
        batches, bounds = await self._second_read.read_batches(cursor.remote, note.base, note.end)
        if cursor.note is not note or cursor.proof.has_cut:
            return None
        cursor.look_past(note, bounds.stable_end)
        if note.unproved or bounds.start > note.base:
            cursor.leave_out_note(note)
            return None
        if matches(note, batches):
            cursor.accept_note(note, batches)
            return None
        if bounds.stable_end < note.end <= bounds.end:
            # An open transaction of another program hides the records.
            await self._loop.sleep(AGAIN_S)
            return None
        damaged = next((place for place, one in enumerate(batches) if one.element is None), None)
        if damaged is not None:
            before = sum(one.records for one in batches[:damaged])
            return ProofDifference("damaged", note.source_after(before), batches[damaged].base)
        if sum(one.records for one in batches) < note.records and await self._second_read.is_compacted(cursor.remote):
            cursor.leave_out_note(note)
            return None
        if not batches:
            return ProofDifference("missing", note.first_source, note.base)
        first = await self._second_read.find_first_difference(cursor.source, cursor.remote, note)
        rewritten = is_rewritten(note, batches)
        if first == "gone" and rewritten and sum(one.records for one in batches) == note.records:
            cursor.leave_out_note(note)
            return None
        if first is not None and await self._second_read.is_deleted(cursor.remote, note.base):
            cursor.leave_out_note(note)
            return None
        if first is None and rewritten:
            cursor.rewritten = True
            cursor.accept_note(note, batches)
            return None
        if first is None or first == "gone":
            # A broker keeps the bytes of a batch whose form it keeps.
            return ProofDifference("changed", note.first_source, note.base)
        return ProofDifference("missing" if first.missing else "changed", first.source, first.target)
