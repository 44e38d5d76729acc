"""The streaming source `twinlog`: a micro-batch is a lease, a Spark partition is a task's share of it.

Spark's offset is only the lease's number, so its checkpoint directory may be lost at any time. No record passes through
a Spark row; a row says what a copier has done.
"""

from __future__ import annotations

import base64
import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit

from twinlog.settings import FlowSettings
from twinlog.spark.task import copy_under_lease
from twinlog.task.host import LeaseTicket
from twinlog.task.wire import DriverAddress, Line
from twinlog.types import TopicPartition

SCHEMA = "flow string, lease long, slot int, copier string, partitions int, records long, bytes long"


def source_options(settings: FlowSettings, address: DriverAddress) -> dict[str, str]:
    """The options that `spark.readStream.format("twinlog")` needs; they hold logins, as Spark's Kafka source's do."""
    return {"flow": base64.b64encode(pickle.dumps((settings, address))).decode()}


@dataclass(frozen=True)
class LeaseShare(InputPartition):  # type: ignore[misc]
    """What one task is to hold under a lease; `planned` names the source partitions for Spark's plan and logs."""

    ticket: LeaseTicket
    planned: tuple[TopicPartition, ...]


class LeaseSource(DataSource):  # type: ignore[misc]
    """The data source that Spark instantiates on the driver."""

    @classmethod
    def name(cls) -> str:
        return "twinlog"

    def schema(self) -> str:
        return SCHEMA

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802
        settings, address = pickle.loads(base64.b64decode(self.options["flow"]))
        return LeaseReader(settings, address)


class LeaseReader(DataSourceStreamReader):  # type: ignore[misc]
    """Asks the driver's desk for leases; lives in Spark's source process for as long as the query."""

    def __init__(self, settings: FlowSettings, address: DriverAddress) -> None:
        self._settings = settings
        self._address = address
        self._line: Line | None = None

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"lease": 0}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        """The next lease's number; `start` again when there is none yet, after a short wait."""
        return {"lease": self._ask({"type": "next", "after": start["lease"]})["lease"]}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[LeaseShare]:
        """One share per task of the lease."""
        if start == end:
            return []
        slots = self._ask({"type": "slots"})["slots"]
        return [
            LeaseShare(
                LeaseTicket(self._settings, self._address, end["lease"], slot),
                tuple(TopicPartition(*part) for part in parts),
            )
            for slot, parts in enumerate(slots)
        ]

    def read(self, partition: LeaseShare) -> Iterator[tuple[Any, ...]]:
        """Runs in a task until the lease is over."""
        return copy_under_lease(partition.ticket, len(partition.planned))

    def _ask(self, question: dict[str, Any]) -> dict[str, Any]:
        if self._line is None:
            self._line = Line.open(self._address)
        self._line.send({**question, "flow": self._settings.name})
        return self._line.receive()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_line": None}
