"""Facts about a worker's connectors become the steps that Strimzi's operator would take."""

from __future__ import annotations

import pytest

from twinlog.config.connector import InitialState
from twinlog.config.properties import PropertyEntry
from twinlog.config.strimzi.resource import AutoRestart, PlannedConnector
from twinlog.connect.strimzi.steps import (
    AutoRestarts,
    ChangeTargetState,
    DeleteConnector,
    ExistingConnector,
    PutConnector,
    asked,
    of_others,
    steps,
)
from twinlog.worker.connectors.model import ConnectorName, RestartRequest, TargetState, TaskId

SOURCE = ConnectorName("a->b.MirrorSourceConnector")
HEARTBEAT = ConnectorName("a->b.MirrorHeartbeatConnector")
MINE = ConnectorName("my-connector")
STARTED, PAUSED, STOPPED = TargetState.STARTED, TargetState.PAUSED, TargetState.STOPPED


def settings(topics: str) -> dict[str, str]:
    """The configuration of a connector of the resource `mirror`."""
    return {"topics": topics, "name": SOURCE, "twinlog.resource": "mirror"}


def planned(state: InitialState = "RUNNING", topics: str = "x") -> PlannedConnector:
    entries = {"topics": PropertyEntry("topics", topics, "f", 1, topics)}
    return PlannedConnector(SOURCE, "source", "a", "b", entries, state)


def present(target: TargetState = STARTED, topics: str = "x") -> ExistingConnector:
    return ExistingConnector(settings(topics), target)


@pytest.mark.parametrize(
    ("wanted", "there", "expected"),
    [
        (planned(), None, [PutConnector(SOURCE, settings("x"), STARTED)]),
        (planned("STOPPED"), None, [PutConnector(SOURCE, settings("x"), STOPPED)]),
        (planned(), present(), []),
        (planned("PAUSED"), present(PAUSED), []),
        (planned("PAUSED"), present(), [ChangeTargetState(SOURCE, PAUSED)]),
        (planned(), present(STOPPED), [ChangeTargetState(SOURCE, STARTED)]),
        (planned("RUNNING", "y"), present(), [PutConnector(SOURCE, settings("y"))]),
        (
            planned("RUNNING", "y"),
            present(PAUSED),
            [PutConnector(SOURCE, settings("y")), ChangeTargetState(SOURCE, STARTED)],
        ),
        (
            planned("STOPPED", "y"),
            present(),
            [ChangeTargetState(SOURCE, STOPPED), PutConnector(SOURCE, settings("y"))],
        ),
    ],
)
def test_steps(wanted: PlannedConnector, there: ExistingConnector | None, expected: list[object]) -> None:
    assert steps([wanted], {} if there is None else {SOURCE: there}, "mirror") == expected


@pytest.mark.parametrize(
    ("owner", "other", "apart"),
    [
        ("mirror", None, False),
        ("mirror", "mirror", False),
        ("mirror", "second", True),
        ("one/mirror", "two/mirror", True),
        ("one/mirror", "one/mirror", False),
        ("one/mirror", "mirror", False),
        ("mirror", "two/mirror", False),
    ],
)
def test_whose_connectors_are_in_the_group(owner: str, other: str | None, apart: bool) -> None:
    config = {"topics": "x"} | ({} if other is None else {"twinlog.resource": other})
    assert of_others(owner, {SOURCE: config}) == ({SOURCE: other} if apart else {})


def test_what_is_in_the_resource_no_more_is_deleted_and_what_is_others_stays() -> None:
    found = {SOURCE: present(), HEARTBEAT: present(), MINE: present()}
    assert steps([planned()], found, "mirror") == [DeleteConnector(HEARTBEAT)]


def test_annotations_are_obeyed_once() -> None:
    restart = {"strimzi.io/restart-connector": f"{SOURCE}:includeTasks,onlyFailed"}
    assert asked(restart, {}, [SOURCE]).restarts == (RestartRequest(SOURCE, include_tasks=True, only_failed=True),)
    assert asked(restart, restart, [SOURCE]).restarts == ()
    again = {"strimzi.io/restart-connector": SOURCE}
    assert asked(again, restart, [SOURCE]).restarts == (RestartRequest(SOURCE),)
    task = {"strimzi.io/restart-connector-task": f"{SOURCE}:2"}
    assert asked(task, {}, [SOURCE]).tasks == (TaskId(SOURCE, 2),)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("restart-connector", "other"),
        ("restart-connector", f"{SOURCE}:everything"),
        ("restart-connector-task", SOURCE),
        ("restart-connector-task", f"{SOURCE}:first"),
    ],
)
def test_annotations_that_ask_for_nothing_that_there_is(key: str, value: str) -> None:
    found = asked({f"strimzi.io/{key}": value}, {}, [SOURCE])
    assert found.wrong
    assert not found.restarts + found.tasks


def test_a_failed_connector_is_restarted_ever_more_rarely() -> None:
    auto, minute = AutoRestarts(), 60.0
    at = [float(second) for second in range(0, 61 * 60, 30) if auto.is_due("c", AutoRestart(), failed=True, now=second)]
    # After 0, 2, 6, 12 and 20 minutes, each counted from the one before.
    assert at == [0, 2 * minute, 8 * minute, 20 * minute, 40 * minute]


def test_automatic_restarts_have_an_end_and_begin_again_once_it_ran_well() -> None:
    auto, rule = AutoRestarts(), AutoRestart(1)
    assert auto.is_due("c", rule, failed=True, now=0)
    assert not auto.is_due("c", rule, failed=True, now=10_000)
    assert not auto.is_due("c", rule, failed=False, now=20_000)
    assert auto.is_due("c", rule, failed=True, now=20_001)
    assert not auto.is_due("c", None, failed=True, now=30_000)
