"""The driver's interface to Spark, for a Spark that twinlog or another program started; and the figures of its JVM."""

from __future__ import annotations

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar

from pyspark.sql import SparkSession

from twinlog.clock import SYSTEM, Clock
from twinlog.errors import EngineError
from twinlog.lease.channel import DriverAddress
from twinlog.settings.flow import FlowSettings
from twinlog.spark.jvm.figures import JvmFigures
from twinlog.spark.source import LeaseQuery

log = logging.getLogger(__name__)

T = TypeVar("T")

LOOK_S = 0.2
"""Seconds between two checks for the first executor."""

WAIT_S = 1.0
FRESH_S = 5.0
OLD_S = 60.0


class Engine(Protocol):
    """A Spark with a session for all flows of a process. `start` comes first, `stop` last, each once.

    Each call may raise EngineError, and EngineLostError once Spark has ended.
    """

    @property
    def local(self) -> bool:
        """Whether its tasks run on this machine, in a constant number of slots."""
        ...

    @property
    def own(self) -> bool:
        """Whether twinlog has started its JVM, may kill it, and can start another JVM."""
        ...

    def start(self) -> None: ...

    def require_alive(self) -> None:
        """Raises EngineLostError if Spark has ended."""
        ...

    @property
    def slots(self) -> int:
        """The number of tasks that it runs at once for flows, 0 if there is no executor."""
        ...

    def wait_for_slot(self, timeout_s: float, over: threading.Event) -> None:
        """On a cluster, wait for the first executor, up to `timeout_s`, or until `over` is set."""
        ...

    def take_executors(self, most: int) -> None:
        """Limit the executors to `most`, if the cluster manager supports it."""
        ...

    def leaving_tasks(self) -> frozenset[int]:
        """Spark's numbers of the tasks whose executors will end soon; empty if unknown."""
        ...

    def task_executors(self) -> Mapping[int, str]:
        """The executor of each running task, by Spark's number of the task; empty if unknown."""
        ...

    @property
    def cores(self) -> str:
        """The number of cores of a cluster that this Spark may have."""
        ...

    @property
    def executor_memory(self) -> str:
        """Memory of an executor's JVM, in Spark's notation."""
        ...

    @property
    def host(self) -> str:
        """The address under which tasks reach this process."""
        ...

    @property
    def bind_address(self) -> str:
        """The address of this machine at which Spark's own driver waits for executors."""
        ...

    @property
    def web_url(self) -> str | None:
        """The address of Spark's web UI, None if it is switched off."""
        ...

    def figures(self) -> JvmFigures | None:
        """The JVM's metrics of itself, None if they are out of reach."""
        ...

    def query(self, name: str, flows: Sequence[FlowSettings], address: DriverAddress) -> LeaseQuery:
        """Start the streaming query `name`, whose tasks work for `flows` by the leases of the server at `address`."""
        ...

    def run_tasks(self, work: Callable[[Iterator[Any]], Iterator[T]], shares: Sequence[Any]) -> list[T]:
        """Run a batch job with a task for each share, and return the results of all tasks."""
        ...

    def expect_end(self) -> None:
        """Note that this Spark will stop soon."""
        ...

    def interrupt(self) -> None:
        """End it at once, if twinlog has started it."""
        ...

    def stop(self, timeout_s: float) -> None:
        """End the parts of it that twinlog has started, within `timeout_s`."""
        ...


class OfSession(ABC):
    """The part of a `twinlog.spark.engine.Engine` that its session answers."""

    @property
    @abstractmethod
    def _running(self) -> SparkSession:
        """The session. Raises EngineLostError if it is missing."""

    @abstractmethod
    def asked(self) -> AbstractContextManager[None]:
        """Turn errors of py4j and Spark within into EngineError, or EngineLostError when Spark has ended."""

    @property
    @abstractmethod
    def slots(self) -> int:
        """The number of tasks that it runs at once for flows, 0 if there is no executor."""

    def wait_for_slot(self, timeout_s: float, over: threading.Event) -> None:
        """On a cluster, wait for the first executor, up to `timeout_s`, or until `over` is set."""
        deadline = time.monotonic() + timeout_s
        while not self.slots and time.monotonic() < deadline and not over.wait(LOOK_S):
            pass

    @property
    def cores(self) -> str:
        """The number of cores of a cluster that this Spark may have."""
        return self._setting("spark.cores.max", "all")

    @property
    def executor_memory(self) -> str:
        """Memory of an executor's JVM, in Spark's notation."""
        return self._setting("spark.executor.memory", "1g")

    @property
    def host(self) -> str:
        """The address under which tasks reach this process."""
        return self._setting("spark.driver.host", "127.0.0.1")

    @property
    def bind_address(self) -> str:
        """The address of this machine at which Spark's own driver waits for executors."""
        return self._setting("spark.driver.bindAddress", self.host)

    @property
    def web_url(self) -> str | None:
        """The address of Spark's web UI, None if it is switched off."""
        with self.asked():
            url = self._running.sparkContext.uiWebUrl
            return None if url is None else str(url)

    def _setting(self, name: str, default: str) -> str:
        with self.asked():
            return str(self._running.conf.get(name, default))


class JvmSampler:
    """Asks the JVM on a thread of its own; `engine()` is the running engine, or None."""

    def __init__(self, engine: Callable[[], Engine | None], clock: Clock = SYSTEM) -> None:
        self._engine = engine
        self._clock = clock
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._found: tuple[float, JvmFigures] | None = None

    def latest(self) -> JvmFigures | None:
        """The figures of the last minute; None if they are missing, for example while Spark starts."""
        with self._lock:
            now = self._clock.monotonic()
            if self._found is None or now - self._found[0] > FRESH_S:
                self._ask()
            thread = self._thread
        if thread is not None:
            thread.join(WAIT_S)
        found = self._found
        return None if found is None or self._clock.monotonic() - found[0] > OLD_S else found[1]

    def _ask(self) -> None:
        if self._thread is not None and self._thread.is_alive():
            return
        thread = threading.Thread(target=self._look, name="jvm figures", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            log.debug("no thread for the figures of the JVM: %s", error)
        else:
            self._thread = thread

    def _look(self) -> None:
        try:
            engine = self._engine()
            figures = None if engine is None else engine.figures()
            if figures is not None:
                self._found = self._clock.monotonic(), figures
        except EngineError as error:
            log.debug("no figures of the JVM: %s", error)
