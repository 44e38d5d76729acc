"""The base of all readers of a flow's clusters: it opens and closes connections, and asks a silent cluster twice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self, TypeVar

from twinlog.errors import ClusterError, RefusedError
from twinlog.kafka.admin.cluster import ClusterAdmin

T = TypeVar("T")


def ask_twice(cluster: ClusterAdmin, look: Callable[[], T]) -> T:
    """Return the result of `look`; if a connected cluster fails to answer, call `look` a second time.

    By the time that a hanging broker is given up, another broker leads in its place. Raises ClusterError, and
    RefusedError at once.
    """
    try:
        return look()
    except RefusedError:
        raise
    except ClusterError:
        if not cluster.client.connected:
            raise
    return look()


class ClustersReader:
    """Reads from `clusters`, which it closes; a context manager."""

    def __init__(self, clusters: Sequence[ClusterAdmin]) -> None:
        self._clusters = clusters

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections to all clusters."""
        for cluster in self._clusters:
            cluster.close()

    def waits(self) -> list[str]:
        """The requests that a method, on another thread, waits for just now, in words."""
        return [text for cluster in self._clusters if (text := cluster.waits()) is not None]
