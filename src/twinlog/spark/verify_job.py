"""A verification as a Spark job: a task for each share of the partitions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from twinlog.frames.verification import VerifyPlan
from twinlog.lease.channel import DriverAddress
from twinlog.spark.engine import Engine
from twinlog.verify.model import PartitionToVerify, Verdict, VerifyRules
from twinlog.verify.progress import ProgressLine
from twinlog.verify.task import verify_partitions

SHARES_PER_SLOT = 4
"""So many tasks for each that Spark runs at once: the last ones end at about the same time."""

_Share = tuple[VerifyRules, tuple[PartitionToVerify, ...]]


def run_verification(engine: Engine, plans: Sequence[VerifyPlan], address: DriverAddress | None) -> list[Verdict]:
    """Compare what is planned; tasks tell the server at `address`, if there is one, how far they are.

    Raises EngineError.
    """
    most = SHARES_PER_SLOT * max(1, engine.slots)
    shares = [(share.rules, share.parts) for plan in plans for share in plan.shares(most)]

    def compare(some: Iterator[_Share]) -> Iterator[Verdict]:
        return compare_shares(some, address)

    return engine.run_tasks(compare, shares)


def compare_shares(shares: Iterator[_Share], address: DriverAddress | None) -> Iterator[Verdict]:
    """In a task: compare its partitions."""
    line = ProgressLine(address)
    try:
        for rules, parts in shares:
            yield from verify_partitions(parts, rules, line.told)
            line.flush()
    finally:
        line.close()
