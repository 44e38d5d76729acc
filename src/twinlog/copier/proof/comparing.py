"""Compares the batches of a remote log with the notes of the copier, in the order of their offsets; pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from twinlog.copier.proof.notes import Note
from twinlog.copier.proof.partition_proof import PartitionProof, Proven
from twinlog.errors import CorruptBatchError, DifferenceError
from twinlog.kafka.producer.proof import EMPTY_CHAIN, Element, checked_element, extend_chain
from twinlog.kafka.protocol.fetch import FetchPosition, PartitionResponse
from twinlog.kafka.record.batch import AbortedFilter, Batch, read_batch
from twinlog.kafka.record.records import is_abort_marker
from twinlog.lease.progress import DifferenceKind
from twinlog.model.types import SourceOffset, TargetOffset, TopicPartition

PATIENCE_S = 3.0
"""A batch that lacks a note, and a note that lacks a batch, is doubted after this time.

An acknowledgement comes some milliseconds after its batch is readable, or before.
"""

MOST_UNMATCHED = 20_000
"""The batches of a partition that wait for their notes; then its log waits."""

_SAID: dict[DifferenceKind, str] = {
    "changed": "has another record",
    "missing": "lacks the record",
    "foreign": "has a record of another program",
    "doubled": "has a record twice",
    "damaged": "has a batch with a wrong checksum",
    "built": "was to get another record",
}


@dataclass(frozen=True, slots=True)
class ProofDifference:
    """A confirmed difference, with the offsets of its first record on both sides.

    Of a batch that the source lacks, `source_offset` is the offset up to which the partition is proven.
    """

    kind: DifferenceKind
    source_offset: SourceOffset
    target_offset: TargetOffset

    def as_error(self, source: TopicPartition, remote: TopicPartition) -> DifferenceError:
        """The error that holds the partition."""
        before = "after the copies before" if self.kind in ("foreign", "doubled") else "for"
        return DifferenceError(
            f"{source}: {remote} differs: at offset {self.target_offset} it {_SAID[self.kind]}, {before} source offset "
            f"{self.source_offset}",
            kind=self.kind,
            source_offset=self.source_offset,
            target_offset=self.target_offset,
        )


class RemoteBatch(NamedTuple):
    """A visible batch of the remote log, read at `at` (monotonic seconds); `element` is None if it is damaged."""

    base: TargetOffset
    end: TargetOffset
    records: int
    element: Element | None
    producer_id: int
    at: float


class ReadableLog(NamedTuple):
    """The first offset of a log, the end of its readable records, and the end of all its records."""

    start: TargetOffset
    stable_end: TargetOffset
    end: TargetOffset


class LogPart(NamedTuple):
    """The visible batches of an answer, and the offset to read next; `unreadable` at an impossible header."""

    batches: list[RemoteBatch]
    position: TargetOffset
    unreadable: bool


def read_stored(records: memoryview, aborted: Sequence[tuple[int, int]], position: TargetOffset, now: float) -> LogPart:
    """The batches of an answer from `position` on; markers and the records of `aborted` transactions are left out."""
    hidden = AbortedFilter(aborted) if aborted else None
    found: list[RemoteBatch] = []
    at = 0
    try:
        while (batch := read_batch(records, at)) is not None:
            at = batch.end
            gone = batch.is_control
            if hidden is not None and batch.magic == 2:
                abort_marker = gone and is_abort_marker(records, batch)
                gone = hidden.hides(batch, abort_marker=abort_marker) or gone
            last_offset = batch.last_offset
            if last_offset < position:
                continue
            position = TargetOffset(last_offset + 1)
            if not gone and batch.record_count:
                found.append(_stored(records, batch, last_offset, now))
    except CorruptBatchError:
        return LogPart(found, position, unreadable=True)
    return LogPart(found, position, unreadable=False)


def _stored(records: memoryview, batch: Batch, last_offset: int, now: float) -> RemoteBatch:
    element = checked_element(records, batch) if batch.magic == 2 else None
    base, end = TargetOffset(batch.base_offset), TargetOffset(last_offset + 1)
    return RemoteBatch(base, end, batch.record_count, element, batch.producer_id, now)


def _chain_after(chain: bytes, batch: RemoteBatch) -> bytes:
    assert batch.element is not None
    return extend_chain(chain, batch.element.encode(batch.base))


def matches(note: Note, batches: list[RemoteBatch]) -> bool:
    """Whether some batches are the appends of a note, all of them and in order."""
    if note.head is None:
        return len(batches) == 1 and (batches[0].base, batches[0].element) == (note.base, note.element)
    chain = EMPTY_CHAIN
    for one in batches:
        if one.element is None:
            return False
        chain = _chain_after(chain, one)
    return chain == note.head


def is_rewritten(note: Note, batches: list[RemoteBatch]) -> bool:
    """Whether batches with the same records may be the work of a broker.

    A broker compresses a batch again for another codec of its topic (Kafka class LogValidator), and a cleaner writes a
    batch again with another first timestamp (`MemoryRecords.filterTo`). A batch of the same form is damaged.
    """
    sent = note.element
    if sent is None or len(batches) != 1 or batches[0].element is None:
        return True
    there = batches[0].element
    return (there.codec, there.length, there.base_timestamp) != (sent.codec, sent.length, sent.base_timestamp)


@dataclass(frozen=True, slots=True)
class Suspicion:
    """A note that lacks its batch, or a `surplus` batch that lacks a note. It may have a harmless cause."""

    note: Note | None
    surplus: RemoteBatch | None = None


class ProofCursor:
    """The place in a remote log up to which it is read and compared; belongs to the prover's thread.

    `position` is the next target offset to read, None until the first append of a new topic. While `suspended` nothing
    is read: a suspicion is looked into, or the broker refuses the partition.
    """

    held_back = False

    def __init__(self, source: TopicPartition, proof: PartitionProof) -> None:
        self.source = source
        self.remote = proof.remote
        self.proof = proof
        self.position: TargetOffset | None = None
        self.note: Note | None = None
        self.suspended = False
        self.ended = False
        self.looked_back = False
        """Whether the prover looks for committed records before the begin of the proof, if any may come."""
        self.at_end = False
        """Whether the last answer ended at the end of the readable log: only then a batch may be missing."""
        self.rewritten = False
        """Whether the target stores the last batch in another form: then many batches are read again at once."""
        self._unmatched: deque[RemoteBatch] = deque()
        self._row: list[RemoteBatch] = []
        """The batches of the present note, if it is a single append."""
        self.row_records = 0
        """The records of the present note that were read."""
        self._row_head: bytes | None = EMPTY_CHAIN
        """The chain over the batches of the present folded note alone, None after a damaged batch."""
        self._row_chain: bytes | None = None
        """The chain of the proven range with the batches of the present note, None before the first of them."""

    @property
    def has_work(self) -> bool:
        """Whether notes or batches wait, or the copier went back."""
        proof = self.proof
        waits = self.note is not None or bool(self._unmatched) or bool(proof.waiting) or proof.has_cut
        return waits or (self.position is None and proof.begin is not None)

    def fetch_position(self, read_ahead: int) -> FetchPosition | None:
        """The next fetch position, as `kafka.consumer.broker_poll.Cursor`."""
        if self.position is None or self.suspended or self.ended or len(self._unmatched) >= MOST_UNMATCHED:
            return None
        return FetchPosition(self.position, 0)

    def position_after(self, asked: FetchPosition, answer: PartitionResponse, read_ahead: int) -> FetchPosition | None:
        """None: the copier comes first on this core, so the log is read in turn."""
        return None

    def add_answer(self, answer: PartitionResponse, now: float) -> bool:
        """Take an answer of the log from `position` on; False if a part of it is unreadable."""
        assert self.position is not None
        found = read_stored(answer.records, answer.aborted, self.position, now)
        self._unmatched.extend(found.batches)
        self.position = found.position
        self.at_end = found.position >= answer.last_stable_offset
        return not found.unreadable

    def look_past(self, note: Note, stable_end: TargetOffset) -> None:
        """The present note was read again alone, while the readable log ended at `stable_end`.

        In a fetch session a broker answers nothing for a partition without news (KIP-227), so that no answer would tell
        whether the log goes on after the note.
        """
        assert self.position is not None
        self.at_end = max(self.position, note.end) >= stable_end

    def compare(self, now: float, answered_at: float) -> Suspicion | None:
        """Compare as far as notes and batches are there; returns the first suspicion, and stays before it.

        The broker of the remote log last answered at `answered_at` (monotonic seconds).
        """
        self._follow_cut()
        while True:
            if self.note is None:
                self.note = self.proof.take_note(folded=self.rewritten)
                self._clear_row()
            if self.position is None:
                # The first note of a new topic tells its first offset.
                self.position = self.proof.begin
            note = self.note
            if note is None:
                first = self._unmatched[0] if self._unmatched else None
                return None if first is None or now - first.at < PATIENCE_S else Suspicion(None, first)
            if self._unmatched and self._unmatched[0].end <= note.base:
                return Suspicion(note, self._unmatched[0])
            while self._unmatched and self._unmatched[0].base < note.end:
                self._add_to_row(note, self._unmatched.popleft())
            assert self.position is not None
            if self.position < note.end:
                # A proof that lags behind reads on: to read each append alone would cost more than to catch up.
                return Suspicion(note) if self.at_end and answered_at > note.at + PATIENCE_S else None
            if note.unproved and not note.records and not self.row_records:
                # Markers and aborted records are in no chain.
                self._prove(note, None)
            elif note.unproved:
                self.leave_out_note(note)
            elif self._has_appends(note):
                self.rewritten = False
                self._prove(note, self._row_chain)
            else:
                return Suspicion(note)

    def accept_note(self, note: Note, batches: Iterable[RemoteBatch]) -> None:
        """The log has the records of a note, in these batches."""
        chain = None
        for one in batches:
            chain = self._extend_range(chain, one)
        self._prove(note, chain)

    def leave_out_note(self, note: Note) -> None:
        """The records of a note are out of the proof: the target deleted them, or they were compared otherwise."""
        proven = self.proof.proven
        self._pass_note(note, proven._replace(unproved=proven.unproved + (note.records or self.row_records)))

    def pass_difference(self, difference: ProofDifference, note: Note | None, surplus: RemoteBatch | None) -> None:
        """Continue after a difference: a note, or a surplus batch."""
        proven = self._with(difference)
        if surplus is None:
            assert note is not None
            # Of a folded row only the first difference is known.
            rest = note.records if note.appends > 1 else 0
            self._pass_note(note, proven._replace(unproved=proven.unproved + rest))
            return
        self.proof.set_proven(self.proof.begin_range(proven, proven.source, surplus.end))
        self.drop_surplus(surplus)

    def count_earlier(self, difference: ProofDifference) -> None:
        """Count a difference before the begin of the proof: it leaves the proven range as it is."""
        self.proof.set_proven(self._with(difference))

    def _with(self, difference: ProofDifference) -> Proven:
        before = self.proof.proven
        return before._replace(
            differences=before.differences + 1,
            difference_kind=difference.kind,
            difference_source=difference.source_offset,
            difference_target=difference.target_offset,
        )

    def drop_surplus(self, surplus: RemoteBatch) -> None:
        """Forget a surplus batch."""
        if self._unmatched and self._unmatched[0] == surplus:
            self._unmatched.popleft()

    def wait_again(self, surplus: RemoteBatch, now: float) -> None:
        """A surplus batch may still get its note: it may be an append in flight."""
        if self._unmatched and self._unmatched[0] == surplus:
            self._unmatched[0] = surplus._replace(at=now)

    def read_again(self, offset: TargetOffset) -> None:
        """Read the log again from an offset on, or from the present note on if it comes first."""
        self._unmatched.clear()
        self._clear_row()
        self.position = offset if self.note is None else min(offset, self.note.base)

    def skip_deleted(self, log_start: TargetOffset) -> None:
        """The target has deleted its records before an offset."""
        if self.position is not None and self.position < log_start:
            self.position = log_start
        while (note := self.note or self.proof.take_note()) is not None and note.base < log_start:
            self.note = note
            self.leave_out_note(note)
        self.note = note

    def _prove(self, note: Note, chain: bytes | None) -> None:
        """The range goes on behind a note; `chain` is its chain with the batches of the note, None without a batch."""
        before = self.proof.proven
        # This is done for each append, and `_replace` would take longer than all else.
        proven = Proven(
            note.next_source,
            note.end,
            before.records + note.records,
            before.bytes + (0 if chain is None else note.size),
            before.unproved,
            before.differences,
            before.chain if chain is None else chain.hex(),
            before.first_source,
            before.first_target if before.first_target >= 0 else note.base,
            before.range,
            before.records_before,
            before.bytes_before,
            before.difference_kind,
            before.difference_source,
            before.difference_target,
        )
        self._settle(note, proven)

    def _pass_note(self, note: Note, proven: Proven) -> None:
        """A note is out of the proof: a range begins after it."""
        passed = proven._replace(source=note.next_source, target=note.end)
        self._settle(note, self.proof.begin_range(passed, note.next_source, note.end))

    def _settle(self, note: Note, proven: Proven) -> None:
        assert self.position is not None
        self.position = max(self.position, note.end)
        while self._unmatched and self._unmatched[0].base < note.end:
            self._unmatched.popleft()
        self.note = None
        self._clear_row()
        self.proof.set_proven(proven)
        self.proof.end_note()

    def _has_appends(self, note: Note) -> bool:
        return note.head == self._row_head if note.element is None else matches(note, self._row)

    def _add_to_row(self, note: Note, batch: RemoteBatch) -> None:
        self.row_records += batch.records
        if note.element is not None:
            self._row.append(batch)
        if batch.element is None:
            self._row_head = None
        if note.unproved or self._row_head is None:
            return
        if note.head is not None:
            self._row_head = _chain_after(self._row_head, batch)
        self._row_chain = self._extend_range(self._row_chain, batch)

    def _extend_range(self, chain: bytes | None, batch: RemoteBatch) -> bytes:
        """The chain of the proven range after another batch; None is the chain up to now."""
        return _chain_after(bytes.fromhex(self.proof.proven.chain) if chain is None else chain, batch)

    def _clear_row(self) -> None:
        self._row = []
        self.row_records = 0
        self._row_head = EMPTY_CHAIN
        self._row_chain = None

    def _follow_cut(self) -> None:
        """The target lost records: the proof goes back to the records that are left."""
        cut = self.proof.take_cut() if self.proof.has_cut else None
        if cut is None:
            return
        target, source = cut
        proven = self.proof.proven
        if proven.target > target:
            left = proven._replace(source=min(proven.source, source), target=target)
            self.proof.set_proven(self.proof.begin_range(left, left.source, target))
        note = self.note
        if note is not None and note.end > target:
            # Of a folded row the records before the cut are still there.
            self.note = Note(note.base, target, source, 0, 0, note.at) if note.base < target else None
            if self.note is None:
                self.proof.end_note()
            self._clear_row()
        if self.position is not None and self.position > target:
            self.read_again(target)
