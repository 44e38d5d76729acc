"""The streaming queries of all flows: their division among Spark's tasks, their start, and their restart.

Spark does not restart a query that ends by itself.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Sequence

from twinlog.clock import LONG_AGO, SYSTEM, Clock
from twinlog.errors import EngineError, EngineLostError
from twinlog.lease.bundle import QueryFlows
from twinlog.lease.lease_server import LeaseServer
from twinlog.log_once import LogOnce
from twinlog.model.topics import listed
from twinlog.settings.flow import FlowSettings
from twinlog.spark.engine import Engine
from twinlog.spark.query import LeaseQuery
from twinlog.worker.flow.flow import FlowRunner
from twinlog.worker.sharing import group

log = logging.getLogger(__name__)


RESTART_S = (1.0, 30.0)
"""First and longest wait before a query that ended by itself is started again."""

STUCK_S = 15.0
"""A query whose lease no copier took up for so long is started again: a task hangs in a stopped or lost worker."""

FIRST_LEASE_S = 90.0
"""The same for a query's first lease: Spark compiles and starts its workers, on a busy machine for long."""


BATCH_S = 30.0
"""How long a micro-batch lasts while records are copied: only at its end Spark counts what its tasks have yielded.

It takes the JVM 0.13 s of a processor to end one and to plan the next. While nothing is copied one lasts a lease."""

BATCHES_PER_S = 0.2
"""How many micro-batches of all queries of a process may end each second: with more than six they last longer.

They end one after the other. Spark gives its idle Pythons to whichever task comes next, so of queries that end a
micro-batch together each may find the other's copier, and both hand over all that they copy.
"""

WAITS_S = 3.0
"""A flow that waits so long for a task that copies others of its query gets into it by ending their leases."""


class BatchPacer:
    """Lets one query of a process after the other end its micro-batch."""

    def __init__(self, clock: Clock = SYSTEM) -> None:
        self._clock = clock
        self._not_before = LONG_AGO

    def claim_batch_end(self) -> bool:
        """Whether a micro-batch may end now; the next one may later."""
        now = self._clock.monotonic()
        if now < self._not_before:
            return False
        self._not_before = now + 1 / BATCHES_PER_S
        return True


class SupervisedQuery:
    """The query of some flows, as long as there are any; `known()` are the settings of all flows that may
    join it without another start of it, as copiers get them. `pace` is that of all queries of the process.

    A flow whose copiers are to have other settings has the query begin again, with all flows of the query.
    """

    def __init__(
        self,
        name: str,
        known: Callable[[], Sequence[FlowSettings]],
        clock: Clock = SYSTEM,
        pace: BatchPacer | None = None,
    ) -> None:
        self._clock = clock
        self._pace = BatchPacer(clock) if pace is None else pace
        self.name = name
        self.flows: list[FlowRunner] = []
        self._known = known
        self._given: Sequence[FlowSettings] = ()
        """The settings that the tasks of the running query have."""
        self._bundle = QueryFlows(name, clock=clock)
        self._engine: Engine | None = None
        self._lease_server: LeaseServer | None = None
        self._query: LeaseQuery | None = None
        self._not_before = LONG_AGO
        self._wait_s = RESTART_S[0]
        self._patience_s = FIRST_LEASE_S
        self._idle_since = self._shared_since = self._batch_since = self._clock.monotonic()
        self._counted = 0
        """Records of the flows that were reported to Spark."""

    def add(self, flow: FlowRunner) -> None:
        """Copy this flow, too; where others are copied already, a new lease lets it into their task."""
        self.flows.append(flow)
        self._bundle.add(flow.leases)
        self._renew_all()

    def remove(self, flow: FlowRunner) -> None:
        """Stop copying this flow; others release what its copiers hold."""
        self.flows.remove(flow)
        self._bundle.remove(flow.leases)

    def poll_query(self, engine: Engine, lease_server: LeaseServer, queries: int = 1) -> None:
        """Look after the query, one of `queries`; called every moment, always on the same thread.

        With another engine than before the query begins anew. Raises EngineLostError when the engine is lost.
        """
        now = self._clock.monotonic()
        flows = [flow for flow in self.flows if flow.ready.is_set()]
        if not flows:
            return
        if engine is not self._engine:
            self._move_to(engine)
        changed = [flow.settings.name for flow in flows if flow.changes.copiers not in self._given]
        if self._query is not None and changed:
            log.info("%s: the copiers end, and begin with the new settings of %s", self.name, listed(changed))
            self.end()
        if self._query is None:
            if now >= self._not_before:
                self._begin(engine, lease_server)
            return
        waiting = [flow for flow in flows if flow.leases.unclaimed]
        if not waiting:
            self._idle_since, self._wait_s, self._patience_s = now, RESTART_S[0], STUCK_S
            self._end_batch(flows, now, max(BATCH_S, queries / BATCHES_PER_S))
        else:
            self._batch_since = now
        if not waiting or len(waiting) == len(flows):
            self._shared_since = now
        elif now - self._shared_since > WAITS_S:
            self._shared_since = now
            self._renew_all()
        fault = self._fault(self._query, now)
        if fault is None:
            return
        mismatch = self._bundle.mismatch
        if mismatch is None:
            self._begin_later(fault)
        else:
            # Spark has tried four times, in other executors where it could: another try does not replace a wheel.
            self._end_flows(mismatch)

    def _end_batch(self, flows: Sequence[FlowRunner], now: float, batch_s: float) -> None:
        """End the micro-batch once it has lasted `batch_s` and records were copied, so that Spark's pages show them.

        A lease ends with it. The copiers go on meanwhile, and get the next one.
        """
        copied = sum(flow.flow_status.records for flow in flows)
        if now - self._batch_since < batch_s or copied == self._counted or not self._pace.claim_batch_end():
            return
        self._batch_since, self._counted = now, copied
        flows[0].leases.renew_lease()

    def _end_flows(self, reason: str) -> None:
        self.end()
        self._bundle.refused = None
        for flow in self.flows:
            flow.fail_flow(reason)

    def _renew_all(self) -> None:
        if len(self.flows) > 1:
            for flow in self.flows:
                if flow.leases.lease:
                    flow.leases.renew_lease()

    def _move_to(self, engine: Engine) -> None:
        """The former engine is gone with its query; its tasks have ended or are about to."""
        if self._engine is not None:
            for flow in self.flows:
                if flow.leases.lease:
                    # The remaining ones take no part in the next lease.
                    flow.leases.renew_lease()
        self._engine, self._query = engine, None
        self._not_before, self._wait_s = LONG_AGO, RESTART_S[0]

    def _begin(self, engine: Engine, lease_server: LeaseServer) -> None:
        self._lease_server = lease_server
        lease_server.bundles[self.name] = self._bundle
        try:
            self._given = self._known()
            self._query = engine.query(self.name, self._given, lease_server.address)
        except EngineLostError:
            raise
        except EngineError as error:
            self._begin_later(str(error))
        else:
            self._idle_since, self._patience_s = self._clock.monotonic(), FIRST_LEASE_S

    def _fault(self, query: LeaseQuery, now: float) -> str | None:
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
        log.warning("%s: the query is started again in %.0f s: %s", self.name, self._wait_s, _brief(fault))
        self.end()
        self._not_before = self._clock.monotonic() + self._wait_s
        self._wait_s = min(2 * self._wait_s, RESTART_S[1])

    def end(self) -> None:
        """Stop the query, if there is one; its copiers release their partitions before."""
        query, self._query = self._query, None
        if query is not None:
            for flow in self.flows:
                flow.leases.stop_copiers()
            query.stop()
        if self._lease_server is not None:
            self._lease_server.bundles.pop(self.name, None)


def _brief(text: str) -> str:
    """The line of a Java or Python stack trace that has the reason."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith(("twinlog.", "kafka.")) or "Error:" in line]
    return (errors or lines or ["unknown"])[-1 if errors else 0][:500]


LOG_AFTER_S = 5.0

WATCHED_AT_ONCE = 10
"""Of more queries than these only a part is checked each time: each check calls the JVM."""


class Queries:
    """Which query copies which flows; used by one thread.

    `known()` are the settings of all flows that may start here, as copiers get them.
    """

    def __init__(self, known: Callable[[], Sequence[FlowSettings]], clock: Clock = SYSTEM) -> None:
        self._clock = clock
        self._known = known
        self._pace = BatchPacer(clock)
        self._queries: list[SupervisedQuery] = []
        self._numbers = itertools.count(1)
        self._turn = 0
        self._sharing: str | None = None
        self._logged = LogOnce(clock)

    def poll_queries(self, engine: Engine, lease_server: LeaseServer, flows: Sequence[FlowRunner], slots: int) -> None:
        """Look after the queries of these flows; called every moment. Raises EngineLostError."""
        for flow in [flow for query in self._queries for flow in query.flows if flow.ended]:
            flow.leases.stop_copiers()
            self.take_out(flow)()
        self._arrange([flow for flow in flows if not flow.ended], slots)
        self._log_shared()
        self._turn += 1
        turns = max(1, -(-len(self._queries) // WATCHED_AT_ONCE))
        for query in self._queries[self._turn % turns :: turns]:
            query.poll_query(engine, lease_server, len(self._queries))

    def take_out(self, flow: FlowRunner) -> Callable[[], None]:
        """Stop copying a flow. Returns a function that ends the query which it had alone, for any thread to call."""
        for query in self._queries:
            if flow not in query.flows:
                continue
            if len(query.flows) == 1:
                self._queries.remove(query)
                return query.end
            query.remove(flow)
        return lambda: None

    def _arrange(self, flows: Sequence[FlowRunner], slots: int) -> None:
        """Assign each flow to a query; a flow keeps the query that it has as long as the slots allow."""
        named = {flow.settings.name: flow for flow in flows}
        before = [[flow.settings.name for flow in query.flows] for query in self._queries]
        # Without an executor no flow moves for now.
        groups = group(sorted(named), slots or len(before) or len(named), before)
        if groups == before:
            return
        for query, names in zip(self._queries, groups, strict=False):
            if not names:
                query.end()
            for flow in [flow for flow in query.flows if flow.settings.name not in names]:
                query.remove(flow)
        for names in groups[len(before) :]:
            self._queries.append(SupervisedQuery(self._name(names), self._known, self._clock, self._pace))
        for query, names in zip(self._queries, groups, strict=True):
            for flow in (named[name] for name in names):
                if flow not in query.flows:
                    query.add(flow)
        self._queries = [query for query in self._queries if query.flows]
        self._sharing = None
        self._logged.all_over()
        shared = [names for names in groups if len(names) > 1]
        if shared:
            tasks = f"{slots} task{'' if slots == 1 else 's'}"
            together = "; ".join(f"{listed(names)} share one" for names in shared)
            self._sharing = f"Spark runs {tasks} at once for {len(flows)} flows: {together}"

    def _log_shared(self) -> None:
        """Log which flows share a task once that has lasted: a cluster's executors come one after the other."""
        if self._sharing is not None and self._logged.is_due(self._sharing, LOG_AFTER_S):
            log.warning(self._sharing)

    def _name(self, names: Sequence[str]) -> str:
        """A name that no query has; Spark's pages show it."""
        name = listed(names)
        taken = {query.name for query in self._queries}
        return name if name not in taken else f"{name} ({next(self._numbers)})"
