"""A mirror between this release of Kafka and each other release, in both directions, killed in the middle.

`make versions` runs these tests and prints their table.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import pytest

from harness.checks.checker import Load, require_clean
from harness.cluster import KafkaCluster
from harness.consume import Record, consume
from harness.groups import commit_offsets, group_offsets
from harness.produce import Codec, NewRecord, numbered, produce
from harness.topics import create_topic, topic_config, topics
from harness.versions import RELEASES, make_cluster
from harness.wait import wait_for
from tests.integration.mirror_process import GROUPS_EVERY_SECOND, flow_properties
from tests.integration.running import RunTwinlog

pytestmark = pytest.mark.versions

DEADLINE_S = 180.0
CODECS: tuple[Codec, ...] = ("none", "gzip", "snappy", "lz4", "zstd")
BEGIN_MS = 1_700_000_000_000
PLAIN, COMPACTED, TRANSACTIONAL, OLD, STREAM = "plain", "compacted", "transactional", "old", "stream"
KINDS = (PLAIN, COMPACTED, TRANSACTIONAL, OLD, STREAM)
GROUP = "readers"
RATE = 3_000
"""Records per second of the stream, which continues while the mirror is killed and started again."""
BEFORE = 6_000
"""Records of the stream on the target before the kill."""
COMPACT = {"cleanup.policy": "compact", "segment.ms": "60000", "min.cleanable.dirty.ratio": "0.01"}
KEYS = 20

Way = Literal["from", "to"]


@dataclass(frozen=True, slots=True)
class Mirrored:
    """A mirror that was killed, started again and stopped, with all records copied; topics begin with `prefix`.

    `moved` has the offsets of the group on the target by kind of topic and partition.
    """

    source: KafkaCluster
    target: KafkaCluster
    prefix: str
    log: str
    moved: dict[tuple[str, int], int]

    def both(self, topic: str) -> tuple[list[Record], list[Record]]:
        """The records of a topic on the source, and of its copy."""
        return consume(self.source, topic), consume(self.target, f"left.{topic}")

    def require_equal(self, kind: str) -> None:
        """Each record is there once, in order, in its partition, with key, value, headers and timestamp."""
        topic = f"{self.prefix}-{kind}"
        here, there = self.both(topic)
        assert here
        assert [(one.partition, one.content) for one in there] == [(one.partition, one.content) for one in here]


@pytest.fixture(scope="module", params=RELEASES)
def other(request: pytest.FixtureRequest) -> Iterator[tuple[str, KafkaCluster]]:
    release: str = request.param
    cleaner = {"log.cleaner.backoff.ms": "500", "log.cleaner.min.cleanable.ratio": "0.01"}
    with make_cluster(release, f"kafka-{release}", cleaner) as cluster:
        yield release, cluster


@pytest.fixture(scope="module")
def today() -> Iterator[KafkaCluster]:
    with KafkaCluster("today", sasl=False) as cluster:
        yield cluster


@pytest.fixture(scope="module", params=["from", "to"])
def way(request: pytest.FixtureRequest) -> Way:
    found: Way = request.param
    return found


@pytest.fixture(scope="module", params=[False, True], ids=["at-least-once", "exactly-once"])
def exactly_once(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture(scope="module")
def mirrored(
    other: tuple[str, KafkaCluster],
    today: KafkaCluster,
    way: Way,
    exactly_once: bool,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Mirrored]:
    release, cluster = other
    source, target = (cluster, today) if way == "from" else (today, cluster)
    prefix = f"{way}-{release}-{'once' if exactly_once else 'least'}"
    started = RunTwinlog(tmp_path_factory.mktemp("versions"))
    try:
        _write_records(source, prefix, formats=way == "from" and release.startswith("2."))
        yield _mirror_with_a_kill(started, source, target, prefix, exactly_once=exactly_once)
    finally:
        started.close()


def _write_records(source: KafkaCluster, prefix: str, *, formats: bool) -> None:
    """Topics of every kind; with `formats` a topic with records of format v1, too."""
    create_topic(source, f"{prefix}-{PLAIN}", 2, config={"retention.ms": "86400001"})
    for number, codec in enumerate(CODECS):
        produce(source, f"{prefix}-{PLAIN}", numbered(100, start=100 * number, headers=True), codec=codec)
    produce(source, f"{prefix}-{PLAIN}", numbered(100, keys=5, headers=True), partition=1)
    topic = create_topic(source, f"{prefix}-{COMPACTED}", config=COMPACT)
    for segment in range(3):
        produce(source, topic, [_keyed(segment, key) for key in range(KEYS)])
    produce(source, topic, [_keyed(3, KEYS)])
    wait_for(lambda: len(consume(source, topic)) == KEYS + 1, DEADLINE_S, f"{topic} is compacted")
    topic = create_topic(source, f"{prefix}-{TRANSACTIONAL}")
    produce(source, topic, numbered(50), transactional_id=f"{prefix}-a", abort=True)
    produce(source, topic, numbered(100, start=50), transactional_id=f"{prefix}-b")
    produce(source, topic, numbered(50, start=150), transactional_id=f"{prefix}-a", abort=True)
    produce(source, topic, numbered(100, start=200), transactional_id=f"{prefix}-a")
    if formats:
        topic = create_topic(source, f"{prefix}-{OLD}", config={"message.format.version": "0.10.2"})
        for number, codec in enumerate(CODECS[:-1]):
            produce(source, topic, numbered(100, start=100 * number, keys=3), codec=codec)
    create_topic(source, f"{prefix}-{STREAM}", 2)
    commit_offsets(
        source, {f"{prefix}-{GROUP}": {(f"{prefix}-{PLAIN}", 0): 321, (f"{prefix}-{TRANSACTIONAL}", 0): 120}}
    )


def _keyed(segment: int, key: int) -> NewRecord:
    """A segment ends before a record that is ten minutes younger than its first record."""
    value = b"%d in segment %d" % (key, segment) + b"." * 300
    return NewRecord(value, b"key-%02d" % key, (), BEGIN_MS + segment * 600_000 + key)


def _mirror_with_a_kill(
    started: RunTwinlog, source: KafkaCluster, target: KafkaCluster, prefix: str, *, exactly_once: bool
) -> Mirrored:
    settings = {
        "topics": f"{prefix}-.*",
        "groups": f"{prefix}-.*",
        **GROUPS_EVERY_SECOND,
        "consumer.isolation.level": "read_committed",
    }
    properties = flow_properties("left->right", source, target, settings)
    if exactly_once:
        properties += "right.exactly.once.source.support = enabled\n"
    stream, group = f"{prefix}-{STREAM}", f"{prefix}-{GROUP}"

    def count(topic: str) -> int:
        process.process.require_alive()
        return len(consume(target, f"left.{topic}")) if f"left.{topic}" in topics(target) else 0

    with Load(source, stream, 2, rate=RATE) as load:
        process = started("left, right", properties)
        wait_for(lambda: count(stream) >= BEFORE, DEADLINE_S, f"the stream is copied: {process.log}")
        process.kill()
        process.restart()
        wait_for(lambda: count(stream) > BEFORE + RATE, DEADLINE_S, f"the stream is copied again: {process.log}")
        load.stop()
    kinds = [kind for kind in KINDS if f"{prefix}-{kind}" in topics(source)]

    def all_copied() -> bool:
        return all(count(f"{prefix}-{kind}") >= len(consume(source, f"{prefix}-{kind}")) for kind in kinds)

    wait_for(all_copied, DEADLINE_S, f"every topic is copied: {process.log}")
    wanted = {(PLAIN, 0): 321, (TRANSACTIONAL, 0): 69}
    """Offsets of the group on a target without markers; while records are on their way, the group is before them."""

    def has_moved() -> bool:
        found = group_offsets(target, [group])[group]
        return all(
            (where := (f"left.{prefix}-{kind}", part)) in found and found[where].offset >= offset
            for (kind, part), offset in wanted.items()
        )

    wait_for(has_moved, DEADLINE_S, f"{group} follows: {process.log}")
    found = group_offsets(target, [group])[group]
    moved = {(topic.removeprefix(f"left.{prefix}-"), part): one.offset for (topic, part), one in found.items()}
    assert process.terminate() == 0, process.log
    return Mirrored(source, target, prefix, process.log, moved)


def test_plain(mirrored: Mirrored) -> None:
    mirrored.require_equal(PLAIN)
    assert topic_config(mirrored.target, f"left.{mirrored.prefix}-{PLAIN}")["retention.ms"] == "86400001"


def test_compacted(mirrored: Mirrored) -> None:
    """The copy is compacted as well, whenever the target's broker does it."""
    topic = f"{mirrored.prefix}-{COMPACTED}"
    here, there = ({one.key: one.content for one in records} for records in mirrored.both(topic))
    assert len(here) == KEYS + 1
    assert there == here


def test_transactional(mirrored: Mirrored) -> None:
    mirrored.require_equal(TRANSACTIONAL)


def test_old_format(mirrored: Mirrored) -> None:
    if f"{mirrored.prefix}-{OLD}" not in topics(mirrored.source):
        pytest.skip("this source keeps records in format v2 alone")
    mirrored.require_equal(OLD)


def test_groups(mirrored: Mirrored) -> None:
    """The next record of the group is the same on both sides."""
    for kind, offset in ((PLAIN, 321), (TRANSACTIONAL, 120)):
        topic = f"{mirrored.prefix}-{kind}"
        here = consume(mirrored.source, topic, partitions=[0], start=offset)[0]
        there = consume(mirrored.target, f"left.{topic}", partitions=[0], start=mirrored.moved[kind, 0])[0]
        assert there.content == here.content


def test_kill_9(mirrored: Mirrored) -> None:
    """No record of the stream is lost, repeated or out of order, and the log has no error."""
    topic = f"{mirrored.prefix}-{STREAM}"
    assert require_clean(mirrored.source, topic, mirrored.target, f"left.{topic}") > BEFORE + RATE
    assert not [line for line in mirrored.log.splitlines() if " ERROR " in line]
