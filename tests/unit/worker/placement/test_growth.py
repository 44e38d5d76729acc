"""When a flow gets another task: for a backlog that is worth a process, and no longer than the load lasts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from harness.virtual.clock import VirtualClock
from twinlog.lease.leases import Leases
from twinlog.lease.progress import PartitionCounters, PartitionProgress, Report
from twinlog.model.types import TopicName, TopicPartition
from twinlog.spark.warm_up import SETTINGS
from twinlog.worker.flow_tasks import FlowTasks
from twinlog.worker.placement.growth import AT_LIMIT_S, TaskGrowth
from twinlog.worker.status.backlog import Backlog
from twinlog.worker.status.flow_status import FlowStatus
from twinlog.worker.status.load import QUIET_S

HOUR = Backlog(busy=0.7, lag=36_000_000, elsewhere=27_000_000, records_per_s=10_000)
"""An hour of work, evenly in four partitions, on a copier that waits for brokers for a third of the time."""

CALM = Backlog(busy=0.1, lag=10, elsewhere=5, records_per_s=1_000)
PARTS = frozenset(TopicPartition(TopicName("t"), number) for number in range(4))


class Growing:
    """A number of tasks that is chosen once a second."""

    def __init__(self, first: int = 1, *, cores: int = 2) -> None:
        self.clock = VirtualClock()
        self.growth = TaskGrowth(first, cores=cores, clock=self.clock)
        self.count = first

    def run(self, seconds: float, backlog: Backlog, *, most: int = 4, quiet: bool = False) -> int:
        for _ in range(int(seconds)):
            self.clock.now += 1
            self.count = self.growth.choose_count(self.count, most, backlog, quiet=quiet)
        return self.count


def test_a_backlog_gets_a_second_task_within_two_looks() -> None:
    assert Growing().run(1, HOUR) == 1
    assert Growing().run(2, HOUR) == 2


@pytest.mark.parametrize(
    "backlog",
    [
        pytest.param(replace(HOUR, lag=90_000, elsewhere=60_000), id="nine seconds of work"),
        pytest.param(replace(HOUR, busy=0.4), id="brokers or the network are the bottleneck"),
        pytest.param(replace(HOUR, elsewhere=1_000_000), id="a single partition"),
        pytest.param(CALM, id="a thousand records a second"),
        pytest.param(Backlog(), id="nothing"),
    ],
)
def test_a_second_task_that_gains_nothing_is_not_added(backlog: Backlog) -> None:
    assert Growing().run(600, backlog) == 1


def test_a_backlog_for_a_moment_adds_no_task() -> None:
    growing = Growing()
    for _ in range(20):
        growing.run(1, HOUR)
        growing.run(1, CALM)
    assert growing.count == 1


def test_a_backlog_alone_adds_tasks_up_to_the_number_of_cores() -> None:
    assert Growing(cores=2).run(600, HOUR) == 2
    assert Growing(cores=3).run(600, HOUR) == 3
    assert Growing(cores=8).run(600, HOUR) == 4, "there are as many slots"
    assert Growing(cores=1).run(600, HOUR) == 1


def test_copiers_at_their_limit_get_tasks_for_any_lag_and_beyond_the_cores() -> None:
    growing = Growing(cores=1)
    busy = Backlog(busy=0.9, lag=1, elsewhere=0, records_per_s=10_000)
    assert growing.run(AT_LIMIT_S, busy) == 1
    assert growing.run(1, busy) == 2
    assert growing.run(600, busy) == 4
    assert growing.growth.at_limit
    growing.run(1, CALM)
    assert not growing.growth.at_limit


def test_a_quiet_flow_returns_to_its_first_number_of_tasks() -> None:
    growing = Growing(first=2, cores=4)
    assert growing.run(60, HOUR) == 4
    assert growing.run(60, CALM) == 4, "the load may come back"
    assert growing.run(1, CALM, quiet=True) == 2
    growing.count = 1
    assert growing.run(1, CALM, quiet=True) == 1, "Spark has fewer slots"


class Flow:
    """The tasks of a flow that begins with `tasks` of four slots; its copiers report once a second."""

    def __init__(self, tasks: int | None) -> None:
        self.clock = VirtualClock()
        self.status = FlowStatus(self.clock.monotonic)
        self.leases = Leases("a->b", lambda partitions: [], lambda kind, text: None, lambda kind, text: None)
        settings = replace(SETTINGS, tasks_max=4)
        self.tasks = FlowTasks(settings, self.status, self.leases, slots=4, tasks=tasks, cores=2, clock=self.clock)
        self.tasks.plan(PARTS)
        self.status.plan(PARTS)
        self.at = 0

    def run(self, seconds: float, *, busy: float, rate: int, lag: int) -> int:
        """Copy at `rate` for so many seconds with a constant lag; returns the number of tasks of the plan."""
        for _ in range(int(seconds)):
            self.clock.now += 1
            self.at += rate // 4
            counters = PartitionCounters(rate // 4, rate // 4 * 1000, 1)
            parts = tuple(
                PartitionProgress("t", part.partition, self.at, self.at, self.at + lag // 4, counters) for part in PARTS
            )
            report = Report("a->b", "c", 1, 0, 1.0, busy, partitions=parts)
            self.status.add_report(report)
            self.tasks.add_report(report)
            self.tasks.poll_tasks()
        return len(self.leases.assignment())


@pytest.fixture
def flow() -> Iterator[Flow]:
    flow = Flow(1)
    yield flow
    flow.leases.stop(0)


def test_the_plan_follows_the_backlog_and_its_end(flow: Flow) -> None:
    assert flow.run(60, busy=0.1, rate=1_000, lag=20) == 1
    assert flow.run(5, busy=0.7, rate=600_000, lag=9_000_000) == 2
    assert sorted(map(len, flow.leases.assignment())) == [2, 2]
    assert flow.run(60, busy=0.4, rate=600_000, lag=9_000_000) == 2
    assert flow.run(QUIET_S / 2, busy=0.1, rate=1_000, lag=20) == 2
    assert flow.run(QUIET_S, busy=0.1, rate=1_000, lag=20) == 1
    assert flow.leases.assignment() == (PARTS,)


def test_a_flow_of_a_cluster_keeps_all_its_tasks() -> None:
    flow = Flow(None)
    assert flow.run(2 * QUIET_S, busy=0.01, rate=1_000, lag=20) == 4
    assert not flow.tasks.demand.hungry
    flow.leases.stop(0)
