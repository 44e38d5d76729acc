"""Compares the ranges of records that an audit, or the report of a canary, has chosen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from twinlog.console.progress import ReadingProgress
from twinlog.console.spark_batch import SparkSignalHandler, run_in_spark
from twinlog.model.amounts import counted
from twinlog.ops.audit.auditor import AuditDeadline
from twinlog.ops.audit.records import CompareRanges
from twinlog.ops.verify.job import need_of_verification, run_verification
from twinlog.ops.verify.model import PartitionToVerify, Verdict
from twinlog.ops.verify.planner import VerifyPlan
from twinlog.ops.verify.task import verify_partitions


def compare_sample(progress: ReadingProgress) -> CompareRanges:
    """Compares the ranges in this process: a sample is too small for Spark's start to pay."""

    def compare(plan: VerifyPlan, ranges: Sequence[PartitionToVerify], deadline: AuditDeadline) -> Iterator[Verdict]:
        for number, part in enumerate(ranges):
            deadline.check()
            progress(part.flow, "ranges compared", number, len(ranges))
            if part.sections and part.problem is None:
                yield from verify_partitions((part,), plan.rules)
            else:
                yield Verdict.of(part).without_sections()
        progress("all flows", "ranges compared", len(ranges), len(ranges))

    return compare


def compare_all(master: str | None, conf: dict[str, str], stop: SparkSignalHandler) -> CompareRanges:
    """Compares all records in Spark's tasks."""

    def compare(plan: VerifyPlan, ranges: Sequence[PartitionToVerify], deadline: AuditDeadline) -> Iterable[Verdict]:
        deadline.check()
        if not any(part.sections for part in ranges):
            return [Verdict.of(part).without_sections() for part in ranges]
        return run_in_spark(
            lambda engine, address: run_verification(engine, [plan], address),
            master,
            conf,
            stop,
            need=need_of_verification([plan]),
            doing=f"comparing {counted(len(ranges), 'partition')}",
            offsets=sum(part.offsets for part in ranges),
        )

    return compare
