"""CPU time and memory of a process with everything that it has started, as Linux reports them in /proc."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from twinlog.errors import OptionError

PROC = Path("/proc")
_STATE, _PARENT, _USER, _SYSTEM, _START = 0, 1, 11, 12, 19
"""Fields of /proc/PID/stat after the name of the program (man 5 proc)."""


@dataclass(frozen=True, slots=True)
class ProcessUse:
    """CPU seconds of a process tree since the begin of the count, and the memory of the tree in bytes at the last look.

    `memory` counts a page that several processes share once if the kernel tells (PSS), else once for each (RSS).
    """

    cpu_s: float
    memory: int
    processes: int


@dataclass(frozen=True, slots=True)
class _Stat:
    parent: int
    ticks: int
    start: int


class ProcessTree:
    """The process `pid` and its descendants; each `read_processes` finds new ones.

    CPU time of a process that ends between two looks counts up to the earlier look. Raises OptionError if the process
    is missing, or if the system lacks /proc.
    """

    def __init__(self, pid: int, option: str, root: Path = PROC) -> None:
        self._pid = pid
        self._root = root
        self._option = option
        if not (root / "self").exists():
            raise OptionError(f"{option} {pid}: this system is without /proc; leave the option out")
        self._before: dict[tuple[int, int], int] = {}
        self._now: dict[tuple[int, int], int] = {}
        self._live: list[int] = []
        self.begin_count()

    def begin_count(self) -> None:
        """Count CPU time from now on. Raises OptionError if the first process is gone."""
        self.read_processes()
        self._before = dict(self._now)

    def read_processes(self) -> None:
        """Read the CPU time of all processes of the tree. Raises OptionError if the first process is gone."""
        stats = self._stats()
        if self._pid not in stats:
            raise OptionError(f"{self._option} {self._pid}: there is no process with this number on this host")
        self._start = stats[self._pid].start
        self._live = _below(self._pid, stats)
        for pid in self._live:
            self._now[pid, stats[pid].start] = stats[pid].ticks

    def age_s(self) -> float:
        """The seconds since the start of the first process, at the last look."""
        up_s = float((self._root / "uptime").read_text(encoding="ascii").split()[0])
        return up_s - self._start / os.sysconf("SC_CLK_TCK")

    def sum_use(self) -> ProcessUse:
        """Return the use of the tree from the begin of the count to the last look."""
        ticks = sum(used - self._before.get(key, 0) for key, used in self._now.items())
        return ProcessUse(ticks / os.sysconf("SC_CLK_TCK"), sum(map(self._memory, self._live)), len(self._live))

    def _stats(self) -> dict[int, _Stat]:
        found: dict[int, _Stat] = {}
        for entry in self._root.iterdir():
            if not entry.name.isdigit():
                continue
            try:
                fields = (entry / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            except OSError:
                # The process has ended meanwhile.
                continue
            if len(fields) > _START and fields[_STATE] != "Z":
                ticks = int(fields[_USER]) + int(fields[_SYSTEM])
                found[int(entry.name)] = _Stat(int(fields[_PARENT]), ticks, int(fields[_START]))
        return found

    def _memory(self, pid: int) -> int:
        for name, field in (("smaps_rollup", "Pss:"), ("status", "VmRSS:")):
            try:
                text = (self._root / str(pid) / name).read_text(encoding="ascii", errors="replace")
            except OSError:
                # smaps_rollup of another user's process is unreadable.
                continue
            for line in text.splitlines():
                if line.startswith(field):
                    return int(line.split()[1]) * 1024
        return 0


def _below(pid: int, stats: dict[int, _Stat]) -> list[int]:
    """The process and all its descendants."""
    children: dict[int, list[int]] = {}
    for number, stat in stats.items():
        children.setdefault(stat.parent, []).append(number)
    found: list[int] = []
    waiting: Iterable[int] = [pid]
    while waiting:
        found += waiting
        waiting = [child for parent in waiting for child in children.get(parent, ())]
    return found
