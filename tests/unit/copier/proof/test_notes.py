"""Notes of appends: their order, their limit, and what becomes of them when the copying goes back."""

from __future__ import annotations

import random
from collections import deque

from twinlog.copier.proof.comparing import ProofCursor, ProofDifference, RemoteBatch, Suspicion, matches
from twinlog.copier.proof.notes import MOST_ROW, MOST_SPANS, Note, fold_notes
from twinlog.copier.proof.partition_proof import MOST_NOTES, PartitionProof, ProofNotes
from twinlog.kafka.producer.appends import Append
from twinlog.kafka.producer.proof import EMPTY_CHAIN, Element, extend_chain
from twinlog.mirror.offsets.positions import Position
from twinlog.model.types import SourceOffset, TargetOffset, TopicName, TopicPartition

SOURCE, REMOTE = TopicPartition(TopicName("t"), 0), TopicPartition(TopicName("north.t"), 0)
MISSING = ProofDifference("missing", SourceOffset(2), TargetOffset(2))


def element(number: int, count: int = 2) -> Element:
    return Element(count, 80, 0, 5, number)


def append(source: int, count: int = 2, *, known: bool = True) -> Append:
    first = SourceOffset(source)
    made = Append(bytearray(10), count, first, SourceOffset(source + count), 0, ((first, count),))
    made.element = element(source, count) if known else None
    return made


def opened(
    next_target: int | None = 0, *, most: int = MOST_NOTES, transactional: bool = False, markers: bool = False
) -> tuple[ProofNotes, PartitionProof]:
    notes = ProofNotes(lambda: 7.0, most)
    position = Position(SourceOffset(0), None if next_target is None else TargetOffset(next_target))
    proof = notes.open_partition(
        SOURCE, REMOTE, position, transactional=transactional, markers=markers or transactional, reports=True
    )
    return notes, proof


def stored(base: int, of: int, count: int = 2) -> RemoteBatch:
    return RemoteBatch(TargetOffset(base), TargetOffset(base + count), count, element(of, count), 1, 7.0)


def read(cursor: ProofCursor, *batches: RemoteBatch) -> Suspicion | None:
    """Compare after these batches were read."""
    cursor._unmatched.extend(batches)
    if batches:
        cursor.position = batches[-1].end
    return cursor.compare(7.0, -1.0)


def test_appends_are_proven_in_their_order() -> None:
    _, proof = opened(10)
    cursor = ProofCursor(SOURCE, proof)
    proof.add_append(append(0), TargetOffset(10))
    assert read(cursor) is None
    assert cursor.position == 10
    assert proof.lag_s(9.0) == 2.0
    assert read(cursor, stored(10, 0), stored(12, 2)) is None
    assert (proof.proven.source, proof.proven.target, proof.proven.records) == (2, 12, 2)
    chain = proof.proven.chain
    proof.add_append(append(2), TargetOffset(12))
    assert read(cursor) is None
    assert (proof.proven.source, proof.proven.target, proof.proven.records) == (4, 14, 4)
    assert proof.proven.chain != chain
    assert proof.lag_s(9.0) == 0.0
    assert proof.take_progress().records == 4
    assert proof.take_progress().records == 0


def test_a_new_topic_begins_at_its_first_append() -> None:
    _, proof = opened(None)
    cursor = ProofCursor(SOURCE, proof)
    assert read(cursor) is None
    assert cursor.fetch_position(0) is None
    proof.add_append(append(0), TargetOffset(40))
    assert read(cursor) is None
    assert cursor.position == 40


def test_another_batch_a_missing_one_and_one_too_many_are_suspicious() -> None:
    _, proof = opened()
    cursor = ProofCursor(SOURCE, proof)
    proof.add_append(append(0), TargetOffset(0))
    proof.add_append(append(2), TargetOffset(2))
    changed = read(cursor, stored(0, 99))
    assert changed is not None
    assert (changed.note, changed.surplus) == (cursor.note, None)
    assert cursor.note is not None
    cursor.accept_note(cursor.note, [stored(0, 99)])
    missing = read(cursor, stored(4, 4))
    assert missing is not None
    assert missing.note is not None
    assert missing.note.base == 2
    cursor.pass_difference(MISSING, missing.note, None)
    proven = proof.proven
    assert (proven.differences, proven.difference_kind) == (1, "missing")
    assert (proven.difference_source, proven.difference_target) == (2, 2)
    assert (proven.first_source, proven.first_target, proven.chain) == (4, 4, EMPTY_CHAIN.hex())
    assert cursor.compare(7.0, -1.0) is None
    assert cursor.compare(11.0, -1.0) == Suspicion(None, stored(4, 4))


def test_notes_of_a_transaction_wait_for_its_commit() -> None:
    _, proof = opened(transactional=True)
    proof.add_append(append(0), TargetOffset(0))
    assert not proof.waiting
    proof.abort()
    proof.move_position(Position(SourceOffset(0), TargetOffset(0)))
    proof.add_append(append(0), TargetOffset(3))
    proof.commit(Position(SourceOffset(2), TargetOffset(6)))
    assert [note.base for note in proof.waiting] == [3]
    proof.move_position(Position(SourceOffset(2), TargetOffset(6)))
    assert len(proof.waiting) == 1


def test_lost_records_leave_the_proof_and_found_ones_are_unproved() -> None:
    notes, proof = opened()
    cursor = ProofCursor(SOURCE, proof)
    for source in (0, 2, 4):
        proof.add_append(append(source), TargetOffset(source))
    assert read(cursor, stored(0, 0), stored(2, 2), stored(4, 4)) is None
    assert proof.proven.target == 6
    proof.add_append(append(6), TargetOffset(6))
    proof.move_position(Position(SourceOffset(4), TargetOffset(4)))
    assert notes.count == 0
    assert read(cursor) is None
    assert (cursor.position, proof.proven.target, proof.proven.source) == (4, 4, 4)
    # Another copier's records were found there.
    proof.move_position(Position(SourceOffset(8), TargetOffset(8)))
    assert read(cursor, stored(4, 77), stored(6, 78)) is None
    assert (proof.proven.target, proof.proven.source, proof.proven.unproved) == (8, 8, 4)
    assert (proof.proven.first_target, proof.proven.first_source) == (8, 8)
    assert (proof.proven.records_before, proof.proven.chain) == (6, EMPTY_CHAIN.hex())


def test_a_surplus_batch_ends_the_proven_range_before_it() -> None:
    _, proof = opened()
    cursor = ProofCursor(SOURCE, proof)
    proof.add_append(append(0), TargetOffset(0))
    assert read(cursor, stored(0, 0), stored(2, 77)) is None
    foreign = ProofDifference("foreign", SourceOffset(2), TargetOffset(2))
    cursor.pass_difference(foreign, None, stored(2, 77))
    proof.add_append(append(2), TargetOffset(4))
    assert read(cursor, stored(4, 2)) is None
    proven = proof.proven
    assert (proven.first_source, proven.first_target, proven.source, proven.target) == (2, 4, 4, 6)
    assert (proven.records, proven.records_before) == (4, 2)
    assert proven.chain == extend_chain(EMPTY_CHAIN, element(2).encode(4)).hex()


def test_a_note_under_comparison_counts_as_unproven_all_the_time() -> None:
    _, proof = opened()
    assert proof.lag_ms(7.0) == 0
    proof.add_append(append(0), TargetOffset(0))
    # Even an append of this very moment is unproven.
    assert proof.lag_ms(7.0) == 1
    assert proof.take_note() is not None
    assert (proof.behind, proof.lag_ms(9.0)) == (True, 2000)
    proof.end_note()
    assert (proof.behind, proof.lag_ms(9.0)) == (False, 0)


def test_above_the_limit_notes_are_folded_and_prove_the_same() -> None:
    chance = random.Random(3)
    notes, proof = opened(most=50)
    cursor = ProofCursor(SOURCE, proof)
    batches = []
    for number in range(0, 400, 2):
        proof.add_append(append(number), TargetOffset(number))
        batches.append(stored(number, number))
        assert notes.count <= 50
    assert any(note.head is not None for note in proof.waiting)
    while batches:
        some = chance.randrange(1, 9)
        assert read(cursor, *batches[:some]) is None
        del batches[:some]
    assert (proof.proven.source, proof.proven.target, proof.proven.records) == (400, 400, 400)
    assert notes.count == 0
    # A reader of the target, who knows nothing of notes, arrives at the same chain.
    chain = EMPTY_CHAIN
    for number in range(0, 400, 2):
        chain = extend_chain(chain, element(number).encode(number))
    assert proof.proven.chain == chain.hex()


def chain_over(numbers: range) -> str:
    """The chain of a reader of the target over appends at these offsets."""
    chain = EMPTY_CHAIN
    for number in numbers:
        chain = extend_chain(chain, element(number).encode(number))
    return chain.hex()


def folded_row(appends: int) -> tuple[PartitionProof, ProofCursor]:
    """A single append is proven, and a row of later appends waits as one note."""
    _, proof = opened()
    cursor = ProofCursor(SOURCE, proof)
    cursor.rewritten = True
    proof.add_append(append(0), TargetOffset(0))
    assert read(cursor, stored(0, 0)) is None
    cursor.rewritten = True
    for number in range(2, 2 + 2 * appends, 2):
        proof.add_append(append(number), TargetOffset(number))
    return proof, cursor


def test_notes_that_are_taken_as_a_row_are_counted() -> None:
    notes, proof = opened()
    for number in range(0, 20, 2):
        proof.add_append(append(number), TargetOffset(number))
    row = proof.take_note(folded=True)
    assert row is not None
    assert (row.appends, notes.count, proof.behind) == (10, 0, True)
    proof.end_note()
    assert not proof.behind


def test_a_row_that_is_read_again_has_its_batches_once_in_the_chain() -> None:
    proof, cursor = folded_row(9)
    assert read(cursor, *(stored(at, at) for at in range(2, 12, 2))) is None
    assert (proof.proven.target, proof.proven.chain) == (2, chain_over(range(0, 2, 2)))
    cursor.read_again(TargetOffset(12))
    assert read(cursor, *(stored(at, at) for at in range(2, 20, 2))) is None
    assert (proof.proven.target, proof.proven.chain) == (20, chain_over(range(0, 20, 2)))
    assert (proof.proven.first_target, proof.proven.records) == (0, 20)


def test_a_row_with_a_difference_leaves_nothing_in_the_chain() -> None:
    proof, cursor = folded_row(5)
    batches = [stored(at, at) for at in range(2, 12, 2)]
    doubt = read(cursor, *batches[:2], batches[2]._replace(element=None), *batches[3:])
    assert doubt is not None
    assert doubt.note is not None
    assert (doubt.note.appends, proof.proven.chain) == (5, chain_over(range(0, 2, 2)))
    cursor.pass_difference(MISSING, doubt.note, None)
    proven = proof.proven
    assert (proven.first_target, proven.first_source, proven.chain) == (12, 12, EMPTY_CHAIN.hex())
    assert (proven.differences, proven.unproved, proven.records, proven.records_before) == (1, 10, 2, 2)
    proof.add_append(append(12), TargetOffset(12))
    assert read(cursor, stored(12, 12)) is None
    assert proof.proven.chain == chain_over(range(12, 14, 2))


def test_a_row_that_the_target_wrote_again_has_the_batches_of_the_target_in_the_chain() -> None:
    proof, cursor = folded_row(5)
    there = [stored(at, at + 100) for at in range(2, 12, 2)]
    doubt = read(cursor, *there)
    assert doubt is not None
    assert doubt.note is not None
    # All of them were read again, and have the same records.
    cursor.accept_note(doubt.note, there)
    chain = bytes.fromhex(chain_over(range(0, 2, 2)))
    for at in range(2, 12, 2):
        chain = extend_chain(chain, element(at + 100).encode(at))
    proven = proof.proven
    assert (proven.chain, proven.first_target, proven.target, proven.records) == (chain.hex(), 0, 12, 12)


def test_records_out_of_the_proof_begin_a_range_unless_all_of_them_are_hidden() -> None:
    _, proof = opened()
    cursor = ProofCursor(SOURCE, proof)
    proof.add_append(append(0), TargetOffset(0))
    assert read(cursor, stored(0, 0)) is None
    first = proof.proven
    # The copier found markers only.
    proof.move_position(Position(SourceOffset(3), TargetOffset(4)))
    cursor.position = TargetOffset(4)
    assert cursor.compare(7.0, -1.0) is None
    assert (proof.proven.range, proof.proven.chain, proof.proven.target) == (first.range, first.chain, 4)
    assert (proof.proven.bytes, proof.proven.unproved) == (first.bytes, 0)
    # An open transaction hides the records that the copier found here: a later reader may see them.
    proof.move_position(Position(SourceOffset(5), TargetOffset(6)))
    cursor.at_end = True
    doubt = cursor.compare(60.0, 60.0)
    assert doubt is not None
    assert doubt.note is not None
    cursor.leave_out_note(doubt.note)
    assert proof.proven.range != first.range
    assert (proof.proven.first_target, proof.proven.target, proof.proven.chain) == (6, 6, EMPTY_CHAIN.hex())


def test_a_difference_within_a_folded_row_is_suspicious() -> None:
    notes = deque(
        Note(
            TargetOffset(at),
            TargetOffset(at + 2),
            SourceOffset(at + 2),
            2,
            9,
            7.0,
            ((SourceOffset(at), 2),),
            element(at),
        )
        for at in range(0, 20, 2)
    )
    assert fold_notes(notes, 100, gapless=True) == 9
    (row,) = notes
    assert (row.base, row.end, row.records, row.spans) == (0, 20, 20, ((0, 20),))
    rows = [stored(at, at) for at in range(0, 20, 2)]
    assert matches(row, rows)
    assert not matches(row, rows[:-1])
    assert not matches(row, [*rows[1:], rows[0]])
    assert not matches(row, [*rows[:3], rows[3]._replace(element=None), *rows[4:]])


def test_unproved_records_are_not_folded() -> None:
    notes, proof = opened(most=20)
    for number in range(0, 60, 2):
        proof.add_append(append(number, known=number % 10 != 0), TargetOffset(number))
    unproved = [note.base for note in proof.waiting if note.unproved]
    assert unproved == [0, 10, 20, 30, 40, 50]
    assert notes.close_partition(SOURCE) == 48


def test_a_source_with_holes_leaves_a_row_with_few_runs() -> None:
    """A proof far behind keeps its memory, and folds in a time that does not grow."""
    _, proof = opened(most=50)
    cursor = ProofCursor(SOURCE, proof)
    for number in range(0, 2_000, 2):
        proof.add_append(append(2 * number), TargetOffset(number))
    assert all(len(note.spans) <= MOST_SPANS for note in proof.waiting)
    row = proof.waiting[0]
    assert (row.first_source, sum(row.spans[-1])) == (0, 2 * row.end - 2)
    # The batches of a row are not kept either.
    assert read(cursor, *(stored(at, 2 * at) for at in range(0, row.end - 2, 2))) is None
    assert cursor._row == []
    assert read(cursor, *(stored(at, 2 * at) for at in range(row.end - 2, 2_000, 2))) is None
    assert (proof.proven.target, proof.proven.records) == (2_000, 2_000)


def test_a_row_ends_at_its_limit() -> None:
    notes = deque(
        Note(
            *(TargetOffset(at), TargetOffset(at + 2), SourceOffset(at + 2), 2, 9, 7.0, ((SourceOffset(at), 2),)),
            element=element(at),
        )
        for at in range(0, 2 * MOST_ROW + 20, 2)
    )
    fold_notes(notes, len(notes), gapless=False)
    assert [(note.base, note.appends) for note in notes] == [(0, MOST_ROW), (2 * MOST_ROW, 10)]


def test_notes_that_do_not_fold_leave_the_proof() -> None:
    """As with the fillers of identical offsets between all appends."""
    notes, proof = opened(most=50)
    for number in range(0, 4_000, 2):
        proof.add_append(append(number, known=number % 4 != 0), TargetOffset(number))
        assert notes.count <= 50
    assert notes.count == len(proof.waiting)
    cursor = ProofCursor(SOURCE, proof)
    assert read(cursor, *(stored(at, at) for at in range(0, 4_000, 2))) is None
    assert proof.proven.target == 4_000
    assert proof.proven.records + proof.proven.unproved <= 4_000
    assert proof.proven.unproved > 1_900


def test_a_batch_is_missing_only_at_the_end_of_the_log() -> None:
    """A proof that lags behind has not read so far."""
    _, proof = opened()
    cursor = ProofCursor(SOURCE, proof)
    proof.add_append(append(0), TargetOffset(0))
    assert cursor.compare(60.0, 60.0) is None
    cursor.at_end = True
    assert cursor.compare(60.0, 8.0) is None
    assert cursor.compare(60.0, 60.0) == Suspicion(cursor.note)
    # The leader was asked for this append alone.
    assert cursor.note is not None
    cursor.look_past(cursor.note, TargetOffset(4))
    cursor.accept_note(cursor.note, [stored(0, 0)])
    proof.add_append(append(2), TargetOffset(2))
    assert cursor.compare(60.0, 60.0) is None
    assert cursor.note is not None
    cursor.look_past(cursor.note, TargetOffset(4))
    cursor.accept_note(cursor.note, [stored(2, 2)])
    proof.add_append(append(4), TargetOffset(4))
    assert cursor.compare(60.0, 60.0) == Suspicion(cursor.note)


def test_the_first_note_of_a_new_topic_comes_at_any_time() -> None:
    _, proof = opened(None)
    cursor = ProofCursor(SOURCE, proof)
    assert not cursor.has_work
    take = proof.take_note

    def late(*, folded: bool = False) -> Note | None:
        proof.take_note = take  # type: ignore[method-assign]
        proof.add_append(append(0), TargetOffset(40))
        return take(folded=folded)

    proof.take_note = late  # type: ignore[method-assign]
    assert cursor.compare(7.0, -1.0) is None
    assert cursor.position == 40


def test_a_released_partition_takes_no_more_notes() -> None:
    notes, proof = opened()
    proof.add_append(append(0), TargetOffset(0))
    assert notes.close_partition(SOURCE) == 2
    proof.add_append(append(2), TargetOffset(2))
    assert (notes.count, list(proof.waiting)) == (0, [])


def test_a_cut_within_a_row_keeps_what_is_before_it() -> None:
    notes, proof = opened(most=5)
    for number in range(0, 20, 2):
        proof.add_append(append(number), TargetOffset(number))
    proof.move_position(Position(SourceOffset(3), TargetOffset(3)))
    assert [(note.base, note.end, note.unproved) for note in proof.waiting][-1] == (0, 3, True)
    assert notes.count == len(proof.waiting)


def test_a_note_after_a_cut_comes_after_the_cut() -> None:
    """The broker refuses a fetch behind the end of a log that became shorter, while the copier copies again."""
    _, proof = opened()
    cursor = ProofCursor(SOURCE, proof)
    proof.add_append(append(0), TargetOffset(0))
    assert read(cursor, stored(0, 0)) is None
    proof.move_position(Position(SourceOffset(0), TargetOffset(1)))
    proof.add_append(append(0), TargetOffset(1))
    assert proof.take_note() is None
    cursor.skip_deleted(TargetOffset(0))
    assert cursor.compare(7.0, -1.0) is None
    assert (cursor.position, proof.proven.target) == (1, 1)
    assert read(cursor, stored(1, 0)) is None
    assert (proof.proven.source, proof.proven.target, proof.behind) == (2, 3, False)


def test_a_hole_between_appends_ends_a_row() -> None:
    """Another program writes between the appends of the copier; within transactions the markers lie there."""
    for markers in (False, True):
        _, proof = opened(markers=markers)
        for number in range(0, 20, 2):
            proof.add_append(append(number), TargetOffset(number + number // 8))
        rows = []
        while (row := proof.take_note(folded=True)) is not None:
            rows.append((row.base, row.end, row.appends))
        assert rows == ([(0, 22, 10)] if markers else [(0, 8, 4), (9, 17, 4), (18, 22, 2)])
