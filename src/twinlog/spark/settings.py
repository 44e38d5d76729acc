"""The settings of a Spark that twinlog starts, of a given session, and of a cluster with its `spark-defaults.conf`.

A cluster gets executors, cores and memory by the needs of copiers. A copier is Python beside the executor's JVM.
Kubernetes and YARN end an executor that takes more than its heap and its `spark.executor.memoryOverhead`, so the
overhead holds the budget of a copier (`twinlog.copier.memory.bytes`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from importlib.util import find_spec
from pathlib import Path

from twinlog.model.amounts import counted
from twinlog.process.jvm import LATE
from twinlog.settings.flow import COPIER_MEMORY_BYTES

ROWS = "spark.twinlog.rows"
"""The meaning of a row of a query: a copied range, or a record."""

RECORDS = "records"
ROW_KINDS = ("ranges", RECORDS)

QUERY_SETTINGS = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.streaming.pollingDelay": "10ms",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.streaming.minBatchesToRetain": "2",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    # A lease has a row now and then: compiling code for these rows costs more than it saves.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""The settings of a streaming query: a session may have its own, beside other sessions of the same Spark."""

RECORDS_SETTINGS = {
    # Compiled code saves more than half of a row's cost in the JVM.
    "spark.sql.codegen.factoryMode": "FALLBACK",
}
"""Replaces settings of `QUERY_SETTINGS` if a row is a record."""

SETTINGS = {
    **QUERY_SETTINGS,
    "spark.python.worker.reuse": "true",
    # Unix sockets need less work than TCP for the data between Python and the JVM.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.locality.wait": "0s",
    "spark.speculation": "false",
    # A task's Python worker may hold partitions: a cancelled task must release them soon.
    "spark.python.task.killTimeout": "1s",
    "spark.ui.showConsoleProgress": "false",
    "spark.ui.retainedJobs": "50",
    "spark.ui.retainedStages": "50",
    "spark.ui.retainedTasks": "1000",
    "spark.sql.ui.retainedExecutions": "50",
    # By default Spark keeps a hundred micro-batches of each of the last hundred queries.
    "spark.sql.streaming.ui.retainedQueries": "10",
    "spark.sql.streaming.numRecentProgressUpdates": "10",
}

LOG_SETTINGS = """\
rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %p %c{1}: %m%n
appender.console.filter.threshold.type = ThresholdFilter
appender.console.filter.threshold.level = error
"""

MOST_CORES = 4
"""The most cores of an executor whose size twinlog chooses.

A lost executor takes its copiers with it; on the other hand, a JVM for each copier would cost more than the copier.
"""

JVM_MB = 448
"""The memory of an executor's JVM beside its heap, and of the process that forks its Pythons."""

COPIER_MB = 128
"""The memory of a copier's Python beside the records that it holds."""

SQL_MB = 768
"""The memory of a JVM beside a copier that evaluates `transform.sql`."""

REQUESTS = 1.25
"""A factor for a copier's budget together with the requests on their way, which are additional (`copier/memory.py`)."""

STEP_MB = 64

CLUSTER_SETTINGS = {
    # Records pass through Python beside the executor's JVM, so the heap of the JVM may be small.
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": "-XX:+UseSerialGC -XX:MinHeapFreeRatio=10 -XX:MaxHeapFreeRatio=20",
    # An executor that is asked to end continues until its tasks have ended, which takes a moment here.
    "spark.decommission.enabled": "true",
    # By default Spark waits two minutes for a disconnected executor, and for a task of a lease on it.
    "spark.executor.heartbeatInterval": "3s",
    "spark.storage.blockManagerHeartbeatTimeoutMs": "30s",
    "spark.network.timeoutInterval": "3s",
}
"""The defaults of every cluster; the user's settings and `spark-defaults.conf` take precedence."""

CORES, CORES_MAX, INSTANCES = "spark.executor.cores", "spark.cores.max", "spark.executor.instances"
CPUS, OVERHEAD = "spark.task.cpus", "spark.executor.memoryOverhead"
FACTORS = ("spark.executor.memoryOverheadFactor", "spark.kubernetes.memoryOverheadFactor")
PYTHON = "spark.executor.pyspark.memory"
DYNAMIC_ALLOCATION = "spark.dynamicAllocation."
DYNAMIC = DYNAMIC_ALLOCATION + "enabled"
LEAST, MOST = DYNAMIC_ALLOCATION + "minExecutors", DYNAMIC_ALLOCATION + "maxExecutors"
_UNITS = {"k": 1 / 1024, "": 1, "m": 1, "g": 1024, "t": 1024 * 1024}


def local_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings of a Spark of this process; `settings` are its other settings."""
    # If there is a row for each record, the JVM spends its time on these rows.
    compiler = (
        f"{' '.join(LATE)} -XX:ReservedCodeCacheSize=96m"
        if settings.get(ROWS) == RECORDS
        # A small place for new objects: a lease makes few of them.
        else "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=64m -Xmn16m"
    )
    return {
        # The JVM plans leases and moves no data: Spark's smallest heap, given back when unused, a single collector
        # thread.
        "spark.driver.memory": "512m",
        "spark.driver.extraJavaOptions": (
            f"-XX:+UseSerialGC {compiler} -Xss512k -Xms64m -XX:MinHeapFreeRatio=10 -XX:MaxHeapFreeRatio=20"
        ),
    }


def defaults_file() -> Path:
    """The path of Spark's file of defaults; the file may be absent."""
    place = os.environ.get("SPARK_CONF_DIR")
    return Path(place or Path(os.environ.get("SPARK_HOME") or _installed(), "conf"), "spark-defaults.conf")


def _installed() -> str:
    """The folder into which pip has installed Spark; Spark's scripts use it as their home by default."""
    spec = find_spec("pyspark")
    return "" if spec is None or spec.origin is None else str(Path(spec.origin).parent)


def file_settings() -> dict[str, str]:
    """The settings of that file; empty if the file is absent."""
    try:
        lines = defaults_file().read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return {}
    parts = [re.split(r"\s*[=:\s]\s*", line.strip(), maxsplit=1) for line in lines]
    return {key: rest[0].strip() for key, *rest in parts if rest and not key.startswith(("#", "!"))}


class ClusterManager(Enum):
    """The system that gives Spark its executors."""

    LOCAL = "local"
    STANDALONE = "standalone"
    KUBERNETES = "Kubernetes"
    YARN = "YARN"

    @property
    def sizes_executors(self) -> bool:
        """Whether the manager makes executors of the requested size, and enforces their memory limit."""
        return self in (ClusterManager.KUBERNETES, ClusterManager.YARN)


def manager_of(master: str) -> ClusterManager:
    """The manager by Spark's master; `local-cluster` is a standalone cluster for tests."""
    if master.startswith("k8s"):
        return ClusterManager.KUBERNETES
    if master.startswith("yarn"):
        return ClusterManager.YARN
    return ClusterManager.STANDALONE if master.startswith(("spark://", "local-cluster")) else ClusterManager.LOCAL


@dataclass(frozen=True, slots=True)
class TaskResources:
    """The number of tasks of all flows together, the largest budget of a copier in bytes, and whether SQL is used."""

    tasks: int
    copier_bytes: int = COPIER_MEMORY_BYTES
    sql: bool = False

    def overhead_mb(self, copiers: int) -> int:
        """Megabytes beside the heap of an executor that runs this number of copiers."""
        sql = SQL_MB if self.sql else 0
        least = JVM_MB + copiers * (COPIER_MB + sql + REQUESTS * self.copier_bytes / (1 << 20))
        return -int(-least // STEP_MB) * STEP_MB


def derived(master: str, need: TaskResources, given: Mapping[str, str]) -> dict[str, str]:
    """The settings by which a cluster gives each task a slot, and the copiers their memory; empty for a local master.

    The `given` settings stay, and the rest follows them. Dynamic allocation is on only by the user's own setting:
    twinlog has as many tasks as there are slots, so Spark would never see a need for more executors.
    """
    manager = manager_of(master)
    if manager is ClusterManager.LOCAL:
        return {}
    cpus = _number(given, CPUS) or 1
    cores = _number(given, CORES)
    executors = _number(given, INSTANCES)
    if manager.sizes_executors:
        if cores is None:
            copiers = -(-need.tasks // (executors or _executors(need.tasks)))
            cores = copiers * cpus
        executors = executors or -(-need.tasks // max(1, cores // cpus))
        found = {CORES: str(cores), INSTANCES: str(executors)}
        if not any(key in given for key in FACTORS):
            found[OVERHEAD] = f"{need.overhead_mb(max(1, cores // cpus))}m"
    else:
        # A standalone cluster gives the first application all its cores, up to the limit of the application. An
        # executor larger than every worker would never start, so each executor takes the size of its worker.
        executors = -(-need.tasks // max(1, (cores or cpus) // cpus))
        found = {CORES_MAX: str(executors * (cores or cpus))}
    found[DYNAMIC] = "false"
    if _is_on(given, DYNAMIC):
        found |= {LEAST: str(min(executors, _number(given, MOST) or executors))}
        found |= {MOST: str(max(executors, _number(given, LEAST) or executors))}
    return {key: value for key, value in found.items() if key not in given}


def contradictions(master: str, need: TaskResources, settings: Mapping[str, str]) -> list[str]:
    """The contradictions in all settings of a cluster that deny slots to tasks or memory to copiers.

    Each is a sentence with the way out.
    """
    manager = manager_of(master)
    if manager is ClusterManager.LOCAL:
        return []
    cpus = _number(settings, CPUS) or 1
    cores = _number(settings, CORES)
    found = [_few_slots(manager, need, settings, cpus, cores)]
    if manager.sizes_executors:
        copiers = max(1, (cores or 1) // cpus)
        found += [_little_memory(need, settings, copiers), _little_python(need, settings, copiers)]
    found += [_dynamic(settings), _speculates(settings)]
    return [sentence for sentence in found if sentence is not None]


def _few_slots(
    manager: ClusterManager, need: TaskResources, settings: Mapping[str, str], cpus: int, cores: int | None
) -> str | None:
    if manager.sizes_executors:
        key, count = INSTANCES, _number(settings, INSTANCES)
        if _is_on(settings, DYNAMIC):
            key, count = LEAST, max(count or 0, _number(settings, LEAST) or 0)
        count = 2 if count is None else count
        slots = count * ((cores or 1) // cpus)
        words = f"{key} = {count} and {CORES} = {cores or 1}"
        wanted = f"{key} = {-(-need.tasks // max(1, (cores or 1) // cpus))}"
    else:
        most = _number(settings, CORES_MAX)
        if most is None:
            return None
        each = cores or cpus
        slots = most // each * (each // cpus)
        words, wanted = f"{CORES_MAX} = {most}", f"{CORES_MAX} = {-(-need.tasks // max(1, each // cpus)) * each}"
        words += "" if cores is None else f" in executors of {CORES} = {cores}"
    words += "" if cpus == 1 else f" by {CPUS} = {cpus}"
    if slots >= need.tasks:
        return None
    return (
        f"TW-SPARK-20: Spark's settings leave {counted(slots, 'slot')} for {counted(need.tasks, 'task')} of "
        f"tasks.max, by {words}: flows get what there is; set {wanted}, or a smaller tasks.max"
    )


def _little_memory(need: TaskResources, settings: Mapping[str, str], copiers: int) -> str | None:
    """A sentence about too little memory for the Python beside an executor's heap.

    None if `spark.executor.pyspark.memory` gives that Python memory of its own.
    """
    heap = megabytes(settings.get("spark.executor.memory", "1g"))
    if OVERHEAD in settings:
        overhead = megabytes(settings[OVERHEAD])
    else:
        factor = next((_real(settings[key]) for key in FACTORS if key in settings), 0.1)
        overhead = None if heap is None or factor is None else max(384, int(factor * heap))
    least = need.overhead_mb(copiers)
    own = megabytes(settings.get(PYTHON, "0")) or 0
    if overhead is None or overhead + own >= least:
        return None
    budget = need.copier_bytes / (1 << 20)
    beside = ", and a JVM for transform.sql beside each," if need.sql else ""
    return (
        f"TW-SPARK-21: spark.executor.memoryOverhead is {overhead} MB, where {counted(copiers, 'copier')} of "
        f"{budget:.0f} MB (twinlog.copier.memory.bytes){beside} may take {least} MB: the executor would be ended "
        "for it; set "
        f"{OVERHEAD} = {least}m, or fewer {CORES}"
    )


def _little_python(need: TaskResources, settings: Mapping[str, str], copiers: int) -> str | None:
    own = megabytes(settings.get(PYTHON, "0"))
    # Spark uses this setting to limit the address space of each worker, which is larger than its memory.
    least = 2 * (need.overhead_mb(1) - JVM_MB) * copiers
    if not own or own >= least:
        return None
    return (
        f"TW-SPARK-22: spark.executor.pyspark.memory = {own} MB limits the addresses of "
        f"{counted(copiers, 'copier')}, which need {least} MB: leave it out, {OVERHEAD} has their memory"
    )


def _dynamic(settings: Mapping[str, str]) -> str | None:
    if not _is_on(settings, DYNAMIC) or MOST in settings:
        return None
    return (
        "TW-SPARK-23: spark.dynamicAllocation.enabled is on, and spark.dynamicAllocation.maxExecutors is missing: "
        f"tasks of a lease last for minutes, and Spark may ask for any number of executors; set {DYNAMIC} = false, or "
        f"{LEAST} and {MOST}"
    )


def _speculates(settings: Mapping[str, str]) -> str | None:
    if not _is_on(settings, "spark.speculation"):
        return None
    return (
        "TW-SPARK-14: spark.speculation is on: a task of a lease is meant to last for minutes, and a second attempt of "
        "it would only occupy a slot; set spark.speculation = false"
    )


def _executors(tasks: int) -> int:
    """Two executors at least, all of moderate size, so that a lost executor takes only half of the copiers with it."""
    return max(min(tasks, 2), -(-tasks // MOST_CORES))


def _is_on(settings: Mapping[str, str], key: str) -> bool:
    return settings.get(key, "").strip().lower() == "true"


def _number(settings: Mapping[str, str], key: str) -> int | None:
    """The number at a key; None also for invalid text, which Spark itself refuses."""
    text = settings.get(key, "").strip()
    return int(text) if text.isdecimal() and int(text) else None


def _real(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def megabytes(text: str) -> int | None:
    """The megabytes of a Spark memory size, whose default unit is megabytes; None for invalid text."""
    found = re.fullmatch(r"(\d+)\s*([kmgt]?)b?", text.strip().lower())
    return None if found is None else int(int(found[1]) * _UNITS[found[2]])
