"""Records that a transform routes to other partitions, and trouble on their way; in virtual time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.virtual.faults import Fault
from harness.virtual.requests import CREATE_TOPICS, END_TXN, METADATA, PRODUCE
from tests.copier_reports import copy_partitions
from tests.unit.copier.changing import EVEN, ODD, VALUES, at, at_end, by, seen
from tests.unit.copier.copied import REMOTE, part, world
from twinlog.copier import copier as copier_module
from twinlog.copier.partition import routes
from twinlog.copier.transactions import transactions
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.protocol.produce import partition_for
from twinlog.settings.transform import FailedRecordSettings


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
        assert (
            created == "TW-TRANSFORM-03: topic even was created with 2 partitions: the transform routes records to it"
        )
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


def test_what_is_routed_to_a_partition_with_a_lower_limit_is_sent_in_smaller_batches() -> None:
    """No transaction is aborted for it: what is made of the same records again would be as large."""
    with world(transform=by("rekeyed"), exactly_once="enabled", partitions=2) as here:
        here.begin(here.grant(0), here.grant(1))
        here.pass_by(1)
        here.target.faults.add_codes(PRODUCE, REMOTE, 0, [Code.MESSAGE_TOO_LARGE] * 2)
        here.write(*VALUES, number=1)
        here.until(lambda: at(here, 1) == len(VALUES))
        for number in range(2):
            assert seen(here, REMOTE, number) == [value for value in VALUES if partition_for(value, 2) == number]
        assert here.target.faults_left == 0
        assert here.events == []
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
        (position,) = here.run(copier.release_partitions, [part()]).values()
        assert copier.undrained == set()
        here.begin(here.grant(position=position, drained=True))
        here.until(lambda: seen(here, REMOTE) == ODD and seen(here, "even") == EVEN)
        here.pass_by(10)
        assert (seen(here, REMOTE), seen(here, "even")) == (ODD, EVEN)


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
            copier.partitions[part()].free_memory(here.clock.now)
            here.pass_by(0.5)
        for rule in here.target.faults._rules:
            rule.times = 0
        here.until(lambda: here.copied() == [b"1", b"3"] and at(here) == 4)
        assert seen(here, "even") == [b"2", b"4"]


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


@pytest.mark.parametrize("mode", ["disabled", "enabled"])
def test_a_partition_that_freed_memory_often_backs_off_shortly_again_once_routed_records_arrived(
    mode: str,
) -> None:
    with world(transform=by("numbered"), exactly_once=mode) as here:
        here.target.create("everything", 1)
        held = here.begin().partitions[part()]

        def frees_memory() -> None:
            here.until(lambda: held.waits_since < here.clock.now)
            held.free_memory(here.clock.now)

        here.write(b"1")
        for _ in range(6):
            frees_memory()
        here.target.topics.grow("everything", 2)
        assert here.until(lambda: seen(here, "everything", 1) == [b"1"]) > 30
        here.write(b"2")
        frees_memory()
        here.target.topics.grow("everything", 3)
        assert here.until(lambda: seen(here, "everything", 2) == [b"2"]) < 10
        assert here.failures == []


@pytest.mark.parametrize("mode", ["disabled", "enabled"])
def test_a_record_that_failed_beside_one_for_a_partition_that_is_not_there_counts_once(mode: str) -> None:
    """The transform fails on it twice, as both are read again."""
    settings = by("numbered", tolerance="all", log_errors=True)
    with world(transform=settings, exactly_once=mode) as here:
        here.target.create("everything", 2)
        copier = here.begin()
        here.feed([b"no number", b"0", b"2"])
        here.until(lambda: at(here) == 3)
        assert copier.tally.failed == 2
        told = [text for kind, text in here.events if kind == "transform"]
        assert ["record at offset 0" in text for text in told] == [True, False]


@pytest.mark.parametrize("mode", ["disabled", "enabled"])
def test_with_tolerance_a_record_for_a_partition_that_is_not_there_is_a_failed_one(mode: str) -> None:
    """Once the target was asked again: the partition may have been added meanwhile."""
    with world(transform=by("numbered", tolerance="all", dead_letter_topic="dead"), exactly_once=mode) as here:
        here.target.create("everything", 2)
        copier = here.begin()
        here.write(b"0", b"1", b"2")
        here.until(lambda: at(here) == 3)
        (told,) = [text for kind, text in here.events if kind == "transform"]
        assert "failed on the record at offset 2: it routes records to partition 2 of everything, which has 2" in told
        here.target.topics.grow("everything", 3)
        here.pass_by(61)
        here.write(b"2", b"5", b"1", b"0")
        here.until(lambda: at(here) == 7)
        assert [seen(here, "everything", number) for number in range(3)] == [[b"0", b"0"], [b"1", b"1"], [b"2"]]
        assert seen(here, "dead") == [b"2", b"5"]
        assert copier.tally.failed == 2
        assert here.failures == []


def test_a_record_that_is_skipped_for_its_partition_waits_for_a_target_that_does_not_answer() -> None:
    with world(transform=by("numbered", tolerance="all")) as here:
        here.target.create("everything", 1)
        here.begin()
        here.write(b"0")
        here.until(lambda: at(here) == 1)
        here.target.fault(METADATA, Fault(lost=True), times=3)
        here.write(b"1", b"0")
        here.until(lambda: at(here) == 3, 300)
        assert here.target.faults_left == 0
        assert seen(here, "everything") == [b"0", b"0"]
        assert here.failures == []


def test_routed_records_that_do_not_arrive_in_time_hold_their_partition() -> None:
    with world(transform=by("away"), producer={"delivery_timeout_ms": 30_000}) as here:
        here.target.create("everything", 1)
        here.begin()
        here.pass_by(1)
        here.target.fault(PRODUCE, Fault(code=Code.NOT_LEADER_OR_FOLLOWER), times=100_000, topic="everything")
        here.feed(VALUES)
        assert 29 < here.until(lambda: bool(here.held)) < 40
        assert "within delivery.timeout.ms = 30000 (" in here.held[0].text
        assert here.held[0].reason == "not acknowledged"


@pytest.mark.parametrize("lacking", [REMOTE, "even"])
def test_what_is_given_up_is_not_committed_in_part(lacking: str) -> None:
    """A transaction goes on while one of the two partitions has no leader, until `delivery.timeout.ms`."""
    with world(transform=by("sorting"), exactly_once="enabled", producer={"delivery_timeout_ms": 5_000}) as here:
        here.target.create("even")
        copier = here.begin()
        here.write(b"1", b"2")
        here.until(lambda: at(here) == 2)
        here.target.move(lacking, 0, None)
        here.run(copier.target.refresh, [lacking])
        here.write(b"4", b"3")
        here.until(lambda: bool(here.held))
        here.pass_by(30)
        assert (seen(here, REMOTE), seen(here, "even"), at(here)) == ([b"1"], [b"2"], 2)


def test_a_topic_that_cannot_be_made_holds_the_partition_and_says_why() -> None:
    with world(transform=by("sorting")) as here:
        here.target.topics.refusals["even"] = (Code.POLICY_VIOLATION, "no such names here")
        here.begin()
        here.feed(VALUES)
        here.until(lambda: bool(here.held))
        assert "cluster south does not create topic even: no such names here" in here.held[0].text
    with world(transform=by("sorting")) as here:
        here.target.topics.refusals["even"] = (29, "")
        here.begin()
        here.feed(VALUES)
        here.until(lambda: bool(here.held))
        assert here.held[0].reason == "missing right"
        assert "CREATE" in here.held[0].text


@pytest.mark.parametrize(("mode", "days"), [("disabled", 100), ("enabled", 20)])
def test_topics_of_days_that_are_over_are_forgotten(mode: str, days: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As by TimestampRouter. Each of the days is little more than a second long here."""
    monkeypatch.setattr(routes, "FORGET_S", 0.5)
    monkeypatch.setattr(copier_module, "LOOK_AT_ROUTES_S", 0.2)
    with world(transform=by("daily"), exactly_once=mode) as here:
        copier = here.begin()
        for day in range(days):
            here.write(b"%d" % day)
            here.pass_by(1.2)
            assert len(copier._routes.topics) <= 1
        assert not list(copier._routes.queues)
        assert not [topic for topic in copier.target._topics if topic.startswith("day-")]
        # One that comes again goes on where it was, with no record left out and none twice.
        for _ in range(3):
            here.write(b"7")
            here.pass_by(3)
        here.until(lambda: at(here) == days + 3)
        assert seen(here, "day-7") == [b"7"] * 4
        assert [seen(here, f"day-{day}") for day in range(8, days)] == [[b"%d" % day] for day in range(8, days)]
        assert here.failures == []


def test_sequence_numbers_of_topics_that_are_over_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes, "FORGET_S", 0.5)
    monkeypatch.setattr(copier_module, "LOOK_AT_ROUTES_S", 0.2)
    monkeypatch.setattr(transactions, "MOST_SEQUENCES", 3)
    with world(transform=by("daily"), exactly_once="enabled") as here:
        copier = here.begin()
        days = [*range(15), 3, 0, 14, 3]
        for day in days:
            here.write(b"%d" % day)
            here.pass_by(1.2)
            assert copier.transactions is not None
            assert len(copier.transactions._sequences) <= 4
        here.until(lambda: at(here) == len(days))
        assert [seen(here, f"day-{day}") for day in range(15)] == [[b"%d" % day] * days.count(day) for day in range(15)]
        assert here.events == [("routed", text) for kind, text in here.events]
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
        here.until(lambda: bool(here.held))
        assert [held.source for held in here.held] == [part(1)]


def test_a_routed_record_that_no_dead_letter_topic_takes_holds_its_partition_and_asks_once() -> None:
    dead = FailedRecordSettings(tolerance="all", dead_letter_topic="dead")
    with world(transform=by("sorting"), refused_record_policy="dead-letter", failed_records=dead, partitions=2) as here:
        here.target.create("even")
        here.target.create("dead")
        here.target.fault(PRODUCE, Fault(code=Code.INVALID_RECORD), times=1000, topic="even")
        here.target.fault(PRODUCE, Fault(code=Code.TOPIC_AUTHORIZATION_FAILED), times=1000, topic="dead")
        here.begin(here.grant(0), here.grant(1))
        here.write(b"2")
        here.write(b"1", b"3", number=1)
        here.until(lambda: [held.source for held in here.held] == [part()])
        here.pass_by(10)
        assert here.failures == []
        assert here.target.faults_left >= 1998
        assert seen(here, REMOTE, 1) == [b"1", b"3"]


@pytest.mark.parametrize("mode", ["disabled", "enabled"])
def test_a_refused_routed_record_holds_its_own_partition_alone(mode: str) -> None:
    with world(transform=by("gathering"), partitions=2, exactly_once=mode) as here:
        here.target.create("everything")
        here.begin(here.grant(0), here.grant(1))
        here.pass_by(1)
        here.target.fault(PRODUCE, Fault(code=Code.NOT_LEADER_OR_FOLLOWER), times=3, topic="everything")
        here.target.codes(PRODUCE, "everything", Code.INVALID_RECORD)
        here.write(b"refused")
        here.write(b"good", b"as well", number=1)
        here.until(lambda: bool(here.held))
        here.until(lambda: at(here, 1) == 2)
        assert {held.source for held in here.held} == {part(0)}
        assert at(here) <= 0
        assert [value for value in seen(here, "everything") if value in (b"good", b"as well")] == [b"good", b"as well"]


def test_a_held_partition_routes_what_is_behind_its_refused_record_twice_at_most() -> None:
    with world(transform=by("sorting")) as here:
        here.target.create("even")
        here.target.fault(PRODUCE, Fault(code=Code.INVALID_RECORD), times=1000, topic=REMOTE)
        here.feed(VALUES)
        copier = here.begin(here.grant())
        for tries in range(1, 6):
            here.until(lambda: len(here.held) == tries)  # noqa: B023
            (position,) = here.run(copier.release_partitions, [part()]).values()
            here.run(copy_partitions, copier, [replace(here.grant(position=position), on_trial=True)])
        here.target.faults.clear()
        here.until(lambda: at_end(here))
        assert seen(here, REMOTE) == ODD
        assert sorted(seen(here, "even"), key=lambda value: int(value or 0)) in (EVEN, sorted([*EVEN, *EVEN], key=int))


def test_what_was_routed_before_a_refused_record_is_not_routed_again() -> None:
    with world(transform=by("sorting")) as here:
        here.target.create("even")
        here.target.fault(PRODUCE, Fault(code=Code.INVALID_RECORD), times=1000, topic=REMOTE)
        here.write(b"2", b"4", b"1", b"6", b"3")
        copier = here.begin()
        here.until(lambda: bool(here.held))
        assert here.held[0].source_offset == 2
        (position,) = here.run(copier.release_partitions, [part()]).values()
        assert position.next_source == 2
        here.target.faults.clear()
        here.run(copy_partitions, copier, [replace(here.grant(position=position), on_trial=True)])
        here.until(lambda: at(here) == 5)
        assert seen(here, REMOTE) == [b"1", b"3"]
        assert seen(here, "even") == [b"2", b"4", b"6", b"6"]


def test_a_try_that_fails_later_repeats_only_what_it_took_at_once() -> None:
    with world(transform=by("sorting")) as here:
        here.target.create("even")
        here.target.codes(PRODUCE, REMOTE, 0, 0, *[Code.INVALID_RECORD] * 5)
        here.feed(VALUES)
        copier = here.begin(replace(here.grant(), on_trial=True))
        here.until(lambda: bool(here.held))
        (position,) = here.run(copier.release_partitions, [part()]).values()
        # A record, two, and four of which the last was refused.
        assert position.next_source == 4
        here.target.faults.clear()
        here.run(copy_partitions, copier, [replace(here.grant(position=position), on_trial=True)])
        here.until(lambda: at_end(here))
        assert seen(here, REMOTE) == ODD
        assert seen(here, "even") == [b"2", b"4", b"6", *EVEN[2:]]
