"""A worker answers the requests of Strimzi's operator, in the operator's order and with the headers of its client."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from harness.containers.strimzi.operator import Desired, Operator, OperatorError
from harness.containers.strimzi.release import RELEASES, Cluster, Resource, connector_configs
from harness.wait import wait_for
from tests.unit.connect.worker.whole_worker import whole_worker

NAME = "a->b.MirrorCheckpointConnector"
RESOURCE = Resource(
    "mm2",
    Cluster("b", "127.0.0.1:2", config={"offset.storage.replication.factor": "-1"}),
    Cluster("a", "127.0.0.1:1"),
    "mm2-group",
    {"MirrorCheckpointConnector": {"sync.group.offsets.enabled": "true"}},
    tasks_max=2,
)


@pytest.fixture(params=list(RELEASES))
def operator(request: pytest.FixtureRequest) -> Iterator[Operator]:
    with whole_worker() as (client, _):
        yield Operator(RELEASES[request.param], client.url)


def wanted(operator: Operator, **more: Any) -> dict[str, Desired]:
    (config,) = connector_configs(operator.release, RESOURCE).values()
    return {NAME: replace(Desired(config), **more)}


def state(operator: Operator) -> str:
    return str(operator.expect("GET", f"/connectors/{NAME}/status", 200)["connector"]["state"])


def becomes(operator: Operator, wished: str) -> None:
    wait_for(lambda: state(operator) == wished, 60, f"{NAME} is {wished}", every_s=0.02)


def test_a_connector_is_created_once(operator: Operator) -> None:
    operator.reconcile(wanted(operator))
    becomes(operator, "RUNNING")
    before = len(operator.log)
    operator.reconcile(wanted(operator))
    assert {one.method for one in operator.log[before:]} == {"GET"}
    created = [(one.method, one.path, one.status) for one in operator.log if one.method in {"PUT", "POST"}]
    posts = [("POST", "/connectors", 201)]
    puts = [("PUT", f"/connectors/{NAME}/config", 201)]
    assert created == (posts if operator.release.creates_with_post else puts)


@pytest.mark.parametrize("first", ["paused", "stopped"])
def test_a_connector_begins_in_its_state(operator: Operator, first: Any) -> None:
    operator.reconcile(wanted(operator, state=first))
    # A release without POST creates the connector as running, and changes its state with the next reconciliation.
    wait_for(lambda: state(operator) != "UNASSIGNED", 60, "it has a state", every_s=0.02)
    operator.reconcile(wanted(operator, state=first))
    becomes(operator, first.upper())


def test_the_state_follows_the_resource(operator: Operator) -> None:
    operator.reconcile(wanted(operator))
    becomes(operator, "RUNNING")
    for wish in ("paused", "running", "stopped", "paused", "stopped", "running"):
        operator.reconcile(wanted(operator, state=wish))
        becomes(operator, wish.upper())


def test_another_configuration_is_taken_over(operator: Operator) -> None:
    operator.reconcile(wanted(operator))
    becomes(operator, "RUNNING")
    changed = wanted(operator)
    changed[NAME] = replace(changed[NAME], config={**changed[NAME].config, "tasks.max": "3"})
    operator.reconcile(changed)
    assert operator.expect("GET", f"/connectors/{NAME}/config", 200) == changed[NAME].config


def test_offsets_are_listed_altered_and_reset(operator: Operator) -> None:
    operator.reconcile(wanted(operator))
    becomes(operator, "RUNNING")
    with pytest.raises(OperatorError, match="is not in STOPPED state"):
        operator.reconcile(wanted(operator, offsets="reset"))
    operator.reconcile(wanted(operator, state="stopped"))
    becomes(operator, "STOPPED")
    place = {"partition": {"group": "g", "topic": "a.t", "partition": 1}, "offset": {"offset": 0}}
    for annotation, offsets in (("alter", {"offsets": [place]}), ("list", None), ("reset", None)):
        operator.reconcile(wanted(operator, state="stopped", offsets=annotation, alter_to=offsets))
    assert operator.listed[NAME] == {"offsets": [place]}
    assert operator.expect("GET", f"/connectors/{NAME}/offsets", 200) == {"offsets": []}


def test_restarts_are_accepted(operator: Operator) -> None:
    operator.reconcile(wanted(operator))
    wait_for(lambda: len(operator.ask("GET", f"/connectors/{NAME}/tasks")[1]) == 1, 60, "it has a task", every_s=0.02)
    operator.reconcile(wanted(operator, restart="includeTasks,onlyFailed"))
    operator.reconcile(wanted(operator, restart="includeTasks", restart_task=0))
    becomes(operator, "RUNNING")


def test_a_connector_that_has_left_the_resource_is_deleted(operator: Operator) -> None:
    operator.reconcile(wanted(operator))
    operator.reconcile({})
    assert operator.expect("GET", "/connectors", 200) == []
    assert operator.log[-2].status == 404
