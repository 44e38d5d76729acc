"""Segments: their bytes, when they are written, and the map they make together."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace

import pytest

from tests.segment_keys import decode_segment_key
from twinlog.mirror.offsets import maps as maps_module
from twinlog.mirror.offsets import segments as segments_module
from twinlog.mirror.offsets.exact_map import CopiedRun, CopiedRuns, ExactMap, Point, Translated
from twinlog.mirror.offsets.maps import ExactMaps, StoredRecord
from twinlog.mirror.offsets.positions import Position
from twinlog.mirror.offsets.segments import (
    COPIER_GENERATIONS,
    MOST_UNSTORED,
    SEGMENT_POINTS,
    LastPoint,
    Segment,
    SegmentKey,
    SegmentWriter,
    segment_at,
    segments_topic,
)
from twinlog.model.types import Alias, SourceOffset, TargetOffset, TopicName, TopicPartition

PART = TopicPartition(TopicName("orders"), 3)
OTHER = TopicPartition(TopicName("orders"), 4)


def records(segments: Iterable[Segment]) -> list[StoredRecord]:
    return [(segment.key, segment.value) for segment in segments]


def runs(spans: Iterable[tuple[int, int]], base_offset: int) -> list[CopiedRun]:
    """An append as its copier notes it."""
    noted = CopiedRuns()
    noted.add(spans, base_offset)
    return noted.take_runs()


def written(writer: SegmentWriter) -> list[Segment]:
    """What is written now, and stored."""
    segments = writer.changed()
    writer.mark_stored(segments)
    assert writer.changed() == []
    return segments


def key_of(segment: Segment) -> SegmentKey:
    where = decode_segment_key(segment.key)
    assert where is not None
    return where


def test_the_topic_is_internal_by_its_name() -> None:
    assert segments_topic(Alias("east")) == "mm2-twinlog-offsets.east.internal"


def test_bytes_of_a_segment() -> None:
    segment = Segment(PART, 2, True, (Point(100, 90), Point(164, 91, 3)))
    assert segment.key.hex(" ") == "00 06 6f 72 64 65 72 73 00 00 00 03 00 00 00 00 00 00 00 64 00 00 00 02"
    assert segment.value.hex(" ") == "00 00 00 01 00 00 00 00 00 00 00 5a 00 80 01 02 06"
    assert segment_at(key_of(segment), segment.value) == segment
    assert decode_segment_key(segment.key) == (PART, 100, 2, None)
    joined = replace(segment, joined_up_to=SourceOffset(170))
    assert joined.key == segment.key + bytes.fromhex("00 00 00 00 00 00 00 aa")
    assert segment_at(key_of(joined), joined.value) == joined


def test_what_is_no_segment_is_passed_over() -> None:
    segment = Segment(PART, 0, False, (Point(0, 0), Point(300, 200)))
    assert decode_segment_key(None) is None
    for size in range(len(segment.key)):
        assert decode_segment_key(segment.key[:size]) is None
    whole = {len(segment.value), len(segment.value) - 5}
    for size in range(len(segment.value) + 1):
        assert (segment_at(key_of(segment), segment.value[:size]) is not None) == (size in whole)
    assert segment_at(key_of(segment), b"\0\1" + segment.value[2:]) is None


def test_copies_in_step_write_one_record_for_ever() -> None:
    writer = SegmentWriter(PART, 0, 0, complete=True)
    assert [segment.points for segment in written(writer)] == [(Point(0, 0),)]
    for number in range(1000):
        writer.add_runs(runs([(number * 10, 10)], number * 10))
        assert written(writer) == []
    assert writer.end == (10_000, 10_000)


def test_a_hole_is_written_once() -> None:
    writer = SegmentWriter(PART, 0, 0)
    writer.add_runs(runs([(0, 10), (12, 10)], 0))
    assert [segment.points for segment in written(writer)] == [(Point(0, 0), Point(12, 10))]
    writer.add_runs(runs([(22, 10)], 20))
    writer.skip_to(40)
    assert written(writer) == []


def test_a_full_segment_is_followed_by_the_next() -> None:
    writer = SegmentWriter(PART, 0, 0, complete=True)
    for number in range(SEGMENT_POINTS * 2):
        writer.add_runs(runs([(number * 2, 1)], number))
    segments = written(writer)
    assert [segment.complete for segment in segments] == [True, *[False] * (len(segments) - 1)]
    assert all(len(segment.points) <= SEGMENT_POINTS for segment in segments)
    assert max(len(segment.value) for segment in segments) < 1000
    maps = ExactMaps()
    maps.apply_records(records(segments))
    maps.extend_map(PART, *writer.end, generation=writer.generation)
    known = maps.map(PART)
    assert known is not None
    for offset in range(SEGMENT_POINTS * 4 - 1):
        assert known.to_target(offset) == Translated((offset + 1) // 2, True)


def test_a_long_outage_of_the_topic_costs_exact_offsets_instead_of_memory() -> None:
    writer = SegmentWriter(PART, 0, 0, complete=True)
    most = 0
    for number in range(SEGMENT_POINTS * 60):
        writer.add_runs(runs([(number * 2, 1)], number))
        if number % 500 == 0:
            most = max(most, len(writer.changed()))
            writer.not_stored()
    assert most <= MOST_UNSTORED + 3
    segments = written(writer)
    maps = ExactMaps()
    maps.apply_records(records(segments))
    maps.extend_map(PART, *writer.end, generation=writer.generation)
    known = maps.map(PART)
    assert known is not None
    exact = 0
    for offset in range(SEGMENT_POINTS * 60 * 2 - 1):
        found = known.to_target(offset)
        assert found is not None
        assert found.offset <= (offset + 1) // 2
        exact += found.exact
    assert SEGMENT_POINTS * 2 < exact < SEGMENT_POINTS * 2 * (MOST_UNSTORED + 4)


@pytest.mark.parametrize("course", range(20))
def test_joined_segments_lead_no_group_beyond_the_exact_offset(course: int, chance: random.Random) -> None:
    """Also if the source or the target goes back meanwhile."""
    writers = [SegmentWriter(PART, 0, 0, complete=True, segment_points=8) for _ in range(2)]
    source = target = 0
    for turn in range(60):
        if turn and chance.random() < 0.1:
            source = max(0, source - chance.randrange(60))
            target = max(0, target - chance.choice((0, 0, 20)))
        found = []
        for _ in range(chance.randrange(1, 12)):
            source += chance.choice((0, 0, 1, 5))
            target += chance.choice((0, 0, 1))
            count = chance.randrange(1, 4)
            found.append(CopiedRun(SourceOffset(source), TargetOffset(target), count))
            source, target = source + count, target + count
        for writer in writers:
            writer.add_runs(found)
        assert len(writers[1].changed()) <= MOST_UNSTORED + 6
        writers[1].not_stored()
    exact, joined = map(map_of, writers)
    compared = 0
    for offset in range(source):
        true, known = exact.to_target(SourceOffset(offset)), joined.to_target(SourceOffset(offset))
        if true is not None and known is not None:
            assert known.offset <= true.offset
            compared += 1
    assert compared > source // 10
    assert exact.to_target(SourceOffset(source)) == joined.to_target(SourceOffset(source))


def map_of(writer: SegmentWriter) -> ExactMap:
    """The map that a reader makes of what is written now."""
    maps = ExactMaps()
    maps.apply_records(records(written(writer)))
    maps.extend_map(PART, *writer.end, generation=writer.generation)
    known = maps.map(PART)
    assert known is not None
    return known


def test_a_task_that_goes_on_begins_its_own_segment() -> None:
    maps = ExactMaps()
    first = SegmentWriter(PART, 0, 0, complete=True)
    first.add_runs(runs([(0, 10)], 0))
    maps.apply_records(records(written(first)))
    maps.extend_map(PART, 10, 10, generation=0)
    end = Position(10, 10)
    second = SegmentWriter.take_over(PART, end, end, maps.tip(PART), complete=False)
    assert [(segment.start, segment.generation) for segment in written(second)] == [(10, COPIER_GENERATIONS)]
    second.add_runs(runs([(15, 10)], 10))
    maps.apply_records(records(written(second)))
    maps.extend_map(PART, 25, 20, generation=COPIER_GENERATIONS)
    known = maps.map(PART)
    assert known is not None
    assert [known.to_target(offset) for offset in (9, 10, 15, 24)] == [Translated(at, True) for at in (9, 10, 10, 19)]


def test_what_was_found_after_a_crash_is_known() -> None:
    """Two holes in the source, and the newest segment was lost or not."""
    for tip in (LastPoint(0, 0, 0), LastPoint(0, 5, 5)):
        stored, now = Position(10, 10), Position(40, 30)
        found = runs([(10, 5), (20, 5), (30, 10)], 10)
        writer = SegmentWriter.take_over(PART, now, stored, tip, found=found, complete=False)
        maps = ExactMaps()
        maps.apply_records(records(written(writer)))
        maps.extend_map(PART, *writer.end, generation=writer.generation)
        known = maps.map(PART)
        assert known is not None
        translated = [known.to_target(offset) for offset in (10, 14, 17, 20, 29, 30, 39, 40)]
        assert translated == [Translated(at, True) for at in (10, 14, 15, 15, 20, 20, 29, 30)]


def test_a_generation_ends_when_the_log_goes_back() -> None:
    maps = ExactMaps()
    writer = SegmentWriter(PART, 0, 0, complete=True)
    writer.add_runs(runs([(0, 10), (20, 10), (40, 10)], 0))
    maps.apply_records(records(written(writer)))
    writer.add_runs(runs([(5, 3)], 30))
    segments = written(writer)
    assert [segment.generation for segment in segments] == [1]
    maps.apply_records(records(segments))
    maps.extend_map(PART, *writer.end, generation=writer.generation)
    known = maps.map(PART)
    assert known is not None
    assert known.points() == [Point(0, 0), Point(5, 30)]
    assert [known.to_target(offset) for offset in (4, 5, 8)] == [Translated(at, True) for at in (4, 30, 33)]
    tip = maps.tip(PART)
    assert tip is not None
    for position in [Position(8, 33, generation=1), Position(4, 33, generation=1), Position(8, 29, generation=1)]:
        next_writer = SegmentWriter.take_over(PART, position, position, tip, complete=False)
        assert next_writer.generation == 1 + COPIER_GENERATIONS


def test_a_copier_that_leaves_in_order_notes_its_end_for_others() -> None:
    maps = ExactMaps()
    writer = SegmentWriter(PART, 0, 0, complete=True)
    writer.add_runs(runs([(0, 1000)], 0))
    writer.close()
    maps.apply_records(records(written(writer)))
    # No position of ours to end at: MirrorMaker 2 has written its own since.
    known = maps.map(PART)
    assert known is not None
    assert known.to_target(999) == Translated(999, True)
    assert known.to_target(1001) == Translated(1000, False)


def test_partitions_are_kept_apart() -> None:
    maps = ExactMaps()
    maps.apply_records(
        [*records(written(SegmentWriter(PART, 0, 0))), *records(written(SegmentWriter(OTHER, 5, 7))), (b"?", b"!")]
    )
    assert len(maps) == 2
    one, other = maps.map(PART), maps.map(OTHER)
    assert one is not None
    assert other is not None
    assert (one.to_target(0), other.to_target(5)) == (Translated(0, True), Translated(7, True))
    assert maps.map(TopicPartition(PART.topic, 9)) is None
    assert maps.tip(TopicPartition(PART.topic, 9)) is None
    assert maps.join_segments(TopicPartition(PART.topic, 9)) == []


def test_tidying_replaces_old_segments_and_leaves_the_newest() -> None:
    maps, writer = ExactMaps(), SegmentWriter(PART, 0, 0, complete=True)
    topic: dict[bytes, bytes | None] = {}
    for number in range(6000):
        writer.add_runs(runs([(number * 2, 1)], number))
        stored = records(written(writer))
        topic.update(stored)
        maps.apply_records(stored)
    maps.extend_map(PART, *writer.end, generation=writer.generation)
    newest = max(key for key, value in topic.items() if value is not None)
    changes = maps.join_segments(PART, source_start=1000, max_points=4096)
    assert newest not in dict(changes)
    topic.update(changes)
    maps.apply_records(changes)
    left = [(key, value) for key, value in topic.items() if value is not None]
    assert len(left) < 20
    assert sum(len(value) for _, value in left) < 20_000
    # Whoever reads the topic now knows the same.
    again = ExactMaps()
    again.apply_records(left)
    again.extend_map(PART, *writer.end, generation=writer.generation)
    here, there = maps.map(PART), again.map(PART)
    assert here is not None
    assert there is not None
    assert here.points() == there.points()
    assert (here.to_target(999), there.to_target(999)) == (None, None)
    assert maps.join_segments(PART, source_start=1000, max_points=4096) == []


def test_points_of_deleted_source_records_are_kept_while_their_copies_are_on_the_target() -> None:
    """A group before the source's first offset continues in copies that the source has no more."""

    def joined(source_start: int, target_start: int, max_points: int = 4096) -> ExactMap:
        maps = ExactMaps()
        maps.apply_records(generations(PART, 20))
        maps.extend_map(PART, 200, 220, generation=19)
        records = maps.join_segments(PART, source_start=source_start, target_start=target_start, max_points=max_points)
        again = ExactMaps()
        kept = dict(generations(PART, 20))
        kept.update(records)
        again.apply_records(list(kept.items()))
        again.extend_map(PART, 200, 220, generation=19)
        found = again.map(PART)
        assert found is not None
        return found

    assert joined(105, 0).to_target(87) == Translated(95, True)
    assert joined(105, 0).to_target(5) == Translated(5, True)
    late = joined(105, 60)
    assert (late.to_target(45), late.to_target(57)) == (None, Translated(62, True))
    assert joined(50, 150).to_target(105) == Translated(115, True), "the source has these"
    assert joined(105, 0, max_points=12).to_target(87) is None
    assert joined(105, 0, max_points=12).to_target(107) == Translated(117, True)


def generations(partition: TopicPartition, count: int) -> list[tuple[bytes | None, bytes | None]]:
    """Records of as many copiers as given, each of which copied ten records and left."""
    found: list[tuple[bytes | None, bytes | None]] = []
    for generation in range(count):
        segment = Segment(partition, generation, not generation, (Point(generation * 10, generation * 11),))
        found.append((segment.key, segment.value))
    return found


def test_only_what_is_asked_for_is_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[TopicPartition] = []

    def segment_at(where: SegmentKey, value: bytes) -> Segment | None:
        decoded.append(where.partition)
        return segments_module.segment_at(where, value)

    monkeypatch.setattr(maps_module, "segment_at", segment_at)
    maps = ExactMaps()
    maps.apply_records([*generations(PART, 30), *generations(OTHER, 30)])
    maps.extend_map(OTHER, 297, 326, generation=29)
    maps.extend_map(PART, 295, 324, generation=28)
    assert (len(maps), set(maps.fragmented()), decoded) == (2, {PART, OTHER}, [])
    assert maps.tip(PART) == LastPoint(29, 290, 319)
    assert decoded == [PART]
    decoded.clear()
    known = maps.map(OTHER)
    assert known is not None
    assert decoded == [OTHER] * 30
    assert (known.to_target(9), known.to_target(10)) == (Translated(9, True), Translated(11, True))
    # The position was read before; that of another generation ends another map.
    assert (known.next_source, known.next_target) == (297, 326)
    other = maps.map(PART)
    assert other is not None
    assert (other.next_source, other.next_target) == (290, 319)
    assert maps.tip(PART) == LastPoint(29, 290, 319)


def test_deleted_segments_drop_out_of_the_map() -> None:
    maps = ExactMaps()
    records = generations(PART, 3)
    maps.apply_records(records)
    joined = Segment(PART, 2, True, (Point(0, 0), Point(10, 11)))
    maps.apply_records([(joined.key, joined.value), (records[0][0], None), (records[1][0], None)])
    known = maps.map(PART)
    assert known is not None
    assert known.points() == [Point(0, 0), Point(10, 11), Point(20, 22)]
    maps.apply_records((key, None) for key, _ in generations(OTHER, 3))
    maps.apply_records(generations(OTHER, 1))
    maps.apply_records((key, None) for key, _ in generations(OTHER, 1))
    assert (len(maps), maps.map(OTHER), maps.tip(OTHER)) == (1, None, None)


def test_a_newest_segment_of_another_version_is_passed_over() -> None:
    maps = ExactMaps()
    *older, (key, _) = generations(PART, 3)
    maps.apply_records([*older, (key, b"\x00\x09")])
    assert maps.tip(PART) == LastPoint(1, 10, 11)
