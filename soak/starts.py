"""How long a start takes, and a take-over by a process that stands by."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from faults.scene import PARTITIONS, PLAIN, Mode, Scene, pause
from harness.checks.checker import Load
from harness.consume import ends
from harness.wait import wait_for

RATE = 100
ARRIVES_S = 600.0
READY_S = 300.0
READY = b"this process is ready to take over"
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
    """Kill the process once another is ready, while load runs; seconds until a record comes from the other."""
    log = scene.standby.log
    before = log.stat().st_size if log.exists() else 0
    scene.start_standby()
    wait_for(lambda: READY in log.read_bytes()[before:], READY_S, "another process stands by and is ready")
    killed = time.monotonic()
    scene.lose_driver()
    pause(ORPHANS_S)
    copied = _copied(scene)
    wait_for(lambda: _copied(scene) > copied, ARRIVES_S, "the other process copies")
    return time.monotonic() - killed


@contextmanager
def _load(scene: Scene) -> Iterator[None]:
    with Load(scene.source, PLAIN, PARTITIONS, rate=RATE, name=f"start-{time.monotonic_ns()}"):
        yield


def _copied(scene: Scene) -> int:
    return ends(scene.target, [scene.remotes[PLAIN]]).get(scene.remotes[PLAIN], 0)
