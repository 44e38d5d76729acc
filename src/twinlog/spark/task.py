"""A Spark task: finds or starts the process's copiers, joins their leases, and returns counts of the copied records."""

from __future__ import annotations

import gc
import logging
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import astuple
from typing import Any

from twinlog.copier.copier_thread import CopierThread
from twinlog.errors.message_ids import id_of
from twinlog.lease.channel import LeaseTicket

log = logging.getLogger(__name__)

LOOK_S = 10.0
"""Seconds between two checks for the end of the lease, in case a copier fails to report it."""

PAUSE_S = 1.0
"""Pause before a failed copier is started again beside other copiers."""


class ProcessCopiers:
    """The copiers of this process, by flow and driver; in the bridge, by share and settings, too."""

    def __init__(self, *, bridge: bool = False) -> None:
        self._bridge = bridge
        self._copiers: dict[tuple[str, int, int, bytes], CopierThread] = {}
        self._frozen = False

    def join_lease(self, ticket: LeaseTicket, over: threading.Event, task: int = -1) -> CopierThread:
        """Have a copier join a lease, for Spark's `task`; a new copier if the old copier is missing or will end soon.

        Raises the errors of `CopierThread`. `over` is set once the copier has stopped working under the lease.
        """
        self.forget_ended()
        # In a task a query ends with the settings of its copiers; the bridge has no query.
        share, settings = (ticket.share, ticket.pickled) if self._bridge else (0, b"")
        key = ticket.flow, ticket.address.port, share, settings
        copier = self._copiers.get(key)
        while copier is None or not copier.join_lease(ticket, over, task):
            # kafka-python logs every lost connection as an error; a copier retries, and reports a fault that lasts.
            logging.getLogger("kafka").setLevel(logging.CRITICAL)
            copier = self._copiers[key] = CopierThread(ticket, bridge=self._bridge)
            gc.collect()
            if not self._frozen:
                # The collector need not look at modules. It never frees what is frozen, so later copiers are not.
                self._frozen = True
                gc.freeze()
        return copier

    def forget_ended(self) -> bool:
        """Forget the copiers that have ended; returns whether a copier is left."""
        self._copiers = {key: copier for key, copier in self._copiers.items() if not copier.ended.is_set()}
        return bool(self._copiers)


_copiers = ProcessCopiers()
"""Spark reuses its Python workers, so a later task finds the copiers again."""


def copy_under_lease(tickets: Sequence[LeaseTicket], every_s: float | None = None) -> Iterator[list[tuple[Any, ...]]]:
    """Copy each ticket's flow until the first lease is over; yields rows then, and every `every_s` seconds.

    There is a row for each partition with copied records: flow, lease, share, copier, and the fields of
    `copier.reporter.CopiedRange`. The other copiers continue as they do between any two leases, and join the next
    task. If the only copier of a task fails, its error is raised, so that Spark runs the task again in another worker.
    With several copiers, raising would end the healthy copiers.
    """
    over = threading.Event()
    copiers = [_copier(ticket, over) for ticket in tickets]
    joined = list(zip(tickets, copiers, strict=True))
    while all(copier.works_under(ticket.lease) for ticket, copier in joined):
        if not over.wait(every_s or LOOK_S) and every_s is not None:
            yield _rows(joined)
    yield _rows(joined)
    _leave(tickets, copiers)


def _rows(joined: Sequence[tuple[LeaseTicket, CopierThread]]) -> list[tuple[Any, ...]]:
    return [
        (ticket.flow, ticket.lease, ticket.share, copier.name, *astuple(one))
        for ticket, copier in joined
        for one in copier.reporter.ranges.take_ranges()
    ]


def _leave(tickets: Sequence[LeaseTicket], copiers: Sequence[CopierThread]) -> None:
    """End the task for all of its copiers."""
    broken = [copier.error for copier in copiers if copier.ended.is_set() and copier.error is not None]
    if broken and len(copiers) == 1:
        raise broken[0]
    for error in broken:
        log.warning(
            "%s: a copier ended, the other copiers of its task continue: %s", id_of(error, "TW-SPARK-18"), error
        )
    if broken:
        time.sleep(PAUSE_S)
    for ticket, copier in zip(tickets, copiers, strict=True):
        copier.leave_lease(ticket.lease)


def _copier(ticket: LeaseTicket, over: threading.Event) -> CopierThread:
    """The process's copier, which has joined the lease for this task of Spark."""
    from pyspark import TaskContext  # noqa: PLC0415 - the bridge has no use for Spark, and starts faster without it

    context = TaskContext.get()
    return _copiers.join_lease(ticket, over, -1 if context is None else context.taskAttemptId())
