"""The ranges of a sample: they begin and end at pairs of offsets of the same record, and hold each suspicious place."""

from __future__ import annotations

from dataclasses import replace

from harness.virtual.cluster import VirtualCluster
from harness.virtual.loop import VirtualLoop, virtual_loop
from tests.unit.ops.verify.two_logs import REMOTE, SOURCE, put, settings_of, some
from twinlog.mirror.offsets.sync_history import PartitionSyncs, SyncHistory
from twinlog.ops.audit.sample import sampled
from twinlog.ops.verify.model import PartitionToVerify, Section, Verdict, VerifyRules
from twinlog.ops.verify.task import ClusterPair


def history(*syncs: tuple[int, int]) -> SyncHistory:
    known = PartitionSyncs()
    for source, target in syncs:
        known.add(source, target)
    return SyncHistory({SOURCE: known.written(1 << 40)})


def part(section: Section) -> PartitionToVerify:
    return PartitionToVerify("s->w", SOURCE, REMOTE, (section,))


def spans(section: Section, known: SyncHistory, records: int) -> list[tuple[int, int]]:
    found = sampled(part(section), known, records)
    return [(one.sections[0].source, one.sections[0].source_end) for one in found.ranges]


def test_a_small_partition_is_compared_as_a_whole() -> None:
    whole = part(Section("copied from", 0, 400, 0, 400))
    assert sampled(whole, SyncHistory({}), 100).ranges == (whole,)


def test_an_exact_map_allows_ranges_anywhere() -> None:
    found = sampled(part(Section("exact", 1_000, 11_000, 0, 10_000)), SyncHistory({}), 100)
    begins = [(one.sections[0].source, one.sections[0].target) for one in found.ranges]
    assert begins == [(1_000, 0), (4_300, 3_300), (7_600, 6_600), (10_900, 9_900)]
    assert all(one.sections[0].source_end - one.sections[0].source == 100 for one in found.ranges)
    assert found.left == 10_000 - 400


def test_copies_without_a_map_are_compared_from_sync_to_sync() -> None:
    syncs = [(offset, offset) for offset in range(0, 10_000, 100)]
    section = Section("copied from", 0, 10_000, 0, 10_050, open_end=True)
    found = spans(section, history(*syncs), 200)
    assert found[0] == (0, 300)
    assert found[-1] == (9_700, 10_000), "the end of the copies, up to the stored position"
    assert all(start % 100 == 0 for start, _ in found)
    (tail,) = sampled(part(section), history(*syncs), 200).ranges[-1].sections
    assert (tail.kind, tail.target, tail.target_end, tail.open_end) == ("by content", 9_700, 10_050, True)


def test_every_place_that_syncs_make_suspicious_is_in_the_sample() -> None:
    syncs = [(offset, offset) for offset in range(0, 5_000, 100)]
    syncs += [(offset, offset - 1) for offset in range(5_000, 10_000, 100)]
    found = spans(Section("copied from", 0, 10_000, 0, 9_999), history(*syncs), 100)
    assert any(start <= 4_900 and end > 5_001 for start, end in found), found


def test_without_syncs_the_middle_cannot_be_compared() -> None:
    found = sampled(part(Section("copied from", 0, 10_000, 0, 10_000)), SyncHistory({}), 100)
    assert (found.ranges, found.unanchored, found.left) == ((), True, 10_000)


def compare(records: list[int], syncs: SyncHistory) -> list[Verdict]:
    """The verdicts about a copy that holds the records of these numbers."""
    with virtual_loop(1) as loop:
        source, target = VirtualCluster(loop, "s"), VirtualCluster(loop, "w")
        source.create("t")
        target.create("s.t")
        stored = some(1_000)
        put(source, "t", stored)
        put(target, "s.t", [stored[number] for number in records])
        whole = replace(
            part(Section("copied from", 0, 1_000, 0, len(records))),
            source_id=source.topics.ids["t"],
            target_id=target.topics.ids["s.t"],
        )
        rules = VerifyRules(settings_of(source), settings_of(target), "s", "w", patience_s=20)
        pair = ClusterPair(rules, VirtualLoop(source.loop.world))
        try:
            return [pair.compare(one) for one in sampled(whole, syncs, 50).ranges]
        finally:
            pair.close()


def test_a_missing_and_a_doubled_record_are_found_in_the_sample() -> None:
    every = [(offset, offset) for offset in range(0, 1_000, 25)]
    assert {row.equal for row in compare(list(range(1_000)), history(*every))} == {True}

    def places(found: list[Verdict]) -> list[tuple[int, str, int, int]]:
        return [
            (row.differences, row.first.what, row.first.source_offset, row.first.target_offset)
            for row in found
            if row.first is not None
        ]

    gone = [number for number in range(1_000) if number != 612]
    syncs = history(*((source, source - (source > 612)) for source, _ in every))
    assert places(compare(gone, syncs)) == [(1, "missing", 612, 612)]

    twice = [*range(400), 398, 399, *range(400, 1_000)]
    syncs = history(*((source, source + 2 * (source >= 400)) for source, _ in every))
    assert places(compare(twice, syncs)) == [(2, "doubled", 400, 400)]
