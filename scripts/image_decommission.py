#!/usr/bin/env python
"""Tells the Spark executor of a pod that the pod is about to go, and waits until it has ended: its copiers are drained.

The image has this as `decommission` on its PATH; Spark has the kubelet run it before it ends an executor's container
(`spark.kubernetes.decommission.script`).
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

BACKEND = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
WAIT_S = 45.0
"""Less than the pod's own time to end, so that what is late is ended in order."""
LOOK_S = 0.2


def executors(proc: Path = Path("/proc")) -> list[int]:
    """The executors among all processes of the container."""
    found = []
    for place in proc.glob("[0-9]*/cmdline"):
        try:
            words = place.read_bytes().split(b"\0")
        except OSError:
            continue
        if BACKEND.encode() in words:
            found.append(int(place.parent.name))
    return found


def main() -> int:
    """Signal, wait, and end with 0 once there is no executor any more."""
    for pid in executors():
        os.kill(pid, signal.SIGPWR)
    deadline = time.monotonic() + WAIT_S
    while executors() and time.monotonic() < deadline:
        time.sleep(LOOK_S)
    return 1 if executors() else 0


if __name__ == "__main__":
    sys.exit(main())
