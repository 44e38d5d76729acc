"""The streaming queries of all flows: one for each flow, or for several when Spark runs fewer tasks than that."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Sequence

from twinlog.clock import SYSTEM, Clock
from twinlog.lease.lease_server import LeaseServer
from twinlog.log_once import LogOnce
from twinlog.model.topics import listed
from twinlog.settings.flow import FlowSettings
from twinlog.spark.engine import Engine
from twinlog.worker.flow.flow import FlowRunner
from twinlog.worker.query import Pace, SupervisedQuery
from twinlog.worker.sharing import group

log = logging.getLogger(__name__)

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
        self._pace = Pace(clock)
        self._queries: list[SupervisedQuery] = []
        self._numbers = itertools.count(1)
        self._turn = 0
        self._sharing: str | None = None
        self._logged = LogOnce(clock)

    def attend(self, engine: Engine, lease_server: LeaseServer, flows: Sequence[FlowRunner], slots: int) -> None:
        """Look after the queries of these flows; called every moment. Raises EngineLostError."""
        for flow in [flow for query in self._queries for flow in query.flows if flow.ended]:
            flow.leases.disband()
            self.take_out(flow)()
        self._arrange([flow for flow in flows if not flow.ended], slots)
        self._log_shared()
        self._turn += 1
        turns = max(1, -(-len(self._queries) // WATCHED_AT_ONCE))
        for query in self._queries[self._turn % turns :: turns]:
            query.watch(engine, lease_server, len(self._queries))

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
        if self._sharing is not None and self._logged.lasts(self._sharing, LOG_AFTER_S):
            log.warning(self._sharing)

    def _name(self, names: Sequence[str]) -> str:
        """A name that no query has; Spark's pages show it."""
        name = listed(names)
        taken = {query.name for query in self._queries}
        return name if name not in taken else f"{name} ({next(self._numbers)})"
