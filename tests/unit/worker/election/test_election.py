"""An election at a target that is down goes on asking, and does not fill the log."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from harness.wait import wait_for
from twinlog.errors import RefusedError
from twinlog.kafka.client import ClusterClient
from twinlog.model.types import Alias
from twinlog.settings.flow import AdminSettings, ClientSettings, ConsumerSettings, FlowSettings, ProducerSettings
from twinlog.worker import group_membership
from twinlog.worker.election import election as module
from twinlog.worker.election import role
from twinlog.worker.election.election import Election
from twinlog.worker.election.role import Announcements, ElectionState
from twinlog.worker.election.roster import ElectionRegistry

NOWHERE = ClientSettings(("127.0.0.1:1",))
SETTINGS = FlowSettings(
    Alias("a"),
    Alias("z"),
    ConsumerSettings(NOWHERE),
    ProducerSettings(NOWHERE),
    AdminSettings(NOWHERE),
    AdminSettings(NOWHERE),
)


def test_a_target_that_is_down_is_logged_now_and_then(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(group_membership, "CONNECT_S", 0.05)
    monkeypatch.setattr(module, "RETRY_S", 0.01)
    member = Election(SETTINGS, lambda: None, ElectionRegistry(ready=True))
    tries: list[float] = []
    connect = ClusterClient.connect

    async def counted(self: ClusterClient, timeout_s: float) -> Any:
        tries.append(timeout_s)
        return await connect(self, timeout_s)

    monkeypatch.setattr(ClusterClient, "connect", counted)
    with caplog.at_level(logging.INFO, "twinlog"):
        member.start()
        try:
            wait_for(lambda: len(tries) >= 10, 60, "it tries again and again")
        finally:
            member.stop(1.0)
    assert member.standing is ElectionState.JOINING
    logged = [record.getMessage() for record in caplog.records if record.name.startswith("twinlog")]
    assert len(logged) == 1
    assert logged[0].startswith("a->z: cannot connect yet, trying again: ")


def test_a_refusal_that_lasts_is_logged_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    announced = Announcements(SETTINGS, "host-1", "a-mm2")
    for _ in range(3):
        announced.refused(RefusedError("group a-mm2 lacks READ"))
    assert caplog.text.count("a->z: group a-mm2 lacks READ") == 1
    monkeypatch.setattr(role, "AGAIN_S", 0.0)
    announced.refused(RefusedError("group a-mm2 lacks READ"))
    assert caplog.text.count("a->z: group a-mm2 lacks READ") == 2
