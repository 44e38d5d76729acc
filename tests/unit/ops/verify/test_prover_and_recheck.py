"""A partition from its proof to its later check: the copier, its report on the target, the ranges, and their chains; in
virtual time."""

from __future__ import annotations

import random

from harness.virtual.loop import VirtualLoop
from tests.unit.copier.copied import REMOTE, TOPIC, World, part
from tests.unit.copier.proof.test_faults import all_proven, change, proving
from twinlog.copier.reporter import Reporter
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.ops.proven_ranges import ProvenRange, ProvenRangesReader
from twinlog.ops.verify.model import PartitionToVerify, VerifyRules
from twinlog.ops.verify.recheck import PartitionToRecheck, SideFindings, SideLog, recheck
from twinlog.ops.verify.task import ClusterPair
from twinlog.settings.client import ConsumerSettings


def read_again(here: World, ranges: tuple[ProvenRange, ...]) -> SideFindings:
    """The ranges as the target has them now."""
    settings, log = here.settings, here.target.log(REMOTE)
    names = PartitionToVerify(settings.name, part(), part(topic=REMOTE))
    work = PartitionToRecheck(names, ranges, (SideLog("target", log.start, log.end),))
    there = ConsumerSettings(settings.producer.client)
    rules = VerifyRules(settings.consumer, there, settings.source, settings.target, patience_s=20)
    pair = ClusterPair(rules, VirtualLoop(here.loop.world))
    try:
        (found,) = recheck(pair, work).sides
    finally:
        pair.close()
    assert found.problem is None
    return found


def test_proven_ranges_are_found_by_reports_and_proven_again(chance: random.Random) -> None:
    with proving() as (here, _):
        copier = here.begin()
        reporter = Reporter(copier, "c")
        admin = ClusterAdmin(here.settings.target, here.settings.target_admin.client, VirtualLoop(here.loop.world))
        admin.connect(5.0)
        try:
            reader = ProvenRangesReader(here.settings, admin)
            for _ in range(3):
                here.feed([chance.randbytes(30) for _ in range(chance.randrange(5, 30))])
                end = here.source.log(TOPIC).end
                here.until(lambda end=end: copier.partitions[part()].durable.next_source == end)  # type: ignore[misc]
                here.until(lambda: all_proven(here, copier))
                reporter.report_now()
                here.run(reporter.append_report)
                proven = reader.read_proven([part()])[part()]
                assert (proven.source, proven.copied, proven.lag_ms) == (end, end, 0)
                assert proven.reaches(end)
        finally:
            admin.close()
        ranges = proven.ranges
        log = here.target.log(REMOTE)
        assert [one.source_start for one in ranges] == [0, *(one.source_end for one in ranges[:-1])]
        assert sum(one.records for one in ranges) == len(log.records())
        found = read_again(here, ranges)
        assert (found.equal, found.different, found.newer) == (end, 0, 0)
        place = next(
            number for number, (batch, _) in enumerate(log.batches) if batch.base_offset >= ranges[1].target_start
        )
        change(log, place, chance)
        found = read_again(here, ranges)
        assert (found.equal, found.different) == (end - ranges[1].records, 1)
        assert found.first is not None
        assert (found.first.start, found.first.end) == ranges[1].span("target")
