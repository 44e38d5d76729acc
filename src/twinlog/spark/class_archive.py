"""Starts Spark once, lets it run an empty lease, and keeps the loaded classes of its JVM for later starts.

`twinlog warm-up` makes the archive, for an image or a machine. Spark then starts in about half of the time, which
matters to flows with `transform.sql`: the bridge does not copy them while Spark starts.
"""

from __future__ import annotations

import contextlib
import fcntl
import threading
from collections.abc import Iterator
from pathlib import Path

from twinlog.clock import SYSTEM
from twinlog.errors import TwinlogError
from twinlog.lease.lease_server import LeaseServer
from twinlog.process.jvm import archive_file, forget_unused, record_options
from twinlog.process.scratch import Scratch
from twinlog.spark.session import SparkEngine, local_master
from twinlog.spark.warm_up import run_warm_up

PATIENCE_S = 600.0
"""The limit for the first task, and for the JVM's end: with the lowest priority on a busy machine both take long."""

LOOK_S = 0.2


def warm_up(ending: threading.Event | None = None) -> Path:
    """Make the class archive again; returns its file. Takes about a minute, and some 160 MB of disk.

    A lock admits a single process at a time; concurrent calls fail. Set `ending` to end it early. Raises OSError, and
    TwinlogError if there is no archive at the end.
    """
    path = archive_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    with _alone(path):
        with Scratch(path.parent) as work:
            fresh = work / path.name
            if not _record(fresh, ending or threading.Event()) or not fresh.is_file():
                raise TwinlogError("Spark did not leave a class archive; later starts get no faster")
            fresh.replace(path)
        forget_unused(path)
    return path


def _record(fresh: Path, ending: threading.Event) -> bool:
    lease_server = LeaseServer("127.0.0.1", clock=SYSTEM)
    engine = SparkEngine(local_master(1), {}, java_options=record_options(fresh))
    done = threading.Event()

    def interrupt() -> None:
        while not SYSTEM.wait(done, LOOK_S):
            if ending.is_set():
                engine.interrupt()
                return

    threading.Thread(target=interrupt, name="early end", daemon=True).start()
    ran = False
    try:
        engine.start()
        ran = run_warm_up(engine, lease_server, patience_s=PATIENCE_S, ending=ending, clock=SYSTEM)
    finally:
        lease_server.close()
        # The JVM writes the archive when it ends.
        engine.stop(PATIENCE_S if ran else 1.0)
        done.set()
    return ran and not ending.is_set()


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Lock the archive at `path` against other processes. Raises TwinlogError while another process makes it."""
    with path.with_suffix(".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise TwinlogError(f"another process makes {path} just now") from None
        yield
