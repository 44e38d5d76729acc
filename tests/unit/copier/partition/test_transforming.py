"""Copiers whose flow changes records: what is copied, counted and told; in virtual time."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from harness.virtual.faults import Fault
from harness.virtual.requests import PRODUCE
from tests import transforms
from tests.unit.copier.changing import ODD, VALUES, at, by, seen
from tests.unit.copier.copied import REMOTE, World, part, world
from twinlog.errors import TransformError
from twinlog.kafka.protocol.error_codes import Code
from twinlog.settings.transform import TransformSettings


@pytest.mark.parametrize("mode", ["disabled", "enabled"])
def test_records_are_changed_and_dropped_records_are_passed_over(mode: str) -> None:
    with world(transform=by("odd"), exactly_once=mode) as here:
        here.feed(VALUES)
        here.begin()
        here.until(lambda: here.copied(committed=mode == "enabled") == ODD)
        # Nothing is appended for them, and yet they are not read again.
        here.feed([b"50", b"52", b"54"])
        here.until(lambda: at(here) == 43)
        assert here.failures == []


def test_nothing_is_read_again_where_all_is_dropped() -> None:
    with world(transform=by("nothing")) as here:
        here.feed(VALUES)
        copier = here.begin()
        here.until(lambda: at(here) == len(VALUES))
        here.run(copier.release_partitions, [part()])
        position = here.stored()
        assert position is not None
        again = here.begin(here.grant(position=position, drained=True))
        here.pass_by(5)
        assert again.partitions[part()].read.offset == len(VALUES)
        assert here.copied() == []


@pytest.mark.parametrize("function", ["odd", "twice", "shouting", "identity"])
def test_after_a_crash_what_arrived_is_found_though_offsets_are_others(function: str, chance: random.Random) -> None:
    """The position that is granted is one of before: everything since is after it on the target."""
    with world(transform=by(function)) as plain:
        plain.feed(VALUES)
        plain.begin()
        plain.pass_by(20)
        expected = plain.copied()
    assert expected
    with world(transform=by(function)) as here:
        early = chance.randrange(3, 36, 3)
        here.feed(VALUES[:early])
        copier = here.begin()
        here.until(lambda: (found := here.stored()) is not None and found.next_source == early)
        old = here.stored()
        here.feed(VALUES[early:])
        here.pass_by(20)
        assert here.copied() == expected
        here.crash(copier)
        here.begin(here.grant(position=old))
        here.feed(VALUES)
        here.until(lambda: here.copied() == expected * 2)
        here.pass_by(10)
        assert here.copied() == expected * 2
        assert [event for event in here.events if event[0] == "foreign"] == []
        assert here.failures == []


THIRDS = [b"%d.%d" % (number, third) for number in (1, 2) for third in range(3)]


def heads(here: World) -> list[bytes]:
    """The values of `thirds` without their zeros."""
    return [(value or b"").rstrip(b"\0") for value in seen(here, REMOTE)]


@pytest.mark.parametrize("mode", ["disabled", "enabled"])
def test_what_became_of_a_record_is_in_several_batches_and_is_not_there_twice_after_a_release(mode: str) -> None:
    one_by_one = {"merge_batch_bytes": 16_384, "max_in_flight": 1}
    with world(transform=by("thirds"), exactly_once=mode, producer=one_by_one) as here:
        copier = here.begin()
        here.pass_by(1)
        here.target.fault(PRODUCE, Fault(delay_s=0.3), times=1000, topic=REMOTE)
        here.write(b"1", b"2")
        here.until(lambda: len(here.target.log(REMOTE).values()) >= 2)
        here.run(copier.release_partitions, [part()])
        here.begin(here.grant(position=here.stored(), drained=not copier.undrained))
        here.until(lambda: at(here) == 2)
        here.pass_by(5)
        assert heads(here) == THIRDS
        assert here.failures == []


def test_what_another_transform_had_made_before_a_crash_is_named_as_a_reason_and_nothing_is_missing() -> None:
    with world(transform=by("identity")) as here:
        copier = here.begin()
        here.until(lambda: at(here) == 0)
        old = here.stored()
        here.feed(VALUES[:3])
        here.until(lambda: here.copied() == VALUES[:3])
        here.crash(copier)
        here.settings = replace(here.settings, transform=by("shouting"))
        here.begin(here.grant(position=old))
        here.until(lambda: at(here) == 3)
        assert here.copied() == [*VALUES[:3], b"1!", b"2!", b"3!"]
        (told,) = [text for kind, text in here.events if kind == "foreign"]
        assert "or the transform is another one now" in told


def test_of_what_began_with_a_record_in_part_nothing_is_freed() -> None:
    """Read again, it would be there in part twice."""
    one_by_one = {"merge_batch_bytes": 16_384, "max_in_flight": 1}
    with world(transform=by("thirds"), producer=one_by_one) as here:
        copier = here.begin()
        here.pass_by(1)
        here.target.fault(PRODUCE, Fault(delay_s=0.3), times=1000, topic=REMOTE)
        here.write(b"1", b"2")
        for _ in range(30):
            copier.partitions[part()].free_memory(here.clock.now)
            here.pass_by(0.1)
        here.until(lambda: at(here) == 2)
        here.pass_by(5)
        assert heads(here) == THIRDS


@pytest.mark.parametrize(
    ("producer", "refused"),
    [({"merge_batch_bytes": 16_384}, []), ({}, [Fault(code=Code.MESSAGE_TOO_LARGE)])],
    ids=["its batches are small", "the limit is lowered"],
)
def test_a_record_that_became_several_batches_is_in_one_transaction(
    producer: dict[str, int], refused: list[Fault]
) -> None:
    """It takes longer than a transaction as a rule."""
    with world(transform=by("thirds"), exactly_once="enabled", producer=producer) as here:
        copier = here.begin()
        here.pass_by(1)
        for fault in refused:
            here.target.fault(PRODUCE, fault, topic=REMOTE)
        here.target.fault(PRODUCE, Fault(delay_s=0.3), times=1000, topic=REMOTE)
        here.write(b"1")
        here.until(lambda: bool(heads(here)))
        here.crash(copier)
        here.begin(here.grant(position=here.stored()))
        here.until(lambda: at(here) == 1)
        here.pass_by(5)
        assert heads(here) == THIRDS[:3]
        assert here.failures == []


@pytest.mark.parametrize("mode", ["disabled", "enabled"])
def test_what_a_release_drops_is_not_passed_over_when_what_was_sent_is_split(mode: str) -> None:
    with world(transform=by("thirds"), exactly_once=mode, producer={"max_in_flight": 1}) as here:
        copier = here.begin()
        here.pass_by(1)
        here.target.fault(PRODUCE, Fault(code=Code.MESSAGE_TOO_LARGE, delay_s=0.5), topic=REMOTE)
        here.write(b"1")
        here.until(lambda: copier.partitions[part()].read.offset == 1)
        here.write(b"2")
        here.until(lambda: copier.partitions[part()].read.offset == 2)
        (position,) = here.run(copier.release_partitions, [part()]).values()
        assert position.next_source == (1 if mode == "disabled" else 0)
        here.begin(here.grant(position=position, drained=not copier.undrained))
        here.until(lambda: at(here) == 2)
        assert heads(here) == THIRDS
        assert here.failures == []


def test_a_slow_function_lets_others_have_their_turn_between_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    """The line to the driver breaks after seven seconds."""
    with world(transform=by("slow"), partitions=12) as here:

        def slow(batch: Any) -> Any:
            here.clock.now += 0.05 * batch.num_rows
            return batch

        monkeypatch.setattr(transforms, "slow", slow, raising=False)
        beats: list[float] = []

        async def beat() -> None:
            while True:
                beats.append(here.clock.now)
                await here.loop.sleep(0.1)

        for number in range(12):
            here.feed(VALUES, number=number)
        here.loop.start(beat)
        here.begin(*map(here.grant, range(12)))
        here.until(lambda: all(here.copied(number) == VALUES for number in range(12)))
        assert max(later - before for before, later in pairwise(beats)) < 5


@pytest.mark.parametrize("mode", ["disabled", "enabled"])
def test_a_failure_holds_the_partition_and_names_the_record(mode: str) -> None:
    with world(transform=by("no_sevens"), exactly_once=mode) as here:
        here.begin()
        here.feed(VALUES)
        here.until(lambda: bool(here.held))
        (held,) = here.held
        assert (held.source, held.reason) == (part(), "transform")
        assert "fails on the record at offset 6 of shop-0: it raises ValueError: no 7; correct it, or" in held.text
        assert here.failures == []
        here.pass_by(5)
        there = seen(here, REMOTE)
        assert there == VALUES[: len(there)]
        assert len(there) <= 6


@pytest.mark.parametrize("mode", ["disabled", "enabled"])
def test_failures_that_are_tolerated_are_counted_told_once_and_written_to_the_dead_letter_topic(mode: str) -> None:
    how = by("no_sevens", tolerance="all", dead_letter_topic="dead")
    with world(transform=how, exactly_once=mode) as here:
        copier = here.begin()
        here.feed(VALUES)
        good = [value for value in VALUES if int(value) % 7]
        here.until(lambda: seen(here, REMOTE) == good and here.target.topics.count("dead") == 1)
        here.until(lambda: seen(here, "dead") == [b"7", b"14", b"21", b"28", b"35"])
        here.feed([b"70"])
        here.until(lambda: seen(here, "dead")[-1:] == [b"70"])
        assert copier.tally.failed == 6
        (told,) = [text for kind, text in here.events if kind == "transform"]
        assert told.startswith("shop-0: the transform failed on the record at offset 6: it raises ValueError: no 7")
        assert here.failures == []


def test_each_failure_is_told_where_that_is_asked_for() -> None:
    with world(transform=by("no_sevens", tolerance="all", log_errors=True)) as here:
        here.begin()
        here.feed(VALUES)
        here.until(lambda: len(seen(here, REMOTE)) == sum(1 for value in VALUES if int(value) % 7))
        assert [text for kind, text in here.events if kind == "transform"] == [
            f"shop-0: the transform failed on the record at offset {n - 1}: it raises ValueError: no {n}"
            for n in (7, 14, 21, 28, 35)
        ]


def test_a_module_that_is_not_there_in_the_task_is_an_error_that_says_so() -> None:
    with world(transform=TransformSettings("not_shipped.anywhere:f")) as here, pytest.raises(TransformError) as raised:
        here.begin()
    assert str(raised.value) == (
        "north->south.transform is unusable in this task: the module 'not_shipped' is missing; install its package, "
        "or set PYTHONPATH, on the flow's machine and on each of Spark's executors"
    )
