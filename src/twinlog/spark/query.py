"""A streaming query: start it, check that it lives, stop it."""

from __future__ import annotations

import logging
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.streaming import StreamingQuery

from twinlog.errors import EngineError, EngineLostError
from twinlog.lease.channel import DriverAddress
from twinlog.settings.flow import FlowSettings
from twinlog.spark.settings import RECORDS, RECORDS_SETTINGS, ROW_KINDS, ROWS
from twinlog.spark.source import RANGES, LeaseSource, source_options

log = logging.getLogger(__name__)

GRACE_S = 0.8
Asked = Callable[[], AbstractContextManager[None]]
"""A context in which errors of Spark become EngineError, or EngineLostError if Spark has ended."""


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
        # These sums are in `observedMetrics` of the query's progress; a range with an unknown lag adds no lag.
        columns = {"records": sql.col("records"), "bytes": sql.col("bytes"), "lag": sql.nullif("lag", sql.lit(-1))}
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
            log.warning("a query was not stopped in order: %s", error)
        finally:
            self.stopped = True
            shutil.rmtree(self._checkpoint, ignore_errors=True)

    @property
    def _busy(self) -> bool:
        with self._asked():
            return "Processing" in self._query.status["message"]
