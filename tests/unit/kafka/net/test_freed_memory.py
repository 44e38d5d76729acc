"""Freed memory is used again while large frames come, and given back to the system afterwards."""

from __future__ import annotations

import json
import platform
import subprocess
import sys

import pytest

PROGRAM = """
import json, resource, sys, threading
from twinlog.kafka.net.frame_memory import KEEP_S, LARGE_BYTES, FrameMemory

MB = 1 << 20
now = 0.0

def resident_mb():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() // MB

def work():
    global now
    memory = FrameMemory(lambda: now)
    if sys.argv[1] == "large":
        memory.allocate_frame(LARGE_BYTES)
    faults = 0
    for turn in range(30):
        if turn == 10:
            faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        pieces = [bytes(bytearray(MB)) for _ in range(20)]
        del pieces
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults
    busy = resident_mb()
    now += 2 * KEEP_S
    memory.allocate_frame(1)
    print(json.dumps({"faults": faults, "busy": busy, "idle": resident_mb()}))

# A copier has a thread of its own, and glibc a heap for each thread.
thread = threading.Thread(target=work)
thread.start()
thread.join()
"""


def run(frames: str) -> dict[str, int]:
    done = subprocess.run([sys.executable, "-c", PROGRAM, frames], capture_output=True, text=True, check=True)
    found: dict[str, int] = json.loads(done.stdout)
    return found


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has mallopt")
def test_pages_are_mapped_once_until_frames_stay_away() -> None:
    before, now = run("small"), run("large")
    # 20 turns of 20 MB, and as many zeros: each page would be mapped in each turn.
    assert now["faults"] < before["faults"] / 20
    assert now["idle"] < now["busy"] - 10
