"""Ten of two hundred topics at a time cannot be copied: all others are, each of the ten is named and released."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

import pytest
from confluent_kafka.admin import NewTopic

from harness.checks.requests import LoopWatch
from harness.cluster import KafkaCluster
from harness.consume import consume_topics
from harness.produce import NewRecord, produce
from harness.topics import delete_records, set_topic_config
from harness.wait import wait_for
from tests.integration.copier.test_held import AHEAD_MS, ANY_TIME, ONE_HOUR
from tests.integration.copying import flow_settings
from tests.integration.without_spark import FlowWithoutSpark
from twinlog.model.java_regex.pattern import java_pattern
from twinlog.settings.flow import FlowSettings
from twinlog.settings.per_topic import PerTopic, TopicRule

TOPICS, TROUBLED = 200, 10
KINDS = ("clock", "keyless", "large")
HELD_S, HEALED_S = 120.0, 180.0

REFUSING = {
    "clock": ONE_HOUR,
    "keyless": {"cleanup.policy": "compact"},
    "large": {"max.message.bytes": "2000"},
}
TAKING = {
    "clock": ANY_TIME,
    "keyless": {"cleanup.policy": "delete"},
    "large": {"max.message.bytes": "1000000"},
}
REASONS = {"clock": "refused record", "keyless": "refused record", "large": "oversized record"}


def troubling(kind: str) -> NewRecord:
    match kind:
        case "clock":
            return NewRecord(b"ahead", b"k", timestamp=AHEAD_MS)
        case "keyless":
            return NewRecord(b"no key")
        case _:
            return NewRecord(b"." * 5_000, b"k")


class Scene:
    """The topics, and what was written to each."""

    def __init__(
        self, source: KafkaCluster, target: KafkaCluster, new_name: Callable[[str], str], watch: LoopWatch
    ) -> None:
        self.source, self.target, self.watch = source, target, watch
        self.names = [new_name(f"t{number:03}") for number in range(TOPICS)]
        self.written: dict[str, list[bytes | None]] = {name: [] for name in self.names}
        for cluster, prefix in ((source, ""), (target, "north.")):
            made = cluster.clients.admin().create_topics(
                [NewTopic(f"{prefix}{name}", 1, 1) for name in self.names], operation_timeout=60
            )
            for one in made.values():
                one.result(60)

    def settings(self, **others: object) -> FlowSettings:
        topics = tuple(self.names)
        return flow_settings(self.source, self.target, topics=topics, refresh_topics_interval_s=1.0, **others)

    def write(self, names: Iterable[str], *records: NewRecord) -> None:
        for name in names:
            produce(self.source, name, records, per_batch=len(records))
            self.written[name] += [record.value for record in records]
        # Two hundred producers in a row ask for metadata, too.
        self.watch.look()

    def copied(self, names: Sequence[str]) -> dict[str, list[bytes | None]]:
        found = consume_topics(self.target, [f"north.{name}" for name in names])
        return {name: [one.value for one in found[f"north.{name}"]] for name in names}

    def wait_until_copied(self, names: Sequence[str], within_s: float) -> None:
        want = {name: self.written[name] for name in names}
        wait_for(lambda: self.copied(names) == want, within_s, f"{len(names)} topics are copied")


def keyed(start: int, count: int = 5) -> list[NewRecord]:
    return [NewRecord(b"%d" % number, b"key-%d" % number) for number in range(start, start + count)]


def held(flow: FlowWithoutSpark) -> dict[str, str]:
    return {one.topic: one.reason for one in flow.runner.held.all()}


@pytest.mark.scenario
def test_ten_of_two_hundred_topics_are_held_at_a_time(
    source_cluster: KafkaCluster, target_cluster: KafkaCluster, new_name: Callable[[str], str], loop_watch: LoopWatch
) -> None:
    scene = Scene(source_cluster, target_cluster, new_name, loop_watch)
    names = scene.names
    with FlowWithoutSpark(scene.settings()) as flow:
        scene.write(names, *keyed(0))
        scene.wait_until_copied(names, HELD_S)
        for turn, kind in enumerate(KINDS):
            troubled = names[turn * TROUBLED : (turn + 1) * TROUBLED]
            others = [name for name in names if name not in troubled]
            for name in troubled:
                set_topic_config(scene.target, f"north.{name}", REFUSING[kind])
            scene.write(troubled, *keyed(100), troubling(kind), *keyed(200))
            scene.write(others, *keyed(100 * (turn + 1)))
            wait_for(lambda: held(flow) == dict.fromkeys(troubled, REASONS[kind]), HELD_S, f"ten are held: {kind}")  # noqa: B023
            scene.wait_until_copied(others, HELD_S)
            for name in troubled:
                set_topic_config(scene.target, f"north.{name}", TAKING[kind])
            scene.wait_until_copied(troubled, HEALED_S)
            wait_for(lambda: not held(flow), HELD_S, "none is held")
    # Kafka Streams purges its repartition topics so while the flow is away (KIP-811).
    purged, others = names[50:60], [name for name in names if name not in names[50:60]]
    scene.write(names, *keyed(1000))
    for name in purged:
        delete_records(scene.source, name, len(scene.written[name]) - 1)
    with FlowWithoutSpark(scene.settings()) as flow:
        wait_for(lambda: held(flow) == dict.fromkeys(purged, "gap"), HELD_S, "ten are held for a gap")
        scene.wait_until_copied(others, HELD_S)
    policy = PerTopic("hold", tuple(TopicRule(name, java_pattern(re.escape(name)), "skip", True) for name in purged))
    with FlowWithoutSpark(scene.settings(gap_policy=policy)) as flow:
        for name in purged:
            scene.written[name] = [*scene.written[name][:-5], scene.written[name][-1]]
        scene.wait_until_copied(purged, HELD_S)
        assert not held(flow)
