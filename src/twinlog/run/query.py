"""Looks after the streaming query of a flow: starts it, and again when it ends by itself, which Spark does not."""

from __future__ import annotations

import logging
import time

from twinlog.errors import EngineError, EngineLostError
from twinlog.run.desk import Desk
from twinlog.run.flow import FlowRunner
from twinlog.spark.query import FlowQuery
from twinlog.spark.session import SparkEngine

log = logging.getLogger(__name__)

RESTART_S = (1.0, 30.0)
"""First and longest wait before a query that ended by itself is started again."""

STUCK_S = 15.0
"""A query whose lease no copier took up for so long is started again: a task hangs in a stopped or lost worker."""

FIRST_LEASE_S = 90.0
"""The same for a query's first lease: Spark compiles and starts its workers, on a busy machine for long."""


class SupervisedQuery:
    """The query of one flow, as long as the flow has not ended."""

    def __init__(self, flow: FlowRunner) -> None:
        self._flow = flow
        self._engine: SparkEngine | None = None
        self._query: FlowQuery | None = None
        self._not_before = 0.0
        self._wait_s = RESTART_S[0]
        self._patience_s = FIRST_LEASE_S
        self._idle_since = time.monotonic()

    def watch(self, engine: SparkEngine, desk: Desk) -> None:
        """Look after the query; called every moment, always on the same thread.

        With another engine than before the query begins anew. Raises EngineLostError when the engine is lost.
        """
        now = time.monotonic()
        flow = self._flow
        if flow.ended:
            self.end()
            return
        if not flow.ready.is_set():
            return
        if engine is not self._engine:
            self._move_to(engine)
        if self._query is None:
            if now >= self._not_before:
                self._begin(engine, desk)
            return
        if not flow.leases.unclaimed:
            self._idle_since, self._wait_s, self._patience_s = now, RESTART_S[0], STUCK_S
        fault = self._fault(self._query, now)
        if fault is not None:
            self._begin_later(fault)

    def _move_to(self, engine: SparkEngine) -> None:
        """The engine before is gone, its query with it, and its tasks have ended or are about to."""
        if self._engine is not None and self._flow.leases.lease:
            # What is left of them has no part in the next lease.
            self._flow.leases.renew()
        self._engine, self._query = engine, None
        self._not_before, self._wait_s = 0.0, RESTART_S[0]

    def _begin(self, engine: SparkEngine, desk: Desk) -> None:
        try:
            self._query = engine.query(self._flow.settings, desk.address)
        except EngineLostError:
            raise
        except EngineError as error:
            self._begin_later(str(error))
        else:
            self._idle_since, self._patience_s = time.monotonic(), FIRST_LEASE_S

    def _fault(self, query: FlowQuery, now: float) -> str | None:
        """Why the query must be started again, None as long as it does its work."""
        try:
            if query.alive and now - self._idle_since < self._patience_s:
                return None
            return query.fault() or "no task takes up its lease"
        except EngineLostError:
            raise
        except EngineError as error:
            return str(error)

    def _begin_later(self, fault: str) -> None:
        log.warning(
            "%s: the query is started again in %.0f s: %s", self._flow.settings.name, self._wait_s, _brief(fault)
        )
        self.end()
        self._not_before = time.monotonic() + self._wait_s
        self._wait_s = min(2 * self._wait_s, RESTART_S[1])

    def end(self) -> None:
        """Stop the query, if there is one; its copiers are asked to let go before."""
        query, self._query = self._query, None
        if query is not None:
            self._flow.leases.disband()
            query.stop()


def _brief(text: str) -> str:
    """The telling line of a Java or Python stack trace."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith(("twinlog.", "kafka.")) or "Error:" in line]
    return (errors or lines or ["unknown"])[-1 if errors else 0][:500]
