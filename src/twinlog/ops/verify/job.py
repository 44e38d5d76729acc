"""A verification as a Spark job: a task for each share of the partitions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from twinlog.arrow.bodies import MOST_BYTES
from twinlog.lease.channel import DriverAddress
from twinlog.lease.task_progress import ProgressLine
from twinlog.ops.verify.model import PartitionToVerify, Verdict, VerifyRules
from twinlog.ops.verify.planner import VerifyPlan
from twinlog.ops.verify.task import verify_partitions
from twinlog.spark.engine import Engine
from twinlog.spark.settings import TaskResources

SHARES_PER_SLOT = 4
"""The number of tasks for each slot of Spark: with several, the last tasks end at about the same time."""

_Share = tuple[VerifyRules, tuple[PartitionToVerify, ...]]


def run_verification(engine: Engine, plans: Sequence[VerifyPlan], address: DriverAddress | None) -> list[Verdict]:
    """Compare the planned partitions; tasks report their progress to the server at `address`, if there is any.

    Raises EngineError.
    """
    most = SHARES_PER_SLOT * max(1, engine.slots)
    shares = [(share.rules, share.parts) for plan in plans for share in plan.shares(most)]

    def compare(some: Iterator[_Share]) -> Iterator[Verdict]:
        return compare_shares(some, address)

    return engine.run_tasks(compare, shares)


def need_of_verification(plans: Sequence[VerifyPlan]) -> TaskResources:
    """The need is as many tasks as the flows may have, and for each task two fetches of either side and the decoded
    bytes of a single fetch."""
    partitions = sum(len(plan.parts) for plan in plans)
    tasks = min(partitions, sum(plan.tasks for plan in plans))
    sides = (
        plan.rules.source.max_partition_fetch_bytes + plan.rules.target.max_partition_fetch_bytes for plan in plans
    )
    return TaskResources(max(1, tasks), 2 * max(sides, default=0) + MOST_BYTES)


def compare_shares(shares: Iterator[_Share], address: DriverAddress | None) -> Iterator[Verdict]:
    """In a task: compare its partitions."""
    line = ProgressLine(address)
    try:
        for rules, parts in shares:
            yield from verify_partitions(parts, rules, line.report)
            line.flush()
    finally:
        line.close()
