"""The proofs of a copier's partitions: the notes that wait for the prover, and how far each partition is proven.

The copier's thread adds notes, and the prover's thread takes them.
"""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import NamedTuple

from twinlog.copier.proof.notes import Note, few_spans, fold_notes, leave_out_notes
from twinlog.errors import DifferenceError
from twinlog.kafka.producer.appends import Append
from twinlog.kafka.producer.proof import EMPTY_CHAIN
from twinlog.lease.progress import DifferenceKind
from twinlog.mirror.offsets.positions import Position
from twinlog.model.types import SourceOffset, TargetOffset, TopicPartition

MOST_NOTES = 65_536
"""The waiting notes of a copier; a note has some 200 bytes."""

FOLDED_NOTES = 4_096
"""The notes of a partition that are folded at once: this takes the copier some 5 ms."""

WORTH_FOLDING = 8
"""A folding that frees less than one of so many notes would cost the copier too much for each append."""

_NO_SOURCE, _NO_TARGET, _NO_CHAIN = SourceOffset(-1), TargetOffset(-1), EMPTY_CHAIN.hex()


class Proven(NamedTuple):
    """How far a partition is proven: up to a source offset and a target offset, -1 while they are unknown.

    `records` and `bytes` of batches were found equal since the begin of the proof, `unproved` records are out of it,
    and `differences` were found.

    `chain` is the chain over the batches of the proven range, in hexadecimal digits. The range begins at `first_source`
    and `first_target`, and has all visible records of the target up to `target`: so a later reader of the target
    computes the same chain. Each record out of the proof, and each difference, begins a range. `range` is its number,
    which no other range of the copier has; `records_before` and `bytes_before` were equal before the range. The last
    difference is of `difference_kind`, and has an offset on each side.
    """

    source: SourceOffset = _NO_SOURCE
    target: TargetOffset = _NO_TARGET
    records: int = 0
    bytes: int = 0
    unproved: int = 0
    differences: int = 0
    chain: str = _NO_CHAIN
    first_source: SourceOffset = _NO_SOURCE
    first_target: TargetOffset = _NO_TARGET
    range: int = 0
    records_before: int = 0
    bytes_before: int = 0
    difference_kind: DifferenceKind | None = None
    difference_source: SourceOffset = _NO_SOURCE
    difference_target: TargetOffset = _NO_TARGET


class PartitionProof:
    """The notes of a partition. `proven` belongs to the prover's thread; each thread may read it.

    With `reports` a difference is reported, and leaves the copying alone. Within transactions notes wait for the
    commit. With `markers`, as in transactions, markers and aborted records may lie between appends.
    """

    def __init__(
        self,
        notes: ProofNotes,
        remote: TopicPartition,
        position: Position,
        *,
        transactional: bool,
        markers: bool,
        reports: bool,
        difference: DifferenceError | None = None,
        opened: Mapping[int, TargetOffset] | None = None,
    ) -> None:
        self._all = notes
        self.remote = remote
        self.reports = reports
        self.closed = False
        self.begin = position.next_target
        """The target offset of the first record in the proof; None until the first append of a new topic."""
        first = _NO_TARGET if self.begin is None else self.begin
        proven = self.begin_range(Proven(position.next_source, first), position.next_source, first)
        self._told = proven
        if difference is not None:
            proven = proven._replace(
                differences=1,
                difference_kind="foreign",
                difference_source=SourceOffset(difference.source_offset),
                difference_target=TargetOffset(difference.target_offset),
            )
        self.proven = proven
        self.waiting: deque[Note] = deque()
        self._end = position.next_target
        self.transactional = transactional
        self.opened = opened or {}
        """The first offset of each transaction that was open before the position, by producer id."""
        self._gapless = not markers
        self._uncommitted: list[Note] = []
        self._taken: Note | None = None
        self._cut: tuple[TargetOffset, SourceOffset] | None = None

    # The copier's thread.

    def add_append(self, append: Append, base: TargetOffset) -> None:
        """The target acknowledged an append at offset `base`."""
        note = Note(
            base,
            TargetOffset(base + append.count),
            append.next_source_offset,
            append.count if append.element is not None else 0,
            append.bytes,
            self._all.now(),
            few_spans(append.spans),
            append.element,
        )
        self._end = note.end
        if self.transactional:
            self._uncommitted.append(note)
        else:
            self._all.add_notes(self, (note,))

    def commit(self, position: Position) -> None:
        """The transaction with this position was committed."""
        notes, self._uncommitted = self._uncommitted, []
        self._end = position.next_target
        self._all.add_notes(self, notes)

    def abort(self) -> None:
        """The open transaction was aborted."""
        self._uncommitted.clear()

    def move_position(self, position: Position) -> None:
        """Copying continues at a position.

        Records between the last append and a later position had arrived before. They are out of the proof, because the
        copier has compared them already. Records from an earlier position on are lost on the target.
        """
        target, end = position.next_target, self._end
        if target is None or target == end:
            return
        self._end = target
        if end is None:
            self._all.begin_at(self, target)
        elif target > end:
            self._all.add_notes(self, (Note(end, target, position.next_source, 0, 0, self._all.now()),))
        else:
            self._all.cut_notes(self, target, position.next_source)

    def take_progress(self) -> Proven:
        """The present progress, with the counts since the last call."""
        now, before = self.proven, self._told
        self._told = now
        return now._replace(
            records=now.records - before.records,
            bytes=now.bytes - before.bytes,
            unproved=now.unproved - before.unproved,
            differences=now.differences - before.differences,
        )

    @property
    def behind(self) -> bool:
        """Whether acknowledged appends wait for their proof."""
        return self._all.oldest_note(self) is not None

    def lag_s(self, now: float) -> float:
        """Seconds since the acknowledgement of the oldest unproven append; 0 if all are proven."""
        oldest = self._all.oldest_note(self)
        return 0.0 if oldest is None else max(0.0, now - oldest.at)

    def lag_ms(self, now: float) -> int:
        """The same in milliseconds; at least 1 while an append waits for its proof."""
        oldest = self._all.oldest_note(self)
        return 0 if oldest is None else max(1, round((now - oldest.at) * 1000))

    # The prover's thread.

    def take_note(self, *, folded: bool = False) -> Note | None:
        """Take the next note, `folded` with the notes after it; it counts as unproven until `end_note`.

        None without a note, and while a cut waits for `take_cut`.
        """
        return self._all.pop_note(self, folded=folded)

    def begin_range(self, proven: Proven, source: SourceOffset, target: TargetOffset) -> Proven:
        """The same progress, with an empty range that begins at these offsets."""
        return proven._replace(
            chain=_NO_CHAIN,
            first_source=source,
            first_target=target,
            range=self._all.number_range(),
            records_before=proven.records,
            bytes_before=proven.bytes,
        )

    def set_proven(self, proven: Proven) -> None:
        """Note the progress of the prover."""
        self.proven = proven

    def end_note(self) -> None:
        """The last note is proven, or out of the proof."""
        self._taken = None

    @property
    def has_cut(self) -> bool:
        """Whether the target lost records since the last `take_cut`."""
        return self._cut is not None

    def take_cut(self) -> tuple[TargetOffset, SourceOffset] | None:
        """The position from which the target lost records since the last call, or None."""
        return self._all.take_cut(self)

    # For `ProofNotes`, which has the lock.

    def close(self) -> tuple[int, int]:
        """Drop all notes, these and later notes; returns their number, and the number of unproven records."""
        notes, taken = list(self.waiting), self._taken
        self.closed = True
        self.waiting.clear()
        return len(notes), sum(note.records for note in notes) + (0 if taken is None else taken.records)

    def oldest_note(self) -> Note | None:
        """The first unproven note, or None."""
        return self._taken or (self.waiting[0] if self.waiting else None)

    def pop_note(self, *, folded: bool) -> Note | None:
        """Take the first note, `folded` with the notes after it; None without a note, and before a `pop_cut`.

        A note after a cut would be taken for a lost note if it came before the cut.
        """
        if self._cut is not None:
            return None
        if folded:
            fold_notes(self.waiting, FOLDED_NOTES, gapless=self._gapless)
        self._taken = self.waiting.popleft() if self.waiting else None
        return self._taken

    def free_notes(self) -> int:
        """Fold the oldest notes; returns the number of notes less.

        Notes that scarcely fold leave the proof, so that a proof far behind keeps its memory and costs the copier
        little.
        """
        some = min(len(self.waiting), FOLDED_NOTES)
        freed = fold_notes(self.waiting, some, gapless=self._gapless)
        if some > 1 and freed * WORTH_FOLDING < some:
            freed += leave_out_notes(self.waiting, some - freed)
        return freed

    def set_begin(self, target: TargetOffset) -> None:
        """The proof begins at a target offset, unless it has begun."""
        if self.begin is None:
            self.begin = target

    def set_cut(self, target: TargetOffset, source: SourceOffset) -> int:
        """Drop the notes from a target offset on; returns the number of notes less."""
        before = len(self.waiting)
        while self.waiting and self.waiting[-1].end > target:
            last = self.waiting.pop()
            if last.base < target:
                # Of a folded row the records before the cut are still there.
                self.waiting.append(Note(last.base, target, source, 0, 0, last.at))
        self._cut = (target, source) if self._cut is None else min(self._cut, (target, source))
        return before - len(self.waiting)

    def pop_cut(self) -> tuple[TargetOffset, SourceOffset] | None:
        """Take the position of the last cut."""
        cut, self._cut = self._cut, None
        return cut


class ProofNotes:
    """The notes of all partitions of a copier, `most` at a time; `now()` are monotonic seconds."""

    def __init__(self, now: Callable[[], float], most: int = MOST_NOTES) -> None:
        self.now = now
        self._most = most
        self._lock = threading.Lock()
        self._parts: dict[TopicPartition, PartitionProof] = {}
        self._count = 0
        self._ranges = itertools.count(1)

    @property
    def count(self) -> int:
        """The number of waiting notes."""
        return self._count

    def number_range(self) -> int:
        """The number of another proven range."""
        return next(self._ranges)

    def open_partition(
        self,
        source: TopicPartition,
        remote: TopicPartition,
        position: Position,
        *,
        transactional: bool,
        markers: bool,
        reports: bool,
        difference: DifferenceError | None = None,
        opened: Mapping[int, TargetOffset] | None = None,
    ) -> PartitionProof:
        """Begin with the notes of a partition that is copied from `position` on.

        `difference` is a record of another program, which was found before that position. `opened` has the first offset
        of each transaction that was open before it, by producer id.
        """
        found = PartitionProof(
            *(self, remote, position),
            transactional=transactional,
            markers=markers,
            reports=reports,
            difference=difference,
            opened=opened,
        )
        with self._lock:
            self._parts[source] = found
        return found

    def close_partition(self, source: TopicPartition) -> int:
        """Drop the notes of a partition that the copier has released; returns the number of unproven records."""
        with self._lock:
            gone = self._parts.pop(source, None)
            if gone is None:
                return 0
            notes, records = gone.close()
            self._count -= notes
            return records

    def add_notes(self, part: PartitionProof, notes: tuple[Note, ...] | list[Note]) -> None:
        """Add notes to a partition; above the limit the partition with the most notes is folded."""
        if not notes:
            return
        with self._lock:
            if part.closed:
                return
            part.set_begin(notes[0].base)
            part.waiting.extend(notes)
            self._count += len(notes)
            while self._count > self._most and (freed := self._free_notes(part)):
                self._count -= freed

    def _free_notes(self, part: PartitionProof) -> int:
        """Free the notes of the partition with the most notes; returns the number of notes less."""
        return max(self._parts.values(), key=lambda one: len(one.waiting), default=part).free_notes()

    def begin_at(self, part: PartitionProof, target: TargetOffset) -> None:
        """The first record of a partition gets a target offset."""
        with self._lock:
            part.set_begin(target)

    def cut_notes(self, part: PartitionProof, target: TargetOffset, source: SourceOffset) -> None:
        """Drop the notes of a partition from a target offset on: the target lost these records."""
        with self._lock:
            self._count -= part.set_cut(target, source)

    def oldest_note(self, part: PartitionProof) -> Note | None:
        """The first unproven note of a partition, or None; a note that is taken or folded meanwhile counts."""
        with self._lock:
            return part.oldest_note()

    def pop_note(self, part: PartitionProof, *, folded: bool) -> Note | None:
        """Take the first note of a partition, as `PartitionProof.pop_note`."""
        if not part.waiting:
            # The thread of the copier adds notes, and this thread looks again soon.
            return None
        with self._lock:
            before = len(part.waiting)
            note = part.pop_note(folded=folded)
            self._count -= before - len(part.waiting)
            return note

    def take_cut(self, part: PartitionProof) -> tuple[TargetOffset, SourceOffset] | None:
        """Take the position from which a partition lost records, or None."""
        with self._lock:
            return part.pop_cut()
