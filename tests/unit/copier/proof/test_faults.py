"""Faults in a remote log, drawn: the prover finds each of them, names it on both sides, and finds nothing else."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from harness.virtual.faults import Fault
from harness.virtual.log import VirtualLog
from harness.virtual.requests import FETCH, PRODUCE
from tests.unit.copier.copied import REMOTE, TOPIC, World, part, world
from twinlog.copier.copier import Copier
from twinlog.copier.proof.comparing import ProofDifference
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.record.batch import CRC, CRC_START, HEADER_SIZE, Batch, checksum_of, read_batch
from twinlog.kafka.record.builder import encode_batch, record_body
from twinlog.kafka.record.compression import CODECS
from twinlog.kafka.record.records import record_bodies
from twinlog.kafka.record.stamp import stamp
from twinlog.lease.progress import DifferenceKind
from twinlog.model.types import TopicPartition

PARTITIONS = 40
ROUNDS = 25
"""Together a thousand faults."""

USUAL = 6
"""The rounds of `make test`."""

FOUND_S = 10.0

SINGLY = {"merge_batch_bytes": 0}


class Staged(NamedTuple):
    """A fault in a remote partition: what is to be found, at which target offsets."""

    kind: DifferenceKind
    first: int
    end: int


class Found(NamedTuple):
    kind: str
    source_offset: int
    target_offset: int


@contextmanager
def proving(seed: int = 1, **how: Any) -> Iterator[tuple[World, dict[TopicPartition, list[Found]]]]:
    """A world whose copiers prove, and what they find, by source partition."""
    how = {"proof": True, "difference_policy": "report", **how}
    found: dict[TopicPartition, list[Found]] = {}
    with world(seed, **how) as here:
        try:
            yield here, found
        finally:
            # Provers end on loops of their own.
            thawed(here)
            for copier in here.copiers:
                here.crash(copier)
            here.pass_by(0.1)


def noted(here: World, copier: Copier, found: dict[TopicPartition, list[Found]]) -> None:
    """Note each difference that a copier is told."""
    take = copier.proofs._take_difference

    def note(source: TopicPartition, difference: ProofDifference) -> None:
        error = difference.as_error(source, part(source.partition, REMOTE))
        found.setdefault(source, []).append(Found(error.kind, error.source_offset, error.target_offset))
        take(source, difference)

    copier.proofs._take_difference = note  # type: ignore[method-assign]


def frozen(here: World, copier: Copier) -> None:
    """The prover stands still from now on."""
    assert copier.proofs._loop is not None
    here.loop.world.frozen.add(copier.proofs._loop)  # type: ignore[arg-type]


def thawed(here: World) -> None:
    here.loop.world.frozen.clear()


def proven(copier: Copier, number: int = 0) -> int:
    proof = copier.partitions[part(number)].copied.proof
    assert proof is not None
    return int(proof.proven.target)


def all_proven(here: World, copier: Copier, partitions: int = 1) -> bool:
    return all(proven(copier, one) == here.target.log(REMOTE, one).end for one in range(partitions))


# What may become of a log.


def put(log: VirtualLog, place: int, data: bytes | bytearray) -> Batch:
    """A batch with a right checksum in the place of another one, which keeps its offset."""
    fresh = bytearray(data)
    struct.pack_into(">q", fresh, 0, log.batches[place][0].base_offset)
    fresh[CRC] = checksum_of(memoryview(fresh)[CRC_START:]).to_bytes(4, "big")
    batch = read_batch(fresh, 0)
    assert batch is not None
    log.batches[place] = (batch, bytes(fresh))
    return batch


def flipped(data: bytes, chance: random.Random) -> bytearray:
    """With another bit among the records."""
    fresh = bytearray(data)
    bit = chance.randrange((len(data) - HEADER_SIZE) * 8)
    fresh[HEADER_SIZE + bit // 8] ^= 1 << bit % 8
    return fresh


def change(log: VirtualLog, place: int, chance: random.Random) -> Staged:
    batch, data = log.batches[place]
    put(log, place, flipped(data, chance))
    return Staged("changed", batch.base_offset, batch.last_offset + 1)


def damage(log: VirtualLog, place: int, chance: random.Random) -> Staged:
    batch, data = log.batches[place]
    log.batches[place] = (batch, bytes(flipped(data, chance)))
    return Staged("damaged", batch.base_offset, batch.last_offset + 1)


def drop(log: VirtualLog, place: int, _chance: random.Random) -> Staged:
    batch, _ = log.batches.pop(place)
    return Staged("missing", batch.base_offset, batch.last_offset + 1)


def double(log: VirtualLog, _place: int, _chance: random.Random) -> Staged:
    """The last batch once more, past the broker's look at its sequence numbers."""
    first = log.end
    log._add(log.batches[-1][1])
    return Staged("doubled", first, log.end)


def intrude(log: VirtualLog, _place: int, _chance: random.Random) -> Staged:
    first = log.end
    log.write(b"foreign")
    return Staged("foreign", first, log.end)


def swap(log: VirtualLog, place: int, chance: random.Random) -> Staged:
    """Two records of a batch change places; of a single one a bit changes."""
    batch, data = log.batches[place]
    records = [(at, body) for _, at, body in record_bodies(memoryview(data), batch)]
    if len({body for _, body in records}) < 2:
        return change(log, place, chance)
    while True:
        one, other = chance.sample(range(len(records)), 2)
        if records[one] != records[other]:
            break
    records[one], records[other] = records[other], records[one]
    fresh = encode_batch(records, batch.codec)
    stamp(fresh, batch.producer_id, batch.producer_epoch, batch.base_sequence)
    put(log, place, fresh)
    return Staged("changed", batch.base_offset + min(one, other), batch.base_offset + min(one, other) + 1)


FAULTS: Sequence[Callable[[VirtualLog, int, random.Random], Staged]] = (change, damage, drop, double, intrude, swap)


def traffic(here: World, chance: random.Random, number: int) -> None:
    """Batches of one to four records in any codec."""
    log = here.source.log(TOPIC, number)
    for _ in range(chance.randrange(2, 6)):
        values = [chance.randbytes(chance.randrange(1, 60)) for _ in range(chance.randrange(1, 5))]
        records = [(chance.randrange(9), record_body(chance.choice([None, b"k"]), value)) for value in values]
        data = encode_batch(records, chance.choice([0, 0, 0, *CODECS.values()]))
        stamp(data, -1, -1, -1)
        log.append(bytes(data))
    here.source.news()


def everywhere(here: World, copier: Copier, chance: random.Random) -> None:
    """Some traffic in each partition, copied as a whole."""
    for number in range(PARTITIONS):
        traffic(here, chance, number)
    here.until(
        lambda: all(
            copier.partitions[part(one)].acknowledged.next_source == here.source.log(TOPIC, one).end
            for one in range(PARTITIONS)
        )
    )


@pytest.mark.parametrize(
    "round_", [*range(USUAL), *(pytest.param(one, marks=pytest.mark.scenario) for one in range(USUAL, ROUNDS))]
)
def test_a_thousand_faults_are_found_and_none_is_false(round_: int, chance: random.Random) -> None:
    with proving(round_, partitions=PARTITIONS, producer=SINGLY if round_ % 2 else {}) as (here, found):
        copier = here.begin(*(here.grant(number) for number in range(PARTITIONS)))
        noted(here, copier, found)
        everywhere(here, copier, chance)
        here.until(lambda: all_proven(here, copier, PARTITIONS))
        frozen(here, copier)
        # An answer may be on its way to the prover, with the first records that come.
        everywhere(here, copier, chance)
        before = [len(here.target.log(REMOTE, number).batches) for number in range(PARTITIONS)]
        everywhere(here, copier, chance)
        staged = {}
        for number in range(PARTITIONS):
            log = here.target.log(REMOTE, number)
            place = chance.randrange(before[number], len(log.batches))
            staged[part(number)] = chance.choice(FAULTS)(log, place, chance)
        here.target.news()
        thawed(here)
        here.until(lambda: len(found) == PARTITIONS, FOUND_S)
        everywhere(here, copier, chance)
        here.pass_by(FOUND_S)
        for source, fault in staged.items():
            (one,) = found[source]
            assert one.kind == fault.kind, (source, one, fault)
            assert fault.first <= one.target_offset < fault.end, (source, one, fault)
            if fault.kind in ("foreign", "doubled"):
                # Nothing of it is on the source: what is named comes after all copies before it.
                assert one.source_offset <= here.source.log(TOPIC, source.partition).end
            else:
                assert one.source_offset == one.target_offset, "copies and sources have the same offsets here"
        assert all_proven(here, copier, PARTITIONS)
        assert here.failures == []
        assert here.held == []
        assert sum(copier.tally.differences.values()) == PARTITIONS
        counted = sum(kind == "difference" for kind, _ in here.events)
        assert counted == PARTITIONS


# What is no difference.


def test_the_same_records_in_another_form_are_proven(chance: random.Random) -> None:
    """As with another `compression.type` of the remote topic."""
    with proving() as (here, found):
        copier = here.begin()
        noted(here, copier, found)
        here.feed([b"%d" % number for number in range(9)])
        here.until(lambda: all_proven(here, copier) and len(here.copied()) == 9)
        frozen(here, copier)
        here.feed([b"%d" % number for number in range(9)])
        here.until(lambda: len(here.copied()) == 18)
        here.feed([b"%d" % number for number in range(9, 18)])
        here.until(lambda: len(here.copied()) == 27)
        log = here.target.log(REMOTE)
        batch, data = log.batches[-1]
        records = [(at, body) for _, at, body in record_bodies(memoryview(data), batch)]
        fresh = encode_batch(records, CODECS["gzip"])
        stamp(fresh, batch.producer_id, batch.producer_epoch, batch.base_sequence)
        put(log, len(log.batches) - 1, fresh)
        thawed(here)
        here.until(lambda: all_proven(here, copier), FOUND_S)
        assert found == {}


@pytest.mark.parametrize("policy", ["delete", "compact", "compact,delete"])
def test_what_the_target_deletes_or_compacts_is_out_of_the_proof(policy: str) -> None:
    with proving() as (here, found):
        here.target.topics.configs[REMOTE]["cleanup.policy"] = policy
        copier = here.begin()
        noted(here, copier, found)
        here.feed([b"%d" % number for number in range(9)])
        here.until(lambda: all_proven(here, copier) and len(here.copied()) == 9)
        frozen(here, copier)
        for _ in range(2):
            for number in range(4):
                here.feed([b"%d" % number] * 3)
                here.until(lambda: copier.partitions[part()].acknowledged.next_source == here.source.log(TOPIC).end)
        log = here.target.log(REMOTE)
        if "compact" in policy:
            log.batches.pop(len(log.batches) // 2)
        if "delete" in policy:
            log.delete_before(log.batches[-2][0].base_offset)
        thawed(here)
        here.until(lambda: all_proven(here, copier), FOUND_S)
        here.feed([b"last"])
        here.until(lambda: all_proven(here, copier), FOUND_S)
        assert found == {}
        proof = copier.partitions[part()].copied.proof
        assert proof is not None
        assert proof.proven.unproved > 0


def test_a_bit_on_the_way_to_the_prover_is_no_difference() -> None:
    """An answer that is damaged once is read again."""
    with proving() as (here, found):
        copier = here.begin()
        noted(here, copier, found)
        here.feed([b"%d" % number for number in range(9)])
        here.until(lambda: all_proven(here, copier) and len(here.copied()) == 9)
        log = here.target.log(REMOTE)
        frozen(here, copier)
        for count, value in ((10, b"y"), (11, b"x" * 50)):
            here.feed([value])
            here.until(lambda count=count: len(here.copied()) == count)  # type: ignore[misc]
        whole = log.batches[-1]
        batch, data = whole
        log.batches[-1] = (batch, bytes(flipped(data, random.Random(1))))
        thawed(here)

        def mended() -> bool:
            cursor = next(iter(copier.proofs._prover._cursors.values()))  # type: ignore[union-attr]
            if cursor.suspended:
                log.batches[-1] = whole
            return all_proven(here, copier)

        here.until(mended, FOUND_S)
        assert found == {}


@pytest.mark.parametrize("seed", range(12))
def test_crashes_and_troubles_of_the_target_are_no_difference(seed: int) -> None:
    chance = random.Random(seed)
    with proving(seed, partitions=2, brokers=2) as (here, found):
        copier = here.begin(here.grant(0), here.grant(1))
        noted(here, copier, found)
        for _ in range(6):
            for number in range(2):
                here.feed([chance.randbytes(20) for _ in range(7)], number=number)
            match chance.randrange(5):
                case 0:
                    here.target.fault(PRODUCE, Fault(lost=True, done=chance.random() < 0.5), topic=REMOTE)
                case 1:
                    here.target.codes(PRODUCE, REMOTE, Code.NOT_LEADER_OR_FOLLOWER, Code.NOT_ENOUGH_REPLICAS)
                case 2:
                    here.target.fault(FETCH, Fault(lost=True), topic=REMOTE)
                case 3:
                    here.target.move(REMOTE, 0, chance.choice([1, 2]))
                case _:
                    here.pass_by(chance.random())
                    here.crash(copier)
                    copier = here.begin(
                        *(here.grant(number, here.stored(number), drained=False) for number in range(2))
                    )
                    noted(here, copier, found)
            here.pass_by(chance.random())
        here.until(lambda: all(len(here.copied(one)) >= 42 for one in range(2)) and all_proven(here, copier, 2))
        here.pass_by(FOUND_S)
        assert found == {}
        assert here.held == []


@pytest.mark.parametrize("seed", range(4))
def test_transactions_are_proven_and_a_foreign_record_among_them_is_found(seed: int) -> None:
    chance = random.Random(seed)
    with proving(seed, exactly_once="enabled", transaction_interval_ms=50) as (here, found):
        copier = here.begin()
        noted(here, copier, found)
        for _ in range(5):
            here.feed([chance.randbytes(20) for _ in range(7)])
            if chance.random() < 0.4:
                here.target.codes(PRODUCE, REMOTE, Code.OUT_OF_ORDER_SEQUENCE_NUMBER)
            here.pass_by(chance.random() / 4)
        here.until(lambda: len(here.copied(committed=True)) == 35)
        here.pass_by(FOUND_S)
        assert found == {}
        proof = copier.partitions[part()].copied.proof
        assert proof is not None
        assert (proof.proven.records, proof.proven.source) == (35, 35)
        first = here.target.log(REMOTE).end
        here.target.write(REMOTE, b"foreign")
        here.until(lambda: bool(found), FOUND_S)
        assert found[part()] == [Found("foreign", 35, first)]


# The consequence.


@pytest.mark.parametrize("exactly_once", ["disabled", "enabled"])
def test_a_difference_holds_its_partition_until_it_is_accepted(exactly_once: str) -> None:
    with proving(partitions=2, difference_policy="hold", exactly_once=exactly_once) as (here, _):
        copier = here.begin(here.grant(0), here.grant(1))
        for number in range(2):
            here.feed([b"%d" % one for one in range(9)], number=number)
        here.until(lambda: all(proven(copier, one) >= 9 for one in range(2)))
        here.pass_by(1)
        first = here.target.log(REMOTE).end
        here.target.write(REMOTE, b"foreign")
        here.until(lambda: bool(here.held), FOUND_S)
        (held,) = here.held
        assert (held.source, held.reason, held.message_id) == (part(0), "difference", "TW-PROOF-01")
        assert f"at offset {first} it has a record of another program" in held.text
        assert "after the copies before source offset 9" in held.text
        assert "twinlog.difference.policy = report" in held.way_out
        granted = copier._held.held[part(0)].grant.position
        assert granted is not None
        assert granted.difference == first, "the driver grants it again with this position"
        here.feed([b"later"], number=0)
        here.feed([b"later"], number=1)
        here.until(lambda: here.copied(1)[-1] == b"later")
        stored = here.stored(0)
        assert stored is not None
        assert stored.difference == first

        # The next copier holds it, too.
        here.crash(copier)
        here.held.clear()
        copier = here.begin(here.grant(0, stored, drained=True))
        here.until(lambda: bool(here.held), FOUND_S)
        assert here.held[0].reason == "difference"
        assert b"later" not in here.copied(0)
        here.crash(copier)
        here.held.clear()

        # The way out.
        here.settings = replace(here.settings, difference_policy=type(here.settings.proof)("report"))
        here.begin(here.grant(0, here.stored(0), drained=True))
        here.until(lambda: here.copied(0)[-1] == b"later")
        here.pass_by(FOUND_S)
        assert here.held == []
        stored = here.stored(0)
        assert stored is not None
        assert stored.difference is None


def test_a_policy_may_stop_the_flow() -> None:
    with proving(difference_policy="stop") as (here, _):
        copier = here.begin()
        here.feed([b"a"])
        here.until(lambda: all_proven(here, copier) and here.copied() == [b"a"])
        here.target.write(REMOTE, b"foreign")
        here.until(lambda: bool(here.failures), FOUND_S)
        assert here.failures[0][0] == part(0)


def test_a_program_that_writes_all_the_time_does_not_flood_the_log() -> None:
    with proving() as (here, found):
        copier = here.begin()
        noted(here, copier, found)
        here.feed([b"a"])
        here.until(lambda: all_proven(here, copier) and here.copied() == [b"a"])
        for _ in range(50):
            here.target.write(REMOTE, b"foreign")
        here.until(lambda: len(found.get(part(), [])) == 50)
        assert copier.tally.differences == {"foreign": 50}
        texts = [text for kind, text in here.events if kind == "difference"]
        assert len(texts) == 10
        assert texts[-1].endswith("; more of them are only counted for a minute")
        here.pass_by(60)
        here.target.write(REMOTE, b"foreign")
        here.until(lambda: len(found[part()]) == 51, FOUND_S)
        assert sum(kind == "difference" for kind, _ in here.events) == 11


def test_nothing_is_read_of_topics_that_are_not_proven() -> None:
    with world() as here:
        copier = here.begin()
        here.feed([b"a"])
        here.until(lambda: here.copied() == [b"a"])
        here.pass_by(2)
        assert here.target.asked[FETCH] == 0
        assert copier.partitions[part()].copied.proof is None
        assert copier.proofs._prover is None
