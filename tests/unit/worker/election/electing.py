"""An election, a flow and what is stored, that a test decides on."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from tests.unit.worker.election.test_election import SETTINGS
from twinlog.clock import SYSTEM, Clock
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.settings.flow import FlowSettings
from twinlog.worker.elected_flow import ElectedFlow
from twinlog.worker.election.role import ElectionState
from twinlog.worker.flow.failure_log import FailureLog
from twinlog.worker.flow.flow import FlowState
from twinlog.worker.status.flow_status import FlowStatus


class Election:
    """Leads from the beginning, until it is asked to give up."""

    term = 1
    standing = ElectionState.LEADING
    text = "this process runs the flow"
    unfit = False
    twin: str | None = None

    def __init__(self, done: list[str]) -> None:
        self._done = done

    def leads_for_s(self) -> float:
        return 5.0

    def give_up(self, heir: str, *, unfit_s: float = 0.0) -> None:
        self._done.append(f"leave to {heir}")
        self.unfit = unfit_s > 0
        self.standing = ElectionState.STANDBY

    def change_settings(self, settings: FlowSettings) -> None:
        self._done.append("tell the others")

    def stop(self, timeout_s: float, *, leave: bool = True) -> None:
        self._done.append("leave" if leave else "fall silent")


class Stored:
    """What is read while standing by."""

    looked = False

    def __init__(self, settings: FlowSettings, _connect: object) -> None:
        self.done = [f"read {settings.name}"]
        ALL_STORED.append(self)

    def __str__(self) -> str:
        return "what was read"

    def start_reading(self) -> None:
        self.done.append("follow")

    def close(self) -> None:
        self.done.append("close")


ALL_STORED: list[Stored] = []


class Flow:
    """Runs at once; its copiers release in time, or not."""

    leases = None
    reason = None
    settings = SETTINGS
    ended = False
    source_away = False
    state = FlowState.RUNNING

    def __init__(self, done: list[str], *, releases: bool) -> None:
        self._done = done
        self._releases = releases
        self.flow_status = FlowStatus()
        self.changes = SimpleNamespace(request_change=self._change, pending=False)

    def start(self) -> None:
        self._done.append("start")

    def _change(self, settings: FlowSettings, flows: object) -> None:
        self.settings = settings
        self._done.append("change")

    def stop(self, timeout_s: float) -> bool:
        self._done.append("stop")
        return self._releases

    def drop_copiers(self) -> None:
        self._done.append("cut off")

    def close(self) -> None:
        self._done.append("close")


def elected_flow_of(
    done: list[str], *, releases: bool = True, until: bool = False, clock: Clock = SYSTEM
) -> tuple[ElectedFlow, Any]:
    """A flow that this process is about to run, and its lease server."""

    def build(settings: Any, flows: Any, leads_for_s: Any, stored: Any) -> Any:
        if stored is not None:
            done.append(f"go on with {stored}")
        return Flow(done, releases=releases)

    def take_out(flow: Any) -> Any:
        return lambda: done.append("end the query")

    builder: Any = SimpleNamespace(
        build_runner=build,
        wake=lambda: None,
        clock=clock,
        connect=ClusterAdmin,
        until_caught_up=until,
        failures=FailureLog(clock),
    )
    elected = ElectedFlow(SETTINGS, builder, lambda: [SETTINGS], take_out)
    elected.election = Election(done)  # type: ignore[assignment]
    return elected, type("Server", (), {"flows": {}})()
