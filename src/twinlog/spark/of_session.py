"""An engine's use of the public interface of its session, for a session of any owner."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager

from pyspark.sql import SparkSession

LOOK_S = 0.2
"""Seconds between two checks for the first executor."""


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
