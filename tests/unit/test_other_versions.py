"""Records and members of other versions, as docs/versions.md describes them: unknown fields count as absent."""

from __future__ import annotations

import json
from typing import Any

import pytest

from twinlog.connect.group.member import WorkerState, decode_assignment, encode_assignment
from twinlog.mirror.offsets.exact_map import Point
from twinlog.mirror.offsets.maps import ExactMaps
from twinlog.mirror.offsets.positions import HEADER, PositionRecord, decode_position
from twinlog.mirror.offsets.segments import VERSION, Segment
from twinlog.mirror.records import INT16
from twinlog.mirror.topics.journal_keys import SwitchoverState
from twinlog.model.types import Alias, SourceOffset, TargetOffset, TopicName, TopicPartition
from twinlog.ops.switchover.journal import SwitchoverRun, read_entries, run_record
from twinlog.ops.switchover.model import SwitchoverDirection, SwitchoverKind, SwitchoverOptions
from twinlog.worker.connectors.model import ConnectorName
from twinlog.worker.control.records import asked_by, stored
from twinlog.worker.election.member import Leadership, LeaderTerm, Member
from twinlog.worker.reload.reload_requests import ReloadRequest

FLOW = "east->west"
PART = TopicPartition(TopicName("orders"), 0)


def newer(data: bytes) -> bytes:
    """The same record of a version that writes a further field."""
    value: dict[str, Any] = json.loads(data)
    return json.dumps(value | {"added_later": {"deep": [1]}}).encode()


def test_members_of_another_version_elect_with_this_one() -> None:
    member = Member("host-1", {"tasks.max": "4"}, ready=True, term=LeaderTerm(7, "m-1", 1.0))
    assert Member.decode(newer(member.encode())) == member
    assert Member.decode(b'{"name": "host-1"}') == Member("host-1")
    leadership = Leadership(Member("host-1", {"tasks.max": "4"}), LeaderTerm(7, "m-1", 1.0))
    assert Leadership.decode(newer(leadership.encode())) == leadership


def test_connect_workers_of_another_version_share_connectors_with_this_one() -> None:
    worker = WorkerState("http://a:8083", "a", frozenset({ConnectorName("mirror")}), ("configs",), True)
    assert WorkerState.decode(newer(worker.encode())) == worker
    owners = {ConnectorName("mirror"): "http://a:8083"}
    sent = newer(encode_assignment(worker, frozenset(owners), owners))
    assert decode_assignment(sent, 3, leads=False).owners == owners
    # An early version sent no topics.
    assert WorkerState.decode(b'{"url": "http://b:8083", "worker": "b"}').shares_topics(("configs",))


@pytest.mark.parametrize(
    ("header", "generation", "target"),
    [
        (b'{"target": 9, "life": 5}', 5, 9),
        (b'{"target": 9, "generation": 5, "producer": [7, 0, 42], "added_later": 1}', 5, 9),
        (b'{"added_later": 1}', 0, None),
        (b"no JSON", 0, None),
    ],
)
def test_a_position_is_read_whatever_its_header_has(header: bytes, generation: int, target: int | None) -> None:
    key = b'["MirrorSourceConnector",{"cluster":"east","partition":0,"topic":"orders"}]'
    record = PositionRecord(key, b'{"offset":41,"added_later":1}', ((HEADER, header),))
    found = decode_position(Alias("east"), record)
    assert found is not None
    partition, position = found
    assert partition == PART
    assert position is not None
    assert (position.next_source, position.next_target, position.generation) == (42, target, generation)


def test_a_record_of_an_exact_map_of_a_later_form_is_passed_over() -> None:
    def segment(at: int, generation: int) -> Segment:
        points = (Point(SourceOffset(at), TargetOffset(at + 5), 0),)
        return Segment(PART, generation, False, points)

    known, later = segment(10, 1), segment(100, 2)
    value = INT16.pack(VERSION + 1) + later.value[INT16.size :]
    maps = ExactMaps()
    maps.apply_records([(known.key, known.value), (later.key, value)])
    maps.extend_map(PART, SourceOffset(200), TargetOffset(205), generation=2)
    found = maps.map(PART)
    assert found is not None
    assert [(point.source, point.target) for point in found.points()] == [(10, 15)]
    # The end of the later generation belongs to the map that is unknown here.
    only = ExactMaps()
    only.apply_records([(later.key, value)])
    assert only.map(PART) is None


def test_commands_for_topics_of_a_later_form_are_passed_over() -> None:
    paused = {"paused": True, "at_ms": 1, "by": "ann", "added_later": 1}
    records = [
        stored(FLOW, json.dumps(["paused", FLOW, "orders", None]).encode(), 0, json.dumps(paused).encode()),
        stored(FLOW, json.dumps(["invented", FLOW, "x"]).encode(), 1, b"{}"),
        stored(FLOW, json.dumps(["command", FLOW, "id"]).encode(), 2, b'{"verb": "invented", "place": {}}'),
    ]
    state = asked_by(record for record in records if record is not None)
    assert [pause.by for pause in state.pauses.entries] == ["ann"]
    assert not state.outcomes


def test_a_request_to_reload_of_a_newer_version_is_understood() -> None:
    request = ReloadRequest("id", "ann", frozenset({(FLOW, "east-mm2")}))
    assert ReloadRequest.decode(request.key, newer(request.encode())) == request


def test_a_switchover_of_a_later_form_counts_as_none() -> None:
    """So docs/versions.md asks to end a switchover before the version changes."""
    ends = SwitchoverDirection(Alias("east"), Alias("west"))
    run = SwitchoverRun("r", ends, SwitchoverOptions(SwitchoverKind.PLANNED), SwitchoverState.RUNNING, 1)
    key, value = run_record(run)
    assert read_entries(ends, [(key, newer(value))]).run == run
    changed = json.loads(value) | {"state": "invented"}
    assert read_entries(ends, [(key, json.dumps(changed).encode())]).run is None
