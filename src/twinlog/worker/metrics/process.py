"""Metrics of the process, and of Spark's JVM by the names of Prometheus' Java client."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import ProcessCollector
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily

from twinlog.spark.jvm.figures import JvmFigures

_PROCESS = ProcessCollector(registry=None)


def process_families() -> Iterator[Metric]:
    """CPU, memory and files of this process."""
    yield from _PROCESS.collect()


def jvm_families(jvm: JvmFigures | None, restarts: int) -> Iterator[Metric]:
    """Spark's JVM, and the number of its restarts after a loss. `jvm` is None while Spark is stopped."""
    yield CounterMetricFamily(
        "twinlog_spark_restarts", "How often Spark was started again after its JVM was lost.", value=restarts
    )
    if jvm is None:
        return
    memory = GaugeMetricFamily("jvm_memory_used_bytes", "Memory that Spark's JVM uses.", labels=["area"])
    memory.add_metric(["heap"], jvm.heap_bytes)
    memory.add_metric(["nonheap"], jvm.other_bytes)
    yield memory
    yield GaugeMetricFamily("jvm_threads_current", "Threads of Spark's JVM.", value=jvm.threads)
    collections = SummaryMetricFamily(
        "jvm_gc_collection_seconds", "Time that Spark's JVM spent in a garbage collector.", labels=["gc"]
    )
    for name, count, seconds in jvm.collections:
        collections.add_metric([name], count, seconds)
    yield collections
