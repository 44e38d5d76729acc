"""The format `twinlog-verify`: a row for each partition of a flow, with its compared range and its differences.

Spark imports this module in tasks, too: the planner is imported only when Spark plans.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import astuple
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from twinlog.spark.short_errors import without_trace

if TYPE_CHECKING:
    from twinlog.ops.verify.model import Verdict
    from twinlog.ops.verify.planner import VerifyRequest

SCHEMA = (
    "flow string, topic string, remote_topic string, partition int, source_start bigint, source_end bigint, "
    "target_start bigint, target_end bigint, records bigint, bytes bigint, source_digest string, "
    "target_digest string, equal boolean, differences bigint, foreign bigint, "
    "first_difference struct<what:string,source_offset:bigint,target_offset:bigint,text:string>, "
    "not_compared array<struct<side:string,start:bigint,end:bigint,reason:string>>, problem string"
)


@without_trace
class VerifySource(DataSource):  # type: ignore[misc]
    """Compares the topics of a flow with their copies, each time that the DataFrame is computed."""

    @classmethod
    def name(cls) -> str:
        return "twinlog-verify"

    def schema(self) -> str:
        return SCHEMA

    def reader(self, schema: Any) -> DataSourceReader:
        from twinlog.ops.verify.planner import read_verify_options  # noqa: PLC0415 - only where Spark plans

        return VerifyReader(read_verify_options(dict(self.options)))


@without_trace
class VerifyReader(DataSourceReader):  # type: ignore[misc]
    """Plans with both clusters in the process that plans; tasks get their partitions alone."""

    def __init__(self, asked: VerifyRequest) -> None:
        self._asked: VerifyRequest | None = asked

    def partitions(self) -> list[InputPartition]:
        from twinlog.ops.verify.planner import VerifyPlanner  # noqa: PLC0415

        asked = self._asked
        assert asked is not None
        with VerifyPlanner(asked.flow, asked.options) as planner:
            shares = planner.plan().shares(asked.most_tasks)
        return [InputPartition((share.rules, share.parts)) for share in shares]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        from twinlog.ops.verify.task import verify_partitions  # noqa: PLC0415

        if partition.value is None:
            # The plan is empty.
            return iter(())
        rules, parts = partition.value
        return map(row_of, verify_partitions(parts, rules))

    def __getstate__(self) -> dict[str, Any]:
        return {"_asked": None}


def row_of(one: Verdict) -> tuple[Any, ...]:
    """A verdict in the order of the columns."""
    return (
        one.flow,
        one.topic,
        one.remote_topic,
        one.partition,
        one.source_start,
        one.source_end,
        one.target_start,
        one.target_end,
        one.records,
        one.bytes,
        one.source_digest,
        one.target_digest,
        one.equal,
        one.differences,
        one.foreign,
        None if one.first is None else astuple(one.first),
        [astuple(left) for left in one.left],
        one.problem,
    )
