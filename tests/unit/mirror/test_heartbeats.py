"""Heartbeats of clusters that the file lacks are known by their records; records of a user never count."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from harness.virtual.cluster import VirtualCluster
from harness.virtual.faults import Fault
from harness.virtual.log import VirtualLog
from harness.virtual.loop import VirtualLoop, virtual_loop
from harness.virtual.requests import FETCH, LIST_OFFSETS
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.record.builder import encode_batch, record_body
from twinlog.kafka.record.stamp import stamp
from twinlog.mirror.heartbeats import AGAIN_S, LAST, LOOK_S, HeartbeatTopics
from twinlog.mirror.records import Heartbeat, decode_heartbeat
from twinlog.model.topic_names import HeartbeatNames
from twinlog.model.types import Alias, TopicName
from twinlog.settings.client import ClientSettings

NAMES = HeartbeatNames(".", frozenset(map(Alias, ("hub", "west"))))
"""Those of a file with a flow from the hub to west."""


class Hub:
    """The source of that flow; mirrors of other files lead to it as well."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.cluster = VirtualCluster(loop, "hub")
        self.admin = ClusterAdmin("hub", ClientSettings(self.cluster.bootstrap), VirtualLoop(loop.world))
        self.admin.connect()
        self.topics = HeartbeatTopics(self.admin, NAMES)

    def create(self, topic: str, *beats: tuple[str, str], values: tuple[bytes, ...] = (), at: int = 0) -> VirtualLog:
        log = self.cluster.log(topic) if self.cluster.topics.count(topic) else self.cluster.create(topic, 3)[0]
        for source, target in beats:
            beat = Heartbeat(Alias(source), Alias(target), 1_700_000_000_000)
            append(log, beat.key, beat.value)
        for value in values:
            log.write(value, at_ms=at)
        return log

    def look(self) -> HeartbeatNames:
        return self.topics.inspect_topics(self.admin.topics())

    def holds(self, topic: str) -> bool:
        return self.look().is_heartbeats(TopicName(topic))


def append(log: VirtualLog, key: bytes | None, value: bytes) -> None:
    data = bytearray(encode_batch([(0, record_body(key, value))], 0))
    stamp(data, -1, -1, -1)
    log.append(bytes(data))


@contextmanager
def hub() -> Iterator[Hub]:
    with virtual_loop(1) as loop:
        here = Hub(loop)
        try:
            yield here
        finally:
            here.admin.close()


def test_a_chain_of_clusters_that_only_other_mirrors_know_is_read_from_its_records() -> None:
    with hub() as here:
        here.create("heartbeats", ("north", "hub"), ("west", "hub"))
        here.create("north.heartbeats", ("island", "north"))
        here.create("north.island.heartbeats", ("north", "island"))
        here.create("device.heartbeats", values=(b'{"ssn":"123-45-6789"}',))
        names = here.look()
        assert names.aliases == {"hub", "west", "north", "island"}
        assert here.topics.others == {"device.heartbeats"}
        for topic in ("north.heartbeats", "north.island.heartbeats"):
            assert names.is_heartbeats(TopicName(topic))
        assert not names.is_heartbeats(TopicName("device.heartbeats"))


def test_a_chain_is_known_by_the_records_of_its_last_topic_alone() -> None:
    """Where a mirror on the way has stopped its heartbeats of its own."""
    with hub() as here:
        here.create("north.island.heartbeats", ("rock", "island"))
        assert here.look().aliases == {"hub", "west", "north", "island", "rock"}


def test_heartbeats_under_another_name_are_a_users() -> None:
    """Somebody keeps a copy of them."""
    with hub() as here:
        here.create("backup.heartbeats", ("hub", "west"))
        assert not here.holds("backup.heartbeats")
        assert here.topics.others == {"backup.heartbeats"}


def test_one_record_of_another_kind_makes_a_topic_a_users() -> None:
    with hub() as here:
        here.create("device.heartbeats", ("north", "device"), values=(b"alive",))
        assert not here.holds("device.heartbeats")


def test_a_topic_without_records_is_a_users_until_it_has_some() -> None:
    with hub() as here:
        here.create("north.heartbeats")
        assert not here.holds("north.heartbeats")
        assert here.topics.others == set()
        here.create("north.heartbeats", ("island", "north"))
        assert here.holds("north.heartbeats")


def test_nothing_is_read_where_names_alone_decide_and_each_topic_once() -> None:
    with hub() as here:
        for topic in ("heartbeats", "west.heartbeats", "orders", "device-heartbeats"):
            here.create(topic, values=(b"x",))
        here.cluster.asked.clear()
        here.look()
        assert here.cluster.asked[FETCH] == here.cluster.asked[LIST_OFFSETS] == 0
        here.create("device.heartbeats", values=(b"x",) * (LAST + 5))
        here.look()
        asked = here.cluster.asked[FETCH]
        assert asked == 1
        here.look()
        assert here.cluster.asked[FETCH] == asked


def test_large_records_of_many_topics_are_looked_at_each() -> None:
    with hub() as here:
        names = [f"device-{number}.heartbeats" for number in range(30)]
        for name in names:
            here.create(name, values=(b"x" * 300_000,) * 3)
        here.create("north.heartbeats", ("island", "north"))
        here.look()
        assert here.topics.others == set(names)
        assert here.holds("north.heartbeats")


def test_a_topic_that_may_not_be_read_hides_no_other(caplog: pytest.LogCaptureFixture) -> None:
    with hub() as here:
        here.create("device.heartbeats", values=(b"x",))
        here.create("north.heartbeats", ("island", "north"))
        here.cluster.codes(LIST_OFFSETS, "device.heartbeats", *[Code.TOPIC_AUTHORIZATION_FAILED] * 2)
        with caplog.at_level("INFO"):
            assert here.holds("north.heartbeats")
        assert "device.heartbeats is taken for a topic of a user" in caplog.text
        assert here.topics.others == set()
        here.cluster.asked.clear()
        here.look()
        assert here.cluster.asked[FETCH] == 0


def test_a_broker_that_is_silent_holds_up_nothing_for_long() -> None:
    with hub() as here:
        here.create("north.heartbeats", ("island", "north"))
        here.cluster.fault(FETCH, Fault(delay_s=60.0))
        begun = here.admin.clock.monotonic()
        assert not here.holds("north.heartbeats")
        assert here.admin.clock.monotonic() - begun < LOOK_S + 1
        asked = here.cluster.asked[LIST_OFFSETS]
        assert not here.holds("north.heartbeats")
        assert here.cluster.asked[LIST_OFFSETS] == asked
        here.admin.clock.sleep(AGAIN_S)
        assert here.holds("north.heartbeats")


def test_a_partition_without_a_leader_is_looked_at_later() -> None:
    with hub() as here:
        here.create("north.heartbeats", ("island", "north"))
        here.cluster.move("north.heartbeats", 0, None)
        assert not here.holds("north.heartbeats")
        here.cluster.move("north.heartbeats", 0, here.cluster.nodes[0])
        assert here.holds("north.heartbeats")


def test_copies_on_the_target_tell_of_a_source_that_is_lost() -> None:
    with hub() as here:
        here.create("lost.heartbeats", ("north", "lost"))
        here.create("lost.north.heartbeats", ("island", "north"))
        here.create("lost.device.heartbeats", values=(b"x",))
        names = HeartbeatNames(".", frozenset(map(Alias, ("lost", "hub"))))
        topics = HeartbeatTopics(here.admin, names, lambda topic: TopicName(f"lost.{topic}"))
        found = topics.inspect_topics(
            [TopicName(name) for name in ("heartbeats", "north.heartbeats", "device.heartbeats")]
        )
        assert found.is_heartbeats(TopicName("north.heartbeats"))
        assert not found.is_heartbeats(TopicName("device.heartbeats"))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, Heartbeat(Alias("a"), Alias("b"), 1).value),
        (Heartbeat(Alias("a"), Alias("b"), 1).key, None),
        (Heartbeat(Alias("a"), Alias("b"), 1).key + b"c", Heartbeat(Alias("a"), Alias("b"), 1).value),
        (Heartbeat(Alias("a"), Alias("b"), 1).key, Heartbeat(Alias("a"), Alias("b"), 1).value + b"c"),
        (Heartbeat(Alias(""), Alias("b"), 1).key, Heartbeat(Alias("a"), Alias("b"), 1).value),
        (Heartbeat(Alias("a"), Alias("b"), 1).key, b"\0\1" + Heartbeat(Alias("a"), Alias("b"), 1).value[2:]),
        (b"device-7", b'{"alive":true}'),
        (b"", b""),
    ],
)
def test_other_records_are_no_heartbeats(key: bytes | None, value: bytes | None) -> None:
    assert decode_heartbeat(key, value) is None


def test_a_heartbeat_is_read_as_it_was_written() -> None:
    beat = Heartbeat(Alias("a"), Alias("bé"), 1_700_000_000_000)
    assert decode_heartbeat(beat.key, beat.value) == beat
