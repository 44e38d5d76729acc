"""Measures one system with many topics and groups: its start, how soon it follows changes, what it asks meanwhile."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.flows.many_topics import ManyTopics, count_records
from bench.items.kinds import ScaleItem
from bench.stage.meter import MB, rss_and_pss, wait_calm
from bench.systems import MirrorName, Setup, System
from harness.checks.requests import requests
from harness.cluster import KafkaCluster
from harness.groups import Place, commit_offsets, group_offsets
from harness.topics import create_topic, topics

DEADLINE_S = 300.0
LOOK_EVERY_S = 0.25
STEADY_S = 30.0
PREFIX = "scale-"
LATE = f"{PREFIX}late"
ADMIN_CALLS = frozenset(
    [
        *("Metadata", "DescribeTopicPartitions", "DescribeCluster", "FindCoordinator", "ListOffsets"),
        *("CreateTopics", "CreatePartitions", "DescribeConfigs", "AlterConfigs", "IncrementalAlterConfigs"),
        *("DescribeAcls", "CreateAcls", "ListGroups", "DescribeGroups", "ConsumerGroupDescribe"),
        *("OffsetFetch", "OffsetCommit"),
    ]
)
PROPERTIES = {
    "refresh.topics.interval.seconds": "5",
    "refresh.groups.interval.seconds": "5",
    "emit.offset-syncs.enabled": "true",
    # A sync for every record, so that MirrorMaker 2 knows the ends of short partitions at once.
    "offset.lag.max": "0",
    "emit.checkpoints.enabled": "true",
    "emit.checkpoints.interval.seconds": "5",
    "sync.group.offsets.enabled": "true",
    "sync.group.offsets.interval.seconds": "5",
    "sync.topic.configs.enabled": "true",
    "sync.topic.configs.interval.seconds": "10",
    "checkpoints.topic.replication.factor": "1",
    "offset-syncs.topic.replication.factor": "1",
    "groups": f"{PREFIX}.*",
}
"""For both systems, beside those of every item."""


@dataclass(frozen=True, slots=True)
class ScaleFigures:
    """What one run came to; times in s, memory in MB.

    `start_s`, `all_copied_s` and `groups_s` are from the start of the process to the first record on the target, to
    the last, and to the last group's offsets. `new_topic_s` is from creating a topic on the source to its creation on
    the target, `groups_moved_s` from the commits of all groups to their arrival, both while nothing else goes on, and
    both infinite when it does not happen within `DEADLINE_S`.
    `calls_per_s` and `steady_cpu` (CPU s per s) are of a time in which nothing changes; `calls` names the requests
    after it, over both clusters and `STEADY_S` seconds. `driver_pss_mb` is the program that was started, with its
    JVM, at the end.
    """

    start_s: float
    all_copied_s: float
    groups_s: float
    new_topic_s: float
    groups_moved_s: float
    calls_per_s: float
    steady_cpu: float
    driver_pss_mb: float
    peak_pss_mb: float
    peak_rss_mb: float
    calls: dict[str, int]


def prepare(item: ScaleItem, source: KafkaCluster, say: Callable[[str], None]) -> None:
    """Create the topics, write their records, commit for the groups at the ends."""
    began = time.monotonic()
    made = _topics(item)
    made.create(source)
    made.write(source, item.records)
    commit_offsets(source, _groups(item, item.records))
    say(
        f"{item.topics} topics with {item.topics * item.partitions} partitions and {item.groups} groups made in "
        f"{time.monotonic() - began:.1f} s"
    )


def measure_scale(
    item: ScaleItem,
    system: MirrorName,
    source: KafkaCluster,
    target: KafkaCluster,
    work: Path,
    say: Callable[[str], None],
) -> ScaleFigures:
    """Run a system on a prepared source and an empty target. Raises HarnessError or TimeoutError."""
    wait_calm()
    setup = Setup(system, f"{PREFIX}.*", PROPERTIES)
    places = _topics(item).places(setup.alias)
    names = {place.topic for place in places}
    before = count_records(source, _topics(item).places())
    say(f"starts; {before:,} records wait")
    with System(setup, source, target, work, memory=True) as running:

        def wait(reached: Callable[[], bool], what: str, every_s: float = LOOK_EVERY_S) -> float:
            if taken(reached, what, every_s) == math.inf:
                raise running.failed(f"{what}: not so within {DEADLINE_S:g} s")
            return time.monotonic()

        def taken(reached: Callable[[], bool], what: str, every_s: float = LOOK_EVERY_S) -> float:
            began = time.monotonic()
            while not reached():
                running.require_alive()
                if time.monotonic() - began > DEADLINE_S:
                    say(f"{what}: not so within {DEADLINE_S:g} s; going on")
                    return math.inf
                time.sleep(every_s)
            return time.monotonic() - began

        def there() -> bool:
            return topics(target).keys() >= names

        def first() -> bool:
            known = topics(target)
            some = [place for place in places if place.topic in known][:: item.partitions]
            return bool(some) and count_records(target, some) > 0

        start = wait(first, "a first record") - running.started
        wait(there, "every remote topic exists")
        copied = wait(lambda: count_records(target, places) >= before, "every record copied") - running.started
        at = before // len(places)
        groups = wait(lambda: _arrived(item, setup, target, at), "every group's offsets", 1.0) - running.started
        say(f"first record after {start:.1f} s, all after {copied:.1f} s, groups after {groups:.1f} s; a new topic")

        create_topic(source, LATE)
        new_topic = taken(lambda: f"{setup.alias}.{LATE}" in topics(target), "the new topic exists")

        _topics(item).write(source, 1)
        wait(lambda: count_records(target, places) >= before + len(places), "one more record in each partition")
        commit_offsets(source, _groups(item, at + 1))
        moved = taken(lambda: _arrived(item, setup, target, at + 1), "every group's new offsets", 0.5)
        say(f"a new topic after {new_topic:.1f} s, moved groups after {moved:.1f} s; {STEADY_S:g} s of nothing")

        calls, cpu, began = requests(source) + requests(target), running.meter.cpu_s(), time.monotonic()
        time.sleep(STEADY_S)
        cpu = running.meter.cpu_s() - cpu
        steady_s = time.monotonic() - began
        calls = requests(source) + requests(target) - calls
        driver = _driver_pss(running)
        meter = running.meter
    admin_calls = {name: count for name, count in sorted(calls.items()) if name in ADMIN_CALLS}
    figures = ScaleFigures(
        start_s=start,
        all_copied_s=copied,
        groups_s=groups,
        new_topic_s=new_topic,
        groups_moved_s=moved,
        calls_per_s=sum(admin_calls.values()) / steady_s,
        steady_cpu=cpu / steady_s,
        driver_pss_mb=driver,
        peak_pss_mb=meter.peak_pss / MB,
        peak_rss_mb=meter.peak_rss / MB,
        calls=admin_calls,
    )
    say(
        f"{figures.calls_per_s:,.1f} admin calls/s and {figures.steady_cpu:.2f} CPU s per s while nothing changes, "
        f"driver {driver:,.0f} MB, peak PSS {figures.peak_pss_mb:,.0f} MB"
    )
    return figures


def _topics(item: ScaleItem) -> ManyTopics:
    return ManyTopics(PREFIX, item.topics, item.partitions)


def _groups(item: ScaleItem, offset: int, prefix: str = "") -> dict[str, dict[Place, int]]:
    """Each group has offsets in two partitions of one topic."""
    names = _topics(item).names
    return {
        f"{PREFIX}group-{number:04d}": dict.fromkeys(
            ((prefix + names[number % len(names)], part % item.partitions) for part in (number, number + 1)), offset
        )
        for number in range(item.groups)
    }


def _arrived(item: ScaleItem, setup: Setup, target: KafkaCluster, offset: int) -> bool:
    """Whether every group has its offsets on the target."""
    wanted = _groups(item, offset, f"{setup.alias}.")
    found = group_offsets(target, wanted)
    return all(
        all(place in found[group] and found[group][place].offset >= offset for place in places)
        for group, places in wanted.items()
    )


def _driver_pss(running: System) -> float:
    root = running.meter.root
    family = [root, *(child for child in root.children(recursive=True) if "java" in child.name())]
    return sum(rss_and_pss(process)[1] for process in family) / MB
