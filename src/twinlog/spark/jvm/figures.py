"""What a JVM reports of itself through its management beans, as Prometheus' Java client reads it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class JvmFigures:
    """Bytes of the heap and of the rest, threads, and of each garbage collector how often and how long it ran."""

    heap_bytes: int
    other_bytes: int
    threads: int
    collections: tuple[tuple[str, int, float], ...]
    """Name, count, seconds."""


def read_figures(java: Any) -> JvmFigures:
    """Ask the JVM behind pyspark's view of it."""
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
