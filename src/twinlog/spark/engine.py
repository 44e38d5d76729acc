"""The driver's interface to Spark, for a Spark that twinlog or another program started."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

from twinlog.lease.channel import DriverAddress
from twinlog.settings.flow import FlowSettings
from twinlog.spark.jvm.figures import JvmFigures
from twinlog.spark.query import LeaseQuery

T = TypeVar("T")


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
