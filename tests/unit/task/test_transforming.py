"""Copiers whose flow changes records: crashes, transactions, routes and failures, in virtual time."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from harness.virtual.faults import Fault
from harness.virtual.requests import CREATE_TOPICS, END_TXN, PRODUCE
from tests import transforms
from tests.unit.task.copied import REMOTE, TOPIC, World, part, world
from twinlog.errors import EngineLostError, RefusedError, TransformError
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.protocol.partitioner import partition_for
from twinlog.settings.transform import TransformSettings
from twinlog.task import copier as copier_module
from twinlog.task import routes

NUMBERS = range(1, 41)
VALUES = [b"%d" % number for number in NUMBERS]
ODD = [b"%d" % number for number in NUMBERS if number % 2]
EVEN = [b"%d" % number for number in NUMBERS if number % 2 == 0]


def by(function: str, **how: Any) -> TransformSettings:
    return TransformSettings(f"tests.transforms:{function}", **how)


class Lost:
    """Stands for SQL whose JVM is killed when it is called for the so manieth time, and which another one follows."""

    def __init__(self, lost_at: int = 0) -> None:
        self.ready = True
        self.lost_at = lost_at
        self.calls = 0

    @property
    def trouble(self) -> str | None:
        return None if self.ready else "Spark's JVM for transform.sql was killed by SIGKILL; another one is started"

    def __call__(self, rows: Any) -> Any:
        self.calls += 1
        if self.calls == self.lost_at:
            self.ready = False
        if not self.ready:
            raise EngineLostError(str(self.trouble))
        return transforms.odd(rows)

    def close(self) -> None:
        self.ready = False


@pytest.mark.parametrize("mode", ["disabled", "enabled"])
def test_a_lost_jvm_is_waited_for_and_skips_no_record(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sql = Lost(3)
    monkeypatch.setattr("twinlog.transform.copying.sql_transform", lambda _: sql)
    settings = TransformSettings(sql="SELECT value FROM records", tolerance="all", dead_letter_topic="dead")
    with world(transform=settings, exactly_once=mode) as here:
        copier = here.begin()
        for at in range(0, 40, 4):
            here.feed(VALUES[at : at + 4])
            here.pass_by(0.5)
        held = copier.partitions[part()]
        assert held.trouble == (
            "transform: Spark's JVM for transform.sql was killed by SIGKILL; another one is started"
        )
        assert len(here.copied(committed=mode == "enabled")) < len(ODD)
        asked = sql.calls
        here.pass_by(30)
        assert sql.calls == asked
        sql.ready = True
        here.until(lambda: here.copied(committed=mode == "enabled") == ODD and at_end(here))
        assert held.trouble is None
        assert here.failures == []
        assert [kind for kind, _ in here.events] == ["transform"]
        assert "no record is skipped for it" in here.events[0][1]
        assert not here.target.topics.count("dead")


def test_a_crash_while_the_jvm_is_lost_is_gone_on_from_once_there_is_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """What arrived behind the position is found by what the query makes of the source."""
    sql = Lost()
    monkeypatch.setattr("twinlog.transform.copying.sql_transform", lambda _: sql)
    with world(transform=TransformSettings(sql="SELECT value FROM records")) as here:
        here.feed(VALUES[:6])
        copier = here.begin()
        here.until(lambda: (found := here.stored()) is not None and found.next_source == 6)
        old = here.stored()
        here.feed(VALUES[6:12])
        here.until(lambda: here.copied() == ODD[:6])
        here.crash(copier)
        sql.ready = True
        again = here.open()
        sql.ready = False
        here.loop.start(again.grant, [here.grant(position=old)])
        here.pass_by(20)
        assert part() not in again.partitions
        assert part() in again.held_back
        sql.ready = True
        here.feed(VALUES[12:])
        here.until(lambda: here.copied() == ODD)
        here.pass_by(10)
        assert here.copied() == ODD
        assert here.failures == []


def at_end(here: World) -> bool:
    return at(here) == len(VALUES)


def seen(here: World, topic: str, number: int = 0) -> list[bytes | None]:
    committed = here.settings.exactly_once == "enabled"
    return here.target.log(topic, number).values(committed=committed)


def at(here: World, number: int = 0) -> int:
    """The next source offset by the stored position."""
    found = here.stored(number)
    return -1 if found is None else found.next_source


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
        here.run(copier.release, [part()])
        position = here.stored()
        assert position is not None
        again = here.begin(here.grant(position=position, drained=True))
        here.pass_by(5)
        assert again.partitions[part()].read.offset == len(VALUES)
        assert here.copied() == []


@pytest.mark.parametrize("function", ["odd", "twice", "shouting", "identity"])
def test_after_a_crash_what_arrived_is_found_though_offsets_are_others(function: str, chance: random.Random) -> None:
    """The position that is granted is one of before: everything since is behind it on the target."""
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


@pytest.mark.parametrize("mode", ["disabled", "enabled"])
def test_routed_records_go_to_a_topic_that_is_made_like_the_remote_one(mode: str) -> None:
    with world(transform=by("sorting"), exactly_once=mode, partitions=2) as here:
        here.target.topics.configs[REMOTE]["retention.ms"] = "77"
        here.feed(VALUES)
        here.feed(VALUES[:10], number=1)
        here.begin(here.grant(0), here.grant(1))
        here.until(lambda: here.target.topics.count("even") == 2 and seen(here, "even") == EVEN)
        here.until(lambda: seen(here, "even", 1) == EVEN[:5])
        here.until(lambda: seen(here, REMOTE) == ODD and seen(here, REMOTE, 1) == ODD[:5])
        here.until(lambda: at(here) == len(VALUES))
        here.pass_by(10)
        assert seen(here, "even") == EVEN
        assert here.target.topics.configs["even"]["retention.ms"] == "77"
        (created,) = [text for kind, text in here.events if kind == "routed"]
        assert created == "topic even was created with 2 partitions: the transform routes records to it"
        assert here.failures == []


@pytest.mark.parametrize("mode", ["disabled", "enabled"])
def test_several_partitions_are_routed_into_others_by_their_keys(mode: str) -> None:
    """Each remote partition gets records of all source partitions, through one queue in transactions."""
    with world(transform=by("rekeyed"), exactly_once=mode, partitions=3) as here:
        for number in range(3):
            here.feed([b"%d" % (100 * number + n) for n in range(40)], number=number)
        here.begin(*map(here.grant, range(3)))
        expected: dict[int, set[bytes]] = {0: set(), 1: set(), 2: set()}
        for value in (b"%d" % (100 * number + n) for number in range(3) for n in range(40)):
            expected[partition_for(value, 3)].add(value)
        here.until(lambda: all(set(seen(here, REMOTE, n)) == expected[n] for n in range(3)), 120)
        here.until(lambda: all((found := here.stored(n)) is not None and found.next_source == 40 for n in range(3)))
        here.pass_by(30)
        for number in range(3):
            found = seen(here, REMOTE, number)
            assert len(found) == len(expected[number])
            for source in range(3):
                mine = [int(value or b"") for value in found if int(value or b"") // 100 == source]
                assert mine == sorted(mine)
        assert here.failures == []
        assert [event for event in here.events if event[0] in {"foreign", "transaction"}] == []


FAULTS = [
    pytest.param(PRODUCE, Fault(lost=True), id="before it arrived"),
    pytest.param(PRODUCE, Fault(lost=True, done=True), id="after it was appended"),
    pytest.param(PRODUCE, Fault(code=Code.NOT_LEADER_OR_FOLLOWER), id="no leader"),
    pytest.param(PRODUCE, Fault(code=Code.OUT_OF_ORDER_SEQUENCE_NUMBER), id="the broker lost track"),
    pytest.param(PRODUCE, Fault(code=Code.MESSAGE_TOO_LARGE), id="too large"),
    pytest.param(CREATE_TOPICS, Fault(code=Code.REQUEST_TIMED_OUT), id="not created in time"),
]


@pytest.mark.parametrize("mode", ["disabled", "enabled"])
@pytest.mark.parametrize(("key", "fault"), FAULTS)
def test_trouble_of_a_routed_topic_costs_no_record(key: int, fault: Fault, mode: str) -> None:
    with world(transform=by("sorting"), exactly_once=mode) as here:
        here.target.fault(key, fault, times=2, topic="even")
        here.begin()
        here.feed(VALUES)
        here.until(lambda: here.target.topics.count("even") == 1 and set(seen(here, "even")) == set(EVEN), 900)
        here.until(lambda: seen(here, REMOTE) == ODD, 900)
        here.until(lambda: at(here) == len(VALUES), 900)
        here.pass_by(60)
        assert here.target.faults_left == 0
        assert seen(here, REMOTE) == ODD
        assert seen(here, "even") == EVEN
        assert here.failures == []


def test_a_transaction_that_is_aborted_takes_its_routed_records_with_it() -> None:
    with world(transform=by("sorting"), exactly_once="enabled") as here:
        copier = here.begin()
        here.feed(VALUES[:6])
        here.until(lambda: seen(here, REMOTE) == ODD[:3] and seen(here, "even") == EVEN[:3])
        here.target.fault(END_TXN, Fault(lost=True), times=1000)
        here.feed(VALUES[6:])
        here.until(lambda: len(here.target.log("even").values()) > 3)
        here.crash(copier)
        for rule in here.target.faults._rules:
            rule.times = 0
        here.begin(here.grant(position=here.stored()))
        here.until(lambda: seen(here, REMOTE) == ODD and seen(here, "even") == EVEN)
        here.pass_by(30)
        assert (seen(here, REMOTE), seen(here, "even")) == (ODD, EVEN)
        assert here.failures == []


def test_a_position_never_counts_what_was_routed_and_did_not_arrive() -> None:
    with world(transform=by("sorting")) as here:
        here.target.create("even")
        here.target.fault(PRODUCE, Fault(code=Code.NOT_LEADER_OR_FOLLOWER), times=10_000, topic="even")
        copier = here.begin()
        here.feed(VALUES)
        here.pass_by(20)
        assert here.copied() == []
        position = here.stored()
        assert position is not None
        assert position.next_source == 0
        here.crash(copier)
        for rule in here.target.faults._rules:
            rule.times = 0
        here.begin(here.grant(position=position))
        here.until(lambda: here.copied() == ODD and seen(here, "even") == EVEN)
        assert here.failures == []


def test_a_position_does_not_pass_what_is_on_its_way_when_all_of_the_next_fetch_was_routed() -> None:
    with world(transform=by("sorting")) as here:
        here.target.create("even")
        copier = here.begin()
        here.pass_by(1)
        here.target.fault(PRODUCE, Fault(code=Code.NOT_LEADER_OR_FOLLOWER), times=10_000, topic=REMOTE)
        here.write(b"1", b"3")
        here.until(lambda: copier.partitions[part()].read.offset == 2)
        here.write(b"2", b"4")
        here.until(lambda: seen(here, "even") == [b"2", b"4"])
        here.pass_by(5)
        assert copier.partitions[part()].acknowledged.next_source == 0
        assert at(here) == 0
        here.crash(copier)
        for rule in here.target.faults._rules:
            rule.times = 0
        here.begin(here.grant(position=here.stored()))
        here.until(lambda: here.copied() == [b"1", b"3"])
        assert here.failures == []


@pytest.mark.parametrize("mode", ["disabled", "enabled"])
@pytest.mark.parametrize("refused", [REMOTE, "even"])
def test_a_record_that_is_skipped_as_too_large_holds_up_nothing_of_its_fetch(refused: str, mode: str) -> None:
    with world(transform=by("sorting"), exactly_once=mode, oversized_record_policy="skip") as here:
        here.target.create("even")
        here.begin()
        here.pass_by(1)
        here.target.faults.add_codes(PRODUCE, refused, 0, [Code.MESSAGE_TOO_LARGE])
        here.write(b"1", b"2")
        here.until(lambda: at(here) == 2, 5)
        here.write(b"3", b"4")
        here.until(lambda: at(here) == 4, 5)
        assert seen(here, REMOTE) == ([b"3"] if refused == REMOTE else [b"1", b"3"])
        assert seen(here, "even") == ([b"4"] if refused == "even" else [b"2", b"4"])
        assert [kind for kind, _ in here.events] == ["oversized"]
        assert here.failures == []


@pytest.mark.parametrize("mode", ["disabled", "enabled"])
def test_a_release_waits_for_what_is_routed(mode: str) -> None:
    with world(transform=by("sorting"), exactly_once=mode) as here:
        here.target.create("even")
        here.target.fault(PRODUCE, Fault(delay_s=0.5), times=1, topic="even")
        copier = here.begin()
        here.feed(VALUES)
        here.until(lambda: copier.partitions[part()].read.offset > 0)
        (position,) = here.run(copier.release, [part()]).values()
        assert copier.undrained == set()
        here.begin(here.grant(position=position, drained=True))
        here.until(lambda: seen(here, REMOTE) == ODD and seen(here, "even") == EVEN)
        here.pass_by(10)
        assert (seen(here, REMOTE), seen(here, "even")) == (ODD, EVEN)


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
        here.run(copier.release, [part()])
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


def test_a_dead_letter_topic_that_is_deleted_is_made_again_as_one() -> None:
    with world(transform=by("no_sevens", tolerance="all", dead_letter_topic="dead"), partitions=3) as here:
        here.begin()
        here.write(b"7")
        here.until(lambda: at(here) == 1)
        here.target.topics.delete("dead")
        here.write(b"14")
        here.until(lambda: at(here) == 2)
        assert here.target.topics.count("dead") == 1
        assert seen(here, "dead") == [b"14"]


def test_what_began_with_a_record_in_part_does_not_give_way() -> None:
    """Read again, it would be there in part twice."""
    one_by_one = {"merge_batch_bytes": 16_384, "max_in_flight": 1}
    with world(transform=by("thirds"), producer=one_by_one) as here:
        copier = here.begin()
        here.pass_by(1)
        here.target.fault(PRODUCE, Fault(delay_s=0.3), times=1000, topic=REMOTE)
        here.write(b"1", b"2")
        for _ in range(30):
            copier.partitions[part()].give_way(here.clock.now)
            here.pass_by(0.1)
        here.until(lambda: at(here) == 2)
        here.pass_by(5)
        assert heads(here) == THIRDS


def test_what_was_routed_is_not_routed_again_where_the_rest_of_its_fetch_gives_way() -> None:
    with world(transform=by("sorting"), producer={"max_in_flight": 1}) as here:
        here.target.create("even")
        copier = here.begin()
        here.pass_by(1)
        here.target.fault(PRODUCE, Fault(code=Code.NOT_LEADER_OR_FOLLOWER), times=10_000, topic=REMOTE)
        here.write(b"1", b"2")
        here.until(lambda: seen(here, "even") == [b"2"])
        here.write(b"3", b"4")
        here.until(lambda: seen(here, "even") == [b"2", b"4"])
        for _ in range(10):
            copier.partitions[part()].give_way(here.clock.now)
            here.pass_by(0.5)
        for rule in here.target.faults._rules:
            rule.times = 0
        here.until(lambda: here.copied() == [b"1", b"3"] and at(here) == 4)
        assert seen(here, "even") == [b"2", b"4"]


def test_a_record_that_became_several_batches_is_in_one_transaction() -> None:
    """It takes longer than a transaction as a rule."""
    with world(transform=by("thirds"), exactly_once="enabled", producer={"merge_batch_bytes": 16_384}) as here:
        copier = here.begin()
        here.pass_by(1)
        here.target.fault(PRODUCE, Fault(delay_s=0.3), times=1000, topic=REMOTE)
        here.write(b"1")
        here.until(lambda: bool(heads(here)))
        here.crash(copier)
        here.begin(here.grant(position=here.stored()))
        here.until(lambda: at(here) == 1)
        here.pass_by(5)
        assert heads(here) == THIRDS[:3]


def test_a_record_that_becomes_several_batches_as_the_limit_is_lowered_is_in_one_transaction() -> None:
    with world(transform=by("thirds"), exactly_once="enabled") as here:
        copier = here.begin()
        here.pass_by(1)
        here.target.fault(PRODUCE, Fault(code=Code.MESSAGE_TOO_LARGE), topic=REMOTE)
        here.target.fault(PRODUCE, Fault(delay_s=0.3), times=1000, topic=REMOTE)
        here.write(b"1")
        here.until(lambda: bool(heads(here)))
        here.crash(copier)
        here.begin(here.grant(position=here.stored()))
        here.until(lambda: at(here) == 1)
        here.pass_by(5)
        assert heads(here) == THIRDS[:3]
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
def test_a_failure_stops_the_flow_and_names_the_record(mode: str) -> None:
    with world(transform=by("no_sevens"), exactly_once=mode) as here:
        here.begin()
        here.feed(VALUES)
        here.until(lambda: bool(here.failures))
        ((where, error),) = here.failures
        assert where == part()
        assert isinstance(error, TransformError)
        assert "fails on the record at offset 6 of shop-0: it raises ValueError: no 7; correct it, or" in str(error)
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
        assert copier.tally.figures(0, 0).failed == 6
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


@pytest.mark.parametrize("mode", ["disabled", "enabled"])
def test_records_wait_for_a_partition_that_their_topic_gets(mode: str) -> None:
    """As when somebody adds partitions to a source topic, and then to the one that its records are routed to."""
    with world(transform=by("away"), exactly_once=mode, partitions=2) as here:
        here.target.create("everything", 1)
        here.begin(here.grant(0), here.grant(1))
        here.feed(VALUES, number=1)
        here.feed(VALUES, number=0)
        here.until(lambda: seen(here, "everything") == VALUES)
        here.pass_by(30)
        (told,) = [text for kind, text in here.events if kind == "routed"]
        assert "it routes the record at offset 0 of shop-1 to partition 1 of everything, which has 1" in told
        assert here.failures == []
        here.target.topics.grow("everything", 2)
        here.until(lambda: seen(here, "everything", 1) == VALUES)
        here.until(lambda: at(here, 1) == len(VALUES))
        assert len([text for kind, text in here.events if kind == "routed"]) == 1


def test_routed_records_that_do_not_arrive_in_time_stop_the_flow() -> None:
    with world(transform=by("away"), producer={"delivery_timeout_ms": 30_000}) as here:
        here.target.create("everything", 1)
        here.begin()
        here.pass_by(1)
        here.target.fault(PRODUCE, Fault(code=Code.NOT_LEADER_OR_FOLLOWER), times=100_000, topic="everything")
        here.feed(VALUES)
        assert 29 < here.until(lambda: bool(here.failures)) < 35
        assert "within delivery.timeout.ms = 30000 (" in str(here.failures[0][1])


def test_a_topic_that_cannot_be_made_stops_the_flow_and_says_why() -> None:
    with world(transform=by("sorting")) as here:
        here.target.topics.refusals["even"] = (Code.POLICY_VIOLATION, "no such names here")
        here.begin()
        here.feed(VALUES)
        here.until(lambda: bool(here.failures))
        assert "cluster south does not create topic even: no such names here" in str(here.failures[0][1])
    with world(transform=by("sorting")) as here:
        here.target.topics.refusals["even"] = (29, "")
        here.begin()
        here.feed(VALUES)
        here.until(lambda: bool(here.failures))
        assert isinstance(here.failures[0][1], RefusedError)
        assert "CREATE" in str(here.failures[0][1])


def test_a_module_that_is_not_there_in_the_task_is_an_error_that_says_so() -> None:
    with world(transform=TransformSettings("not_shipped.anywhere:f")) as here, pytest.raises(TransformError) as raised:
        here.begin()
    assert str(raised.value) == (
        "north->south.transform cannot be used in this task: there is no module 'not_shipped'; install its package, or "
        "set PYTHONPATH, where the flow is run and on each of Spark's executors"
    )


@pytest.mark.drawn
@pytest.mark.parametrize("mode", ["disabled", "enabled"])
@pytest.mark.parametrize("function", ["odd", "twice", "sorting", "rekeyed", "away"])
def test_crashes_at_any_moment_lose_nothing(function: str, mode: str, chance: random.Random) -> None:
    """Exactly once nothing is there twice, either; without it nothing is that was not routed."""
    with world(chance.randrange(2**31), transform=by(function), exactly_once=mode, partitions=2, brokers=2) as here:
        if function == "away":
            here.target.create("everything", 2)
        if function == "sorting":
            here.target.create("even", 2)
        for _ in range(6):
            for number in range(2):
                here.feed([b"%d" % chance.randrange(1, 10_000) for _ in range(chance.randrange(12))], number=number)
            key = chance.choice([PRODUCE, PRODUCE, END_TXN])
            here.target.fault(key, chance.choice([Fault(lost=True), Fault(lost=True, done=True), Fault(delay_s=0.4)]))
            copier = here.begin(*(here.grant(number, here.stored(number)) for number in range(2)))
            here.pass_by(chance.random() * 2)
            here.crash(copier)
            here.pass_by(chance.choice([0.0, 8.0]))
        for rule in here.target.faults._rules:
            rule.times = 0
        here.begin(*(here.grant(number, here.stored(number)) for number in range(2)))
        ends = [len(here.source.log(TOPIC, number).values()) for number in range(2)]

        def done(number: int) -> bool:
            found = here.stored(number)
            return found is not None and found.next_source == ends[number]

        here.until(lambda: done(0) and done(1), 600)
        assert here.failures == []
        written = Counter(value for number in range(2) for value in here.source.log(TOPIC, number).values())
        places = {"sorting": "even", "away": "everything"}
        there = Counter(value for number in range(2) for value in seen(here, REMOTE, number))
        elsewhere = Counter(
            value
            for number in range(2)
            for value in (seen(here, places[function], number) if function in places else [])
        )
        expected = {
            "odd": Counter({value: n for value, n in written.items() if int(value or b"0") % 2}),
            "twice": Counter(
                {value: n for value, n in written.items() if int(value or b"0") % 4}
                | {
                    (value or b"") + b" again": n
                    for value, n in written.items()
                    if int(value or b"0") % 4 and int(value or b"0") % 3 == 0
                }
            ),
            "sorting": written,
            "rekeyed": written,
            "away": written,
        }[function]
        assert not expected - (there + elsewhere)
        if mode == "enabled" or function in {"odd", "twice"}:
            assert there + elsewhere == expected
        elif function == "sorting":
            assert there == Counter({value: n for value, n in written.items() if int(value or b"0") % 2})


@pytest.mark.drawn
@pytest.mark.parametrize("mode", ["disabled", "enabled"])
def test_partitions_come_and_go_while_others_route_records_to_them(mode: str, chance: random.Random) -> None:
    """In transactions the queue of a remote partition passes from who routes to it to who copies to it, and back."""
    with world(chance.randrange(2**31), transform=by("rekeyed"), exactly_once=mode, partitions=3) as here:
        copier = here.begin(here.grant(0))
        written: list[bytes] = []
        held: set[int] = set()
        for _ in range(12):
            for number in range(3):
                values = [b"%d" % (len(written) + n) for n in range(chance.randrange(9))]
                written += values
                here.feed(values, number=number)
            here.pass_by(chance.choice([0.0, 0.003, 0.05, 0.6]))
            number = chance.choice([1, 2])
            if number in held:
                here.run(copier.release, [part(number)])
                assert copier.undrained == set()
                held.discard(number)
            else:
                here.run(copier.grant, [here.grant(number, here.stored(number), drained=True)])
                held.add(number)
        missing = [here.grant(number, here.stored(number), drained=True) for number in {1, 2} - held]
        here.run(copier.grant, missing)
        ends = [len(here.source.log(TOPIC, number).values()) for number in range(3)]
        here.until(lambda: all(at(here, number) == ends[number] for number in range(3)), 300)
        here.pass_by(20)
        assert here.failures == []
        for number in range(3):
            mine = [value for value in written if partition_for(value, 3) == number]
            assert sorted(value or b"" for value in seen(here, REMOTE, number)) == sorted(mine)
        assert [event for event in here.events if event[0] == "transaction"] == []


@pytest.mark.parametrize(("mode", "year"), [("disabled", 365), ("enabled", 20)])
def test_topics_of_days_that_are_over_are_forgotten(mode: str, year: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As by TimestampRouter. A year of days, each of which is little more than a second long here."""
    monkeypatch.setattr(routes, "FORGET_S", 0.5)
    monkeypatch.setattr(copier_module, "LOOK_AT_ROUTES_S", 0.2)
    with world(transform=by("daily"), exactly_once=mode) as here:
        copier = here.begin()
        for day in range(year):
            here.write(b"%d" % day)
            here.pass_by(1.2)
            assert len(copier._routes.topics) <= 1
        assert not list(copier._routes.queues)
        assert not [topic for topic in copier.target._topics if topic.startswith("day-")]
        # One that comes again goes on where it was, with no record left out and none twice.
        for _ in range(3):
            here.write(b"7")
            here.pass_by(3)
        here.until(lambda: at(here) == year + 3)
        assert seen(here, "day-7") == [b"7"] * 4
        assert [seen(here, f"day-{day}") for day in range(8, year)] == [[b"%d" % day] for day in range(8, year)]
        assert here.failures == []


def test_all_that_wait_for_a_partition_fail_where_it_takes_nothing() -> None:
    """Not only the first of them, which may have been released."""
    with world(transform=by("gathering"), producer={"delivery_timeout_ms": 30_000}, partitions=2) as here:
        here.target.create("everything", 1)
        copier = here.begin(here.grant(0), here.grant(1))
        here.pass_by(1)
        here.target.fault(PRODUCE, Fault(code=Code.NOT_LEADER_OR_FOLLOWER), times=100_000, topic="everything")
        here.feed(VALUES, number=0)
        here.pass_by(1)
        here.feed(VALUES, number=1)
        here.pass_by(1)
        copier.partitions[part(0)]._appends._open.unit = None
        here.until(lambda: bool(here.failures))
        assert [where for where, _ in here.failures] == [part(1)]
