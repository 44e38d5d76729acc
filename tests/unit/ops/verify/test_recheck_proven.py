"""Ranges that were proven while the flow ran, read again later from the target: their batches make the same chain."""

from __future__ import annotations

import struct

import pytest

from harness.virtual.cluster import VirtualCluster
from tests.unit.ops.verify.two_logs import Stored, made, on, put, read_again, some
from twinlog.kafka.producer.proof import EMPTY_CHAIN, element_of, extend_chain
from twinlog.kafka.record.batch import CRC_START, checksum_of
from twinlog.kafka.record.builder import encode_batch
from twinlog.kafka.record.stamp import stamp
from twinlog.ops.proven_ranges import ProvenRange
from twinlog.ops.verify.recheck import ChangedRange, RecheckVerdict

Clusters = tuple[VirtualCluster, VirtualCluster]
CRC = slice(17, 21)


def proven(target: VirtualCluster, *ends: int, start: int = 0) -> list[ProvenRange]:
    """The ranges up to these target offsets, as the prover would have chained them."""
    chain, found = EMPTY_CHAIN, []
    for end in ends:
        before = chain
        stored = [
            (batch, data)
            for batch, data in target.log("s.t").batches
            if start <= batch.base_offset < end and not batch.is_control
        ]
        for batch, data in stored:
            chain = extend_chain(chain, element_of(memoryview(data)).encode(batch.base_offset))
        records, size = sum(batch.record_count for batch, _ in stored), sum(len(data) for _, data in stored)
        found.append(ProvenRange(start, end, start, end, records, size, before.hex(), chain.hex(), "now"))
        start = end
    return found


def of_target(clusters: Clusters, *ranges: ProvenRange, compacted: bool = False) -> RecheckVerdict:
    return read_again(clusters, ranges, "target", compacted=compacted)


@pytest.mark.parametrize("codec", ["none", "lz4", "zstd"])
def test_what_stayed_as_it_was_is_equal(clusters: Clusters, codec: str) -> None:
    put(clusters[1], "s.t", some(400), 20, codec)
    ranges = proven(clusters[1], 100, 260, 400)
    found = of_target(clusters, *ranges)
    there = on(found, "target")
    assert (found.equal, found.records, there.equal, there.gone, there.newer) == (True, 400, 400, 0, 0)
    # Each range by itself, and with later records behind it.
    put(clusters[1], "s.t", some(40), 20, codec)
    for one in ranges:
        alone = on(of_target(clusters, one), "target")
        assert (alone.equal, alone.newer) == (one.records, 440 - one.target_end)


def rewritten(cluster: VirtualCluster, place: int, data: bytearray) -> None:
    """Another batch in its place, with a right checksum."""
    data[CRC] = checksum_of(memoryview(data)[CRC_START:]).to_bytes(4, "big")
    batch, _ = cluster.log("s.t").batches[place]
    cluster.log("s.t").batches[place] = (batch, bytes(data))


def changed(cluster: VirtualCluster) -> None:
    """Another value, of the same length and with a right checksum."""
    data = bytearray(cluster.log("s.t").batches[6][1])
    data[-9] ^= 1
    rewritten(cluster, 6, data)


def damaged(cluster: VirtualCluster) -> None:
    batch, data = cluster.log("s.t").batches[6]
    wrong = bytearray(data)
    wrong[-9] ^= 1
    cluster.log("s.t").batches[6] = (batch, bytes(wrong))


def missing(cluster: VirtualCluster) -> None:
    del cluster.log("s.t").batches[6]


def swapped(cluster: VirtualCluster) -> None:
    """The records of two batches, each at the offsets of the other batch."""
    batches = cluster.log("s.t").batches
    (first, first_data), (second, second_data) = batches[5:7]
    for place, batch, data in ((5, first, second_data), (6, second, first_data)):
        fresh = bytearray(data)
        struct.pack_into(">q", fresh, 0, batch.base_offset)
        batches[place] = (batch, bytes(fresh))


@pytest.mark.parametrize(("change", "count"), [(changed, 100), (swapped, 100), (damaged, 20), (missing, 80)])
def test_a_range_with_other_batches_is_named(clusters: Clusters, change: object, count: int) -> None:
    put(clusters[1], "s.t", some(400))
    ranges = proven(clusters[1], 100, 200, 400)
    change(clusters[1])  # type: ignore[operator]
    found = of_target(clusters, *ranges)
    there = on(found, "target")
    assert (found.equal, there.equal, there.different) == (False, 300, 1)
    assert there.first == ChangedRange(100, 200, 100, count)


def test_retention_takes_a_range_and_leaves_the_later_ones_provable(clusters: Clusters) -> None:
    put(clusters[1], "s.t", some(400))
    ranges = proven(clusters[1], 100, 200, 400)
    clusters[1].log("s.t").delete_before(140)
    there = on(of_target(clusters, *ranges), "target")
    assert (there.equal, there.trimmed, there.unproved, there.different) == (200, 140, 60, 0)
    clusters[1].log("s.t").delete_before(400)
    gone = of_target(clusters, *ranges)
    assert (gone.equal, on(gone, "target").trimmed) == (None, 400)


def test_compaction_leaves_a_range_unproved(clusters: Clusters) -> None:
    put(clusters[1], "s.t", some(400))
    ranges = proven(clusters[1], 200, 400)
    del clusters[1].log("s.t").batches[3]
    there = on(of_target(clusters, *ranges, compacted=True), "target")
    assert (there.equal, there.compacted, there.unproved, there.different) == (200, 20, 180, 0)


def test_markers_and_aborted_records_are_in_no_chain(clusters: Clusters) -> None:
    _, target = clusters

    def transaction(records: list[Stored], sequence: int, *, commit: bool) -> None:
        batch = encode_batch(records, 0)
        stamp(batch, 5, 0, sequence, transactional=True)
        assert target.log("s.t").append(bytes(batch))[0] == 0
        target.log("s.t").mark(5, 0, commit=commit)

    transaction(some(20), 0, commit=True)
    ends = [target.log("s.t").end]
    before = proven(target, *ends)
    transaction([made(7)], 20, commit=False)
    at = target.log("s.t").end
    transaction(some(30), 21, commit=True)
    later = proven(target, target.log("s.t").end, start=at)
    found = on(of_target(clusters, *before, *later), "target")
    assert (found.equal, found.different) == (50, 0)
    # A range that spans the aborted record has the same batches.
    (whole,) = later
    chain = bytes.fromhex(before[0].chain)
    batch, data = target.log("s.t").batches[-2]
    chain = extend_chain(chain, element_of(memoryview(data)).encode(batch.base_offset))
    spanning = ProvenRange(0, 50, 0, whole.target_end, 50, 1, EMPTY_CHAIN.hex(), chain.hex(), "now")
    assert on(of_target(clusters, spanning), "target").equal == 50
