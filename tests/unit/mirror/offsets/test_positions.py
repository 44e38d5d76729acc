"""What a position's header holds, also when an older version or MirrorMaker 2 wrote the position."""

from __future__ import annotations

import json
from dataclasses import fields, replace

import pytest

from twinlog.mirror.offsets.positions import HEADER, Position, PositionRecord, Writer, decode_position, encode_position
from twinlog.model.types import Alias, SourceOffset, TargetOffset, TopicName, TopicPartition

NORTH, PART = Alias("north"), TopicPartition(TopicName("t"), 3)
FULL = Position(8, 9, 2, "a", "b", generation=1, remote_topic="north.t", writer=Writer(4001, 3, 17))


@pytest.mark.parametrize("position", [FULL, Position(8, 9), Position(0, 0, remote_topic="t")])
def test_a_position_is_read_as_it_was_written(position: Position) -> None:
    record = encode_position(NORTH, PART, position)
    assert record.value == b'{"offset":%d}' % (position.next_source - 1)
    assert decode_position(NORTH, record) == (PART, position)


def test_the_header_names_the_remote_topic_and_the_producer() -> None:
    ((name, value),) = encode_position(NORTH, PART, FULL).headers
    assert name == HEADER
    assert json.loads(value)["remote_topic"] == "north.t"
    assert json.loads(value)["producer"] == [4001, 3, 17]
    assert json.loads(value)["generation"] == FULL.generation != 0


def test_the_generation_is_read_under_its_earlier_name() -> None:
    record = PositionRecord(
        encode_position(NORTH, PART, FULL).key, b'{"offset":7}', ((HEADER, b'{"target":9,"life":5}'),)
    )
    assert decode_position(NORTH, record) == (PART, Position(8, 9, generation=5))


def test_the_header_says_since_which_offset_copies_keep_theirs() -> None:
    kept = replace(FULL, kept_from=SourceOffset(4))
    record = encode_position(NORTH, PART, kept)
    assert json.loads(record.headers[0][1])["kept_from"] == 4
    assert decode_position(NORTH, record) == (PART, kept)
    assert "kept_from" not in json.loads(encode_position(NORTH, PART, FULL).headers[0][1])


@pytest.mark.parametrize(
    ("next_source", "kept_from", "fills"), [(0, None, False), (0, 0, False), (0, 5, True), (5, 5, True), (6, 5, False)]
)
def test_a_log_fills_up_to_its_first_copy(next_source: int, kept_from: int | None, fills: bool) -> None:
    first = None if kept_from is None else SourceOffset(kept_from)
    assert Position(SourceOffset(next_source), TargetOffset(next_source), kept_from=first).fills is fills


@pytest.mark.parametrize("producer", ["", ',"producer":null', ',"producer":[1,2]', ',"producer":["a",0,0]'])
def test_a_header_without_a_producer_is_read(producer: str) -> None:
    header = b'{"target":9,"epoch":2,"topic_id":null,"remote_topic_id":null,"generation":0%b}' % producer.encode()
    record = PositionRecord(encode_position(NORTH, PART, FULL).key, b'{"offset":7}', ((HEADER, header),))
    assert decode_position(NORTH, record) == (PART, Position(8, 9, 2))


def test_a_source_without_an_alias_is_stored_as_mirrormaker_stores_it() -> None:
    """MirrorMaker 2 4.3 was seen to write this key with an empty `source.cluster.alias`."""
    record = encode_position(Alias(""), PART, FULL)
    assert record.key == b'["MirrorSourceConnector",{"cluster":"","partition":3,"topic":"t"}]'
    assert decode_position(Alias(""), record) == (PART, FULL)
    assert decode_position(NORTH, record) is None
    assert decode_position(Alias(""), encode_position(NORTH, PART, FULL)) is None


@pytest.mark.parametrize("number", ["1e400", "[" * 100_000])
def test_a_record_that_is_no_position_is_passed_over(number: str) -> None:
    key = f'["MirrorSourceConnector",{{"cluster":"north","partition":{number},"topic":"t"}}]'
    assert decode_position(NORTH, PositionRecord(key.encode(), b'{"offset":1}')) is None


def test_an_append_moves_a_position_and_keeps_all_else() -> None:
    """Each field has a value of its own, so a field that a later version adds is looked at, too."""
    values = (5, 6, 7, "topic", "remote id", 8, "remote", Writer(1, 2, 3), 4, 9)
    before = Position(*values)
    assert [getattr(before, one.name) for one in fields(Position)] == list(values)
    after = before.after_append(15, 16, 17, Writer(1, 2, 4))
    assert after == replace(before, next_source=15, next_target=16, leader_epoch=17, writer=Writer(1, 2, 4))
