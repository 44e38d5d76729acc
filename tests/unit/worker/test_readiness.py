"""When a process may be given flows."""

from __future__ import annotations

import pytest

from harness.virtual.clock import VirtualClock
from twinlog.worker.read_ahead import READ_AFTER_S, WARM_AFTER_S, Readiness


class Process:
    """A process that looks whether it is ready; `has_read` and `works` are what it sees."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.readiness = Readiness(self.clock)
        self.works = self.has_read = False

    def ready(self, engine: str | None = "first") -> bool:
        return self.readiness.check_engine(engine, works=self.works, has_read=lambda: self.has_read)


@pytest.fixture
def process() -> Process:
    return Process()


def test_without_spark_it_is_not_ready(process: Process) -> None:
    process.works = process.has_read = True
    assert not process.ready(None)
    assert process.ready()
    assert not process.ready(None)


def test_spark_is_warm_once_it_was_warmed_up(process: Process) -> None:
    process.has_read = True
    assert not process.ready()
    process.readiness.warmed_up("another")
    assert not process.ready()
    process.readiness.warmed_up("first")
    assert process.ready()


def test_or_once_it_has_run_for_long(process: Process) -> None:
    process.has_read = True
    assert not process.ready()
    process.clock.now += WARM_AFTER_S
    assert not process.ready()
    process.clock.now += 0.1
    assert process.ready()


def test_a_cluster_that_is_away_keeps_it_only_for_a_while(process: Process) -> None:
    process.works = True
    assert not process.ready()
    process.clock.now += READ_AFTER_S + 0.1
    assert process.ready()


def test_it_stays_ready_until_another_spark_takes_the_place_of_this_one(process: Process) -> None:
    process.works = process.has_read = True
    assert process.ready()
    process.works = process.has_read = False
    assert process.ready()
    assert not process.ready("second")
