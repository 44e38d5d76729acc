"""Drawn courses of events: a copy is deleted on the target only after its source record, and no other record ever."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from harness.virtual.faults import Fault
from harness.virtual.log import VirtualLog
from harness.virtual.requests import DELETE_RECORDS, FETCH, LIST_OFFSETS, METADATA, PRODUCE
from tests.unit.copier.copied import REMOTE, TOPIC, World, world
from twinlog.copier.copier import Copier
from twinlog.copier.remote_bounds import INTERVAL_S
from twinlog.kafka.protocol.error_codes import Code
from twinlog.lease.messages import Grant

PARTITIONS = 2
SEEDS = 15


def places(log: VirtualLog) -> set[tuple[int, bytes | None]]:
    """The records that a consumer finds, each with its offset."""
    return {(one.offset, one.value) for one in log.records() if one.offset >= log.start}


class Course:
    """A world to which events happen. `violations` are deleted records of the target that had to stay."""

    def __init__(self, here: World, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.here = here
        self.draw = random.Random(seed)
        self.violations: list[str] = []
        self.broken: set[int] = set()
        """The partitions whose logs may differ at the end: an event changed records of one log alone."""
        self.history: list[str] = []
        self._written = 0
        delete_before = VirtualLog.delete_before

        def judged(log: VirtualLog, offset: int) -> None:
            for number in range(PARTITIONS):
                if log is here.target.log(REMOTE, number):
                    self._judge(number, log, offset)
            delete_before(log, offset)

        monkeypatch.setattr(VirtualLog, "delete_before", judged)

    def _judge(self, number: int, log: VirtualLog, offset: int) -> None:
        kept = places(self.here.source.log(TOPIC, number))
        for at, value in places(log):
            if at < offset and ((at, value) in kept or (value or b"").startswith(b"app")):
                self.violations.append(f"{number}: {value!r} at offset {at}, deleted before {offset}")

    def values(self, kind: str) -> list[bytes]:
        most = self.draw.randint(1, 9)
        self._written += most
        return [b"%s %d" % (kind.encode(), self._written - one) for one in range(most, 0, -1)]

    def grants(self) -> list[Grant]:
        """Grants with the stored positions, if any: a log without a position may lack a record to compare."""
        stored = {one: self.here.stored(one) for one in range(PARTITIONS) if self.draw.random() < 0.9}
        self.broken |= {one for one in range(PARTITIONS) if stored.get(one) is None and self.here.copiers}
        return [self.here.grant(one, stored.get(one)) for one in range(PARTITIONS)]

    def begin(self) -> Copier:
        return self.here.begin(*self.grants())

    def run(self, steps: int) -> None:
        events: list[tuple[int, Callable[[int], None]]] = [
            (8, self.write),
            (6, self.trim),
            (1, self.trim_far),
            (2, self.crash),
            (2, self.fault),
            (1, self.move),
            (1, self.write_as_application),
            (1, self.create_target_again),
            (1, self.create_source_again),
            (1, self.cut_source),
            (1, self.cut_target),
        ]
        if self.draw.random() < 0.4:
            # The logs are to be the same at the end.
            events = events[:6]
            events.remove((1, self.trim_far))
        self.begin()
        for _ in range(steps):
            (event,) = self.draw.choices([one for _, one in events], [weight for weight, _ in events])
            number = self.draw.randrange(PARTITIONS)
            self.history.append(f"{event.__name__} {number}")
            event(number)
            self.here.pass_by(self.draw.choice((0.0, 0.01, 0.5, INTERVAL_S, 2 * INTERVAL_S)))

    def write(self, number: int) -> None:
        self.here.write(*self.values("source"), number=number)

    def trim(self, number: int) -> None:
        """Retention takes copied records, as far as the target has them."""
        log = self.here.source.log(TOPIC, number)
        past = min(log.end, max(log.start, self.here.target.log(REMOTE, number).end))
        log.delete_before(self.draw.randint(log.start, past))

    def trim_far(self, number: int) -> None:
        log = self.here.source.log(TOPIC, number)
        log.delete_before(self.draw.randint(log.start, log.end))
        self.broken.add(number)

    def crash(self, _: int) -> None:
        self.here.crash(self.here.copiers[-1])
        self.here.pass_by(self.draw.choice((0.0, 3.0)))
        self.begin()

    def fault(self, _: int) -> None:
        key = self.draw.choice((DELETE_RECORDS, LIST_OFFSETS, PRODUCE, FETCH, METADATA))
        cluster = self.draw.choice((self.here.source, self.here.target))
        cluster.fault(
            key,
            self.draw.choice(
                (
                    Fault(lost=True),
                    Fault(lost=True, done=True),
                    Fault(delay_s=3.0),
                    Fault(code=Code.NOT_LEADER_OR_FOLLOWER),
                )
            ),
            times=self.draw.randint(1, 4),
        )

    def move(self, number: int) -> None:
        cluster, topic = self.draw.choice(((self.here.source, TOPIC), (self.here.target, REMOTE)))
        cluster.move(topic, number, self.draw.choice((1, 2)))

    def write_as_application(self, number: int) -> None:
        self.here.target.write(REMOTE, *self.values("app"), partition=number)
        self.broken.add(number)

    def create_target_again(self, _: int) -> None:
        self.here.target.topics.delete(REMOTE)
        self.here.target.create(REMOTE, PARTITIONS)
        self.broken |= set(range(PARTITIONS))
        if self.draw.random() < 0.5:
            for number in range(PARTITIONS):
                self.here.target.write(REMOTE, *[b"app"] * self.draw.randint(1, 60), partition=number)

    def create_source_again(self, _: int) -> None:
        self.here.source.topics.delete(TOPIC)
        self.here.source.create(TOPIC, PARTITIONS)
        self.broken |= set(range(PARTITIONS))
        for number in range(PARTITIONS):
            if self.draw.random() < 0.7:
                self.here.write(*[b"new %d" % one for one in range(self.draw.randint(1, 80))], number=number)
                log = self.here.source.log(TOPIC, number)
                log.delete_before(self.draw.randint(0, log.end))

    def cut_source(self, number: int) -> None:
        log = self.here.source.log(TOPIC, number)
        log.cut(self.draw.randint(log.start, log.end))
        log.epoch += 1
        self.broken.add(number)

    def cut_target(self, number: int) -> None:
        log = self.here.target.log(REMOTE, number)
        log.cut(self.draw.randint(log.start, log.end))
        log.epoch += 1
        self.broken.add(number)


def same(here: World, number: int) -> bool:
    source, target = here.source.log(TOPIC, number), here.target.log(REMOTE, number)
    return (source.start, source.end, places(source)) == (target.start, target.end, places(target))


@pytest.mark.parametrize("seed", range(SEEDS))
def test_no_record_is_deleted_that_has_to_stay(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with world(seed, offsets="identical", partitions=PARTITIONS, brokers=2) as here:
        course = Course(here, seed, monkeypatch)
        course.run(30)
        here.source.faults.clear()
        here.target.faults.clear()
        whole = [one for one in range(PARTITIONS) if one not in course.broken]
        here.pass_by(100.0)
        told = f"{course.violations} {course.history} {here.held} {here.failures}"
        assert course.violations == [], told
        assert all(same(here, one) for one in whole), told
        assert not {one.partition for one in here.held} & set(whole), told
