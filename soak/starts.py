"""How long a start takes, and a take-over by a process that stands by."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from faults.scene import PARTITIONS, PLAIN, Mode, Scene, pause
from harness.checker import Load
from harness.consume import ends
from harness.wait import wait_for

RATE = 100
ARRIVES_S = 600.0
WARM_S = 300.0
CALM = 0.25
"""A process that stands by computes no more than this share of a core once it is warm."""
LOOK_S = 2.0
ORPHANS_S = 1.5
"""What copiers of a killed process may still have sent has arrived by then."""


@dataclass(frozen=True, slots=True)
class Starts:
    """Seconds from starting a process to the first record, and from killing one to the first of the other."""

    start_s: float
    take_over_s: float


def measure_starts(scene: Scene) -> Starts:
    """Of a scene that was just entered; it has been taken over by another process afterwards."""
    with _load(scene):
        wait_for(lambda: _copied(scene) > 0, ARRIVES_S, "the first record arrives")
        start_s = time.monotonic() - scene.started_at
        return Starts(start_s, take_over(scene))


def measure_on_empty(home: Path, mode: Mode) -> Starts:
    """The same on clusters of their own, whose internal topics are new."""
    with Scene(home, mode, filled=0, heap="384m") as scene:
        return measure_starts(scene)


def measure_take_over(scene: Scene) -> float:
    with _load(scene):
        return take_over(scene)


def take_over(scene: Scene) -> float:
    """Kill the process once another is warm, while load runs; seconds until a record comes from the other."""
    scene.start_standby()
    wait_for(lambda: _warm(scene), WARM_S, "another process stands by and is warm")
    killed = time.monotonic()
    scene.lose_driver()
    pause(ORPHANS_S)
    before = _copied(scene)
    wait_for(lambda: _copied(scene) > before, ARRIVES_S, "the other process copies")
    return time.monotonic() - killed


@contextmanager
def _load(scene: Scene) -> Iterator[None]:
    with Load(scene.source, PLAIN, PARTITIONS, rate=RATE, name=f"start-{time.monotonic_ns()}"):
        yield


def _copied(scene: Scene) -> int:
    return ends(scene.target, [scene.remotes[PLAIN]]).get(scene.remotes[PLAIN], 0)


def _warm(scene: Scene) -> bool:
    """Its Spark has a JVM, and it has nothing more to do."""
    root = psutil.Process(scene.standby.pid)
    began, before = time.monotonic(), _cpu_s(root)
    pause(LOOK_S)
    calm = (_cpu_s(root) - before) / (time.monotonic() - began) < CALM
    return calm and any("java" in name for name in _names(root))


def _cpu_s(root: psutil.Process) -> float:
    """CPU seconds of a process and of those that it started, the ended ones that it has waited for included."""
    used = 0.0
    for process in [root, *root.children(recursive=True)]:
        with suppress(psutil.Error):
            times = process.cpu_times()
            used += times.user + times.system + times.children_user + times.children_system
    return used


def _names(root: psutil.Process) -> Iterator[str]:
    for process in root.children(recursive=True):
        with suppress(psutil.Error):
            yield process.name()
