"""Drawn faults on the way to a real target and in its files: the proof finds each of them, in time, and nothing else.

Draws as many as asked:
`TWINLOG_PROOF_FAULTS=1000 make scenarios ARGS="--log-cli-level=INFO tests/integration/copier/proof"`.
"""

from __future__ import annotations

import logging
import os
import random
import struct
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Literal

import google_crc32c
import pytest
from confluent_kafka import Producer

from harness.cluster import KafkaCluster
from harness.produce import numbered, produce
from harness.topics import delete_topics_of_users
from harness.wait import wait_for
from tests.integration.copier.proof.test_proof import (
    CRC,
    CRC_START,
    FOUND_S,
    blind,
    edit,
    noted_everywhere,
    proof_of,
    rewrite,
    twice,
    without,
)
from tests.integration.copying import CopyFlow, RunningCopier
from tests.integration.segments import stored_batches
from twinlog.kafka.record import stamp as stamping
from twinlog.model.types import TopicName, TopicPartition

log = logging.getLogger(__name__)

pytestmark = pytest.mark.scenario

FAULTS = int(os.environ.get("TWINLOG_PROOF_FAULTS", "80"))
PARTITIONS = 40
"""The faults of a round, each in a partition of its own."""

PER_BATCH = 5
STEP = PER_BATCH * 2
"""The records of each partition that are written at a time."""

Kind = Literal["bit", "damage", "swap", "drop", "double", "foreign", "bit on the way", "swap on the way"]
KINDS: tuple[Kind, ...] = (
    *("bit", "damage", "swap", "drop", "double", "foreign"),
    *("bit on the way", "swap on the way"),
)
FOUND_AS: Mapping[Kind, str] = {
    "bit": "changed",
    "damage": "damaged",
    "swap": "changed",
    "drop": "missing",
    "double": "doubled",
    "foreign": "foreign",
    "bit on the way": "changed",
    "swap on the way": "changed",
}


@dataclass(frozen=True, slots=True)
class Fault:
    """The fault of a partition, between two target offsets."""

    kind: Kind
    first: int
    past: int


@pytest.fixture
def frail() -> Iterator[KafkaCluster]:
    with KafkaCluster("frail", sasl=False, heap="384m") as cluster:
        yield cluster


def value_of(partition: int, number: int) -> bytes:
    return b"<%04d:%08d>" % (partition, number)


def write(flow: CopyFlow, topic: str, begin: int) -> None:
    """Two batches for each partition, with record numbers from `begin` on."""
    settings = {"linger.ms": 60_000, "batch.num.messages": PER_BATCH, "batch.size": 1_000_000}
    producer = Producer({**flow.source.client_config(), "acks": "all", **settings})
    for number in range(begin, begin + STEP):
        for partition in range(PARTITIONS):
            producer.produce(topic, value_of(partition, number), partition=partition, timestamp=1_000 + number)
    assert producer.flush(60.0) == 0


def wait_copied(running: RunningCopier, topic: str, end: int) -> None:
    for partition in range(PARTITIONS):
        running.wait_for_position(topic, end, partition)


def mended(batch: bytearray | memoryview) -> None:
    """Give a changed batch a right checksum, so that the broker and a consumer take it."""
    struct.pack_into(">I", batch, CRC, google_crc32c.value(bytes(batch[CRC_START:])))


def swapped(data: bytearray | memoryview, partition: int, begin: int, chance: random.Random) -> None:
    """Two values of a batch change places."""
    whole = bytes(data)
    there = [value for number in range(begin, begin + STEP) if (value := value_of(partition, number)) in whole]
    one, other = chance.sample(there, 2)
    for value, instead in ((one, other), (other, one)):
        at = whole.index(value)
        data[at : at + len(value)] = instead
    mended(data)


class Way:
    """Changes appends on their way to the target, past their checksums: a batch of each of some partitions."""

    def __init__(self, chance: random.Random, begin: int, kinds: Mapping[int, Kind]) -> None:
        self._chance = chance
        self._begin = begin
        self._left = dict(kinds)
        self._stamp = stamping.stamp

    def __enter__(self) -> Way:
        stamping.stamp = self._stamped  # type: ignore[assignment]
        return self

    def __exit__(self, *_: object) -> None:
        stamping.stamp = self._stamp

    def _stamped(self, batch: bytearray | memoryview, *args: int, transactional: bool = False) -> None:
        self._stamp(batch, *args, transactional=transactional)
        whole = bytes(batch)
        for partition, kind in list(self._left.items()):
            at = whole.find(value_of(partition, self._begin))
            if at < 0:
                continue
            del self._left[partition]
            if kind == "swap on the way":
                swapped(batch, partition, self._begin, self._chance)
            else:
                batch[at + self._chance.randrange(6)] ^= 1 << self._chance.randrange(8)
                mended(batch)


def swap_stored(flow: CopyFlow, topic: str, partition: int, begin: int, chance: random.Random) -> int:
    """Swap two records of the last but one batch in the target's file; returns the first offset of the batch."""
    batches = stored_batches(flow.target, topic, partition)
    start = sum(batch.size for batch in batches[:-2])
    (segment,) = (flow.target.brokers[1].data / f"{topic}-{partition}").glob("*.log")
    with segment.open("r+b") as file:
        file.seek(start)
        data = bytearray(file.read(batches[-2].size))
        swapped(data, partition, begin, chance)
        file.seek(start)
        file.write(data)
    return batches[-2].base_offset


def staged(
    flow: CopyFlow, topic: str, begin: int, kinds: Mapping[int, Kind], chance: random.Random
) -> dict[TopicPartition, Fault]:
    """Strike all partitions; the records from `begin` on are the last two batches of each."""
    remote, found = flow.remote(topic), {}
    flow.target.kill()
    for partition, kind in kinds.items():
        if kind in ("drop", "double"):
            rewrite(flow.target, remote, without if kind == "drop" else twice, partition)
    flow.target.restart()
    for partition, kind in kinds.items():
        source = TopicPartition(TopicName(topic), partition)
        first, past = begin, begin + PER_BATCH
        if kind == "swap":
            assert swap_stored(flow, remote, partition, begin, chance) == first
        elif kind in ("bit", "damage"):
            number = begin // PER_BATCH + chance.randrange(2)
            first = edit(flow, remote, number, chance, mend=kind == "bit", partition=partition)
            past = first + PER_BATCH
        elif kind in ("double", "foreign"):
            first, past = begin + STEP, begin + STEP + PER_BATCH
            if kind == "foreign":
                produce(flow.target, remote, numbered(1), partition=partition)
        found[source] = Fault(kind, first, past)
    return found


def struck(flow: CopyFlow, topic: str, chance: random.Random) -> tuple[int, float]:
    """A round: the number of faults, and the seconds until the last of them was found."""
    flow.create(topic, PARTITIONS)
    running = flow.start(topic, proof=True, difference_policy="report", producer={"merge_batch_bytes": 0})
    found = noted_everywhere(running)
    kinds = {partition: chance.choice(KINDS) for partition in range(PARTITIONS)}
    write(flow, topic, 0)
    wait_all_proven(running, topic, STEP)
    with blind(running):
        # An answer with the first records that come may be on its way to the prover.
        write(flow, topic, STEP)
        wait_copied(running, topic, 2 * STEP)
        with Way(chance, 2 * STEP, {at: kind for at, kind in kinds.items() if kind.endswith("on the way")}):
            write(flow, topic, 2 * STEP)
            wait_copied(running, topic, 3 * STEP)
        faults = staged(flow, topic, 2 * STEP, kinds, chance)
    begun = time.monotonic()
    wait_for(lambda: len(found) == PARTITIONS, 3 * FOUND_S, "all are found", every_s=0.02)
    took = time.monotonic() - begun
    write(flow, topic, 3 * STEP)
    wait_all_proven(running, topic, 4 * STEP)
    for source, fault in faults.items():
        (error,) = found[source]
        assert error.kind == FOUND_AS[fault.kind], (source, fault, error)
        assert fault.first <= error.target_offset < fault.past, (source, fault, error)
        if fault.kind not in ("double", "foreign"):
            assert error.source_offset == error.target_offset, (source, fault, error)
        else:
            assert error.source_offset == 3 * STEP, (source, fault, error)
    running.release()
    assert running.heard.held == []
    return len(faults), took


def wait_all_proven(running: RunningCopier, topic: str, end: int) -> None:
    wait_copied(running, topic, end)
    proofs = [proof_of(running, topic, partition) for partition in range(PARTITIONS)]
    wait_for(lambda: all(not one.behind for one in proofs), 3 * FOUND_S, f"all is proven up to {end}", every_s=0.02)


def test_drawn_faults_are_found(
    source_cluster: KafkaCluster, frail: KafkaCluster, new_name: Callable[[str], str], chance: random.Random
) -> None:
    total, slowest = 0, 0.0
    # A limit of time leaves whole rounds.
    end = time.monotonic() + float(os.environ.get("TWINLOG_PROOF_SECONDS", "inf"))
    while total < FAULTS and time.monotonic() < end:
        # The deletion takes the positions along, so that each round has a flow of its own.
        with closing(CopyFlow(source_cluster, frail)) as flow:
            count, took = struck(flow, new_name("struck"), chance)
        total, slowest = total + count, max(slowest, took)
        log.info("%d faults, all found; of this round within %.1f s", total, took)
        delete_topics_of_users(frail)
    log.info("%d faults, each found within %.1f s, and no other difference", total, slowest)
    assert slowest < FOUND_S
