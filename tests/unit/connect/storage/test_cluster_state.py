"""The state of a group of workers: tasks count from their commit on, and compaction is forgiven."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given

from twinlog.connect.group.state import GroupState
from twinlog.connect.storage import config_records, offset_records, status_records
from twinlog.connect.storage.cluster_state import ClusterState
from twinlog.connect.storage.config_records import (
    CommitRecord,
    ConfigRecord,
    ConnectorRecord,
    FencingRecord,
    LoggerRecord,
    RestartRecord,
    SessionKey,
    TargetStateRecord,
    TaskRecord,
    decode,
    encode,
)
from twinlog.connect.storage.record_log import MemoryLog
from twinlog.worker.connectors.model import ConnectorName, RestartRequest, TargetState, TaskId

C, D = ConnectorName("c"), ConnectorName("d")


def tasks(name: ConnectorName, *configs: str) -> list[ConfigRecord]:
    return [TaskRecord(TaskId(name, number), {"topics": config}) for number, config in enumerate(configs)]


def test_tasks_count_from_their_commit_on() -> None:
    state = ClusterState()
    changes = state.apply_records([ConnectorRecord(C, {"v": "1"}), *tasks(C, "a", "b")])
    assert (changes.connectors, changes.tasks) == ((C,), ())
    assert state.tasks(C) == []
    assert state.apply_records([CommitRecord(C, 2)]).tasks == (C,)
    assert state.tasks(C) == [TaskId(C, 0), TaskId(C, 1)]
    assert state.connectors[C].tasks == ({"topics": "a"}, {"topics": "b"})
    assert state.connectors[C].applied == {"v": "1"}
    state.apply_records([ConnectorRecord(C, {"v": "2"}), *tasks(C, "x")])
    assert state.connectors[C].applied == {"v": "1"}
    assert state.connectors[C].tasks == ({"topics": "a"}, {"topics": "b"})
    state.apply_records([CommitRecord(C, 1)])
    assert state.connectors[C].tasks == ({"topics": "x"},)
    assert state.connectors[C].applied == {"v": "2"}


def test_a_commit_without_all_its_tasks_changes_none_and_is_noticed() -> None:
    state = ClusterState()
    state.apply_records([ConnectorRecord(C, {}), TaskRecord(TaskId(C, 1), {}), CommitRecord(C, 2)])
    assert not state.connectors[C].consistent
    assert state.tasks(C) == []
    # More than the commit names are left over from before.
    state.apply_records([*tasks(C, "a", "b", "old"), CommitRecord(C, 2)])
    assert state.connectors[C].consistent
    assert len(state.tasks(C)) == 2


def test_a_stopped_connector_has_no_tasks() -> None:
    state = ClusterState()
    state.apply_records([ConnectorRecord(C, {}), *tasks(C, "a"), CommitRecord(C, 1), CommitRecord(C, 0)])
    assert state.tasks(C) == []
    assert state.connectors[C].consistent


def test_what_was_removed_leaves_nothing() -> None:
    state = ClusterState()
    state.apply_records(
        [ConnectorRecord(C, {}), TargetStateRecord(C, TargetState.STOPPED), *tasks(C, "a"), CommitRecord(C, 1)]
    )
    assert state.target_state(C) is TargetState.STOPPED
    changes = state.apply_records([ConnectorRecord(C, None), TargetStateRecord(C, None)])
    assert changes.connectors == (C,)
    assert state.connectors == {}
    assert state.target_state(C) is TargetState.STARTED
    # Compaction took the connector and left its commit.
    assert state.apply_records([*tasks(C, "a"), CommitRecord(C, 1)]).tasks == ()
    state.apply_records([ConnectorRecord(C, {})])
    assert state.tasks(C) == []


def test_producers_of_earlier_tasks_are_fenced_before_new_tasks_begin() -> None:
    state = ClusterState()
    state.apply_records([ConnectorRecord(C, {}), *tasks(C, "a"), CommitRecord(C, 1)])
    assert state.awaits_fencing(C)
    assert state.fenced_tasks(C) is None
    state.apply_records([FencingRecord(C, 1)])
    assert not state.awaits_fencing(C)
    assert state.fenced_tasks(C) == 1


def test_kafkas_leader_is_to_fence_copiers_however_few_tasks_there_are() -> None:
    configs = MemoryLog(config_records.decode)
    state = GroupState(configs, MemoryLog(status_records.decode), MemoryLog(offset_records.decode), lambda _: None)
    state.put(C, {})
    state.put_tasks(C, [{"a": "1"}, {"a": "2"}])
    state.await_fencing(C, 8)
    assert state.query_state(lambda cluster, _: (cluster.awaits_fencing(C), cluster.fenced_tasks(C))) == (True, 8)
    assert state.query_state(lambda cluster, _: cluster.connectors[C].tasks) == ({"a": "1"}, {"a": "2"})


def test_what_a_running_worker_does_is_reported() -> None:
    state = ClusterState()
    key = SessionKey(b"k", "HmacSHA256", 1)
    changes = state.apply_records(
        [
            ConnectorRecord(D, {}),
            ConnectorRecord(C, {}),
            ConnectorRecord(D, {"v": "2"}),
            TargetStateRecord(C, TargetState.PAUSED),
            RestartRecord(RestartRequest(C, include_tasks=True)),
            LoggerRecord("a", "DEBUG"),
            LoggerRecord("a", "INFO"),
            key,
        ]
    )
    assert changes.connectors == (D, C)
    assert changes.target_states == (C,)
    assert changes.restarts == (RestartRequest(C, include_tasks=True),)
    assert changes.loggers == {"a": "INFO"}
    assert state.session_key == key
    assert "b'k'" not in repr(key)


names = st.sampled_from([C, D])
configs = st.dictionaries(st.sampled_from(["a", "b"]), st.text(max_size=3), max_size=2)


@st.composite
def histories(draw: st.DrawFn) -> list[ConfigRecord]:
    """What leaders write: tasks of a connector all at once with their commit, whatever else between."""
    records: list[ConfigRecord] = []
    for _ in range(draw(st.integers(0, 12))):
        name = draw(names)
        kind = draw(st.sampled_from(["put", "put", "tasks", "tasks", "state", "delete", "fence"]))
        if kind == "put":
            records.append(ConnectorRecord(name, draw(configs)))
        elif kind == "tasks":
            made = draw(st.lists(configs, max_size=3))
            records += [TaskRecord(TaskId(name, number), config) for number, config in enumerate(made)]
            records.append(CommitRecord(name, len(made)))
        elif kind == "state":
            records.append(TargetStateRecord(name, draw(st.sampled_from(TargetState))))
        elif kind == "fence":
            records.append(FencingRecord(name, draw(st.integers(0, 3))))
        else:
            records += [ConnectorRecord(name, None), TargetStateRecord(name, None)]
    return records


def compacted(records: list[ConfigRecord], upto: int) -> list[ConfigRecord]:
    """The log after its first `upto` records were compacted."""
    stored = [encode(record) for record in records]
    last = {key: at for at, (key, _) in enumerate(stored[:upto])}
    kept = [
        (key, value) for at, (key, value) in enumerate(stored) if at >= upto or (value is not None and last[key] == at)
    ]
    decoded = [decode(key, value) for key, value in kept]
    return [record for record in decoded if record is not None]  # type: ignore[misc]


@given(histories(), st.integers(0, 60))
def test_a_worker_that_starts_late_agrees_with_one_that_read_everything(records: list[ConfigRecord], upto: int) -> None:
    whole, late = ClusterState(), ClusterState()
    whole.apply_records(records)
    late.apply_records(compacted(records, upto))
    assert {name: one.config for name, one in late.connectors.items()} == {
        name: one.config for name, one in whole.connectors.items()
    }
    for name in whole.connectors:
        assert late.target_state(name) is whole.target_state(name)
        # Compaction may leave a commit in front of its connector: whoever runs that configures the tasks anew.
        if late.tasks(name):
            assert late.connectors[name].tasks == whole.connectors[name].tasks


def test_a_topic_that_is_written_anew_says_the_same() -> None:
    before = ClusterState()
    before.apply_records(
        [
            SessionKey(b"key", "HmacSHA256", 1),
            TargetStateRecord(C, TargetState.PAUSED),
            ConnectorRecord(C, {"a": "1"}),
            FencingRecord(C, 4),
            TaskRecord(TaskId(C, 0), {"t": "0"}),
            TaskRecord(TaskId(C, 1), {"t": "1"}),
            CommitRecord(C, 2),
            ConnectorRecord(D, {"b": "1"}),
            TaskRecord(TaskId(D, 0), {"t": "0"}),
            CommitRecord(D, 1),
            FencingRecord(D, 2),
            ConnectorRecord(ConnectorName("new"), {"c": "1"}),
        ]
    )
    after = ClusterState()
    after.apply_records(before.records(before.connectors))
    assert after.connectors == before.connectors
    assert after.session_key == before.session_key
    for name in before.connectors:
        assert after.tasks(name) == before.tasks(name)
        assert after.target_state(name) == before.target_state(name)
        assert after.fenced_tasks(name) == before.fenced_tasks(name)
        assert after.awaits_fencing(name) == before.awaits_fencing(name)
