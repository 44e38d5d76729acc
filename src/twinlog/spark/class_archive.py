"""Starts Spark once, lets it run an empty lease, and keeps the loaded classes of its JVM for later starts.

Run as `python -m twinlog.spark.class_archive`, it does this with the lowest priority, and ends with its standard input.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from twinlog.clock import SYSTEM
from twinlog.errors import TwinlogError
from twinlog.jvm.archive import archive_file, forget_unused, record_options
from twinlog.lease.lease_server import LeaseServer
from twinlog.scratch import Scratch
from twinlog.spark.scratch_dirs import sweep_leftovers
from twinlog.spark.session import SparkEngine, local_master
from twinlog.spark.warm_up import run_warm_up

PATIENCE_S = 600.0
"""The limit for the first task, and for the JVM's end: with the lowest priority on a busy machine both take long."""

LOWEST_PRIORITY = 19
LOOK_S = 0.2


def warm_up(ending: threading.Event | None = None) -> Path:
    """Make the class archive again; returns its file. Takes about a minute, and some 160 MB of disk.

    A lock admits a single process at a time; concurrent calls fail. Set `ending` to end it early. Raises OSError, and
    TwinlogError if there is no archive at the end.
    """
    path = archive_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    with _alone(path):
        sweep_leftovers({})
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


def main() -> None:
    """Make the archive in the background of a process that copies."""
    os.nice(LOWEST_PRIORITY)
    logging.basicConfig(level=logging.CRITICAL)
    ending = threading.Event()

    def end(*_: Any) -> None:
        ending.set()

    def follow() -> None:
        while os.read(0, 1):
            pass
        ending.set()

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=follow, name="follow", daemon=True).start()
    code = 0
    try:
        # Another process may have made the archive meanwhile.
        if not archive_file().is_file():
            warm_up(ending)
    except (TwinlogError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        code = 1
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
