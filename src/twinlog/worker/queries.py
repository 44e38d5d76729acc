"""The streaming queries of all flows: their division among Spark's tasks, their start, and their restart.

A query that ends by itself is restarted here, because Spark leaves it ended.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Sequence

from twinlog.clock import LONG_AGO, SYSTEM, Clock
from twinlog.errors import EngineError, EngineLostError
from twinlog.lease.lease_server import LeaseServer, QueryFlows
from twinlog.model.amounts import counted
from twinlog.model.topics import listed
from twinlog.process.log_once import LogOnce
from twinlog.settings.flow import FlowSettings
from twinlog.spark.engine import Engine
from twinlog.spark.source import LeaseQuery
from twinlog.worker.flow.flow import FlowRunner
from twinlog.worker.placement.tasks import group_flows

log = logging.getLogger(__name__)


RESTART_S = (1.0, 30.0)
"""First and longest wait before a query that ended by itself is started again."""

STUCK_S = 15.0
"""A query whose lease is unclaimed for longer than this is restarted: a task hangs in a stopped or lost worker."""

FIRST_LEASE_S = 90.0
"""The same for a query's first lease: Spark compiles and starts its workers, on a busy machine for long."""


BATCH_S = 30.0
"""The length of a micro-batch while records are copied: Spark counts the records of tasks only at its end.

The JVM needs 0.13 s of a processor to end a micro-batch and to plan the next. In an idle flow, a micro-batch lasts as
long as a lease.
"""

BATCHES_PER_S = 0.2
"""The number of micro-batches of all queries that may end each second.

With more than six queries, micro-batches last longer. They end in sequence. Spark gives its idle Pythons to any next
task. So if two queries end a micro-batch together, each may get the Python of the other query, and both copiers hand
over all their partitions.
"""

WAITS_S = 3.0
"""The wait after which a flow gets into a busy task: its query ends the leases of the flows that the task copies."""


class BatchPacer:
    """Lets the queries of a process end their micro-batches in sequence."""

    def __init__(self, clock: Clock = SYSTEM) -> None:
        self._clock = clock
        self._not_before = LONG_AGO

    def claim_batch_end(self) -> bool:
        """Whether a micro-batch may end now; after True, the next micro-batch ends later."""
        now = self._clock.monotonic()
        if now < self._not_before:
            return False
        self._not_before = now + 1 / BATCHES_PER_S
        return True


class SupervisedQuery:
    """The query of some flows, as long as it has a flow.

    `known()` are the settings of all flows that may join it without a restart of the query, in the form that copiers
    get. All queries of the process share `pace`. If a flow gets new settings for its copiers, the query restarts with
    all its flows.
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
        """Copy this flow, too; a new lease lets it into a task that already copies other flows."""
        self.flows.append(flow)
        self._bundle.add(flow.leases)
        self._renew_all()

    def remove(self, flow: FlowRunner) -> None:
        """Stop copying this flow; another part of the driver makes its copiers release their partitions."""
        self.flows.remove(flow)
        self._bundle.remove(flow.leases)

    def poll_query(self, engine: Engine, lease_server: LeaseServer, queries: int = 1) -> None:
        """Look after this query, which is part of `queries` queries; called every moment, always on the same thread.

        With a new engine the query starts again. Raises EngineLostError if the engine is lost.
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
            # Spark has tried four times, if possible in other executors: another try would meet the same installed
            # package.
            self._end_flows(mismatch)

    def _end_batch(self, flows: Sequence[FlowRunner], now: float, batch_s: float) -> None:
        """End the micro-batch after `batch_s` with copied records, so that Spark's web UI counts these records.

        A lease ends together with its micro-batch. The copiers continue meanwhile, and get the next lease.
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
        """Forget the former engine: it is lost with its query, and its tasks have ended or soon will."""
        if self._engine is not None:
            for flow in self.flows:
                if flow.leases.lease:
                    # The remaining copiers stay out of the next lease.
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
        """The reason for a restart of the query, None as long as it works."""
        try:
            if query.alive and now - self._idle_since < self._patience_s:
                return None
            return query.fault() or "no task takes up its lease"
        except EngineLostError:
            raise
        except EngineError as error:
            return str(error)

    def _begin_later(self, fault: str) -> None:
        log.warning("TW-SPARK-06: %s: the query is started again in %.0f s: %s", self.name, self._wait_s, _brief(fault))
        self.end()
        self._not_before = self._clock.monotonic() + self._wait_s
        self._wait_s = min(2 * self._wait_s, RESTART_S[1])

    def end(self) -> None:
        """Stop the query if it runs; its copiers release their partitions before."""
        query, self._query = self._query, None
        if query is not None:
            for flow in self.flows:
                flow.leases.stop_copiers(bridge=False)
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
"""With more queries than this, each call checks only a part of them, because each check calls the JVM."""


class Queries:
    """The assignment of flows to queries; used by a single thread.

    `known()` are the settings of all flows that may start here, in the form that copiers get.
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
        """Stop copying a flow. Returns a function that ends the query after its last flow; any thread may call it."""
        for query in self._queries:
            if flow not in query.flows:
                continue
            if len(query.flows) == 1:
                self._queries.remove(query)
                return query.end
            query.remove(flow)
        return lambda: None

    def _arrange(self, flows: Sequence[FlowRunner], slots: int) -> None:
        """Assign each flow to a query; a flow keeps its query as long as the slots allow."""
        named = {flow.settings.name: flow for flow in flows}
        before = [[flow.settings.name for flow in query.flows] for query in self._queries]
        # Until an executor joins, all flows keep their queries.
        groups = group_flows(sorted(named), slots or len(before) or len(named), before)
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
            together = "; ".join(f"{listed(names)} share a task" for names in shared)
            self._sharing = f"Spark runs {counted(slots, 'task')} at once for {counted(len(flows), 'flow')}: {together}"

    def _log_shared(self) -> None:
        """Log the flows that share a task, after a while: the executors of a cluster start in sequence."""
        if self._sharing is not None and self._logged.is_due(self._sharing, LOG_AFTER_S):
            log.warning("TW-SPARK-09: %s", self._sharing)

    def _name(self, names: Sequence[str]) -> str:
        """An unused name for a query, which Spark's web UI shows."""
        name = listed(names)
        taken = {query.name for query in self._queries}
        return name if name not in taken else f"{name} ({next(self._numbers)})"
