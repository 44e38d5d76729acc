"""The place and the state of a standalone worker: it leads itself, runs everything, and keeps what it is told."""

from __future__ import annotations

from collections.abc import Callable

from twinlog.connect.group.group import StandaloneGroup
from twinlog.connect.group.member import WorkerState
from twinlog.connect.group.state import state_alone
from twinlog.connect.storage import offset_records
from twinlog.connect.storage.cluster_state import StateChanges
from twinlog.connect.storage.offset_records import OffsetRecord
from twinlog.connect.storage.record_log import MemoryLog
from twinlog.connect.storage.status_records import ConnectorStatusRecord
from twinlog.worker.connectors.model import ConnectorName, ConnectorState, RestartRequest, Status, TargetState

C = ConnectorName("c")


def test_a_worker_alone_runs_what_there_is() -> None:
    names, changed = [C], []
    place = StandaloneGroup(lambda: names, list, lambda: changed.append(1))
    place.myself = WorkerState("http://w:1/", "w:1")
    place.start()
    found = place.assignment
    assert (found.leads, found.leader_url, sorted(found.connectors)) == (True, "http://w:1/", ["c"])
    assert found.url_of(C) == "http://w:1/"
    names.append(ConnectorName("d"))
    place.rejoin()
    assert (sorted(place.assignment.connectors), changed) == (["c", "d"], [1])
    assert place.leads_for_s() > 1e9


def test_its_state_is_in_memory() -> None:
    seen: list[StateChanges] = []
    state = state_alone(MemoryLog[OffsetRecord](offset_records.decode), seen.append)
    state.ensure()
    state.read_all()
    state.put(C, {"name": "c"}, TargetState.PAUSED)
    state.put_tasks(C, [{"task": "0"}])
    state.restart(RestartRequest(C))
    state.set_logger_level("root", "DEBUG")
    state.read()
    assert state.query_state(
        lambda cluster, _: (cluster.connectors[C].config, cluster.target_state(C), cluster.tasks(C))
    ) == (
        {"name": "c"},
        TargetState.PAUSED,
        state.query_state(lambda cluster, _: cluster.tasks(C)),
    )
    assert ([one.connectors for one in seen if one.connectors], seen[-1].loggers) == ([(C,)], {"root": "DEBUG"})
    state.report([ConnectorStatusRecord(C, Status(ConnectorState.RUNNING, "w:1"))])
    assert state.query_state(lambda _, statuses: statuses.connector(C)) == Status(ConnectorState.RUNNING, "w:1")
    state.remove(C)
    assert state.query_state(lambda cluster, _: cluster.connectors) == {}


def test_its_revision_grows_with_whatever_may_be_seen() -> None:
    state = state_alone(MemoryLog[OffsetRecord](offset_records.decode), lambda changes: None)
    state.read_all()
    steps: tuple[Callable[[], None], ...] = (
        lambda: state.put(C, {"name": "c"}),
        lambda: state.set_target_state(C, TargetState.PAUSED),
        lambda: state.put_tasks(C, [{"task": "0"}]),
        lambda: state.report([ConnectorStatusRecord(C, Status(ConnectorState.PAUSED, "w:1"))]),
        lambda: state.remove(C),
    )
    for step in steps:
        before = state.revision
        step()
        assert state.revision > before
    before = state.revision
    state.read()
    assert state.revision == before, "nothing came"
