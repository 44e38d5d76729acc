"""A program started by the harness: its log file, its signals, and the promise that it does not outlive us.

It begins with every signal as the system has it, also when a shell started us in the background with SIGINT ignored.
"""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType, TracebackType
from typing import Self

import psutil

from harness.errors import HarnessError
from harness.wait import slowness, wait_for

# Reads "watch PID" and "forget PID"; when its stdin closes, because the process that started it is gone for whatever
# reason, kills what is still being watched, with what that has started in its group. A shell costs 1 MB and works on
# every POSIX system.
_REAPER = """
trap '' INT TERM HUP
pids=
while read -r word pid; do
  kept=
  for one in $pids; do [ "$one" = "$pid" ] || kept="$kept $one"; done
  pids=$kept
  [ "$word" = watch ] && pids="$pids $pid"
done
for pid in $pids; do kill -s KILL -- "-$pid" 2>/dev/null; done
"""


def _ignored(number: int, frame: FrameType | None) -> None:
    """What is ignored stays so for us; but who is started by us does not inherit a handler, as it would SIG_IGN."""


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN and threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, _ignored)


class _Reaper:
    """One per process of ours, started on first use (and anew after a fork)."""

    def __init__(self) -> None:
        self._owner = 0
        self._process: subprocess.Popen[bytes] | None = None

    def send(self, word: str, pid: int) -> None:
        if self._process is None or self._owner != os.getpid():
            self._owner = os.getpid()
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", _REAPER],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        assert self._process.stdin is not None
        self._process.stdin.write(f"{word} {pid}\n".encode())
        self._process.stdin.flush()

    def finish(self) -> None:
        """At the end of this process: whatever is still watched is killed now."""
        if self._process is not None and self._owner == os.getpid():
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process.wait()


_reaper = _Reaper()
atexit.register(_reaper.finish)


class Child:
    """One program, started at most once at a time; output goes to `log`, appended over restarts."""

    def __init__(self, name: str, command: Sequence[str], log: Path, env: Mapping[str, str] | None = None) -> None:
        self.name = name
        self.command = list(command)
        self.log = log
        self._env = dict(os.environ, **(env or {}))
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Process id; raises HarnessError when it does not run."""
        if self._process is None:
            raise HarnessError(f"{self.name} is not running.")
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start without waiting for anything. In its own session, so that Ctrl-C reaches only the test runner."""
        if self.alive:
            raise HarnessError(f"{self.name} already runs as process {self.pid}.")
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=self._env,
                start_new_session=True,
            )
        _reaper.send("watch", self._process.pid)

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone. Nothing happens when it does not run."""
        if self._process is None:
            return
        if self.alive:
            self._process.kill()
        self._gone(self._process)

    def terminate(self, deadline_s: float = 20.0) -> bool:
        """SIGTERM, then SIGKILL after the deadline, later where the machine is busy; True when it ended by itself."""
        if self._process is None:
            return True
        if self.alive:
            self.resume()
            self._process.terminate()
        try:
            self._process.wait(deadline_s * slowness())
        except subprocess.TimeoutExpired:
            self.kill()
            return False
        self._gone(self._process)
        return True

    def suspend(self) -> None:
        """SIGSTOP: the program keeps its connections and answers nothing. Returns when every thread stands still."""
        os.kill(self.pid, signal.SIGSTOP)
        # A thread that runs on another core goes on for a moment and could still answer.
        os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self) -> None:
        """SIGCONT."""
        os.kill(self.pid, signal.SIGCONT)

    def wait(self, deadline_s: float) -> int:
        """Wait until it ends by itself and return its exit status."""
        process = self._process
        if process is None:
            raise HarnessError(f"{self.name} is not running.")
        wait_for(lambda: process.poll() is not None, deadline_s, f"{self.name} has ended")
        self._gone(process)
        return process.returncode

    def log_tail(self, lines: int = 25) -> str:
        """Last lines of the log, for messages."""
        try:
            text = self.log.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return "(no log)"
        return "\n".join(text.splitlines()[-lines:])

    def log_lines(self, word: str = "") -> int:
        """How many lines the log has, or how many of them have a word."""
        wanted = word.encode()
        try:
            with self.log.open("rb") as lines:
                return sum(wanted in line for line in lines)
        except FileNotFoundError:
            return 0

    def require_alive(self) -> None:
        """Raises HarnessError with the end of the log when the program has ended."""
        if not self.alive:
            status = None if self._process is None else self._process.returncode
            raise HarnessError(f"{self.name} ended with status {status}. Its log {self.log} ends:\n{self.log_tail()}")

    def _gone(self, process: subprocess.Popen[bytes]) -> None:
        process.wait()
        _reaper.send("forget", process.pid)
        self._process = None


class Started(ABC):
    """Base of a stage that a `with` block starts and closes, also after a failed start."""

    @abstractmethod
    def start(self) -> object:
        """Start it, and return once it can be used."""

    @abstractmethod
    def close(self) -> None:
        """End whatever part of it runs; also after a start that failed halfway."""

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def runs(process: psutil.Process) -> bool:
    """Whether it has not ended, be its parent told of that or not."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def below(pid: int) -> list[psutil.Process]:
    """What a process has started, and those have, as far as it still runs; a zombie does not."""
    with suppress(psutil.NoSuchProcess):
        return [one for one in psutil.Process(pid).children(recursive=True) if runs(one)]
    return []


def named(name: str, processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    """Those that run the program of this name now."""
    found = []
    for one in processes:
        with suppress(psutil.NoSuchProcess):
            found += [one] if runs(one) and one.name() == name else []
    return found


def send(number: signal.Signals, processes: Iterable[psutil.Process]) -> None:
    """A signal for each that has not ended."""
    for one in processes:
        with suppress(psutil.NoSuchProcess):
            one.send_signal(number)
