"""How many tasks a flow uses, and which partitions each of them copies."""

from __future__ import annotations

import logging
import threading
from collections.abc import Set

from twinlog.clock import SYSTEM, Clock
from twinlog.driver.flow_status import FlowStatus
from twinlog.driver.leases import Leases
from twinlog.driver.load import Load
from twinlog.lease.progress import Report
from twinlog.model.types import TopicPartition
from twinlog.plan.assignment import assign
from twinlog.plan.sharing import Demand
from twinlog.settings.flow import FlowSettings

log = logging.getLogger(__name__)

LOOK_S = 1.0
GROW_AFTER_S = 5.0


class Tasks:
    """The tasks of one flow; `attend` is called every moment by the flow's thread.

    `slots` is how many the flow may use at once, `tasks` with how many it begins, None for all of them: then their
    number follows the slots, else it grows when the copiers have been at their limit for long.
    """

    def __init__(
        self,
        settings: FlowSettings,
        status: FlowStatus,
        leases: Leases,
        *,
        slots: int,
        tasks: int | None,
        clock: Clock = SYSTEM,
    ) -> None:
        self.slots = max(1, min(slots, settings.tasks_max))
        self._clock = clock
        self._settings = settings
        self._flow_status = status
        self._leases = leases
        self._grows = tasks is not None
        self.count = self.slots if tasks is None else max(1, min(tasks, self.slots))
        self._load = Load(clock.monotonic)
        self._hungry = False
        self._replan = threading.Event()
        self._partitions: Set[TopicPartition] = frozenset()
        self._lease = 0
        self._calm_since = self._look_at = self._renew_at = self._clock.monotonic()

    # For other threads.

    def use_slots(self, slots: int) -> None:
        """Plan for another number of tasks: Spark's executors came or went, or another flow needs them more."""
        slots = max(1, min(slots, self._settings.tasks_max))
        if slots != self.slots:
            self.slots = slots
            self.count = min(self.count, slots) if self._grows else slots
            self._replan.set()

    def take(self, report: Report) -> None:
        """Count the bytes in a copier's report."""
        self._load.take(report)

    @property
    def demand(self) -> Demand:
        """How many slots the flow can use."""
        limit = max(1, min(self._settings.tasks_max, len(self._partitions) or self._settings.tasks_max))
        return Demand(limit, self._hungry and self.slots < limit, self._load.quiet)

    # For the flow's thread.

    def plan(self, partitions: Set[TopicPartition]) -> None:
        """Assign these partitions, each to the task that has it already where that is possible."""
        self._partitions = partitions
        self._load.keep(partitions)
        self._deal()

    def attend(self) -> None:
        """Follow the slots and the load, and renew the lease when it is over."""
        now = self._clock.monotonic()
        if self._replan.is_set():
            self._replan.clear()
            self._deal()
        if now >= self._look_at:
            self._look_at = now + LOOK_S
            self._look(now)
        if self._load.turn(self._leases.assignment()):
            self._deal(level=True)
        if self._leases.lease != self._lease or self._leases.unclaimed:
            # A lease lasts from the moment that copiers hold it; Spark may take long to place the tasks.
            self._lease, self._renew_at = self._leases.lease, now + self._settings.lease_seconds
        elif now >= self._renew_at:
            self._leases.renew()

    def _look(self, now: float) -> None:
        """Take one more task when the copiers have been at their limit for long."""
        if not self._flow_status.overloaded():
            self._hungry, self._calm_since = False, now
            return
        if now - self._calm_since <= GROW_AFTER_S:
            return
        self._hungry = self.count >= self.slots
        if self._hungry or self.count >= len(self._partitions):
            return
        self.count += 1
        self._calm_since = now
        log.info("%s: one more task, %d now: the copiers are at their limit", self._settings.name, self.count)
        self._deal()

    def _deal(self, *, level: bool = False) -> None:
        before = self._leases.assignment()
        assignment = assign(self._partitions, self.count, weights=self._load.weights(), before=before, level=level)
        if assignment == before and self._leases.lease:
            return
        lease = self._leases.plan(assignment)
        if level:
            moved = sum(len(share - old) for share, old in zip(assignment, before, strict=False))
            log.info("%s: %d partitions move: what tasks carry was uneven", self._settings.name, moved)
        log.info(
            "%s: lease %d: %d partitions in %d task%s",
            *(self._settings.name, lease, len(self._partitions), len(assignment), "" if len(assignment) == 1 else "s"),
        )
