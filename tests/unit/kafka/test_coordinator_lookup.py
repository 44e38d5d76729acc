"""A coordinator is looked for once, and again when it does not answer or answers that it is one no more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any

import pytest

from twinlog.errors import ClusterError, RefusedError
from twinlog.kafka.coordinator import lookup
from twinlog.kafka.coordinator.lookup import GROUP, Coordinator, Coordinators
from twinlog.kafka.protocol.error_codes import Code


class Cluster:
    """Brokers that coordinate groups: `where` is which one each, `codes` has errors that groups have instead.

    `meanwhile` is called while brokers that came are asked for.
    """

    def __init__(self, *, newer: bool = True) -> None:
        self.newer = newer
        self.where = {f"group-{number}": number for number in range(250)}
        self.codes: dict[str, int] = {}
        self.omitted: set[str] = set()
        self.questions: list[list[str]] = []
        self.asked: list[tuple[int, str]] = []
        """Brokers that a request was sent to, and the connection."""
        self.fault: ClusterError | None = None
        self.refreshed = 0
        self.meanwhile: Callable[[], None] = lambda: None
        self.loop = self

    def spawn(self, step: Callable[..., Coroutine[Any, Any, Any]], *args: Any) -> Coroutine[Any, Any, Any]:
        return step(*args)

    async def gather(self, steps: list[Coroutine[Any, Any, Any]]) -> list[Any]:
        return [await step for step in steps]

    def supports(self, *_: int) -> bool:
        return self.newer

    async def refresh(self, _: list[str]) -> None:
        self.refreshed += 1
        self.meanwhile()

    async def send_request(self, request: Any, node: int | None, timeout_s: float | None) -> Any:
        if node is None:
            names = request.coordinator_keys or [request.key]
            self.questions.append(names)
            answers = [self._of(name) for name in names if name not in self.omitted]
            return answers[0] if len(names) == 1 else SimpleNamespace(coordinators=answers)
        self.asked.append((node, "control"))
        return await self._answer(request)

    def _of(self, name: str) -> Any:
        return SimpleNamespace(key=name, error_code=self.codes.get(name, 0), node_id=self.where[name])

    async def send(self, request: Any, node: int, timeout_s: float | None) -> Any:
        self.asked.append((node, "data"))
        return await self._answer(request)

    async def _answer(self, request: Any) -> Any:
        if self.fault is not None:
            raise self.fault
        return f"answer to {request}"


def coordinators(cluster: Cluster) -> Coordinators:
    client: Any = cluster
    return Coordinators(client, GROUP)


def test_a_hundred_names_are_one_question_and_none_is_asked_for_twice() -> None:
    cluster = Cluster()
    known = coordinators(cluster)
    assert asyncio.run(known.find_nodes(list(cluster.where))) == (cluster.where, {})
    assert [len(names) for names in cluster.questions] == [100, 100, 50]
    assert known.nodes == cluster.where
    assert asyncio.run(known.find_nodes(list(cluster.where))) == (cluster.where, {})
    assert len(cluster.questions) == 3
    # One of them may have been a broker that nobody knew.
    assert cluster.refreshed == 1


def test_brokers_before_3_0_are_asked_for_each_name() -> None:
    cluster = Cluster(newer=False)
    known = coordinators(cluster)
    assert asyncio.run(known.find_nodes(["group-3", "group-5"])) == ({"group-3": 3, "group-5": 5}, {})
    assert cluster.questions == [["group-3"], ["group-5"]]
    assert known.nodes == {"group-3": 3, "group-5": 5}


def test_a_name_that_an_answer_leaves_out_has_no_coordinator_now() -> None:
    cluster = Cluster()
    cluster.omitted.add("group-3")
    found = asyncio.run(coordinators(cluster).find_nodes(["group-3", "group-5", "group-7"]))
    assert found == ({"group-5": 5, "group-7": 7}, {"group-3": Code.COORDINATOR_NOT_AVAILABLE})


@pytest.mark.parametrize("newer", [True, False])
def test_a_name_that_has_none_now_is_asked_for_again(newer: bool) -> None:
    cluster = Cluster(newer=newer)
    cluster.codes["group-3"] = Code.COORDINATOR_NOT_AVAILABLE
    known = coordinators(cluster)
    assert asyncio.run(known.find_nodes(["group-3", "group-5"])) == (
        {"group-5": 5},
        {"group-3": Code.COORDINATOR_NOT_AVAILABLE},
    )
    cluster.codes.clear()
    assert asyncio.run(known.find_nodes(["group-3", "group-5"])) == ({"group-3": 3, "group-5": 5}, {})
    assert known.nodes == {"group-3": 3, "group-5": 5}
    assert cluster.questions[-1] == ["group-3"]


def test_names_that_nobody_asks_for_any_more_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup, "MOST_NODES", 10)
    cluster = Cluster()
    known = coordinators(cluster)
    asyncio.run(known.find_nodes(list(cluster.where)))
    asyncio.run(known.find_nodes(["group-3"]))
    assert known.nodes == {"group-3": 3}


class One:
    """The coordinator of one group; `checked` are the codes that were judged."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.checked: list[int] = []
        client: Any = self.cluster
        self.coordinator = Coordinator(client, GROUP, "group-7", self._check)

    def _check(self, code: int) -> None:
        self.checked.append(code)
        raise ClusterError("none now")

    def ask(self, *, apart: bool = False) -> Any:
        return asyncio.run(self.coordinator.send_request("this", 1.0, apart=apart))


def test_requests_go_to_the_broker_that_was_found() -> None:
    one = One()
    assert one.ask() == "answer to this"
    one.ask(apart=True)
    assert one.cluster.asked == [(7, "control"), (7, "data")]
    assert len(one.cluster.questions) == 1


def test_one_that_does_not_answer_is_looked_for_again_and_one_that_refuses_is_not() -> None:
    one = One()
    one.cluster.fault = RefusedError("no")
    with pytest.raises(RefusedError):
        one.ask()
    one.cluster.fault = ClusterError("no answer")
    with pytest.raises(ClusterError):
        one.ask()
    one.cluster.fault = None
    one.cluster.where["group-7"] = 8
    one.ask()
    assert one.cluster.asked == [(7, "control"), (7, "control"), (8, "control")]
    assert len(one.cluster.questions) == 2


def test_what_the_search_comes_to_is_judged_by_who_asks() -> None:
    one = One()
    one.cluster.codes["group-7"] = Code.GROUP_AUTHORIZATION_FAILED
    with pytest.raises(ClusterError, match="none now"):
        one.ask()
    assert (one.checked, one.cluster.asked) == ([Code.GROUP_AUTHORIZATION_FAILED], [])


def test_one_that_somebody_else_gives_up_meanwhile_is_asked_all_the_same() -> None:
    one = One()
    one.cluster.meanwhile = one.coordinator.reset_node
    assert one.ask() == "answer to this"
