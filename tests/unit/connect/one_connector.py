"""A connector in a process, its states, and what lets it go on."""

from __future__ import annotations

from typing import Any

from harness.wait import wait_for
from twinlog.config.connector import ConnectorFlow
from twinlog.connect.running import RunningConnectors
from twinlog.model.types import Alias
from twinlog.settings.client import AdminSettings, ClientSettings, ConsumerSettings, ProducerSettings
from twinlog.settings.flow import FlowSettings
from twinlog.worker.connectors.model import ConnectorName, TargetState

CLIENT = ClientSettings(("127.0.0.1:1",))
C = ConnectorName("c")


def flow(topics: str = "a", *, idle: bool = False) -> ConnectorFlow:
    settings = FlowSettings(
        Alias("a"), Alias("b"), ConsumerSettings(CLIENT), ProducerSettings(CLIENT), AdminSettings(CLIENT),
        AdminSettings(CLIENT), topics=(topics,), kind="checkpoint", connector_name=C,
    )  # fmt: skip
    return ConnectorFlow(C, settings, idle)


def states(running: RunningConnectors) -> Any:
    one = running.connectors[C]
    tasks = one.task_states("w:1", 7)
    return one.connector_state("w:1", 7).state, [status.state for status in tasks.values()]


def shown(running: RunningConnectors) -> Any:
    """The states as they are written, which is what a restart waits for."""
    found = states(running)
    running.connectors[C].mark_reported()
    return found


def attend(running: RunningConnectors) -> None:
    """Until what is being ended has ended, and what begins has begun."""

    def ended() -> bool:
        running.poll_connectors()
        return not any(one.again for one in running.connectors.values())

    wait_for(ended, 60, "what ends has ended")
    running.poll_connectors()
    running.poll_connectors()


def have(running: RunningConnectors, target: TargetState = TargetState.STARTED, **more: Any) -> None:
    running.set_connector(C, more.get("flow", flow()), target, more.get("refused"))
    attend(running)
