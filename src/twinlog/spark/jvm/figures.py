"""The metrics of a JVM from its management beans, in the form of Prometheus' Java client."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class JvmFigures:
    """Bytes of the heap and of the remaining memory, threads, and runs of each garbage collector."""

    heap_bytes: int
    other_bytes: int
    threads: int
    collections: tuple[tuple[str, int, float], ...]
    """Name, count, seconds."""


def read_figures(java: Any) -> JvmFigures:
    """Read the metrics of the JVM through pyspark's view of it."""
    factory = java.java.lang.management.ManagementFactory
    memory = factory.getMemoryMXBean()
    return JvmFigures(
        heap_bytes=int(memory.getHeapMemoryUsage().getUsed()),
        other_bytes=int(memory.getNonHeapMemoryUsage().getUsed()),
        threads=int(factory.getThreadMXBean().getThreadCount()),
        collections=tuple(
            (str(one.getName()), int(one.getCollectionCount()), one.getCollectionTime() / 1000)
            for one in factory.getGarbageCollectorMXBeans()
        ),
    )
