"""What a flow stores about where it begins: records that nobody else takes for positions."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from twinlog.connect.storage import offset_records
from twinlog.connect.storage.offset_records import OffsetRecord
from twinlog.mirror.offsets.positions import PositionRecord, decode_position
from twinlog.mirror.offsets.starts import (
    AT_FIRST,
    ChosenTopics,
    FirstStart,
    StartSpec,
    TopicStart,
    decode_start,
    encode_start,
    is_start,
    start_key,
)
from twinlog.model.types import Alias, SourceOffset, TopicName
from twinlog.worker.connectors.model import ConnectorName, StoredOffset

EAST, TOPIC = Alias("east"), TopicName("orders")
PATTERNS = ChosenTopics(("or.*", "a,b"), (r"mm2.*\.internal",))
OF_A_TOPIC = b'["MirrorSourceConnector",{"cluster":"east","twinlog":"start","topic":"t"}]'
STARTS: list[tuple[TopicName | None, FirstStart | TopicStart]] = [
    (None, FirstStart(1700, PATTERNS)),
    (None, FirstStart(1700, ChosenTopics((), (), "ours:Filter"), PATTERNS, done=True)),
    (TOPIC, TopicStart(1700, "an-id", (StartSpec(offset=SourceOffset(0)), None, AT_FIRST, StartSpec(since_ms=17)))),
    (TOPIC, TopicStart(1700, None, ())),
]


def java_order(keys: list[str]) -> list[str]:
    """The order in which a HashMap of 16 buckets has some strings (java.lang.String.hashCode, HashMap.hash)."""

    def bucket(text: str) -> int:
        found = 0
        for char in text:
            found = (31 * found + ord(char)) & 0xFFFFFFFF
        return (found ^ (found >> 16)) & 15

    assert len({bucket(key) for key in keys}) == len(keys)
    return sorted(keys, key=bucket)


@pytest.mark.parametrize(("topic", "start"), STARTS)
def test_what_is_stored_is_read_again(topic: TopicName | None, start: FirstStart | TopicStart) -> None:
    key, value = start_key(EAST, topic), encode_start(start)
    assert decode_start(EAST, key, value) == (topic, start)
    assert decode_start(EAST, key, None) == (topic, None)
    assert decode_start(Alias("west"), key, value) is None
    assert decode_start(EAST, key, value, "another-connector") is None


@pytest.mark.parametrize("topic", [None, TOPIC])
def test_who_deletes_a_connectors_offsets_deletes_these(topic: TopicName | None) -> None:
    """Connect reads the key into a HashMap and writes it again from there: another order would be another record."""
    key = start_key(EAST, topic, "mine")
    record = offset_records.decode(key, b"{}")
    assert isinstance(record, OffsetRecord)
    assert record.connector == "mine"
    assert is_start(record.partition)
    assert list(record.partition) == java_order(list(record.partition))
    assert offset_records.encode(ConnectorName("mine"), StoredOffset(record.partition, None)) == (key, None)


@pytest.mark.parametrize(("topic", "start"), STARTS)
def test_it_is_no_position(topic: TopicName | None, start: FirstStart | TopicStart) -> None:
    record = PositionRecord(start_key(EAST, topic), encode_start(start))
    assert decode_position(EAST, record) is None
    assert isinstance(json.loads(encode_start(start)), dict)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"{}"),
        (b"", b"{}"),
        (b"no json", b"{}"),
        (b'["MirrorSourceConnector",{"cluster":"east","partition":0,"topic":"t"}]', b'{"offset":1}'),
        (b'["MirrorSourceConnector",{"cluster":"east","twinlog":"more","topic":"t"}]', b"{}"),
        (OF_A_TOPIC, b"{}"),
        (
            OF_A_TOPIC,
            b'{"at":1,"id":"x","begins":[3]}',
        ),
        (b'["MirrorSourceConnector",{"cluster":"east","twinlog":"start"}]', b'{"at":1}'),
        (b'["MirrorSourceConnector",["east"]]', b"{}"),
    ],
)
def test_other_records_are_passed_over(key: bytes | None, value: bytes) -> None:
    assert decode_start(EAST, key, value) is None


def test_the_filter_is_the_settings() -> None:
    settings: Any = SimpleNamespace(topics=("a",), topics_exclude=("b",), topic_filter_class=None)
    assert ChosenTopics.of(settings) == ChosenTopics(("a",), ("b",))
    settings.topic_filter_class = SimpleNamespace(path="ours:Filter")
    assert ChosenTopics.of(settings) == ChosenTopics((), (), "ours:Filter")
