"""Commands for topics despite trouble: processes that die at any step, silent targets and missing rights."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from harness.virtual.faults import Fault
from harness.virtual.requests import PRODUCE
from tests.unit.worker.control.controlling import EARLIEST, LATEST, PARTS, REMOTE, TOPIC, Scene, scene
from twinlog.errors import ClusterError, RefusedError
from twinlog.kafka.producer.topic_writer import TopicWriter
from twinlog.kafka.protocol.error_codes import Code
from twinlog.mirror.offsets.segments import SegmentWriter, segments_topic
from twinlog.model.types import SourceOffset
from twinlog.worker.control.journal import ControlJournal
from twinlog.worker.control.model import (
    CommandState,
    LogPlace,
    LogPlaceKind,
    TopicVerb,
)


@pytest.fixture
def here() -> Iterator[Scene]:
    with scene() as found:
        yield found


def test_what_had_arrived_when_a_copier_was_lost_counts_as_copied(here: Scene) -> None:
    process = here.process()
    here.write(0, 5)
    here.copy(0, 3)
    here.ask(TopicVerb.SKIP_TO, "t", place=LogPlace(LogPlaceKind.OFFSET, 12), partitions=(0,))
    process.control.run_commands()
    assert here.outcome().result is CommandState.REFUSED
    assert here.outcome().reason == "t-0: it is at offset 13, after 12: restart-from copies again"
    assert (here.last().next_source, here.last().next_target) == (13, 13)
    process.maps.read()
    map_ = process.maps.maps.map(PARTS[0])
    assert map_ is not None
    assert map_.to_target(SourceOffset(12)) == (12, True)
    here.ask(TopicVerb.SKIP_TO, "t", place=LATEST, partitions=(0,), name="c2")
    process.control.run_commands()
    assert [(move.before, move.after, move.passed) for move in here.outcome("c2").moves or ()] == [(13, 15, 2)]


class DiedError(Exception):
    """A process has died."""


@pytest.fixture
def crash_at(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, bool], Callable[[], int]]:
    """Ends a process at its append of a number, before the target has it or after that."""
    append = TopicWriter.append
    count = 0

    def begin(number: int, after: bool) -> Callable[[], int]:
        nonlocal count
        count = 0

        async def crashing(self: TopicWriter, *args: Any, **more: Any) -> None:
            nonlocal count
            count += 1
            if count == number and not after:
                raise DiedError
            await append(self, *args, **more)
            if count == number:
                raise DiedError

        monkeypatch.setattr(TopicWriter, "append", crashing)
        return lambda: count

    return begin


@pytest.mark.parametrize("after", [False, True])
def test_a_process_that_dies_at_any_step_leaves_the_rest_to_the_next(
    here: Scene, crash_at: Callable[[int, bool], Callable[[], int]], after: bool
) -> None:
    """It writes that it begins, what it decides, the positions, and that it has ended."""
    for number in range(1, 10):
        name, end = f"{after}-{number}", 10 + 3 * number
        here.copy(0, 3)
        here.store({PARTS[0]: here.position(PARTS[0], 10, end)})
        stored = len(here.stored())
        here.ask(TopicVerb.RESTART_FROM, "t", place=EARLIEST, partitions=(0,), name=name)
        first = here.process()
        count = crash_at(number, after)
        try:
            first.control.run_commands()
        except DiedError:
            pass
        else:
            break
        assert count() == number
        crash_at(0, False)
        # It was decided before anything was done: the next one decides nothing anew.
        decided = here.outcome(name).moves
        here.process().control.run_commands()
        done = here.outcome(name)
        assert done.result is CommandState.APPLIED
        assert decided in (None, done.moves)
        assert [(one.before, one.after) for one in done.changed] == [(10, 0)]
        assert (here.last().next_source, here.last().next_target) == (0, end)
        assert len(here.stored()) == stored + 1
        # From now on it is copied, and nothing moves it any more.
        here.store({PARTS[0]: here.position(PARTS[0], 5, end)})
        here.process().control.run_commands()
        assert here.last().next_source == 5
    assert number == 5


def test_a_position_that_another_program_stored_since_stays(
    here: Scene, crash_at: Callable[[int, bool], Callable[[], int]]
) -> None:
    here.ask(TopicVerb.RESTART_FROM, "t", place=EARLIEST, partitions=(0, 1))
    process = here.process()
    crash_at(2, True)
    with pytest.raises(DiedError):
        process.control.run_commands()
    crash_at(0, False)
    here.store({PARTS[0]: here.position(PARTS[0], 12)})
    here.process().control.run_commands()
    assert [here.last(part).next_source for part in PARTS] == [12, 0, 10]
    found = here.outcome()
    assert found.result is CommandState.APPLIED
    assert found.reason == "t-0: TW-COMMAND-08: another program stored offset 12 meanwhile, and it stays there"


def test_a_recreated_topic_is_copied_from_its_first_record_even_at_the_offset_where_the_old_one_stood(
    here: Scene, crash_at: Callable[[int, bool], Callable[[], int]]
) -> None:
    here.store({PARTS[0]: here.position(PARTS[0], 0)})
    here.source.topics.delete(TOPIC)
    here.source.create(TOPIC, 3)
    here.ask(TopicVerb.ACCEPT_GAP, "t", partitions=(0,))
    process = here.process()
    crash_at(2, True)
    with pytest.raises(DiedError):
        process.control.run_commands()
    crash_at(0, False)
    here.process().control.run_commands()
    assert here.outcome().result is CommandState.APPLIED
    assert "was deleted and created again" in here.outcome().changed[0].text
    assert (here.last().next_source, here.last().topic_id) == (0, str(here.source.topics.ids[TOPIC]))


def test_a_partition_without_a_leader_keeps_none_of_the_others(here: Scene) -> None:
    here.source.move(TOPIC, 0, None)
    here.target.move(REMOTE, 1, None)
    here.ask(TopicVerb.RESTART_FROM, "t", place=EARLIEST)
    here.process().control.run_commands()
    assert [here.last(part).next_source for part in PARTS] == [10, 10, 0]
    found = here.outcome()
    assert found.result is CommandState.APPLIED
    assert "west is silent about the end of east.t-1; ask again" in found.reason
    assert found.moves is not None
    assert found.moves[0].text == "the source is silent about its offsets now; ask again"


def test_the_map_of_a_lost_copier_is_closed_before_its_position_is_overwritten(here: Scene) -> None:
    """Its end is known by that position alone: groups that stand there would else be led back to the last point."""
    admin = here.connect()
    writer = SegmentWriter(PARTS[0], 0, 0, generation=256, complete=True)
    segments = writer.changed()
    topic = TopicWriter(admin.client, segments_topic(here.settings.source), 5.0, "testing")
    admin.call(topic.append, [(segment.key, segment.value) for segment in segments])
    here.store({PARTS[0]: replace(here.position(PARTS[0], 10), generation=256)})
    here.write(0, 10)
    here.ask(TopicVerb.SKIP_TO, "t", place=LATEST, partitions=(0,))
    process = here.process()
    process.control.run_commands()
    process.maps.read()
    known = process.maps.maps.map(PARTS[0])
    assert known is not None
    assert [known.to_target(offset) for offset in (0, 7, 10)] == [(0, True), (7, True), (10, True)]
    assert known.to_target(13) == (10, False)


def test_a_right_that_is_missing_is_named_and_holds_nothing_up(here: Scene) -> None:
    here.ask(TopicVerb.RESTART_FROM, "t", place=EARLIEST, partitions=(0,))
    process = here.process()
    assert process.planned == set(PARTS[1:])
    here.target.codes(PRODUCE, here.journal.topic, Code.TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(RefusedError, match=r"lacks WRITE on topic mm2-twinlog-control\.east\.internal"):
        process.control.run_commands()
    process.control.poll_withheld()
    assert process.planned == set(PARTS)
    assert here.outcome().result is CommandState.REQUESTED
    process.control.run_commands()
    assert here.outcome().result is CommandState.APPLIED


def test_a_position_that_may_not_be_written_refuses_the_command(here: Scene) -> None:
    here.ask(TopicVerb.RESTART_FROM, "t", place=EARLIEST, partitions=(0,))
    process = here.process()
    for number in range(here.settings.offset_storage_partitions):
        here.target.codes(PRODUCE, here.settings.positions_topic, Code.TOPIC_AUTHORIZATION_FAILED, partition=number)
    process.control.run_commands()
    process.control.poll_withheld()
    assert here.outcome().result is CommandState.REFUSED
    assert f"lacks WRITE on topic {here.settings.positions_topic}" in here.outcome().reason
    assert process.planned == set(PARTS)


def test_a_target_that_does_not_answer_is_asked_again_and_nothing_is_copied_meanwhile(here: Scene) -> None:
    here.ask(TopicVerb.RESTART_FROM, "t", place=EARLIEST, partitions=(0,))
    process = here.process()
    here.target.fault(PRODUCE, Fault(lost=True), topic=here.settings.positions_topic)
    with pytest.raises(ClusterError):
        process.control.run_commands()
    process.control.poll_withheld()
    assert process.planned == set(PARTS[1:])
    process.control.run_commands()
    process.control.poll_withheld()
    assert here.outcome().result is CommandState.APPLIED
    assert (process.planned, here.last().next_source) == (set(PARTS), 0)


def test_a_login_that_may_not_see_whether_anything_is_asked_copies_all_the_same(
    here: Scene, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refused(_journal: ControlJournal, _timeout_s: float | None = None) -> None:
        raise RefusedError("cluster west: User:x lacks READ on topic mm2-twinlog-control.east.internal, needed for it")

    with monkeypatch.context() as patched, caplog.at_level("INFO", "twinlog"):
        patched.setattr(ControlJournal, "read", refused)
        process = here.process()
        process.control.run_commands()
        process.control.run_commands()
    assert process.planned == set(PARTS)
    assert len([text for text in caplog.messages if "nothing can be asked of single topics" in text]) == 1
    # Something may be paused in a topic that is there.
    here.ask(TopicVerb.PAUSE, "t")
    with monkeypatch.context() as patched:
        patched.setattr(ControlJournal, "read", refused)
        with pytest.raises(RefusedError, match="lacks READ"):
            here.process()
