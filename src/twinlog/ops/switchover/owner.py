"""The process that works on a switchover, and whether it still lives: a single process at a time may continue.

The journal fences a process that lost it, with its next entry. Until then both processes could act.
"""

from __future__ import annotations

import os
import secrets
import socket
from contextlib import suppress
from pathlib import Path

from twinlog.clock import SYSTEM, Clock
from twinlog.ops.switchover.journal import JournalEntries, SwitchoverRun, TopicJournal
from twinlog.ops.switchover.model import UnderWayError
from twinlog.ops.switchover.stage import ENDED
from twinlog.ops.switchover.steps.step import Show

ALIVE_S = 20.0
"""A process that wrote to the journal within so many seconds may still be running."""

ALIVE_HERE_S = 600.0
"""The same for a process of this host whose number still exists: no step is silent for longer, and a number may belong
to another process after a boot."""

_ENDED_STATES = frozenset("ZXx")
"""The states of ended processes in /proc/PID/stat (man 5 proc)."""

WATCHED_S = 12.0
"""How long the journal is watched before a process of another host counts as ended: its clock may differ. A living
process writes every `SEEN_MS`."""

_TRUSTED_S = 3600.0
"""No two clocks differ by so many seconds: a process that is silent for longer has ended."""

_ID = secrets.token_hex(4)
"""Of this process: in containers, processes get the same numbers again."""


def _numbering() -> str:
    """The kernel and the PID namespace that gave this process its number; empty where neither is known.

    Containers with the name of their host (`hostNetwork`) have numbers of their own.
    """
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        return f"{boot}/{Path('/proc/self/ns/pid').readlink()}"
    return ""


def this_process() -> str:
    """The owner of a switchover in its journal: host, number and id of this process, and the scope of its number."""
    return f"{socket.gethostname()} {os.getpid()} {_ID} {_numbering()}".rstrip()


def require_free(entries: JournalEntries, *, clock: Clock = SYSTEM) -> None:
    """Raise UnderWayError while another process seems to work.

    A process that is gone, or that left the switchover after an error, is ignored.
    """
    run = entries.run
    if run is None or run.state in ENDED or not run.owner:
        return
    silent_s = clock.wall() - _last_ms(entries) / 1000
    _, pid, process_id = [*run.owner.split(" "), "", ""][:3]
    if process_id == _ID:
        return
    patience_s = ALIVE_S
    if _is_here(run):
        if not _lives(pid):
            return
        patience_s = ALIVE_HERE_S
    # A last entry in the future is of another clock.
    if not -patience_s <= silent_s <= patience_s:
        return
    raise _under_way(run, silent_s, patience_s)


def _last_ms(entries: JournalEntries) -> int:
    """The time of the last entry, by the clock of its process; 0 without an entry."""
    run = entries.run
    return max(0 if run is None else run.seen_ms, *(entry.at_ms for entry in entries.steps.values()), 0)


def _is_here(run: SwitchoverRun) -> bool:
    """Whether the number of the owner is a number among the processes that this process sees."""
    host, pid, _, numbering = [*run.owner.split(" "), "", "", ""][:4]
    known = _numbering()
    if numbering and known and numbering != known:
        return False
    return host == socket.gethostname() and pid != str(os.getpid())


def _under_way(run: SwitchoverRun, silent_s: float, patience_s: float) -> UnderWayError:
    host, pid = [*run.owner.split(" "), ""][:2]
    return UnderWayError(
        f"process {pid} on {host} works on switchover {run.ends} (last entry {silent_s:.0f} s ago); wait for it, or "
        f"give --take-over; without a further entry it counts as ended in {patience_s - silent_s:.0f} s",
        message_id="TW-SWITCH-07",
    )


def require_silent(journal: TopicJournal, show: Show, *, clock: Clock = SYSTEM) -> None:
    """Raise UnderWayError if the owner of the switchover, silent by the clock of its host, writes to the journal."""
    before = journal.read_unclaimed()
    require_free(before, clock=clock)
    run = before.run
    if run is None or run.state in ENDED or not run.owner or f" {_ID}" in run.owner or _is_here(run):
        return
    if clock.wall() - _last_ms(before) / 1000 > _TRUSTED_S:
        return
    show("check", f"see that process {run.owner.split(' ')[1]} on {run.owner.split(' ')[0]} has ended")
    clock.sleep(WATCHED_S)
    after = journal.read_unclaimed()
    if after.run is not None and after.run.owner and _last_ms(after) != _last_ms(before):
        raise _under_way(after.run, 0, ALIVE_S)


def _lives(pid: str) -> bool:
    """Whether a process of this host runs. A killed process keeps its number until its parent asks for its end."""
    with suppress(OSError, ValueError, IndexError):
        # Only Linux has /proc.
        state = Path(f"/proc/{int(pid)}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()[0]
        return state not in _ENDED_STATES
    try:
        os.kill(int(pid), 0)
    except (ProcessLookupError, ValueError):
        return False
    except PermissionError:
        pass
    return True
