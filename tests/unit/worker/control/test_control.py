"""The commands that the process of a flow carries out for topics: once and in order."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from harness.virtual.clock import VirtualClock
from harness.virtual.requests import LIST_OFFSETS
from tests.unit.worker.control.controlling import EARLIEST, LATEST, PARTS, TOPIC, Scene, scene
from twinlog.errors import ClusterError, OptionError, RefusedError
from twinlog.kafka.producer.topic_writer import TopicWriter
from twinlog.kafka.protocol.error_codes import Code
from twinlog.mirror.offsets.positions import Writer
from twinlog.mirror.offsets.segments import SegmentWriter, segments_topic
from twinlog.model.held import HeldPartition
from twinlog.model.types import SourceOffset, TargetOffset, TopicName, TopicPartition
from twinlog.process.flow_levels import FlowLevels, FlowLogLevel
from twinlog.worker.control import control as module
from twinlog.worker.control.control import REPEATED_S
from twinlog.worker.control.journal import KEEP_S, MOST_OVER, ControlJournal
from twinlog.worker.control.model import (
    CommandState,
    LevelRequest,
    LogPlace,
    LogPlaceKind,
    PartitionSelector,
    TopicVerb,
)


@pytest.fixture
def here() -> Iterator[Scene]:
    with scene() as found:
        yield found


def test_what_is_paused_is_not_planned_and_what_waits_there_is_known(here: Scene) -> None:
    process = here.process()
    assert process.planned == set(PARTS)
    here.ask(TopicVerb.PAUSE, "t", partitions=(0, 1))
    here.write(1, 5)
    process.control.run_commands()
    process.control.poll_withheld()
    assert process.planned == {PARTS[2]}
    found = here.outcome()
    assert (found.result, found.reason) == (CommandState.APPLIED, "")
    assert [(move.partition, move.before, move.changes) for move in found.moves or ()] == [
        (PARTS[0], 10, False),
        (PARTS[1], 10, False),
    ]
    assert (process.status.paused.lag, process.status.paused.partitions) == (5, PARTS[:2])
    # A process that takes over plans it no moment.
    assert here.process().planned == {PARTS[2]}
    here.ask(TopicVerb.RESUME, "t", partitions=(1,), name="c2")
    process.control.run_commands()
    process.control.poll_withheld()
    assert process.planned == set(PARTS[1:])
    assert len(here.stored()) == 3


def test_the_lag_of_a_paused_partition_grows_with_its_source(here: Scene) -> None:
    process, clock = here.process(), here.connect().clock
    here.ask(TopicVerb.PAUSE, "t", partitions=(1,))
    process.control.run_commands()
    assert process.status.paused.lag == 0
    for lag in (4, 8, 12):
        here.write(1, 4)
        clock.sleep(module.EVERY_S)
        process.control.run_commands()
        assert process.status.paused.lag == lag


def test_the_lag_of_a_paused_partition_is_unknown_while_its_end_is_hidden(here: Scene) -> None:
    process, clock = here.process(), here.connect().clock
    here.ask(TopicVerb.PAUSE, "t", partitions=(1,))
    process.control.run_commands()
    assert process.status.paused.lag == 0
    clock.sleep(module.EVERY_S)
    here.source.codes(LIST_OFFSETS, TOPIC, *[Code.TOPIC_AUTHORIZATION_FAILED] * 2, partition=1)
    process.control.run_commands()
    assert process.status.paused.lag is None
    clock.sleep(module.EVERY_S)
    process.control.run_commands()
    assert process.status.paused.lag == 0
    clock.sleep(module.EVERY_S)
    for node in here.source.nodes:
        here.source.stop(node)
    with pytest.raises(ClusterError):
        process.control.run_commands()
    assert process.status.paused.lag is None


def test_a_missing_right_on_a_paused_topic_delays_neither_other_lags_nor_the_end_of_old_commands(
    here: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    process, clock = here.process(), here.connect().clock
    other = TopicPartition(TopicName("u"), 0)
    here.source.create("u")
    here.source.write("u", b"1", b"2", b"3")
    process.control.plan({**here.remote, other: TopicPartition(TopicName("east.u"), 0)})
    here.ask(TopicVerb.PAUSE, "t", partitions=(1,))
    here.ask(TopicVerb.PAUSE, "u", name="c2")
    here.ask(TopicVerb.PAUSE, "u", name="c3")
    process.control.run_commands()
    here.source.codes(LIST_OFFSETS, TOPIC, *[Code.TOPIC_AUTHORIZATION_FAILED] * 50, partition=1)
    for _ in range(3):
        clock.sleep(KEEP_S)
        process.control.run_commands()
    lags = {one.topic: one.lag for one in process.status.paused.topics()}
    assert lags == {"t": None, "u": 3}
    assert here.journal.read().outcomes == ()
    warned = [one.getMessage() for one in caplog.records if "the lag of paused partitions" in one.getMessage()]
    assert len(warned) == 1, "the right is missing for long, and the log names it once"
    assert warned[0].startswith("TW-RIGHT-02: east->west: the lag of paused partitions of t is unknown: ")


@pytest.mark.parametrize("verb", [TopicVerb.PAUSE, TopicVerb.RESUME])
def test_what_is_paused_is_reported_before_the_command_is_over(
    here: Scene, monkeypatch: pytest.MonkeyPatch, verb: TopicVerb
) -> None:
    process = here.process()
    if verb is TopicVerb.RESUME:
        here.ask(TopicVerb.PAUSE, "t", name="c0")
        process.control.run_commands()
        process.shown.clear()
    ended: list[int] = []
    end = ControlJournal.end

    def noted(self: ControlJournal, *words: Any) -> None:
        ended.append(len(process.shown))
        end(self, *words)

    monkeypatch.setattr(ControlJournal, "end", noted)
    here.ask(verb, "t", partitions=(0,))
    process.control.run_commands()
    others = [] if verb is TopicVerb.PAUSE else PARTS[1:]
    paused = sorted({*others, *([PARTS[0]] if verb is TopicVerb.PAUSE else [])})
    assert process.shown == [paused, paused], "again with the lag of what is paused"
    assert ended == [1]
    process.control.run_commands()
    assert len(process.shown) == 2, "no command, no report out of turn"


def test_a_pause_without_a_plan_of_it_is_tried_again(here: Scene) -> None:
    process = here.process()
    process.control.run_commands()
    here.ask(TopicVerb.PAUSE, "t")
    clock: Any = process.control._clock
    clock.meanwhile = lambda _true, timeout_s: clock.sleep(timeout_s)
    with pytest.raises(ClusterError, match="the paused partitions are still to be planned"):
        process.control.run_commands()
    assert here.outcome().result is CommandState.BEGUN
    process.control.poll_withheld()
    process.control.run_commands()
    assert here.outcome().result is CommandState.APPLIED


def test_a_topic_to_come_is_paused_by_a_pattern(here: Scene) -> None:
    here.ask(TopicVerb.PAUSE, "t.*")
    process = here.process()
    assert process.planned == set()
    later = [part._replace(topic="t2") for part in PARTS]
    process.control.plan(here.remote | dict.fromkeys(later, PARTS[0]))
    assert process.planned == set()
    other = PARTS[0]._replace(topic="u")
    process.control.plan(here.remote | dict.fromkeys([*later, other], PARTS[0]))
    assert process.planned == {other}


def test_a_restart_goes_on_at_the_end_of_the_remote_log_as_another_writer(here: Scene) -> None:
    before = replace(here.position(PARTS[0], 10), writer=Writer(77, 3, 10), leader_epoch=4, generation=512)
    here.store({PARTS[0]: before})
    here.ask(TopicVerb.RESTART_FROM, "t", place=EARLIEST, partitions=(0,))
    process = here.process()
    process.control.run_commands()
    found = here.last()
    assert found == replace(before, next_source=0, leader_epoch=-1, generation=-1, writer=Writer(77, 4, 0))
    assert [(one.before, one.after, one.repeated) for one in here.outcome().changed] == [(10, 0, 10)]
    assert here.last(PARTS[1]).next_source == 10
    process.control.poll_withheld()
    assert process.planned == set(PARTS)


def test_an_append_that_is_not_counted_is_waited_for_and_not_compared(here: Scene) -> None:
    """A lost copier's: the position after it is the end of the log, where nothing counts as a copy from offset 3 on."""
    here.copy(0, 4)
    here.ask(TopicVerb.RESTART_FROM, "t", place=LogPlace(LogPlaceKind.OFFSET, 3), partitions=(0,))
    here.process().control.run_commands()
    assert (here.last().next_source, here.last().next_target) == (3, 14)


def test_nothing_is_copied_of_a_partition_before_its_command_is_done(here: Scene) -> None:
    here.ask(TopicVerb.SKIP_TO, "t", place=LATEST, partitions=(1,))
    here.write(1, 7)
    process = here.process()
    assert process.planned == {PARTS[0], PARTS[2]}
    process.control.run_commands()
    process.control.poll_withheld()
    assert process.planned == set(PARTS)
    assert here.last(PARTS[1]).next_source == 17
    assert [(one.passed, one.before, one.after) for one in here.outcome().changed] == [(7, 10, 17)]


def test_a_command_that_has_no_effect_is_refused_with_the_reason(here: Scene) -> None:
    here.ask(TopicVerb.SKIP_TO, "t", place=EARLIEST)
    here.ask(TopicVerb.RELEASE, "nothing", name="c2")
    process = here.process()
    process.control.run_commands()
    assert here.outcome().result is CommandState.REFUSED
    assert "t-0: it is at offset 10, after 0: restart-from copies again" in here.outcome().reason
    assert (here.outcome("c2").result, here.outcome("c2").reason) == (
        CommandState.REFUSED,
        "the flow copies no partition that is meant",
    )
    assert len(here.stored()) == 3


def test_a_release_takes_a_partition_back_and_grants_it_again(here: Scene) -> None:
    process = here.process()
    here.ask(TopicVerb.RELEASE, "t", partitions=(0,))
    plans: list[set[Any]] = []
    attend = process.control.poll_withheld

    def seen() -> None:
        attend()
        plans.append(process.planned)

    process.control.poll_withheld = seen  # type: ignore[method-assign]
    process.control.run_commands()
    process.control.poll_withheld()
    assert set(PARTS[1:]) in plans
    assert process.planned == set(PARTS)
    assert here.outcome().result is CommandState.APPLIED
    assert len(here.stored()) == 3


def test_a_release_says_where_no_partition_was_held(here: Scene) -> None:
    process = here.process()
    here.ask(TopicVerb.RELEASE, "t", partitions=(0,))
    process.control.run_commands()
    assert (here.outcome().result, here.outcome().reason) == (CommandState.APPLIED, "none of these partitions was held")
    offsets = {"source_offset": SourceOffset(10), "target_offset": TargetOffset(10)}
    process.held.add_held(
        HeldPartition.by(RefusedError("it lacks WRITE", resource="topic west.t"), PARTS[1], 0, **offsets)
    )
    here.ask(TopicVerb.RELEASE, "t", name="c2")
    process.control.run_commands()
    assert (here.outcome("c2").result, here.outcome("c2").reason) == (CommandState.APPLIED, "")
    # The partition is copied again, and the last report still has it as held.
    process.held.retain_partitions(set())
    here.ask(TopicVerb.RELEASE, "t", name="c3")
    process.control.run_commands()
    assert (here.outcome("c3").result, here.outcome("c3").reason) == (CommandState.APPLIED, "")
    here.connect().clock.sleep(REPEATED_S + 1)
    here.ask(TopicVerb.RELEASE, "t", name="c4")
    process.control.run_commands()
    assert here.outcome("c4").reason == "none of these partitions was held"


def test_a_command_waits_for_a_plan_that_is_being_made(here: Scene) -> None:
    """A copier may begin with a partition by a plan that was begun before the command."""
    control = here.process().control
    plan, made = control._tasks.plan, []

    def slow(partitions: Any) -> None:
        control._stopping.set()
        with pytest.raises(ClusterError, match="copiers still hold t-0"):
            control._await_release(frozenset(PARTS[:1]))
        control._stopping.clear()
        made.append(partitions)
        plan(partitions)

    control._tasks.plan = slow  # type: ignore[method-assign]
    control._moving = frozenset(PARTS[:1])
    control.poll_withheld()
    assert made == [set(PARTS[1:])]
    control._await_release(frozenset(PARTS[:1]))


def test_what_was_asked_by_one_id_is_done_once(here: Scene) -> None:
    process = here.process()
    here.ask(TopicVerb.RESTART_FROM, "t", place=EARLIEST)
    process.control.run_commands()
    here.store({part: here.position(part, 10, 20) for part in PARTS})
    assert here.ask(TopicVerb.RESTART_FROM, "t", place=EARLIEST).result is CommandState.APPLIED
    process.control.run_commands()
    here.process().control.run_commands()
    assert [here.last(part).next_source for part in PARTS] == [10, 10, 10]
    with pytest.raises(OptionError, match="was given to another command: restart-from earliest t"):
        here.ask(TopicVerb.RESTART_FROM, "t", place=LATEST)


def test_records_that_the_source_deleted_are_passed_over_by_accepting_the_gap(here: Scene) -> None:
    for number in range(2):
        here.write(number, 10)
    here.source.log(TOPIC, 0).delete_before(20)
    here.ask(TopicVerb.ACCEPT_GAP, "t")
    here.process().control.run_commands()
    assert [here.last(part).next_source for part in PARTS] == [20, 10, 10]
    (gap,) = here.outcome().changed
    assert (gap.partition, gap.passed) == (PARTS[0], 10)
    assert "source offsets 10 to 19 (10 offsets) were deleted before they were copied" in gap.text


def test_a_restart_that_is_taken_back_leads_groups_to_the_first_copies(here: Scene) -> None:
    """The second copier's map knows the second copies alone, and most records have none."""
    admin = here.connect()
    topic = TopicWriter(admin.client, segments_topic(here.settings.source), 5.0, "testing")

    def copied_to(source: int, target: int, writer: SegmentWriter) -> None:
        admin.call(topic.append, [(segment.key, segment.value) for segment in writer.changed()])
        here.store({PARTS[0]: replace(here.position(PARTS[0], source, target), generation=writer.generation)})

    copied_to(10, 10, SegmentWriter(PARTS[0], 0, 0, generation=256, complete=True))
    process = here.process()
    here.ask(TopicVerb.RESTART_FROM, "t", place=EARLIEST, partitions=(0,))
    process.control.run_commands()
    assert [(move.after, move.repeated, move.first_target) for move in here.outcome().moves or ()] == [(0, 10, 0)]
    here.copy(0, 3)
    copied_to(3, 13, SegmentWriter(PARTS[0], 0, 10, generation=512))
    here.ask(TopicVerb.SKIP_TO, "t", place=LATEST, partitions=(0,), name="c2")
    process.control.run_commands()
    (move,) = here.outcome("c2").moves or ()
    assert (move.before, move.after, move.passed) == (3, 10, 0)
    process.maps.read()
    known = process.maps.maps.map(PARTS[0])
    assert known is not None
    # With the second copies' map, offset 5 would lead to 13, past the only copies of 5 to 9.
    assert [known.to_target(offset) for offset in (2, 5, 9, 10)] == [(0, False), (0, False), (0, False), (13, True)]


def test_what_is_over_for_long_is_forgotten_and_what_is_paused_is_not(here: Scene) -> None:
    here.ask(TopicVerb.PAUSE, "t", partitions=(0,))
    here.ask(TopicVerb.PAUSE, "u", name="c2")
    here.ask(TopicVerb.RESUME, ".*", name="c3")
    here.ask(TopicVerb.PAUSE, "t", partitions=(1,), name="c4")
    process = here.process()
    process.control.run_commands()
    clock: Any = here.connect().clock
    clock.sleep(KEEP_S - 60)
    here.ask(TopicVerb.RELEASE, "t", name="c5")
    process.control.run_commands()
    clock.sleep(1000)
    process.control.run_commands()
    asked = here.journal.read()
    assert [one.command.id for one in asked.outcomes] == ["c5"]
    assert [(entry.selector, entry.paused) for entry in asked.pauses.entries] == [(PartitionSelector("t", (1,)), True)]
    assert here.process().planned == {PARTS[0], PARTS[2]}


def test_no_more_commands_than_some_are_remembered(here: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("twinlog.worker.control.journal.MOST_OVER", 3)
    assert MOST_OVER > 100
    process = here.process()
    for number in range(5):
        here.ask(TopicVerb.RELEASE, "t", name=f"c{number}")
        process.control.run_commands()
    here.ask(TopicVerb.RELEASE, "t", name="c9")
    clock: Any = here.connect().clock
    clock.sleep(1000)
    journal = ControlJournal(here.settings, here.connect())
    journal.read()
    journal.forget_old()
    assert [one.command.id for one in here.journal.read().outcomes] == ["c2", "c3", "c4", "c9"]


def test_heartbeats_are_paused_by_their_own_name_only(here: Scene) -> None:
    here.ask(TopicVerb.PAUSE, ".*")
    process = here.process(heartbeats=lambda topic: topic == TOPIC)
    assert process.planned == set(PARTS)
    here.ask(TopicVerb.PAUSE, "t", name="c2")
    process.control.run_commands()
    process.control.poll_withheld()
    assert process.planned == set()
    assert len(process.status.paused) == 0


def test_a_level_of_the_log_is_taken_over_once_and_ends_with_its_process(
    here: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = VirtualClock()
    levels = FlowLevels(clock)
    monkeypatch.setattr(module, "FLOW_LEVELS", levels)

    def ask(name: str, level: FlowLogLevel) -> None:
        here.journal.write_level(LevelRequest(name, level, 60.0, by="me on host-1"))

    ask("of an earlier process", FlowLogLevel.DEBUG)
    process = here.process()
    process.control.run_commands()
    assert (process.control.log_level, levels.lowest) == (None, logging.CRITICAL + 1)
    ask("l1", FlowLogLevel.DEBUG)
    process.control.run_commands()
    taken = process.control.log_level
    assert taken is not None
    assert (taken.request, taken.level, levels.lowest) == ("l1", "debug", logging.DEBUG)
    assert process.leases._log_level == logging.DEBUG
    clock.now += 61.0
    process.control.run_commands()
    assert levels.lowest == logging.CRITICAL + 1, "the request counts once"
    ask("l2", FlowLogLevel.ERROR)
    process.control.run_commands()
    assert levels.lowest == logging.ERROR
    ask("l3", FlowLogLevel.DEFAULT)
    process.control.run_commands()
    assert process.control.log_level is not None
    assert (process.control.log_level.request, process.control.log_level.level) == ("l3", "default")
    assert levels.lowest == logging.CRITICAL + 1
