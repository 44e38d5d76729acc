"""Copiers that change records crash, or partitions come and go; in virtual time."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from harness.virtual.faults import Fault
from harness.virtual.requests import END_TXN, PRODUCE
from tests.copier_reports import copy_partitions
from tests.unit.copier.changing import at, by, seen
from tests.unit.copier.copied import REMOTE, TOPIC, part, world
from twinlog.kafka.protocol.produce import partition_for


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
                here.run(copier.release_partitions, [part(number)])
                assert copier.undrained == set()
                held.discard(number)
            else:
                here.run(copy_partitions, copier, [here.grant(number, here.stored(number), drained=True)])
                held.add(number)
        missing = [here.grant(number, here.stored(number), drained=True) for number in {1, 2} - held]
        here.run(copy_partitions, copier, missing)
        ends = [len(here.source.log(TOPIC, number).values()) for number in range(3)]
        here.until(lambda: all(at(here, number) == ends[number] for number in range(3)), 300)
        here.pass_by(20)
        assert here.failures == []
        for number in range(3):
            mine = [value for value in written if partition_for(value, 3) == number]
            assert sorted(value or b"" for value in seen(here, REMOTE, number)) == sorted(mine)
        assert [event for event in here.events if event[0] == "transaction"] == []


@pytest.mark.parametrize("left", [0, 1])
def test_what_was_routed_to_a_partition_and_the_target_deleted_is_none_of_its_own_records(left: int) -> None:
    """As many of those would be passed over that nobody has copied."""
    with world(transform=by("first"), partitions=2) as here:
        log = here.target.log(REMOTE)
        copier = here.begin(here.grant(0), here.grant(1))
        here.write(b"1", b"2")
        here.until(lambda: at(here) == 2)
        stored = here.stored()
        here.write(b"3", b"4")
        here.until(lambda: seen(here, REMOTE)[2:] == [b"3", b"4"])
        here.write(b"10", b"20", b"30", number=1)
        here.until(lambda: len(seen(here, REMOTE)) == 7)
        here.crash(copier)
        log.delete_before(log.end - left)
        here.write(b"5", b"6", b"7", b"8", b"9")
        here.begin(here.grant(position=stored))
        here.until(lambda: at(here) == 9)
        assert {b"5", b"6", b"7", b"8", b"9"} <= set(seen(here, REMOTE))
        assert [text for kind, text in here.events if kind == "target"] == []
        assert here.failures == []
