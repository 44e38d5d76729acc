"""The journals of switchovers tell moved groups piece by piece, whatever else the topic has."""

from __future__ import annotations

import json
import uuid
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from twinlog.errors import RefusedError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.record.last_records import LastRecords
from twinlog.mirror.groups import group_moves
from twinlog.mirror.groups.group_moves import GroupMovesReader, GroupReturnsReader
from twinlog.mirror.groups.move_facts import GroupMove
from twinlog.mirror.topics.journal_keys import JournalKey
from twinlog.model.types import Alias, GroupId, SourceOffset, TargetOffset, TopicName, TopicPartition
from twinlog.settings.flow import FlowSettings

SHOP, THERE = GroupId("shop"), TopicPartition(TopicName("a.orders"), 0)
FLOW = cast(FlowSettings, SimpleNamespace(source=Alias("a"), target=Alias("b")))
BACK = cast(FlowSettings, SimpleNamespace(source=Alias("b"), target=Alias("a")))
OFFSETS = [{"topic": "orders", "to_topic": "a.orders", "partition": 0, "offset": 7, "to_offset": 9}]
GROUPS = {"groups": {"shop": {"offsets": [{**one, "result": "committed"} for one in OFFSETS]}}}

COMMAND = "twinlog switchover FILE --from a --to b"


class Topic:
    """In place of TopicReader: returns what was written since the last reading."""

    def __init__(self) -> None:
        self.topic_id: uuid.UUID | None = uuid.UUID(int=1)
        self._new: dict[bytes, bytes | None] = {}
        self.refused = False

    def write(self, *key: str, value: Any, direction: str = "a->b", wave: str = "") -> None:
        """Append an entry; None deletes it."""
        self._new[JournalKey(direction, wave, *key).encode()] = None if value is None else json.dumps(value).encode()

    def write_raw(self, key: bytes, value: bytes) -> None:
        self._new[key] = value

    def switch_over(self, wave: str = "", run: str = "one") -> None:
        """A finished switchover of the group."""
        for step, data in (("open", {}), ("groups", GROUPS)):
            self.write(step, "done", value={"run": run, "at_ms": 1, "data": data}, wave=wave)
        self.write("run", value={"run": run, "state": "done"}, wave=wave)

    def read_last(self, last: LastRecords) -> None:
        if self.refused:
            raise RefusedError("no READ")
        for key, value in self._new.items():
            last[key] = cast(Any, SimpleNamespace(value=lambda value=value: value))
        self._new = {}


@pytest.fixture
def topic(monkeypatch: pytest.MonkeyPatch) -> Topic:
    topic = Topic()
    monkeypatch.setattr(group_moves, "TopicReader", lambda *args, **kw: topic)
    return topic


def test_moves_come_with_the_entries_and_go_with_a_way_back_and_with_the_topic(topic: Topic) -> None:
    reader = GroupMovesReader(FLOW, cast(ClusterAdmin, None))
    assert reader.read() == {}
    topic.switch_over()
    moved = {(SHOP, THERE): GroupMove(SourceOffset(7), TargetOffset(9))}
    assert reader.read() == moved
    assert reader.read() == moved, "without news"
    topic.write("release", "done", value={"run": "one", "data": {}})
    assert reader.read()[SHOP, THERE].released
    topic.write("run", value={"run": "two", "state": "running"})
    assert reader.read() == {}, "the next switchover has opened nothing yet"
    topic.switch_over(run="two")
    topic.write("release", "done", value=None)
    assert reader.read() == moved
    topic.refused = True
    assert reader.read() == moved
    topic.refused, topic.topic_id = False, None
    assert reader.read() == {}, "the journal was deleted"


def test_foreign_and_malformed_entries_count_for_nothing(topic: Topic) -> None:
    reader = GroupMovesReader(FLOW, cast(ClusterAdmin, None))
    topic.switch_over(wave="whole")
    for key in (b"?", b"[1,2,3,4]", b'["a->b"]', b"[" * 100_000):
        topic.write_raw(key, b"{}")
    topic.write("fenced", value={"remove": []})
    topic.write("groups", "begun", value={"run": "one"})
    topic.write("run", value={"run": "one", "state": "of another version"}, wave="new")
    topic.write("open", "done", value={"run": "one", "data": {}}, wave="bad")
    malformed: dict[str, object] = {"groups": {"shop": {"offsets": [{}]}}}
    topic.write("groups", "done", value={"run": "one", "data": malformed}, wave="bad")
    topic.write("run", value={"run": "one", "state": "done"}, wave="bad")
    topic.write("run", value={"run": "one", "state": "done"}, direction="b->a")
    assert set(reader.read()) == {(SHOP, THERE)}
    assert {key.wave for key in reader._values} == {"whole", "new", "bad"}
    assert not {key.step for key in reader._values} - {"run", "open", "groups", "release"}


def test_the_flow_back_reads_the_same_entries_as_returns(topic: Topic) -> None:
    topic.switch_over()
    returns = GroupReturnsReader(BACK, cast(ClusterAdmin, None)).read()
    here = TopicPartition(TopicName("orders"), 0)
    assert returns == {(SHOP, here): GroupMove(SourceOffset(9), TargetOffset(7))}


@pytest.mark.parametrize(("kind", "repeat"), [("planned", ""), ("back", ""), ("emergency", f"{COMMAND} --emergency")])
def test_the_groups_of_an_emergency_have_the_command_that_commits_their_later_offsets(
    topic: Topic, kind: str, repeat: str
) -> None:
    topic.switch_over()
    run = {"run": "one", "state": "done", "began_ms": 42, "options": {"kind": kind}}
    topic.write("run", value=run)
    reader, returns = (
        GroupMovesReader(FLOW, cast(ClusterAdmin, None)),
        GroupReturnsReader(FLOW, cast(ClusterAdmin, None)),
    )
    reader.read()
    assert returns.valid_repeats(reader.repeats).get(SHOP, "") == repeat
    returns.opened[""] = 43, "twinlog switchback FILE --from b --to a"
    assert returns.valid_repeats(reader.repeats) == {}, "a way back has ended it"
    returns.opened.clear()
    topic.write("release", "done", value={"run": "one", "data": {}})
    reader.read()
    assert reader.repeats == {}, "after the release, the same command begins a new switchover"


@pytest.mark.parametrize(
    ("kind", "wave", "command"),
    [
        ("planned", "", COMMAND),
        ("emergency", "", f"{COMMAND} --emergency"),
        ("emergency", "the first", f"{COMMAND} --wave 'the first' --emergency"),
        ("back", "", "twinlog switchback FILE --from a --to b"),
    ],
)
@pytest.mark.parametrize("state", ["running", "done", "aborted"])
def test_a_later_switchover_ends_the_moves_of_its_wave_in_the_other_direction(
    topic: Topic, kind: str, wave: str, command: str, state: str
) -> None:
    topic.switch_over(wave)
    run = {"run": "one", "state": state, "began_ms": 42, "options": {"kind": kind}}
    topic.write("run", value=run, wave=wave)
    reader = GroupReturnsReader(BACK, cast(ClusterAdmin, None))
    reader.read()
    earlier = GroupMove(SourceOffset(1), TargetOffset(1), began_ms=41, wave=wave)
    moves = {
        (GroupId("earlier"), THERE): earlier,
        (GroupId("later"), THERE): replace(earlier, began_ms=43),
        (GroupId("another wave"), THERE): replace(earlier, wave="other"),
    }
    ended = reader.mark_ended(moves)
    assert [one.ended_by for one in ended.values()] == ["" if state == "aborted" else command, "", ""]
    assert [replace(one, ended_by="") for one in ended.values()] == list(moves.values())
