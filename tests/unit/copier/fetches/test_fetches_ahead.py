"""Copiers that ask ahead at each answer: every record arrives once and in order, whatever happens meanwhile."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import suppress

import pytest

from harness.virtual.faults import Fault
from harness.virtual.requests import END_TXN, FETCH, PRODUCE
from tests.copier_reports import copy_partitions
from tests.fetches_ahead import count_fetches_ahead
from tests.unit.copier.copied import REMOTE, TOPIC, World, part, world
from twinlog.copier.copier import Copier
from twinlog.errors import ClusterError
from twinlog.kafka.protocol.error_codes import Code

PARTITIONS = range(3)
SMALL = {"max_partition_fetch_bytes": 150}
"""An answer has a batch or two of the three records each of `World.feed`."""

FAULTS = [
    Fault(lost=True),
    Fault(delay_s=0.3),
    Fault(delay_s=35.0),
    Fault(code=-1),
    Fault(code=Code.NOT_LEADER_OR_FOLLOWER),
    Fault(throttle_s=5.0),
]


@pytest.fixture(autouse=True)
def asked(monkeypatch: pytest.MonkeyPatch) -> Counter[bool]:
    """How often an answer was followed by a fetch ahead (True), and how often it was taken first."""
    return count_fetches_ahead(monkeypatch, backlog_bytes=1)


def values(number: int, turn: int, count: int) -> list[bytes]:
    return [b"%d-%d-%d" % (number, turn, index) for index in range(count)]


def copied_once(here: World, written: dict[int, list[bytes]]) -> bool:
    committed = here.settings.exactly_once == "enabled"
    return all(len(here.copied(number, committed=committed)) >= len(written[number]) for number in PARTITIONS)


def begin_again(here: World, copier: Copier) -> Copier:
    """The copier crashes, and the next one begins at the stored positions."""
    here.crash(copier)
    here.pass_by(1)
    return here.begin(*(here.grant(number, here.stored(number)) for number in PARTITIONS))


def campaign(seed: int, **settings: object) -> None:
    """Backlogs, faults, moves of leaders, releases and crashes, as the seed has it."""
    with world(seed, partitions=len(PARTITIONS), brokers=2, consumer=SMALL, **settings) as here:
        dice = random.Random(seed)
        written: dict[int, list[bytes]] = {number: [] for number in PARTITIONS}
        exactly_once = here.settings.exactly_once == "enabled"
        copier = here.begin(*map(here.grant, PARTITIONS))
        for turn in range(25):
            for number in PARTITIONS:
                fresh = values(number, turn, dice.choice([0, 0, 2, 60]))
                written[number] += fresh
                here.feed(fresh, number=number)
            number = dice.choice(PARTITIONS)
            match dice.randrange(8):
                case 0:
                    here.source.fault(FETCH, dice.choice(FAULTS), times=dice.randrange(1, 4))
                case 1:
                    passing = [fault for fault in FAULTS if fault.code >= 0]
                    here.target.fault(PRODUCE, dice.choice(passing), times=dice.randrange(1, 4), topic=REMOTE)
                case 2:
                    here.source.move(TOPIC, number, dice.choice([1, 2]))
                case 3:
                    # Another user of the client learns the new leader first.
                    here.source.move(TOPIC, number, dice.choice([1, 2]))
                    with suppress(ClusterError):
                        here.run(copier.source.refresh, [TOPIC])
                case 4:
                    here.run(copier.release_partitions, [part(number)])
                    if exactly_once and part(number) in copier.undrained:
                        # As in a task: the open transaction is aborted by the next copier.
                        copier = begin_again(here, copier)
                    else:
                        here.run(copy_partitions, copier, [here.grant(number, here.stored(number))])
                case 5 if exactly_once:
                    here.target.fault(END_TXN, dice.choice(FAULTS[:3]))
                case 6:
                    copier = begin_again(here, copier)
                case _:
                    here.pass_by(dice.random())
            here.pass_by(dice.random() * 0.05)
        here.until(lambda: copied_once(here, written), 900)
        here.pass_by(120)
        assert here.failures == []
        assert here.held == []
        for number in PARTITIONS:
            assert here.copied(number, committed=exactly_once) == written[number]


@pytest.mark.parametrize("course", range(3))
def test_whatever_happens_every_record_arrives_once(course: int, chance: random.Random, asked: Counter[bool]) -> None:
    campaign(chance.randrange(1 << 32))
    assert asked[True] > 50


@pytest.mark.parametrize("course", range(3))
def test_whatever_happens_transactions_hold_every_record_once(
    course: int, chance: random.Random, asked: Counter[bool]
) -> None:
    campaign(chance.randrange(1 << 32), exactly_once="enabled")
    assert asked[True] > 50


def test_a_backlog_is_read_once(asked: Counter[bool]) -> None:
    with world(consumer=SMALL) as here:
        written = values(0, 0, 300)
        here.feed(written)
        here.begin()
        here.until(lambda: here.copied() == written)
        here.pass_by(1)
        # A fetch for each batch, and a few fetches at the end of the log: no answer was dropped.
        assert len(here.source.log(TOPIC).batches) == 100
        assert asked[True] > 90
        assert here.source.asked[FETCH] < 110


def test_a_log_that_is_cut_while_a_fetch_ahead_is_under_way_is_noticed() -> None:
    """The answer to the fetch ahead is an error of the same log, and no record is taken from beyond the cut."""
    with world(consumer=SMALL) as here:
        written = values(0, 0, 300)
        here.feed(written)
        here.begin()
        here.until(lambda: len(here.copied()) > 100)
        log = here.source.log(TOPIC)
        log.cut(60)
        here.source.move(TOPIC, 0, 1)
        here.pass_by(60)
        copied = here.copied()
        assert copied == written[: len(copied)]
        assert 100 < len(copied) < 300
        assert [held.reason for held in here.held] == ["gap"]
