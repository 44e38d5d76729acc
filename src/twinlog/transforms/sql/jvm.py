"""A JVM with Spark SQL, beside a copier. The JVM ends with its starting process, however that process ends."""

from __future__ import annotations

import contextlib
import math
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyspark
from py4j.java_gateway import JavaGateway, is_instance_of
from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError

from twinlog.errors import EngineError, EngineLostError
from twinlog.process.jvm import LATE, NEEDED_JAVA, asks_for_java, silence_py4j, use_arguments
from twinlog.process.scratch import Scratch, sweep
from twinlog.transforms.sql.catalyst import Catalyst
from twinlog.transforms.sql.gateway import open_gateway, reason
from twinlog.transforms.sql.program import compile_evaluator, new_evaluator

_MARK = "spark-catalyst_*.jar"
_YARN = "__spark_libs__"
"""The folder in a YARN container with the jars of `spark.yarn.archive` or `spark.yarn.jars`."""

HEAP_MB = 512
START_S, CONNECT_S = 300.0, 300.0
"""The limits in seconds until the JVM listens, and from then on until it knows SQL."""

ASK_S = 30.0
"""The limit in seconds of a question about an error."""

NO_ROOM = (OSError, MemoryError, RuntimeError)
"""The errors that Python raises for a lack of room for a file, of memory, or of threads."""

LOOK_S = 0.02
WATCH_S = 0.5
LOOK_AT_MOST_S = 2.0
NOTICE_S = 1.0
_ADDRESS_FILE_VARIABLE = "_PYSPARK_DRIVER_CONN_INFO_PATH"
_PROGRAM = "org.apache.spark.api.python.PythonGatewayServer"
# As Spark's own scripts open them (Spark class JavaModuleOptions).
_OPENED = (
    *("java.lang", "java.lang.invoke", "java.lang.reflect", "java.io", "java.net", "java.nio", "java.util"),
    *("java.util.concurrent", "java.util.concurrent.atomic", "jdk.internal.ref", "sun.nio.ch", "sun.nio.cs"),
    *("sun.security.action", "sun.util.calendar"),
)
_OPTIONS = (
    f"-Xmx{HEAP_MB}m",
    # A JVM with a full heap would keep some of its threads and stop its work.
    "-XX:+ExitOnOutOfMemoryError",
    *("-XX:+UseSerialGC", "-XX:MinHeapFreeRatio=10", "-XX:MaxHeapFreeRatio=20", "-XX:+IgnoreUnrecognizedVMOptions"),
    *(f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in _OPENED),
    "--add-modules=jdk.incubator.vector",
    *("--enable-native-access=ALL-UNNAMED", "-Dio.netty.tryReflectionSetAccessible=true", "-Djava.awt.headless=true"),
)
_OUT_OF_MEMORY = 3
_OF_CODE = {_OUT_OF_MEMORY: f"has ended: its heap of {HEAP_MB} MB was too small for the query's results"}
_SHORT_OF_MEMORY = "insufficient memory"
_LACKING = (
    *("java.lang.LinkageError", "java.lang.ClassNotFoundException"),
    # twinlog's own class in Java, which is compiled against Spark's classes.
    "org.codehaus.commons.compiler.CompileException",
)


def find_java(environment: Mapping[str, str] = os.environ) -> str:
    """The program of JAVA_HOME, or else of the PATH. Raises EngineError."""
    home = environment.get("JAVA_HOME", "").strip()
    if home:
        program = Path(home) / "bin" / "java"
        if os.access(program, os.X_OK):
            return str(program)
    found = shutil.which("java", path=environment.get("PATH"))
    if found is None:
        there = f"JAVA_HOME is {home}, which lacks it" if home else "JAVA_HOME is unset"
        raise EngineError(
            f"Java is missing: {there}, and the PATH lacks it; transform.sql needs Java 17 or newer wherever a task "
            "runs",
            message_id="TW-SQL-03",
        )
    return found


def find_jars(environment: Mapping[str, str] = os.environ, here: Path | None = None) -> Path:
    """The directory of Spark's jars: of pyspark, of SPARK_HOME, or of a YARN container. Raises EngineError."""
    places = [Path(str(pyspark.__file__)).parent / "jars"]
    if environment.get("SPARK_HOME"):
        places.append(Path(environment["SPARK_HOME"]) / "jars")
    places.append((here or Path.cwd()) / _YARN)
    for place in places:
        if next(place.glob(_MARK), None) is not None:
            return place
    raise EngineError(
        f"the jars of Spark are missing in {', '.join(map(str, places))}; transform.sql needs them wherever a task "
        "runs: install pyspark there with pip, which brings them, or set SPARK_HOME",
        message_id="TW-SQL-03",
    )


def class_path(jars: Path) -> str:
    """The class path that Spark's own scripts make of its jars (Spark class AbstractCommandBuilder)."""
    first = sorted(jars.glob("slf4j-api-*.jar"))
    return os.pathsep.join(map(str, (jars.parent / "conf", *first, jars / "*")))


@dataclass(frozen=True, slots=True)
class _Deadline:
    """A thread's call of the JVM: its deadline, and the function to call before the JVM is killed."""

    overdue_at: float
    busy_at_s: float
    """The seconds that the JVM will have computed at the deadline if it computes for half of the time."""
    look: Callable[[], None] | None


class SqlJvm:
    """Starts a JVM, in some seconds.

    Raises EngineError, or EngineLostError if the next try may succeed.

    A `brief` JVM only analyses: good compilation of its own code would cost more than it saves.
    """

    def __init__(self, *, brief: bool = False) -> None:
        self._more_options = ("-XX:TieredStopAtLevel=1",) if brief else LATE
        silence_py4j()
        self._folder: Scratch | None = None
        self._log: Any = None
        self.process: subprocess.Popen[bytes] | None = None
        self.gateway: JavaGateway | None = None
        self.analysing = threading.Lock()
        self._evaluator_class: Any = None
        self._hung_for: set[int] = set()
        """The threads whose late answers are the reason why the JVM was killed."""
        self.condemned = False
        """The JVM failed by a fault of its own, and must be replaced."""
        self._asked: dict[int, _Deadline] = {}
        """The deadline of each waiting thread."""
        self.busy = False
        """Whether the JVM computed for at least half of the time before it was killed: the machine had room for it."""
        try:
            _sweep()
            self._folder = Scratch()
            # The file is open as long as the JVM runs.
            self._log = tempfile.TemporaryFile()  # noqa: SIM115
            self._launch(self._folder)
            with self.within(CONNECT_S):
                self._connect(self._folder.path / "gateway")
            # The JVM of a killed process has locked its folder until its end, which may have come meanwhile.
            _sweep()
        except (Py4JError, TypeError, *NO_ROOM) as error:
            why = reason(error)
            unfit = self.unfit(error, starting=True)
            self.close()
            raise unfit or EngineLostError(f"Spark's JVM for transform.sql fails to start: {why}") from None
        except BaseException:
            self.close()
            raise

    def _launch(self, scratch: Scratch) -> None:
        folder = scratch.path
        # The archive of classes is from Spark's own JVM, and fits only a JVM with the same start.
        command = [find_java(), *_OPTIONS, *self._more_options, *use_arguments(), f"-Djava.io.tmpdir={folder}"]
        command += ["-cp", class_path(find_jars()), _PROGRAM]
        # The JVM ends when its standard input does; Ctrl-C is for other processes.
        self.process = process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=self._log,
            stderr=self._log,
            # The JVM is killed in the end, so its files in the directories of an executor would stay there.
            env={
                **os.environ,
                "SPARK_LOCAL_DIRS": str(folder),
                _ADDRESS_FILE_VARIABLE: str(folder / "gateway"),
            },
            start_new_session=True,
            # A JVM that starts while this process is killed never ends if the folder is removed before.
            pass_fds=[scratch.lock],
        )
        threading.Thread(target=self._watch, name="watches SQL's JVM", daemon=True).start()
        deadline = time.monotonic() + START_S
        while not (folder / "gateway").exists():
            code = process.poll()
            if code is not None:
                raise self._not_started(code)
            if time.monotonic() > deadline:
                raise EngineLostError(f"Spark's JVM for transform.sql is still deaf after {START_S:.0f} s")
            time.sleep(LOOK_S)

    def _not_started(self, code: int) -> EngineError:
        self._log.seek(0)
        lines = [line.strip() for line in self._log.read().decode(errors="replace").splitlines() if line.strip()]
        errors = (line for line in lines if "Error" in line or "Exception" in line)
        line = next(errors, lines[-1] if lines else "its log is empty")
        text = f"Spark's JVM for transform.sql fails to start, and ends with code {code}: {line}"
        if code < 0 or any(_SHORT_OF_MEMORY in line for line in lines):
            return EngineLostError(text)
        return EngineError(f"{text}; {NEEDED_JAVA}" if asks_for_java(lines) else text)

    def _connect(self, address_file: Path) -> None:
        self.gateway = open_gateway(address_file)
        self.java = self.gateway.jvm
        level = self.java.org.apache.logging.log4j.Level.ERROR
        self.java.org.apache.spark.util.Utils.setLogLevel(level)
        self.catalyst = Catalyst(self.java)

    def evaluator(self, there: str, back: str, steps: list[Any], made: Any) -> Any:
        """The evaluator of the rows in the file `there` by the steps of a query, see `program.new_evaluator`."""
        with self.analysing:
            if self._evaluator_class is None:
                self._evaluator_class = compile_evaluator(self.gateway)
        return new_evaluator(self.gateway, self._evaluator_class, there, back, steps, made)

    @property
    def alive(self) -> bool:
        """Whether the JVM is still running."""
        return self.process is not None and self.process.poll() is None

    @property
    def exit_code(self) -> int | None:
        """The exit code; None while the JVM runs. A connection breaks a moment before the end is visible."""
        if self.process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(NOTICE_S)
        return None if self.process is None else self.process.poll()

    def lost(self, error: Exception, answer_s: float) -> EngineError:
        """The error for a call that the JVM left unanswered, although it had `answer_s` seconds.

        The error is an EngineLostError, or the result of `unfit`.
        """
        if self.hung:
            why = f"has been silent for {answer_s:.0f} s, and was killed"
        elif (code := self.exit_code) is None:
            if (unfit := self.unfit(error)) is not None:
                return unfit
            # The text of py4j's own error would contain Java's stack trace.
            why = f"{'fails' if isinstance(error, Py4JJavaError) else 'does not answer any more'}: {reason(error)}"
        elif code < 0:
            why = f"was killed by {signal.Signals(-code).name}"
        else:
            why = _OF_CODE.get(code, f"has ended with code {code}")
        return EngineLostError(f"Spark's JVM for transform.sql {why}")

    def refused(self, error: Py4JJavaError) -> bool:
        """Whether Spark refused the request; False for an error of the JVM itself, for example of its memory."""
        if self._is_a(error, "java.io.UncheckedIOException", "org.apache.arrow.memory.OutOfMemoryException"):
            return False
        return self._is_a(
            error, "java.lang.RuntimeException", "org.apache.spark.SparkThrowable", "java.lang.StackOverflowError"
        )

    def _is_a(self, error: Py4JJavaError, *names: str) -> bool:
        return any(is_instance_of(self.gateway, error.java_exception, name) for name in names)

    def unfit(self, error: Exception, *, starting: bool = False) -> EngineError | None:
        """The error for a Spark that lacks a called class or method, as another version does; otherwise None.

        Each JVM would fail with this error. None also for a JVM that is silent.
        """
        if self.gateway is None or isinstance(error, (Py4JNetworkError, OSError)) or not self.alive:
            return None
        try:
            with self.within(ASK_S):
                if isinstance(error, Py4JJavaError):
                    lacks = self._is_a(error, *_LACKING) or (starting and self.refused(error))
                else:
                    # py4j takes a missing class for a package, which refuses calls.
                    lacks = isinstance(error, TypeError) or "does not exist" in str(error)
                    # A JVM that is lost meanwhile raises the same error.
                    self.gateway.jvm.java.lang.System.nanoTime()
                why = "it lacks a class that is used here" if isinstance(error, TypeError) else reason(error)
        except (Py4JError, TypeError, OSError):
            return None
        if not lacks:
            return None
        return EngineError(
            f"transform.sql is impossible to evaluate by PySpark {pyspark.__version__} with the jars in "
            f"{find_jars()}: {why}; install a PySpark that twinlog runs on wherever a task runs",
            message_id="TW-SQL-04",
        )

    @contextlib.contextmanager
    def within(self, seconds: float, look: Callable[[], None] | None = None) -> Iterator[None]:
        """Kill the JVM if its answer takes longer than `seconds`; the call then raises.

        Before the kill a thread of its own calls `look`.
        """
        me = threading.get_ident()
        busy_at_s = self._cpu_s() + seconds / 2
        self._asked[me] = _Deadline(time.monotonic() + seconds, busy_at_s, look)
        try:
            yield
        finally:
            self._asked.pop(me, None)

    @property
    def hung(self) -> bool:
        """Whether the JVM was killed because of a late answer."""
        return bool(self._hung_for)

    def hung_for_me(self) -> bool:
        """Whether the JVM was killed because of a late answer to this thread.

        Other threads may have lost their answers by the kill.
        """
        return threading.get_ident() in self._hung_for

    def out_of_memory(self) -> bool:
        """Whether the heap was too small for the request."""
        return self.exit_code == _OUT_OF_MEMORY

    def _cpu_s(self) -> float:
        """The seconds that the JVM has computed; infinite if the system hides them."""
        assert self.process is not None
        try:
            fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return math.inf
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _watch(self) -> None:
        assert self.process is not None
        while self.process.poll() is None:
            now = time.monotonic()
            overdue = {thread: asked for thread, asked in list(self._asked.items()) if now > asked.overdue_at}
            if overdue:
                cpu_s = self._cpu_s()
                for asked in overdue.values():
                    if asked.look is not None:
                        _in_time(asked.look)
                # An answer that arrives meanwhile saves the JVM: a kill would blame the next rows.
                hung_for = {thread for thread, asked in overdue.items() if self._asked.get(thread) is asked}
                if hung_for:
                    self.busy = all(cpu_s >= overdue[thread].busy_at_s for thread in hung_for)
                    self._hung_for |= hung_for
                    self.process.kill()
            time.sleep(WATCH_S)

    def close(self) -> None:
        """End the JVM; its open requests are lost."""
        if self.process is not None:
            assert self.process.stdin is not None
            self.process.kill()
            self.process.wait()
            with contextlib.suppress(OSError):
                self.process.stdin.close()
        if self.gateway is not None:
            with contextlib.suppress(Py4JError, OSError):
                self.gateway.close()
        if self._log is not None:
            self._log.close()
        if self._folder is not None:
            self._folder.remove()


def _sweep() -> None:
    """Remove the folders of processes that were killed."""
    sweep([Path(tempfile.gettempdir())])


def _in_time(look: Callable[[], None]) -> None:
    """Call `look` with a time limit: a hanging JVM may leave this call unanswered, too."""
    looking = threading.Thread(target=look, name="looks at SQL's JVM", daemon=True)
    with contextlib.suppress(RuntimeError):
        looking.start()
        looking.join(LOOK_AT_MOST_S)
