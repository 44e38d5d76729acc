"""A flow is left to another process only once nothing is left here that may append."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from harness.wait import wait_for
from twinlog.run import seat as module
from twinlog.run.election import Standing
from twinlog.run.flow import State
from twinlog.run.seat import Seat
from twinlog.run.view import FlowView
from twinlog.settings import AdminSettings, ClientSettings, ConsumerSettings, FlowSettings, ProducerSettings
from twinlog.types import Alias

NOWHERE = ClientSettings(("127.0.0.1:1",))
SETTINGS = FlowSettings(
    Alias("a"),
    Alias("z"),
    ConsumerSettings(NOWHERE),
    ProducerSettings(NOWHERE),
    AdminSettings(NOWHERE),
    AdminSettings(NOWHERE),
)


class Election:
    """Leads from the beginning, until it is told to give up."""

    term = 1
    standing = Standing.LEADING
    text = "this process runs the flow"

    def __init__(self, done: list[str]) -> None:
        self._done = done

    def proven_s(self) -> float:
        return 5.0

    def give_up(self, heir: str) -> None:
        self._done.append(f"leave to {heir}")
        self.standing = Standing.STANDBY


class Flow:
    """Runs at once; its copiers let go in time, or not."""

    leases = None
    reason = None
    ended = False
    state = State.RUNNING

    def __init__(self, done: list[str], *, lets_go: bool) -> None:
        self._done = done
        self._lets_go = lets_go
        self.view = FlowView()

    def start(self) -> None:
        self._done.append("start")

    def stop(self, timeout_s: float) -> bool:
        self._done.append("stop")
        return self._lets_go

    def abandon(self) -> None:
        self._done.append("cut off")

    def close(self) -> None:
        self._done.append("close")


@pytest.mark.parametrize(
    ("lets_go", "between"),
    [
        pytest.param(True, ["stop"], id="in order"),
        pytest.param(False, ["stop", "cut off", "wait 5"], id="a copier that hangs"),
    ],
)
def test_a_flow_is_handed_over_when_its_copiers_are_gone(
    monkeypatch: pytest.MonkeyPatch, lets_go: bool, between: list[str]
) -> None:
    done: list[str] = []
    desk: Any = type("Desk", (), {"flows": {}})()

    def build(proven_s: Any) -> Any:
        return Flow(done, lets_go=lets_go)

    def take_out(flow: Any) -> Any:
        return lambda: done.append("end the query")

    clock = SimpleNamespace(sleep=lambda seconds: done.append(f"wait {seconds:g}"))
    monkeypatch.setattr(module, "time", clock)
    seat = Seat(SETTINGS, build, take_out, until_caught_up=False, wake=lambda: None)
    seat._election = Election(done)  # type: ignore[assignment]
    seat.attend(desk)
    assert seat.can_hand_over
    seat.hand_over("b")
    assert not seat.can_hand_over
    assert seat.state is State.STARTING
    wait_for(lambda: "close" in done, 10, "the seat is empty")
    assert done == ["start", *between, "leave to b", "end the query", "close"]
    wait_for(lambda: seat.attend(desk) is None and not seat.clearing, 10, "it may be taken again")
    assert (seat.flow, seat.stands_by, desk.flows) == (None, True, {})
