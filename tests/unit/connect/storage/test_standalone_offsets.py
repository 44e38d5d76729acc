"""Which offset counts for a connector of a standalone worker: that of its file, or that of the topic on its target."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.wait import wait_for
from tests.unit.config.files import kafkas_files
from twinlog.config.connector import ConnectorFlow, build_connector
from twinlog.config.properties import parse_properties
from twinlog.config.worker import worker_of
from twinlog.connect.storage import offset_records
from twinlog.connect.storage import standalone_offsets as module
from twinlog.connect.storage.offset_file import OffsetFile, read_java_map, write_java_map
from twinlog.connect.storage.standalone_offsets import FileOffsets
from twinlog.errors import ClusterError, RefusedError
from twinlog.kafka.retry import RetryPolicy

WORKER = worker_of(parse_properties(kafkas_files.STANDALONE, "w"), "w", distributed=False)
WAIT_S = 30.0


def flow(kind: str = "Source", name: str = "c") -> ConnectorFlow:
    config = {
        "connector.class": f"Mirror{kind}Connector",
        "source.cluster.alias": "a",
        "source.cluster.bootstrap.servers": "a:1",
    }
    return build_connector(name, config, WORKER)


def key(topic: str, name: str = "c") -> bytes:
    return json.dumps([name, {"cluster": "a", "partition": 0, "topic": topic}], separators=(",", ":")).encode()


def at(offset: int) -> bytes:
    return b'{"offset":%d}' % offset


class Topic:
    """In the place of a StateTopic: the positions on the target."""

    error: ClusterError | None = None
    records: list[tuple[bytes, bytes | None]]

    def __init__(self, *_: object, **__: object) -> None:
        self._read = 0

    def ensure(self) -> None:
        if self.error is not None:
            raise self.error

    def append(self, records: Iterable[tuple[bytes, bytes | None]]) -> None:
        self.records.extend(records)

    def read(self) -> list[Any]:
        found, self._read = self.records[self._read :], len(self.records)
        return [offset_records.decode(*record) for record in found]


class Admin:
    """In the place of a ClusterAdmin."""

    def __init__(self, *_: object) -> None:
        self.client = self
        self.connected = False

    def connect(self) -> None:
        self.connected = True

    def close(self) -> None: ...


@pytest.fixture(autouse=True)
def topic(monkeypatch: pytest.MonkeyPatch) -> type[Topic]:
    class Fresh(Topic):
        pass

    Fresh.records = []
    monkeypatch.setattr(module, "StateTopic", Fresh)
    monkeypatch.setattr(module, "CONNECTOR_POSITIONS", RetryPolicy(0.0, 0.0))
    return Fresh


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "offsets"


def offsets(path: Path, *flows: ConnectorFlow) -> FileOffsets:
    stored = FileOffsets(OffsetFile(path), lambda: flows, 60.0, connect=Admin)
    stored.start()
    return stored


def begin(stored: FileOffsets, one: ConnectorFlow) -> None:
    wait_for(lambda: stored.may_begin(one), WAIT_S, "the connector may begin")


def written_here(path: Path, content: dict[bytes, bytes | None]) -> None:
    file = OffsetFile(path)
    file.write_content(content)
    file.close()


def last(topic: type[Topic]) -> dict[bytes, bytes | None]:
    return dict(topic.records)


@pytest.mark.parametrize("theirs", [True, False], ids=["Kafka's", "ours"])
def test_only_a_file_that_somebody_else_wrote_counts(theirs: bool, path: Path, topic: type[Topic]) -> None:
    # More, less, deleted and of another connector.
    content = {key("x"): at(9), key("y"): at(3), key("z"): None, key("x", "other"): at(1)}
    written_here(path, {b"": b""} if theirs else content)
    if theirs:
        path.write_bytes(write_java_map(content))
    topic.records += [(key("x"), at(5)), (key("y"), at(5)), (key("z"), at(5)), (key("w"), at(5))]
    stored = offsets(path, flow())
    begin(stored, flow())
    kept = {key("x"): at(9), key("y"): at(3), key("z"): None} if theirs else dict.fromkeys(map(key, "xyz"), at(5))
    assert last(topic) == {**kept, key("w"): at(5)}
    # From now on it is the topic that counts, also for a connector that is created once more.
    topic.records.append((key("x"), at(20)))
    stored.stop()
    assert read_java_map(path.read_bytes())[key("w")] == at(5)
    again = offsets(path, flow())
    begin(again, flow())
    assert last(topic)[key("x")] == at(20)
    again.stop()


def test_without_a_note_about_the_file_whatever_is_further_on_counts(path: Path, topic: type[Topic]) -> None:
    path.write_bytes(write_java_map({key("x"): at(9), key("y"): at(3), key("z"): None}))
    topic.records += [(key("x"), at(5)), (key("y"), at(5)), (key("z"), at(5))]
    stored = offsets(path, flow())
    begin(stored, flow())
    assert last(topic) == {key("x"): at(9), key("y"): at(5), key("z"): at(5)}
    stored.stop()


def test_what_is_stored_shows_and_gets_into_the_file(path: Path, topic: type[Topic]) -> None:
    stored = offsets(path, flow(), flow("Checkpoint", "follows"))
    assert stored.may_begin(flow("Checkpoint", "follows"))
    assert stored.read() == []
    topic.records += [(key("x"), at(5)), (key("x", "other"), at(5))]
    (found,) = stored.read()
    assert (found.connector, found.offset) == ("c", {"offset": 5})
    assert stored.read() == []
    theirs = b'["follows",{"partition":0,"topic":"x","group":"g"}]'
    (found, other) = stored.append_and_read([(key("x"), at(2)), (theirs, at(0))])
    assert (found.offset, other.connector) == ({"offset": 2}, "follows")
    # Who follows groups has no positions on the target.
    assert last(topic) == {key("x"): at(2), key("x", "other"): at(5)}
    assert read_java_map(path.read_bytes()) == {key("x"): at(2), theirs: at(0)}
    stored.stop()


def test_positions_that_cannot_be_reached_are_not_changed_in_the_file_alone(path: Path) -> None:
    stored = offsets(path)
    with pytest.raises(
        RefusedError, match="connector c: its positions on the target are reachable only with a valid configuration"
    ):
        stored.append([(key("x"), at(2))])
    stored.stop()
    assert not path.exists() or read_java_map(path.read_bytes()) == {}


def test_a_target_that_does_not_answer_is_waited_for(
    path: Path, topic: type[Topic], caplog: pytest.LogCaptureFixture
) -> None:
    stored = offsets(path, flow())
    topic.error = ClusterError("nobody answers")
    assert not stored.may_begin(flow())
    wait_for(lambda: not stored.may_begin(flow()) and "nobody answers" in caplog.text, WAIT_S, "it is reported")
    topic.error = RefusedError("lacks CREATE")

    def refused() -> bool:
        try:
            return stored.may_begin(flow())
        except RefusedError:
            return True

    wait_for(refused, WAIT_S, "it is refused")
    topic.error = None
    begin(stored, flow())
    stored.stop()


def test_a_connector_that_writes_elsewhere_is_looked_for_there(path: Path) -> None:
    stored = offsets(path, flow())
    begin(stored, flow())
    moved = replace(flow(), settings=replace(flow().settings, offset_storage_topic="another"))
    assert not stored.may_begin(moved)
    begin(stored, moved)
    stored.stop()
