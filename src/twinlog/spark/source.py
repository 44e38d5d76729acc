"""The streaming source `twinlog` and its query: a micro-batch is a lease, a Spark partition is a task's share of it.

Spark's offset only counts micro-batches, so its checkpoint directory may be lost at any time. Records bypass Spark's
rows; a row names a range of records that a copier has copied.
"""

from __future__ import annotations

import base64
import logging
import pickle
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.streaming.datasource import ReadLimit

from twinlog.errors import EngineError, EngineLostError
from twinlog.lease.channel import Channel, DriverAddress, LeaseTicket, greet_as_planner
from twinlog.lease.messages import NextRequest, NextResponse, Share, SharesRequest, SharesResponse, require
from twinlog.settings.flow import FlowSettings
from twinlog.spark.settings import RECORDS, RECORDS_SETTINGS, ROW_KINDS, ROWS
from twinlog.spark.task import copy_under_lease

log = logging.getLogger(__name__)

SCHEMA = (
    "flow string, lease long, share int, copier string, topic string, partition int, first_source long, "
    "next_source long, first_target long, next_target long, records long, bytes long, lag long"
)
"""The columns of a row: a row is a copied range, see `copier.reporter.CopiedRange`."""

RANGES = "ranges"
COUNTED_SCHEMA = f"{RANGES} array<struct<{SCHEMA.replace(' ', ':').replace(',:', ',')}>>"
"""Each row counts for a record; the last row of a task has the copied ranges."""

EVERY_S = 1.0
_RECORDS = SCHEMA.split(", ").index("records long")
_OFFSETS = SCHEMA.split(", ").index("first_source long")

GRACE_S = 0.8

Asked = Callable[[], AbstractContextManager[None]]
"""A context in which errors of Spark become EngineError, or EngineLostError if Spark has ended."""


def source_options(
    name: str, flows: Sequence[FlowSettings], address: DriverAddress, *, counted: bool = False
) -> dict[str, str]:
    """The options that `spark.readStream.format("twinlog")` needs for the query `name`.

    With `counted`, the query has a row for each record. `flows` are the flows that its tasks may have to copy, now or
    later. Their settings hold logins, as the options of Spark's Kafka source do. A planner of another version reads
    everything except these settings.
    """
    plain = (name, address.host, address.port, address.secret, pickle.dumps(tuple(flows)), address.near)
    return {"query": base64.b64encode(pickle.dumps(plain)).decode(), "counted": str(counted).lower()}


class LeaseSource(DataSource):  # type: ignore[misc]
    """The data source that Spark instantiates on the driver."""

    @classmethod
    def name(cls) -> str:
        return "twinlog"

    def schema(self) -> str:
        return COUNTED_SCHEMA if self._counted else SCHEMA

    @property
    def _counted(self) -> bool:
        return bool(self.options.get("counted") == "true")

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802
        name, host, port, secret, flows, *more = pickle.loads(base64.b64decode(self.options["query"]))
        kind = CountedLeaseReader if self._counted else LeaseReader
        return kind(name, DriverAddress(host, port, secret, *more[:1]), flows)


class LeaseReader(DataSourceStreamReader):  # type: ignore[misc]
    """Asks the driver's lease server for leases; lives in Spark's source process for as long as the query.

    Tasks know it by its class name, which stays the same, and get an empty object.
    """

    def __init__(self, name: str, address: DriverAddress, flows: bytes) -> None:
        self._name = name
        self._address = address
        self._pickled = flows
        self._flows: dict[str, FlowSettings] = {}
        """Read after the greeting of the driver: settings of another version may be unreadable here."""
        self._line: Channel | None = None

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"lease": 0}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        """The next offset if there is work for tasks; otherwise `start`, after a short wait."""
        line = self._connected()
        line.send(NextRequest(start["lease"]))
        return {"lease": require(line.receive(), NextResponse).batch}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        """An input partition for each task: a ticket for each flow whose copier it hosts."""
        if start == end:
            return []
        line = self._connected()
        line.send(SharesRequest())
        tasks = require(line.receive(), SharesResponse).tasks
        return [InputPartition(tuple(self._ticket(share).pack() for share in task)) for task in tasks]

    def _ticket(self, share: Share) -> LeaseTicket:
        return LeaseTicket.of(self._flows[share.flow], self._address, share.lease, share.number)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Copy in a task until a lease is over."""
        for rows in copy_under_lease([LeaseTicket.unpack(plain) for plain in partition.value]):
            yield from rows

    def _connected(self) -> Channel:
        if self._line is None:
            line = Channel.open(self._address.here)
            greet_as_planner(line, self._name)
            self._flows = {flow.name: flow for flow in pickle.loads(self._pickled)}
            self._line = line
        return self._line

    def __getstate__(self) -> dict[str, Any]:
        # A task calls `read`, which needs no field; a task of another version could fail to load a field.
        return {}


class CountedLeaseReader(LeaseReader):
    """Has a row for each copied record; the last row has the ranges."""

    def read(self, partition: InputPartition) -> Iterator[Any]:
        from twinlog.spark.counted_rows import counted, joined  # noqa: PLC0415 - only for who asks

        # A single lag for each partition, as in uncounted rows: the lag at its end.
        ranges: dict[tuple[Any, ...], list[tuple[Any, ...]]] = {}
        for rows in copy_under_lease([LeaseTicket.unpack(plain) for plain in partition.value], EVERY_S):
            records = sum(row[_RECORDS] for row in rows) - (1 if rows and not ranges else 0)
            for row in rows:
                of_partition = ranges.setdefault(row[:_OFFSETS], [])
                of_partition[-1:] = joined(of_partition[-1], row) if of_partition else [row]
            yield from counted(SCHEMA, [], records)
        if ranges:
            yield from counted(SCHEMA, [one for several in ranges.values() for one in several], 1)


class LeaseQuery:
    """The query `name`, whose tasks copy some of `flows`.

    Its checkpoint is a new directory in `scratch`, because its content may be lost at any time.

    Every method except `stop` raises EngineError, and EngineLostError once Spark has ended. `tidy` is called once
    `stop` has stopped the query.
    """

    def __init__(
        self,
        session: SparkSession,
        asked: Asked,
        name: str,
        flows: Sequence[FlowSettings],
        address: DriverAddress,
        scratch: Path,
        tidy: Callable[[SparkSession], None] = lambda _: None,
    ) -> None:
        self._asked = asked
        self._session = session
        self._tidy = tidy
        self.stopped = False
        session.dataSource.register(LeaseSource)
        self._checkpoint = tempfile.mkdtemp(prefix="checkpoint-", dir=scratch)
        rows = str(session.conf.get(ROWS, ROW_KINDS[0]))
        if rows not in ROW_KINDS:
            raise EngineError(f"{ROWS} = {rows}: a row of a flow's query is one of {', '.join(ROW_KINDS)}")
        counted = rows == RECORDS
        options = source_options(name, flows, address, counted=counted)
        seen = session.readStream.format("twinlog").options(**options).load()
        if counted:
            for key, value in RECORDS_SETTINGS.items():
                session.conf.set(key, value)
            # Spark has counted the rows at their source; few of them have ranges.
            seen = seen.where(f"{RANGES} is not null").selectExpr(f"inline({RANGES})")
        # These sums are in `observedMetrics` of the query's progress; a range with an unknown lag adds 0.
        # `lit` would import numpy, pandas, pyarrow and pyspark's test tools.
        columns = {"records": sql.col("records"), "bytes": sql.col("bytes"), "lag": sql.expr("nullif(lag, -1)")}
        seen = seen.observe("copied", *(sql.sum(column).alias(name) for name, column in columns.items()))
        self._query: StreamingQuery = (
            seen.writeStream.format("noop")
            .queryName(name)
            .option("checkpointLocation", f"file://{self._checkpoint}")
            .start()
        )

    @property
    def alive(self) -> bool:
        with self._asked():
            return bool(self._query.isActive)

    def fault(self) -> str | None:
        """The reason for the end of the query, None while it lives or after `stop`."""
        with self._asked():
            error = self._query.exception()
            return None if error is None else str(error)

    def stop(self) -> None:
        """Stop the query once its tasks have ended by themselves, or after `GRACE_S`: then their workers are killed."""
        deadline = time.monotonic() + GRACE_S
        try:
            while self.alive and self._busy and time.monotonic() < deadline:
                time.sleep(0.02)
            with self._asked():
                self._query.stop()
                self._tidy(self._session)
        except EngineLostError as error:
            log.debug("a query ended with its JVM: %s", error)
        except EngineError as error:
            log.warning("TW-SPARK-17: stopping a query failed: %s", error)
        finally:
            self.stopped = True
            shutil.rmtree(self._checkpoint, ignore_errors=True)

    @property
    def _busy(self) -> bool:
        with self._asked():
            return "Processing" in self._query.status["message"]
