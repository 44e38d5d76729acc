"""What a copier does when clusters are in trouble: every record arrives once and in order, whatever happens.

Real copiers, between two clusters of this process that answer with real bytes, in virtual time.
"""

from __future__ import annotations

import random
from dataclasses import replace
from functools import partial

import pytest

from harness.virtual.clock import BEGIN
from harness.virtual.faults import Fault
from harness.virtual.requests import END_TXN, FETCH, LIST_OFFSETS, METADATA, PRODUCE
from tests.unit.copier.copied import REMOTE, TOPIC, part, world
from twinlog.copier import producers as module
from twinlog.copier.copier import Copier
from twinlog.copier.stalled_partitions import OPEN_S, SILENT_S
from twinlog.errors import ClusterError
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.record.builder import encode_batch, record_body
from twinlog.kafka.record.stamp import stamp
from twinlog.mirror.offsets.positions import Position
from twinlog.model.types import SourceOffset, TargetOffset

VALUES = [b"%d" % number for number in range(40)]


def test_it_starts_once_both_clusters_are_there() -> None:
    with world() as here:
        here.feed(VALUES)
        here.source.stop(1)
        here.target.stop(1)
        opened: list[Copier] = []

        async def come_back() -> None:
            await here.loop.sleep(40)
            here.target.start(1)
            await here.loop.sleep(40)
            here.source.start(1)

        here.loop.start(come_back)
        opened.append(here.begin())
        assert here.clock.now > BEGIN + 80
        here.until(lambda: here.copied() == VALUES)
        assert here.failures == []


def test_a_transaction_of_the_source_that_never_ends_is_told() -> None:
    with world(consumer={"isolation_level": "read_committed"}) as here:
        log = here.source.log(TOPIC)
        here.write(b"before")

        def add() -> None:
            data = encode_batch([(0, record_body(None, b"in it", ()))], 0)
            stamp(data, 7, 0, 0, transactional=True)
            log.append(bytes(data))

        add()
        copier = here.begin()
        trouble = partial(copier.troubles.find_reason, copier.partitions[part()])
        here.until(lambda: here.copied() == [b"before"])
        here.pass_by(OPEN_S - 60)
        assert trouble() is None
        here.pass_by(120)
        assert (trouble() or "").startswith(
            "TW-WAIT-06: source: a transaction that has been open for 16 min keeps the records from offset 1 on"
        )
        log.mark(7, 0, commit=True)
        here.source.news()
        here.until(lambda: here.copied() == [b"before", b"in it"])
        assert trouble() is None


def test_positions_that_cannot_be_stored_are_told() -> None:
    with world() as here:
        here.feed(VALUES[:20])
        here.begin()
        here.until(lambda: here.copied() == VALUES[:20])
        here.pass_by(5)
        here.target.topics.delete(here.settings.positions_topic)
        here.feed(VALUES[20:])
        here.pass_by(100)
        assert here.copied() == VALUES
        (told,) = (text for kind, text in here.events if kind == "positions")
        assert told.startswith("positions cannot be stored, trying again: cluster ")
        assert "does not exist" in told
        assert here.failures == []


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_leader_that_is_lost_costs_no_record(side: str) -> None:
    with world(brokers=2) as here:
        here.feed(VALUES[:20])
        here.begin()
        here.until(lambda: here.copied() == VALUES[:20])
        cluster, topic = (here.source, TOPIC) if side == "source" else (here.target, REMOTE)
        cluster.stop(1)
        cluster.move(topic, 0, None)
        here.feed(VALUES[20:])
        here.pass_by(20)
        assert here.copied() == VALUES[:20]
        cluster.move(topic, 0, 2)
        here.until(lambda: here.copied() == VALUES)
        assert here.failures == []


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(Fault(lost=True), id="before it arrived"),
        pytest.param(Fault(lost=True, done=True), id="after it was appended"),
        pytest.param(Fault(code=Code.NOT_LEADER_OR_FOLLOWER), id="no leader"),
        pytest.param(Fault(code=19), id="too few replicas"),
        pytest.param(Fault(code=Code.REQUEST_TIMED_OUT), id="timed out"),
        pytest.param(Fault(delay_s=100.0), id="longer than anybody waits"),
    ],
)
def test_an_append_that_is_not_answered_is_there_once(fault: Fault) -> None:
    with world() as here:
        here.target.fault(PRODUCE, fault, times=3, topic=REMOTE)
        here.feed(VALUES)
        here.begin()
        here.until(lambda: here.copied() == VALUES, 900)
        here.pass_by(300)
        assert here.target.faults_left == 0
        assert here.copied() == VALUES
        assert here.failures == []


@pytest.mark.parametrize(
    "fault",
    [
        Fault(lost=True),
        Fault(code=Code.NOT_LEADER_OR_FOLLOWER),
        Fault(code=Code.FENCED_LEADER_EPOCH),
        Fault(code=Code.UNKNOWN_LEADER_EPOCH),
        Fault(code=-1),
        Fault(delay_s=100.0),
    ],
    ids=str,
)
def test_a_fetch_that_fails_is_asked_again(fault: Fault) -> None:
    with world() as here:
        here.source.fault(FETCH, fault, times=3)
        here.feed(VALUES)
        here.begin()
        here.until(lambda: here.copied() == VALUES, 900)
        assert here.source.faults_left == 0
        assert here.failures == []


def test_a_refused_fetch_ends_its_partition_only() -> None:
    with world(partitions=2, brokers=2) as here:
        here.begin(here.grant(0), here.grant(1))
        here.feed(VALUES, number=0)
        here.until(lambda: here.copied(0) == VALUES)
        here.source.fault(FETCH, Fault(code=Code.TOPIC_AUTHORIZATION_FAILED))
        here.feed(VALUES, number=0)
        here.until(lambda: bool(here.held))
        (held,) = here.held
        assert (held.reason, held.message_id) == ("missing right", "TW-RIGHT-01")
        assert "lacks READ on topic shop" in held.text
        assert here.failures == []
        other = 1 - held.partition
        here.feed(VALUES, number=other)
        here.until(lambda: here.copied(other)[-1:] == VALUES[-1:])


@pytest.mark.parametrize("drained", [True, False])
def test_a_partition_that_cannot_begin_is_given_back_as_it_was_granted(drained: bool) -> None:
    """Appends of its last copier may be under way as before."""
    with world() as here:
        of_deleted = Position(SourceOffset(5), TargetOffset(0), topic_id="00000000-0000-0000-0000-000000000001")
        copier = here.begin(here.grant(0, of_deleted, drained=drained))
        here.until(lambda: bool(here.held))
        assert here.held[0].message_id == "TW-GAP-03"
        here.run(copier.release_partitions, [part()])
        assert (part() in copier.undrained) is not drained


def test_without_a_proof_from_its_driver_nothing_is_appended() -> None:
    with world() as here:
        here.begin()
        here.allowed = False
        here.feed(VALUES)
        here.pass_by(30)
        assert here.copied() == []
        here.allowed = True
        here.until(lambda: here.copied() == VALUES)


def test_what_is_released_has_its_position_stored_after_its_last_append() -> None:
    with world() as here:
        copier = here.begin()
        here.target.fault(PRODUCE, Fault(delay_s=1.0), topic=REMOTE)
        here.feed(VALUES)
        here.until(lambda: bool(here.copied()))
        (position,) = here.run(copier.release_partitions, [part()]).values()
        assert copier.undrained == set()
        stored = here.stored()
        assert stored is not None
        assert stored.next_source == position.next_source == len(here.copied())


def test_what_the_target_does_not_answer_in_time_is_left_undrained() -> None:
    with world() as here:
        copier = here.begin()
        here.target.fault(PRODUCE, Fault(delay_s=20.0), topic=REMOTE)
        here.feed(VALUES)
        here.until(lambda: bool(here.copied()))
        begun = here.clock.now
        (position,) = here.run(copier.release_partitions, [part()]).values()
        assert module.DRAIN_S <= here.clock.now - begun < 2 * module.DRAIN_S
        assert copier.undrained == {part()}
        assert position.next_source == 0
        # Another one finds what arrived.
        here.begin(here.grant(position=here.stored()))
        here.until(lambda: here.copied() == VALUES)
        here.pass_by(60)
        assert here.copied() == VALUES


@pytest.mark.parametrize("late_s", [0.0, 3.0])
def test_after_a_crash_nothing_is_copied_twice(late_s: float) -> None:
    """Appends are acknowledged, or still on their way, and no position counts them."""
    with world() as here:
        copier = here.begin()
        here.feed(VALUES[:9])
        here.until(lambda: here.copied() == VALUES[:9])
        here.pass_by(10)
        known = here.stored()
        here.feed(VALUES[9:])
        here.target.fault(PRODUCE, Fault(delay_s=late_s), times=9, topic=REMOTE)
        here.until(lambda: len(here.copied()) > 9)
        here.crash(copier)
        assert here.stored() == known
        here.begin(here.grant(position=known))
        here.until(lambda: here.copied() == VALUES)
        here.pass_by(30)
        assert here.copied() == VALUES
        assert here.failures == []


def test_records_that_were_deleted_before_they_were_copied_are_named() -> None:
    with world() as here:
        copier = here.begin()
        here.feed(VALUES[:6])
        here.until(lambda: here.copied() == VALUES[:6])
        (position,) = here.run(copier.release_partitions, [part()]).values()
        here.feed(VALUES[6:])
        here.source.log(TOPIC).delete_before(12)
        here.begin(here.grant(position=position, drained=True))
        here.until(lambda: bool(here.held))
        (held,) = here.held
        assert (held.source, held.reason, held.message_id) == (part(), "gap", "TW-GAP-01")
        assert "source offsets 6 to 11 (6 offsets) were deleted" in held.text
        assert (held.source_offset, held.target_offset, held.resume_at) == (6, 6, 12)
        assert here.copied() == VALUES[:6]


def test_a_target_that_lost_what_it_had_acknowledged_gets_it_again() -> None:
    with world() as here:
        here.begin()
        here.feed(VALUES[:20])
        here.until(lambda: here.copied() == VALUES[:20])
        log = here.target.log(REMOTE)
        log.cut(12)
        log._producers.clear()
        here.target.move(REMOTE, 0, 1)
        here.feed(VALUES[20:])
        here.until(lambda: here.copied()[-1:] == VALUES[-1:] and len(here.copied()) >= 28)
        here.pass_by(60)
        # Nothing is left out; what was there before the loss stands once.
        assert [value for value in VALUES if value not in here.copied()] == []


def test_a_target_that_knows_the_producer_by_what_it_has_left_gets_the_rest_again() -> None:
    """It refuses the next sequence numbers, so that no append comes before what it lost."""
    with world() as here:
        here.begin()
        for begin, end in ((0, 12), (12, 20)):
            here.feed(VALUES[begin:end])
            here.until(lambda end=end: here.copied() == VALUES[:end])  # type: ignore[misc]
        here.target.log(REMOTE).cut(12)
        here.target.move(REMOTE, 0, 1)
        here.feed(VALUES[20:])
        here.until(lambda: here.copied() == VALUES)
        here.pass_by(60)
        assert here.copied() == VALUES
        assert here.failures == []


FAULTS = [
    Fault(lost=True),
    Fault(lost=True, done=True),
    Fault(delay_s=0.3),
    Fault(delay_s=35.0),
    Fault(code=Code.NOT_LEADER_OR_FOLLOWER),
    Fault(code=-1),
    Fault(throttle_s=12.0),
]
PASSING = [replace(fault, code=Code.NOT_LEADER_OR_FOLLOWER) if fault.code else fault for fault in FAULTS]


def campaign(seed: int, **settings: object) -> tuple[list[bytes | None], list[object]]:
    """Load, faults, moves of leaders and crashes of copiers, as the seed has it; what was copied, and how it went."""
    with world(seed, brokers=2, **settings) as here:
        dice = random.Random(seed)
        written: list[bytes] = []
        exactly_once = here.settings.exactly_once == "enabled"
        copier = here.begin()
        for turn in range(25):
            fresh = [b"%d-%d" % (turn, number) for number in range(dice.randrange(6))]
            written += fresh
            if fresh:
                here.write(*fresh)
            match dice.randrange(8):
                case 0:
                    here.source.fault(FETCH, dice.choice(PASSING), times=dice.randrange(1, 4))
                case 1:
                    here.target.fault(PRODUCE, dice.choice(PASSING), times=dice.randrange(1, 4))
                case 2:
                    here.source.move(TOPIC, 0, dice.choice([1, 2]))
                case 3:
                    here.target.move(REMOTE, 0, dice.choice([1, 2]))
                case 4:
                    here.target.fault(dice.choice([METADATA, LIST_OFFSETS]), Fault(lost=True), times=2)
                case 5 if exactly_once:
                    here.target.fault(END_TXN, dice.choice(PASSING[:4]))
                case 6:
                    here.crash(copier)
                    here.pass_by(dice.random() * 3)
                    copier = here.begin(here.grant(position=here.stored()))
                case _:
                    here.pass_by(dice.random() * 5)
            here.pass_by(dice.random())
        here.until(lambda: here.copied(committed=exactly_once)[-1:] == written[-1:], 900)
        here.pass_by(120)
        assert here.failures == []
        assert here.copied(committed=exactly_once) == written
        return here.copied(), [here.clock.now, dict(here.source.asked), dict(here.target.asked), here.events]


@pytest.mark.parametrize("course", range(4))
def test_whatever_happens_every_record_arrives_once(course: int, chance: random.Random) -> None:
    campaign(chance.randrange(1 << 32))


@pytest.mark.parametrize("course", range(4))
def test_whatever_happens_transactions_hold_every_record_once(course: int, chance: random.Random) -> None:
    campaign(chance.randrange(1 << 32), exactly_once="enabled")


def test_a_seed_repeats_the_whole_course_of_events() -> None:
    assert campaign(5) == campaign(5)


def test_a_source_that_throttles_is_waited_for_and_named() -> None:
    with world() as here:
        here.source.fault(FETCH, Fault(throttle_s=60.0))
        copier = here.begin()
        here.feed(VALUES[:3])
        here.until(lambda: here.copied() == VALUES[:3])
        here.feed(VALUES[3:])
        asked = here.source.asked[FETCH]
        here.pass_by(SILENT_S + 30)
        trouble = "TW-WAIT-07: source: broker 1 throttles this client, as it is over a quota"
        assert copier.troubles.find_reason(copier.partitions[part()]) == trouble
        # It is there, and nobody asks it in vain.
        assert copier.source.contact.reach().out_s < 0
        assert here.source.asked[FETCH] == asked
        assert here.copied() == VALUES[:3]
        here.until(lambda: here.copied() == VALUES)
        here.pass_by(1)
        assert copier.troubles.find_reason(copier.partitions[part()]) is None


def test_a_target_that_throttles_is_waited_for_and_named() -> None:
    with world() as here:
        copier = here.begin()
        here.target.fault(PRODUCE, Fault(throttle_s=60.0), topic=REMOTE)
        here.feed(VALUES[:3])
        here.until(lambda: here.copied() == VALUES[:3])
        here.pass_by(1)
        here.feed(VALUES[3:])
        here.pass_by(SILENT_S + 30)
        trouble = "TW-WAIT-07: target: broker 1 throttles this client, as it is over a quota"
        assert copier.troubles.find_reason(copier.partitions[part()]) == trouble
        assert copier.target.contact.reach().out_s < 0
        here.until(lambda: here.copied() == VALUES)
        assert copier.troubles.find_reason(copier.partitions[part()]) is None
        assert here.failures == []


def test_what_waits_for_a_target_that_throttles_is_not_in_flight() -> None:
    """The next copier begins after what was appended, at once."""
    with world() as here:
        copier = here.begin()
        here.target.fault(PRODUCE, Fault(throttle_s=60.0), topic=REMOTE)
        here.feed(VALUES[:3])
        here.until(lambda: here.copied() == VALUES[:3])
        here.feed(VALUES[3:])
        here.pass_by(1)
        here.run(copier.release_partitions, [part()])
        assert copier.undrained == set()


def test_a_request_to_a_broker_that_throttles_is_no_sign_of_an_outage() -> None:
    with world() as here:
        copier = here.begin()
        here.until(lambda: here.source.asked[FETCH] > 0)
        here.source.fault(METADATA, Fault(throttle_s=60.0))
        here.run(copier.source.refresh, [TOPIC])
        request = copier.source._control.cluster.metadata_request()
        with pytest.raises(ClusterError, match="cluster north: broker 1 throttles this client, as it is over a quota"):
            here.run(copier.source.send_request, request, 1)
        here.pass_by(10)
        assert copier.source.contact.reach().out_s < 0


def test_a_cluster_that_is_away_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with world() as here:
        copier = here.begin()
        here.pass_by(2)
        here.source.stop(1)
        here.pass_by(SILENT_S + 40)
        trouble = copier.troubles.find_reason(copier.partitions[part()])
        assert trouble is not None
        assert "source" in trouble
        with pytest.raises(ClusterError):
            here.run(copier.source.refresh, [TOPIC])
