"""What all readers of a flow's clusters have in common: their connections are closed, and name what they wait for."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Self

from twinlog.kafka.admin.cluster import ClusterAdmin


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
        """What a method, on another thread, waits for just now, in words."""
        return [text for cluster in self._clusters if (text := cluster.waits()) is not None]
