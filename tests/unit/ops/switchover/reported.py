"""A target in virtual time with the reports of processes about the flow s->w."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from harness.virtual.cluster import VirtualCluster
from harness.virtual.loop import VirtualLoop, virtual_loop
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.record.builder import encode_batch, record_body
from twinlog.kafka.record.stamp import stamp
from twinlog.model.types import TopicName
from twinlog.settings.client import ClientSettings
from twinlog.worker.status.report import DriverReport, encode_report, report_key

PROGRESS = TopicName("mm2-twinlog-progress.s.internal")


class ReportedTarget:
    """A connected target with the topic of reports."""

    def __init__(self, loop: VirtualLoop, cluster: VirtualCluster, admin: ClusterAdmin) -> None:
        self.loop = loop
        self.admin = admin
        self._cluster = cluster

    def report(self, report: DriverReport) -> None:
        """Write a report."""
        body = record_body(report_key(report), encode_report(report, 100_000), ())
        batch = encode_batch([(report.at_ms, body)])
        stamp(batch, -1, -1, -1)
        self._cluster.log(PROGRESS).append(bytes(batch))
        self._cluster.news()


@contextmanager
def reported_target() -> Iterator[ReportedTarget]:
    with virtual_loop(1) as loop:
        cluster = VirtualCluster(loop, "w")
        cluster.create(PROGRESS)
        admin = ClusterAdmin("w", ClientSettings(cluster.bootstrap), VirtualLoop(loop.world))
        try:
            admin.connect(5.0)
            yield ReportedTarget(loop, cluster, admin)
        finally:
            admin.close()
