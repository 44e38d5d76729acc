"""The memory of a whole copier under trouble: never above its budget, and everybody gets some of it.

Real copiers, between two clusters of this process, in virtual time.
"""

from __future__ import annotations

import gc
import logging
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from harness.virtual.faults import Fault
from harness.virtual.loop import VirtualSocket
from harness.virtual.requests import CREATE_TOPICS, FETCH, PRODUCE
from tests.unit.copier.changing import by
from tests.unit.copier.copied import REMOTE, TOPIC, World, world
from twinlog.copier.copier import Copier
from twinlog.copier.memory import CopierMemory
from twinlog.kafka.protocol.error_codes import Code
from twinlog.settings.transform import TransformSettings

KB, MB = 1 << 10, 1 << 20
BUDGET = 4 * MB
PARTITION_BYTES = 128 * KB
"""As much smaller than the budget as both are by default."""
VALUE = bytes(8 * KB)
PER_BATCH = 12


class Watched:
    """A world whose copier's memory is looked at each time that it changes."""

    def __init__(self, here: World, partitions: int) -> None:
        self.here = here
        self.partitions = partitions
        self.peak = 0
        self.held = 0
        self.written = [0] * partitions
        self.copier: Copier

    def fill(self, batches: int, *numbers: int) -> None:
        """Records in the source partitions, as many bytes in each."""
        for number in numbers or range(self.partitions):
            for _ in range(batches):
                first = self.written[number]
                self.written[number] += PER_BATCH
                self.here.write(*(b"%d:" % (first + at) + VALUE for at in range(PER_BATCH)), number=number)

    def begin(self) -> None:
        self.copier = self.here.begin(*(self.here.grant(number) for number in range(self.partitions)))

    def look(self) -> None:
        """Both by what the copier counts, and by what batches and rows that wait hold on to."""
        held: dict[int, int] = {}
        for part in self.copier.partitions.values():
            for append in part.queue.waiting():
                data = append.data
                whole = data.obj if isinstance(data, memoryview) else data
                held[id(whole)] = memoryview(whole).nbytes
            unit = part._appends._open.unit
            for routed in unit.rows if unit is not None else ():
                held[id(routed)] = routed.rows.nbytes
        self.peak = max(self.peak, self.copier.memory.used_bytes)
        self.held = max(self.held, sum(held.values()))

    def until(self, true: Callable[[], bool], within_s: float = 600.0) -> None:
        def looked() -> bool:
            self.look()
            return true()

        self.here.until(looked, within_s)

    def numbers(self, number: int) -> list[int]:
        """What is copied of a partition."""
        return [int(value.partition(b":")[0]) for value in self.here.copied(number) if value is not None]

    def copied(self, number: int) -> int:
        return self.here.target.log(REMOTE, number).end

    @property
    def done(self) -> bool:
        return all(self.copied(number) >= self.written[number] for number in range(self.partitions))

    def half(self) -> bool:
        return 2 * sum(map(self.copied, range(self.partitions))) >= sum(self.written)

    def assert_copied_once(self) -> None:
        for number in range(self.partitions):
            assert self.numbers(number) == list(range(self.written[number]))
        assert self.here.failures == []
        assert max(self.peak, self.held) <= BUDGET


@contextmanager
def watched(
    monkeypatch: pytest.MonkeyPatch,
    partitions: int,
    *,
    brokers: int = 1,
    transform: TransformSettings | None = None,
    **consumer: int,
) -> Iterator[Watched]:
    settings: dict[str, Any] = {
        "copier_memory_bytes": BUDGET,
        "consumer": {"max_partition_fetch_bytes": PARTITION_BYTES, **consumer},
        "transform": transform,
    }
    with world(partitions=partitions, brokers=brokers, **settings) as here:
        one = Watched(here, partitions)
        reserve = CopierMemory.reserve

        def looked(self: CopierMemory, node: int, most_bytes: int) -> int:
            size = reserve(self, node, most_bytes)
            one.peak = max(one.peak, self.used_bytes)
            return size

        monkeypatch.setattr(CopierMemory, "reserve", looked)
        yield one


def test_a_slow_target_is_waited_for_within_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    with watched(monkeypatch, 8) as one:
        one.fill(20)
        one.here.target.fault(PRODUCE, Fault(delay_s=0.4), times=100_000, topic=REMOTE)
        one.begin()
        one.until(one.half)
        # The budget is used, and each partition has its share.
        assert one.peak > BUDGET // 2
        copied = [one.copied(number) for number in range(8)]
        assert min(copied) > max(copied) / 4, copied
        one.until(lambda: one.done)
        one.assert_copied_once()


def test_many_backlogged_partitions_keep_within_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    with watched(monkeypatch, 60, brokers=2) as one:
        one.fill(6)
        one.here.target.fault(PRODUCE, Fault(delay_s=0.1), times=100_000, topic=REMOTE)
        one.begin()
        one.until(lambda: one.done)
        one.assert_copied_once()


def test_a_broker_that_keeps_no_session_is_asked_for_each_partition_in_its_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An answer has room for one batch, and a broker fills it in the order of the request."""
    with watched(monkeypatch, 6, fetch_max_bytes=PARTITION_BYTES) as one:
        one.fill(10)
        one.begin()
        one.until(lambda: sum(map(one.copied, range(6))) >= 12 * PER_BATCH)
        assert all(one.copied(number) for number in range(6)), list(map(one.copied, range(6)))
        one.until(lambda: one.done)
        one.assert_copied_once()


@pytest.mark.parametrize("how", ["no leader", "refused", "silent broker"])
def test_one_stuck_partition_holds_up_nobody(monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """It alone has more waiting than there is memory."""
    with watched(monkeypatch, 4, brokers=2) as one:
        here, stuck, moving = one.here, 1, (0, 2)
        one.fill(1)
        one.begin()
        one.until(lambda: one.done)
        if how == "no leader":
            here.target.move(REMOTE, stuck, None)
        elif how == "refused":
            here.target.codes(PRODUCE, REMOTE, *[Code.NOT_LEADER_OR_FOLLOWER] * 100_000, partition=stuck)
        else:
            # Broker 2 leads it, and all it leads is stuck with it.
            here.target.stop(2)
        one.fill(80, stuck)
        one.fill(40, *moving)
        one.until(lambda: all(one.copied(number) == one.written[number] for number in moving), 300)
        assert one.copied(stuck) == PER_BATCH
        for _ in range(5):
            one.fill(5, *moving)
            one.until(lambda: all(one.copied(number) == one.written[number] for number in moving), 60)
        assert one.peak <= BUDGET
        here.target.faults.clear()
        here.target.start(2)
        if how == "no leader":
            here.target.move(REMOTE, stuck, 2)
        one.until(lambda: one.done)
        one.assert_copied_once()


@pytest.mark.parametrize(
    "fault", [Fault(code=Code.REQUEST_TIMED_OUT), Fault(delay_s=25.0, lost=True)], ids=["refused", "no answer"]
)
def test_what_waits_for_a_topic_is_within_the_budget_and_holds_up_nobody(
    monkeypatch: pytest.MonkeyPatch, fault: Fault
) -> None:
    """What waits is dropped for others, and is read again. Its room is free at once, whoever looks for its topic
    then."""
    with watched(monkeypatch, 40, transform=by("but_the_first")) as one:
        here = one.here
        here.target.fault(CREATE_TOPICS, fault, times=100_000)
        one.fill(4, *range(1, 40))
        one.begin()
        here.pass_by(1)
        for _ in range(3):
            one.fill(5, 0)
            one.until(lambda: one.copied(0) == one.written[0], 60)
        assert max(one.peak, one.held) <= BUDGET
        here.target.faults.clear()
        one.until(lambda: here.target.topics.count("everything") == 40)
        one.until(lambda: all(here.target.log("everything", n).end >= one.written[n] for n in range(1, 40)))
        here.pass_by(10)
        for number in range(1, 40):
            values = here.target.log("everything", number).values()
            assert [int((value or b"").partition(b":")[0]) for value in values] == list(range(one.written[number]))
        assert one.numbers(0) == list(range(one.written[0]))
        assert [kind for kind, _ in here.events] == ["routed"]
        assert here.failures == []


@pytest.fixture
def uncollected(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Only what nothing refers to is freed: the collector hardly runs in a copier that does nothing but wait for room,
    and would not find a cycle that takes up the room. As there, kafka-python logs nothing; pytest would keep it."""
    caplog.set_level(logging.CRITICAL, "kafka")
    gc.disable()
    yield
    gc.enable()


def test_what_was_in_flight_when_a_connection_broke_is_free_once_it_is_copied(
    monkeypatch: pytest.MonkeyPatch, uncollected: None
) -> None:
    with watched(monkeypatch, 4, brokers=2) as one:
        here = one.here
        one.fill(20)
        here.target.fault(PRODUCE, Fault(lost=True, delay_s=0.1), times=12, topic=REMOTE)
        one.begin()
        one.until(lambda: one.done)
        assert not here.target.faults_left
        # And what waited for one that was refused, while its broker stays away.
        del here.loop.listening["south-2", 9092]
        here.target.fault(PRODUCE, Fault(lost=True), times=4, topic=REMOTE)
        one.fill(4)
        over = here.clock.now + 5
        one.until(lambda: here.clock.now >= over)
        for number in range(4):
            here.target.move(REMOTE, number, 1)
        one.until(lambda: one.done)
        one.assert_copied_once()
        here.crash(one.copier)
        here.pass_by(1)
        assert one.copier.memory.used_bytes == 0


def test_what_stays_where_others_are_routed_is_free_once_it_is_copied(
    monkeypatch: pytest.MonkeyPatch, uncollected: None
) -> None:
    """It was kept for a minute: once it had filled the budget, nothing was read for so long."""
    with watched(monkeypatch, 1, transform=by("every_other")) as one:
        one.fill(100)
        one.begin()
        one.until(lambda: 2 * one.copied(0) == one.written[0] == 2 * one.here.target.log("everything").end, 30)
        assert one.peak <= BUDGET
        one.here.crash(one.copier)
        one.here.pass_by(1)
        assert one.copier.memory.used_bytes == 0


def test_half_an_answer_is_free_once_its_connection_broke(monkeypatch: pytest.MonkeyPatch, uncollected: None) -> None:
    cut = 0

    def deliver(self: VirtualSocket, data: bytes) -> None:
        nonlocal cut
        if len(data) > PARTITION_BYTES // 2 and cut < 12:
            cut += 1
            whole(self, data[: len(data) // 2])
            self.break_off()
        else:
            whole(self, data)

    whole = VirtualSocket.deliver
    monkeypatch.setattr(VirtualSocket, "deliver", deliver)
    with watched(monkeypatch, 4, brokers=2) as one:
        one.fill(20)
        one.begin()
        one.until(lambda: one.done)
        assert cut == 12
        one.assert_copied_once()
        one.here.crash(one.copier)
        one.here.pass_by(1)
        assert one.copier.memory.used_bytes == 0


FAULTS = (
    (PRODUCE, Fault(lost=True)),
    (PRODUCE, Fault(lost=True, done=True)),
    (PRODUCE, Fault(delay_s=3.0)),
    (PRODUCE, Fault(throttle_s=2.0)),
    (PRODUCE, Fault(code=Code.NOT_LEADER_OR_FOLLOWER)),
    (FETCH, Fault(lost=True)),
    (FETCH, Fault(delay_s=3.0)),
    (FETCH, Fault(throttle_s=2.0)),
)


@pytest.mark.parametrize("course", range(3))
def test_whatever_happens_the_budget_is_kept(
    monkeypatch: pytest.MonkeyPatch, course: int, chance: random.Random
) -> None:
    with watched(monkeypatch, 12, brokers=3) as one:
        here = one.here
        one.fill(6)
        here.target.fault(PRODUCE, Fault(delay_s=0.1 * course), times=100_000, topic=REMOTE)
        one.begin()
        for _ in range(15):
            key, fault = chance.choice(FAULTS)
            cluster = here.target if key == PRODUCE else here.source
            cluster.faults.clear()
            cluster.fault(key, fault, times=chance.randint(1, 10))
            number = chance.randrange(12)
            place = chance.choice(((here.target, REMOTE), (here.source, TOPIC)))
            place[0].move(place[1], number, chance.choice((1, 2, 3)))
            one.fill(chance.randint(1, 4), number)
            over = here.clock.now + chance.choice((0.2, 1.0, 4.0))
            one.until(lambda: here.clock.now >= over)  # noqa: B023
        here.target.faults.clear()
        here.source.faults.clear()
        one.until(lambda: one.done)
        one.assert_copied_once()
