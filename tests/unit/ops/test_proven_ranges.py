"""The proven ranges of partitions, out of the reports of copiers: each continues the chain of the range before."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import pairwise

import pytest

from harness.virtual.cluster import VirtualCluster
from harness.virtual.loop import VirtualLoop, virtual_loop
from tests.connected_admins import connected_admin
from tests.unit.worker.topics.test_topic_conflicts import flow
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.producer.proof import EMPTY_CHAIN
from twinlog.kafka.record.builder import encode_batch, record_body
from twinlog.kafka.record.stamp import stamp
from twinlog.lease.progress import PartitionProgress, Report
from twinlog.model.types import SourceOffset, TargetOffset, TopicName, TopicPartition
from twinlog.ops.proven_ranges import MOST_RANGES, SINCE_MS, PartitionProven, ProvenRange, ProvenRangesReader, lag_s
from twinlog.settings.client import ClientSettings

PROGRESS = "mm2-twinlog-progress.s.internal"
SETTINGS = flow("s", "w", "default")
P0 = TopicPartition(TopicName("t"), 0)
NOW = 1_700_000_000_000


def progress(
    proven: int, *, begin: int = 0, number: int = 1, partition: int = 0, shift: int = 100, **others: object
) -> PartitionProgress:
    """A partition that is copied, and proven from source offset `begin` up to `proven`."""
    fields: dict[str, object] = {
        "proven_source": SourceOffset(proven),
        "proven_target": TargetOffset(proven + shift),
        "proof_lag_ms": 0,
        "proven_records": proven - begin,
        "proven_bytes": 10 * (proven - begin),
        "proof_chain": f"{number:02}{proven:062}",
        "proof_source": SourceOffset(begin),
        "proof_target": TargetOffset(begin + shift),
        "proof_range": number,
        **others,
    }
    at = SourceOffset(proven)
    return PartitionProgress("t", partition, at, TargetOffset(proven + shift), at, **fields)  # type: ignore[arg-type]


def report(*partitions: PartitionProgress, copier: str = "c", name: str = "s->w", at_ms: int = NOW) -> Report:
    return Report(name, copier, 1, at_ms, 1.0, 0.1, partitions=partitions)


Target = tuple[VirtualCluster, ClusterAdmin]


@pytest.fixture
def cluster() -> Iterator[Target]:
    with virtual_loop(1) as loop:
        target = VirtualCluster(loop, "w")
        target.create(PROGRESS)
        admin = ClusterAdmin("w", ClientSettings(target.bootstrap), VirtualLoop(loop.world))
        admin.connect(5.0)
        yield target, admin
        admin.close()


def append(target: VirtualCluster, key: bytes, value: bytes, *, age_ms: int = 0) -> None:
    at_ms = int(target.loop.clock.wall() * 1000) - age_ms
    batch = encode_batch([(at_ms, record_body(key, value, ()))])
    stamp(batch, -1, -1, -1)
    target.log(PROGRESS).append(bytes(batch))
    target.news()


def read(cluster: Target, *reports: Report) -> PartitionProven:
    """The proof of the first partition after these reports."""
    reader = ProvenRangesReader(SETTINGS, cluster[1])
    for one in reports:
        append(cluster[0], one.copier.encode(), one.encode())
    return reader.read_proven([P0])[P0]


def test_successive_reports_make_ranges_that_continue_each_other(cluster: Target) -> None:
    found = read(cluster, report(progress(10)), report(progress(25), at_ms=NOW + 1500))
    assert found.ranges == (
        ProvenRange(0, 10, 100, 110, 10, 100, EMPTY_CHAIN.hex(), f"01{10:062}", "2023-11-14T22:13:20.000+00:00"),
        ProvenRange(10, 25, 110, 125, 15, 150, f"01{10:062}", f"01{25:062}", "2023-11-14T22:13:21.500+00:00"),
    )
    assert (found.copied, found.source, found.target, found.proves) == (25, 25, 125, True)


def test_a_report_without_progress_and_reports_of_others_add_nothing(cluster: Target) -> None:
    found = read(
        cluster,
        report(progress(10)),
        report(progress(10)),
        report(progress(90), name="x->w"),
        report(progress(90, partition=1)),
    )
    assert [one.source_end for one in found.ranges] == [10]


def test_another_copier_and_another_range_begin_a_chain(cluster: Target) -> None:
    found = read(
        cluster,
        report(progress(10)),
        # Some records in between are out of the proof.
        report(progress(30, begin=20, number=2)),
        report(progress(40, begin=30, number=2), copier="d"),
    )
    assert [(one.source_start, one.source_end, one.chain_before) for one in found.ranges] == [
        (start, end, EMPTY_CHAIN.hex()) for start, end in ((0, 10), (20, 30), (30, 40))
    ]


def test_copies_that_the_target_lost_are_in_no_range(cluster: Target) -> None:
    found = read(cluster, report(progress(10)), report(progress(50)), report(progress(60, begin=20, number=2)))
    assert [(one.source_start, one.source_end) for one in found.ranges] == [(0, 10), (20, 60)]
    # The remote topic was created again, and the proof is further than before when it is first reported.
    again = read(cluster, report(progress(70, begin=0, number=3)))
    assert [(one.source_start, one.source_end) for one in again.ranges] == [(0, 70)]


def test_without_a_proof_there_is_none_and_the_earlier_ranges_stay(cluster: Target) -> None:
    unproven = PartitionProgress("t", 0, SourceOffset(30), TargetOffset(130), SourceOffset(30))
    found = read(cluster, report(progress(10)), report(unproven))
    assert (found.proves, found.reaches(0), len(found.ranges)) == (False, False, 1)
    assert found.as_json()["lag_s"] is None


def test_many_ranges_become_few_that_cover_the_same(cluster: Target, chance: random.Random) -> None:
    ends = sorted(chance.sample(range(1, 5000), 40))
    found = read(cluster, *(report(progress(end)) for end in ends))
    assert len(found.ranges) == MOST_RANGES
    assert (found.ranges[0].source_start, found.ranges[-1].source_end) == (0, ends[-1])
    for one, later in pairwise(found.ranges):
        assert (one.source_end, one.target_end, one.chain) == (
            later.source_start,
            later.target_start,
            later.chain_before,
        )
    assert sum(one.records for one in found.ranges) == ends[-1]
    assert sum(one.bytes for one in found.ranges) == 10 * ends[-1]
    chains = [report(progress(10 * number + 5, begin=10 * number, number=number)) for number in range(600, 620)]
    assert [one.source_start for one in read(cluster, *chains).ranges] == [
        10 * number for number in range(620 - MOST_RANGES, 620)
    ]


def test_the_last_difference_is_told_in_words(cluster: Target) -> None:
    differs = progress(
        10, differences=2, unproved=3, difference_kind="foreign", difference_source=4, difference_target=104
    )
    found = read(cluster, report(differs))
    assert found.as_json() == {
        "source_offset": 10,
        "target_offset": 110,
        "lag_s": 0.0,
        "unproved": 3,
        "differences": 2,
        "difference": "foreign at source offset 4, target offset 104",
    }


def test_a_reader_looks_back_for_minutes_and_then_reads_on(cluster: Target) -> None:
    target, admin = cluster
    append(target, b"c", report(progress(7, partition=2)).encode(), age_ms=SINCE_MS + 1000)
    append(target, b"c", report(progress(10, proof_lag_ms=1500)).encode(), age_ms=SINCE_MS - 1000)
    for _ in range(300):
        append(target, b"driver s->w", b"{}")
        append(target, b"c", report(progress(5, partition=1)).encode())
    reader = ProvenRangesReader(SETTINGS, admin)
    found = reader.read_proven([P0, TopicPartition(TopicName("t"), 2)])
    assert {where: one.source for where, one in found.items()} == {P0: 10}
    assert lag_s(found) == 1.5
    append(target, b"c", report(progress(20)).encode())
    append(target, b"c", b"nothing")
    assert reader.read_proven([P0])[P0].source == 20
    assert reader.read_proven([TopicPartition(TopicName("u"), 0)]) == {}
    assert lag_s({}) == 0.0


def test_reports_of_a_slow_clock_are_read_nevertheless(cluster: Target) -> None:
    target, admin = cluster
    append(target, b"c", report(progress(10)).encode(), age_ms=3_600_000)
    assert ProvenRangesReader(SETTINGS, admin).read_proven([P0])[P0].source == 10


def test_a_missing_topic_has_no_proofs() -> None:
    with virtual_loop(1) as loop:
        target = VirtualCluster(loop, "w")
        with connected_admin("w", ClientSettings(target.bootstrap), loop=VirtualLoop(loop.world)) as admin:
            assert ProvenRangesReader(SETTINGS, admin).read_proven([P0]) == {}
