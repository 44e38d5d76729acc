"""A partition that cannot be copied further is held, and copied once it can be; all others are copied meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from harness.cluster import KafkaCluster
from harness.consume import consume
from harness.produce import NewRecord, numbered, produce
from harness.topics import create_topic, delete_records, delete_topic, set_topic_config
from harness.wait import wait_for
from tests.integration.copying import flow_settings
from tests.integration.without_spark import FlowWithoutSpark
from twinlog.settings.flow import FlowSettings
from twinlog.settings.per_topic import PerTopic
from twinlog.settings.transform import FailedRecordSettings

AHEAD_MS = 4_102_444_800_000
"""A clock in the year 2100."""

ONE_HOUR = {"message.timestamp.after.max.ms": "3600000"}
"""Kafka 4's default (KIP-937, KIP-1030); the brokers of these tests take any time."""

ANY_TIME = {"message.timestamp.after.max.ms": str(2**63 - 1)}
KINDS = ("good", "gap", "anew", "clock", "keyless", "large")
HELD_S = 60.0
HEALED_S = 150.0
"""The longest pause between two tries is a minute."""

MODES = pytest.mark.parametrize("mode", ["disabled", pytest.param("enabled", marks=pytest.mark.scenario)])


class Scene:
    """Topics that are copied, and a trouble for some of them; partition 1 of each topic never has any."""

    def __init__(self, source: KafkaCluster, target: KafkaCluster, new_name: Callable[[str], str], mode: str) -> None:
        self.source, self.target = source, target
        self.topics = {kind: new_name(kind) for kind in KINDS}
        self.written: dict[tuple[str, int], list[bytes | None]] = {}
        self.mode = mode
        for topic in self.topics.values():
            create_topic(source, topic, 2)
        create_topic(target, self.remote("clock"), 2, config=ONE_HOUR)
        create_topic(target, self.remote("keyless"), 2, config={"cleanup.policy": "compact"})
        create_topic(target, self.remote("large"), 2, config={"max.message.bytes": "2000"})

    def remote(self, kind: str) -> str:
        return f"north.{self.topics[kind]}"

    def settings(self, **others: object) -> FlowSettings:
        return flow_settings(
            self.source,
            self.target,
            topics=tuple(self.topics.values()),
            refresh_topics_interval_s=1.0,
            exactly_once=self.mode,
            **others,
        )

    def write(self, kind: str, *records: NewRecord, partition: int = 0) -> None:
        produce(self.source, self.topics[kind], records, partition=partition, per_batch=len(records))
        self.written.setdefault((kind, partition), []).extend(record.value for record in records)

    def write_all(self, start: int) -> None:
        for kind in KINDS:
            for partition in range(2):
                self.write(kind, *keyed(start), partition=partition)

    def copied(self, kind: str, partition: int = 0) -> list[bytes | None]:
        return [one.value for one in consume(self.target, self.remote(kind), partitions=[partition])]

    def whole(self, kind: str, partition: int = 0) -> bool:
        return self.copied(kind, partition) == self.written[kind, partition]

    def wait_until_copied(self, *parts: tuple[str, int], within_s: float = HELD_S) -> None:
        for kind, partition in parts:
            wait_for(lambda: self.whole(kind, partition), within_s, f"{kind}-{partition} is copied")  # noqa: B023

    def make_trouble(self) -> None:
        """Five records more for each partition; in those with trouble the third is the one that is refused."""
        self.write_all(10)
        delete_records(self.source, self.topics["gap"], 8)
        delete_topic(self.source, self.topics["anew"])
        create_topic(self.source, self.topics["anew"], 2)
        for partition in range(2):
            produce(self.source, self.topics["anew"], keyed(50), partition=partition)
        self.write("clock", *keyed(20)[:2], NewRecord(b"ahead", b"k", timestamp=AHEAD_MS), *keyed(30)[:2])
        self.write("keyless", *keyed(20)[:2], NewRecord(b"no key"), *keyed(30)[:2])
        self.write("large", *keyed(20)[:2], NewRecord(b"." * 5_000, b"k"), *keyed(30)[:2])


def keyed(start: int) -> list[NewRecord]:
    """Each with a key of its own, so that compaction leaves them all."""
    return [NewRecord(one.value, b"key-%d" % number) for number, one in enumerate(numbered(5, start=start), start)]


def held(flow: FlowWithoutSpark, scene: Scene) -> dict[tuple[str, int], tuple[str, str, int, int]]:
    """Each held partition: reason, message id, offsets on both sides."""
    kinds = {topic: kind for kind, topic in scene.topics.items()}
    return {
        (kinds[one.topic], one.partition): (one.reason, one.message_id, one.source_offset, one.target_offset)
        for one in flow.runner.held.all()
    }


def written_ms(flow: FlowWithoutSpark, topic: str) -> int | None:
    """When the oldest record of a topic that waits was written, by the report of the flow."""
    return {one.topic: one.oldest_ms for one in flow.runner.report().topics}[topic]


@pytest.fixture
def scene(
    source_cluster: KafkaCluster, target_cluster: KafkaCluster, new_name: Callable[[str], str], mode: str
) -> Scene:
    return Scene(source_cluster, target_cluster, new_name, mode)


@MODES
def test_what_cannot_be_copied_is_held_and_goes_on_by_itself_once_it_can(scene: Scene) -> None:
    with FlowWithoutSpark(scene.settings()) as flow:
        scene.write_all(0)
        scene.wait_until_copied(*((kind, partition) for kind in KINDS for partition in range(2)))
    begun_ms = time.time() * 1000
    scene.make_trouble()

    with FlowWithoutSpark(scene.settings()) as flow:
        wait_for(lambda: len(held(flow, scene)) == 6, HELD_S, "six partitions are held")
        found = held(flow, scene)
        for kind in ("clock", "keyless", "large"):
            wait_for(lambda: written_ms(flow, scene.topics[kind]) is not None, HELD_S, "their age is known")  # noqa: B023
            assert begun_ms <= (written_ms(flow, scene.topics[kind]) or 0) <= time.time() * 1000
        # A transaction's marker takes an offset of the target, so that these differ in that mode.
        assert {part: one[:3] for part, one in found.items()} == {
            ("gap", 0): ("gap", "TW-GAP-01", 5),
            ("anew", 0): ("gap", "TW-GAP-03", 5),
            ("anew", 1): ("gap", "TW-GAP-03", 5),
            ("clock", 0): ("refused record", "TW-RECORD-01", 12),
            ("keyless", 0): ("refused record", "TW-RECORD-01", 12),
            ("large", 0): ("oversized record", "TW-RECORD-02", 12),
        }
        if scene.mode == "disabled":
            assert found["clock", 0][3] == 12
        # All before the record that is refused is there, and everything else.
        for kind in ("clock", "keyless", "large"):
            assert scene.copied(kind) == scene.written[kind, 0][:12]
        scene.write("good", *keyed(60))
        scene.write("clock", *keyed(60), partition=1)
        scene.wait_until_copied(("good", 0), ("good", 1), *((kind, 1) for kind in KINDS if kind != "anew"))
        state, detail = flow.runner.status
        assert state == "running"
        assert detail is not None
        assert "6 partitions are held (3 gap, 1 oversized record, 2 refused record)" in detail
        assert flow.runner.nothing_copied is None

        set_topic_config(scene.target, scene.remote("clock"), ANY_TIME)
        set_topic_config(scene.target, scene.remote("keyless"), {"cleanup.policy": "delete"})
        set_topic_config(scene.target, scene.remote("large"), {"max.message.bytes": "1000000"})
        scene.wait_until_copied(("clock", 0), ("keyless", 0), ("large", 0), within_s=HEALED_S)
        wait_for(lambda: len(held(flow, scene)) == 3, HELD_S, "only the gaps are held")
        assert {one.reason for one in flow.runner.held.all()} == {"gap"}


@MODES
def test_by_policy_records_are_left_out_or_kept_in_the_dead_letter_topic(scene: Scene, topic_name: str) -> None:
    dead = f"{topic_name}-dead"
    settings = scene.settings(
        gap_policy=PerTopic("skip"),
        refused_record_policy=PerTopic("dead-letter"),
        oversized_record_policy=PerTopic("dead-letter"),
        failed_records=FailedRecordSettings(
            tolerance="all", dead_letter_topic=dead, dead_letter_headers=True, dead_letter_replication_factor=1
        ),
    )
    with FlowWithoutSpark(settings):
        scene.write_all(0)
        scene.wait_until_copied(*((kind, partition) for kind in KINDS for partition in range(2)))
    scene.make_trouble()
    with FlowWithoutSpark(settings) as flow:
        for kind in ("clock", "keyless", "large"):
            want = [value for number, value in enumerate(scene.written[kind, 0]) if number != 12]
            wait_for(lambda: scene.copied(kind) == want, HELD_S, f"{kind} is copied but for a record")  # noqa: B023
        wait_for(lambda: scene.copied("gap") == [b"%d" % at for at in (*range(5), 13, 14)], HELD_S, "the gap is passed")
        wait_for(lambda: len(consume(scene.target, dead)) == 3, HELD_S, "three records are in the dead-letter topic")
        letters = {one.value: (one.key, dict(one.headers)) for one in consume(scene.target, dead)}
        assert {value: key for value, (key, _) in letters.items()} == {
            b"ahead": b"k",
            b"no key": None,
            b"." * 5_000: b"k",
        }
        context = letters[b"ahead"][1]
        assert context["__connect.errors.topic"] == scene.topics["clock"].encode()
        assert context["__connect.errors.offset"] == b"12"
        assert flow.runner.held.all() == ()
