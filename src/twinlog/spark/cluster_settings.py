"""The settings of a Spark cluster: executors, cores and memory by the needs of copiers, and `spark-defaults.conf`.

A copier is Python beside the executor's JVM. Kubernetes and YARN end an executor that takes more than its heap and its
`spark.executor.memoryOverhead`, so the overhead holds the budget of a copier (`twinlog.copier.memory.bytes`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from importlib.util import find_spec
from pathlib import Path

from twinlog.settings.flow import COPIER_MEMORY_BYTES


def defaults_file() -> Path:
    """Where Spark reads its defaults; the file need not exist."""
    place = os.environ.get("SPARK_CONF_DIR")
    return Path(place or Path(os.environ.get("SPARK_HOME") or _installed(), "conf"), "spark-defaults.conf")


def _installed() -> str:
    """Where pip has put Spark; its scripts take that for their home where no other is named."""
    spec = find_spec("pyspark")
    return "" if spec is None or spec.origin is None else str(Path(spec.origin).parent)


def file_settings() -> dict[str, str]:
    """What that file has; nothing where there is none."""
    try:
        lines = defaults_file().read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return {}
    parts = [re.split(r"\s*[=:\s]\s*", line.strip(), maxsplit=1) for line in lines]
    return {key: rest[0].strip() for key, *rest in parts if rest and not key.startswith(("#", "!"))}


MOST_CORES = 4
"""For executors without a configured size: with an executor go its copiers, and a JVM for each of them would cost more
than they."""

JVM_MB = 448
"""What an executor's JVM takes beside its heap, and the process that forks its Pythons."""

COPIER_MB = 128
"""What a copier's Python takes beside the records that it holds."""

SQL_MB = 768
"""What the JVM beside a copier takes that evaluates `transform.sql`."""

REQUESTS = 1.25
"""A copier's budget with the requests on their way, which come on top of it (`copier/memory.py`)."""

STEP_MB = 64

CLUSTER_SETTINGS = {
    # Records pass through Python beside the executor's JVM, which therefore needs next to nothing.
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": "-XX:+UseSerialGC -XX:MinHeapFreeRatio=10 -XX:MaxHeapFreeRatio=20",
    # An executor that is asked to end goes on until its tasks have ended, which takes a moment here.
    "spark.decommission.enabled": "true",
    # One that is cut off would be waited for two minutes, and a task of a lease with it.
    "spark.executor.heartbeatInterval": "3s",
    "spark.storage.blockManagerHeartbeatTimeoutMs": "30s",
    "spark.network.timeoutInterval": "3s",
}
"""Of every cluster, unless the user or `spark-defaults.conf` has something else."""

CORES, CORES_MAX, INSTANCES = "spark.executor.cores", "spark.cores.max", "spark.executor.instances"
CPUS, OVERHEAD = "spark.task.cpus", "spark.executor.memoryOverhead"
FACTORS = ("spark.executor.memoryOverheadFactor", "spark.kubernetes.memoryOverheadFactor")
PYTHON = "spark.executor.pyspark.memory"
DYNAMIC_ALLOCATION = "spark.dynamicAllocation."
DYNAMIC = DYNAMIC_ALLOCATION + "enabled"
LEAST, MOST = DYNAMIC_ALLOCATION + "minExecutors", DYNAMIC_ALLOCATION + "maxExecutors"


class ClusterManager(Enum):
    """What gives Spark its executors."""

    LOCAL = "local"
    STANDALONE = "standalone"
    KUBERNETES = "Kubernetes"
    YARN = "YARN"

    @property
    def sizes_executors(self) -> bool:
        """Whether it makes executors as they are asked for, and holds them to their memory."""
        return self in (ClusterManager.KUBERNETES, ClusterManager.YARN)


def manager_of(master: str) -> ClusterManager:
    """By Spark's master; `local-cluster` is a standalone one for tests."""
    if master.startswith("k8s"):
        return ClusterManager.KUBERNETES
    if master.startswith("yarn"):
        return ClusterManager.YARN
    return ClusterManager.STANDALONE if master.startswith(("spark://", "local-cluster")) else ClusterManager.LOCAL


@dataclass(frozen=True, slots=True)
class TaskResources:
    """The tasks that all flows may have together, the largest budget of a copier in bytes, and whether one has SQL."""

    tasks: int
    copier_bytes: int = COPIER_MEMORY_BYTES
    sql: bool = False

    def overhead_mb(self, copiers: int) -> int:
        """Megabytes beside the heap of an executor that runs so many copiers."""
        sql = SQL_MB if self.sql else 0
        least = JVM_MB + copiers * (COPIER_MB + sql + REQUESTS * self.copier_bytes / (1 << 20))
        return -int(-least // STEP_MB) * STEP_MB


def derived(master: str, need: TaskResources, given: Mapping[str, str]) -> dict[str, str]:
    """The settings by which a cluster gives all tasks a slot, and their copiers the memory; nothing for a local master.

    What is `given` stays, and the rest follows it. Executors come and go with the user's own will only: twinlog has as
    many tasks as there are slots, so Spark would see no need for one more.
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
        # Without a limit a standalone cluster would give all its cores to the first application, and an executor of a
        # size that no worker has would never come: each takes what its worker has.
        executors = -(-need.tasks // max(1, (cores or cpus) // cpus))
        found = {CORES_MAX: str(executors * (cores or cpus))}
    found[DYNAMIC] = "false"
    if _is_on(given, DYNAMIC):
        found |= {LEAST: str(min(executors, _number(given, MOST) or executors))}
        found |= {MOST: str(max(executors, _number(given, LEAST) or executors))}
    return {key: value for key, value in found.items() if key not in given}


def contradictions(master: str, need: TaskResources, settings: Mapping[str, str]) -> list[str]:
    """What in all settings of a cluster together keeps tasks from their slots or copiers from their memory, a sentence
    each with the way out."""
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
    have = f"{slots} slot{'' if slots == 1 else 's'}"
    return (
        f"Spark's settings leave {have} for {need.tasks} tasks of tasks.max, by {words}: flows get what there is; set "
        f"{wanted}, or a smaller tasks.max"
    )


def _little_memory(need: TaskResources, settings: Mapping[str, str], copiers: int) -> str | None:
    """Of the Python beside an executor's heap, unless it has memory of its own by `spark.executor.pyspark.memory`."""
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
        f"spark.executor.memoryOverhead is {overhead} MB, where {_copiers(copiers)} of {budget:.0f} MB "
        f"(twinlog.copier.memory.bytes){beside} may take {least} MB: the executor would be ended for it; set "
        f"{OVERHEAD} = {least}m, or fewer {CORES}"
    )


def _little_python(need: TaskResources, settings: Mapping[str, str], copiers: int) -> str | None:
    own = megabytes(settings.get(PYTHON, "0"))
    # Spark limits the address space of each worker by it, which is larger than the memory.
    least = 2 * (need.overhead_mb(1) - JVM_MB) * copiers
    if not own or own >= least:
        return None
    return (
        f"spark.executor.pyspark.memory = {own} MB limits the addresses of {_copiers(copiers)}, which need {least} MB: "
        f"leave it out, {OVERHEAD} has their memory"
    )


def _dynamic(settings: Mapping[str, str]) -> str | None:
    if not _is_on(settings, DYNAMIC) or MOST in settings:
        return None
    return (
        "spark.dynamicAllocation.enabled is on without spark.dynamicAllocation.maxExecutors: tasks of a lease last for "
        f"minutes, and Spark may ask for executors without end; set {DYNAMIC} = false, or {LEAST} and {MOST}"
    )


def _speculates(settings: Mapping[str, str]) -> str | None:
    if not _is_on(settings, "spark.speculation"):
        return None
    return (
        "spark.speculation is on: a task of a lease is meant to last for minutes, and a second one of it would wait "
        "in a slot and copy nothing; set spark.speculation = false"
    )


def _executors(tasks: int) -> int:
    """Two at least, so that one that is lost takes half of the copiers with it, and none too large."""
    return max(min(tasks, 2), -(-tasks // MOST_CORES))


def _copiers(count: int) -> str:
    return "one copier" if count == 1 else f"{count} copiers"


def _is_on(settings: Mapping[str, str], key: str) -> bool:
    return settings.get(key, "").strip().lower() == "true"


def _number(settings: Mapping[str, str], key: str) -> int | None:
    """None also where it is no number: Spark refuses that by itself."""
    text = settings.get(key, "").strip()
    return int(text) if text.isdecimal() and int(text) else None


def _real(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


_UNITS = {"k": 1 / 1024, "": 1, "m": 1, "g": 1024, "t": 1024 * 1024}


def megabytes(text: str) -> int | None:
    """Memory as Spark writes it, without a unit in megabytes; None where it is no such thing."""
    found = re.fullmatch(r"(\d+)\s*([kmgt]?)b?", text.strip().lower())
    return None if found is None else int(int(found[1]) * _UNITS[found[2]])
