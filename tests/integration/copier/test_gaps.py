"""Source records are gone before they were copied: their partition is held, or goes on as the file asks."""

from __future__ import annotations

import pytest

from harness.consume import consume
from harness.produce import NewRecord, numbered, produce
from harness.topics import create_topic, delete_records, delete_topic
from harness.wait import wait_for
from tests.integration.copying import SOURCE, CopyFlow, RunningCopier
from twinlog.mirror.offsets.positions import Position, encode_position
from twinlog.model.types import TopicName, TopicPartition

KEY = "north->south.twinlog.gap.policy"


def copied(flow: CopyFlow, topic: str) -> list[int]:
    """Numbers of the copied records."""
    return [int(record.value or b"") for record in consume(flow.target, flow.remote(topic))]


def require_held(running: RunningCopier, topic: str, *words: str) -> None:
    """Partition 0 of a topic is held, and the copier reports why and how to go on."""
    held = running.wait_for_held()
    assert (held.source, held.reason) == ((topic, 0), "gap")
    for word in words:
        assert word in held.text
    by_hand = f"to go on at offset {held.resume_at}, run twinlog topics accept-gap FILE {topic}-0 --flow north:south"
    by_policy = f"set {KEY}.{topic} = skip and run twinlog reload FILE"
    assert held.way_out == f"{by_hand}; to do so at later gaps, too, {by_policy}"
    assert (len(running.heard.held), running.heard.failures, running.events("gap")) == (1, [], [])


def require_going_on(running: RunningCopier, *words: str) -> None:
    """The flow goes on and logs what is missing, once."""
    event = running.wait_for_event("gap")
    for word in (*words, "the flow continues at offset"):
        assert word in event
    assert len(running.events("gap")) == 1
    assert running.heard.failures == []


def crash_after_80_copies(flow: CopyFlow, topic: str) -> None:
    """Copy 80 records of a new topic; the copier crashes with a stored position of 20."""
    flow.create(topic)
    produce(flow.source, topic, numbered(20))
    flow.copy(topic)
    running = flow.start(topic, position_interval_ms=600_000)
    produce(flow.source, topic, numbered(60, start=20))
    running.wait_for_position(topic, 80)
    running.crash()


# Retention overtook the flow.


def test_retention_overtook_a_stopped_flow(copy_flow: CopyFlow, topic_name: str) -> None:
    copy_flow.create(topic_name, 2)
    produce(copy_flow.source, topic_name, numbered(50))
    produce(copy_flow.source, topic_name, numbered(50), partition=1)
    copy_flow.copy(topic_name)
    produce(copy_flow.source, topic_name, numbered(40, start=50))
    delete_records(copy_flow.source, topic_name, 70)

    running = copy_flow.start(topic_name)
    require_held(running, topic_name, "50 to 69 (20 offsets)", "starts at 70")
    running.release()
    # Nothing else is harmed: its position stays, and the other partition keeps its own.
    for number in range(2):
        stored = copy_flow.stored(topic_name, number)
        assert stored is not None
        assert (stored.next_source, stored.next_target) == (50, 50)
    assert len(copied(copy_flow, topic_name)) == 100

    running = copy_flow.copy(topic_name, gap_policy="continue")
    require_going_on(running, f"{topic_name}-0", "50 to 69 (20 offsets)", "offset 70")
    assert copied(copy_flow, topic_name) == [*range(50), *range(70, 90), *range(50)]


def test_retention_overtakes_a_running_flow(copy_flow: CopyFlow, topic_name: str) -> None:
    remote = copy_flow.create(topic_name)
    large = numbered(40, size=500_000)
    running = copy_flow.start(topic_name, gap_policy="continue")
    # It may not append, so it does not read on either when it has enough.
    running.allowed.clear()
    produce(copy_flow.source, topic_name, large, per_batch=1)
    # A lag would not do: it is as of the last fetch, and a slow producer may have written little more by then.
    wait_for(lambda: running.queued_bytes(topic_name) > 11 * 500_000, 60, "the copier has read 11 records")
    delete_records(copy_flow.source, topic_name, 39)
    running.allowed.set()
    copy_flow.wait_until_caught_up(running, topic_name)
    event = running.wait_for_event("gap")
    first = int(event.split("source offsets ")[1].split(" ")[0])
    assert 10 < first < 38
    require_going_on(running, f"{first} to 38 ({39 - first} offset", "offset 39")
    found = [int((record.value or b"").rstrip(b".")) for record in consume(copy_flow.target, remote)]
    assert found == [*range(first), 39]


def test_what_arrived_before_a_crash_is_no_gap(copy_flow: CopyFlow, topic_name: str) -> None:
    """Retention overtook the stored position, but not what the remote log holds after it."""
    crash_after_80_copies(copy_flow, topic_name)
    stored = copy_flow.stored(topic_name)
    assert stored is not None
    assert stored.next_source == 20
    produce(copy_flow.source, topic_name, numbered(20, start=80))
    delete_records(copy_flow.source, topic_name, 50)

    running = copy_flow.copy(topic_name, gap_policy="continue")
    assert copied(copy_flow, topic_name) == list(range(100))
    assert running.events("gap") == []


def test_a_gap_after_records_from_before_a_crash_is_reported_exactly(copy_flow: CopyFlow, topic_name: str) -> None:
    crash_after_80_copies(copy_flow, topic_name)
    produce(copy_flow.source, topic_name, numbered(20, start=80))
    delete_records(copy_flow.source, topic_name, 90)

    running = copy_flow.copy(topic_name, gap_policy="continue")
    assert copied(copy_flow, topic_name) == [*range(80), *range(90, 100)]
    (event,) = running.events("gap")
    assert "80 to 89 (10 offsets)" in event
    assert "offset 90" in event


# The topic was deleted and created again.


@pytest.mark.parametrize("new", [3, 50, 80])
def test_a_topic_was_recreated_while_the_flow_was_stopped(copy_flow: CopyFlow, topic_name: str, new: int) -> None:
    """However much the new topic holds: its offsets mean something else."""
    copy_flow.create(topic_name)
    produce(copy_flow.source, topic_name, numbered(50))
    copy_flow.copy(topic_name)
    delete_topic(copy_flow.source, topic_name)
    create_topic(copy_flow.source, topic_name)
    produce(copy_flow.source, topic_name, numbered(new, start=1000))

    running = copy_flow.start(topic_name)
    require_held(running, topic_name, "deleted and created again", "reached offset 50")
    running.release()
    assert copied(copy_flow, topic_name) == list(range(50))

    running = copy_flow.copy(topic_name, gap_policy="continue")
    require_going_on(running, "deleted and created again", "offset 0")
    assert copied(copy_flow, topic_name) == [*range(50), *range(1000, 1000 + new)]
    assert copy_flow.copy(topic_name).heard.events == []


@pytest.mark.parametrize("new", [3, 80])
def test_a_topic_is_recreated_while_the_flow_runs(copy_flow: CopyFlow, topic_name: str, new: int) -> None:
    copy_flow.create(topic_name)
    produce(copy_flow.source, topic_name, numbered(50))
    running = copy_flow.start(topic_name, gap_policy="continue")
    running.wait_for_position(topic_name, 50)
    delete_topic(copy_flow.source, topic_name)
    create_topic(copy_flow.source, topic_name)
    produce(copy_flow.source, topic_name, numbered(new, start=1000))

    require_going_on(running, "deleted and created again", "offset 0")
    wait_for(lambda: running.position(topic_name).next_source == new, 60, "the new topic is copied")
    running.release()
    assert copied(copy_flow, topic_name) == [*range(50), *range(1000, 1000 + new)]
    assert copy_flow.copy(topic_name).heard.events == []


def test_a_flow_stops_on_a_topic_that_is_recreated_while_it_runs(copy_flow: CopyFlow, topic_name: str) -> None:
    copy_flow.create(topic_name)
    other = copy_flow.create(f"{topic_name}-other").removeprefix("north.")
    produce(copy_flow.source, topic_name, numbered(50))
    running = copy_flow.start(topic_name, other)
    running.wait_for_position(topic_name, 50)
    delete_topic(copy_flow.source, topic_name)
    create_topic(copy_flow.source, topic_name)
    produce(copy_flow.source, topic_name, numbered(3, start=1000))

    require_held(running, topic_name, "deleted and created again", "reached offset 50")
    # All else that this copier has is copied.
    produce(copy_flow.source, other, numbered(5))
    wait_for(lambda: running.position(other).next_source == 5, 60, "the other topic is copied")
    running.release()
    assert copied(copy_flow, topic_name) == list(range(50))
    stored = copy_flow.stored(topic_name)
    assert stored is not None
    assert stored.next_source == 50


# What is no gap.


@pytest.mark.parametrize("epoch", [-1, 0, 1000])
def test_a_position_with_an_epoch_that_the_source_does_not_know_is_followed(
    copy_flow: CopyFlow, topic_name: str, epoch: int
) -> None:
    """Whatever epoch was stored, a log that has the offset is read on from there, without asking for ever."""
    copy_flow.create(topic_name)
    produce(copy_flow.source, topic_name, numbered(10))
    position = Position(5, 0, epoch)
    record = encode_position(SOURCE, TopicPartition(TopicName(topic_name), 0), position)
    stored = NewRecord(record.value, record.key, record.headers)
    produce(copy_flow.target, copy_flow.positions_topic, [stored])

    running = copy_flow.copy(topic_name)
    assert copied(copy_flow, topic_name) == list(range(5, 10))
    assert running.heard.events == []
