"""The flows of a file begin, continue and end as the file says, one after the other where they have one group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from harness.virtual.clock import VirtualClock
from tests.unit.worker.test_slots import settings
from twinlog.kafka.retry import FEW_THREADS
from twinlog.settings.flow import FlowSettings
from twinlog.worker import runner as module
from twinlog.worker.runner import WantedFlows

A, B, C = (settings(name) for name in "abc")
DONE: list[str] = []


class Pretended:
    """A flow that ends when it is told."""

    def __init__(self, flow: FlowSettings) -> None:
        self.settings = flow
        self.failure: str | None = None
        self.gone = False
        self._what = "copies" if flow.enabled else "beats"

    def _note(self, what: str) -> None:
        DONE.append(f"{self.settings.name} {self._what}: {what}")

    def start(self) -> None:
        self._note("start")

    def change_settings(self, flow: FlowSettings, flows: Sequence[FlowSettings] = ()) -> None:
        if flow != self.settings:
            self._note(f"topics {flow.topics}")
        self.settings = flow

    def end(self) -> None:
        self._note("end")

    def close(self) -> None:
        self._note("close")


class Elected(Pretended): ...


def wanted(*flows: FlowSettings, monkeypatch: Any) -> Any:
    monkeypatch.setattr(module, "ElectedFlow", Elected)
    DONE.clear()
    found: Any = WantedFlows(flows, flows, Elected, Pretended)  # type: ignore[arg-type]
    found.start_wanted_flows()
    return found


def idle(flow: FlowSettings) -> FlowSettings:
    return replace(flow, enabled=False)


def news() -> list[str]:
    found = list(DONE)
    DONE.clear()
    return found


def test_flows_that_have_not_changed_are_left_alone(monkeypatch: Any) -> None:
    flows = wanted(A, idle(B), monkeypatch=monkeypatch)
    assert news() == [f"{A.name} copies: start", f"{B.name} beats: start"]
    copying, beating = flows.copying, flows.idle
    flows.set_flows([A, idle(B)], [A])
    flows.start_wanted_flows()
    assert news() == []
    assert (flows.copying, flows.idle) == (copying, beating)


def test_a_flow_changes_beside_one_that_begins(monkeypatch: Any) -> None:
    flows = wanted(A, monkeypatch=monkeypatch)
    news()
    flows.set_flows([replace(A, topics=("x",)), C], [A, C])
    assert news() == [f"{A.name} copies: topics ('x',)", f"{C.name} copies: start"]
    assert flows.copies
    assert [one.settings.name for one in flows.copying] == [A.name, C.name]


def test_heartbeats_begin_once_the_flow_has_left_its_group(monkeypatch: Any) -> None:
    flows = wanted(A, monkeypatch=monkeypatch)
    news()
    ending = flows.copying[0]
    flows.set_flows([idle(A)], [])
    flows.start_wanted_flows()
    assert news() == [f"{A.name} copies: end"]
    assert (flows.copying, flows.idle, flows.hosted) == ([], [], [ending])
    assert not flows.copies
    ending.gone = True
    flows.start_wanted_flows()
    assert news() == [f"{A.name} copies: close", f"{A.name} beats: start"]
    # And back again, before that one is gone.
    beating = flows.idle[0]
    flows.set_flows([A], [A])
    flows.set_flows([replace(A, topics=("y",))], [A])
    assert news() == [f"{A.name} beats: end"]
    beating.gone = True
    flows.start_wanted_flows()
    assert news() == [f"{A.name} copies: start"]
    assert flows.copying[0].settings.topics == ("y",)


def test_a_flow_that_failed_begins_again_with_other_settings_only(monkeypatch: Any) -> None:
    flows = wanted(A, B, monkeypatch=monkeypatch)
    news()
    failed = flows.copying[0]
    failed.failure, failed.gone = "gap", True
    flows.set_flows([A, replace(B, topics=("x",))], [A, B])
    assert news() == [f"{B.name} copies: topics ('x',)"]
    flows.set_flows([replace(A, gap_policy="continue"), B], [A, B])
    assert news() == [
        f"{A.name} copies: end",
        f"{B.name} copies: topics ('.*',)",
        f"{A.name} copies: close",
        f"{A.name} copies: start",
    ]
    assert failed not in flows.copying


def test_a_flow_that_is_not_wanted_ends_for_good(monkeypatch: Any) -> None:
    flows = wanted(A, B, monkeypatch=monkeypatch)
    news()
    flows.set_flows([B], [B])
    flows.copying[0].gone = True
    for ending in flows.hosted:
        ending.gone = True
    flows.start_wanted_flows()
    flows.start_wanted_flows()
    assert news() == [f"{A.name} copies: end", f"{A.name} copies: close"]
    assert [one.settings.name for one in flows.hosted] == [B.name]


@pytest.mark.parametrize("limit", [RuntimeError("can't start new thread"), OSError("too many open files")])
def test_a_flow_that_cannot_begin_here_yet_leaves_the_other_flows_running(
    limit: Exception, monkeypatch: Any, caplog: pytest.LogCaptureFixture
) -> None:
    limits = [limit]

    def elected(flow: FlowSettings) -> Elected:
        if flow == B and limits:
            raise limits.pop()
        return Elected(flow)

    monkeypatch.setattr(module, "ElectedFlow", Elected)
    DONE.clear()
    clock = VirtualClock()
    flows: Any = WantedFlows([A], [A], elected, Pretended, clock)  # type: ignore[arg-type]
    flows.start_wanted_flows()
    flows.set_flows([A, B, C], [A, B, C])
    flows.start_wanted_flows()
    assert news() == [f"{A.name} copies: start"]
    assert f"some cannot begin here yet, trying again: {limit}" in caplog.text
    clock.sleep(FEW_THREADS.first_s)
    flows.start_wanted_flows()
    assert news() == [f"{B.name} copies: start", f"{C.name} copies: start"]
    assert [one.settings.name for one in flows.copying] == [A.name, B.name, C.name]
