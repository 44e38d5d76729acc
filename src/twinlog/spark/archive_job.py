"""Makes the class archive in the background, so that users are spared `twinlog warm-up`.

A process that starts without the archive has a child process make it, once Spark has run for a while. The child has the
lowest priority, so that copying and brokers on the same machine go first, and runs only with enough free memory and
disk. It ends together with this process; the next start tries again.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from twinlog.clock import SYSTEM, Clock
from twinlog.jvm.archive import archive_file

log = logging.getLogger(__name__)

AFTER_S = 30.0
"""The least time that Spark must have run, because copying comes first."""

FREE_MEMORY = 1_500_000_000
FREE_DISK = 1_000_000_000
END_S = 1.0
COMMAND = (sys.executable, "-m", "twinlog.spark.class_archive")


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
