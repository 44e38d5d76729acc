"""A flow with its driver and its copiers, and threads in Spark's place: leases are granted and workers lost at will."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from harness.wait import wait_for
from twinlog.copier.copier_thread import CopierThread
from twinlog.errors import TwinlogError
from twinlog.lease.channel import Channel, LeaseTicket, greet_as_planner
from twinlog.lease.lease_server import LeaseServer, QueryFlows
from twinlog.lease.ledger import Assignment
from twinlog.lease.messages import NextRequest, NextResponse, SharesRequest, SharesResponse, require
from twinlog.settings.flow import FlowSettings
from twinlog.worker.flow.flow import FlowRunner

START_S = 60.0
BETWEEN_LEASES_S = 0.25
"""What Spark needs between two micro-batches."""

ATTEMPTS = 50


class Worker:
    """In place of one of Spark's Python workers: keeps a copier between tasks."""

    def __init__(self) -> None:
        self.copier_thread: CopierThread | None = None
        self.copier_threads = 0
        self.errors: list[TwinlogError] = []

    def run(self, ticket: LeaseTicket) -> None:
        """One task: as `twinlog.spark.task` does it, tried again and again (Spark's query ends after four times)."""
        for _ in range(ATTEMPTS):
            try:
                self._hold(ticket)
            except TwinlogError as error:
                self.errors.append(error)
            else:
                return

    def _hold(self, ticket: LeaseTicket) -> None:
        over = threading.Event()
        while self.copier_thread is None or not self.copier_thread.join_lease(ticket, over):
            self.copier_thread = CopierThread(ticket)
            self.copier_threads += 1
        over.wait()
        if self.copier_thread.error is not None:
            raise self.copier_thread.error

    @property
    def in_lease(self) -> bool:
        """Whether its copier works under a lease now."""
        return self.copier_thread is not None and self.copier_thread._in_lease

    def lose_line(self) -> CopierThread:
        """Cut its copier's line to the driver; returns the copier."""
        lost = self.copier_thread
        assert lost is not None
        lost._line.shut_down()
        return lost


class FlowWithoutSpark:
    """Runs one flow; use as a context manager. `place(number)` is which worker takes a share of the next lease.

    `flows` are all flows of the file that it is in.
    """

    def __init__(self, settings: FlowSettings, workers: int = 1, flows: Sequence[FlowSettings] = ()) -> None:
        self.settings = settings
        self.workers = [Worker() for _ in range(workers)]
        self.place: Callable[[int], int] = lambda number: number % workers
        self.runner = FlowRunner(
            settings, slots=workers, tasks=1, until_caught_up=False, wake=lambda: None, flows=flows or (settings,)
        )
        self._lease_server = LeaseServer("127.0.0.1", {settings.name: self.runner.leases})
        self._lease_server.bundles[settings.name] = QueryFlows(settings.name, [self.runner.leases])
        self._stopping = threading.Event()
        self._planner = threading.Thread(target=self._plan, name="planner", daemon=True)

    def __enter__(self) -> FlowWithoutSpark:
        self.runner.start()
        assert self.runner.ready.wait(START_S)
        self._planner.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """A clean stop; nothing happens the second time."""
        if self._stopping.is_set():
            return
        self._stopping.set()
        self.runner.stop(5.0)
        self._planner.join(60)
        self._lease_server.close()
        self.runner.close()

    def in_lease(self) -> list[Worker]:
        """The workers whose copiers work under a lease now; waits until there is one."""
        return wait_for(
            lambda: [worker for worker in self.workers if worker.in_lease],
            60,
            "a copier is in the lease",
            every_s=0.005,
        )

    def use_tasks(self, count: int) -> None:
        """Have the driver share all partitions between so many tasks, also after a copier was lost."""
        self.runner.use_slots(count)
        self.runner._tasks.count = count

    def lose_copier(self, worker: Worker) -> None:
        """Cut the line of a worker's copier; returns once another copier has the share.

        The share goes to a copier of the same worker, or by a later lease to any worker.
        """
        lost = worker.lose_line()
        assert lost.ended.wait(60), "it stops"
        wait_for(
            lambda: worker.copier_thread is not lost or self.runner.leases.lease > lost._lease,
            60,
            "another copier follows",
        )
        wait_for(lambda: not self.runner.leases.unclaimed, 60, "the lease is claimed again")

    def renew(self, assignment: Assignment | None = None) -> int:
        """End the lease; returns the next one's number once it is claimed whole."""
        lease = self.runner.leases.renew_lease(assignment)
        wait_for(lambda: not self.runner.leases.unclaimed, 60, f"lease {lease} is claimed", every_s=0.005)
        return lease

    def _plan(self) -> None:
        """What Spark's micro-batches do."""
        line = Channel.open(self._lease_server.address)
        greet_as_planner(line, self.settings.name)
        lease = 0
        while not self._stopping.is_set():
            line.send(NextRequest(lease))
            following = require(line.receive(), NextResponse).batch
            if following == lease:
                continue
            time.sleep(BETWEEN_LEASES_S)
            lease = following
            line.send(SharesRequest())
            shares = [share for (share,) in require(line.receive(), SharesResponse).tasks]
            tasks = [
                threading.Thread(
                    target=self.workers[self.place(share.number)].run,
                    args=(LeaseTicket.of(self.settings, self._lease_server.address, share.lease, share.number),),
                    daemon=True,
                )
                for share in shares
            ]
            for task in tasks:
                task.start()
            for task in tasks:
                task.join()
        line.close()
