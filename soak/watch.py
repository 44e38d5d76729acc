"""Watches twinlog's processes by what they are for: memory, CPU, open files and threads over time."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import linear_regression
from typing import get_args

import psutil

from bench.stage.meter import MB, rss_and_pss
from faults.scene import Role, Scene

ROLES: tuple[Role, ...] = get_args(Role)

EVERY_S = 10.0
GROWN_UP_S = 60.0
"""A process that is younger still takes the memory that it needs anyway."""
SHORTEST_S = 120.0
"""A slope of less than that means nothing."""


@dataclass(frozen=True, slots=True)
class Look:
    """One process at one moment; `at` is monotonic, memory in bytes, `cpu_s` what it has used since its start."""

    at: float
    age_s: float
    rss: int
    pss: int
    files: int
    threads: int
    cpu_s: float


@dataclass(frozen=True, slots=True)
class RoleFigures:
    """Of all processes that had a role. Memory in MB, of one process.

    The slope is that of the process that lived longest without a break, None when none lived for long.
    """

    processes: int
    peak_pss_mb: float
    peak_rss_mb: float
    pss_slope_mb_per_h: float | None
    slope_over_s: float
    peak_files: int
    peak_threads: int


@dataclass
class Watch:
    """Looks every ten seconds, from a thread of its own, between `start` and `stop`."""

    scene: Scene
    looks: dict[tuple[Role, int], list[Look]] = field(default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)

    def start(self) -> Watch:
        self._thread.start()
        return self

    def stop(self) -> None:
        self._ended.set()
        self._thread.join()

    def look(self) -> None:
        """Look now."""
        for role, process in self.scene.family():
            try:
                with process.oneshot():
                    used = process.cpu_times()
                    age = time.time() - process.create_time()
                    files, threads = process.num_fds(), process.num_threads()
            except psutil.Error:
                continue
            rss, pss = rss_and_pss(process)
            now = time.monotonic()
            seen = Look(now, age, rss, pss, files, threads, used.user + used.system)
            self.looks[role, process.pid].append(seen)

    def now(self) -> dict[Role, int]:
        """PSS of each role as it was seen last, of all its processes, in bytes."""
        found: dict[Role, int] = dict.fromkeys(ROLES, 0)
        newest = max((looks[-1].at for looks in list(self.looks.values())), default=0.0)
        for (role, _), looks in list(self.looks.items()):
            if newest - looks[-1].at < EVERY_S:
                found[role] += looks[-1].pss
        return found

    def figures(self) -> dict[Role, RoleFigures]:
        """What came of each role that was seen."""
        found: dict[Role, RoleFigures] = {}
        for role in ROLES:
            generations = [looks for (what, _), looks in self.looks.items() if what == role]
            every = [look for looks in generations for look in looks]
            if not every:
                continue
            longest = max(generations, key=lambda looks: looks[-1].at - looks[0].at)
            slope, lasted = _slope(longest)
            found[role] = RoleFigures(
                processes=len(generations),
                peak_pss_mb=max(look.pss for look in every) / MB,
                peak_rss_mb=max(look.rss for look in every) / MB,
                pss_slope_mb_per_h=slope,
                slope_over_s=lasted,
                peak_files=max(look.files for look in every),
                peak_threads=max(look.threads for look in every),
            )
        return found

    def cpu(self, began: float, ended: float) -> dict[Role, float]:
        """CPU seconds per second of each role between two moments, of processes that lived through both."""
        found: dict[Role, float] = {}
        for (role, _), looks in self.looks.items():
            some = [look for look in looks if began <= look.at <= ended]
            if len(some) > 1:
                share = (some[-1].cpu_s - some[0].cpu_s) / (some[-1].at - some[0].at)
                found[role] = found.get(role, 0.0) + share
        return found

    def _run(self) -> None:
        while not self._ended.wait(EVERY_S):
            self.look()


def _slope(looks: Sequence[Look]) -> tuple[float | None, float]:
    some = [look for look in looks if look.age_s >= GROWN_UP_S]
    lasted = some[-1].at - some[0].at if some else 0.0
    if len(some) < 3 or lasted < SHORTEST_S:
        return None, lasted
    line = linear_regression([look.at for look in some], [float(look.pss) for look in some])
    return line.slope * 3600 / MB, lasted
