"""The bridge: a process beside the driver that copies while Spark lacks a task for a flow.

Spark needs seconds from its start to its first task, as long again after its JVM was lost, and an executor may have to
be found first. The bridge imports the copier alone, so it copies within a second. A copier of the bridge claims a share
of a lease as a copier of a task does; a task that comes later takes the share, and both hand over the partitions as two
tasks do.

Run as `python -m twinlog.spark.bridge FD`, where FD is a pipe from which the process reads tickets. The process ends
with its pipe, and after an idle minute.
"""

from __future__ import annotations

import gc
import logging
import sys
import threading
from multiprocessing.connection import Connection

from twinlog.copier.copier_thread import CopierThread
from twinlog.errors import TwinlogError
from twinlog.lease.channel import LeaseTicket

log = logging.getLogger(__name__)

IDLE_S = 60.0
"""The bridge ends when its last copier ended so many seconds ago."""

LOOK_S = 1.0


class BridgeCopiers:
    """The copiers of this process, by flow, driver and share."""

    def __init__(self) -> None:
        self._copiers: dict[tuple[str, int, int], CopierThread] = {}

    def join_lease(self, ticket: LeaseTicket) -> None:
        """Have a copier claim a share; a new copier if the old copier is missing or will end soon."""
        key = ticket.flow, ticket.address.port, ticket.share
        copier = self._copiers.get(key)
        while copier is None or not copier.join_lease(ticket, threading.Event()):
            copier = self._copiers[key] = CopierThread(ticket, bridge=True)

    def forget_ended(self) -> bool:
        """Forget the copiers that have ended; returns whether a copier is left."""
        self._copiers = {key: copier for key, copier in self._copiers.items() if not copier.ended.is_set()}
        return bool(self._copiers)


def main() -> None:
    """Copy for each ticket, until the pipe ends or the process is idle for a minute."""
    logging.getLogger("kafka").setLevel(logging.CRITICAL)
    line = Connection(int(sys.argv[1]), writable=False)
    copiers = BridgeCopiers()
    gc.collect()
    gc.freeze()
    idle_s = 0.0
    while idle_s < IDLE_S:
        try:
            if not line.poll(LOOK_S):
                idle_s = 0.0 if copiers.forget_ended() else idle_s + LOOK_S
                continue
            ticket = LeaseTicket.unpack(line.recv())
        except (EOFError, OSError):
            return
        idle_s = 0.0
        try:
            copiers.join_lease(ticket)
        except (TwinlogError, OSError, EOFError) as error:
            # The driver has gone, or asks again.
            log.debug("the bridge does not copy %s: %r", ticket.flow, error)


if __name__ == "__main__":
    main()
