"""What is asked of topics as records: what is written is read, and what nobody here wrote is passed over."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from twinlog.kafka.producer.topic_writer import OwnRecord
from twinlog.model.types import TopicName, TopicPartition
from twinlog.process.flow_levels import FlowLogLevel
from twinlog.worker.control import records
from twinlog.worker.control.model import (
    CommandOutcome,
    CommandState,
    LevelRequest,
    LogPlace,
    LogPlaceKind,
    PartitionMove,
    PartitionSelector,
    TopicCommand,
    TopicPause,
    TopicVerb,
)
from twinlog.worker.control.records import MOVES_TOGETHER, ControlState, asked_by, stored

FLOW = "east->west"
COMMAND = TopicCommand(
    "c1",
    TopicVerb.SKIP_TO,
    (PartitionSelector("t"), PartitionSelector("u.*", (1, 2))),
    LogPlace(LogPlaceKind.TIME, 1_700_000_000_000),
    17,
    "host-4",
)


def moves(count: int) -> tuple[PartitionMove, ...]:
    part = TopicPartition(TopicName("t"), 0)
    return tuple(
        PartitionMove(
            part._replace(partition=number), None if number % 2 else 3, 9, True, 6, 0, "text", None if number % 3 else 4
        )
        for number in range(count)
    )


def read(written: Iterable[OwnRecord], flow: str = FLOW) -> ControlState:
    last: dict[bytes | None, tuple[int, bytes | None]] = {}
    for offset, record in enumerate(written):
        last[record[0]] = offset, record[1]
    found = (stored(flow, key, offset, value) for key, (offset, value) in last.items())
    return asked_by(one for one in found if one is not None)


def test_a_command_is_read_with_what_became_of_it() -> None:
    done = CommandOutcome(COMMAND, CommandState.APPLIED, 99, "host-5", "why", moves(3))
    written = [
        records.command_record(FLOW, COMMAND),
        *records.move_records(FLOW, COMMAND, moves(3)),
        records.result_record(FLOW, replace(done, result=CommandState.BEGUN)),
    ]
    assert read(written).outcomes == (replace(done, result=CommandState.BEGUN),)
    assert [one.command for one in read(written).pending] == [COMMAND]
    written.append(records.result_record(FLOW, done))
    assert read(written).outcomes == (done,)
    assert read(written).pending == []
    assert read(written).outcome("c1") == done
    assert read(written).outcome("c2") is None
    assert read([*written, *records.without_command(FLOW, done)]) == ControlState()


def test_what_becomes_of_partitions_counts_only_when_it_is_whole() -> None:
    many = moves(2 * MOVES_TOGETHER + 1)
    first, second, third = records.move_records(FLOW, COMMAND, many)
    asked = [records.command_record(FLOW, COMMAND)]
    assert read([*asked, first, third]).outcomes == (CommandOutcome(COMMAND),)
    assert read([*asked, first, third, second]).outcomes == (CommandOutcome(COMMAND, moves=many),)
    assert max(len(record[1] or b"") for record in (first, second, third)) < 400_000
    none = records.move_records(FLOW, COMMAND, ())
    assert read([*asked, *none]).outcomes == (CommandOutcome(COMMAND, moves=()),)


def test_what_was_asked_first_is_done_first() -> None:
    one, other = replace(COMMAND, id="b"), replace(COMMAND, id="a")
    written = [records.command_record(FLOW, one), records.command_record(FLOW, other)]
    assert [found.command.id for found in read(written).pending] == ["b", "a"]


def test_pauses_are_in_the_order_in_which_they_were_written_last() -> None:
    first, second = (
        TopicPause(PartitionSelector("t.*"), True, 1, "h"),
        TopicPause(PartitionSelector("t", (3,)), False, 2, "h"),
    )
    written = [records.pause_record(FLOW, first), records.pause_record(FLOW, second)]
    assert read(written).pauses.entries == (first, second)
    again = replace(first, at_ms=3)
    assert read([*written, records.pause_record(FLOW, again)]).pauses.entries == (second, again)
    assert read([*written, records.without_pause(FLOW, first)]).pauses.entries == (second,)


def test_records_of_other_flows_and_other_forms_are_passed_over() -> None:
    written = [
        records.command_record("west->east", COMMAND),
        records.pause_record("west->east", TopicPause(PartitionSelector(".*"), True)),
        (b"no json", b"{}"),
        (b'["command","east->west","x"]', b"no json"),
        (b'["command","east->west","x"]', b'{"verb":"fly","topics":[],"place":null,"at_ms":1,"by":""}'),
        (b'["paused","east->west","(",null]', b'{"paused":true,"at_ms":1,"by":""}'),
        (b'["later","east->west"]', b"{}"),
        (b'["command","east->west"]', b"[]"),
    ]
    assert read(written) == ControlState()
    assert read(written, "west->east").pending == [CommandOutcome(COMMAND)]


def test_the_last_request_for_a_level_counts() -> None:
    asked = LevelRequest("l1", FlowLogLevel.DEBUG, 900.0, 17, "me on host-4")
    written = [records.level_record(FLOW, asked)]
    assert read(written).level == asked
    assert read([records.level_record("a->b", asked)]).level is None
    later = replace(asked, id="l2", level=FlowLogLevel.DEFAULT)
    assert read([*written, records.level_record(FLOW, later)]).level == later
    key, value = records.level_record(FLOW, asked)[:2]
    assert value is not None
    assert read([(key, value.replace(b"debug", b"a level of a newer version"))]) == ControlState()
