"""A flow's query on an engine that refuses it, or is lost and followed by another; engine and flow only pretend."""

from __future__ import annotations

import itertools
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from harness.virtual.clock import VirtualClock
from twinlog.clock import LONG_AGO
from twinlog.errors import EngineError, EngineLostError
from twinlog.worker import queries as module
from twinlog.worker import queries as module_of_queries
from twinlog.worker.queries import BATCH_S, BATCHES_PER_S, Queries, SupervisedQuery

LEASE_SERVER: Any = SimpleNamespace(address=None, bundles={})


class Every(tuple[Any, ...]):
    """The settings of every flow there is."""

    def __contains__(self, settings: object) -> bool:
        return True


class Query:
    def __init__(self, name: str) -> None:
        self.name = name
        self.error: EngineError | None = None
        self.reason: str | None = None
        self.stopped = False

    @property
    def alive(self) -> bool:
        if self.error is not None:
            raise self.error
        return self.reason is None

    def fault(self) -> str | None:
        return self.reason

    def stop(self) -> None:
        self.stopped = True


class Engine:
    """Starts queries, or refuses to with `error`."""

    def __init__(self, error: EngineError | None = None) -> None:
        self.error = error
        self.queries: list[Query] = []

    def query(self, name: str, known: Any, address: Any) -> Query:
        if self.error is not None:
            raise self.error
        self.queries.append(Query(name))
        return self.queries[-1]

    @property
    def running(self) -> list[str]:
        return [query.name for query in self.queries if not query.stopped]


class Leases:
    def __init__(self, name: str) -> None:
        self.flow = name
        self.lease = 1
        self.unclaimed = False
        self.refused: str | None = None
        self.disbanded = 0

    def renew_lease(self) -> None:
        self.lease += 1

    def stop_copiers(self, *, bridge: bool = True) -> None:
        self.disbanded += 1


class Flow:
    """As much of a FlowRunner as its query asks for; its first plan stands."""

    def __init__(self, name: str = "a->b") -> None:
        self.settings = SimpleNamespace(name=name)
        self.changes = SimpleNamespace(copiers=self.settings)
        self.flow_status = SimpleNamespace(records=0)
        self.leases = Leases(name)
        self.ended = False
        self.failed: list[str] = []
        self.fail_flow = self.failed.append
        self.ready = threading.Event()
        self.ready.set()


@pytest.fixture
def flow() -> Flow:
    return Flow()


@pytest.fixture
def query(flow: Flow) -> Any:
    query = SupervisedQuery("a->b", Every)
    query.add(flow)  # type: ignore[arg-type]
    return query


def test_a_micro_batch_ends_only_when_records_were_copied(flow: Flow) -> None:
    time = VirtualClock()
    query: Any = SupervisedQuery("a->b", Every, time)
    query.add(flow)
    engine = Engine()

    def later(seconds: float, queries: int = 1) -> int:
        time.now += seconds
        if flow.leases.unclaimed:
            # Else the query would be begun anew.
            query._patience_s = 1e9
        query.poll_query(engine, LEASE_SERVER, queries)
        return flow.leases.lease

    assert later(0) == later(BATCH_S) == later(3600) == 1, "nothing is copied"
    flow.flow_status.records = 10
    assert later(0) == 2, "the next moment after an idle time"
    flow.flow_status.records = 20
    assert (later(BATCH_S - 1), later(1)) == (2, 3)
    assert later(BATCH_S) == 3
    flow.flow_status.records = 30
    assert (later(0, 100), later(100 / BATCHES_PER_S - BATCH_S - 1, 100), later(1, 100)) == (3, 3, 4), "of many queries"
    # A lease that no task has taken up has not begun.
    flow.flow_status.records, flow.leases.unclaimed = 40, True
    later(5)
    flow.leases.unclaimed = False
    assert (later(BATCH_S - 1), later(1)) == (4, 5)


def test_micro_batches_of_several_queries_end_one_after_the_other() -> None:
    """Together they would swap their Python processes, and with them all that their copiers hold."""
    time = VirtualClock()
    queries: Any = Queries(Every, time)
    flows, engine = [Flow(name) for name in ("a->b", "c->b", "d->b")], Engine()
    ended: list[list[str]] = []
    for second in range(200):
        time.now += 1
        before = [flow.leases.lease for flow in flows]
        for flow in flows:
            flow.flow_status.records = second
        queries.poll_queries(engine, LEASE_SERVER, flows, 3)
        ended.append([flow.leases.flow for flow, lease in zip(flows, before, strict=True) if flow.leases.lease > lease])
    assert max(map(len, ended)) == 1
    times = [second for second, names in enumerate(ended) if names]
    assert min(after - before for before, after in itertools.pairwise(times)) >= 1 / BATCHES_PER_S
    assert all(sum(flow.leases.flow in names for names in ended) >= 200 / BATCH_S - 2 for flow in flows), (
        "none is left out"
    )


def test_on_another_engine_it_begins_anew_under_another_lease(flow: Flow, query: Any) -> None:
    first, second = Engine(), Engine()
    for _ in range(3):
        query.poll_query(first, LEASE_SERVER)
    assert (len(first.queries), flow.leases.lease) == (1, 1)
    first.queries[0].error = EngineLostError("killed")
    with pytest.raises(EngineLostError):
        query.poll_query(first, LEASE_SERVER)
    query.poll_query(second, LEASE_SERVER)
    query.poll_query(second, LEASE_SERVER)
    assert (len(first.queries), len(second.queries), flow.leases.lease) == (1, 1, 2)
    # Nobody is left to be asked for its end.
    assert not first.queries[0].stopped
    assert not flow.leases.disbanded


def test_a_flow_whose_settings_came_later_joins_another_query() -> None:
    engine, flows, known = Engine(), [Flow("a->b"), Flow("b->c")], list[Any]()
    query: Any = SupervisedQuery("shared", lambda: tuple(known))
    for flow in flows:
        known.append(flow.settings)
        query.add(flow)
        query.poll_query(engine, LEASE_SERVER)
        query.poll_query(engine, LEASE_SERVER)
    assert [one.stopped for one in engine.queries] == [True, False]
    assert all(flow.leases.disbanded == 1 for flow in flows)


def test_an_engine_that_is_lost_at_once_leaves_no_query(flow: Flow, query: Any) -> None:
    first, second = Engine(EngineLostError("killed")), Engine()
    with pytest.raises(EngineLostError):
        query.poll_query(first, LEASE_SERVER)
    query.poll_query(second, LEASE_SERVER)
    # A task of the first may have taken up the lease.
    assert (len(second.queries), flow.leases.lease) == (1, 2)


@pytest.mark.parametrize("who", ["a copier", "the planner"])
def test_where_spark_has_another_version_its_flows_end(flow: Flow, query: Any, who: str) -> None:
    """Once Spark has given up, in whose other executors there may be this version."""
    engine, other = Engine(), Flow("c->d")
    query.add(other)
    query.poll_query(engine, LEASE_SERVER)
    (running,) = engine.queries
    if who == "a copier":
        other.leases.refused = "two versions"
    else:
        query._bundle.refused = "two versions"
    query.poll_query(engine, LEASE_SERVER)
    assert (flow.failed, other.failed, running.stopped) == ([], [], False)
    running.reason = "Task 0 in stage 0.0 failed 4 times"
    query.poll_query(engine, LEASE_SERVER)
    assert (flow.failed, other.failed, running.stopped) == (["two versions"], ["two versions"], True)


def test_what_ends_later_for_another_reason_is_tried_again(flow: Flow, query: Any) -> None:
    engine = Engine()
    query.poll_query(engine, LEASE_SERVER)
    engine.queries[0].reason = "Task 0 in stage 0.0 failed 4 times"
    query.poll_query(engine, LEASE_SERVER)
    assert flow.failed == []
    assert query._not_before > 0


def test_what_spark_refuses_is_tried_again_later(flow: Flow, query: Any, caplog: pytest.LogCaptureFixture) -> None:
    engine = Engine(EngineError("Spark refuses: no"))
    query.poll_query(engine, LEASE_SERVER)
    query.poll_query(engine, LEASE_SERVER)
    assert caplog.messages == ["TW-SPARK-06: a->b: the query is started again in 1 s: Spark refuses: no"]
    engine.error = None
    query.poll_query(engine, LEASE_SERVER)
    assert not engine.queries
    # The second is over.
    query._not_before = LONG_AGO
    query.poll_query(engine, LEASE_SERVER)
    assert (len(engine.queries), flow.leases.lease) == (1, 1)


def test_a_query_that_cannot_be_asked_is_started_again(flow: Flow, query: Any) -> None:
    engine = Engine()
    query.poll_query(engine, LEASE_SERVER)
    engine.queries[0].error = EngineError("Spark refuses: no")
    query.poll_query(engine, LEASE_SERVER)
    assert engine.queries[0].stopped
    assert flow.leases.disbanded == 1


def test_a_flow_that_waits_gets_into_the_task_of_others(
    flow: Flow, query: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WAITS_S", 0.0)
    engine, other = Engine(), Flow("b->a")
    query.add(other)
    assert (flow.leases.lease, other.leases.lease) == (2, 2), "a lease that both are in"
    other.leases.unclaimed = True
    for _ in range(2):
        query.poll_query(engine, LEASE_SERVER)
    assert (flow.leases.lease, other.leases.lease) == (3, 3)
    flow.leases.unclaimed = True
    query.poll_query(engine, LEASE_SERVER)
    assert flow.leases.lease == 3, "both wait for Spark"


def test_queries_follow_the_slots() -> None:
    lease_server: Any = SimpleNamespace(address=None, bundles={})
    engine, flows = Engine(), [Flow("a->b"), Flow("b->a"), Flow("a->c")]
    queries: Any = Queries(Every)
    for slots in (3, 1, 2, 0):
        queries.poll_queries(engine, lease_server, flows, slots)
        queries.poll_queries(engine, lease_server, flows, slots)
        assert len(engine.running) == (slots or 2)
        assert sorted(flow.settings.name for query in queries._queries for flow in query.flows) == [
            "a->b",
            "a->c",
            "b->a",
        ]
    assert sorted(lease_server.bundles) == sorted(engine.running)


def test_a_flow_that_ends_leaves_the_others_in_their_task() -> None:
    engine, flows = Engine(), [Flow("a->b"), Flow("b->a")]
    queries: Any = Queries(Every)
    queries.poll_queries(engine, LEASE_SERVER, flows, 1)
    assert engine.running == ["a->b, b->a"]
    flows[0].ended = True
    queries.poll_queries(engine, LEASE_SERVER, flows, 1)
    assert flows[0].leases.disbanded
    assert engine.running == ["a->b, b->a"]
    (query,) = queries._queries
    assert query.flows == flows[1:]
    end = queries.take_out(flows[1])
    assert engine.running == ["a->b, b->a"]
    end()
    assert engine.running == []
    assert flows[1].leases.disbanded
    # One that was elected again finds its place.
    queries.poll_queries(engine, LEASE_SERVER, [Flow("b->a")], 1)
    assert engine.running == ["b->a"]


def test_a_flow_that_is_elected_joins_the_only_task() -> None:
    engine, first, second = Engine(), Flow("a->b"), Flow("b->a")
    queries: Any = Queries(Every)
    queries.poll_queries(engine, LEASE_SERVER, [first], 1)
    queries.poll_queries(engine, LEASE_SERVER, [first, second], 1)
    assert engine.running == ["a->b"]
    assert first.leases.lease == 2, "its task ends, and another one takes up both"
    queries.take_out(first)()
    assert engine.running == ["a->b"]
    # It comes back while the query that has its name copies another flow.
    queries.poll_queries(engine, LEASE_SERVER, [second, Flow("a->b")], 2)
    assert engine.running == ["a->b", "a->b (1)"]


def test_of_many_queries_some_are_looked_at_each_time() -> None:
    engine, flows = Engine(), [Flow(f"a->{number}") for number in range(25)]
    queries: Any = Queries(Every)
    begun = []
    for _ in range(3):
        queries.poll_queries(engine, LEASE_SERVER, flows, 25)
        begun.append(len(engine.running))
    assert begun[-1] == 25
    assert max(begun[0], begun[1] - begun[0], begun[2] - begun[1]) <= module_of_queries.WATCHED_AT_ONCE


def test_a_shared_task_is_logged_when_it_lasts(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    flows = [Flow("a->b"), Flow("b->a")]
    queries: Any = Queries(Every)
    queries.poll_queries(Engine(), LEASE_SERVER, flows, 1)
    queries.poll_queries(Engine(), LEASE_SERVER, flows, 2)
    monkeypatch.setattr(module_of_queries, "LOG_AFTER_S", 0.0)
    for _ in range(2):
        queries.poll_queries(Engine(), LEASE_SERVER, flows, 2)
    assert caplog.messages == []
    for _ in range(2):
        queries.poll_queries(Engine(), LEASE_SERVER, flows, 1)
    assert caplog.messages == ["TW-SPARK-09: Spark runs 1 task at once for 2 flows: a->b, b->a share a task"]
