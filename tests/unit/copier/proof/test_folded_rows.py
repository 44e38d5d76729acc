"""Faults within a row of appends, whose notes were folded: each is a single difference, at its record.

The chain of a row tells that some batch differs. The records themselves tell the batch.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from harness.virtual.log import VirtualLog
from tests.unit.copier.copied import REMOTE, World, part
from tests.unit.copier.proof.test_behind import SMALL_ANSWERS, as_gzip, begun, copied_blindly
from tests.unit.copier.proof.test_faults import (
    FOUND_S,
    SINGLY,
    Found,
    Staged,
    all_proven,
    change,
    damage,
    drop,
    frozen,
    noted,
    proving,
    put,
    swap,
    thawed,
)
from tests.unit.copier.proof.test_proven_range import proven_of, require_chain
from twinlog.copier.copier import Copier
from twinlog.copier.proof.notes import Note
from twinlog.kafka.record.batch import HEADER_SIZE, LENGTH
from twinlog.kafka.record.varint import read_varint

APPENDS = 150
RECORDS = 3
ATTRIBUTES, OFFSET_DELTA = 1, 3
"""The bytes of a short record after the first byte; the timestamp is between them."""

Fault = Callable[[VirtualLog, int, random.Random], Staged]


@contextmanager
def behind(seed: int = 1) -> Iterator[tuple[World, Copier, dict[object, list[Found]], Note]]:
    """A prover that stands still behind a row of 140 appends and some later appends."""
    with proving(seed, producer=SINGLY, consumer=SMALL_ANSWERS) as (here, found):
        copier = begun(here)
        noted(here, copier, found)
        copier.proofs._notes._most = 20
        frozen(here, copier)
        copied_blindly(here, copier, APPENDS)
        proof = copier.partitions[part()].copied.proof
        assert proof is not None
        row = proof.waiting[0]
        assert row.appends > 100
        yield here, copier, found, row  # type: ignore[misc]


def drawn_place(log: VirtualLog, row: Note, chance: random.Random) -> int:
    """A batch within the row, behind the answer that may be on its way to the prover."""
    places = [at for at, (batch, _) in enumerate(log.batches) if row.base + 30 < batch.base_offset < row.end]
    return chance.choice(places)


def field_place(data: bytes, record: int, field: int) -> int:
    at = HEADER_SIZE
    for _ in range(record):
        size, at = read_varint(data, at)
        at += size
    return at + field


def flip(log: VirtualLog, place: int, record: int, field: int, bit: int) -> None:
    _, data = log.batches[place]
    fresh = bytearray(data)
    fresh[field_place(data, record, field)] ^= 1 << bit
    put(log, place, fresh)


def the_difference(here: World, copier: Copier, found: dict[object, list[Found]]) -> Found:
    """The single difference that the prover finds."""
    thawed(here)
    here.until(lambda: all_proven(here, copier), FOUND_S)
    here.pass_by(FOUND_S)
    (one,) = found[part()]
    return one


@pytest.mark.parametrize("record", range(RECORDS))
@pytest.mark.parametrize("bit", range(7))
@pytest.mark.parametrize("field", [ATTRIBUTES, OFFSET_DELTA], ids=["attributes", "offset delta"])
def test_a_bit_that_no_consumer_sees_is_found_at_its_record(
    field: int, bit: int, record: int, chance: random.Random
) -> None:
    with behind() as (here, copier, found, row):
        log = here.target.log(REMOTE)
        place = drawn_place(log, row, chance)
        flip(log, place, record, field, bit)
        at = log.batches[place][0].base_offset + record
        assert the_difference(here, copier, found) == Found("changed", at, at)
        proven = proven_of(copier)
        assert proven.first_target == row.end
        assert require_chain(log, proven) > 0


def test_a_batch_that_no_decoder_reads_is_found_at_its_first_record(chance: random.Random) -> None:
    with behind() as (here, copier, found, row):
        log = here.target.log(REMOTE)
        place = drawn_place(log, row, chance)
        flip(log, place, 1, 0, 5)
        at = log.batches[place][0].base_offset
        assert the_difference(here, copier, found) == Found("changed", at, at)


@pytest.mark.parametrize("round_", range(6))
@pytest.mark.parametrize("fault", [change, damage, drop, swap])
def test_a_fault_in_a_row_is_found_at_its_batch(fault: Fault, round_: int, chance: random.Random) -> None:
    with behind(round_) as (here, copier, found, row):
        log = here.target.log(REMOTE)
        staged = fault(log, drawn_place(log, row, chance), chance)
        one = the_difference(here, copier, found)
        assert one.kind == staged.kind
        assert staged.first <= one.target_offset < staged.end
        assert one.source_offset == one.target_offset


def test_an_impossible_header_in_a_row_is_found_at_its_batch(chance: random.Random) -> None:
    with behind() as (here, copier, found, row):
        log = here.target.log(REMOTE)
        place = drawn_place(log, row, chance)
        batch, data = log.batches[place]
        fresh = bytearray(data)
        fresh[LENGTH] = (7).to_bytes(4, "big")
        log.batches[place] = batch, bytes(fresh)
        at = batch.base_offset
        assert the_difference(here, copier, found) == Found("damaged", at, at)


def test_a_fault_in_a_row_that_the_target_wrote_again_is_found(chance: random.Random) -> None:
    """As with another `compression.type` of the remote topic: the form of all batches differs."""
    with behind() as (here, copier, found, row):
        log = here.target.log(REMOTE)
        place = drawn_place(log, row, chance)
        for number in range(2, len(log.batches)):
            if number != place:
                as_gzip(log, number)
        flip(log, place, 1, ATTRIBUTES, 2)
        at = log.batches[place][0].base_offset + 1
        assert the_difference(here, copier, found) == Found("changed", at, at)


def test_a_foreign_record_between_the_appends_of_a_row_is_named_as_foreign() -> None:
    with behind() as (here, copier, found, _):
        log = here.target.log(REMOTE)
        first = log.end
        log.write(b"foreign")
        here.target.news()
        copied_blindly(here, copier, APPENDS)
        proof = copier.partitions[part()].copied.proof
        assert proof is not None
        assert not any(note.base < first < note.end for note in proof.waiting)
        assert the_difference(here, copier, found) == Found("foreign", first, first)
        assert proven_of(copier).records == 1 + 2 * RECORDS * APPENDS
