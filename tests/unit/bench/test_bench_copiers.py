"""The copiers that only pretend speak the driver's protocol: it grants them leases, and reads their reports."""

from __future__ import annotations

from collections.abc import Sequence

from bench.flows.copiers import Pretender
from harness.wait import wait_for
from twinlog.lease.lease_server import LeaseServer
from twinlog.lease.leases import Leases
from twinlog.lease.messages import Grant
from twinlog.lease.progress import Report
from twinlog.model.types import TopicName, TopicPartition

FLOW = "a->b"
PARTS = [TopicPartition(TopicName("t"), number) for number in range(4)]


def _grants(partitions: Sequence[TopicPartition]) -> list[Grant]:
    return [Grant(part, part, None, 1_000_000, None) for part in partitions]


def _ignore(kind: str, text: str) -> None:
    raise AssertionError(f"{kind}: {text}")


def test_pretending_copiers_take_each_lease_and_report_on_what_they_hold() -> None:
    reports: list[Report] = []
    leases = Leases(FLOW, _grants, _ignore, _ignore, reported=reports.append)
    lease_server = LeaseServer("127.0.0.1", {FLOW: leases})
    try:
        copiers = [Pretender(lease_server.address, FLOW, f"copier-{number}") for number in range(2)]
        wait_for(lambda: len(leases._ledger.sessions) == 2, 60, "both copiers are known")
        lease = leases.renew_lease((frozenset(PARTS[:2]), frozenset(PARTS[2:])))
        for copier in copiers:
            copier.claim(lease)
        wait_for(lambda: all(len(copier.held) == 2 for copier in copiers), 60, "each holds its share")

        again = leases.renew_lease((frozenset(PARTS[:1]), frozenset(PARTS[1:])))
        wait_for(lambda: sorted(len(copier.held) for copier in copiers) == [1, 3], 60, "the next lease is granted")
        wait_for(lambda: not leases.unclaimed, 60, "the next lease is claimed whole")
        wait_for(lambda: {copier.lease for copier in copiers} == {again}, 60, "both have claimed it")

        for busy in (False, True):
            reports.clear()
            for copier in copiers:
                copier.beat()
                copier.report(7, busy=busy)
            wait_for(lambda: len(reports) == 2, 60, "the driver has heard of both")
            seen = {(part.topic, part.partition) for report in reports for part in report.partitions}
            assert seen == set(PARTS)
            assert all(report.lease == again for report in reports)
        assert leases.stop(10)
    finally:
        lease_server.close()
