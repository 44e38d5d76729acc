"""What metrics of many partitions cost: each report that feeds them, and a page of all, in CPU time of this machine.

$ .venv/bin/python -m scripts.scrape_cost
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from twinlog.lease.progress import PartitionCounters, PartitionProgress, Report
from twinlog.model.types import SourceOffset, TargetOffset, TopicName, TopicPartition
from twinlog.worker.metrics.connector_beans import CopyFacts, client_beans, source_beans
from twinlog.worker.metrics.exposition import Measurements, Pages
from twinlog.worker.status.flow_status import FlowStatus

PARTITIONS = 10_000
ROUNDS = 5


def main() -> None:
    keys = [TopicPartition(TopicName(f"topic-{number // 10}"), number % 10) for number in range(PARTITIONS)]
    remote = {key: TopicPartition(TopicName(f"east.{key.topic}"), key.partition) for key in keys}
    report = Report("east->west", "copier", 1, 0, 1.0, 0.1, partitions=tuple(_progress(key) for key in keys))
    status = FlowStatus()
    status.plan(set(keys))
    few = replace(report, partitions=report.partitions[:3])

    def measure() -> Measurements:
        facts = CopyFacts(
            "east->west.MirrorSourceConnector",
            "east",
            "west",
            time.monotonic(),
            remote=remote,
            meters=status.meters.parts,
            progress=status.partitions(),
            tasks=status.tasks(),
            totals=dict(status.meters.tasks),
        )
        return Measurements([*source_beans(facts), *client_beans(facts, partitions=True)])

    print(f"a report in which all {PARTITIONS:,} moved: {_cpu_ms(lambda: status.add_report(report)):.1f} ms")
    print(f"a report in which 3 of them moved: {_cpu_ms(lambda: status.add_report(few)):.3f} ms")
    page = Pages(measure).text("")[1]
    print(
        f"a page of {page.count(b'{'):,} samples, {len(page) / 1e6:.1f} MB: "
        f"{_cpu_ms(lambda: Pages(measure).text('')):.0f} ms"
    )


def _progress(key: TopicPartition) -> PartitionProgress:
    return PartitionProgress(
        key.topic,
        key.partition,
        SourceOffset(1000),
        TargetOffset(1000),
        SourceOffset(1010),
        PartitionCounters(
            records=100,
            bytes=100_000,
            latency_ms=20,
            last_latency_ms=20,
            least_latency_ms=10,
            latency_sum_ms=1500,
            read_records=100,
            last_age_ms=15,
            least_age_ms=5,
            most_age_ms=15,
            age_sum_ms=1000,
        ),
    )


def _cpu_ms(step: Callable[[], object]) -> float:
    """The best of some rounds, which is what others on the machine disturb least."""
    found = []
    for _ in range(ROUNDS):
        begun = time.process_time()
        step()
        found.append(time.process_time() - begun)
    return min(found) * 1000


if __name__ == "__main__":
    main()
