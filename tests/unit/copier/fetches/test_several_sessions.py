"""Many partitions of a broker have several fetch sessions, and a record ends the wait of its own session only."""

from __future__ import annotations

import random
import struct
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from harness.virtual import connection
from harness.virtual.requests import FETCH
from tests.copier_reports import copy_partitions
from tests.fetches_ahead import count_fetches_ahead
from tests.unit.copier.copied import TOPIC, World, part, world
from tests.unit.copier.fetches.test_fetches_ahead import campaign
from twinlog.copier.memory import ANSWERS
from twinlog.kafka.consumer import session_places
from twinlog.kafka.consumer.session_places import MANY, NEIGHBOURS, SESSIONS, SessionPlace, SessionPlaces
from twinlog.model.types import TopicName, TopicPartition

IDLE_S = 0.5


@pytest.fixture
def fetches(monkeypatch: pytest.MonkeyPatch) -> Counter[int]:
    """The number of fetches on each connection to the source."""
    counts = Counter[int]()
    received = connection.Connection.received

    def note(self: connection.Connection, sock: Any, data: bytes) -> None:
        if struct.unpack_from(">h", data, 4) == (FETCH,):
            counts[id(self)] += 1
        received(self, sock, data)

    monkeypatch.setattr(connection.Connection, "received", note)
    return counts


def begin(here: World, numbers: range) -> Any:
    copier = here.begin(*map(here.grant, numbers))
    here.until(lambda: all(one.lag == 0 for one in copier.partitions.values()))
    return copier


def test_a_record_ends_the_wait_of_its_session_only(fetches: Counter[int]) -> None:
    with world(partitions=MANY + 1) as here:
        begin(here, range(MANY + 1))
        here.pass_by(3 * IDLE_S)
        fetches.clear()
        here.pass_by(4 * IDLE_S)
        assert len(fetches) == SESSIONS
        usual = max(fetches.values())
        fetches.clear()
        for turn in range(40):
            here.write(b"%d" % turn)
            here.pass_by(IDLE_S / 10)
        assert here.copied() == [b"%d" % turn for turn in range(40)]
        woken, *idle = sorted(fetches.values(), reverse=True)
        assert woken >= 40
        assert max(idle) <= usual + 1


def test_few_partitions_have_one_session(fetches: Counter[int]) -> None:
    with world(partitions=MANY) as here:
        begin(here, range(MANY))
        here.pass_by(4 * IDLE_S)
        assert len(fetches) == 1


def test_partitions_that_are_added_divide_the_session_and_all_share_the_memory() -> None:
    count = MANY + 40
    with world(partitions=count, consumer={"max_partition_fetch_bytes": 150}) as here:
        copier = begin(here, range(60))
        for number in range(count):
            here.feed([b"%d-%d" % (number, index) for index in range(9)], number=number)
        here.run(copy_partitions, copier, [here.grant(number) for number in range(60, count)])
        asked = copier.memory._asked
        most = 0

        def done() -> bool:
            nonlocal most
            most = max(most, len(asked))
            assert copier.memory.used_bytes <= copier.memory.limit_bytes
            return all(len(here.copied(number)) == 9 for number in range(count))

        here.until(done)
        here.pass_by(1)
        assert most == SESSIONS
        assert sum(asked.values()) <= copier.memory.limit_bytes // ANSWERS
        for number in range(count):
            assert here.copied(number) == [b"%d-%d" % (number, index) for index in range(9)]
        assert here.failures == []


@pytest.mark.parametrize("exactly_once", ["disabled", "enabled"])
def test_whatever_happens_every_record_arrives_once(
    exactly_once: str, chance: random.Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_places, "MANY", 0)
    monkeypatch.setattr(session_places, "NEIGHBOURS", 1)
    asked = count_fetches_ahead(monkeypatch, backlog_bytes=1)
    campaign(chance.randrange(1 << 32), exactly_once=exactly_once)
    assert asked[True] > 50


def nearest(leaders: dict[TopicPartition, int]) -> Any:
    return SimpleNamespace(node=leaders.get)


def test_each_session_of_a_broker_has_its_share_of_the_partitions() -> None:
    parts = [TopicPartition(TopicName(f"t{topic}"), number) for topic in range(200) for number in range(4)]
    leaders = dict.fromkeys(parts, 1) | {part(number): 2 for number in range(MANY)}
    places = SessionPlaces(nearest(leaders), SESSIONS)
    assert {places.place(one) for one in leaders} == {SessionPlace(1, 0), SessionPlace(2, 0)}
    places.divide(leaders)
    shares = Counter(map(places.place, parts))
    assert len(shares) == SESSIONS
    assert max(shares.values()) < 1.5 * min(shares.values())
    # The partitions of a small topic stay together, and another broker with few partitions has one session.
    assert all(places.place(one) == places.place(TopicPartition(one.topic, 0)) for one in parts)
    assert {places.place(part(number)) for number in range(MANY)} == {SessionPlace(2, 0)}
    again = SessionPlaces(nearest(leaders), SESSIONS)
    again.divide(reversed(parts))
    assert all(places.place(one) == again.place(one) for one in parts)
    assert places.place(TopicPartition(TOPIC, 10 * MANY)) is None


def test_the_sessions_share_the_partitions_of_a_large_topic() -> None:
    leaders = {part(number): 1 for number in range(MANY + NEIGHBOURS)}
    places = SessionPlaces(nearest(leaders), SESSIONS)
    places.divide(leaders)
    assert max(Counter(map(places.place, leaders)).values()) <= len(leaders) // SESSIONS + NEIGHBOURS
