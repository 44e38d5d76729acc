"""The comparison of what two mirrors left: it sees what differs, and only that."""

from __future__ import annotations

import struct

import pytest

from harness.checks.differences import Difference, Known, differences, readable, unexpected
from harness.checks.internal_records import (
    CheckpointRecord,
    HeartbeatRecord,
    OffsetSyncRecord,
    decode_checkpoint,
    decode_heartbeat,
    decode_offset_sync,
    decode_position,
)
from harness.checks.leftovers import Leftovers, TopicLeft
from harness.consume import Record
from harness.groups import Committed


def stored(key: bytes | None, value: bytes | None) -> Record:
    return Record("t", 0, 0, key, value, (), 1_700_000_000_000, "create")


def text(content: str) -> bytes:
    return struct.pack(">h", len(content)) + content.encode()


def test_records_are_read_field_by_field() -> None:
    beat = stored(text("east") + text("west"), struct.pack(">hq", 0, 1_700_000_000_000))
    assert decode_heartbeat(beat) == HeartbeatRecord("east", "west", 0, 1_700_000_000_000, 1_700_000_000_000)
    sync = stored(text("orders") + struct.pack(">i", 3), struct.pack(">qq", 100, 90))
    assert decode_offset_sync(sync) == OffsetSyncRecord("orders", 3, 100, 90)
    point = stored(text("g") + text("east.orders") + struct.pack(">i", 3), struct.pack(">hqq", 0, 7, 5) + text("note"))
    assert decode_checkpoint(point) == CheckpointRecord("g", "east.orders", 3, 0, 7, 5, "note")
    key = b'["MirrorSourceConnector",{"cluster":"east","partition":3,"topic":"orders"}]'
    position = decode_position(stored(key, b'{"offset":41}'))
    assert (position.place, position.last_copied) == (("orders", 3), 41)
    assert decode_position(stored(key, None)).last_copied is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (text("orders") + struct.pack(">i", 3), struct.pack(">qqb", 1, 1, 0)),
        (text("orders"), struct.pack(">qq", 1, 1)),
        (None, struct.pack(">qq", 1, 1)),
    ],
)
def test_other_bytes_than_those_of_the_format_are_an_error(key: bytes | None, value: bytes) -> None:
    with pytest.raises(ValueError, match=r"left over|too short|missing"):
        decode_offset_sync(stored(key, value))


def left(**others: object) -> Leftovers:
    same: dict[str, object] = {
        "topics": {"east.orders": TopicLeft(3, 1, {"retention.ms": "-1"})},
        "acls": set(),
        "groups": {"g": {("east.orders", 0): Committed(5)}},
        "offset_syncs": {"syncs": [OffsetSyncRecord("orders", 0, 1, 1), OffsetSyncRecord("orders", 0, 9, 9)]},
    }
    return Leftovers(**{**same, **others})  # type: ignore[arg-type]


def test_the_same_is_no_difference() -> None:
    # Only the last sync under a key is a fact.
    other = left(offset_syncs={"syncs": [OffsetSyncRecord("orders", 0, 9, 9)]})
    assert differences(left().facts(), other.facts()) == []


def test_what_differs_is_named_and_shown() -> None:
    other = left(
        topics={"east.orders": TopicLeft(4, 1, {})},
        groups={"g": {("east.orders", 0): Committed(4)}, "h": {("east.orders", 0): Committed(1, "m")}},
    )
    found = differences(left().facts(), other.facts())
    assert found == [
        Difference("group g: east.orders-0", "5 ''", "4 ''"),
        Difference("group h: east.orders-0", None, "1 'm'"),
        Difference("topic east.orders: partitions", "3", "4"),
        Difference("topic east.orders: retention.ms", "-1", None),
    ]
    assert readable(found[2:], "old", "new").splitlines() == [
        "topic east.orders: partitions",
        "    old  3",
        "    new  4",
        "topic east.orders: retention.ms",
        "    old  -1",
        "    new  (absent)",
    ]


def test_a_known_difference_explains_whole_names_only() -> None:
    found = differences(left().facts(), left(groups={}).facts())
    assert unexpected(found, [Known(r"group g: .*", "wanted")]) == []
    assert unexpected(found, [Known(r"group", "too short")]) == found
