"""A flow's query on an engine that refuses it, or is lost and followed by another; engine and flow only pretend."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from twinlog.errors import EngineError, EngineLostError
from twinlog.run.query import SupervisedQuery

DESK: Any = SimpleNamespace(address=None)


class Query:
    def __init__(self) -> None:
        self.error: EngineError | None = None
        self.stopped = False

    @property
    def alive(self) -> bool:
        if self.error is not None:
            raise self.error
        return True

    def stop(self) -> None:
        self.stopped = True


class Engine:
    """Starts queries, or refuses to with `error`."""

    def __init__(self, error: EngineError | None = None) -> None:
        self.error = error
        self.queries: list[Query] = []

    def query(self, settings: Any, address: Any) -> Query:
        if self.error is not None:
            raise self.error
        self.queries.append(Query())
        return self.queries[-1]


class Leases:
    def __init__(self) -> None:
        self.lease = 1
        self.unclaimed = False
        self.disbanded = 0

    def renew(self) -> None:
        self.lease += 1

    def disband(self) -> None:
        self.disbanded += 1


class Flow:
    """As much of a FlowRunner as its query asks for; its first plan stands."""

    def __init__(self) -> None:
        self.settings = SimpleNamespace(name="a->b")
        self.leases = Leases()
        self.ended = False
        self.ready = threading.Event()
        self.ready.set()


@pytest.fixture
def flow() -> Flow:
    return Flow()


@pytest.fixture
def query(flow: Flow) -> Any:
    return SupervisedQuery(flow)  # type: ignore[arg-type]


def test_on_another_engine_it_begins_anew_under_another_lease(flow: Flow, query: Any) -> None:
    first, second = Engine(), Engine()
    for _ in range(3):
        query.watch(first, DESK)
    assert (len(first.queries), flow.leases.lease) == (1, 1)
    first.queries[0].error = EngineLostError("killed")
    with pytest.raises(EngineLostError):
        query.watch(first, DESK)
    query.watch(second, DESK)
    query.watch(second, DESK)
    assert (len(first.queries), len(second.queries), flow.leases.lease) == (1, 1, 2)
    # Nobody is left to be asked for its end.
    assert not first.queries[0].stopped
    assert not flow.leases.disbanded


def test_an_engine_that_is_lost_at_once_leaves_no_query(flow: Flow, query: Any) -> None:
    first, second = Engine(EngineLostError("killed")), Engine()
    with pytest.raises(EngineLostError):
        query.watch(first, DESK)
    query.watch(second, DESK)
    # A task of the first may have taken up the lease.
    assert (len(second.queries), flow.leases.lease) == (1, 2)


def test_what_spark_refuses_is_tried_again_later(flow: Flow, query: Any, caplog: pytest.LogCaptureFixture) -> None:
    engine = Engine(EngineError("Spark refuses: no"))
    query.watch(engine, DESK)
    query.watch(engine, DESK)
    assert caplog.messages == ["a->b: the query is started again in 1 s: Spark refuses: no"]
    engine.error = None
    query.watch(engine, DESK)
    assert not engine.queries
    # The second is over.
    query._not_before = 0.0
    query.watch(engine, DESK)
    assert (len(engine.queries), flow.leases.lease) == (1, 1)


def test_a_query_that_cannot_be_asked_is_started_again(flow: Flow, query: Any) -> None:
    engine = Engine()
    query.watch(engine, DESK)
    engine.queries[0].error = EngineError("Spark refuses: no")
    query.watch(engine, DESK)
    assert engine.queries[0].stopped
    assert flow.leases.disbanded == 1
