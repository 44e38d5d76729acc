"""Starts Spark once, lets it run an empty lease, and keeps the loaded classes of its JVM for later starts.

Run as `python -m twinlog.spark.class_archive`, it does this with the lowest priority, and ends with its standard input.

A process that starts without the archive has a child process make it (`ArchiveJob`), once Spark has run for a while: so
users are spared `twinlog warm-up`. Copying and brokers on the same machine go before the child, and it runs only with
enough free memory and disk. It ends together with this process; the next start tries again.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from twinlog.clock import SYSTEM, Clock
from twinlog.errors import TwinlogError
from twinlog.jvm import archive_file, forget_unused, record_options
from twinlog.lease.lease_server import LeaseServer
from twinlog.scratch import Scratch
from twinlog.spark.scratch_dirs import sweep_leftovers
from twinlog.spark.session import SparkEngine, local_master
from twinlog.spark.warm_up import run_warm_up

log = logging.getLogger(__name__)

AFTER_S = 30.0
"""The least time that Spark must have run, because copying comes first."""

FREE_MEMORY = 1_500_000_000
FREE_DISK = 1_000_000_000
END_S = 1.0
COMMAND = (sys.executable, "-m", "twinlog.spark.class_archive")

PATIENCE_S = 600.0
"""The limit for the first task, and for the JVM's end: with the lowest priority on a busy machine both take long."""

LOWEST_PRIORITY = 19
LOOK_S = 0.2


class ArchiveJob:
    """`poll_archive` is called every moment while the process runs, `stop` at its end."""

    def __init__(
        self, *, wanted: bool, after_s: float = AFTER_S, command: Sequence[str] = COMMAND, clock: Clock = SYSTEM
    ) -> None:
        self._clock = clock
        self._wanted = wanted
        self._after_s = after_s
        self._command = command
        # The environment is copied before Spark's start adds its own Python to it.
        self._environment = dict(os.environ)
        self._since: float | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def poll_archive(self, *, spark_runs: bool) -> None:
        """Begin when it is time, and log the result at the end."""
        if self._process is not None:
            if self._process.poll() is not None:
                self._log_end(self._process)
                self._process = None
            return
        if not self._wanted:
            return
        now = self._clock.monotonic()
        if not spark_runs:
            self._since = None
        elif self._since is None:
            self._since = now
        elif now - self._since >= self._after_s:
            # Once for each process, even after a failure.
            self._wanted = False
            self._begin()

    def begin_stop(self) -> None:
        """Ask a process that still makes an archive to end."""
        if self._process is not None:
            self._process.terminate()

    def stop(self) -> None:
        """End a process that still makes an archive; its files are removed."""
        self.begin_stop()
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(END_S)
        process.kill()
        process.communicate()

    def _begin(self) -> None:
        path = archive_file()
        if path.is_file():
            return
        lacks = _lacks(path.parent)
        if lacks is not None:
            log.info("every start of Spark takes some seconds more than it needs to: %s", lacks)
            return
        try:
            # The child ends when its standard input ends. In a session of its own, its priority would lose its effect
            # against this process.
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                env=self._environment,
                process_group=0,
            )
        except OSError as error:
            log.info("nothing is prepared for later starts: %s", error)
        else:
            log.info("preparing later starts of Spark, once for this machine, with the lowest priority (%s)", path)

    def _log_end(self, process: subprocess.Popen[bytes]) -> None:
        lines = process.communicate()[1].decode(errors="replace").strip().splitlines()
        if process.returncode == 0:
            log.info("later starts take some seconds less")
        else:
            log.info("nothing is prepared for later starts: %s", lines[-1] if lines else f"code {process.returncode}")


def _lacks(folder: Path) -> str | None:
    """The obstacle to an archive in `folder`, and the way out; None without an obstacle."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(f"{folder} cannot be written")
        free = shutil.disk_usage(folder).free
    except OSError as error:
        return f"there is no place for a class archive ({error}); set TWINLOG_CACHE to a folder that can be written"
    if free < FREE_DISK:
        return f"{folder} has less than {FREE_DISK / 1e9:.0f} GB free for a class archive"
    if (memory := _free_memory()) is not None and memory < FREE_MEMORY:
        return (
            f"{memory / 1e9:.1f} GB of free memory are too few to make a class archive beside what runs; "
            "`twinlog warm-up` makes it"
        )
    return None


def _free_memory() -> int | None:
    """Free bytes of memory of this machine and container; None on systems without this report (other than Linux)."""
    found: list[int] = []
    with contextlib.suppress(OSError, ValueError, IndexError):
        lines = Path("/proc/meminfo").read_text("ascii").splitlines()
        found.extend(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    with contextlib.suppress(OSError, ValueError):
        group = Path("/sys/fs/cgroup")
        found.append(int((group / "memory.max").read_text()) - int((group / "memory.current").read_text()))
    return min(found, default=None)


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
