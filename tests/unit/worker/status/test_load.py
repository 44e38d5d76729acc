"""When partitions move to another task: for a lasting imbalance that matters, and not for less."""

from __future__ import annotations

from harness.virtual.clock import VirtualClock
from twinlog.lease.progress import PartitionCounters, PartitionProgress, Report
from twinlog.model.types import TopicName, TopicPartition
from twinlog.worker.status.load import LASTS_S, LOOK_S, QUIET_S, LoadMonitor

MB = 1_000_000
PARTS = [TopicPartition(TopicName("t"), number) for number in range(4)]
ASSIGNMENT = (frozenset(PARTS[:2]), frozenset(PARTS[2:]))


def report(*sizes: int, busy: float = 0.9) -> Report:
    parts = tuple(
        PartitionProgress("t", number, 1, 1, 1, PartitionCounters(records=1, bytes=size, latency_ms=1))
        for number, size in enumerate(sizes)
    )
    return Report("a->b", "c1", 1, 0, 1.0, busy, partitions=parts)


def follow(load: LoadMonitor, clock: VirtualClock, seconds: float, *sizes: int, busy: float = 0.9) -> int:
    """Reports once a second; how often partitions should have moved."""
    times = 0
    for _ in range(int(seconds)):
        clock.now += 1
        load.add_report(report(*sizes, busy=busy))
        times += load.needs_move(ASSIGNMENT)
    return times


def test_an_imbalance_that_lasts_moves_partitions() -> None:
    clock = VirtualClock(100.0)
    load = LoadMonitor(clock.monotonic)
    assert follow(load, clock, LASTS_S - LOOK_S, 9 * MB, 9 * MB, MB, MB) == 0
    assert follow(load, clock, LASTS_S, 9 * MB, 9 * MB, MB, MB) == 1
    weights = load.weights()
    assert weights[PARTS[0]] == 9 * MB
    assert weights[PARTS[2]] == MB
    assert follow(load, clock, 3 * LASTS_S, 9 * MB, 9 * MB, MB, MB) == 3, "what could not be helped is tried again"


def test_what_is_even_idle_or_passes_moves_nothing() -> None:
    clock = VirtualClock(100.0)
    load = LoadMonitor(clock.monotonic)
    assert follow(load, clock, 100, 5 * MB, 5 * MB, 4 * MB, 4 * MB) == 0
    assert follow(load, clock, 100, 9 * MB, 9 * MB, MB, MB, busy=0.3) == 0
    for _ in range(5):
        assert follow(load, clock, 10, 9 * MB, 9 * MB, MB, MB) == 0
        assert follow(load, clock, 20, MB, MB, 9 * MB, 9 * MB) == 0


def test_a_partition_that_falls_quiet_weighs_nothing_soon() -> None:
    clock = VirtualClock(100.0)
    load = LoadMonitor(clock.monotonic)
    follow(load, clock, 60, 9 * MB, 9 * MB)
    follow(load, clock, 30, 0, 9 * MB)
    weights = load.weights()
    assert weights[PARTS[0]] < 2 * MB
    assert round(weights[PARTS[1]] / MB) == 9
    follow(load, clock, 300, 0, 9 * MB)
    assert set(load.weights()) == {PARTS[1]}
    load.retain_partitions({PARTS[0]})
    assert load.weights() == {}


def test_a_flow_is_quiet_when_its_copiers_have_little_to_do_for_long() -> None:
    clock = VirtualClock(100.0)
    load = LoadMonitor(clock.monotonic)
    follow(load, clock, QUIET_S - LOOK_S, MB, busy=0.1)
    assert not load.quiet
    follow(load, clock, 2 * LOOK_S, MB, busy=0.1)
    assert load.quiet
    follow(load, clock, LOOK_S, MB, busy=0.5)
    assert not load.quiet
    clock.now += 2 * QUIET_S
    load.needs_move(ASSIGNMENT)
    assert not load.quiet, "copiers that report nothing are not known to be quiet"
