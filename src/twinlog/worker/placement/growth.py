"""Decides how many tasks a flow of a local Spark uses: more for a backlog, and the first number again without load."""

from __future__ import annotations

from twinlog.clock import SYSTEM, Clock
from twinlog.worker.status.backlog import Backlog

AT_LIMIT = 0.8
"""A copier that computes for more than this share of the time is at its limit."""

AT_LIMIT_S = 5.0
"""A task is added once the copiers have been at their limit for this time."""

AT_WORK = 0.5
"""A copier that computes for more than this share of the time is a bottleneck of a backlog: while it computes, brokers
wait for it, and while it waits, a core is idle. Below this share, brokers or the network are the bottleneck."""

WORTH_S = 10.0
"""The least backlog, in seconds at the present rate, for which a task is added before the copiers are at their limit.

A Python process takes a second to start, a second of processor time, and some 90 MB. On two cores a second task copies
17 to 20 % more records a second, from 2.5 s after the begin of the backlog on. So a backlog of 10 s ends 1.1 s earlier,
and a backlog of 5 s 0.4 s earlier, which is worth no process."""

BACKLOG_S = 1.5
"""The time for which the copiers have had this backlog when a task is added: more than a single report."""

ELSEWHERE = 0.2
"""At least this share of the backlog must be outside of the partition with the largest lag: a partition has a single
task."""


class TaskGrowth:
    """The number of tasks of a flow that begins with `first` tasks on a machine with `cores` cores.

    `choose_count` is called about once a second. Below `AT_LIMIT`, copiers share the cores with brokers and other
    programs; so a backlog alone adds no task beyond the number of cores.
    """

    def __init__(self, first: int, *, cores: int, clock: Clock = SYSTEM) -> None:
        self.at_limit = False
        """Whether all copiers have been at their limit for long."""
        self._first = first
        self._cores = cores
        self._now = clock.monotonic
        self._calm_since = self._light_since = self._now()

    def choose_count(self, count: int, most: int, backlog: Backlog, *, quiet: bool) -> int:
        """The number of tasks from now on: at most one more than `count`, and at most `most`.

        A `quiet` flow has had nearly idle copiers for long, and returns to its first number of tasks.
        """
        now = self._now()
        busy = backlog.busy > AT_LIMIT and backlog.lag > 0
        behind = _is_worth_a_task(backlog)
        if not busy:
            self._calm_since = now
        if not behind:
            self._light_since = now
        self.at_limit = now - self._calm_since > AT_LIMIT_S
        if self.at_limit or (now - self._light_since >= BACKLOG_S and count < self._cores):
            if count < most:
                self._calm_since = self._light_since = now
                return count + 1
        elif quiet and not (busy or behind):
            # `quiet` is some seconds old: a backlog may have begun meanwhile.
            return min(count, self._first)
        return count


def _is_worth_a_task(backlog: Backlog) -> bool:
    return (
        backlog.busy > AT_WORK
        and backlog.lag > WORTH_S * backlog.records_per_s
        and backlog.elsewhere >= ELSEWHERE * backlog.lag
    )
