"""Messages come out as they went in, and whatever is none of them is refused by name."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinlog.errors import MessageError
from twinlog.kafka.coordinator.transactions import ProducerEpoch
from twinlog.lease.messages import (
    VERSION,
    Claim,
    CopierEnded,
    CopierHeartbeat,
    CopierHeartbeatResponse,
    CopierHello,
    CopierLogLine,
    Drop,
    Event,
    Failed,
    Grant,
    Grants,
    Hold,
    IdRequest,
    LeaseEnded,
    LentId,
    Message,
    NextRequest,
    NextResponse,
    PlannerHello,
    Release,
    Released,
    ReportMessage,
    SetLogLevel,
    Share,
    SharesRequest,
    SharesResponse,
    Stop,
    TaskEnded,
    Welcome,
    decode,
    encode,
    require,
)
from twinlog.lease.progress import CopierCounters, PartitionCounters, PartitionProgress, Report
from twinlog.mirror.offsets.positions import Position, Writer
from twinlog.mirror.offsets.segments import LastPoint
from twinlog.mirror.offsets.starts import StartSpec
from twinlog.model.held import HeldPartition
from twinlog.model.types import SourceOffset, TopicName, TopicPartition

ONE, TWO = (TopicPartition(TopicName("t"), number) for number in (0, 1))
GRANT = Grant(
    *(ONE, TWO, "id", 1000, Position(7, 5, 1, "id", None, 2, "r", Writer(4001, 3, 17)), True, LastPoint(2, 6, 4)),
    heartbeats=True,
    begin=StartSpec(SourceOffset(8), 9),
)
REPORT = Report(
    "a->b",
    "c",
    1,
    2,
    1.0,
    0.5,
    partitions=(
        PartitionProgress(
            "t",
            0,
            5,
            6,
            7,
            PartitionCounters(8, 9, 10, 12, 13, 14, 15, 16, 17, 18, 19),
            "slow",
            11,
            3,
            4,
            5,
            6,
            7,
            "ab",
            1,
            2,
            3,
            4,
            5,
            "changed",
            6,
            7,
        ),
    ),
    events=(("gap", "x"),),
    counters=replace(CopierCounters([1, 2], 3, {"as it is": 4}, *range(5, 26)), differences={"changed": 26}),
)

HELD = HeldPartition("t", 0, "gap", "TW-GAP-01", "x", "y", 7, 8, 9, 10)

BYTES: list[tuple[Message, str]] = [
    (CopierHello(VERSION, "0.1.0", "a->b", "c"), f'"version":{VERSION},"release":"0.1.0","flow":"a->b","copier":"c"'),
    (PlannerHello(VERSION, "0.1.0", "q"), f'"version":{VERSION},"release":"0.1.0","query":"q"'),
    (Welcome(VERSION, "0.1.0"), f'"version":{VERSION},"release":"0.1.0"'),
    (Claim(3, 12), '"lease":3,"task":12,"bridge":false'),
    (TaskEnded(3), '"lease":3'),
    (Released((ONE, TWO), (ONE,)), '"partitions":[["t",0],["t",1]],"undrained":[["t",0]]'),
    (CopierHeartbeat(1.5), '"at":1.5'),
    (
        ReportMessage(REPORT),
        (
            '"report":["a->b","c",1,2,1.0,0.5,0.0,[-1.0,-1.0,null],[-1.0,-1.0,null],'
            '[["t",0,5,6,7,8,9,10,12,13,14,15,16,17,18,19,"slow",11,3,4,5,6,7,"ab",1,2,3,4,5,"changed",6,7]],'
            '[["gap","x"]],[[1,2],3,{"as it is":4},5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,'
            '{"changed":26}]]'
        ),
    ),
    (Event("gap", "x"), '"kind":"gap","text":"x"'),
    (Hold(HELD), '"held":["t",0,"gap","TW-GAP-01","x","y",7,8,9,10]'),
    (Failed(ONE, "GapError", "x"), '"partition":["t",0],"kind":"GapError","text":"x"'),
    (IdRequest(), ""),
    (CopierLogLine(10, "orders-0 begins"), '"level":10,"text":"orders-0 begins"'),
    (CopierEnded(), ""),
    (CopierHeartbeatResponse(1.5, 5.0), '"at":1.5,"valid_s":5.0'),
    (
        Grants(3, (GRANT,)),
        (
            '"lease":3,"grants":[[["t",0],["t",1],"id",1000,[7,5,1,"id",null,2,"r",[4001,3,17],null,null],true,'
            "[2,6,4],true,[8,9,false],false]]"
        ),
    ),
    (Release((ONE,)), '"partitions":[["t",0]]'),
    (LeaseEnded(3), '"lease":3'),
    (LentId("x-0", ProducerEpoch(4001, 3)), '"transactional_id":"x-0","producer":[4001,3]'),
    (SetLogLevel(10, 900.0), '"level":10,"for_s":900.0'),
    (Stop(), ""),
    (Drop(), ""),
    (NextRequest(4), '"after":4'),
    (NextResponse(5), '"batch":5'),
    (SharesRequest(), ""),
    (SharesResponse(((Share("a->b", 3, 0),), ())), '"tasks":[[["a->b",3,0]],[]]'),
]
"""When one of these changes, or a field comes or goes, `VERSION` must be raised: old tasks do not read it."""


@pytest.mark.parametrize(("message", "fields"), BYTES, ids=[type(message).__name__ for message, _ in BYTES])
def test_a_message_is_written_as_its_version_says(message: Message, fields: str) -> None:
    assert encode(message).decode() == f'{{"type":"{type(message).__name__}"{"," if fields else ""}{fields}}}'
    assert decode(encode(message)) == message


def test_a_report_in_the_topic_has_the_documented_fields_and_is_read_also_from_a_newer_version() -> None:
    reach = '{"heard_s":-1.0,"out_s":-1.0,"why":null}'
    partition = (
        '{"topic":"t","partition":0,"source_offset":5,"target_offset":6,"end":7,"records":8,"bytes":9,"latency_ms":10,'
        '"trouble":"slow","waiting_ms":11,"proven_source":3,"proven_target":4,"proof_lag_ms":5,"proven_records":6,'
        '"proven_bytes":7,"proof_chain":"ab","proof_source":1,"proof_target":2,"proof_range":3,"unproved":4,'
        '"differences":5,"difference_kind":"changed","difference_source":6,"difference_target":7}'
    )
    written = (
        '{"flow":"a->b","copier":"c","lease":1,"at_ms":2,"seconds":1.0,"busy":0.5,"age_s":0.0,'
        f'"source":{reach},"target":{reach},"partitions":[{partition}],"events":[["gap","x"]]}}'
    )
    assert REPORT.encode().decode() == written
    found = Report.decode(written.replace('"topic":', '"colour":"red","topic":').encode())
    assert found is not None
    assert found.encode().decode() == written
    assert found.partitions[0].counters == PartitionCounters(8, 9, 10)
    for wrong in (b"", b"[]", b"{}", b"\xff", written.replace('"records":8', '"records":"8"').encode()):
        assert Report.decode(wrong) is None


def test_the_list_above_has_every_message() -> None:
    assert {type(message) for message, _ in BYTES} == set(get_args(Message))


@pytest.mark.parametrize("cls", get_args(Message))
@given(data=st.data())
def test_every_message_comes_out_as_it_went_in(cls: type[Message], data: st.DataObject) -> None:
    message = data.draw(st.from_type(cls))
    # The text, as one NaN does not equal another.
    assert repr(decode(encode(message))) == repr(message)


@pytest.mark.parametrize(
    ("message", "field", "value", "error"),
    [
        (Claim(1), "lease", "2", "message Claim, field lease: '2' is not int"),
        (Claim(1), "lease", True, "message Claim, field lease: True is not int"),
        (Claim(1), "lease", None, "message Claim, field lease: None is not int"),
        (CopierHeartbeat(1.0), "at", "now", "message CopierHeartbeat, field at: 'now' is not float or int"),
        (Release((ONE,)), "partitions", {}, "message Release, field partitions: {} is not list"),
        (Release((ONE,)), "partitions", [["t", 0], ["t", "1"]], "field partitions[1].partition: '1' is not int"),
        (Release((ONE,)), "partitions", [["t"]], "field partitions[0]: has 1 values, not 2 (topic, partition)"),
        (Failed(ONE, "k", "t"), "partition", ["t", None], "message Failed, field partition.partition: None is not int"),
        (ReportMessage(REPORT), "report", [*["x"] * 10], "field report: has 10 values, not 12 (flow, copier, lease,"),
        (SharesResponse(()), "tasks", [[], [["a->b", 1, 0.5]]], "field tasks[1][0].number: 0.5 is not int"),
    ],
)
def test_a_wrong_field_is_named(message: Message, field: str, value: Any, error: str) -> None:
    with pytest.raises(MessageError) as refused:
        decode(altered(message, **{field: value}))
    assert error in str(refused.value)


def test_a_wrong_value_deep_in_a_message_is_named() -> None:
    value = json.loads(encode(Grants(3, (GRANT, GRANT))))
    value["grants"][1][4][7][1] = "three"
    with pytest.raises(MessageError, match=r"Grants, field grants\[1\].position.writer.epoch: 'three' is not int"):
        decode(json.dumps(value).encode())
    value = json.loads(encode(ReportMessage(REPORT)))
    value["report"][9][0][16] = 5
    with pytest.raises(MessageError, match=r"field report.partitions\[0\].trouble: 5 is not str or null"):
        decode(json.dumps(value).encode())


def test_missing_and_unknown_fields_are_named() -> None:
    with pytest.raises(MessageError, match="message Claim has unknown field colour"):
        decode(altered(Claim(1), colour="red"))
    with pytest.raises(
        MessageError, match="message Claim lacks field bridge, lacks field lease, lacks field task, has unknown field x"
    ):
        decode(b'{"type":"Claim","x":1}')


@pytest.mark.parametrize("data", [b"", b"[]", b"5", b"\xff", b"{", b'"Claim"'])
def test_what_is_no_object_is_no_message(data: bytes) -> None:
    with pytest.raises(MessageError, match="is no message"):
        decode(data)


@pytest.mark.parametrize("data", [b"{}", b'{"type":"Codec"}', b'{"type":["Claim"]}', b'{"type":null}'])
def test_a_type_that_no_message_has_is_refused(data: bytes) -> None:
    with pytest.raises(MessageError, match="no message has the type"):
        decode(data)


def test_an_answer_to_something_else_is_refused() -> None:
    assert require(CopierEnded(), CopierEnded) == CopierEnded()
    with pytest.raises(MessageError, match="Stop came instead of Welcome"):
        require(Stop(), Welcome)


def altered(message: Message, **fields: Any) -> bytes:
    return json.dumps({**json.loads(encode(message)), **fields}).encode()
