"""CPU time and memory of a program with everything it has started."""

from __future__ import annotations

import contextlib
import threading
import time
from pathlib import Path

import psutil

LOOK_EVERY_S = 0.5
MB = 1_000_000


class Meter:
    """Watches a process and its descendants until `stop`.

    CPU time counts user and system time, and keeps what ended processes had used when last seen. Memory is looked at
    twice a second; peaks are of the sum over all processes. RSS counts a page once for each process that shares it, PSS
    counts it once in all. Without `memory` PSS is not read while it runs, because that makes a large process stumble.
    """

    def __init__(self, pid: int, *, memory: bool = True) -> None:
        self.peak_rss = 0
        self.peak_pss = 0
        self.peak_parts: dict[str, int] = {}
        """PSS of each process at the peak, by `name-pid`."""
        self.root = psutil.Process(pid)
        self._memory = memory
        self._lock = threading.Lock()
        self._live: list[psutil.Process] = [self.root]
        self._cpu: dict[psutil.Process, float] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="meter", daemon=True)
        self._thread.start()

    def cpu_s(self) -> float:
        """CPU seconds used so far by all of them."""
        with self._lock:
            for process in self._live:
                try:
                    used = process.cpu_times()
                except psutil.Error:
                    continue
                self._cpu[process] = used.user + used.system
            return sum(self._cpu.values())

    def stop(self) -> list[psutil.Process]:
        """Look at memory once more, and return the processes last seen."""
        self._ended.set()
        self._thread.join()
        self._look(memory=True)
        return self._live

    def _run(self) -> None:
        while not self._ended.wait(LOOK_EVERY_S):
            self._look(memory=self._memory)

    def discover(self) -> float:
        """Look for new processes now; returns the CPU seconds that they had used unseen."""
        with self._lock:
            with contextlib.suppress(psutil.Error):
                self._live = [self.root, *self.root.children(recursive=True)]
            known = set(self._cpu)
        self.cpu_s()
        with self._lock:
            return sum(used for process, used in self._cpu.items() if process not in known)

    def _look(self, *, memory: bool) -> None:
        self.discover()
        with self._lock:
            live = list(self._live)
        rss = 0
        parts = {}
        for process in live:
            both = rss_and_pss(process) if memory else (_rss(process), 0)
            rss += both[0]
            parts[_name(process)] = both[1]
        self.peak_rss = max(self.peak_rss, rss)
        if sum(parts.values()) > self.peak_pss:
            self.peak_pss, self.peak_parts = sum(parts.values()), parts


def rss_and_pss(process: psutil.Process) -> tuple[int, int]:
    """Bytes; PSS is 0 where the system does not report it, which is everywhere but on Linux."""
    try:
        lines = Path(f"/proc/{process.pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
    except OSError:
        return _rss(process), 0
    found = {words[0]: int(words[1]) * 1024 for words in map(str.split, lines) if words[0] in ("Rss:", "Pss:")}
    return found.get("Rss:", 0), found.get("Pss:", 0)


def _rss(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.Error:
        return 0


def _name(process: psutil.Process) -> str:
    try:
        return f"{process.name()}-{process.pid}"
    except psutil.Error:
        return f"ended-{process.pid}"


def cpu_of(pids: list[int]) -> float:
    """CPU seconds used so far by some single processes, such as the brokers."""
    return sum(used.user + used.system for used in (psutil.Process(pid).cpu_times() for pid in pids))


def wait_calm(deadline_s: float = 20.0, busy: float = 0.15) -> None:
    """Wait until the machine has little to do, so that one measurement does not disturb the next."""
    end = time.monotonic() + deadline_s
    while time.monotonic() < end and psutil.cpu_percent(0.5) > busy * 100:
        pass
