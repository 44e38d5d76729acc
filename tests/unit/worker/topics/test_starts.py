"""Where topics begin is decided and stored before anything is copied, and stays so, whatever happens on the way."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from harness.virtual.clock import WALL_BEGIN
from harness.virtual.cluster import VirtualCluster
from harness.virtual.faults import Fault
from harness.virtual.loop import VirtualLoop, virtual_loop
from harness.virtual.requests import LIST_OFFSETS, PRODUCE
from tests.unit.worker.topics.refreshing import retried
from twinlog.config.text.config_reader import topic_rule
from twinlog.errors import ClusterError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.producer.topic_writer import TopicWriter
from twinlog.mirror.offsets.position_store import PositionStore
from twinlog.mirror.offsets.position_writer import position_records
from twinlog.mirror.offsets.positions import Position
from twinlog.mirror.offsets.starts import AT_FIRST, REFUSED, StartSpec
from twinlog.mirror.topology.topology import topology_of
from twinlog.model.types import Alias, SourceOffset, TopicName, TopicPartition
from twinlog.settings.client import AdminSettings, ClientSettings, ConsumerSettings, ProducerSettings
from twinlog.settings.flow import FlowSettings
from twinlog.settings.per_topic import PerTopic
from twinlog.settings.start import Start
from twinlog.worker.topics.starts import PartitionStarts

BEGUN_MS = int(WALL_BEGIN * 1000)
LATEST, DAY = Start("latest"), Start("ago", 86_400_000, "P1D")


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The lines about starts, without those of the connections."""
    return [record.getMessage() for record in caplog.records if record.name == "twinlog.worker.topics.starts"]


def part(topic: str, number: int = 0) -> TopicPartition:
    return TopicPartition(TopicName(topic), number)


def at(offset: int) -> StartSpec:
    return StartSpec(offset=SourceOffset(offset))


class Driver:
    """The part of a process that decides; another one reads what this one stored."""

    def __init__(self, world: World, settings: FlowSettings) -> None:
        self.world = world
        self.settings = settings
        self.source, self.target = (
            world.connect(alias, client)
            for alias, client in (
                (settings.source, settings.source_admin.client),
                ("west", settings.target_admin.client),
            )
        )
        self.topology = topology_of(settings)
        self.positions = PositionStore(settings, self.target)
        self.starts = PartitionStarts(settings, self.source, self.target, self.positions)

    def decide(self) -> None:
        topics = [topic for name, topic in sorted(self.source.topics().items()) if self.topology.mirrors(name)]
        self.starts.decide_starts(topics)

    def begins(self, topic: str, partitions: int = 1) -> list[StartSpec]:
        return [self.starts.get_start(part(topic, number)) for number in range(partitions)]

    def copied(self, **positions: int) -> None:
        """The first partitions of topics have been copied up to some offsets."""
        records = {part(topic): Position(SourceOffset(offset), 0) for topic, offset in positions.items()}  # type: ignore[arg-type]
        writer = TopicWriter(self.target.client, TopicName(self.settings.positions_topic), 5.0, "tests", by_key=True)
        self.target.call(writer.append, list(position_records(self.settings, records)))


class World:
    """Two clusters, with `old` of two partitions that hold ten and no records on the source."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.loop = loop
        self.source, self.target = VirtualCluster(loop, "east", brokers=2), VirtualCluster(loop, "west")
        reading, writing = ClientSettings(self.source.bootstrap), ClientSettings(self.target.bootstrap)
        self.settings = FlowSettings(
            source=Alias("east"),
            target=Alias("west"),
            consumer=ConsumerSettings(reading, auto_offset_reset=LATEST),
            producer=ProducerSettings(writing),
            source_admin=AdminSettings(reading),
            target_admin=AdminSettings(writing),
        )
        self.target.create(self.settings.positions_topic)
        self.source.create("old", 2)
        self.write("old", 10, at_ms=BEGUN_MS - 1000)
        self.admins: list[ClusterAdmin] = []

    def write(self, topic: str, count: int, *, at_ms: int, partition: int = 0) -> None:
        for _ in range(count):
            self.source.log(topic, partition).write(b"x", at_ms=at_ms)

    def connect(self, alias: str, client: ClientSettings) -> ClusterAdmin:
        admin = ClusterAdmin(alias, client, VirtualLoop(self.loop.world))
        self.admins.append(admin)
        admin.connect()
        return admin

    def driver(self, **settings: Any) -> Driver:
        return Driver(self, replace(self.settings, **settings))

    def pass_by(self, seconds: float) -> None:
        self.loop.run(self.loop.sleep, seconds)


@contextmanager
def new_world() -> Iterator[World]:
    with virtual_loop(1) as loop:
        here = World(loop)
        try:
            yield here
        finally:
            for admin in here.admins:
                admin.close()


@pytest.fixture
def world() -> Iterator[World]:
    with new_world() as here:
        yield here


def test_a_flow_whose_topics_begin_at_their_first_record_asks_and_stores_nothing(world: World) -> None:
    driver = world.driver(consumer=replace(world.settings.consumer, auto_offset_reset=Start("earliest")))
    world.source.asked.clear()
    world.target.asked.clear()
    driver.decide()
    assert driver.begins("old") == [AT_FIRST]
    assert (world.source.asked[LIST_OFFSETS], world.target.asked[PRODUCE]) == (0, 0)


def test_at_the_first_start_partitions_begin_at_their_ends(world: World, caplog: pytest.LogCaptureFixture) -> None:
    driver = world.driver()
    driver.decide()
    assert driver.begins("old", 2) == [at(10), at(0)]
    assert "east->west: start: these topics begin at their ends (auto.offset.reset = latest): old" in caplog.messages
    # It is stored: what comes now is copied, however often processes take over before it is.
    world.write("old", 5, at_ms=0)
    world.pass_by(60)
    caplog.clear()
    for _ in range(2):
        again = world.driver()
        world.source.asked.clear()
        again.decide()
        assert again.begins("old", 2) == [at(10), at(0)]
        assert world.source.asked[LIST_OFFSETS] == 0
    assert said(caplog) == []


def test_what_appears_later_begins_at_its_first_record(world: World, caplog: pytest.LogCaptureFixture) -> None:
    driver = world.driver()
    driver.decide()
    caplog.clear()
    world.source.create("new")
    world.write("new", 100, at_ms=0)
    world.source.topics.grow("old", 4)
    driver.decide()
    assert driver.begins("new") == [AT_FIRST]
    assert driver.begins("old", 4) == [at(10), at(0), AT_FIRST, AT_FIRST]
    lines = [
        (
            "east->west: start: new appeared after the flow's first start: it begins at its earliest record, in "
            "spite of auto.offset.reset = latest"
        ),
        (
            "east->west: start: old-2, old-3 had no position after the first start: each begins at its earliest "
            "record, in spite of auto.offset.reset = latest"
        ),
    ]
    assert said(caplog) == lines
    driver.decide()
    again = world.driver()
    again.decide()
    assert (again.begins("new"), again.begins("old", 4)[2:]) == ([AT_FIRST], [AT_FIRST, AT_FIRST])
    # Once for each, not once for each process.
    assert said(caplog) == lines


def test_what_appears_while_no_process_runs_begins_at_its_first_record(world: World) -> None:
    world.driver().decide()
    world.source.create("new")
    world.write("new", 100, at_ms=0)
    driver = world.driver()
    driver.decide()
    assert driver.begins("new") == [AT_FIRST]


def test_the_first_start_counts_where_no_topic_is_there_yet(world: World) -> None:
    start: PerTopic[Start | None] = PerTopic.of(Start("earliest"), [topic_rule("new", LATEST)])
    driver = world.driver(start=start)
    driver.decide()
    world.source.create("new")
    world.write("new", 100, at_ms=0)
    for one in (driver, world.driver(start=start)):
        one.decide()
        assert (one.begins("new"), one.begins("old")) == ([AT_FIRST], [AT_FIRST])


def test_each_topic_begins_by_its_own_rule(world: World, caplog: pytest.LogCaptureFixture) -> None:
    for name in ("week", "since", "all", "nowhere"):
        world.source.create(name)
        for days in (3, 2, 1, 0):
            world.write(name, 10, at_ms=BEGUN_MS - days * 86_400_000)
    start: PerTopic[Start | None] = PerTopic.of(
        None,
        [
            topic_rule("week", replace(DAY, ms=2 * DAY.ms)),
            topic_rule("since", Start("time", BEGUN_MS - 100, "2023-11-14T22:13:19.9Z")),
            topic_rule("all", Start("earliest")),
        ],
    )
    driver = world.driver(start=start)
    driver.decide()
    # The clock went on by some milliseconds since the last records, so that those of two days ago are too old.
    found = [*driver.begins("old"), *driver.begins("week"), *driver.begins("since"), *driver.begins("all")]
    assert found == [at(10), at(20), at(30), AT_FIRST]
    assert any("their first records since 2023-11-14T22:13:19.900Z" in line for line in caplog.messages)
    none = world.driver(consumer=replace(world.settings.consumer, auto_offset_reset=Start("none")), start=start)
    none.decide()
    assert (none.begins("nowhere"), none.begins("week")) == ([REFUSED], [at(20)])


def test_without_a_record_so_new_a_partition_begins_at_its_end(world: World) -> None:
    start: PerTopic[Start | None] = PerTopic.of(None, [topic_rule("old", Start("time", BEGUN_MS + 1_000_000))])
    driver = world.driver(start=start)
    driver.decide()
    assert driver.begins("old", 2) == [at(10), at(0)]


def test_a_time_does_not_move_with_another_process(world: World) -> None:
    world.source.create("aging")
    for seconds in range(60, 0, -1):
        world.write("aging", 1, at_ms=BEGUN_MS - seconds * 1000)
    start: PerTopic[Start | None] = PerTopic(Start("ago", 30_000))
    driver = world.driver(start=start)
    driver.decide()
    begun = driver.begins("aging")
    assert begun in ([at(30)], [at(31)])
    world.pass_by(20.0)
    again = world.driver(start=start)
    again.decide()
    assert again.begins("aging") == begun


@pytest.mark.parametrize("done", [False, True], ids=["lost before", "lost after"])
@pytest.mark.parametrize("append", [1, 2, 3])
def test_a_crash_in_the_first_start_loses_no_record_since_its_moment(append: int, done: bool, world: World) -> None:
    """Whichever of the three appends of the first start is the last that arrives."""
    driver = world.driver()
    appends = iter(range(1, 9))

    def cut_off(key: int, request: Any) -> None:
        if key == PRODUCE and next(appends) == append - (not done):
            # Nothing more of this process arrives.
            world.target.carried_out = lambda *_: None
            world.target.fault(PRODUCE, Fault(lost=True), times=50)

    world.target.carried_out = cut_off
    if append - (not done) == 0:
        world.target.fault(PRODUCE, Fault(lost=True), times=50)
    if (append, done) == (3, True):
        driver.decide()
    else:
        with pytest.raises(ClusterError):
            driver.decide()
    world.target.faults.clear()
    # They come while no process runs; a topic is created, and two partitions.
    world.pass_by(5)
    now = BEGUN_MS + 5000
    world.write("old", 7, at_ms=now)
    world.write("old", 3, at_ms=now, partition=1)
    world.source.create("new")
    world.write("new", 4, at_ms=now)
    again = world.driver()
    again.decide()
    begins = [*again.begins("old", 2), *again.begins("new")]
    if append - (not done) == 0:
        # Nothing of the first start arrived: this is the first.
        assert begins == [at(17), at(3), at(4)]
    else:
        assert begins[:2] == [at(10), at(0)]
        assert begins[2] in (AT_FIRST, at(0))


def test_a_step_that_is_done_again_goes_by_the_moment_of_the_first_try(world: World) -> None:
    driver = world.driver()
    world.target.fault(PRODUCE, Fault(lost=True))
    with pytest.raises(ClusterError):
        driver.decide()
    world.pass_by(60)
    world.write("old", 6, at_ms=BEGUN_MS + 60_000)
    retried(driver.decide, world)
    assert driver.begins("old", 2) == [at(10), at(0)]


def test_partitions_without_a_leader_keep_no_others_waiting_and_begin_by_time(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.source.create("many", 20)
    for number in range(20):
        world.write("many", 5, at_ms=BEGUN_MS - 1000, partition=number)
    for number in range(0, 20, 2):
        world.source.move("many", number, None)
    driver = world.driver()
    driver.decide()
    begins = driver.begins("many", 20)
    assert begins[1::2] == [at(5)] * 10
    assert {begin.offset for begin in begins[::2]} == {None}
    assert all(begin.since_ms is not None and begin.since_ms >= BEGUN_MS for begin in begins[::2])
    assert any("no leader answers for many-0, many-10" in line for line in caplog.messages)
    # Some get their leaders, and records at once, of which the flow hears later.
    world.pass_by(60)
    for number in (0, 2):
        world.source.move("many", number, 1)
        world.write("many", 3, at_ms=BEGUN_MS + 60_000, partition=number)
    again = world.driver()
    again.decide()
    assert again.begins("many", 20) == begins
    again.starts.store_offsets()
    assert again.begins("many", 5) == [at(5), at(5), at(5), at(5), begins[4]]
    # It is stored, too.
    world.write("many", 3, at_ms=0)
    last = world.driver()
    last.decide()
    assert last.begins("many", 5) == [at(5), at(5), at(5), at(5), begins[4]]
    last.copied(many=9)
    last.starts.store_offsets()
    assert last.begins("many", 5)[1:] == [at(5), at(5), at(5), begins[4]]


def test_a_broker_that_does_not_answer_keeps_no_others_waiting(world: World) -> None:
    world.source.create("both", 2)
    leaders = [world.source.topics.parts["both", number].leader for number in (0, 1)]
    assert len(set(leaders)) == 2
    silent = leaders[1]
    assert silent is not None
    driver = world.driver()
    driver.source.call(driver.source.client.refresh, ["both"])
    world.source.stop(silent)
    driver.decide()
    begins = driver.begins("both", 2)
    assert begins[0] == at(0)
    assert begins[1].since_ms is not None


def test_positions_of_mirrormaker_count_and_other_partitions_begin_as_the_file_says(world: World) -> None:
    world.source.create("other")
    world.write("other", 3, at_ms=0)
    driver = world.driver()
    driver.copied(old=4)
    driver.decide()
    # A partition with a position needs no place to begin.
    assert driver.begins("old", 2) == [AT_FIRST, at(0)]
    assert driver.begins("other") == [at(3)]


def test_a_wider_filter_begins_with_what_it_adds_at_that_moment(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.source.create("added")
    world.write("added", 10, at_ms=0)
    world.driver(topics=("old",)).decide()
    world.write("added", 10, at_ms=0)
    world.source.create("older")
    caplog.clear()
    driver = world.driver(topics=("old.*", "added"))
    driver.decide()
    assert (driver.begins("added"), driver.begins("older")) == ([at(20)], [at(0)])
    # From now on they are the flow's.
    world.source.create("oldest")
    world.write("oldest", 10, at_ms=0)
    world.write("added", 10, at_ms=0)
    again = world.driver(topics=("old.*", "added"))
    again.decide()
    assert (again.begins("added"), again.begins("oldest")) == ([at(20)], [AT_FIRST])
    # A filter that lets through what the one before did begins with nothing.
    same = world.driver(topics=("o.*", "added"))
    same.decide()
    world.source.create("onset")
    world.write("onset", 1, at_ms=0)
    same.decide()
    assert same.begins("onset") == [AT_FIRST]


def test_a_topic_that_appears_while_the_filter_grows_begins_at_its_first_record(world: World) -> None:
    world.driver(topics=("old.*",)).decide()
    world.source.create("older")
    world.write("older", 10, at_ms=0)
    driver = world.driver(topics=(".*",))
    driver.decide()
    assert driver.begins("older") == [AT_FIRST]


def test_a_topic_that_is_recreated_before_it_was_copied_begins_at_its_first_record(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.driver().decide()
    world.source.topics.delete("old")
    world.source.create("old", 2)
    world.write("old", 3, at_ms=0)
    caplog.clear()
    driver = world.driver()
    driver.decide()
    assert driver.begins("old", 2) == [AT_FIRST, AT_FIRST]
    (line,) = said(caplog)
    assert line.startswith("east->west: start: old was recreated before it was copied: it begins at its earliest")


def test_a_right_to_write_that_is_missing_is_named(world: World) -> None:
    driver = world.driver()
    world.target.codes(PRODUCE, world.settings.positions_topic, 29)
    with pytest.raises(ClusterError, match=r"lacks WRITE on topic mm2-offsets\.east\.internal.*where topics begin"):
        driver.decide()


def test_more_topics_cost_no_more_requests(world: World) -> None:
    for number in range(50):
        world.source.create(f"t{number}", 4)
    driver = world.driver()
    driver.source.topics()
    world.source.asked.clear()
    world.target.asked.clear()
    driver.decide()
    assert driver.begins("t49", 4) == [at(0)] * 4
    # A broker each for the ends; the moment, the topics, and that they are all.
    assert (world.source.asked[LIST_OFFSETS], world.target.asked[PRODUCE]) == (2, 3)
