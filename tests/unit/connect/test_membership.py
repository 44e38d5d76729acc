"""What a worker tells about its place in its group."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.virtual.clock import VirtualClock
from twinlog.connect.group import membership
from twinlog.connect.group.member import Worker
from twinlog.connect.group.membership import LOOK_S, WorkerGroup
from twinlog.kafka.coordinator.membership import Generation
from twinlog.settings.worker import GroupSettings, StorageTopic

SESSION_S = 10.0
ME = "worker-1"


class Member:
    """In the place of a Membership: the coordinator takes it in at once, and gives it what it asks for."""

    group = "workers"
    session_s = SESSION_S
    generation: Generation | None = None

    def __init__(self, *_: object) -> None: ...

    def join(self, metadata: bytes) -> Generation:
        return Generation(1, ME, ME, {ME: metadata})

    def enter(self, generation: Generation) -> None:
        self.generation = generation

    def sync(self, assignments: dict[str, bytes]) -> bytes:
        return assignments[ME]


def test_a_coordinator_that_is_silent_for_a_session_is_told_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    monkeypatch.setattr(membership, "Membership", Member)
    clock = VirtualClock()
    admin = SimpleNamespace(clock=clock, client=None, call=lambda step, *arguments: step(*arguments))
    settings = GroupSettings("workers", *(StorageTopic(name, 1, 1) for name in ("configs", "offsets", "states")))
    none: Any = lambda *_: ()  # noqa: E731
    group = WorkerGroup(cast(Any, admin), settings, none, none, none, none)
    group.myself = Worker("http://w:1/", "w:1")

    def pass_by(seconds: float) -> list[str]:
        caplog.clear()
        for _ in range(int(seconds / LOOK_S)):
            clock.sleep(LOOK_S)
            group.watch()
        return caplog.messages

    assert group._join()
    assert pass_by(SESSION_S - 2) == []
    (told,) = pass_by(20)
    assert told.startswith("cannot take part in group workers, trying again: its coordinator has not answered")
    assert len(pass_by(60)) == 1
    group._lease.confirmed(clock.monotonic(), SESSION_S, stable=True)
    assert pass_by(2) == ["takes part in group workers again"]
