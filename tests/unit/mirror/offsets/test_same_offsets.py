"""Where copies keep their offsets, each offset translates to itself, from the stored position alone."""

from __future__ import annotations

from twinlog.mirror.offsets.exact_map import Translated
from twinlog.mirror.offsets.maps import ExactMaps
from twinlog.mirror.offsets.positions import Position
from twinlog.model.types import SourceOffset, TargetOffset, TopicName, TopicPartition

PART = TopicPartition(TopicName("t"), 0)


def kept(end: int, first: int) -> Position:
    return Position(SourceOffset(end), TargetOffset(end), kept_from=SourceOffset(first))


def test_an_offset_translates_to_itself_both_ways() -> None:
    maps = ExactMaps()
    maps.set_position(PART, kept(40, 10))
    known = maps.map(PART)
    assert known is not None
    for offset in (0, 9, 10, 25, 40):
        assert known.to_target(SourceOffset(offset)) == Translated(offset, True)
        assert known.to_source(TargetOffset(offset)) == Translated(offset, True)
        assert known.past_copies(SourceOffset(offset)) is not None
    assert known.to_target(SourceOffset(41)) == Translated(40, False)
    assert len(maps) == 1


def test_the_end_follows_the_position_also_back() -> None:
    maps = ExactMaps()
    for end in (40, 55, 30):
        maps.set_position(PART, kept(end, 10))
        known = maps.map(PART)
        assert known is not None
        assert (known.next_source, known.next_target) == (end, end)


def test_while_the_begin_is_filled_nothing_is_known() -> None:
    maps = ExactMaps()
    maps.set_position(PART, kept(9, 10))
    assert maps.map(PART) is None
    maps.set_position(PART, kept(10, 10))
    assert maps.map(PART) is not None


def test_translated_offsets_take_its_place() -> None:
    maps = ExactMaps()
    maps.set_position(PART, kept(40, 10))
    maps.set_position(PART, Position(SourceOffset(50), TargetOffset(45)))
    assert maps.map(PART) is None
    maps.set_position(PART, kept(40, 10))
    maps.set_position(PART, None)
    assert maps.map(PART) is None
