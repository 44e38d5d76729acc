"""Spark's JVM as a child process: started, called, found dead, and forgotten, so that another JVM can be started.

pyspark starts its JVM out of sight and keeps it in attributes of its classes. This module runs the same command with
the same handshake (pyspark.java_gateway.launch_gateway), because the driver must be able to end a JVM that begins to
start, and to know its exit. Lines of an orderly end are told apart from errors.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shlex
import signal
import struct
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark import SparkConf
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from twinlog.errors import EngineError, EngineLostError, TwinlogError
from twinlog.process.jvm import NEEDED_JAVA, asks_for_java, silence_py4j
from twinlog.process.log_once import AGAIN_S, LogOnce
from twinlog.spark.jvm import internals
from twinlog.spark.refusals import SettingFinder, reason_in, reason_of

log = logging.getLogger(__name__)


_NOISE = ("WARNING: Using incubator modules", "Setting default log level", "To adjust logging level use")
_DEEP = ("\t", " ", "at ", "Caused by", "Traceback", "org.apache.spark", "java.")

_CANCELLED = (
    "ERROR WriteToDataSourceV2Exec: Data source write support",
    "ERROR Utils: Aborting task",
    "ERROR DataWritingSparkTask: Abort",
)
"""A query was stopped while its tasks ran; the place of the stop logs the reason. A task's error is another line."""

_ENDED = 'Exception in thread "Idle Worker Monitor'
"""`spark/source.py:end_useless_threads` interrupted it."""

_MISMATCH = "twinlog.errors.VersionMismatchError"
"""The driver refused the process that prints this, and has logged both versions itself."""


class JvmErrorOutput:
    """Lines of a JVM's standard error, in their order."""

    def __init__(self) -> None:
        self._frame = ""

    def level(self, line: str) -> int | None:
        """The log level of a line; None for noise."""
        if not line or line.startswith(_NOISE):
            return None
        frame, self._frame = self._frame, line if line.lstrip().startswith("File ") else self._frame
        if line.startswith(_DEEP):
            return logging.DEBUG
        self._frame = ""
        if line.startswith((*_CANCELLED, _ENDED, _MISMATCH)):
            return logging.DEBUG
        # Spark ends workers that were idle for a minute; each of them finds its connection closed on its way out.
        if line.startswith(("BrokenPipeError", "ConnectionResetError")) and "pyspark/daemon.py" in frame:
            return logging.DEBUG
        return logging.WARNING


LOOK_S = 0.05
NOTICE_S = 1.0
"""A connection breaks a moment before the end of its process is visible."""

SLOW_S = 20.0
"""A JVM that starts to listen later than this is logged as slow; the driver continues to wait for it."""


OUT_OF_MEMORY = "-XX:+ExitOnOutOfMemoryError"
"""A JVM that is out of heap keeps some of its threads and stops working, so it must end."""

_KEPT_LINES = 50
_OUTPUT = 1
"""The descriptor of a process's output."""

# Spark's scripts start a JVM that only prints the command of the second JVM: optimizing compilation takes longer.
_LAUNCHER_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# glibc keeps the freed memory of threads in up to eight heaps for each processor, and Spark has hundreds of threads.
_FRUGAL = {"MALLOC_ARENA_MAX": "2"}
_OUT_OF_MEMORY_CODE = 3
# Ctrl-C is for the driver, which ends its children in order; the JVM and its children inherit this setting.
_WITHOUT_CTRL_C = """trap '' INT; exec "$@" """


class Jvm:
    """A JVM; started once at most. Any thread may call `end` and `interrupt`, at any time."""

    def __init__(self, given: Mapping[str, str] | None = None) -> None:
        """`given` has the way in which each of the user's settings was given."""
        self._given = given or {}
        self._blame = SettingFinder({}, self._given)
        self._output: deque[str] = deque(maxlen=_KEPT_LINES)
        self._readers: list[threading.Thread] = []
        self._process: subprocess.Popen[bytes] | None = None
        self._gateway: Any = None
        self._added: list[str] = []
        self._lock = threading.Lock()
        self._ending = threading.Event()
        self._ends = False

    def expect_end(self) -> None:
        """The later log lines of the JVM are about its end."""
        self._ends = True

    def start(
        self, conf: SparkConf, folder: Path, variables: Mapping[str, str] | None = None, locks: Collection[int] = ()
    ) -> None:
        """Start the JVM and make it pyspark's JVM.

        The JVM writes its address into `folder`, and has `variables` in addition to the environment of this process.
        The JVM keeps the open files `locks` until its end. Raises EngineError, EngineLostError.
        """
        silence_py4j()
        address_file = folder / "gateway"
        self._blame = SettingFinder(dict(conf.getAll()), self._given)
        home = internals.spark_home()
        command = ["/bin/sh", "-c", _WITHOUT_CTRL_C, "sh", str(home / "bin" / "spark-submit")]
        for key, value in conf.getAll():
            command += ["--conf", f"{key}={value}"]
        command += shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))
        own = {
            "SPARK_CONNECT_MODE": "0",
            internals.ADDRESS_FILE_VARIABLE: str(address_file),
            # Spark's scripts would start a Python that finds the same path.
            "SPARK_HOME": str(home),
        }
        environment = {**_FRUGAL, "SPARK_LAUNCHER_OPTS": _LAUNCHER_OPTIONS, **os.environ, **(variables or {}), **own}

        def launch() -> bool:
            return self._launch(command, environment, address_file, locks)

        # Spark's shells print the same text for a missing Java and for a shell that was killed before Java replaced it.
        if not (launch() or launch()):
            raise self._has_ended(starting=True)
        with self.asked():
            self._connect(address_file.read_bytes())

    def _launch(
        self, command: list[str], environment: dict[str, str], address_file: Path, locks: Collection[int]
    ) -> bool:
        """Run the JVM until it listens; False if it ended before, for an unknown reason.

        Raises EngineError with the setting that prevents the start, EngineLostError.
        """
        with self._lock:
            if self._ending.is_set():
                raise EngineLostError("Spark is to end before it has started")
            # The JVM ends when its standard input ends.
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment,
                pass_fds=locks,
            )
            self._process = process
        self._output.clear()
        self._readers = [
            threading.Thread(target=self._pass_on, args=(process.stderr,), name="spark stderr", daemon=True),
            threading.Thread(target=self._print, args=(process.stdout,), name="spark stdout", daemon=True),
        ]
        for reader in self._readers:
            reader.start()
        began = time.monotonic()
        logged = LogOnce()
        while not address_file.is_file():
            if process.poll() is not None:
                # The last printed lines may still be on their way.
                for reader in self._readers:
                    reader.join(NOTICE_S)
                ended = self._has_ended(starting=True)
                if ended.retriable or self._blame.key(reason_of(list(self._output)) or "") is not None:
                    raise ended
                assert process.stdin is not None
                process.stdin.close()
                return False
            if logged.is_due("starting", SLOW_S, AGAIN_S):
                log.warning(
                    "TW-SPARK-04: Spark's JVM (process %d) has been starting for %.0f s and is still to listen: "
                    "twinlog waits for it; is this machine short of processors or memory?",
                    process.pid,
                    time.monotonic() - began,
                )
            time.sleep(LOOK_S)
        return True

    def _connect(self, address: bytes) -> None:
        (port,) = struct.unpack_from(">i", address)
        # After the port come the secret's length, and the secret.
        self._gateway = internals.open_gateway(port, address[8:].decode())

    def session(self, conf: SparkConf) -> SparkSession:
        """The session of this JVM. Raises EngineError, EngineLostError."""
        before = set(sys.path)
        with self.asked():
            try:
                session = SparkSession.builder.config(conf=conf).getOrCreate()
            finally:
                self._added = [place for place in sys.path if place not in before]
            internals.quieten_accumulators(session)
            return session

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def require_alive(self) -> None:
        """Raises EngineLostError if the JVM has ended."""
        if not self.alive:
            raise self._has_ended()

    @contextlib.contextmanager
    def asked(self) -> Iterator[None]:
        """Turn errors of py4j and Spark within into EngineError, or EngineLostError when Spark has ended."""
        try:
            yield
        except TwinlogError:
            raise
        except Exception as error:
            fault = self._fault(error)
            if fault is None:
                raise
            raise fault from error

    def _fault(self, error: Exception) -> EngineError | None:
        """The error to raise instead of `error`; None if `error` is foreign to Spark."""
        answered = isinstance(error, (Py4JJavaError, PySparkException))
        if self._process is not None and not answered:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(NOTICE_S if isinstance(error, (Py4JError, OSError)) else LOOK_S)
        if not self.alive:
            return self._has_ended()
        if isinstance(error, (Py4JNetworkError, OSError)):
            return EngineLostError(f"Spark's JVM has stopped answering: {error}")
        if not isinstance(error, (Py4JError, PySparkException)):
            return None
        if self._stopped_by_itself():
            return EngineLostError("Spark has stopped by itself, as when a cluster drops it")
        reason = reason_in(error)
        return EngineError(f"Spark refuses: {self._blame.sentence(reason)}", message_id="TW-SPARK-24")

    def _stopped_by_itself(self) -> bool:
        try:
            return internals.is_stopped()
        except Exception:
            return not self.alive

    def _has_ended(self, *, starting: bool = False) -> EngineError:
        """The error for the way in which the JVM ended."""
        code = None if self._process is None else self._process.poll()
        if code is None or self._ending.is_set():
            return EngineLostError("Spark's JVM was stopped")
        # The exit code by which a shell reports a killed program.
        number = -code if code < 0 else code - 128
        if number in set(signal.Signals):
            return EngineLostError(f"Spark's JVM was killed by {signal.Signals(number).name}")
        if code == _OUT_OF_MEMORY_CODE:
            return EngineLostError("Spark's JVM ran out of heap (spark.driver.memory)", message_id="TW-SPARK-11")
        if starting:
            reason = reason_of(list(self._output))
            why = "it gave no reason" if reason is None else self._blame.sentence(reason)
            if reason is None or (why == reason and asks_for_java(self._output)):
                why += f"; {NEEDED_JAVA}"
            return EngineError(
                f"Spark's JVM ended with code {code} before it listened: {why}", message_id="TW-SPARK-24"
            )
        return EngineLostError(f"Spark's JVM ended with code {code}")

    def interrupt(self) -> None:
        """Kill the JVM at once; a call to it that is under way raises EngineLostError."""
        self.expect_end()
        with self._lock:
            self._ending.set()
            if self._process is not None:
                self._process.kill()

    def end(self, timeout_s: float) -> None:
        """Let the JVM end, or kill it after `timeout_s`; afterwards pyspark has forgotten it. May be repeated."""
        self.expect_end()
        with self._lock:
            self._ending.set()
            process = self._process
        if process is not None:
            assert process.stdin is not None
            # The JVM stops Spark before it ends; its last log lines are about its end.
            process.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout_s)
            process.kill()
            process.wait()
        gateway, self._gateway = self._gateway, None
        internals.forget(gateway, self._added)

    def _print(self, stream: IO[bytes]) -> None:
        """Print the output of the JVM as the output of this process: Java tells there why it cannot begin."""
        for raw in stream:
            self._output.append(raw.decode(errors="replace").rstrip())
            # Nobody may read the output of this process any longer.
            with contextlib.suppress(OSError):
                os.write(_OUTPUT, raw)
        stream.close()

    def _pass_on(self, stream: IO[bytes]) -> None:
        """Log the errors of the JVM and of its Python workers; a stack trace only at debug level."""
        complaints = JvmErrorOutput()
        for raw in stream:
            line = raw.decode(errors="replace").rstrip()
            level = complaints.level(line)
            self._output.append(line)
            if level is not None:
                log.log(logging.DEBUG if self._ends else level, "TW-SPARK-05: spark: %s", line)
        stream.close()
