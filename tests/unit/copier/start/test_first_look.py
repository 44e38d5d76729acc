"""After a crash many partitions are compared with few requests, as far as little arrived after their positions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from harness.virtual.faults import Fault
from harness.virtual.requests import FETCH, LIST_OFFSETS
from tests.unit.copier.copied import REMOTE, TOPIC, World, part, world
from twinlog.copier.start.first_look import look
from twinlog.copier.start.start_position import OF_TWO_LEADERS
from twinlog.kafka.protocol.error_codes import Code
from twinlog.lease.messages import Grant
from twinlog.mirror.offsets.positions import Position
from twinlog.model.types import TopicPartition

PARTITIONS = 60
MORE = [b"%d" % one for one in range(9)]
VALUES = MORE[:7]


def asked(here: World) -> tuple[int, int]:
    """How many fetches and questions for offsets both clusters got."""
    fetches, lookups = (here.source.asked[key] + here.target.asked[key] for key in (FETCH, LIST_OFFSETS))
    return fetches, lookups


def resumed(here: World, backlog: Sequence[bytes] = ()) -> tuple[int, int]:
    """Copies, loses a copier that stored no position since, and begins again, once the source has a backlog in each
    partition; how many requests both clusters got."""
    first = here.begin(*(here.grant(number) for number in range(PARTITIONS)))
    for begin, end in pairwise((0, 3, 6, 7)):
        for number in range(PARTITIONS):
            here.write(*VALUES[begin:end], number=number)
        here.until(lambda end=end: all(len(here.copied(number)) == end for number in range(PARTITIONS)))  # type: ignore[misc]
    stored = {
        number: Position(3, 3, writer=replace(writer, sequence=3))
        for number in range(PARTITIONS)
        if (writer := first.partitions[part(number)].acknowledged.writer) is not None
    }
    here.crash(first)
    for number in range(PARTITIONS):
        for value in backlog:
            here.write(value, number=number)
    before = asked(here)
    copier = here.begin(*(here.grant(number, position) for number, position in stored.items()))
    assert len(copier.partitions) == PARTITIONS
    fetches, lookups = asked(here)
    return fetches - before[0], lookups - before[1]


def test_what_arrived_is_compared_with_few_requests() -> None:
    with world(partitions=PARTITIONS) as here:
        fetches, lookups = resumed(here)
        assert fetches < PARTITIONS / 2
        assert lookups < PARTITIONS / 2
        for number in range(PARTITIONS):
            here.write(b"last", number=number)
        here.until(lambda: all(here.copied(number)[-1:] == [b"last"] for number in range(PARTITIONS)))
        assert all(here.copied(number) == [*VALUES, b"last"] for number in range(PARTITIONS))
        assert not here.failures
        assert not here.events


def test_a_backlog_on_the_source_costs_no_more_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has more of each partition than an answer has room for, all together."""
    monkeypatch.setattr("twinlog.copier.start.first_look.LOOK_BYTES", PARTITIONS * 400 // OF_TWO_LEADERS)
    backlog = [b"backlog %d" % one for one in range(20)]
    with world(partitions=PARTITIONS) as here:
        fetches, lookups = resumed(here, backlog)
        assert fetches < PARTITIONS / 2
        assert lookups < PARTITIONS / 2
        here.until(lambda: all(here.copied(number) == [*VALUES, *backlog] for number in range(PARTITIONS)))
        assert not here.failures
        assert not here.events


def stopped(here: World) -> list[Grant]:
    """Copies all, stores the positions, and loses the copier; what the next one gets."""
    first = here.begin(*(here.grant(number) for number in range(PARTITIONS)))
    for begin, end in pairwise((0, 3, 6, 7)):
        for number in range(PARTITIONS):
            here.write(*VALUES[begin:end], number=number)
        here.until(lambda end=end: all(len(here.copied(number)) == end for number in range(PARTITIONS)))  # type: ignore[misc]
    here.pass_by(3.0)
    here.crash(first)
    grants = [here.grant(number, here.stored(number)) for number in range(PARTITIONS)]
    assert all(grant.position is not None and grant.position.next_source == 7 for grant in grants)
    return grants


@pytest.mark.parametrize("mode", ["disabled", "enabled"])
@pytest.mark.parametrize("cut", [True, False])
def test_what_the_target_lost_of_many_is_found_with_few_requests(
    monkeypatch: pytest.MonkeyPatch, mode: str, cut: bool
) -> None:
    """A broker that lost the end of its log lost that of many partitions; or nobody knows whether it did."""

    async def unverified(_target: Any, positions: Any, _ends: Any) -> tuple[dict[TopicPartition, bool], dict[Any, Any]]:
        return dict.fromkeys(positions, True), {}

    monkeypatch.setattr("twinlog.copier.start.start_position.find_unverified", unverified)
    with world(partitions=PARTITIONS, exactly_once=mode) as here:
        grants = stopped(here)
        if cut:
            for number in range(PARTITIONS):
                log = here.target.log(REMOTE, number)
                log.cut(log.records()[-1].offset)
        before = asked(here)
        copier = here.begin(*grants)
        assert len(copier.partitions) == PARTITIONS
        fetches, lookups = (now - was for now, was in zip(asked(here), before, strict=True))
        assert fetches < PARTITIONS / 2
        assert lookups < PARTITIONS / 2
        for number in range(PARTITIONS):
            here.write(b"last", number=number)
        here.until(lambda: all(here.copied(number)[-1:] == [b"last"] for number in range(PARTITIONS)))
        assert all(here.copied(number) == [*VALUES, b"last"] for number in range(PARTITIONS))
        lost = [text for kind, text in here.events if kind == "target"]
        assert ["; source offsets 6 to 6 of " in text for text in lost] == [True] * (PARTITIONS * cut)
        assert not here.failures


@pytest.mark.parametrize("most", [1, 100, 300])
def test_what_is_longer_than_the_first_answer_is_read_on(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr("twinlog.copier.start.first_look.PARTITION_BYTES", most)
    with world(partitions=PARTITIONS) as here:
        resumed(here)
        here.write(b"last", number=7)
        here.until(lambda: here.copied(7)[-1:] == [b"last"])
        assert all(here.copied(number)[:7] == VALUES for number in range(PARTITIONS))
        assert here.copied(7) == [*VALUES, b"last"]
        assert not here.failures
        assert not here.events


def crashed(here: World) -> Position:
    """Copies batches at offsets 0, 3, 6 and 7 and loses a copier that stored its position at 3; that position."""
    first = here.begin()
    for begin, end in pairwise((0, 3, 6, 7, 9)):
        here.write(*MORE[begin:end])
        here.until(lambda end=end: len(here.copied()) == end)  # type: ignore[misc]
    writer = first.partitions[part()].acknowledged.writer
    assert writer is not None
    here.crash(first)
    return Position(3, 3, writer=replace(writer, sequence=3))


@pytest.mark.parametrize("most", [1, 100])
def test_what_the_source_deletes_meanwhile_is_not_its_end(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr("twinlog.copier.start.first_look.PARTITION_BYTES", most)
    with world() as here:
        stored = crashed(here)
        looks = 0

        async def retained(*args: Any, **how: Any) -> Any:
            nonlocal looks
            looks += 1
            found = await look(*args, **how)
            here.source.log(TOPIC).delete_before(7)
            return found

        monkeypatch.setattr("twinlog.copier.start.start_position.look", retained)
        here.begin(here.grant(0, stored))
        here.write(b"last")
        here.until(lambda: here.copied()[-1:] == [b"last"])
        assert here.copied() == [*MORE, b"last"]
        assert looks == 2
        assert not here.failures


def test_what_both_deleted_hides_nothing_that_is_left() -> None:
    with world() as here:
        stored = crashed(here)
        here.source.log(TOPIC).delete_before(7)
        here.target.log(REMOTE).delete_before(6)
        here.begin(here.grant(0, stored))
        here.write(b"last")
        here.until(lambda: here.copied()[-1:] == [b"last"])
        assert here.copied() == [*MORE[6:], b"last"]
        assert not here.failures


def test_what_is_refused_for_one_topic_fails_no_other() -> None:
    with world(partitions=3) as here:
        here.source.create("other")
        here.target.create("north.other")
        shop = [here.grant(number) for number in range(3)]
        grants = [*shop, Grant(part(0, "other"), part(0, "north.other"), None, 1 << 20, None)]
        first = here.begin(*grants)

        def write(value: bytes) -> None:
            for grant in grants:
                here.source.write(grant.source.topic, value, partition=grant.source.partition)
            here.until(lambda: all(here.target.log(*grant.remote).values()[-1:] == [value] for grant in grants))

        for value in (b"0", b"1", b"2"):
            write(value)
        stored = {grant: first.partitions[grant.source].acknowledged.writer for grant in grants}
        here.crash(first)
        here.source.fault(LIST_OFFSETS, Fault(code=Code.TOPIC_AUTHORIZATION_FAILED), times=2, topic="other")
        here.begin(
            *(
                replace(grant, position=Position(1, 1, writer=replace(writer, sequence=1)))
                for grant, writer in stored.items()
                if writer is not None
            )
        )
        for grant in shop:
            here.write(b"last", number=grant.source.partition)
        here.until(lambda: all(here.copied(number)[-1:] == [b"last"] for number in range(3)))
        assert all(here.copied(number) == [b"0", b"1", b"2", b"last"] for number in range(3))
        assert [one.source for one in here.held] == [grants[-1].source]
        assert not here.failures
        assert not here.source.faults_left


def test_a_leader_that_moved_and_cannot_be_reached_holds_up_only_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    groups: list[list[int]] = []

    async def seen(source: Any, target: Any, behind: Any, **how: Any) -> Any:
        groups.append([one.grant.source.partition for one in behind])
        return await look(source, target, behind, **how)

    with world(partitions=6, brokers=2) as here:
        for number in range(6):
            here.source.move(TOPIC, number, 1)
            here.target.move(REMOTE, number, 1)
        first = here.begin(*(here.grant(number) for number in range(6)))
        for values in ([b"0"], [b"0", b"1"]):
            for number in range(6):
                here.write(values[-1], number=number)
            here.until(lambda values=values: all(here.copied(number) == values for number in range(6)))  # type: ignore[misc]
        writers = {number: first.partitions[part(number)].acknowledged.writer for number in range(6)}
        here.crash(first)
        here.target.fault(LIST_OFFSETS, Fault(code=Code.LEADER_NOT_AVAILABLE), times=1000, topic=REMOTE)
        copier = here.open()
        grants = [
            here.grant(number, Position(1, 1, writer=replace(writer, sequence=1)))
            for number, writer in writers.items()
            if writer is not None
        ]
        here.loop.start(copier.begin_partitions, copier.add_grants(grants))
        here.pass_by(2.0)
        assert not copier.partitions
        here.source.stop(2)
        here.source.move(TOPIC, 5, 2)
        here.pass_by(10.0)
        assert not copier.partitions
        here.target.faults.clear()
        monkeypatch.setattr("twinlog.copier.start.start_position.look", seen)
        here.until(lambda: len(copier.partitions) == 5)
        assert sorted(groups[:4]) == [[0, 1], [2, 3], [4], [5]]
        assert part(5) not in copier.partitions
        here.source.start(2)
        here.until(lambda: len(copier.partitions) == 6)
        assert all(here.copied(number) == [b"0", b"1"] for number in range(6))
