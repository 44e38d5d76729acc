"""The tasks of a flow: their number, the partitions of each task, and the grants with which a copier begins."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Mapping, Sequence, Set

from twinlog.clock import LONG_AGO, SYSTEM, Clock
from twinlog.lease.fencing import TransactionalIds
from twinlog.lease.leases import Leases
from twinlog.lease.ledger import Assignment
from twinlog.lease.messages import Grant
from twinlog.lease.progress import Report
from twinlog.mirror.offsets.map_store import MapStore
from twinlog.mirror.offsets.position_store import PositionStore
from twinlog.mirror.offsets.positions import Position
from twinlog.mirror.offsets.starts import AT_FIRST
from twinlog.model.amounts import counted
from twinlog.model.types import TopicPartition
from twinlog.settings.flow import FlowSettings
from twinlog.worker.placement.growth import TaskGrowth
from twinlog.worker.placement.tasks import SlotDemand, assign_partitions
from twinlog.worker.retrying import FlowRetrier
from twinlog.worker.status.flow_status import FlowStatus
from twinlog.worker.status.load import LoadMonitor
from twinlog.worker.topics.topic_refresh import TopicRefresh

log = logging.getLogger(__name__)


FIRST, FIRST_TRANSFORMING = 1, 2
"""The number of tasks with which a flow begins locally.

A task is a single thread, and a transform keeps it from moving bytes.
"""

LOOK_S = 1.0
VACANT_S = 0.2
"""The time for which a lost copier's task may claim its share again; then other tasks get the partitions."""

GRANT_S = 3.0
"""The longest wait for the grants of a lost copier's partitions if Spark has fewer slots; then the lease ends."""

DRAIN_S = 8.0
"""The time in which the copiers of a leaving executor have to release their partitions."""


def first_tasks(settings: FlowSettings, *, local: bool) -> int | None:
    """The number of tasks with which a flow begins, `tasks` of `FlowTasks`."""
    if not local:
        return None
    return FIRST if settings.transform is None else FIRST_TRANSFORMING


class FlowTasks:
    """The tasks of a flow; `poll_tasks` is called every moment by the flow's thread.

    `slots` is the number of tasks that the flow may use at once. `tasks` is the number with which it begins, or None.
    With None, the number of tasks follows the slots. Otherwise it follows the load, see `TaskGrowth`; `cores` are the
    cores of this machine.
    """

    def __init__(
        self,
        settings: FlowSettings,
        status: FlowStatus,
        leases: Leases,
        *,
        slots: int,
        tasks: int | None,
        cores: int | None = None,
        clock: Clock = SYSTEM,
    ) -> None:
        self.slots = max(1, min(slots, settings.tasks_max))
        self._clock = clock
        self._settings = settings
        self._flow_status = status
        self._leases = leases
        self._grows = tasks is not None
        self.count = self.slots if tasks is None else max(1, min(tasks, self.slots))
        self._growth = TaskGrowth(self.count, cores=cores or os.cpu_count() or 1, clock=clock)
        self._load = LoadMonitor(clock.monotonic)
        self._hungry = False
        self._replan = threading.Event()
        self._leaving: frozenset[int] = frozenset()
        self._closed: frozenset[int] = frozenset()
        """The empty shares of lost or leaving executors; other shares have their partitions."""
        self._drain_by: float | None = None
        self._granted_by = LONG_AGO
        self._partitions: Set[TopicPartition] = frozenset()
        self._lease = 0
        self._look_at = self._renew_at = self._clock.monotonic()

    # For other threads.

    def use_slots(self, slots: int) -> None:
        """Plan for another number of tasks: Spark's executors have changed, or another flow needs them more."""
        slots = max(1, min(slots, self._settings.tasks_max))
        if slots != self.slots:
            self.slots = slots
            self.count = min(self.count, slots) if self._grows else slots
            self._replan.set()

    def exclude_tasks(self, tasks: frozenset[int]) -> None:
        """Stop copying in these tasks of Spark's: their executors will end soon."""
        self._leaving = tasks

    def add_report(self, report: Report) -> None:
        """Count the bytes in a copier's report."""
        self._load.add_report(report)

    @property
    def demand(self) -> SlotDemand:
        """The number of slots that the flow can use."""
        limit = max(1, min(self._settings.tasks_max, len(self._partitions) or self._settings.tasks_max))
        return SlotDemand(limit, self._hungry and self.slots < limit, self._load.quiet)

    # For the flow's thread.

    def plan(self, partitions: Set[TopicPartition]) -> None:
        """Assign these partitions, each to its present task if possible."""
        self._partitions = partitions
        self._load.retain_partitions(partitions)
        self._divide()

    def poll_tasks(self) -> None:
        """Follow the slots and the load, and renew the lease at its end."""
        now = self._clock.monotonic()
        self._hand_over(now)
        if self._drain_by is not None:
            return
        if self._replan.is_set() and self._may_divide_anew(now):
            self._replan.clear()
            self._divide()
        if now >= self._look_at:
            self._look_at = now + LOOK_S
            self._look()
        if self._load.needs_move(self._leases.assignment()):
            self._divide(level=True)
        if self._leases.lease != self._lease or self._leases.unclaimed or self._closed:
            # A lease lasts from the moment at which copiers hold it; Spark may take long to place the tasks. Spark may
            # be unaware of a lost copier for a while, and would leave its task running at the end of the lease.
            self._lease, self._renew_at = self._leases.lease, now + self._settings.lease_seconds
        elif now >= self._renew_at:
            self._leases.renew_lease()

    def _hand_over(self, now: float) -> None:
        """Give the shares of lost or leaving executors to other tasks.

        This happens within the lease, independent of Spark's scheduling. An executor that leaves by itself waits for
        its tasks, and these end with the lease.
        """
        if self._drain_by is not None:
            # A copier that has lost its share together with the lease would get its next grant only in its next task.
            if now >= self._drain_by or (self._leases.drained(self._closed) and self._leases.fully_granted):
                self._end_drained()
            return
        leaving = self._leases.shares_of(self._leaving)
        closed = leaving | self._leases.vacant(VACANT_S)
        if closed == self._closed:
            return
        opened, lost, self._closed = self._closed - closed, closed - self._closed, closed
        before = self._leases.assignment()
        if leaving:
            self._drain_by = now + DRAIN_S
            count = sum(len(before[number]) for number in leaving)
            self._log_move(count, "Spark decommissions their executors")
            if len(closed) >= len(before):
                self._leases.retire_shares(leaving)
                return
        elif lost:
            count = sum(len(before[number]) for number in lost)
            log.warning(
                "TW-SPARK-13: %s: the copier of %s is gone, other copiers take over",
                *(self._settings.name, counted(count, "partition")),
            )
            self._granted_by = now + GRANT_S
        self._divide(level=bool(opened), same_lease=bool(closed))

    def _may_divide_anew(self, now: float) -> bool:
        """Whether the lease may end for another number of tasks: all partitions of lost tasks are granted.

        Otherwise these partitions would wait until Spark has ended and begun all tasks.
        """
        if self._leases.vacant(0.0) - self._closed:
            return False
        if now < self._granted_by and not self._leases.fully_granted:
            return False
        self._granted_by = LONG_AGO
        return True

    def _end_drained(self) -> None:
        """Begin a lease in which the tasks of the leaving executors end, and tasks on other executors replace them."""
        self._drain_by = None
        self._replan.clear()
        before = self._open_shares()
        self._closed = frozenset()
        self._log(
            self._leases.renew_lease(
                assign_partitions(self._partitions, self.count, weights=self._load.weights(), before=before)
            )
        )

    def _open_shares(self) -> Assignment:
        return tuple(share for number, share in enumerate(self._leases.assignment()) if number not in self._closed)

    def _look(self) -> None:
        """Add a task for a backlog, or end the added tasks of a quiet flow."""
        most = min(self.slots, len(self._partitions))
        count = self._growth.choose_count(self.count, most, self._flow_status.backlog(), quiet=self._load.quiet)
        self._hungry = self._growth.at_limit and self.count >= self.slots
        if not self._grows or count == self.count:
            return
        if count > self.count:
            log.info("%s: a task was added for the backlog, %d now", self._settings.name, count)
        else:
            log.info("%s: the load is low, the flow has %s again", self._settings.name, counted(count, "task"))
        self.count = count
        self._divide()

    def _divide(self, *, level: bool = False, same_lease: bool = False) -> None:
        before = self._leases.assignment()
        assignment = self._assign(before, level=level, same_lease=same_lease)
        if assignment == before and self._leases.lease:
            return
        lease = self._leases.plan(assignment)
        if level:
            moved = sum(len(share - old) for share, old in zip(assignment, before, strict=False))
            self._log_move(moved, "what tasks carry was uneven")
        self._log(lease)

    def _log_move(self, count: int, why: str) -> None:
        log.info(
            "%s: %s %s: %s", self._settings.name, counted(count, "partition"), "moves" if count == 1 else "move", why
        )

    def _log(self, lease: int) -> None:
        partitions, tasks = counted(len(self._partitions), "partition"), counted(len(self._leases.assignment()), "task")
        log.info("%s: lease %d: %s in %s", self._settings.name, lease, partitions, tasks)

    def _assign(self, before: Assignment, *, level: bool, same_lease: bool) -> Assignment:
        """A share for each task; while the same lease continues, closed shares stay empty."""
        weights, count = self._load.weights(), min(self.count, len(self._partitions))
        open_shares = self._open_shares()
        if not open_shares or (count != len(before) and not same_lease):
            return assign_partitions(
                self._partitions, count, weights=weights, before=open_shares or before, level=level
            )
        divided = iter(
            assign_partitions(self._partitions, len(open_shares), weights=weights, before=open_shares, level=level)
        )
        return tuple(
            frozenset() if number in self._closed else next(divided, frozenset()) for number in range(len(before))
        )


class FlowGrants:
    """Reads the data of grants from the target; `retry` reads until the target answers, or the flow is stopped.

    `remote()` has each copied source partition with its remote partition, and may return another object each time.
    `is_held(partition)` is whether a partition is held.
    """

    def __init__(
        self,
        ids: TransactionalIds | None,
        retry: FlowRetrier,
        positions: PositionStore,
        maps: MapStore,
        topics: TopicRefresh,
        remote: Callable[[], Mapping[TopicPartition, TopicPartition]],
        is_held: Callable[[TopicPartition], bool],
    ) -> None:
        self._ids = ids
        self._retry = retry
        self._positions = positions
        self._maps = maps
        self._topics = topics
        self._remote = remote
        self._is_held = is_held

    def make_grants(self, partitions: Sequence[TopicPartition]) -> list[Grant]:
        """The grants that a copier needs to begin; waits until the positions are read from the target."""
        # Fence lost copiers first: only then is it certain which of their positions count.
        if self._ids is not None and not self._retry(self._ids.fence_lost, "fence a lost copier"):
            return []
        positions: dict[TopicPartition, Position] = {}
        if not self._retry(lambda: positions.update(self._positions.read(partitions)), "read positions"):
            return []
        if not self._retry(self._maps.read, "read where records were copied to"):
            return []
        tips, remote = self._maps.tips(partitions), self._remote()
        return [
            Grant(
                source=part,
                remote=remote[part],
                topic_id=self._topics.topic_id(part.topic),
                max_batch_bytes=self._topics.limit(remote[part].topic),
                position=self._topics.position(part, remote[part].topic, positions.get(part)),
                tip=tips.get(part),
                heartbeats=self._topics.is_heartbeats(part.topic),
                # If the topic has a new name and its old position is ignored, all records are copied again.
                begin=AT_FIRST if part in positions else self._topics.starts.get_start(part),
                on_trial=self._is_held(part),
            )
            for part in partitions
            if part in remote
        ]
