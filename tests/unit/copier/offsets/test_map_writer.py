"""What a copier stores of its maps, with a cluster that takes it or does not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from harness.virtual.clock import WALL_BEGIN, VirtualClock
from twinlog.copier.offset_writers import NO_GENERATION, MapWriter
from twinlog.errors import ClusterError
from twinlog.kafka.net.loop import Loop
from twinlog.lease.messages import Grant
from twinlog.mirror.offsets.exact_map import CopiedRun
from twinlog.mirror.offsets.maps import ExactMaps
from twinlog.mirror.offsets.positions import Position
from twinlog.mirror.offsets.segments import Segment, first_generation
from twinlog.model.types import Alias, TopicName, TopicPartition
from twinlog.settings.client import AdminSettings, ClientSettings, ConsumerSettings, ProducerSettings
from twinlog.settings.flow import FlowSettings

PART = TopicPartition(TopicName("orders"), 3)
OTHER = TopicPartition(TopicName("orders"), 4)
FIRST = first_generation(WALL_BEGIN)
CLIENT = ClientSettings(("west:1",))
SETTINGS = FlowSettings(
    Alias("east"), Alias("west"), ConsumerSettings(CLIENT), ProducerSettings(CLIENT), AdminSettings(CLIENT),
    AdminSettings(CLIENT),
)  # fmt: skip


class Topic:
    """In the place of the topic of segments."""

    def __init__(self) -> None:
        self.records: list[tuple[bytes, bytes]] = []
        self.works = True

    async def append(self, records: Iterable[tuple[bytes, bytes]]) -> None:
        if not self.works:
            raise ClusterError("no answer")
        self.records += records


class Copied:
    """A writer whose topic can be made to fail."""

    def __init__(self, loop: Loop) -> None:
        client: Any = None
        self.maps = MapWriter(loop, client, SETTINGS)
        self.topic = Topic()
        anything: Any = self.topic
        self.maps._topic = anything
        self._loop = loop

    def store(self, **positions: Position) -> dict[TopicPartition, Position]:
        return self._loop.run(
            self.maps.write, {{"part": PART, "other": OTHER}[name]: one for name, one in positions.items()}
        )

    def read(self) -> ExactMaps:
        maps = ExactMaps()
        maps.apply_records(self.topic.records)
        return maps


@pytest.fixture
def copied() -> Iterator[Copied]:
    loop = Loop(VirtualClock())
    yield Copied(loop)
    loop.close()


def grant(partition: TopicPartition, position: Position | None = None) -> Grant:
    return Grant(partition, partition, None, 1 << 20, position)


def test_only_changed_segments_are_written(copied: Copied) -> None:
    copied.maps.begin_partition(grant(PART), Position(0, 0))
    assert copied.store(part=Position(0, 0)) == {PART: Position(0, 0, generation=FIRST)}
    copied.maps.add_runs(PART, [CopiedRun(0, 0, 100)])
    copied.store(part=Position(100, 100))
    assert len(copied.topic.records) == 1
    copied.maps.add_runs(PART, [CopiedRun(110, 100, 5)])
    copied.store(part=Position(115, 105))
    assert len(copied.topic.records) == 2


def test_unstored_segments_and_positions_come_again_in_the_next_generation(copied: Copied) -> None:
    copied.maps.begin_partition(grant(PART), Position(0, 0))
    copied.store(part=Position(0, 0))
    copied.topic.works = False
    copied.maps.add_runs(PART, [CopiedRun(0, 0, 5), CopiedRun(9, 5, 5)])
    with pytest.raises(ClusterError):
        copied.store(part=Position(14, 10))
    copied.topic.works = True
    marked = copied.store(part=Position(14, 10))
    assert marked == {PART: Position(14, 10, generation=FIRST + 1)}
    maps = copied.read()
    maps.extend_map(PART, 14, 10, generation=marked[PART].generation)
    known = maps.map(PART)
    assert known is not None
    assert [known.to_target(offset) for offset in (4, 5, 8, 9, 13)] == [(4, True), *[(5, True)] * 3, (9, True)]


def test_nothing_is_encoded_while_the_topic_has_no_leader(copied: Copied, monkeypatch: pytest.MonkeyPatch) -> None:
    encoded: list[Segment] = []

    def encode(segment: Segment) -> bytes:
        encoded.append(segment)
        return b""

    monkeypatch.setattr(Segment, "value", property(encode))
    copied.maps.begin_partition(grant(PART), Position(0, 0))
    copied.topic.works = False
    with pytest.raises(ClusterError):
        copied.store(part=Position(0, 0))
    assert encoded == []
    copied.topic.works = True
    copied.store(part=Position(0, 0))
    assert len(encoded) == 1


@pytest.mark.parametrize("shift", [-30, 20])
def test_copies_with_the_offsets_of_their_sources_replace_the_map_of_earlier_copies(copied: Copied, shift: int) -> None:
    """The remote topic was created again in between, so its earlier copies are gone."""
    copied.maps.begin_partition(grant(PART), Position(40, 40 + shift))
    copied.maps.add_runs(PART, [CopiedRun(40, 40 + shift, 60)])
    (earlier,) = copied.store(part=Position(100, 100 + shift)).values()
    copied.maps.forget_partition(PART)
    tip = copied.read().tip(PART)
    assert tip is not None
    assert tip.generation == earlier.generation
    kept = Position(120, 120, kept_from=40)
    copied.maps.begin_partition(replace(grant(PART, kept), tip=tip), Position(123, 123), [CopiedRun(120, 120, 3)])
    copied.maps.add_runs(PART, [CopiedRun(124, 123, 7)])
    (marked,) = copied.store(part=Position(131, 130)).values()
    maps = copied.read()
    maps.extend_map(PART, 131, 130, generation=marked.generation)
    known = maps.map(PART)
    assert known is not None
    assert [known.to_target(offset) for offset in (40, 60, 119, 122, 125, 130)] == [
        *((offset, True) for offset in (40, 60, 119, 122)),
        (124, True),
        (129, True),
    ]
    assert known.to_target(5) == known.to_target(40)


def test_a_position_without_a_map_ends_none(copied: Copied) -> None:
    copied.maps.begin_partition(grant(PART), Position(0, 0))
    copied.maps.forget_partition(PART)
    assert copied.store(part=Position(7, 7)) == {PART: Position(7, 7, generation=NO_GENERATION)}


@pytest.mark.parametrize(
    ("stored", "position", "complete"),
    [
        (None, Position(50, 0), True),
        (None, Position(50, 8), True),
        (Position(50, 8), Position(50, 8), False),
        (Position(50), Position(50, 8), False),
    ],
)
def test_older_offsets_lead_to_the_first_copy_of_what_was_never_copied(
    copied: Copied, stored: Position | None, position: Position, complete: bool
) -> None:
    copied.maps.begin_partition(grant(PART, stored), position)
    copied.store(part=position)
    known = copied.read().map(PART)
    assert known is not None
    assert known.to_target(20) == ((position.next_target, True) if complete else None)
