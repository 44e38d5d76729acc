"""What the driver asks of Spark, whether twinlog or another program started it."""

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

    Whatever is asked raises EngineError, and EngineLostError once Spark has ended.
    """

    @property
    def local(self) -> bool:
        """Whether its tasks run on this machine, and in as many slots for ever."""
        ...

    @property
    def own(self) -> bool:
        """Whether twinlog has started its JVM, may kill it, and can start another one."""
        ...

    def start(self) -> None: ...

    def require_alive(self) -> None:
        """Raises EngineLostError when Spark has ended."""
        ...

    @property
    def slots(self) -> int:
        """How many tasks it runs at once for flows, 0 without any executor."""
        ...

    def wait_for_slot(self, timeout_s: float, over: threading.Event) -> None:
        """On a cluster, wait until the first executor has registered, or it is `over`."""
        ...

    def take_executors(self, most: int) -> None:
        """Have so many executors at most, where that can be asked for."""
        ...

    def leaving_tasks(self) -> frozenset[int]:
        """Spark's numbers of the tasks whose executors are about to go; empty when unknown."""
        ...

    @property
    def cores(self) -> str:
        """How many cores of a cluster this may have."""
        ...

    @property
    def executor_memory(self) -> str:
        """Memory of an executor's JVM, as Spark writes it."""
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
        """Spark's own pages, None when they are switched off."""
        ...

    def figures(self) -> JvmFigures | None:
        """What the JVM reports of itself, None where it cannot be asked."""
        ...

    def query(self, name: str, flows: Sequence[FlowSettings], address: DriverAddress) -> LeaseQuery:
        """Start the streaming query `name`, whose tasks work for `flows` by the leases of the server at `address`."""
        ...

    def run_tasks(self, work: Callable[[Iterator[Any]], Iterator[T]], shares: Sequence[Any]) -> list[T]:
        """Run a batch job with a task for each share, and return what all of them yield."""
        ...

    def expect_end(self) -> None:
        """It is about to stop."""
        ...

    def interrupt(self) -> None:
        """End it at once, if it is ours."""
        ...

    def stop(self, timeout_s: float) -> None:
        """End what twinlog has started of it within `timeout_s`."""
        ...
