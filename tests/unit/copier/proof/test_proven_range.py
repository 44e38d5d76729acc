"""The proven range of a partition: a reader of the target alone arrives at its chain, whatever came before it."""

from __future__ import annotations

import random

import pytest

from harness.virtual.log import VirtualLog
from harness.virtual.requests import PRODUCE
from tests.unit.copier.copied import REMOTE, TOPIC, World, part
from tests.unit.copier.proof.test_behind import BEHIND_S, SMALL_ANSWERS, as_gzip, begun, copied_blindly
from tests.unit.copier.proof.test_faults import (
    FAULTS,
    FOUND_S,
    PARTITIONS,
    SINGLY,
    all_proven,
    everywhere,
    frozen,
    noted,
    proving,
    thawed,
)
from twinlog.copier.copier import Copier
from twinlog.copier.proof.partition_proof import Proven
from twinlog.kafka.producer.proof import EMPTY_CHAIN, element_of, extend_chain
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.record.batch import Batch


def proven_of(copier: Copier, number: int = 0) -> Proven:
    proof = copier.partitions[part(number)].copied.proof
    assert proof is not None
    return proof.proven


def within(log: VirtualLog, proven: Proven) -> list[tuple[Batch, bytes]]:
    """The visible batches of the range."""
    return [
        (batch, data)
        for batch, data in log.batches
        if not batch.is_control
        and not log._is_aborted(batch)
        and proven.first_target <= batch.base_offset < proven.target
    ]


def chain_of(log: VirtualLog, proven: Proven) -> str:
    chain = EMPTY_CHAIN
    for batch, data in within(log, proven):
        chain = extend_chain(chain, element_of(memoryview(data)).encode(batch.base_offset))
    return chain.hex()


def require_chain(log: VirtualLog, proven: Proven) -> int:
    """The chain is that of the visible batches of the range, and the counts are theirs; returns the records."""
    records = sum(batch.record_count for batch, _ in within(log, proven))
    assert proven.chain == chain_of(log, proven)
    assert proven.records - proven.records_before == records
    assert proven.bytes - proven.bytes_before == sum(batch.size for batch, _ in within(log, proven))
    return records


@pytest.mark.parametrize("how", [{}, {"producer": SINGLY}], ids=["merged", "singly"])
def test_the_chain_is_that_of_the_log(how: dict[str, dict[str, object]], chance: random.Random) -> None:
    with proving(partitions=PARTITIONS, **how) as (here, found):
        copier = here.begin(*(here.grant(number) for number in range(PARTITIONS)))
        noted(here, copier, found)
        for _ in range(3):
            everywhere(here, copier, chance)
        here.until(lambda: all_proven(here, copier, PARTITIONS))
        for number in range(PARTITIONS):
            log = here.target.log(REMOTE, number)
            proven = proven_of(copier, number)
            assert require_chain(log, proven) == len(log.records())
            assert (proven.first_source, proven.source) == (0, here.source.log(TOPIC, number).end)
        assert len({proven_of(copier, number).range for number in range(PARTITIONS)}) == PARTITIONS


@pytest.mark.parametrize("round_", range(3))
def test_after_a_fault_the_range_begins_behind_it(round_: int, chance: random.Random) -> None:
    with proving(round_, partitions=PARTITIONS) as (here, found):
        copier = here.begin(*(here.grant(number) for number in range(PARTITIONS)))
        noted(here, copier, found)
        everywhere(here, copier, chance)
        here.until(lambda: all_proven(here, copier, PARTITIONS))
        frozen(here, copier)
        everywhere(here, copier, chance)
        before = [len(here.target.log(REMOTE, number).batches) for number in range(PARTITIONS)]
        everywhere(here, copier, chance)
        staged = {}
        for number in range(PARTITIONS):
            log = here.target.log(REMOTE, number)
            place = chance.randrange(before[number], len(log.batches))
            staged[number] = chance.choice(FAULTS)(log, place, chance)
        here.target.news()
        thawed(here)
        here.until(lambda: len(found) == PARTITIONS, FOUND_S)
        everywhere(here, copier, chance)
        here.until(lambda: all_proven(here, copier, PARTITIONS), FOUND_S)
        for number, fault in staged.items():
            proven = proven_of(copier, number)
            assert proven.first_target > fault.first
            assert require_chain(here.target.log(REMOTE, number), proven) > 0
            (one,) = found[part(number)]
            assert (proven.difference_kind, proven.difference_source, proven.difference_target) == one


def test_a_proof_far_behind_has_the_chain_of_the_log(chance: random.Random) -> None:
    """Its notes are folded, and the batches of a row come by many answers."""
    with proving(producer=SINGLY, consumer=SMALL_ANSWERS) as (here, found):
        copier = begun(here)
        noted(here, copier, found)
        copier.proofs._notes._most = 20
        frozen(here, copier)
        copied_blindly(here, copier, 150)
        proof = copier.partitions[part()].copied.proof
        assert proof is not None
        assert max(note.appends for note in proof.waiting) > 100
        here.pass_by(BEHIND_S)
        thawed(here)
        here.until(lambda: all_proven(here, copier), FOUND_S)
        assert require_chain(here.target.log(REMOTE), proven_of(copier)) == 451
        assert found == {}
        # The same with a fault in the row: a range begins behind the row.
        frozen(here, copier)
        copied_blindly(here, copier, 150)
        row = proof.waiting[0]
        log = here.target.log(REMOTE)
        place = chance.randrange(len(log.batches) - 150, len(log.batches) - 30)
        fault = FAULTS[0](log, place, chance)
        thawed(here)
        here.until(lambda: all_proven(here, copier), FOUND_S)
        proven = proven_of(copier)
        assert row.base <= fault.first < row.end == proven.first_target
        assert require_chain(log, proven) > 0
        (one,) = found[part()]
        assert fault.first <= one.target_offset < fault.end


def test_batches_that_the_target_wrote_again_are_in_the_chain_as_they_are_there() -> None:
    with proving(producer=SINGLY) as (here, found):
        copier = begun(here)
        noted(here, copier, found)
        frozen(here, copier)
        copied_blindly(here, copier, 60)
        log = here.target.log(REMOTE)
        # The fetch under way ends with the first batch.
        for place in range(2, len(log.batches)):
            as_gzip(log, place)
        thawed(here)
        here.until(lambda: all_proven(here, copier), FOUND_S)
        proven = proven_of(copier)
        assert (proven.first_target, proven.records) == (0, 181)
        assert proven.chain == chain_of(log, proven)
        assert found == {}


def fed(here: World, chance: random.Random) -> None:
    here.feed([chance.randbytes(20) for _ in range(7)])


@pytest.mark.parametrize("seed", range(4))
def test_aborted_attempts_and_markers_are_in_no_chain(seed: int) -> None:
    chance = random.Random(seed)
    with proving(seed, exactly_once="enabled", transaction_interval_ms=50) as (here, found):
        copier = here.begin()
        noted(here, copier, found)
        for _ in range(6):
            fed(here, chance)
            if chance.random() < 0.4:
                here.target.codes(PRODUCE, REMOTE, Code.OUT_OF_ORDER_SEQUENCE_NUMBER)
            here.pass_by(chance.random() / 4)
        here.until(lambda: len(here.copied(committed=True)) == 42 and proven_of(copier).records == 42, FOUND_S)
        assert require_chain(here.target.log(REMOTE), proven_of(copier)) == 42
        assert found == {}


def test_a_deleted_record_begins_a_range() -> None:
    chance = random.Random(1)
    with proving() as (here, found):
        copier = here.begin()
        noted(here, copier, found)
        fed(here, chance)
        here.until(lambda: all_proven(here, copier) and len(here.copied()) == 7)
        frozen(here, copier)
        for count in (14, 21, 28):
            fed(here, chance)
            here.until(lambda count=count: len(here.copied()) == count)  # type: ignore[misc]
        log = here.target.log(REMOTE)
        log.delete_before(log.batches[-1][0].base_offset)
        thawed(here)
        here.until(lambda: all_proven(here, copier), FOUND_S)
        fed(here, chance)
        here.until(lambda: all_proven(here, copier) and proven_of(copier).source == 35, FOUND_S)
        proven = proven_of(copier)
        assert proven.unproved > 0
        assert proven.first_target >= log.start > 0
        assert require_chain(log, proven) == 35 - proven.first_source
