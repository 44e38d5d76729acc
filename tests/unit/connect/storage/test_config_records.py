"""Records of the config topic: the bytes that a Connect worker writes, and what is made of others."""

from __future__ import annotations

import pytest

from twinlog.connect.storage.config_records import (
    CommitRecord,
    ConfigRecord,
    ConnectorRecord,
    FencingRecord,
    LoggerRecord,
    RestartRecord,
    SessionKey,
    TargetStateRecord,
    TaskRecord,
    UnreadableRecord,
    decode,
    encode,
)
from twinlog.worker.connectors.model import ConnectorName, RestartRequest, TargetState, TaskId

NAME = ConnectorName("a->b.MirrorSource-1")

PAUSED = TargetStateRecord(ConnectorName("c"), TargetState.PAUSED)

BYTES: list[tuple[ConfigRecord, bytes, bytes | None]] = [
    (
        ConnectorRecord(NAME, {"topics": "ä.*", "name": NAME}),
        b"connector-a->b.MirrorSource-1",
        '{"properties":{"topics":"ä.*","name":"a->b.MirrorSource-1"}}'.encode(),
    ),
    (ConnectorRecord(NAME, None), b"connector-a->b.MirrorSource-1", None),
    (
        TargetStateRecord(NAME, TargetState.STARTED),
        b"target-state-a->b.MirrorSource-1",
        b'{"state":"STARTED","state.v2":"STARTED"}',
    ),
    (
        TargetStateRecord(NAME, TargetState.STOPPED),
        b"target-state-a->b.MirrorSource-1",
        b'{"state":"PAUSED","state.v2":"STOPPED"}',
    ),
    (TargetStateRecord(NAME, None), b"target-state-a->b.MirrorSource-1", None),
    (TaskRecord(TaskId(NAME, 12), {"k": "v"}), b"task-a->b.MirrorSource-1-12", b'{"properties":{"k":"v"}}'),
    (CommitRecord(NAME, 3), b"commit-a->b.MirrorSource-1", b'{"tasks":3}'),
    (FencingRecord(NAME, 2), b"tasks-fencing-a->b.MirrorSource-1", b'{"task-count":2}'),
    (
        SessionKey(b"\x00secret", "HmacSHA256", 1_700_000_000_000),
        b"session-key",
        b'{"key":"AHNlY3JldA==","algorithm":"HmacSHA256","creation-timestamp":1700000000000}',
    ),
    (
        RestartRecord(RestartRequest(NAME, include_tasks=True, only_failed=False)),
        b"restart-connector-a->b.MirrorSource-1",
        b'{"include-tasks":true,"only-failed":false}',
    ),
    (LoggerRecord("org.apache", "DEBUG"), b"logger-cluster-org.apache", b'{"level":"DEBUG"}'),
]


@pytest.mark.parametrize(("record", "key", "value"), BYTES)
def test_a_record_has_the_bytes_of_connect(record: ConfigRecord, key: bytes, value: bytes | None) -> None:
    assert encode(record) == (key, value)
    assert decode(key, value) == record


@pytest.mark.parametrize(
    ("key", "value", "found"),
    [
        # Written by a worker from before KIP-875.
        (b"target-state-c", b'{"state":"PAUSED"}', PAUSED),
        (b"target-state-c", b'{"state":"PAUSED","state.v2":7}', PAUSED),
        (b"restart-connector-c", b"{}", RestartRecord(RestartRequest(ConnectorName("c")))),
        # A key may be null in a connector's configuration, and counts as missing.
        (b"connector-c", b'{"properties":{"a":null,"b":"1"}}', ConnectorRecord(ConnectorName("c"), {"b": "1"})),
        (b"task-c-0", None, None),
        (b"commit-c", None, None),
        (b"something", b"{}", None),
        (b"\xff", b"{}", None),
        (None, b"{}", None),
    ],
)  # fmt: skip
def test_what_others_write_is_read(key: bytes | None, value: bytes | None, found: ConfigRecord | None) -> None:
    assert decode(key, value) == found


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"connector-c", b"not json, but a secret"),
        (b"connector-c", b"[]"),
        (b"connector-c", b'{"properties":["secret"]}'),
        (b"connector-c", b'{"properties":{"a":{"b":"secret"}}}'),
        (b"target-state-c", b'{"state":"ASLEEP"}'),
        (b"task-c", b'{"properties":{}}'),
        (b"task-c-x", b'{"properties":{}}'),
        (b"commit-c", b'{"tasks":"secret"}'),
        (b"commit-c", b'{"tasks":true}'),
        (b"session-key", b'{"key":"secret!","algorithm":"A","creation-timestamp":1}'),
        (b"connector-c", b"\xff\xfe"),
        (b"connector-c", b'{"schema":{"type":"map"},"payload":{"properties":{"a":"secret"}}}'),
        (b"connector-c", b"[" * 100_000),
    ],
)
def test_what_cannot_be_read_is_named_without_its_value(key: bytes, value: bytes) -> None:
    found = decode(key, value)
    assert isinstance(found, UnreadableRecord)
    assert found.key == key.decode()
    assert "secret" not in found.reason
