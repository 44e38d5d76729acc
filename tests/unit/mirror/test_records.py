"""Offset syncs, checkpoints and heartbeats are what Kafka's own classes write, read and print."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from twinlog.mirror.offsets.syncs import OffsetSync, decode_offset_sync
from twinlog.mirror.records import Checkpoint, Heartbeat, decode_checkpoint
from twinlog.model.types import Alias, GroupId, TopicName

RECORDED = Path(__file__).parents[2] / "recorded" / "formats.jsonl"
ROWS = [json.loads(line) for line in RECORDED.read_text("utf-8").splitlines()]

WRITTEN: dict[str, Callable[..., OffsetSync | Checkpoint | Heartbeat]] = {
    "offset_sync": OffsetSync,
    "checkpoint": Checkpoint,
    "heartbeat": Heartbeat,
}
READ: dict[str, Callable[[bytes | None, bytes | None], OffsetSync | Checkpoint | None]] = {
    "offset_sync": decode_offset_sync,
    "checkpoint": decode_checkpoint,
}
"""Nobody here reads heartbeats."""


def data(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)


def rows(kind: str, *, read: bool) -> list[dict[str, Any]]:
    found = [row for row in ROWS if row["kind"] == kind and (row["fields"] is not None) == read]
    assert len(found) > 10
    return found


@pytest.mark.parametrize("kind", READ)
def test_reads_what_kafka_reads(kind: str) -> None:
    for row in rows(kind, read=True):
        found = READ[kind](data(row["key"]), data(row["value"]))
        assert found == WRITTEN[kind](*row["fields"])


@pytest.mark.parametrize("kind", WRITTEN)
def test_prints_what_kafka_prints(kind: str) -> None:
    for row in rows(kind, read=True):
        assert f"{WRITTEN[kind](*row['fields'])}\n" == row["line"]


@pytest.mark.parametrize("kind", WRITTEN)
def test_writes_what_kafka_writes(kind: str) -> None:
    # The first rows are records as Kafka encodes them, the others damaged ones.
    for row in rows(kind, read=True)[:24]:
        made = WRITTEN[kind](*row["fields"])
        assert (made.key.hex(), made.value.hex()) == (row["key"], row["value"])


@pytest.mark.parametrize("kind", READ)
def test_what_kafka_fails_on_is_no_record(kind: str) -> None:
    for row in rows(kind, read=False):
        assert READ[kind](data(row["key"]), data(row["value"])) is None, row["error"]


def test_text_that_is_no_text_is_written_as_java_writes_it() -> None:
    assert Heartbeat(Alias("\ud800"), Alias("b"), 0).key == b"\0\1?\0\1b"


def test_a_string_too_long_for_its_field_is_refused() -> None:
    longest = Checkpoint(GroupId("g" * 32767), TopicName("t"), 0, 1, 1)
    assert decode_checkpoint(longest.key, longest.value) == longest
    with pytest.raises(ValueError, match="32768 bytes"):
        _ = Checkpoint(GroupId("g" * 32768), TopicName("t"), 0, 1, 1).key
