"""What an engine asks of its session by what pyspark makes public, whoever has started it."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager

from pyspark.sql import SparkSession

LOOK_S = 0.2
"""How often it is looked for the first executor."""


class OfSession(ABC):
    """The part of a `twinlog.spark.engine.Engine` that its session answers."""

    @property
    @abstractmethod
    def _running(self) -> SparkSession:
        """The session. Raises EngineLostError where there is none."""

    @abstractmethod
    def asked(self) -> AbstractContextManager[None]:
        """Turn errors of py4j and Spark within into EngineError, or EngineLostError when Spark has ended."""

    @property
    @abstractmethod
    def slots(self) -> int:
        """How many tasks it runs at once for flows, 0 without any executor."""

    def wait_for_slot(self, timeout_s: float, over: threading.Event) -> None:
        """On a cluster, wait until the first executor has registered, or it is `over`."""
        deadline = time.monotonic() + timeout_s
        while not self.slots and time.monotonic() < deadline and not over.wait(LOOK_S):
            pass

    @property
    def cores(self) -> str:
        """How many cores of a cluster this may have."""
        return self._setting("spark.cores.max", "all")

    @property
    def executor_memory(self) -> str:
        """Memory of an executor's JVM, as Spark writes it."""
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
        """Spark's own pages, None when they are switched off."""
        with self.asked():
            url = self._running.sparkContext.uiWebUrl
            return None if url is None else str(url)

    def _setting(self, name: str, default: str) -> str:
        with self.asked():
            return str(self._running.conf.get(name, default))
