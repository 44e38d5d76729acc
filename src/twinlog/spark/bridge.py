"""The bridge: a process beside the driver that copies while Spark lacks a task for a flow.

Spark needs seconds from its start to its first task, as long again after its JVM was lost, and an executor may have to
be found first. The bridge imports the copier alone, so it copies within a second. A copier of the bridge claims a share
of a lease as a copier of a task does; a task that comes later takes the share, and both hand over the partitions as two
tasks do.

Run as `python -m twinlog.spark.bridge TICKETS LOG`. Both are pipes: from the first the process reads tickets, to the
second it writes the records of its log. The process ends with the first pipe, and after an idle minute.
"""

from __future__ import annotations

import copy
import logging
import os
import sys
import threading
from multiprocessing.connection import Connection

from twinlog.lease.channel import LeaseTicket
from twinlog.spark.task import ProcessCopiers

log = logging.getLogger(__name__)

IDLE_S = 60.0
"""The bridge ends when its last copier ended so many seconds ago."""

LOOK_S = 1.0


class DriverLogHandler(logging.Handler):
    """Sends log records to the driver, whose process has the handlers and the format of the log.

    A record is dropped once the driver has gone.
    """

    def __init__(self, line: Connection) -> None:
        super().__init__()
        self._line = line

    def emit(self, record: logging.LogRecord) -> None:
        """Send a record; its values and its stack trace become a part of its text."""
        sent = copy.copy(record)
        try:
            sent.msg, sent.args, sent.exc_info, sent.exc_text = self.format(record), (), None, None
            self._line.send(sent)
        except OSError:
            return
        except Exception:
            self.handleError(record)


def main() -> None:
    """Copy for each ticket, until the pipe ends or the process is idle for a minute."""
    # Numpy would start a thread for each core, and a backlog is a matter of copying bytes.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    line = Connection(int(sys.argv[1]), writable=False)
    logging.getLogger().addHandler(DriverLogHandler(Connection(int(sys.argv[2]), readable=False)))
    copiers = ProcessCopiers(bridge=True)
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
            copiers.join_lease(ticket, threading.Event())
        except Exception as error:
            # The driver has gone, or asks again; the copiers of other shares continue.
            log.debug("the bridge does not copy %s: %r", ticket.flow, error)


if __name__ == "__main__":
    main()
