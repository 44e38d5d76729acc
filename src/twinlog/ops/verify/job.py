"""A verification, or a second reading of its ranges, as a Spark job: a task for each share of the partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from twinlog.batches.arrow.bodies import MOST_BYTES
from twinlog.lease.channel import DriverAddress
from twinlog.lease.task_progress import ProgressLine
from twinlog.ops.verify.model import PartitionToVerify, Verdict, VerifyRules
from twinlog.ops.verify.planner import VerifyPlan, share_out
from twinlog.ops.verify.recheck import PartitionToRecheck, RecheckPlan, RecheckVerdict, recheck_partitions
from twinlog.ops.verify.task import verify_partitions
from twinlog.spark.engine import Engine
from twinlog.spark.settings import TaskResources

SHARES_PER_SLOT = 4
"""The number of tasks for each slot of Spark: with several, the last tasks end at about the same time."""

P = TypeVar("P")
V = TypeVar("V")

_Read = Callable[[Iterable[P], VerifyRules, Callable[[int], None]], Iterator[V]]
"""Reads partitions in turn, and yields a row of each."""


def run_verification(engine: Engine, plans: Sequence[VerifyPlan], address: DriverAddress | None) -> list[Verdict]:
    """Compare the planned partitions; tasks report their progress to the server at `address`, if there is any.

    Raises EngineError.
    """
    shares = [(plan.rules, parts) for plan in plans for parts in share_out(plan.parts, _most(engine))]

    def compare(some: Iterator[tuple[VerifyRules, Sequence[PartitionToVerify]]]) -> Iterator[Verdict]:
        return read_shares(some, address, verify_partitions)

    return engine.run_tasks(compare, shares)


def run_recheck(engine: Engine, plans: Sequence[RecheckPlan], address: DriverAddress | None) -> list[RecheckVerdict]:
    """Read the ranges of statements again; the rest is as in `run_verification`."""
    shares = [(plan.rules, parts) for plan in plans for parts in share_out(plan.parts, _most(engine))]

    def read_again(some: Iterator[tuple[VerifyRules, Sequence[PartitionToRecheck]]]) -> Iterator[RecheckVerdict]:
        return read_shares(some, address, recheck_partitions)

    return engine.run_tasks(read_again, shares)


def _most(engine: Engine) -> int:
    return SHARES_PER_SLOT * max(1, engine.slots)


def need_of_verification(plans: Sequence[VerifyPlan] | Sequence[RecheckPlan]) -> TaskResources:
    """The need is as many tasks as the flows may have, and for each task two fetches of either side and the decoded
    bytes of a single fetch."""
    partitions = sum(len(plan.parts) for plan in plans)
    tasks = min(partitions, sum(plan.tasks for plan in plans))
    sides = (
        plan.rules.source.max_partition_fetch_bytes + plan.rules.target.max_partition_fetch_bytes for plan in plans
    )
    return TaskResources(max(1, tasks), 2 * max(sides, default=0) + MOST_BYTES)


def read_shares(
    shares: Iterator[tuple[VerifyRules, Sequence[P]]], address: DriverAddress | None, read: _Read[P, V]
) -> Iterator[V]:
    """In a task: read its partitions."""
    line = ProgressLine(address)
    try:
        for rules, parts in shares:
            yield from read(parts, rules, line.report)
            line.flush()
    finally:
        line.close()
