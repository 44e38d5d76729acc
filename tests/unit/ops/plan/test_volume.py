"""The first offsets of partitions, the amount that is left to copy, and records that are lost."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from harness.virtual.clock import WALL_BEGIN, VirtualClock
from tests.unit.worker.topics.test_topic_conflicts import flow
from twinlog.config.text.config_reader import topic_rule
from twinlog.kafka.protocol.offsets import LATEST
from twinlog.mirror.offsets.positions import Position
from twinlog.mirror.offsets.starts import NOTHING_STORED, ChosenTopics, FirstStart, StartSpec, StoredStarts, TopicStart
from twinlog.mirror.topics.changes import TopicPair
from twinlog.model.topics import ConfigEntry, ConfigSource, Topic
from twinlog.model.types import SourceOffset, TopicName, TopicPartition
from twinlog.ops.inventory import LogOffsets
from twinlog.ops.plan.volume import PlannedStarts, gaps, leaderless, planned_starts, remaining, to_copy
from twinlog.settings.per_topic import PerTopic
from twinlog.settings.start import Start

TOPIC, REMOTE = TopicName("t"), TopicName("east.t")
FIRST, SECOND = TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)


@pytest.mark.parametrize(
    ("log", "position", "begin", "left"),
    [
        (LogOffsets(10, 30), None, None, 20),
        (LogOffsets(10, 30), None, 30, 0),
        (LogOffsets(10, 30), None, 25, 5),
        (LogOffsets(10, 30), 25, 30, 5),
        (LogOffsets(10, 30), 30, None, 0),
        # What retention took cannot be copied.
        (LogOffsets(10, 30), 3, None, 20),
        (LogOffsets(10, 30), None, 3, 20),
        # The source log was cut back.
        (LogOffsets(10, 30), 40, None, 0),
        (LogOffsets(0, 0), None, None, 0),
    ],
)
def test_what_is_left_of_a_partition(log: LogOffsets, position: int | None, begin: int | None, left: int) -> None:
    stored = None if position is None else Position(SourceOffset(position))
    assert remaining(log, stored, None if begin is None else SourceOffset(begin)) == left


def test_bytes_are_the_share_of_the_log_that_is_left() -> None:
    pairs = [TopicPair(Topic(TOPIC, 2), REMOTE), TopicPair(Topic(TopicName("empty"), 1), TopicName("east.empty"))]
    logs = {
        FIRST: LogOffsets(0, 100),
        SECOND: LogOffsets(50, 100),
        TopicPartition(TopicName("empty"), 0): LogOffsets(7, 7),
    }
    sizes = {FIRST: 1000, SECOND: 600}
    positions = {FIRST: Position(SourceOffset(75))}
    configs = {TOPIC: [ConfigEntry("cleanup.policy", "compact,delete", ConfigSource.TOPIC)]}
    (found,) = to_copy(pairs, logs, sizes, positions, configs, {})
    assert (found.topic, found.remote, found.partitions) == (TOPIC, REMOTE, 2)
    assert (found.records, found.bytes, found.compacted) == (25 + 50, 250 + 600, True)
    (found,) = to_copy(pairs, logs, None, positions, {}, {})
    assert (found.bytes, found.compacted) == (None, False)


def test_of_a_partition_that_no_broker_leads_nothing_is_known() -> None:
    assert leaderless([TopicPair(Topic(TOPIC, 2), REMOTE)], {FIRST: LogOffsets(0, 1)}) == [SECOND]


def test_gaps_are_found_before_a_run_meets_them() -> None:
    known = UUID(int=7)
    logs = {FIRST: LogOffsets(10, 30), SECOND: LogOffsets(0, 30)}
    positions = {FIRST: Position(SourceOffset(3)), SECOND: Position(SourceOffset(12), topic_id=str(known))}
    found = gaps([Topic(TOPIC, 2, known)], logs, positions)
    assert {part: gap.kind for part, gap in found.items()} == {FIRST: "retention"}
    found = gaps([Topic(TOPIC, 2, UUID(int=8))], logs, positions)
    assert {part: gap.kind for part, gap in found.items()} == {FIRST: "retention", SECOND: "recreated"}
    assert gaps([Topic(TOPIC, 2, known)], {FIRST: LogOffsets(0, 5)}, {}) == {}


NOW_MS = int(WALL_BEGIN * 1000)
OLD, NEW = Topic(TopicName("old"), 2), Topic(TopicName("new"), 1)
PARTS = [TopicPartition(OLD.name, 0), TopicPartition(OLD.name, 1), TopicPartition(NEW.name, 0)]
LOGS = {PARTS[0]: LogOffsets(10, 50), PARTS[1]: LogOffsets(0, 0), PARTS[2]: LogOffsets(0, 7)}


class Source:
    """Its records are a second apart, the last one of now."""

    def __init__(self) -> None:
        self.clock = VirtualClock()

    def list_answered_offsets(
        self, partitions: Iterable[TopicPartition], at: int, *, read_committed: bool = False
    ) -> dict[TopicPartition, int]:
        assert not read_committed
        found = {}
        for part in partitions:
            log = LOGS[part]
            back = log.end - max(0, NOW_MS - at) // 1000
            found[part] = log.end if at == LATEST else max(log.start, back) if log.offsets and at <= NOW_MS else -1
        return found


def planned(
    start: Start, *, stored: StoredStarts = NOTHING_STORED, copied: Iterable[int] = (), own: Start | None = None
) -> PlannedStarts:
    settings = flow("a", "b", "default")
    rules = [] if own is None else [topic_rule("new", own)]
    settings = replace(
        settings, consumer=replace(settings.consumer, auto_offset_reset=start), start=PerTopic.of(None, rules)
    )
    positions = {PARTS[number] for number in copied}
    source: Any = Source()
    return planned_starts(settings, source, [OLD, NEW], LOGS, positions, stored)


def at(*offsets: int | None) -> dict[TopicPartition, SourceOffset]:
    return {part: SourceOffset(offset) for part, offset in zip(PARTS, offsets, strict=True) if offset is not None}


def chosen(*, done: bool) -> FirstStart:
    settings = flow("a", "b", "default")
    return FirstStart(NOW_MS - 5000, ChosenTopics.of(settings), done=done)


def test_nothing_is_passed_over_where_all_begin_at_their_first_record() -> None:
    assert planned(Start()) == PlannedStarts({}, (), ())


def test_what_is_there_at_the_first_start_is_passed_over() -> None:
    found = planned(Start("latest", text="latest"))
    assert found.begins == at(50, 0, 7)
    assert found.notes == ("left out, as auto.offset.reset = latest: 47 records there already",)
    # Where a partition goes on is no matter of starts.
    assert planned(Start("latest"), copied=[0]).begins == at(None, 0, 7)


def test_each_rule_is_counted_by_itself() -> None:
    found = planned(Start("latest", text="latest"), own=Start("ago", 3000, "PT3S"))
    assert found.begins == at(50, 0, 4)
    assert found.notes == (
        "left out, as auto.offset.reset = latest: 40 records there already",
        "left out, as twinlog.start = PT3S: 4 records older than 2023-11-14T22:13:17Z",
    )


def test_what_appeared_later_is_copied_whole() -> None:
    stored = StoredStarts(
        chosen(done=True), {OLD.name: TopicStart(NOW_MS - 5000, None, (StartSpec(offset=SourceOffset(48)),))}
    )
    found = planned(Start("latest", text="latest"), stored=stored)
    assert found.begins == at(48, None, None)
    assert found.notes == (
        "left out, as auto.offset.reset = latest: 38 records there already",
        (
            "new, old appeared after the flow's first start, or have partitions that did: as it lacks a position, "
            "each begins at its earliest record instead of auto.offset.reset = latest"
        ),
    )


def test_a_first_start_that_is_not_done_goes_on_from_its_moment() -> None:
    assert planned(Start("latest"), stored=StoredStarts(chosen(done=False), {})).begins == at(45, 0, 2)


@pytest.mark.parametrize(("copied", "nowhere"), [((), ("old", "new")), ((0, 2), ("old",)), ((0, 1, 2), ())])
def test_topics_that_may_not_begin_are_named(copied: tuple[int, ...], nowhere: tuple[str, ...]) -> None:
    assert planned(Start("none"), copied=copied).nowhere == nowhere
