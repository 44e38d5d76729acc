"""Notes about the acknowledged appends of a copier: the prover compares the remote logs with these notes.

Many waiting notes are folded: a row of appends becomes a single note with a chain over the elements of the appends.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from twinlog.kafka.producer.proof import EMPTY_CHAIN, Element, extend_chain
from twinlog.model.types import SourceOffset, TargetOffset

MOST_ROW = 16_384
"""The appends of a folded note: after a suspicion all of them are read again."""

MOST_SPANS = 64
"""A note with more runs of source offsets keeps a single run around all of them: its memory stays bounded."""

Spans = tuple[tuple[SourceOffset, int], ...]
"""The source offsets of records, as runs of (first offset, count)."""


@dataclass(frozen=True, slots=True)
class Note:
    """Copied records at the target offsets from `base` to below `end`; markers of transactions may lie between them.

    `spans` are their source offsets, and `next_source` is the position after them. `element` identifies a single
    append. `head` is the chain over the elements of a row of `appends`. Without both the records are out of
    the proof, and `records` is 0 while their number is unknown. The target acknowledged the records at `at` (monotonic
    seconds).
    """

    base: TargetOffset
    end: TargetOffset
    next_source: SourceOffset
    records: int
    size: int
    at: float
    spans: Spans = ()
    element: Element | None = None
    head: bytes | None = None
    appends: int = 1

    @property
    def unproved(self) -> bool:
        """Whether the records are out of the proof."""
        return self.element is None and self.head is None

    @property
    def first_source(self) -> SourceOffset:
        """The source offset of the first record; else the position after the records."""
        return self.spans[0][0] if self.spans else self.next_source

    def source_after(self, records: int) -> SourceOffset:
        """The source offset of the record after so many records of the note; a lower bound for a run around others."""
        for first, count in self.spans:
            if records < count:
                return SourceOffset(first + records)
            records -= count
        return self.next_source

    def followed_by(self, later: Note) -> Note:
        """Fold this note and a single later append."""
        assert later.element is not None
        head = self.head
        if head is None:
            assert self.element is not None
            head = extend_chain(EMPTY_CHAIN, self.element.encode(self.base))
        return Note(
            self.base,
            later.end,
            later.next_source,
            self.records + later.records,
            self.size + later.size,
            self.at,
            few_spans(_joined(self.spans, later.spans)),
            head=extend_chain(head, later.element.encode(later.base)),
            appends=self.appends + 1,
        )


def few_spans(spans: Spans) -> Spans:
    """The runs, or a single run around all of them if they are too many."""
    if len(spans) <= MOST_SPANS:
        return spans
    first = spans[0][0]
    return ((first, sum(spans[-1]) - first),)


def _joined(spans: Spans, later: Spans) -> Spans:
    (first, count), (next_first, next_count) = spans[-1], later[0]
    if first + count != next_first:
        return (*spans, *later)
    return (*spans[:-1], (first, count + next_count), *later[1:])


def _left_out(first: Note, last: Note, records: int) -> Note:
    """A note without proof over the range of two notes and all notes between them."""
    return Note(first.base, last.end, last.next_source, records, 0, first.at)


def fold_notes(notes: deque[Note], most: int, *, gapless: bool) -> int:
    """Fold each row of appends among the first `most` notes; returns the number of notes less.

    With `gapless` a hole in the target offsets ends a row: the hole has records of another program.
    """
    before = len(notes)
    folded: list[Note] = []
    for _ in range(min(most, before)):
        note = notes.popleft()
        last = folded[-1] if folded else None
        if last is None or last.unproved != note.unproved:
            folded.append(note)
        elif note.unproved:
            folded[-1] = _left_out(last, note, last.records + note.records)
        elif note.element is not None and last.appends < MOST_ROW and (last.end == note.base or not gapless):
            folded[-1] = last.followed_by(note)
        else:
            folded.append(note)
    notes.extendleft(reversed(folded))
    return before - len(notes)


def leave_out_notes(notes: deque[Note], most: int) -> int:
    """Take the first `most` notes out of the proof, as a single note; returns the number of notes less."""
    gone = [notes.popleft() for _ in range(min(most, len(notes)))]
    notes.appendleft(_left_out(gone[0], gone[-1], sum(note.records for note in gone)))
    return len(gone) - 1
