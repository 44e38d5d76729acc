"""Whose switchover it is: another process that may still work on it is not disturbed."""

from __future__ import annotations

import os
import socket

from twinlog.clock import SYSTEM
from twinlog.ops.switchover.entries import Entries
from twinlog.ops.switchover.machine import ENDED
from twinlog.ops.switchover.model import UnderWayError

ALIVE_S = 20.0
"""A process that wrote to the journal within so many seconds may still be running."""


def this_process() -> str:
    return f"{socket.gethostname()} {os.getpid()}"


def require_free(entries: Entries) -> None:
    """Raise UnderWayError while another process seems to work; one of this host that is gone does not."""
    run = entries.run
    if run is None or run.state in ENDED:
        return
    times = [entry.at_ms for entry in entries.steps.values()]
    silent_s = SYSTEM.wall() - max(run.seen_ms, *times, 0) / 1000
    host, _, pid = run.owner.rpartition(" ")
    if host == socket.gethostname():
        if pid == str(os.getpid()):
            # In a container that was started anew, processes have their numbers again.
            return
        try:
            os.kill(int(pid), 0)
        except (ProcessLookupError, ValueError):
            return
        except PermissionError:
            pass
    elif silent_s > ALIVE_S:
        return
    raise UnderWayError(
        f"process {pid} on {host} works on switchover {run.ends} (last entry {silent_s:.0f} s ago); wait for it, or "
        "give --take-over"
    )
