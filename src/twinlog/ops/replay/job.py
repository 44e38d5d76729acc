"""A replay as a Spark job: a task for each share of the partitions."""

from __future__ import annotations

from collections.abc import Iterator

from twinlog.batches.arrow.bodies import MOST_BYTES
from twinlog.lease.channel import DriverAddress
from twinlog.lease.task_progress import ProgressLine
from twinlog.ops.replay.model import PartitionToReplay, ReplayResult, ReplayRules
from twinlog.ops.replay.planner import ReplayPlan
from twinlog.ops.replay.task import replay_partitions
from twinlog.ops.verify.job import SHARES_PER_SLOT
from twinlog.spark.engine import Engine
from twinlog.spark.settings import TaskResources


def run_replay(engine: Engine, plan: ReplayPlan, address: DriverAddress | None) -> list[ReplayResult]:
    """Copy the planned ranges; tasks report their progress to the server at `address`, if there is any.

    Raises EngineError.
    """
    rules = plan.rules

    def copy(some: Iterator[tuple[PartitionToReplay, ...]]) -> Iterator[ReplayResult]:
        return _copy(some, rules, address)

    return engine.run_tasks(copy, plan.shares(SHARES_PER_SLOT * max(1, engine.slots)))


def need_of_replay(plan: ReplayPlan) -> TaskResources:
    """The need is as many tasks as the flow may have, and for each task the memory of a comparison and of the appends
    of a fetch."""
    flow = plan.rules.flow
    tasks = max(1, min(len(plan.parts), flow.tasks_max))
    return TaskResources(tasks, 5 * flow.consumer.max_partition_fetch_bytes + MOST_BYTES)


def _copy(
    shares: Iterator[tuple[PartitionToReplay, ...]], rules: ReplayRules, address: DriverAddress | None
) -> Iterator[ReplayResult]:
    line = ProgressLine(address)
    try:
        for parts in shares:
            yield from replay_partitions(parts, rules, line.report)
            line.flush()
    finally:
        line.close()
