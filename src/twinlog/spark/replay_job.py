"""A replay as a Spark job: a task for each share of the partitions."""

from __future__ import annotations

from collections.abc import Iterator

from twinlog.frames.replaying import ReplayPlan
from twinlog.lease.channel import DriverAddress
from twinlog.replay.model import PartitionToReplay, Replayed, ReplayRules
from twinlog.replay.task import replay_partitions
from twinlog.spark.engine import Engine
from twinlog.spark.verify_job import SHARES_PER_SLOT
from twinlog.verify.progress import ProgressLine


def run_replay(engine: Engine, plan: ReplayPlan, address: DriverAddress | None) -> list[Replayed]:
    """Copy what is planned; tasks tell the server at `address`, if there is one, how far they are.

    Raises EngineError.
    """
    rules = plan.rules

    def copy(some: Iterator[tuple[PartitionToReplay, ...]]) -> Iterator[Replayed]:
        return _copy(some, rules, address)

    return engine.run_tasks(copy, plan.shares(SHARES_PER_SLOT * max(1, engine.slots)))


def _copy(
    shares: Iterator[tuple[PartitionToReplay, ...]], rules: ReplayRules, address: DriverAddress | None
) -> Iterator[Replayed]:
    line = ProgressLine(address)
    try:
        for parts in shares:
            yield from replay_partitions(parts, rules, line.told)
            line.flush()
    finally:
        line.close()
